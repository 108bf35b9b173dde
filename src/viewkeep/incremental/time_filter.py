"""Delta of a filter on the current time.

    Δσ = σ@now(R[new]) − σ@then(R[old]) = σ@now(ΔR) + (σ@now − σ@then)(R[old])

What changed is tested at the time of this refresh. The second term are the rows that were there and
cross the bound: those between the bound of then and the bound of now, which is all that is read of
them. With `ts > bound` they leave, with `ts < bound` they come; if the bound went back, which one
with months in it can do for an hour and a clock that is set back does, the other way around.

    ts > now() - INTERVAL '1 day'     leaves: then − 1 day < ts <= now − 1 day
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from viewkeep.incremental.weighted import Context, Weighted, add, with_weight
from viewkeep.plan.clock import at
from viewkeep.plan.nodes import Filter, State, TimeFilter
from viewkeep.plan.scalars import Scalar, integer, operand

_BETWEEN = {
    exp.GT: (exp.GT, exp.LTE),
    exp.LTE: (exp.GT, exp.LTE),
    exp.GTE: (exp.GTE, exp.LT),
    exp.LT: (exp.GTE, exp.LT),
}
"""How a value compares with the smaller and with the larger of two bounds, if one of them lets it pass."""


def delta_time_filter(node: TimeFilter, below: Weighted | None, before: Weighted | None, context: Context) -> Weighted:
    """`below` is the delta of the input; `before` is its old state, where the time has moved."""
    terms: list[Weighted] = []
    if below is not None:
        terms.append(Weighted(replace(node, input=below.node), below.weight))
    if before is not None:
        terms.append(_crossing(node, before, context))
    return add(terms, node.fields, context.fresh)


def old_time_filter(node: TimeFilter, before: Weighted, context: Context) -> Weighted:
    state = State.OLD if context.time_moved else State.NEW
    return Weighted(replace(node, input=before.node, state=state), before.weight)


def _crossing(node: TimeFilter, before: Weighted, context: Context) -> Weighted:
    rows = Weighted(Filter(before.node, between_bounds(node.test)), before.weight)
    sign: Scalar = exp.Case(ifs=[exp.If(this=node.test.copy(), true=integer(1))], default=integer(-1))
    weight = sign if before.weight is None else exp.Mul(this=before.weight_scalar, expression=operand(sign))
    return with_weight(rows, weight, context.fresh)


def between_bounds(test: exp.Binary) -> Scalar:
    """Whether a row passes at one of the two times and not at the other."""
    bounds = [at(test.right, state) for state in (State.OLD, State.NEW)]
    above, below = _BETWEEN[type(test)]
    least = exp.Least(this=bounds[0], expressions=[bounds[1]], ignore_nulls=True)
    greatest = exp.Greatest(this=bounds[0].copy(), expressions=[bounds[1].copy()], ignore_nulls=True)
    return exp.and_(
        above(this=test.left.copy(), expression=least), below(this=test.left.copy(), expression=greatest), copy=False
    )
