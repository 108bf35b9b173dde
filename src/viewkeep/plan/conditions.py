"""What a join condition says about its two sides.

l.k = r.k AND l.a + 1 = r.b AND l.x < r.x      two equalities, one from each side, and a rest
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from viewkeep.plan.nodes import Join, Node
from viewkeep.plan.scalars import Scalar, columns_of, parts_of

_STRICT = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like, exp.Between)
"""Comparisons that are never true of a NULL."""


@dataclass(frozen=True, slots=True, eq=False)
class Equality:
    """A conjunct that equates something of the left side with something of the right."""

    left: Scalar
    right: Scalar
    null_safe: bool


def ids_of(node: Node) -> frozenset[str]:
    return frozenset(f.id for f in node.fields)


def equalities_of(join: Join) -> list[Equality]:
    return equalities(join.condition, ids_of(join.left), ids_of(join.right))


def equalities(condition: Scalar | None, left: frozenset[str], right: frozenset[str]) -> list[Equality]:
    """The equalities of a condition; what else it says is not here."""
    found = []
    for part in parts_of(condition):
        if not isinstance(part, exp.EQ | exp.NullSafeEQ):
            continue
        null_safe, a, b = isinstance(part, exp.NullSafeEQ), columns_of(part.left), columns_of(part.right)
        if a and b and a <= left and b <= right:
            found.append(Equality(part.left.copy(), part.right.copy(), null_safe))
        elif a and b and a <= right and b <= left:
            found.append(Equality(part.right.copy(), part.left.copy(), null_safe))
    return found


def equates_columns(predicate: Scalar) -> bool:
    return isinstance(predicate, exp.EQ) and all(
        isinstance(side, exp.Column) for side in (predicate.left, predicate.right)
    )


def rejects_null(predicate: Scalar, ids: frozenset[str]) -> bool:
    """Whether a predicate is certainly not true where all of some columns are NULL."""

    def is_null(scalar: object) -> bool:
        if isinstance(scalar, exp.Paren | exp.Neg | exp.Cast):
            return is_null(scalar.this)
        if isinstance(scalar, exp.Add | exp.Sub | exp.Mul | exp.Div):
            return is_null(scalar.this) or is_null(scalar.expression)
        return isinstance(scalar, exp.Column) and scalar.name in ids

    match predicate:
        case exp.Not(this=exp.Is(this=inner, expression=exp.Null())):
            return is_null(inner)
        case exp.In():
            return is_null(predicate.this)
        case _ if isinstance(predicate, _STRICT):
            return is_null(predicate.this) or is_null(predicate.args.get("expression"))
        case _:
            return False
