"""Changing the tables of a warehouse: what `keeper.sql`, `keeper.load` and `keeper.apply` do to them.

Every change of rows is a weighted change: it is computed by Spark, written beside the table so that
views need not find it out from rewritten files, and committed together with the files that it makes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, IntegerType, StructField, StructType
from sqlglot import exp

from viewkeep.catalog import Column, Kind, Table, TableName
from viewkeep.emit.select import identifier
from viewkeep.emit.statements import query_sql
from viewkeep.engine.delta_log import CHANGES_FOLDER, arrow_schema
from viewkeep.engine.spark import DIALECT, translate
from viewkeep.engine.table_format import CommitConflict, NewFile, Recorded, Snapshot
from viewkeep.errors import CatalogError, ChangeError, SqlError
from viewkeep.plan.nodes import Field, Fresh, Scan
from viewkeep.runtime.batches import WEIGHT, check_batch, check_load, named_as
from viewkeep.runtime.lake.pruning import prune
from viewkeep.runtime.lake.sources import schema_of
from viewkeep.runtime.lake.staged import Staged
from viewkeep.runtime.lake.warehouse import catalog_type, spark_type
from viewkeep.sql.schema import table_of
from viewkeep.sql.statements import table_name
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


class Tables:
    def __init__(self, db: LakeDatabase) -> None:
        self.db, self.warehouse = db, db.warehouse

    # ------------------------------------------------------------------ statements
    def execute(self, tree: exp.Expr, dialect: str) -> None:
        match tree:
            case exp.Create() if tree.kind == "TABLE":
                self._create_table(tree, dialect)
            case exp.Create() if tree.kind == "VIEW" and not _is_temporary(tree):
                self._create_plain_view(tree)
            case exp.Create() if tree.kind in ("SCHEMA", "DATABASE"):
                os.makedirs(os.path.join(self.warehouse.folder, tree.this.text("db") or tree.this.name), exist_ok=True)
            case exp.Drop():
                self._drop(tree)
            case exp.Insert():
                self._insert(tree)
            case exp.Delete():
                self._delete(tree)
            case exp.Update():
                self._update(tree)
            case exp.TruncateTable():
                for target in tree.expressions:
                    self._clear(self._target(target))
            case exp.Alter():
                raise SqlError(
                    "ALTER TABLE is not available on Spark through the log alone",
                    hint="make a new table with CREATE TABLE … AS SELECT …",
                )
            case _:
                self.db.spark.sql(tree.sql(dialect=DIALECT))

    def _target(self, node: exp.Expr) -> Table:
        inner = node.this if isinstance(node, exp.Schema) else node
        name = table_name(inner)
        if self.db.catalog().find(name) is None and (error := self.warehouse.unreadable(name)):
            raise error
        return self.db.base_table(str(name))

    # ------------------------------------------------------------------ tables come and go
    def _create_table(self, tree: exp.Create, dialect: str) -> None:
        schema = tree.this if isinstance(tree.this, exp.Schema) else None
        name = table_name(schema.this if schema is not None else tree.this)
        existing = self.db.catalog().find(name)
        if existing is not None:
            if tree.args.get("exists"):
                return
            if not (tree.args.get("replace") and existing.kind is Kind.BASE):
                raise CatalogError(f"{existing.kind.value} {str(name)!r} exists already", hint="choose another name")
        query = tree.expression
        frame = self.db.frame(query.sql(dialect=DIALECT)) if isinstance(query, exp.Query) else None
        if schema is not None and frame is None:
            table = table_of(schema, dialect)
            struct = StructType(
                [StructField(c.name, _data_type(self.db, c.type, c.name), c.nullable) for c in table.columns]
            )
        elif frame is not None:
            table, struct = None, frame.schema
        else:
            raise SqlError("CREATE TABLE needs columns or a query", hint="write CREATE TABLE t (a INT, …)")
        location = self.warehouse.location(name)
        files = self.db.spark.write(frame, location) if frame is not None and existing is None else []
        if existing is not None:
            # The rows may come from the very table that is replaced, so they are computed before it goes.
            kept = self.db.spark.collect(frame) if frame is not None else None
            self.warehouse.drop_table(existing.name)
            files = self.db.spark.write_arrow(kept, location) if kept is not None and kept.num_rows else []
        self.warehouse.format.create(location, _lenient(struct, frame is not None).json(), files)
        if table is not None and (table.keys or table.foreign_keys):
            self.warehouse.declare(name, list(table.keys), list(table.foreign_keys))
        self.db.forget_schema()

    def _create_plain_view(self, tree: exp.Create) -> None:
        schema = tree.this if isinstance(tree.this, exp.Schema) else None
        name = table_name(schema.this if schema is not None else tree.this)
        existing = self.db.catalog().find(name)
        if existing is not None:
            if tree.args.get("exists"):
                return
            if not (tree.args.get("replace") and existing.kind is Kind.PLAIN_VIEW):
                raise CatalogError(f"{existing.kind.value} {str(name)!r} exists already", hint="choose another name")
        text = tree.expression.sql(dialect=DIALECT)
        found, types = self.db.output(text)
        named = tuple(c.name for c in schema.expressions) if schema is not None else found
        if len(named) != len(found):
            raise SqlError(f"the view has {len(named)} names for {len(found)} columns")
        if named != found:
            columns = ", ".join(identifier(c).sql(dialect=DIALECT) for c in named)
            text = f"SELECT * FROM ({text}) AS renamed({columns})"
        listed = tuple(_column(n, t) for n, t in zip(named, types, strict=True))
        self.warehouse.put_plain_view(name, listed, text)
        self.db.forget_schema()

    def _drop(self, tree: exp.Drop) -> None:
        if tree.kind in ("SCHEMA", "DATABASE"):
            self._drop_schema(tree)
            return
        for node in tree.args.get("tables") or [tree.this]:
            name = table_name(node)
            found = self.db.catalog().find(name)
            if found is None:
                if self.warehouse.unreadable(name) is not None:
                    self.warehouse.drop_table(name)
                elif not tree.args.get("exists"):
                    self.db.catalog().get(name)
            elif found.kind is Kind.PLAIN_VIEW:
                self.warehouse.drop_plain_view(found.name)
            else:
                self.warehouse.drop_table(found.name)
        self.db.forget_schema()

    def _drop_schema(self, tree: exp.Drop) -> None:
        schema = tree.this.text("db") or tree.this.name
        inside = [t for t in self.db.catalog().tables.values() if t.name.schema == schema]
        if inside and not tree.args.get("cascade"):
            raise CatalogError(f"schema {schema!r} has tables", hint="drop them first, or write CASCADE")
        for table in inside:
            self.warehouse.drop_table(table.name)
        folder = os.path.join(self.warehouse.folder, schema)
        if os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)
        elif not tree.args.get("exists") and not os.path.isdir(folder):
            raise CatalogError(f"schema {schema!r} does not exist")
        self.db.forget_schema()

    # ------------------------------------------------------------------ rows come and go
    def _insert(self, tree: exp.Insert) -> None:
        table = self._target(tree.this)
        given = [c.name for c in tree.this.expressions] if isinstance(tree.this, exp.Schema) else None
        query = tree.expression
        if isinstance(query, exp.Values) or not isinstance(query, exp.Query):
            query = exp.select("*").from_(query.copy() if query is not None else exp.Values())
        columns = [c.name for c in table.columns]
        wanted = [table.column(c).name for c in given] if given is not None else columns

        def rows() -> DataFrame:
            frame = self.db.frame(query.sql(dialect=DIALECT))
            if len(frame.columns) != len(wanted):
                raise SqlError(f"{len(wanted)} columns of {str(table.name)!r} get {len(frame.columns)} values")
            named = frame.toDF(*wanted)
            missing = [sf.lit(None).alias(c) for c in columns if c not in wanted]
            return named.select("*", *missing)

        def attempt(snapshot: Snapshot) -> None:
            files = self._write(snapshot, rows())
            removed = snapshot.files if tree.args.get("overwrite") else ()
            if files or removed:
                self.warehouse.format.commit(snapshot, files, removed)

        self._retry(table, attempt)

    def _delete(self, tree: exp.Delete) -> None:
        table = self._target(tree.this)
        where = tree.args.get("where")
        if where is None:
            self._clear(table)
            return
        target = tree.this.copy()
        self._change(table, lambda: self._rows_where(table, target, where, [(-1, {})]))

    def _update(self, tree: exp.Update) -> None:
        table = self._target(tree.this)
        new: dict[str, exp.Expr] = {}
        for assignment in tree.expressions:
            if not isinstance(assignment, exp.EQ):
                raise SqlError("UPDATE … SET takes column = value")
            new[table.column(assignment.left.name).name] = assignment.right
        target, where = tree.this.copy(), tree.args.get("where")
        if tree.args.get("from_"):
            raise SqlError("UPDATE … FROM is not Spark SQL", hint="write MERGE INTO … USING …")
        self._change(table, lambda: self._rows_where(table, target, where, [(-1, {}), (1, new)]))

    def _rows_where(
        self, table: Table, target: exp.Expr, where: exp.Expr | None, images: list[tuple[int, dict[str, exp.Expr]]]
    ) -> DataFrame:
        """Rows that a condition picks, once for each image: a weight, and what is put in place of columns."""
        parts = []
        for weight, new in images:
            columns = [
                exp.alias_(new.get(c.name, exp.column(identifier(c.name))).copy(), identifier(c.name))
                for c in table.columns
            ]
            query = exp.select(exp.alias_(exp.Literal.number(weight), names.WEIGHT), *columns).from_(target.copy())
            if where is not None:
                query.set("where", where.copy())
            parts.append(self.db.frame(query.sql(dialect=DIALECT)))
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.unionAll(part)
        return whole

    def _clear(self, table: Table) -> None:
        def attempt(snapshot: Snapshot) -> None:
            if snapshot.files:
                self.warehouse.format.commit(snapshot, (), snapshot.files)

        self._retry(table, attempt)

    # ------------------------------------------------------------------ batches
    def load(self, table: Table, data: pa.Table) -> int:
        """Append all rows; how many."""
        check_load(table, data)
        rows = named_as(table, data)

        def attempt(snapshot: Snapshot) -> None:
            files = self._write_batch(snapshot, table, rows)
            if files:
                self.warehouse.format.commit(snapshot, files)

        self._retry(table, attempt)
        return int(data.num_rows)

    def _write_batch(self, snapshot: Snapshot, table: Table, rows: pa.Table) -> list[NewFile]:
        fitted = fit(rows, snapshot, table)
        if not fitted.num_rows:
            return []
        if fitted.num_rows <= _SMALL_LOAD:
            return self.db.spark.write_arrow(fitted, snapshot.location)
        return self._write(snapshot, self.db.spark.session.createDataFrame(fitted))

    def apply(self, table: Table, data: pa.Table) -> tuple[int, int]:
        """Net the batch, remove what it removes, add what it adds; how many of each."""
        rows = named_as(table, check_batch(table, data))
        counts = (0, 0)

        def attempt(snapshot: Snapshot) -> None:
            nonlocal counts
            units = _net(fit(rows, snapshot, table), data.column(WEIGHT))
            counts = self._apply(table, snapshot, units)

        self._retry(table, attempt)
        return counts

    # ------------------------------------------------------------------ one commit
    def _apply(self, table: Table, snapshot: Snapshot, units: pa.Table) -> tuple[int, int]:
        """Changes that are in the driver, one row a unit."""
        came = pc.sum(pc.greater(units.column(names.WEIGHT), 0).cast(pa.int64())).as_py() or 0
        gone = units.num_rows - came
        if not units.num_rows:
            return 0, 0
        if not gone:
            files = self._write_batch(snapshot, table, units.drop_columns([names.WEIGHT]))
            self.warehouse.format.commit(snapshot, files)
            return came, 0
        written = self.db.spark.write_arrow(units, snapshot.location, CHANGES_FOLDER)
        self._commit_change(table, snapshot, Staged.of(snapshot.location, written), came, gone)
        return came, gone

    def _change(self, table: Table, rows: Callable[[], DataFrame]) -> None:
        """Changes that a statement describes, as weighted rows."""

        def attempt(snapshot: Snapshot) -> None:
            weighted = StructType([StructField(names.WEIGHT, IntegerType()), *schema_of(snapshot).fields])
            written = self._write(snapshot, rows(), weighted, CHANGES_FOLDER)
            if not written:
                return
            staged = Staged.of(snapshot.location, written)
            came = staged.count(lambda t: pc.greater(t.column(names.WEIGHT), 0))
            if came is None:
                with self.db.spark.counted():
                    frame = self.db.spark.files(staged.files, weighted)
                    came = frame.where(sf.col(names.WEIGHT) > 0).count()
            self._commit_change(table, snapshot, staged, came, staged.rows - came)

        self._retry(table, attempt)

    def _commit_change(self, table: Table, snapshot: Snapshot, staged: Staged, came: int, gone: int) -> None:
        """Write the touched files again without what goes and with what comes, and commit both."""
        layout, spark = _layout(table), self.db.spark
        wanted = []
        for column in table.columns:
            values = staged.values(column.name, lambda t: pc.less(t.column(names.WEIGHT), 0))
            if values is not None:
                wanted.append((column.name, values))
        touched = prune(snapshot.files, wanted)
        weighted = StructType([StructField(names.WEIGHT, IntegerType()), *schema_of(snapshot).fields])
        bound = {
            CHANGE: spark.name(spark.files(staged.files, weighted), "batch"),
            TOUCHED: spark.name(self.db.sources().stored(snapshot, touched), "touched"),
        }
        plan = bind_scans(rows_after(layout, Fresh()), frozenset({CHANGE}), lambda r: TableName(bound[r.table]))
        try:
            files = self._write(snapshot, spark.sql(query_sql(plan, layout.columns, DIALECT).sql(dialect=DIALECT)))
            found = sum(f.rows for f in touched) + came - sum(f.rows for f in files)
            if found != gone:
                raise ChangeError(
                    f"the batch deletes {gone} rows of {str(table.name)!r}; {gone - found} of them are not there",
                    hint="nothing was changed; all columns must match, NULLs included",
                )
            self.warehouse.format.commit(snapshot, files, touched, Recorded(staged.folder, came, gone))
        except BaseException:
            staged.discard()
            raise

    def _write(
        self, snapshot: Snapshot, frame: DataFrame, schema: StructType | None = None, folder: str = ""
    ) -> list[NewFile]:
        """Rows with the columns and types of a table, none of them NULL where the table forbids it."""
        typed = []
        for field in (schema or schema_of(snapshot)).fields:
            value = sf.col(f"`{field.name}`").cast(field.dataType)
            if not field.nullable:
                refused = sf.raise_error(sf.lit(f"column {field.name!r} must not be NULL"))
                value = sf.when(value.isNull(), refused.cast(field.dataType)).otherwise(value)
            typed.append(value.alias(field.name))
        try:
            return self.db.spark.write(frame.select(*typed), snapshot.location, folder)
        except PySparkException as error:
            raise translate(error) from error

    def _retry(self, table: Table, attempt: Callable[[Snapshot], None]) -> None:
        """A change holds for the version it was computed from: if another was first, compute it again."""
        for number in range(_ATTEMPTS):
            try:
                attempt(self.warehouse.snapshot(table.name))
                return
            except CommitConflict:
                time.sleep(0.01 * 2**number)
        raise ChangeError(f"table {str(table.name)!r} kept changing while it was changed", hint="try again later")


def fit(rows: pa.Table, snapshot: Snapshot, table: Table) -> pa.Table:
    """Rows in the types of their table."""
    wanted = arrow_schema(snapshot.schema)
    columns = []
    for field, column in zip(wanted, rows.columns, strict=True):
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ChangeError(
                f"the batch does not fit table {str(table.name)!r}: column {field.name!r}: {error}",
                hint="nothing was changed",
            ) from None
        if not field.nullable and column.null_count:
            raise ChangeError(
                f"the batch does not fit table {str(table.name)!r}: column {field.name!r} must not be NULL",
                hint="nothing was changed",
            )
    return pa.table(columns, schema=wanted)


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


def _column(name: str, type_: str) -> Column:
    return Column(name, catalog_type(type_))


def _data_type(db: LakeDatabase, type_: str, column: str) -> DataType:
    assert db.spark.session  # types are parsed by Spark, which may not have started yet
    try:
        return DataType.fromDDL(spark_type(type_))
    except PySparkException:
        raise SqlError(f"column {column!r} has type {type_}, which Spark does not know") from None


def _lenient(struct: StructType, computed: bool) -> StructType:
    """A query's columns are all nullable in a table that is made of it."""
    return StructType([StructField(f.name, f.dataType, True) for f in struct.fields]) if computed else struct


def _is_temporary(tree: exp.Create) -> bool:
    properties = tree.args.get("properties")
    return properties is not None and properties.find(exp.TemporaryProperty) is not None
