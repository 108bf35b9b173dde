"""Foreign keys on Spark and Delta tables: the same views, the same policy, the same tables of results as on DuckDB.

The delta computation is the question whether keys can be relied on, which the driver or Spark answers, and the query
that computes the change, whose rows are few and go to the driver, or many and are written; of the parts of
`foreign-key-materialized` the same two. Rows read are those of the report.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import Schema

import viewkeep
from bench.fk_views import View
from bench.foreign_keys import QUICK, Place, Watch, compare, scales
from bench.measure import VIEW, BenchmarkError, seconds
from bench.spark.warehouse import Reference, database_of, warehouse
from bench.tables import Result
from viewkeep.engine.delta_log import CHANGES_FOLDER
from viewkeep.engine.spark import written_files
from viewkeep.runtime.lake.maintenance import Maintenance

_FILE_ROWS = 1_000_000
SCALES = scales(5.0, tpcds=1.0, tpch=1.0)
"""Facts of 14 million rows. With fewer, what a Spark job costs before it reads a row hides what it reads; the other
views would take hours."""
_ASK, _COMPUTE = Maintenance._violated, Maintenance._from_driver
"""Whether keys can be relied on, asked in the driver or in Spark; and what the driver computes of a change."""


def foreign_keys(quick: bool = False) -> Result:
    with TemporaryDirectory(prefix="viewkeep-bench-") as folder:
        return compare(Lake(folder), QUICK if quick else SCALES, 1 if quick else 3, quick)


class Lake(Place):
    name = "spark-foreign-keys"
    counts_apart = False

    def __init__(self, folder: str) -> None:
        self._folder = folder
        """The files of the last tables: each strategy starts from the same ones."""
        self._made: dict[str, pa.Table] = {}

    def open(self) -> Any:
        return warehouse()

    def fill(self, keeper: viewkeep.Keeper, table: str, rows: pa.Table) -> None:
        """Files as another program would have written them, and one commit."""
        db = database_of(keeper)
        made, location = os.path.join(self._folder, table), os.path.join(db.warehouse.folder, table)
        if self._made.get(table) is not rows:
            shutil.rmtree(made, ignore_errors=True)
            os.makedirs(made)
            for number, start in enumerate(range(0, max(rows.num_rows, 1), _FILE_ROWS)):
                pq.write_table(rows.slice(start, _FILE_ROWS), os.path.join(made, f"{number}.parquet"))
            self._made[table] = rows
        shutil.copytree(made, os.path.join(location, "made"), copy_function=os.link)
        db.warehouse.format.create(location, Schema.from_arrow(rows.schema).to_json(), written_files(location, "made"))
        db.forget_schema()

    def change(self, keeper: viewkeep.Keeper, table: str, key: Sequence[str], come: pa.Table, go: pa.Table) -> None:
        moved = [
            rows.append_column("_w", pa.array([weight] * rows.num_rows, pa.int32()))
            for rows, weight in ((come, 1), (go, -1))
            if rows.num_rows
        ]
        if moved:
            keeper.apply(table, pa.concat_tables(moved))

    def watch(self, keeper: viewkeep.Keeper) -> Watch:
        return Jobs(keeper)

    def recompute(self, keeper: viewkeep.Keeper, view: View) -> float:
        reference = Reference(keeper, view.query, view.tables)
        spent = seconds(reference.recompute)
        reference.drop()
        return spent

    def check(self, keeper: viewkeep.Keeper, view: View) -> None:
        """By a sum of hashes of rows, as on DuckDB."""
        db = database_of(keeper)
        told = "SELECT COUNT(*), SUM(CAST(XXHASH64(*) AS DECIMAL(38, 0))) FROM"
        queries = (f"SELECT * FROM {VIEW}", view.query)
        kept, wanted = (db.frame(f"{told} ({query})").collect() for query in queries)
        if kept != wanted:
            raise BenchmarkError(f"{view.name} is not equal to its query: {kept} is not {wanted}")


class Jobs(Watch):
    def __init__(self, keeper: viewkeep.Keeper) -> None:
        self._guard = self._change = 0.0
        self._inside, self._keeper = False, keeper
        engine: Any = keeper.engine
        for name in ("collect", "write", "write_few"):
            setattr(engine, name, self._timed(getattr(engine, name)))
        Maintenance._violated = self._around(_ASK, "_guard")  # type: ignore[method-assign]
        Maintenance._from_driver = self._around(_COMPUTE, "_change")  # type: ignore[method-assign]

    def _timed(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*given: Any) -> Any:
            if self._inside:
                return run(*given)
            self._inside, begun = True, time.perf_counter()
            try:
                return run(*given)
            finally:
                self._inside = False
                if len(given) == 1 or CHANGES_FOLDER in given:  # fetched by the driver, or written by Spark
                    self._change += time.perf_counter() - begun

        return wrapped

    def _around(self, run: Callable[..., Any], spent: str) -> Callable[..., Any]:
        def wrapped(*given: Any) -> Any:
            self._inside, begun = True, time.perf_counter()
            try:
                return run(*given)
            finally:
                self._inside = False
                setattr(self, spent, getattr(self, spent) + time.perf_counter() - begun)

        return wrapped

    def start(self) -> None:
        self._guard = self._change = 0.0

    def delta(self) -> float:
        return self._guard + self._change

    def guard(self) -> float:
        return self._guard

    def rows(self) -> int:
        return self._keeper.history(VIEW)[-1].rows_read
