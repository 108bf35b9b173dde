"""What cancels out in a change, taken out where its rows are fewest.

    Δf ⋈ s ⋈ t        one branch: a change of f that another takes back does so before it is joined

Rows of Δf are shorter than those of the view, and each may have many partners.

Two changes of f that differ may still become the same row of the view: an update of a column that decides with which
row of s it is joined, where both say the same. Such a row leaves and comes again. That is right, and rare where the
view's rows are told apart by the key of f; elsewhere a change of one row of s, of a column that only a filter reads,
would replace all rows that it is joined with. So there the change itself is netted.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from viewkeep.incremental.weighted import Weighted, to_units
from viewkeep.plan.conditions import ids_of
from viewkeep.plan.nodes import Filter, Fresh, Join, JoinKind, Named, Node, Project, walk
from viewkeep.plan.scalars import column, columns_of


def net_units(change: Weighted, key: tuple[str, ...], fresh: Fresh) -> Weighted:
    """The change in units, of rows that are told apart by the columns `key`, if there are any."""
    if key and change.weight is not None:
        below = _net(change.node, change.weight, frozenset(key), fresh)
        if below is not None:
            return Weighted(below, change.weight)
    return to_units(change, fresh)


def _net(node: Node, weight: str, key: frozenset[str], fresh: Fresh) -> Node | None:
    """The same plan with what is joined first in units; None where weight and key are not of one side of each join."""
    if not any(isinstance(n, Join) for n in walk(node)):
        units = to_units(Weighted(node, weight), fresh)
        named = tuple(Named(f, units.weight_scalar if f.id == weight else column(f.id)) for f in node.fields)
        return Project(units.node, named)
    match node:
        case Filter() if weight not in columns_of(node.predicate):
            below = _net(node.input, weight, key, fresh)
            return None if below is None else replace(node, input=below)
        case Project():
            passed = {o.field.id: o.scalar.name for o in node.outputs if isinstance(o.scalar, exp.Column)}
            uses = [o for o in node.outputs if weight in passed and passed[weight] in columns_of(o.scalar)]
            if len(uses) != 1 or not key <= passed.keys():
                return None
            below = _net(node.input, passed[weight], frozenset(passed[k] for k in key), fresh)
            return None if below is None else replace(node, input=below)
        case Join():
            return _net_side(node, weight, key, fresh)
        case _:
            return None


def _net_side(node: Join, weight: str, key: frozenset[str], fresh: Fresh) -> Node | None:
    wanted = key | {weight}
    if wanted <= ids_of(node.left) and node.kind.linear_in_left:
        left = _net(node.left, weight, key, fresh)
        return None if left is None else replace(node, left=left)
    if wanted <= ids_of(node.right) and node.kind is JoinKind.INNER:
        right = _net(node.right, weight, key, fresh)
        return None if right is None else replace(node, right=right)
    return None
