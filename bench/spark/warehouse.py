"""A warehouse to measure in, and the plain way it is compared with: run the query, write it, commit it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import viewkeep
from viewkeep.runtime.lake.sources import schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@contextmanager
def warehouse() -> Iterator[viewkeep.Keeper]:
    """A keeper over an empty folder that is removed afterwards; all of them share the session of the process."""
    with tempfile.TemporaryDirectory(prefix="viewkeep-bench-") as folder:
        keeper = viewkeep.connect(f"spark:///{folder}")
        try:
            yield keeper
        finally:
            catalog = database_of(keeper).spark.session.catalog
            for table in os.listdir(folder):  # a Reference reads them under their names, which outlive the folder
                catalog.dropTempView(table)
            keeper.close()


def database_of(keeper: viewkeep.Keeper) -> Any:
    """What is below the keeper: the benchmarks fill tables and recompute without viewkeep's own machinery."""
    return keeper._db


def fill(keeper: viewkeep.Keeper, table: str, frame: DataFrame) -> None:
    """A new table from rows that Spark makes: written as files and committed, as any other program would."""
    db = database_of(keeper)
    location = os.path.join(db.warehouse.folder, table)
    files = db.spark.write(frame, location)
    db.warehouse.format.create(location, frame.schema.json(), files)
    db.forget_schema()


def view_location(keeper: viewkeep.Keeper, view: str) -> str:
    db = database_of(keeper)
    return str(db.stored.location(db.views[view]))


@dataclass(slots=True)
class Reference:
    """The query of a view, kept as a Delta table by someone who runs it again and replaces the table."""

    keeper: viewkeep.Keeper
    query: str
    tables: Sequence[str]
    name: str = "bench_reference"

    def recompute(self) -> None:
        """Nothing but Spark and one commit: tables read from their logs, the result written, the old files replaced."""
        db = database_of(self.keeper)
        spark, format_, root = db.spark, db.warehouse.format, db.warehouse.folder
        for table in self.tables:
            snapshot = format_.snapshot(os.path.join(root, table))
            reader = spark.session.read.schema(schema_of(snapshot))
            reader.parquet(*(f.path for f in snapshot.files)).createOrReplaceTempView(table)
        frame = spark.session.sql(self.query)
        # The underscore keeps the catalog from taking it for a table of the warehouse.
        location = os.path.join(root, "_viewkeep", self.name)
        if not format_.is_table(location):
            format_.create(location, frame.schema.json(), spark.write(frame, location))
            return
        before = format_.snapshot(location)
        format_.commit(before, spark.write(frame, location), before.files)

    def drop(self) -> None:
        for table in self.tables:
            database_of(self.keeper).spark.session.catalog.dropTempView(table)
