"""CREATE TABLE texts → catalog, for compiling without any engine."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from viewkeep.catalog import TYPE_SPELLING, Catalog, Column, ForeignKey, Key, Kind, Table, Trust
from viewkeep.errors import SqlError
from viewkeep.sql.build import build_query
from viewkeep.sql.meanings import meaning
from viewkeep.sql.parse import parse_one, position_of, split
from viewkeep.sql.rewording import text_of
from viewkeep.sql.statements import DeclareForeignKey, recognise, table_name


def read_schema(text: str, dialect: str) -> Catalog:
    """Tables and plain views of a schema script.

    >>> from viewkeep.catalog import TableName
    >>> catalog = read_schema("CREATE TABLE t (a INT PRIMARY KEY, b TEXT); CREATE VIEW v AS SELECT a FROM t", "duckdb")
    >>> catalog.get(TableName("t")).keys
    (Key(columns=('a',), enforced=True),)
    >>> [c.name for c in catalog.get(TableName("v")).columns]
    ['a']
    """
    catalog = Catalog()
    for statement in split(text, dialect):
        tree = parse_one(statement.text, dialect)
        if isinstance(tree, exp.Create) and tree.kind == "TABLE" and isinstance(tree.this, exp.Schema):
            catalog = catalog.with_table(table_of(tree.this, dialect))
        elif isinstance(tree, exp.Create) and tree.kind == "VIEW" and tree.expression is not None:
            target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
            definition = text_of(tree.expression, dialect)
            query = build_query(definition, catalog, dialect)
            fields = zip(query.names, query.root.fields, strict=True)
            columns = tuple(Column(n, f.type) for n, f in fields)
            catalog = catalog.with_table(Table(table_name(target), columns, Kind.PLAIN_VIEW, definition=definition))
        elif isinstance(declared := recognise(statement, dialect), DeclareForeignKey):
            catalog = catalog.with_constraints(declared.child, [], [_foreign_key(declared, catalog)])
        else:
            raise SqlError(
                "a schema holds CREATE TABLE, CREATE VIEW and ALTER TABLE … ADD FOREIGN KEY statements only",
                position_of(tree),
                "move the rest elsewhere",
            )
    return catalog


def _foreign_key(declared: DeclareForeignKey, catalog: Catalog) -> ForeignKey:
    child, parent = catalog.get(declared.child), catalog.get(declared.parent)
    return ForeignKey(
        tuple(child.column(c).name for c in declared.columns),
        parent.name,
        tuple(parent.column(c).name for c in declared.parent_columns),
        Trust(declared.trust),
    )


def table_of(schema: exp.Schema, dialect: str) -> Table:
    """The table that a CREATE TABLE describes."""
    columns: list[Column] = []
    keys: list[Key] = []
    foreign: list[ForeignKey] = []
    for item in schema.expressions:
        match item:
            case exp.ColumnDef():
                kinds = [c.kind for c in item.args.get("constraints") or ()]
                primary = any(isinstance(k, exp.PrimaryKeyColumnConstraint) for k in kinds)
                required = any(
                    isinstance(k, exp.NotNullColumnConstraint) and not k.args.get("allow_null") for k in kinds
                )
                type_ = item.args["kind"].sql(dialect=TYPE_SPELLING) if item.args.get("kind") else "UNKNOWN"
                collated = any(isinstance(k, exp.CollateColumnConstraint) for k in kinds)
                columns.append(Column(item.name, type_, not (primary or required), collated))
                if primary or any(isinstance(k, exp.UniqueColumnConstraint) for k in kinds):
                    keys.append(Key((item.name,)))
                foreign += [_reference((item.name,), k, dialect) for k in kinds if isinstance(k, exp.Reference)]
            case _:
                _constraint(item, keys, foreign, dialect)
    primary_key = schema.find(exp.PrimaryKey)
    never_null = {c.name.lower() for c in primary_key.expressions} if primary_key else set()
    columns = [replace(c, nullable=c.nullable and c.name.lower() not in never_null) for c in columns]
    return Table(table_name(schema.this), tuple(columns), Kind.BASE, tuple(keys), tuple(foreign))


def _constraint(item: exp.Expr, keys: list[Key], foreign: list[ForeignKey], dialect: str) -> None:
    for part in item.expressions if isinstance(item, exp.Constraint) else [item]:
        match part:
            case exp.PrimaryKey():
                keys.append(Key(tuple(c.name for c in part.expressions)))
            case exp.UniqueColumnConstraint() if isinstance(part.this, exp.Schema):
                keys.append(Key(tuple(c.name for c in part.this.expressions)))
            case exp.ForeignKey():
                foreign.append(_reference(tuple(c.name for c in part.expressions), part.args["reference"], dialect))
            case _:
                pass  # CHECK and its like say nothing about keys


def _reference(columns: tuple[str, ...], reference: exp.Expr, dialect: str) -> ForeignKey:
    target, said = reference.this, reference.args.get("options") or ()
    trust = Trust.ENGINE if meaning(dialect).enforces_foreign_keys and "NOT ENFORCED" not in said else Trust.CHECKED
    if isinstance(target, exp.Schema):
        return ForeignKey(columns, table_name(target.this), tuple(c.name for c in target.expressions), trust)
    return ForeignKey(columns, table_name(target), (), trust)
