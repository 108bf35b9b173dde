"""Variances whose values come in sorted order, for Spark, which has no ORDER BY inside a call.

    before:  VAR_POP(x ORDER BY x)
    after:   CASE WHEN COUNT(x) > 0 THEN AGGREGATE(ARRAY_SORT(COLLECT_LIST(x)), …) END

The fold is Welford's: what it adds is small, whatever the mean is. Over a window, or with a FILTER,
each of the calls inside gets it.
"""

from __future__ import annotations

from sqlglot import exp, parse_one

from viewkeep.plan.scalars import Scalar

_ZERO = "CAST(0 AS DOUBLE)"
_FOLD = (
    f"AGGREGATE(ARRAY_SORT(COLLECT_LIST(x)), NAMED_STRUCT('n', {_ZERO}, 'mean', {_ZERO}, 'squares', {_ZERO}), "
    "(a, v) -> NAMED_STRUCT('n', a.n + 1, 'mean', a.mean + (v - a.mean) / (a.n + 1), "
    "'squares', a.squares + (v - a.mean) * (v - a.mean) * a.n / (a.n + 1)), a -> {})"
)
_OF_A_SAMPLE, _OF_ALL = _FOLD.format("a.squares / (a.n - 1)"), _FOLD.format("a.squares / a.n")
_CALLS: dict[type[exp.Expr], str] = {
    exp.Variance: f"CASE WHEN COUNT(x) > 1 THEN {_OF_A_SAMPLE} END",
    exp.VariancePop: f"CASE WHEN COUNT(x) > 0 THEN {_OF_ALL} END",
    exp.Stddev: f"CASE WHEN COUNT(x) > 1 THEN SQRT({_OF_A_SAMPLE}) END",
    exp.StddevSamp: f"CASE WHEN COUNT(x) > 1 THEN SQRT({_OF_A_SAMPLE}) END",
    exp.StddevPop: f"CASE WHEN COUNT(x) > 0 THEN SQRT({_OF_ALL}) END",
}


def spell_variances(scalar: Scalar) -> Scalar:
    """The same value without ORDER BY inside a variance."""

    def swap(node: exp.Expr) -> exp.Expr:
        call, around = node, list[exp.Expr]()
        while isinstance(call, exp.Window | exp.Filter):
            around.append(call)
            call = call.this
        order = call.args.get("this")
        if type(call) not in _CALLS or not isinstance(order, exp.Order):
            return node
        return _written(_CALLS[type(call)], order.this, around)

    return scalar.copy().transform(swap)


def _written(text: str, value: exp.Expr, around: list[exp.Expr]) -> exp.Expr:
    def fill(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.AggFunc):
            return node
        call: exp.Expr = node.copy()
        if isinstance(value, exp.Distinct):
            call.set("this", exp.Distinct(expressions=[exp.cast(e.copy(), "DOUBLE") for e in value.expressions]))
        else:
            call.set("this", exp.cast(value.copy(), "DOUBLE"))
        for outer in reversed(around):
            inner, call = call, outer.copy()
            call.set("this", inner)
        return call

    return exp.paren(parse_one(text, dialect="spark").transform(fill), copy=False)
