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
from viewkeep.plan.nodes import Filter, State, TimeFilter, types_of
from viewkeep.plan.scalars import Scalar, integer, operand

_BETWEEN = {
    exp.GT: (exp.GT, exp.LTE),
    exp.LTE: (exp.GT, exp.LTE),
    exp.GTE: (exp.GTE, exp.LT),
    exp.LT: (exp.GTE, exp.LT),
}
"""How a value compares with the smaller and with the larger of two bounds, if one of them lets it pass."""

_WITHOUT_ZONE = "TIMESTAMP"
_DAY = exp.Interval(this=exp.Literal.string("1"), unit=exp.var("DAY"))


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
    rows = Weighted(Filter(before.node, _between_bounds(node)), before.weight)
    sign: Scalar = exp.Case(ifs=[exp.If(this=node.test.copy(), true=integer(1))], default=integer(-1))
    weight = sign if before.weight is None else exp.Mul(this=before.weight_scalar, expression=operand(sign))
    return with_weight(rows, weight, context.fresh)


def _between_bounds(node: TimeFilter) -> Scalar:
    """Whether a row passes at one of the two times and not at the other."""
    value, (old, new) = node.test.left, (at(node.test.right, state) for state in (State.OLD, State.NEW))
    least = exp.Least(this=old, expressions=[new], ignore_nulls=True)
    greatest = exp.Greatest(this=old.copy(), expressions=[new.copy()], ignore_nulls=True)
    above, below = _BETWEEN[type(node.test)]
    exactly = [above(this=value.copy(), expression=least), below(this=value.copy(), expression=greatest)]
    if not isinstance(value, exp.Column) or types_of(node.input)[value.name].upper() != _WITHOUT_ZONE:
        return exp.and_(*exactly, copy=False)
    # To compare it with a time in a zone, every single value has to be understood in the zone of the session, which
    # takes long. No zone is a day away from another one, so a range of the values as they are leaves few of them.
    from_, to = (exp.cast(bound.copy(), _WITHOUT_ZONE) for bound in (least, greatest))
    roughly = [
        exp.GTE(this=value.copy(), expression=exp.Sub(this=from_, expression=_DAY.copy())),
        exp.LTE(this=value.copy(), expression=exp.Add(this=to, expression=_DAY.copy())),
    ]
    return exp.and_(*roughly, *exactly, copy=False)
