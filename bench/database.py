"""A database to measure in: in memory, or on a file in a folder that is removed afterwards."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pyarrow as pa

import viewkeep

PLACES = ("memory", "file")

# Where the view's query is stored anew, to compare with: a database of its own. In the one that is measured, its rows
# would count towards DuckDB's next checkpoint, and the refresh that happens to commit then would pay for them.
REFERENCE = "reference.recomputed"


@contextmanager
def database(place: str, clock: Callable[[], datetime] | None = None) -> Iterator[viewkeep.Keeper]:
    with tempfile.TemporaryDirectory(prefix="viewkeep-bench-") as folder:
        url = "duckdb://" if place == "memory" else f"duckdb:///{Path(folder) / 'bench.duckdb'}"
        keeper = viewkeep.connect(url, clock=clock)
        try:
            # Whatever spills must not land in the folder the benchmark was started from.
            keeper.engine.execute(f"SET temp_directory = '{Path(folder) / 'spill'}'")
            beside = ":memory:" if place == "memory" else Path(folder) / "reference.duckdb"
            keeper.engine.execute(f"ATTACH '{beside}' AS reference")
            yield keeper
        finally:
            keeper.close()


def create_view(keeper: viewkeep.Keeper, query: str, policy: str = "incremental", changes: str = "keep") -> None:
    keeper.sql(f"CREATE MATERIALIZED VIEW kept WITH (policy = '{policy}', changes = '{changes}') AS {query}")


def delete_by(keeper: viewkeep.Keeper, table: str, column: str, ids: pa.Table) -> None:
    """One SQL DELETE for all the ids, as an application would write it."""
    with keeper.engine.bound("bench_gone", ids):
        keeper.sql(f"DELETE FROM {table} WHERE {column} IN (SELECT {column} FROM bench_gone)")
