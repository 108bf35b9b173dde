"""TPC-H data from `tpchgen-cli`, made once a scale, and batches like those of its refresh functions.

The files are linked into a warehouse as they are and committed, so a table of any size is there in moments.
They lie outside of the repository: in the folder VIEWKEEP_BENCH_DATA, or one below the system's temporary folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import Schema

import viewkeep
from bench.data_folder import data_folder
from bench.measure import BenchmarkError
from bench.spark.warehouse import database_of
from viewkeep.engine.spark import written_files

TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
KEYS = {
    "region": ["r_regionkey"],
    "nation": ["n_nationkey"],
    "supplier": ["s_suppkey"],
    "customer": ["c_custkey"],
    "part": ["p_partkey"],
    "partsupp": ["ps_partkey", "ps_suppkey"],
    "orders": ["o_orderkey"],
    "lineitem": ["l_orderkey", "l_linenumber"],
}
_DONE = ".complete"
_NEW = 8
"""Keys of orders are used by eights: eight of them, then twenty-four free ones. New orders take free ones."""


def generated(scale: float) -> Path:
    """The folder of a scale, with a folder of Parquet files for each table."""
    folder = data_folder() / f"tpch-{scale:g}"
    if (folder / _DONE).exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # About a million line items a file, in row groups of the size that Spark writes.
    parts = max(round(6 * scale), 1)
    subprocess.run(
        [
            generator(), "parquet", f"--scale-factor={scale:g}", f"--parts={parts}", "--row-group-bytes=128MB",
            "--field-ids=false", "--quiet", "--output-dir", str(folder),
        ],
        check=True,
    )  # fmt: skip
    (folder / _DONE).touch()
    return folder


def generator() -> str:
    beside = Path(sys.executable).parent / "tpchgen-cli"
    found = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if found is None:
        raise BenchmarkError("tpchgen-cli is not installed: pip install tpchgen-cli")
    return found


def load(keeper: viewkeep.Keeper, scale: float) -> Orders:
    """All eight tables, with the keys that TPC-H declares."""
    folder, db = generated(scale), database_of(keeper)
    for table in TABLES:
        location = os.path.join(db.warehouse.folder, table)
        os.makedirs(os.path.join(location, "made"))
        for path in sorted((folder / table).glob("*.parquet")):
            _link(path, Path(location) / "made" / path.name)
        schema = Schema.from_arrow(_plain(pq.read_schema(next((folder / table).glob("*.parquet")))))
        db.warehouse.format.create(location, schema.to_json(), written_files(location, "made"))
    db.forget_schema()
    for table, key in KEYS.items():
        keeper.declare_key(table, key)
    return Orders(folder, scale)


def _link(path: Path, to: Path) -> None:
    try:
        os.link(path, to)
    except OSError:  # another file system
        shutil.copyfile(path, to)


def _plain(schema: pa.Schema) -> pa.Schema:
    """Text as Delta and Spark know it."""
    return pa.schema([pa.field(f.name, pa.string() if pa.types.is_string_view(f.type) else f.type) for f in schema])


@dataclass(slots=True)
class Orders:
    """New orders, orders that go, and customers that move; each call takes the next ones."""

    folder: Path
    scale: float
    _batch: int = 0

    def change(self, keeper: viewkeep.Keeper, orders: int, deletes: bool, customers: bool) -> None:
        """`orders` new ones with their line items; with `deletes` as many go; with `customers` a few of them change."""
        width = orders * 4  # a quarter of the keys is used
        first = 2 * self._batch * width + 1
        self._batch += 1
        if first + 2 * width > 6_000_000 * self.scale:
            raise BenchmarkError("there are no more orders to change: the data is too small for so many batches")
        for table, key in (("orders", "o_orderkey"), ("lineitem", "l_orderkey")):
            came = self._rows(table, key, first, first + width)
            moved = pc.add(came.column(key), pa.scalar(_NEW, came.schema.field(key).type))
            came = came.set_column(came.schema.get_field_index(key), came.schema.field(key), moved)
            parts = [_weighted(came, 1)]
            if deletes:
                parts.append(_weighted(self._rows(table, key, first + width, first + 2 * width), -1))
            keeper.apply(table, pa.concat_tables(parts))
        if customers:
            self._move_customers(keeper, max(orders // 10, 1))

    def _move_customers(self, keeper: viewkeep.Keeper, count: int) -> None:
        """Customers get another segment and balance."""
        first = self._batch * count + 1
        before = self._rows("customer", "c_custkey", first, first + count)
        segments = pc.if_else(pc.equal(before.column("c_mktsegment"), "BUILDING"), "MACHINERY", "BUILDING")
        at = before.schema.get_field_index("c_mktsegment")
        after = before.set_column(at, before.schema.field(at), segments)
        keeper.apply("customer", pa.concat_tables([_weighted(before, -1), _weighted(after, 1)]))

    def _rows(self, table: str, key: str, low: int, high: int) -> pa.Table:
        files = sorted((self.folder / table).glob("*.parquet"))
        schema = _plain(pq.read_schema(files[0]))  # texts as Arrow can filter them
        return pq.read_table(files, schema=schema, filters=[(key, ">=", low), (key, "<", high)], partitioning=None)


def _weighted(rows: pa.Table, weight: int) -> pa.Table:
    return rows.append_column("_w", pa.array([weight] * rows.num_rows, pa.int32()))
