"""Comparisons with ANY and ALL rows of a query, and how they are said in a dialect that has only EXISTS.

    x > ANY (q)     EXISTS (a row of q that is exceeded)             x > ALL (q)     NOT EXISTS (one that may not be)

That is enough where NULL and false are the same. Elsewhere a second EXISTS asks for rows of which it is not known.
"""

from __future__ import annotations

from sqlglot import exp

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_ROWS, _VALUE = "_vk_rows", "_vk_value"


def is_quantified(node: exp.Expr) -> bool:
    """Whether a comparison is with ANY or ALL of a query."""
    with_rows = isinstance(node, _COMPARISONS) and isinstance(node.expression, exp.Any | exp.All)
    return with_rows and isinstance(node.expression.this, exp.Query)


def as_test(comparison: exp.Binary) -> exp.Expr:
    """Where NULL and false are the same.

    >>> import sqlglot
    >>> as_test(sqlglot.parse_one("x > ALL (SELECT v FROM r)", read="duckdb")).sql(dialect="duckdb")
    ... # doctest: +NORMALIZE_WHITESPACE
    'NOT EXISTS(SELECT 1 FROM (SELECT v FROM r) AS _vk_rows(_vk_value)
                WHERE NOT COALESCE(x > _vk_rows._vk_value, FALSE))'
    """
    holds = _compared(comparison)
    if isinstance(comparison.expression, exp.Any):
        return _exists(comparison, holds)
    return exp.not_(_exists(comparison, exp.not_(exp.Coalesce(this=holds, expressions=[exp.false()]))))


def as_value(comparison: exp.Binary) -> exp.Expr:
    """With its three values.

    >>> import sqlglot
    >>> as_value(sqlglot.parse_one("x > ANY (SELECT v FROM r)", read="duckdb")).sql(dialect="duckdb")
    ... # doctest: +NORMALIZE_WHITESPACE
    'CASE WHEN EXISTS(SELECT 1 FROM (SELECT v FROM r) AS _vk_rows(_vk_value) WHERE x > _vk_rows._vk_value) THEN TRUE
          WHEN EXISTS(SELECT 1 FROM (SELECT v FROM r) AS _vk_rows(_vk_value) WHERE (x > _vk_rows._vk_value) IS NULL)
          THEN NULL ELSE FALSE END'
    """
    holds, every = _compared(comparison), isinstance(comparison.expression, exp.All)
    unknown = exp.Is(this=exp.paren(holds), expression=exp.Null())
    decides = exp.not_(exp.paren(holds)) if every else holds
    found, otherwise = (exp.false(), exp.true()) if every else (exp.true(), exp.false())
    cases = ((_exists(comparison, decides), found), (_exists(comparison, unknown), exp.null()))
    return exp.Case(ifs=[exp.If(this=when, true=then) for when, then in cases], default=otherwise)


def _compared(comparison: exp.Binary) -> exp.Binary:
    return type(comparison)(this=comparison.this.copy(), expression=exp.column(_VALUE, _ROWS))


def _exists(comparison: exp.Binary, predicate: exp.Expr) -> exp.Expr:
    query = comparison.expression.this.unnest()
    alias = exp.TableAlias(this=exp.to_identifier(_ROWS), columns=[exp.to_identifier(_VALUE)])
    return exp.Exists(this=exp.select("1").from_(exp.Subquery(this=query.copy(), alias=alias)).where(predicate))
