"""Groups of weighted rows.

    COUNT(*) = Σ w        COUNT(x) = Σ w [x is not NULL]        SUM(x) = Σ x [w > 0] − Σ x [w < 0]

A group is there if its weights do not add up to 0; the one group of an aggregate without keys always
is. So DISTINCT, counts and exact sums need no rows: weights come from an old state that is derived,
where most rows have weight +1 and few are taken back. Any other aggregate gets its rows made first.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from viewkeep.incremental.weighted import Weighted, keep, to_rows
from viewkeep.plan.nodes import Aggregate, Field, Filter, Fresh, Named, Node, Project, types_of
from viewkeep.plan.scalars import Scalar, column, integer, is_decimal, is_exact, negated


def aggregate_weighted(node: Aggregate, rows: Weighted, fresh: Fresh) -> Node:
    """The groups of `node` over other rows, which may be weighted by ±1."""
    if rows.weight is None:
        return replace(node, input=rows.node)
    types = types_of(node.input)
    if not all(_adds_up(c.scalar, types) for c in node.calls):
        return replace(node, input=to_rows(rows, fresh))
    weight = column(rows.weight)
    total = Named(Field(fresh("rows"), "BIGINT"), _count(weight))
    calls, outputs = [total], []
    for call in node.calls:
        new, value = _weighted(call.scalar, weight, column(total.field.id), types, fresh)
        calls += new
        outputs.append(Named(call.field, value))
    grouped: Node = Aggregate(rows.node, node.keys, tuple(calls))
    if node.keys:
        grouped = Filter(grouped, exp.NEQ(this=column(total.field.id), expression=integer(0)))
    return Project(grouped, (*keep(tuple(k.field for k in node.keys)), *outputs))


def _adds_up(call: Scalar, types: dict[str, str]) -> bool:
    argument = call.this
    if not isinstance(argument, exp.Expr) or isinstance(argument, exp.Distinct | exp.Order) or call.expressions:
        return False
    return isinstance(call, exp.Count) or (isinstance(call, exp.Sum) and is_exact(argument, types))


def _weighted(
    call: Scalar, weight: Scalar, rows: Scalar, types: dict[str, str], fresh: Fresh
) -> tuple[list[Named], Scalar]:
    """Calls over weighted rows, and the value that follows from them."""
    argument = call.this
    if isinstance(argument, exp.Star):
        return [], rows
    present = exp.Not(this=exp.Is(this=exp.paren(argument), expression=exp.Null()))
    known = Named(Field(fresh("n"), "BIGINT"), _count(_when(present, weight)))
    if isinstance(call, exp.Count):
        return [known], column(known.field.id)
    signs = (exp.GT(this=weight.copy(), expression=integer(0)), exp.LT(this=weight.copy(), expression=integer(0)))
    some = exp.NEQ(this=column(known.field.id), expression=integer(0))
    if is_decimal(argument, types):
        # Not a difference of two sums: Spark would round the last digits of a wide one away.
        either = exp.Case(ifs=[exp.If(this=signs[0], true=argument.copy())], default=negated(argument))
        net = Named(Field(fresh("part")), exp.Sum(this=either))
        return [known, net], _when(some, column(net.field.id))
    gained, lost = (Named(Field(fresh("part")), exp.Sum(this=_when(sign, argument))) for sign in signs)
    both = exp.Sub(this=_zero(column(gained.field.id)), expression=_zero(column(lost.field.id)))
    return [known, gained, lost], _when(some, both)


def _count(weight: Scalar) -> Scalar:
    """A sum of weights in the type of a count."""
    return exp.cast(_zero(exp.Sum(this=weight.copy())), "BIGINT")


def _when(condition: Scalar, value: Scalar) -> Scalar:
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])


def _zero(scalar: Scalar) -> Scalar:
    return exp.Coalesce(this=scalar, expressions=[integer(0)])
