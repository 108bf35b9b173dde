"""Aggregates and windows below the top of a view, in a form that gives the same bits for the same rows.

The delta of a nested aggregate computes the old value again. If that came out different in its
last bit, it would not cancel what was stored. Sums of doubles depend on the order of addition, so
they are taken in sorted order, everywhere in the view; what cannot be made reproducible is refused.

    before:  SUM(x)                     after:  SUM(x ORDER BY x)          (x a DOUBLE)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from viewkeep.errors import UnsupportedError
from viewkeep.plan.nodes import Aggregate, Named, Node, Window, inputs_of, types_of, with_inputs
from viewkeep.plan.scalars import Scalar, is_exact, window_function
from viewkeep.plan.ties import BY_PEERS, BY_POSITION, ONE_OF_THE_ROWS

_ANY_ORDER = (exp.Count, exp.Min, exp.Max, exp.Median, exp.LogicalAnd, exp.LogicalOr)
_ANY_ORDER_BITS = (exp.BitwiseAndAgg, exp.BitwiseOrAgg, exp.BitwiseXorAgg)
_ADDING = (exp.Sum, exp.Avg, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop)


def reproducible(node: Node) -> Node:
    """The same plan with every aggregate in it made reproducible."""
    below = with_inputs(node, tuple(reproducible(child) for child in inputs_of(node)))
    if not isinstance(below, Aggregate | Window):
        return below
    types = types_of(below.input)
    make = _call if isinstance(below, Aggregate) else _window
    return replace(below, calls=tuple(Named(c.field, make(c.scalar, types)) for c in below.calls))


def _window(call: Scalar, types: Mapping[str, str]) -> Scalar:
    made = call.copy()
    function = window_function(made)
    if isinstance(function, exp.AggFunc) and not isinstance(function, BY_POSITION + BY_PEERS + ONE_OF_THE_ROWS):
        function.replace(_call(function, types))
    return made


def _call(call: Scalar, types: Mapping[str, str]) -> Scalar:
    argument = call.this
    if isinstance(call, _ANY_ORDER + _ANY_ORDER_BITS):
        return call
    if isinstance(call, exp.Sum | exp.Avg) and is_exact(_value(argument), types):
        return call
    if isinstance(call, _ADDING) and not isinstance(argument, exp.Distinct | exp.Order):
        order = exp.Order(this=argument.copy(), expressions=[exp.Ordered(this=argument.copy(), nulls_first=False)])
        return type(call)(this=order)
    if isinstance(call, exp.GroupConcat | exp.ArrayAgg) and call.find(exp.Order):
        return call
    raise UnsupportedError(f"{call.key.upper()} below another operator may differ for the same rows")


def _value(argument: exp.Expr) -> exp.Expr:
    return argument.expressions[0] if isinstance(argument, exp.Distinct) else argument
