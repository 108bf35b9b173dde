"""Changing tables through Delta Lake's Spark extension: those that cannot be written as files and log entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf
from sqlglot import exp

from viewkeep.catalog import Table
from viewkeep.engine.delta_spark import rows_at
from viewkeep.engine.spark import DIALECT, col
from viewkeep.engine.table_format import Snapshot
from viewkeep.errors import ChangeError
from viewkeep.sql.rewording import text_of
from viewkeep.strategy import names

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from viewkeep.runtime.lake.database import LakeDatabase

_TARGET = "_vk_target"
_FRESH = "_vk_fresh"
_COPIES = "_vk_copies"


class ThroughDelta:
    def __init__(self, db: LakeDatabase) -> None:
        self.db = db

    def run(self, tree: exp.Expr, table: Table) -> None:
        """A statement as the user wrote it: the extension has all forms of it, or says which it has not."""
        location, copy = self.db.warehouse.location(table.name), tree.copy()
        target = copy.this.this if isinstance(copy.this, exp.Schema) else copy.this
        alias = target.alias or target.name
        target.replace(exp.to_table(_TARGET))  # no stand-in: this is the one that is written
        bound = self.db.bound(copy, self.db.sources())
        written = next(t for t in bound.find_all(exp.Table) if t.name == _TARGET)
        path = exp.Table(this=exp.to_identifier(location, quoted=True), db=exp.to_identifier("delta"))
        if isinstance(bound, exp.Delete | exp.Update | exp.Merge):
            path.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
        written.replace(path)
        self.db.spark.sql(text_of(bound, DIALECT))
        if isinstance(tree, exp.Alter):
            self.db.forget_schema()

    def clear(self, snapshot: Snapshot) -> None:
        path = exp.Table(this=exp.to_identifier(snapshot.location, quoted=True), db=exp.to_identifier("delta"))
        self.db.spark.sql(exp.Delete(this=path).sql(dialect=DIALECT))

    def append(self, snapshot: Snapshot, rows: pa.Table) -> None:
        if rows.num_rows:
            with self.db.spark.counted():
                self._frame(rows).write.format("delta").mode("append").save(snapshot.location)

    def apply(self, table: Table, snapshot: Snapshot, units: pa.Table) -> None:
        """Changes, one row a unit. A MERGE takes out all copies of a row: those that stay are put back by it."""
        weights = units.column(names.WEIGHT)
        rows = units.drop_columns([names.WEIGHT])
        came, gone = rows.filter(pc.greater(weights, 0)), rows.filter(pc.less(weights, 0))
        if not gone.num_rows:
            self.append(snapshot, came)
            return
        labels = [f"_vk_c{i}" for i in range(rows.num_columns)]
        wanted = self._frame(gone).toDF(*labels).groupBy(*labels).agg(sf.count("*").alias(_COPIES))
        present = rows_at(self.db.spark, snapshot).join(sf.broadcast(wanted), _equal(table, labels))
        found = self.db.spark.collect(
            present.groupBy(*labels, _COPIES).agg((sf.count("*") - sf.col(_COPIES)).alias("left"))
        )
        left = found.column("left").to_pylist()
        held = sum(found.column(_COPIES).to_pylist()) + sum(n for n in left if n < 0)
        if held != gone.num_rows:
            raise ChangeError(
                f"the batch deletes {gone.num_rows} rows of {str(table.name)!r}; "
                f"{gone.num_rows - held} of them are not there",
                hint="nothing was changed; all columns must match, NULLs included",
            )
        stay = found.select(labels).take(pa.array([i for i, n in enumerate(left) for _ in range(n)], pa.int64()))
        parts = [self._frame(came).toDF(*labels)] if came.num_rows else []
        parts += [self._frame(stay)] if stay.num_rows else []
        source = wanted.select(*labels, sf.lit(False).alias(_FRESH))
        for part in parts:
            source = source.unionAll(part.select(*labels, sf.lit(True).alias(_FRESH)))
        fresh = sf.col(_FRESH)
        merge = source.mergeInto(f"delta.`{snapshot.location.replace('`', '``')}`", ~fresh & _equal(table, labels))
        new = {f"`{c.name}`": sf.col(label) for c, label in zip(table.columns, labels, strict=True)}
        with self.db.spark.counted():
            merge.whenMatched().delete().whenNotMatched(fresh).insert(new).merge()

    def _frame(self, rows: pa.Table) -> DataFrame:
        return self.db.spark.session.createDataFrame(rows)


def _equal(table: Table, labels: list[str]) -> Column:
    found = sf.lit(True)
    for column, label in zip(table.columns, labels, strict=True):
        found = found & col(column.name).eqNullSafe(sf.col(label))
    return found
