"""Aggregates that Spark spells differently, where the translation of sqlglot would change their value.

    SUM(x ORDER BY x)                              a fold over the sorted list of values
    ARRAY_AGG(x ORDER BY y)                        the values of a sorted list of (y, x)
    PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x)   PERCENTILE(x, p); sqlglot makes it PERCENTILE_APPROX

Spark knows no ORDER BY in other aggregates: they take their rows as they come.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from viewkeep.errors import UnsupportedError
from viewkeep.plan.scalars import Scalar, integer
from viewkeep.sql.parse import position_of


def spell_aggregates(tree: exp.Expr, exact: bool = False) -> None:
    """Change the calls, wherever they stand, to Spark's way. `exact`: refuse what Spark has no words for, in place of
    taking the rows as they come."""
    for call in list(tree.find_all(exp.WithinGroup, exp.PercentileCont, exp.PercentileDisc)):
        if call.parent is not None and not isinstance(call.parent, exp.WithinGroup):
            call.replace(_percentile(call))
    for order in list(tree.find_all(exp.Order)):
        function = order.parent
        if isinstance(function, exp.AggFunc) and not isinstance(function, exp.GroupConcat):
            if exact and not isinstance(function, exp.ArrayAgg | exp.Sum | exp.Avg):
                said = function.sql_name()
                raise UnsupportedError(f"ORDER BY inside {said} has no form in Spark", position_of(function))
            whole = _with_clauses(function)
            whole.replace(_in_order(function, order, whole, null_if_nothing=exact))


def _with_clauses(call: exp.Expr) -> exp.Expr:
    """The call with the FILTER and OVER around it."""
    around = call.parent
    return _with_clauses(around) if isinstance(around, exp.Window | exp.Filter) and around.this is call else call


def _percentile(call: exp.Expr) -> exp.Expr:
    if not isinstance(call, exp.WithinGroup):
        return _exact(type(call), call.this, call.expression, False)
    function, ordered = call.this, call.expression.expressions[0]
    if not isinstance(function, exp.PercentileCont | exp.PercentileDisc):
        return call
    return _exact(type(function), ordered.this, function.this, bool(ordered.args.get("desc")))


def _exact(kind: type[exp.Expr], value: exp.Expr, share: exp.Expr, descending: bool) -> exp.Expr:
    if kind is exp.PercentileCont:
        at = exp.Sub(this=integer(1), expression=share.copy()) if descending else share.copy()
        return exp.Anonymous(this="PERCENTILE", expressions=[value.copy(), at])
    order = exp.Order(expressions=[exp.Ordered(this=value.copy(), desc=descending)])
    return exp.WithinGroup(this=exp.Anonymous(this="PERCENTILE_DISC", expressions=[share.copy()]), expression=order)


def _in_order(call: exp.Expr, order: exp.Expr, whole: exp.Expr, null_if_nothing: bool) -> exp.Expr:
    """`null_if_nothing`: whether a list of no rows is NULL, as where lists have an order, or empty, as in Spark."""

    def over(function: Scalar) -> Scalar:
        """The function at the place of the call: under its FILTER and OVER, where it has them."""
        if whole is call:
            return function
        around = whole.copy()
        inner = around.this
        while isinstance(inner, exp.Window | exp.Filter):
            inner = inner.this
        inner.replace(function)
        return around

    value = order.this
    if isinstance(call, exp.ArrayAgg):
        values = _sorted_list(value, order.expressions, over)
        some = exp.GT(this=over(exp.Count(this=exp.Star())), expression=integer(0))
        return exp.Case(ifs=[exp.If(this=some, true=values)]) if null_if_nothing else values
    if not isinstance(call, exp.Sum | exp.Avg) or isinstance(value, exp.Distinct):
        plain = call.copy()
        inner = plain.find(exp.Order)
        assert inner is not None
        inner.replace(inner.this)
        return over(plain)
    values = exp.Anonymous(this="ARRAY_SORT", expressions=[over(_collect(value))])
    step = exp.Lambda(
        this=exp.Add(this=exp.column("total"), expression=exp.column("value")),
        expressions=[exp.to_identifier("total"), exp.to_identifier("value")],
    )
    total: Scalar = exp.Anonymous(this="AGGREGATE", expressions=[values, exp.cast(integer(0), "DOUBLE"), step])
    count = over(exp.Count(this=value.copy()))
    if isinstance(call, exp.Avg):
        total = exp.Div(this=total, expression=count.copy(), typed=False, safe=False)
    return exp.Case(ifs=[exp.If(this=exp.GT(this=count, expression=integer(0)), true=total)])


def _sorted_list(value: exp.Expr, ordered: list[exp.Expr], over: Callable[[Scalar], Scalar]) -> exp.Expr:
    """Rows of (is it NULL, what to sort by, …, value), sorted, and the value of each."""
    descending = {bool(o.args.get("desc")) for o in ordered}
    if len(descending) > 1:
        raise UnsupportedError("a list that is ordered up and down has no form in Spark")
    (down,) = descending
    parts: list[Scalar] = []
    for at, item in enumerate(ordered):
        absent: Scalar = exp.Is(this=exp.paren(item.this), expression=exp.Null())
        first = bool(item.args.get("nulls_first"))
        parts += [exp.Literal.string(f"absent_{at}"), absent if first == down else exp.Not(this=absent)]
        parts += [exp.Literal.string(f"by_{at}"), item.this.copy()]
    distinct = isinstance(value, exp.Distinct)
    parts += [exp.Literal.string("value"), (value.expressions[0] if distinct else value).copy()]
    row: Scalar = exp.Anonymous(this="NAMED_STRUCT", expressions=parts)
    rows = over(_collect(exp.Distinct(expressions=[row]) if distinct else row))
    in_order = exp.Anonymous(this="SORT_ARRAY", expressions=[rows, exp.false() if down else exp.true()])
    only = exp.Lambda(
        this=exp.Dot(this=exp.to_identifier("row"), expression=exp.to_identifier("value")),
        expressions=[exp.to_identifier("row")],
    )
    return exp.Anonymous(this="TRANSFORM", expressions=[in_order, only])


def _collect(value: exp.Expr) -> Scalar:
    return exp.Anonymous(this="COLLECT_LIST", expressions=[value.copy()])
