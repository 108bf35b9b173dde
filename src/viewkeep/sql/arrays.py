"""ARRAY(query): the values of a query in one list.

    ARRAY(SELECT v FROM r WHERE p ORDER BY k)   →   COALESCE((SELECT LIST(v ORDER BY k) FROM r WHERE p), [])

A list without an order is another one each time it is made of the same rows, and is left to the rules of LIST.
"""

from __future__ import annotations

from sqlglot import exp

from viewkeep.errors import UnsupportedError
from viewkeep.sql.aggregates import contains_aggregate
from viewkeep.sql.parse import position_of

_LATER = ("group", "having", "qualify", "distinct", "limit", "offset", "windows")
"""Clauses after which LIST would have to come."""


def query_of(array: exp.Array) -> exp.Query | None:
    """The query of ARRAY(query); a list whose only value is a subquery is none.

    >>> import sqlglot
    >>> parse = lambda text: sqlglot.parse_one(text, read="duckdb")
    >>> query_of(parse("ARRAY(SELECT 1)")) is None, query_of(parse("[(SELECT 1)]")) is None
    (False, True)
    """
    match array.expressions:
        case [exp.Query() as query] if not isinstance(query, exp.Subquery):
            return query
        case _:
            return None


def as_list(query: exp.Query) -> exp.Expr:
    """
    >>> import sqlglot
    >>> as_list(sqlglot.parse_one("SELECT v + 1 FROM r ORDER BY k DESC", read="duckdb")).sql(dialect="duckdb")
    'COALESCE((SELECT ARRAY_AGG(v + 1 ORDER BY k DESC) FROM r), [])'
    """
    plain = isinstance(query, exp.Select) and not any(query.args.get(clause) for clause in _LATER)
    values = query.selects
    if not plain or len(values) != 1 or contains_aggregate(values[0]) or values[0].find(exp.Window, exp.Star):
        raise UnsupportedError("ARRAY of a query with more than FROM, WHERE and ORDER BY", position_of(query))
    value, order = values[0].unalias().copy(), query.args.get("order")
    for item in order.expressions if order else ():
        named = isinstance(item.this, exp.Column) and not item.this.table and item.this.name == values[0].alias
        if isinstance(item.this, exp.Literal) or named:
            item.set("this", value.copy())
    listed = query.copy()
    assert isinstance(listed, exp.Select)
    listed.set("order", None)
    ordered = exp.Order(this=value, expressions=[o.copy() for o in order.expressions]) if order else value
    listed.set("expressions", [exp.ArrayAgg(this=ordered, nulls_excluded=False)])
    return exp.Coalesce(
        this=listed.subquery(copy=False), expressions=[exp.Array(expressions=[], value_constructor=True)]
    )
