"""The statements that make a view: its backing table, its log, and the view its user reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from viewkeep.catalog import TableName
from viewkeep.emit.select import identifier, table
from viewkeep.emit.statements import (
    VARIABLE,
    contents_query,
    query_sql,
    stamped,
    table_as,
    view_as,
    with_clock,
    with_values,
)
from viewkeep.strategy import names
from viewkeep.strategy.bounded import COLUMN
from viewkeep.strategy.layout import BagLayout, Layout


def setup_sql(
    layout: Layout, dialect: str, text: str | None = None, times: Mapping[str, exp.Expr] | None = None
) -> list[str]:
    """Run once, with nobody to give a parameter: the version is read from the clock, and so is a time not given.

    `text`: the user's query, where the view has no plan."""
    backing, log = names.backing(layout.view), names.log(layout.view)
    version = exp.cast(exp.Literal.number(0), "BIGINT")
    columns = [exp.column(identifier(c)) for c in (*((names.BORN,) if layout.dated else ()), *layout.columns)]
    empty = exp.select(exp.alias_(version, identifier(names.VERSION)), *columns).from_(table(backing)).limit(0)
    rows = contents_query(layout.contents if text is None else text, layout.columns, dialect)
    contents = stamped(rows, layout.columns, names.BORN if layout.dated else None)
    shown = query_sql(layout.above, layout.output, dialect)
    statements = [table_as(backing, contents), table_as(log, empty), view_as(layout.view, shown)]
    values = dict(times or {})
    if isinstance(layout, BagLayout) and layout.bound is not None:
        statements.insert(0, table_as(layout.bound.table, query_sql(layout.bound.value, (COLUMN,), dialect)))
        values[names.BOUND] = _bound_in(layout.bound.table)
    return [with_clock(with_values(s, values)).sql(dialect=dialect, pretty=True) for s in statements]


def tell_bound_sql(bound: TableName, dialect: str) -> str:
    """Let the session know the bound of a view, for the programs that ask for it."""
    return f"SET VARIABLE {VARIABLE} = {_bound_in(bound).sql(dialect=dialect)}"


def _bound_in(name: TableName) -> exp.Subquery:
    return exp.select(exp.column(identifier(COLUMN))).from_(table(name)).subquery()


def teardown_sql(view: TableName, aside: Sequence[int], dialect: str) -> list[str]:
    """`aside`: versions whose rows were set aside."""
    stored = (names.backing(view), names.log(view), names.bound(view), *(names.left(view, v) for v in aside))
    dropped = [(view, "VIEW"), *((name, "TABLE") for name in stored)]
    return [_drop(name, kind).sql(dialect=dialect) for name, kind in dropped]


def drop_temporary(name: TableName, dialect: str) -> str:
    """Forget a table that was staged for one refresh; it may be as large as the view."""
    return _drop(name, "TABLE").sql(dialect=dialect)


def _drop(name: TableName, kind: str) -> exp.Drop:
    return exp.Drop(tables=[table(name)], kind=kind, exists=True)
