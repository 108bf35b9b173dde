"""Delta of semi and anti joins.

    Δ(L ⋉ R) = ΔL ⋉ R[new]  +  won − lost
    Δ(L ▷ R) = ΔL ▷ R[new]  +  lost − won

A left row is kept or dropped by itself, so a change of the left side passes like through a filter.
A change of the right side matters to the rows of L[old] that it gives their first partner or takes
the last one from: partners.py. If the right side did not change there are none.
"""

from __future__ import annotations

from viewkeep.incremental.affected import narrowed
from viewkeep.incremental.partners import Partners
from viewkeep.incremental.weighted import Context, Weighted, add, negate
from viewkeep.plan.nodes import Join, JoinKind


def delta_semi(node: Join, left: Weighted | None, moved: Partners | None, context: Context) -> Weighted:
    """`left` is the delta of the left side; `moved` is what a change of the right side does."""
    terms: list[Weighted] = []
    if left is not None:
        met = Join(left.node, narrowed(node.right, node.condition, left, context.fresh), node.condition, node.kind)
        terms.append(Weighted(met, left.weight))
    if moved is not None:
        comes, goes = (moved.won, moved.lost) if node.kind is JoinKind.SEMI else (moved.lost, moved.won)
        terms += [comes, negate(goes, context.fresh)]
    return add(terms, node.fields, context.fresh)
