"""Statements that change the tables of a warehouse, and the bulk ways around SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sf
from sqlglot import exp

from viewkeep.catalog import Table
from viewkeep.emit.select import identifier
from viewkeep.engine.spark import DIALECT, cannot_write, col
from viewkeep.errors import SqlError, ViewkeepError, nearest
from viewkeep.runtime.lake.images import after, assignments, old_row, weighted
from viewkeep.runtime.lake.merge import Merge
from viewkeep.runtime.lake.schema_changes import SchemaChanges
from viewkeep.runtime.lake.writing import UNDONE, Writing
from viewkeep.sql.parse import position_of
from viewkeep.sql.rewording import text_of
from viewkeep.sql.statements import table_name
from viewkeep.strategy import names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from viewkeep.runtime.lake.database import LakeDatabase


_ABOUT_TABLES = frozenset(
    ("ALTER", "CREATE", "DROP", "INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "OPTIMIZE", "VACUUM", "RESTORE")
)
"""What begins so and is understood by nobody here must not reach Spark, which knows other tables."""


class Tables:
    def __init__(self, db: LakeDatabase) -> None:
        self.db, self.writing, self.schema = db, Writing(db), SchemaChanges(db)

    def load(self, table: Table, data: pa.Table) -> int:
        return self.writing.load(table, data)

    def apply(self, table: Table, data: pa.Table) -> tuple[int, int]:
        return self.writing.apply(table, data)

    def execute(self, tree: exp.Expr, dialect: str) -> None:
        try:
            self._execute(tree, dialect)
        except ViewkeepError as error:
            raise error.hinting(UNDONE) from error.__cause__
        except OSError as error:
            raise cannot_write(self.db.warehouse.folder, error) from error

    def _execute(self, tree: exp.Expr, dialect: str) -> None:
        match tree:
            case exp.Create() if tree.kind == "TABLE":
                self.schema.create_table(tree, dialect)
            case exp.Create() if tree.kind == "VIEW":
                self.schema.create_view(tree)
            case exp.Create() if tree.kind in ("SCHEMA", "DATABASE"):
                self.schema.create_schema(tree)
            case exp.Drop():
                self.schema.drop(tree)
            case exp.Alter() | exp.Insert() | exp.Delete() | exp.Update() | exp.Merge() if self._is_deltas(tree):
                self.writing.delta.run(tree, self._target(tree.this))
            case exp.Alter():
                self.schema.alter(tree, dialect)
            case exp.Insert():
                self._insert(tree)
            case exp.Delete():
                self._delete(tree)
            case exp.Update():
                self._update(tree)
            case exp.Merge():
                self._merge(tree)
            case exp.TruncateTable():
                for table in [self._target(t) for t in tree.expressions]:
                    self.writing.clear(table)
            case exp.Command() if tree.name.upper() in _ABOUT_TABLES:
                raise SqlError(
                    f"this form of {tree.name.upper()} is not available on a warehouse",
                    hint="look for a word that is missing, or a type that Spark does not know",
                )
            case _:
                self.db.spark.sql(text_of(tree, DIALECT))

    def _is_deltas(self, tree: exp.Expr) -> bool:
        """Whether a statement is left to the extension; a new name is a new folder, which it cannot give."""
        if isinstance(tree, exp.Alter) and (tree.kind != "TABLE" or tree.find(exp.AlterRename)):
            return False
        return self.db.warehouse.snapshot(self._target(tree.this).name).through_engine

    def _target(self, node: exp.Expr) -> Table:
        """The table that a statement changes."""
        inner = node.this if isinstance(node, exp.Schema) else node
        if not isinstance(inner, exp.Table) or not inner.name:
            raise SqlError("the statement changes no table", position_of(inner), "name a table")
        if inner.args.get("partition"):
            raise SqlError(
                "PARTITION (…) is not available: rows find their partition by their values",
                position_of(inner),
                "leave it away, or write DELETE … WHERE … and INSERT",
            )
        name = table_name(inner)
        if self.db.catalog().find(name) is None and (error := self.db.warehouse.unreadable(name)):
            raise error
        return self.db.base_table(str(name))

    # ------------------------------------------------------------------ rows come and go
    def _insert(self, tree: exp.Insert) -> None:
        table = self._target(tree.this)
        _refuse(tree, where="INSERT … REPLACE WHERE", conflict="INSERT … ON CONFLICT", returning="RETURNING")
        given = tree.this.expressions if isinstance(tree.this, exp.Schema) else []
        columns = [c.name for c in table.columns]
        wanted = [table.column(c.name).name for c in given] or columns
        if len(set(wanted)) != len(wanted):
            raise SqlError("INSERT names a column twice", position_of(tree.this), "name each column once")
        text = text_of(_rows_of(tree), DIALECT)

        def rows() -> DataFrame:
            frame = self.db.frame(text)
            if tree.args.get("by_name"):
                return _by_name(table, frame)
            if len(frame.columns) != len(wanted):
                raise SqlError(
                    f"{len(wanted)} columns of {str(table.name)!r} get {len(frame.columns)} values",
                    hint="one value for each column, or name the columns behind the table",
                )
            return _completed(table, frame.toDF(*wanted))

        self.writing.append(table, rows, overwrite=bool(tree.args.get("overwrite")))

    def _delete(self, tree: exp.Delete) -> None:
        table = self._target(tree.this)
        _refuse(tree, using="DELETE … USING", returning="RETURNING", tables="DELETE from several tables")
        where = tree.args.get("where")
        if where is None:
            self.writing.clear(table)
            return
        gone = exp.alias_(exp.Neg(this=exp.Literal.number(1)), names.WEIGHT)
        query = exp.select(gone, *(exp.column(identifier(c.name)) for c in table.columns))
        text = _of_target(query, tree, where)
        self.writing.change(table, lambda: self.db.frame(text))

    def _update(self, tree: exp.Update) -> None:
        table = self._target(tree.this)
        _refuse(tree, from_="UPDATE … FROM", returning="RETURNING")
        new = assignments(table, tree.expressions)
        values = [
            exp.alias_(new[c.name].copy() if c.name in new else exp.column(identifier(c.name)), after(i))
            for i, c in enumerate(table.columns)
        ]
        text = _of_target(exp.select(*old_row(table), *values), tree, tree.args.get("where"))
        self.writing.change(table, lambda: weighted(self.db.frame(text), table, sf.lit(True), sf.lit(True)))

    def _merge(self, tree: exp.Merge) -> None:
        table = self._target(tree.this)
        _refuse(tree, using_cond="MERGE … USING (columns)", returning="RETURNING")
        merge = Merge(self.db, table, tree)
        self.writing.change(table, merge.rows)


def _refuse(tree: exp.Expr, **forms: str) -> None:
    """Forms that other engines have."""
    for argument, form in forms.items():
        if tree.args.get(argument):
            raise SqlError(f"{form} is not Spark SQL", position_of(tree), "MERGE INTO … USING … can do it")


def _rows_of(tree: exp.Insert) -> exp.Query:
    """The query whose rows are inserted."""
    query = tree.expression if tree.expression is not None else tree.args.get("source")
    if query is None:
        raise SqlError("INSERT has no rows", position_of(tree.this), "write VALUES (…) or a query")
    found = query.copy() if isinstance(query, exp.Query) else exp.select("*").from_(query.copy())
    if isinstance(query, exp.Values):
        found = exp.select("*").from_(query.copy())
    if (with_ := tree.args.get("with_")) is not None:
        found.set("with_", with_.copy())
    return found


def _of_target(query: exp.Select, tree: exp.Expr, where: exp.Expr | None) -> str:
    """A query over the rows of the table that a statement changes, under the name they have there."""
    found = query.from_(tree.this.copy())
    if where is not None:
        found.set("where", where.copy())
    if (with_ := tree.args.get("with_")) is not None:
        found.set("with_", with_.copy())
    return text_of(found, DIALECT)


def _by_name(table: Table, frame: DataFrame) -> DataFrame:
    known = {c.name.lower(): c.name for c in table.columns}
    for name in frame.columns:
        if name.lower() not in known:
            raise SqlError(
                f"table {str(table.name)!r} has no column {name!r}",
                hint=nearest(name, known.values()) or f"its columns: {', '.join(known.values())}",
            )
    return _completed(table, frame.toDF(*(known[n.lower()] for n in frame.columns)))


def _completed(table: Table, frame: DataFrame) -> DataFrame:
    """Columns that were not given are NULL."""
    given = set(frame.columns)
    return frame.select(*(col(c.name) if c.name in given else sf.lit(None).alias(c.name) for c in table.columns))
