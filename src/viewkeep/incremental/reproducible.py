"""Aggregates and windows below the top of a view, in a form that gives the same bits for the same rows.

The delta of a nested aggregate computes the old value again. If that came out different in its
last bit, it would not cancel what was stored. Sums of doubles depend on the order of addition, and
MAX_BY takes the first of equals, so their rows come in sorted order, everywhere in the view. Where
the order is all that the answer is (ANY_VALUE, LIST without ORDER BY), the aggregate is refused.

    before:  SUM(x)                     after:  SUM(x ORDER BY x)          (x a DOUBLE)
    before:  MAX_BY(x, y)               after:  MAX_BY(x, y ORDER BY x, y)
    before:  STRING_AGG(x ORDER BY y)   after:  STRING_AGG(x ORDER BY y, x)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from viewkeep.errors import UnsupportedError
from viewkeep.plan.nodes import Aggregate, Named, Node, Window, inputs_of, types_of, with_inputs
from viewkeep.plan.scalars import Scalar, is_exact, window_function
from viewkeep.plan.ties import BY_PEERS, BY_POSITION, ONE_OF_THE_ROWS

_ANY_ORDER: tuple[type[exp.Expr], ...] = (exp.Count, exp.CountIf, exp.Min, exp.Max, exp.LogicalAnd, exp.LogicalOr)
_ANY_ORDER += (exp.BitwiseAndAgg, exp.BitwiseOrAgg, exp.BitwiseXorAgg, exp.ApproxDistinct)
_ANY_ORDER += (exp.Median, exp.Quantile, exp.PercentileCont, exp.PercentileDisc, exp.WithinGroup)
"""Their value follows from which values there are."""
_IN_ORDER: tuple[type[exp.Expr], ...] = (exp.Sum, exp.Avg, exp.Kurtosis, exp.Skewness, exp.Mode)
_IN_ORDER += (exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop)
_IN_ORDER += (exp.Corr, exp.CovarPop, exp.CovarSamp, exp.RegrSlope, exp.RegrIntercept, exp.RegrR2, exp.RegrCount)
_IN_ORDER += (exp.RegrAvgx, exp.RegrAvgy, exp.RegrSxx, exp.RegrSyy, exp.RegrSxy, exp.ArgMin, exp.ArgMax)
"""Their value follows from the rows in sorted order."""
_LISTS = (exp.GroupConcat, exp.ArrayAgg, exp.First, exp.Last)
"""Their value is the order that the user gives."""


def reproducible(node: Node) -> Node:
    """The same plan with every aggregate in it made reproducible."""
    below = with_inputs(node, tuple(reproducible(child) for child in inputs_of(node)))
    return reproducible_calls(below) if isinstance(below, Aggregate | Window) else below


def reproducible_calls(node: Aggregate | Window) -> Node:
    """One operator made reproducible."""
    types = types_of(node.input)
    make = _call if isinstance(node, Aggregate) else _window
    return replace(node, calls=tuple(Named(c.field, make(c.scalar, types)) for c in node.calls))


def _window(call: Scalar, types: Mapping[str, str]) -> Scalar:
    made = call.copy()
    function = window_function(made)
    if isinstance(function, exp.AggFunc) and not isinstance(function, BY_POSITION + BY_PEERS + ONE_OF_THE_ROWS):
        function.replace(_call(function, types))
    return made


def _call(call: Scalar, types: Mapping[str, str]) -> Scalar:
    if isinstance(call, exp.Filter):
        return exp.Filter(this=_call(call.this, types), expression=call.expression.copy())
    order = call.find(exp.Order)
    if isinstance(call, _ANY_ORDER) or (isinstance(call, exp.Sum | exp.Avg) and is_exact(_value(call.this), types)):
        return call
    if isinstance(call, _IN_ORDER) and not call.args.get("count") and order is None:
        return _ordered(call)
    if isinstance(call, _LISTS) and order is not None:
        made = call.copy()
        _extend(made.find(exp.Order), [_value(order.this)])
        return made
    raise UnsupportedError(f"{call.key.upper()} below another operator may differ for the same rows")


def _ordered(call: Scalar) -> Scalar:
    """The same call over rows that are sorted by all that it reads."""
    made = call.copy()
    last = made.args.get("expression") or made.this
    arguments = [_value(a) for a in (made.this, made.args.get("expression")) if isinstance(a, exp.Expr)]
    order = exp.Order(this=last.copy(), expressions=[])
    _extend(order, arguments)
    last.replace(order)
    return made


def _extend(order: exp.Expr | None, scalars: list[Scalar]) -> None:
    assert order is not None
    for scalar in scalars:
        if not any(o.this == scalar for o in order.expressions):
            order.append("expressions", exp.Ordered(this=scalar.copy(), nulls_first=False))


def _value(argument: exp.Expr) -> exp.Expr:
    return argument.expressions[0] if isinstance(argument, exp.Distinct) else argument
