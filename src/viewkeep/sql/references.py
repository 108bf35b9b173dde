"""The tables a query text names, without planning it: found, or replaced by others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from viewkeep.catalog import Catalog, Kind, Table, TableName
from viewkeep.errors import CatalogError, SqlError
from viewkeep.sql.clock import asks_time
from viewkeep.sql.determinism import check_deterministic
from viewkeep.sql.parse import parse_one, position_of
from viewkeep.sql.pivot import check_listed
from viewkeep.sql.statements import table_name


def sources_of(text: str, catalog: Catalog, dialect: str) -> tuple[TableName, ...]:
    """The stored tables a query reads, also through plain views, each once."""
    tree = parse_one(text, dialect)
    check_deterministic(tree)
    check_listed(tree)
    found: dict[str, TableName] = {}
    for table in _reached(tree, catalog, dialect):
        if table.kind is not Kind.PLAIN_VIEW:
            found.setdefault(table.name.folded, table.name)
    return tuple(found.values())


def tables_of(text: str, catalog: Catalog, dialect: str) -> tuple[Table, ...]:
    """Every table and view a query names, directly or through plain views, each once."""
    return tuple({t.name.folded: t for t in _reached(parse_one(text, dialect), catalog, dialect)}.values())


def asks_for_time(text: str, catalog: Catalog, dialect: str) -> bool:
    """Whether the answer of a query depends on the current time, directly or through plain views."""
    tree = parse_one(text, dialect)
    plain = (t for t in _reached(tree, catalog, dialect) if t.kind is Kind.PLAIN_VIEW)
    trees = (tree, *(definition_of(view, dialect) for view in plain))
    return any(asks_time(node) for found in trees for node in found.walk())


def named_in(text: str, catalog: Catalog, dialect: str) -> set[str]:
    """Folded names of all known tables and views that a query reaches; what is unknown is the engine's matter."""
    return {t.name.folded for t in _reached(parse_one(text, dialect), catalog, dialect, lenient=True)}


def missing_in(tree: exp.Expr, catalog: Catalog) -> list[TableName]:
    """Names in a query that stand for no known table or view."""
    return [n for node in _table_nodes(tree) if catalog.find(n := table_name(node)) is None]


def _reached(tree: exp.Expr, catalog: Catalog, dialect: str, lenient: bool = False) -> Iterator[Table]:
    for node in _table_nodes(tree):
        if node.args.get("catalog") and not lenient:
            raise SqlError(
                f"{node.sql(dialect=dialect)} names a database; views read tables of the open one only",
                position_of(node),
                "write table or schema.table",
            )
        try:
            table = catalog.get(table_name(node), position_of(node))
        except CatalogError as error:
            if lenient:
                continue
            raise SqlError(error.fact, error.position, error.hint) from None
        yield table
        if table.kind is Kind.TEMPORARY and not lenient:
            raise SqlError(
                f"{str(table.name)!r} is a temporary table, which is gone after this connection",
                position_of(node),
                "make it a permanent table",
            )
        if table.kind is Kind.PLAIN_VIEW:
            inner = definition_of(table, dialect)
            if not lenient:
                check_deterministic(inner)
            yield from _reached(inner, catalog, dialect, lenient)


def _table_nodes(tree: exp.Expr, ctes: frozenset[str] = frozenset()) -> Iterator[exp.Table]:
    """Named tables, each in its own scope: a CTE hides a table of its name, but not inside itself."""
    if isinstance(tree, exp.Table):
        if isinstance(tree.this, exp.Identifier) and (tree.args.get("db") or tree.name.lower() not in ctes):
            yield tree
    elif (with_ := tree.args.get("with_")) is not None:
        for cte in with_.expressions:
            own = {cte.alias.lower()}
            yield from _table_nodes(cte.this, ctes | own if with_.args.get("recursive") else ctes)
            ctes = ctes | own
    for child in tree.iter_expressions():
        if not isinstance(child, exp.With):
            yield from _table_nodes(child, ctes)


def definition_of(view: Table, dialect: str) -> exp.Expr:
    """The query of a plain view; engines give the whole CREATE VIEW statement."""
    tree = parse_one(view.definition or "", dialect)
    if isinstance(tree, exp.Create):
        inner = tree.expression
        assert isinstance(inner, exp.Expr)
        return inner
    return tree


def replace_tables(tree: exp.Expr, catalog: Catalog, others: Mapping[str, TableName], dialect: str) -> exp.Expr:
    """Let a query read other tables in place of its own; plain views are expanded on the way."""
    copy = tree.copy()
    nodes = list(_table_nodes(copy))
    schemas = {((n.text("db") or catalog.default_schema or "").lower(), n.name.lower()) for n in nodes if not n.alias}
    for column in copy.find_all(exp.Column):
        _leave_out_schema(column, schemas)
    for node in nodes:
        name = table_name(node)
        known = catalog.find(name)
        alias = node.alias or node.name
        if name.folded in others:
            other = others[name.folded]
            stand_in: exp.Expr = exp.Table(
                this=exp.to_identifier(other.name, quoted=True),
                db=exp.to_identifier(other.schema, quoted=True) if other.schema else None,
            )
            stand_in.set("alias", _alias(node, alias))
        elif known is not None and known.kind is Kind.PLAIN_VIEW:
            inner = replace_tables(definition_of(known, dialect), catalog, others, dialect)
            assert isinstance(inner, exp.Query)
            columns = [exp.to_identifier(c.name, quoted=True) for c in known.columns]
            stand_in = inner.subquery(alias, copy=False)
            stand_in.set("alias", _alias(node, alias, columns))
        else:
            continue
        for inside in ("joins", "pivots", "sample"):
            stand_in.set(inside, node.args.get(inside))
        node.replace(stand_in)
    return copy


def _leave_out_schema(column: exp.Column, schemas: set[tuple[str, str]]) -> None:
    """`schema.table.column` → `table.column`: the stand-in has the table's name as its alias, but no schema.
    `table.column.field` looks alike and stays."""
    parts = column.parts
    for left_out in (1, 2):
        if len(parts) > left_out + 1 and (parts[left_out - 1].name.lower(), parts[left_out].name.lower()) in schemas:
            for place, part in zip(
                ("this", "table", "db", "catalog"), [*parts[: left_out - 1 : -1], None, None], strict=False
            ):
                column.set(place, part)
            return


def _alias(node: exp.Table, alias: str, columns: list[exp.Identifier] | None = None) -> exp.TableAlias:
    own = node.args.get("alias")
    renamed = (own.args.get("columns") if own else None) or columns
    return exp.TableAlias(this=exp.to_identifier(alias, quoted=True), columns=renamed)
