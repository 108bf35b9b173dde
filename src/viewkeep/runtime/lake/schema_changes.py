"""Tables, plain views and schemas of a warehouse come, change and go."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql.types import DataType, StructField, StructType
from sqlglot import exp

from viewkeep.catalog import Column, Kind, Table, TableName, Trust
from viewkeep.emit.select import identifier
from viewkeep.engine.spark import DIALECT, discard, nullable
from viewkeep.engine.table_format import CommitConflict, NewFile
from viewkeep.errors import CatalogError, ChangeError, SqlError
from viewkeep.runtime.lake.warehouse import catalog_type, spark_type
from viewkeep.sql.parse import position_of
from viewkeep.sql.rewording import text_of
from viewkeep.sql.schema import table_of
from viewkeep.sql.statements import table_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from viewkeep.runtime.lake.database import LakeDatabase

_NOT_KEPT = {
    exp.DefaultColumnConstraint: "DEFAULT",
    exp.ComputedColumnConstraint: "GENERATED",
    exp.GeneratedAsIdentityColumnConstraint: "GENERATED",
    exp.CheckColumnConstraint: "CHECK",
    exp.CollateColumnConstraint: "COLLATE",
}
"""What a column may be declared with that viewkeep would not keep when it writes."""


class SchemaChanges:
    def __init__(self, db: LakeDatabase) -> None:
        self.db, self.warehouse = db, db.warehouse

    # ------------------------------------------------------------------ tables
    def create_table(self, tree: exp.Create, dialect: str) -> None:
        schema = tree.this if isinstance(tree.this, exp.Schema) else None
        name = table_name(schema.this if schema is not None else tree.this)
        existing = self._existing(name, tree, Kind.BASE)
        if existing is not None and not tree.args.get("replace"):
            return
        partitioned_by = _properties(tree)
        query, table, frame = tree.expression, None, None
        if isinstance(query, exp.Query):
            frame = self.db.frame(text_of(query, DIALECT))
            struct = nullable(frame.schema)
        elif schema is not None:
            _refuse_constraints(schema)
            table = table_of(schema, dialect)
            struct = self._struct(table.columns)
        else:
            raise SqlError("CREATE TABLE needs columns or a query", hint="write CREATE TABLE t (a INT, …)")
        _check_columns(struct)
        partitioned_by = _partition_columns(struct, partitioned_by)
        known = existing.name if existing is not None else self.warehouse.new_name(name)
        location = self.warehouse.location(known)
        files = self._write(frame, location, partitioned_by)
        try:
            # In one commit: the rows may come from the very table that is replaced.
            self.warehouse.format.create(
                location, struct.json(), files, partitioned_by=partitioned_by, replace=existing is not None
            )
        except Exception:
            discard(location, files)
            raise
        if table is not None and (table.keys or table.foreign_keys):
            nobody_enforces = [replace(f, trust=Trust.CHECKED) for f in table.foreign_keys]
            self.warehouse.declare(known, list(table.keys), nobody_enforces)
        self.db.forget_schema()

    def _write(self, frame: DataFrame | None, location: str, partitioned_by: tuple[str, ...]) -> list[NewFile]:
        if frame is None:
            return []
        made = not os.path.isdir(location)
        try:
            return self.db.spark.write(frame, location, partitioned_by=partitioned_by)
        except Exception:
            if made and os.path.isdir(location):
                os.rmdir(location)
            raise

    def _struct(self, columns: tuple[Column, ...]) -> StructType:
        assert self.db.spark.session  # types are parsed by Spark, which may not have started yet
        return StructType([StructField(c.name, _data_type(c), c.nullable) for c in columns])

    def _existing(self, name: TableName, tree: exp.Create, kind: Kind) -> Table | None:
        """What has the name already, where the statement says that this may be."""
        if (error := self.warehouse.unreadable(name)) is not None:
            raise error
        existing = self.db.catalog().find(name)
        allowed = tree.args.get("exists") or (tree.args.get("replace") and existing and existing.kind is kind)
        if existing is not None and not allowed:
            raise CatalogError(f"{existing.kind.value} {str(name)!r} exists already", hint="choose another name")
        return existing

    def alter(self, tree: exp.Alter, dialect: str) -> None:
        """Columns can be added at the end. Everything else would change what files mean that are there already."""
        table = self.db.base_table(str(table_name(tree.this)))
        wanted: list[exp.ColumnDef] = []
        for action in tree.args.get("actions") or ():
            match action:
                case exp.ColumnDef():
                    wanted.append(action)
                case exp.Schema():
                    wanted += action.expressions
                case _:
                    _refuse_alter(action)
        added = []
        for definition in wanted:
            if any(c.name.lower() == definition.name.lower() for c in table.columns):
                if definition.args.get("exists"):
                    continue
                raise CatalogError(
                    f"table {str(table.name)!r} has a column {definition.name!r} already", hint="choose another name"
                )
            added.append(definition)
        if not added:
            return
        schema = exp.Schema(this=tree.this.copy(), expressions=[d.copy() for d in added])
        _refuse_constraints(schema)
        described = table_of(schema, dialect)
        if required := [c.name for c in described.columns if not c.nullable]:
            raise SqlError(
                f"column {required[0]!r} cannot be NOT NULL: the rows that are there have no value for it",
                hint="add it without NOT NULL",
            )
        if any(d.args.get("position") for d in added):
            raise SqlError("a column can be added at the end only", hint="leave FIRST or AFTER away")
        struct = self._struct(described.columns)
        _check_columns(struct)
        try:
            self.warehouse.format.add_columns(self.warehouse.snapshot(table.name), struct.json())
        except CommitConflict:
            raise ChangeError(f"table {str(table.name)!r} was changed at the same time", hint="try again") from None
        self.db.forget_schema()

    # ------------------------------------------------------------------ plain views
    def create_view(self, tree: exp.Create) -> None:
        if _has_property(tree, exp.TemporaryProperty):
            raise SqlError("temporary views are not available on a warehouse", hint="write CREATE VIEW")
        schema = tree.this if isinstance(tree.this, exp.Schema) else None
        name = table_name(schema.this if schema is not None else tree.this)
        existing = self._existing(name, tree, Kind.PLAIN_VIEW)
        if existing is not None and not tree.args.get("replace"):
            return
        query = tree.expression
        if not isinstance(query, exp.Query):
            raise SqlError("CREATE VIEW needs a query", hint="write CREATE VIEW v AS SELECT …")
        found, types = self.db.output(text_of(query, DIALECT))
        named = tuple(c.name for c in schema.expressions) if schema is not None else found
        if len(named) != len(found):
            raise SqlError(f"the view has {len(named)} names for {len(found)} columns", hint="name each column once")
        if named != found:
            alias = exp.TableAlias(this=identifier("renamed"), columns=[identifier(c) for c in named])
            query = exp.select("*").from_(exp.Subquery(this=query.copy(), alias=alias))
        columns = tuple(Column(n, catalog_type(t)) for n, t in zip(named, types, strict=True))
        known = existing.name if existing is not None else self.warehouse.new_name(name)
        self.warehouse.put_plain_view(known, columns, text_of(query, DIALECT))
        self.db.forget_schema()

    # ------------------------------------------------------------------ schemas
    def create_schema(self, tree: exp.Create) -> None:
        name = tree.this.text("db") or tree.this.name
        self.warehouse.make_schema(name, bool(tree.args.get("exists")))

    def drop(self, tree: exp.Drop) -> None:
        if tree.kind in ("SCHEMA", "DATABASE"):
            for node in tree.args.get("tables") or [tree.this]:
                self._drop_schema(node.text("db") or node.name, tree)
        elif tree.kind in ("TABLE", "VIEW"):
            for node in tree.args.get("tables") or [tree.this]:
                self._drop_one(table_name(node), tree)
        else:
            raise SqlError(f"DROP {tree.kind} is not available on a warehouse", hint="it has tables, views and schemas")
        self.db.forget_schema()

    def _drop_one(self, name: TableName, tree: exp.Drop) -> None:
        found = self.db.catalog().find(name)
        if found is None:
            if tree.kind == "TABLE" and self.warehouse.unreadable(name) is not None:
                self.warehouse.drop_table(name)
            elif not tree.args.get("exists"):
                self.db.catalog().get(name)
            return
        if (found.kind is Kind.PLAIN_VIEW) != (tree.kind == "VIEW"):
            kind = "VIEW" if found.kind is Kind.PLAIN_VIEW else "TABLE"
            raise CatalogError(f"{str(name)!r} is a {found.kind.value}", hint=f"use DROP {kind} {name}")
        if found.kind is Kind.PLAIN_VIEW:
            self.warehouse.drop_plain_view(found.name)
        else:
            self.warehouse.drop_table(found.name)

    def _drop_schema(self, schema: str, tree: exp.Drop) -> None:
        found = self.warehouse.find_schema(schema)
        if found is None:
            if tree.args.get("exists"):
                return
            raise CatalogError(
                f"schema {schema!r} does not exist", hint=f"schemas: {', '.join(self.warehouse.schemas()) or 'none'}"
            )
        inside = [t for t in self.db.catalog().tables.values() if (t.name.schema or "").lower() == found.lower()]
        if inside and not tree.args.get("cascade"):
            raise CatalogError(f"schema {schema!r} has tables", hint="drop them first, or write CASCADE")
        for table in inside:
            if table.kind is Kind.PLAIN_VIEW:
                self.warehouse.drop_plain_view(table.name)
            else:
                self.warehouse.drop_table(table.name)
        self.warehouse.drop_schema(found)


# ---------------------------------------------------------------------- what is not kept is refused
def _properties(tree: exp.Create) -> tuple[str, ...]:
    """The columns that a table is partitioned by; everything else that it may be declared with is refused."""
    properties, partitioned_by = tree.args.get("properties"), ()
    for item in properties.expressions if properties is not None else ():
        match item:
            case exp.FileFormatProperty() if item.name.lower() == "delta":
                pass
            case exp.PartitionedByProperty() if not item.find(exp.ColumnDef, exp.Anonymous, exp.Func):
                partitioned_by = tuple(c.name for c in item.this.expressions)
            case exp.SchemaCommentProperty():
                pass  # says nothing about rows
            case _:
                raise SqlError(
                    f"CREATE TABLE … {item.sql(dialect=DIALECT)} is not available on a warehouse",
                    position_of(item),
                    "tables are Delta tables in the warehouse's folder, perhaps PARTITIONED BY some of their columns",
                )
    return partitioned_by


def _has_property(tree: exp.Create, kind: type[exp.Expr]) -> bool:
    properties = tree.args.get("properties")
    return properties is not None and properties.find(kind) is not None


def _refuse_constraints(schema: exp.Schema) -> None:
    for kind, word in _NOT_KEPT.items():
        if (found := schema.find(kind)) is not None:
            raise SqlError(
                f"{word} is not available on a warehouse: other programs that write the table would not know of it",
                position_of(found),
                "leave it away",
            )


def _refuse_alter(action: exp.Expr) -> None:
    if isinstance(action, exp.AddConstraint):
        raise SqlError(
            "only foreign keys can be added by ALTER TABLE … ADD CONSTRAINT",
            hint="declare keys with keeper.declare_key",
        )
    raise SqlError(
        f"ALTER TABLE … {action.sql(dialect=DIALECT)} is not available through a table's log alone",
        hint="columns can be added; for the rest make a new table with CREATE TABLE … AS SELECT …",
    )


def _check_columns(struct: StructType) -> None:
    seen: set[str] = set()
    for field in struct.fields:
        if field.name.lower() in seen:
            raise SqlError(f"two columns are named {field.name!r}", hint="names are compared without case")
        if not field.name or any(sign in field.name for sign in " ,;{}()\n\t="):
            raise SqlError(
                f"column name {field.name!r} has a sign that Delta Lake does not allow",
                hint="signs that are not allowed: blank , ; { } ( ) = tab and newline",
            )
        seen.add(field.name.lower())


def _partition_columns(struct: StructType, named: tuple[str, ...]) -> tuple[str, ...]:
    known = {f.name.lower(): f.name for f in struct.fields}
    for name in named:
        if name.lower() not in known:
            raise SqlError(f"the table has no column {name!r} to be partitioned by", hint="name one of its columns")
    if named and len(set(named)) >= len(known):
        raise SqlError("a table cannot be partitioned by all of its columns", hint="leave one out")
    return tuple(known[n.lower()] for n in named)


def _data_type(column: Column) -> DataType:
    try:
        return DataType.fromDDL(spark_type(column.type))
    except PySparkException:
        raise SqlError(
            f"column {column.name!r} has type {column.type}, which Spark does not know", hint="use one of Spark's types"
        ) from None
