"""One change of a table, one commit: rows are written first, then they become part of the table or are removed.

Every change of rows is a weighted change: it is computed by Spark, written beside the table so that
views need not find it out from rewritten files, and committed together with the files that it makes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from viewkeep.catalog import Table, TableName
from viewkeep.emit.files import merge_rows
from viewkeep.emit.statements import query_sql
from viewkeep.engine.delta_log import CHANGES_FOLDER, arrow_schema
from viewkeep.engine.local import is_simple
from viewkeep.engine.spark import DIALECT, SPARK_ERRORS, cannot_write, col, discard, translate
from viewkeep.engine.table_format import CommitConflict, DataFile, NewFile, Recorded, Snapshot
from viewkeep.errors import ChangeError, EngineError, ViewkeepError
from viewkeep.plan.nodes import Field, Fresh, Scan
from viewkeep.runtime.batches import WEIGHT, check_batch, check_load, named_as
from viewkeep.runtime.lake.pruning import prune
from viewkeep.runtime.lake.rewriting import Rewriting, small_enough
from viewkeep.runtime.lake.sources import schema_of
from viewkeep.runtime.lake.staged import Staged
from viewkeep.runtime.lake.through_delta import ThroughDelta
from viewkeep.strategy import names
from viewkeep.strategy.files import CHANGE, TOUCHED, rows_after
from viewkeep.strategy.layout import BagLayout
from viewkeep.strategy.pruning import bind_scans

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from viewkeep.runtime.lake.database import LakeDatabase

_ATTEMPTS = 10
_SMALL_LOAD = 100_000
"""Rows up to which a batch is written by the driver: a Spark job would take longer to start."""
UNDONE = "nothing was changed"


class Writing:
    def __init__(self, db: LakeDatabase) -> None:
        self.db, self.format, self.delta = db, db.warehouse.format, ThroughDelta(db)

    # ------------------------------------------------------------------ what a statement describes
    def append(self, table: Table, rows: Callable[[], DataFrame], overwrite: bool = False) -> None:
        """All rows of a query, in place of those that are there or beside them."""

        def work(attempt: Attempt) -> None:
            files = attempt.write(rows())
            removed = attempt.snapshot.files if overwrite else ()
            if files or removed:
                self.format.commit(attempt.snapshot, files, removed)

        self._attempt(table, work)

    def clear(self, table: Table) -> None:
        def work(attempt: Attempt) -> None:
            if attempt.snapshot.through_engine:
                self.delta.clear(attempt.snapshot)
            elif attempt.snapshot.files:
                self.format.commit(attempt.snapshot, (), attempt.snapshot.files)

        self._attempt(table, work)

    def change(self, table: Table, rows: Callable[[], DataFrame]) -> None:
        """Weighted rows: what comes, and what goes."""

        def work(attempt: Attempt) -> None:
            weighted = StructType([StructField(names.WEIGHT, IntegerType()), *schema_of(attempt.snapshot).fields])
            written = attempt.write(rows(), weighted, CHANGES_FOLDER)
            if not written:
                return
            staged = Staged.of(attempt.snapshot.location, written)
            came = staged.count(lambda t: pc.greater(t.column(names.WEIGHT), 0))
            if came is None:
                with self.db.spark.counted():
                    frame = self.db.spark.files(staged.files, weighted)
                    came = frame.where(sf.col(names.WEIGHT) > 0).count()
            self._commit_change(table, attempt, staged, came, staged.rows - came)

        self._attempt(table, work)

    # ------------------------------------------------------------------ batches
    def load(self, table: Table, data: pa.Table) -> int:
        """Append all rows; how many."""
        check_load(table, data)
        rows = named_as(table, data)

        def work(attempt: Attempt) -> None:
            fitted = fit(rows, attempt.snapshot, table)
            if attempt.snapshot.through_engine:
                self.delta.append(attempt.snapshot, fitted)
            elif files := attempt.write_batch(fitted):
                self.format.commit(attempt.snapshot, files)

        self._attempt(table, work)
        return int(data.num_rows)

    def apply(self, table: Table, data: pa.Table) -> tuple[int, int]:
        """Net the batch, remove what it removes, add what it adds; how many of each."""
        rows = named_as(table, check_batch(table, data))
        counts = (0, 0)

        def work(attempt: Attempt) -> None:
            nonlocal counts
            units = _net(fit(rows, attempt.snapshot, table), data.column(WEIGHT))
            counts = self._apply(table, attempt, units)

        self._attempt(table, work)
        return counts

    def _apply(self, table: Table, attempt: Attempt, units: pa.Table) -> tuple[int, int]:
        """Changes that are in the driver, one row a unit."""
        came = pc.sum(pc.greater(units.column(names.WEIGHT), 0).cast(pa.int64())).as_py() or 0
        gone = units.num_rows - came
        if attempt.snapshot.through_engine:
            self.delta.apply(table, attempt.snapshot, units)
        elif gone:
            staged = Staged.of(attempt.snapshot.location, attempt.write_arrow(units, CHANGES_FOLDER))
            self._commit_change(table, attempt, staged, came, gone)
        elif came:
            files = attempt.write_batch(units.drop_columns([names.WEIGHT]))
            self.format.commit(attempt.snapshot, files)
        return came, gone

    # ------------------------------------------------------------------ one commit
    def _commit_change(self, table: Table, attempt: Attempt, staged: Staged, came: int, gone: int) -> None:
        """Write the touched files again without what goes and with what comes, and commit both."""
        layout, spark, snapshot = _layout(table), self.db.spark, attempt.snapshot
        wanted = []
        for column in table.columns:
            values = staged.values(column.name, lambda t: pc.less(t.column(names.WEIGHT), 0))
            if values is not None:
                wanted.append((column.name, values))
        touched = prune(snapshot.files, wanted) if gone else ()
        replaced: Sequence[DataFile] = touched
        if (rewritten := self._in_driver(attempt, layout, staged, touched)) is not None:
            files, replaced = rewritten
        else:
            weighted = StructType([StructField(names.WEIGHT, IntegerType()), *schema_of(snapshot).fields])
            bound = {
                CHANGE: spark.name(spark.files(staged.files, weighted), "batch"),
                TOUCHED: spark.name(self.db.sources().stored(snapshot, touched), "touched"),
            }
            plan = bind_scans(rows_after(layout, Fresh()), frozenset({CHANGE}), lambda r: TableName(bound[r.table]))
            files = attempt.write(spark.sql(query_sql(plan, layout.columns, DIALECT).sql(dialect=DIALECT)))
        found = sum(f.rows for f in replaced) + came - sum(f.rows for f in files)
        if found != gone:
            raise ChangeError(
                f"the batch deletes {gone} rows of {str(table.name)!r}; {gone - found} of them are not there",
                hint="nothing was changed; all columns must match, NULLs included",
            )
        self.format.commit(snapshot, files, replaced, Recorded(staged.folder, came, gone))

    def _in_driver(
        self, attempt: Attempt, layout: BagLayout, staged: Staged, touched: Sequence[DataFile]
    ) -> tuple[list[NewFile], Sequence[DataFile]] | None:
        """The touched files written again without Spark: new ones, and those that they are in place of. None where
        Spark has to do it."""
        snapshot = attempt.snapshot
        wanted = arrow_schema(snapshot.schema)
        if staged.known is None or not small_enough(touched) or snapshot.partitioned_by:
            return None
        rewriting = Rewriting(self.db.local, snapshot.location, wanted, touched)
        if not rewriting.alike or not all(is_simple(f.type) for f in wanted):
            return None
        try:
            files, replaced = rewriting.files(merge_rows(layout), staged.known)
            return attempt.keep(files), replaced
        except (EngineError, pa.ArrowInvalid):  # Spark says better what is wrong
            return None

    def _attempt(self, table: Table, work: Callable[[Attempt], None]) -> None:
        """A change holds for the version it was computed from: if another was first, compute it again."""
        for number in range(_ATTEMPTS):
            attempt = Attempt(self.db, self.db.warehouse.snapshot(table.name))
            try:
                work(attempt)
                return
            except CommitConflict:
                attempt.undo()
                time.sleep(0.01 * 2**number)
            except Exception as error:
                attempt.undo()
                raise _told(attempt.snapshot, error) from error
        raise ChangeError(f"table {str(table.name)!r} kept changing while it was changed", hint="try again later")


class Attempt:
    """One try to change a table from a snapshot on. What it writes is removed if it comes to nothing."""

    def __init__(self, db: LakeDatabase, snapshot: Snapshot) -> None:
        self.spark, self.snapshot = db.spark, snapshot
        self._written: list[NewFile] = []

    def write(self, frame: DataFrame, schema: StructType | None = None, folder: str = "") -> list[NewFile]:
        """Rows with the columns and types of a table, none of them NULL where the table forbids it.

        `schema`, `folder`: for rows that are written beside the table."""
        partitioned_by = self.snapshot.partitioned_by
        typed = []
        for field in (schema or schema_of(self.snapshot)).fields:
            value = col(field.name).cast(field.dataType)
            if field.name in partitioned_by and isinstance(field.dataType, StringType):
                value = sf.nullif(value, sf.lit(""))  # partitions cannot tell them apart
            if not field.nullable:
                refused = sf.raise_error(sf.lit(f"column {field.name!r} must not be NULL"))
                value = sf.when(value.isNull(), refused.cast(field.dataType)).otherwise(value)
            typed.append(value.alias(field.name))
        chosen = frame.select(*typed)
        return self.keep(self.spark.write(chosen, self.snapshot.location, folder, () if folder else partitioned_by))

    def write_arrow(self, rows: pa.Table, folder: str = "") -> list[NewFile]:
        return self.keep(self.spark.write_arrow(rows, self.snapshot.location, folder))

    def write_batch(self, rows: pa.Table) -> list[NewFile]:
        """Rows that are in the driver, in the types of the table."""
        if not rows.num_rows:
            return []
        if rows.num_rows <= _SMALL_LOAD and not self.snapshot.partitioned_by:
            return self.write_arrow(rows)
        return self.write(self.spark.session.createDataFrame(rows))

    def keep(self, written: list[NewFile]) -> list[NewFile]:
        """Remember what to remove."""
        self._written += written
        return written

    def undo(self) -> None:
        discard(self.snapshot.location, self._written)


def _told(snapshot: Snapshot, error: Exception) -> Exception:
    """An error as its user should see it."""
    match error:
        case ViewkeepError():
            return error.hinting(UNDONE)
        case OSError():
            return cannot_write(snapshot.location, error)
        case _ if isinstance(error, SPARK_ERRORS):
            return translate(error).hinting(UNDONE)
        case _:
            return error


def fit(rows: pa.Table, snapshot: Snapshot, table: Table) -> pa.Table:
    """Rows in the types of their table."""
    wanted = arrow_schema(snapshot.schema)
    columns = []
    for field, column in zip(wanted, rows.columns, strict=True):
        try:
            columns.append(_cast(column, field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ChangeError(
                f"the batch does not fit table {str(table.name)!r}: column {field.name!r}: {error}",
                hint=UNDONE,
            ) from None
        if not field.nullable and column.null_count:
            raise ChangeError(
                f"the batch does not fit table {str(table.name)!r}: column {field.name!r} must not be NULL",
                hint=UNDONE,
            )
    return pa.table(columns, schema=wanted)


def _cast(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if column.type == wanted:
        return column
    if pa.types.is_integer(column.type) and pa.types.is_decimal(wanted):
        # By way of a decimal that has room for any whole number; then each value must fit, not each type.
        column = column.cast(pa.decimal128(38, wanted.scale)) if wanted.scale <= 19 else column
    return column.cast(wanted)


def _net(rows: pa.Table, weights: pa.ChunkedArray) -> pa.Table:
    """Equal rows summed, zeros gone, each as often as its weight says."""
    labels = [f"c{i}" for i in range(rows.num_columns)]
    marked = pa.table([*rows.columns, weights.cast(pa.int64())], names=[*labels, "w"])
    try:
        summed = marked.group_by(labels, use_threads=False).aggregate([("w", "sum")])
        summed = summed.filter(pc.not_equal(summed.column("w_sum"), 0))
    except pa.ArrowNotImplementedError:  # nested values cannot be grouped: changes that cancel stay in
        summed = marked.rename_columns([*labels, "w_sum"])
        summed = summed.filter(pc.not_equal(summed.column("w_sum"), 0))
    totals = summed.column("w_sum").to_numpy()
    repeated = summed.select(labels).take(pa.array(np.repeat(np.arange(len(totals)), np.abs(totals))))
    signs = pa.array(np.repeat(np.sign(totals), np.abs(totals)).astype("int32"))
    return pa.table(
        [signs, *repeated.columns],
        schema=pa.schema([pa.field(names.WEIGHT, pa.int32()), *(f.with_nullable(True) for f in rows.schema)]),
    )


def _layout(table: Table) -> BagLayout:
    """A table as a view of its own rows, which are found by value: its declared keys may not hold."""
    columns = tuple(c.name for c in table.columns)
    fields = tuple(Field(f"c_{i}", c.type) for i, c in enumerate(table.columns, 1))
    scan = Scan(table.name, tuple(zip(fields, columns, strict=True)))
    return BagLayout(table.name, columns, fields, columns, scan, scan, False, None, "rows are found by value")
