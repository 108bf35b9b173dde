"""Left rows that a change of the right side gives their first partner, or takes the last one from.

    C     = rows of L[old] that may meet a row of ΔR: those whose join key occurs in ΔR
    won   = (C ▷ R[old]) ⋉ R[new]
    lost  = (C ⋉ R[old]) ▷ R[new]

All that is not linear in semi, anti and outer joins is in these two. They are exact: a row whose
partners only changed in number is in neither. L may be weighted, as each of its rows counts by
itself. Without an equality C is found by the condition itself, and R is read whole.

    L = {1, 2}, R[old] = {2}, ΔR = {+1, −2}, on equality:   won = {1}, lost = {2}
"""

from __future__ import annotations

from dataclasses import dataclass

from viewkeep.incremental.affected import join_keys, restrict
from viewkeep.incremental.weighted import Context, Weighted, consolidate
from viewkeep.plan.conditions import equalities_of
from viewkeep.plan.nodes import Join, JoinKind, Node


@dataclass(frozen=True, slots=True, eq=False)
class Partners:
    candidates: Weighted
    won: Weighted
    lost: Weighted


def partners(join: Join, left: Weighted, right: Weighted, change: Weighted, context: Context) -> Partners:
    """`left` and `right` are the old states of both sides, `change` is the delta of the right side."""
    now, then, candidates = join.right, right.node, left.node
    if pairs := equalities_of(join):
        keys = join_keys(change, pairs, [p.right for p in pairs], context.fresh)
        candidates = restrict(candidates, tuple(p.left for p in pairs), keys)
        now, then = (restrict(side, tuple(p.right for p in pairs), keys) for side in (now, then))
    else:
        candidates = Join(candidates, change.node, join.condition, JoinKind.SEMI)
    # Whether a partner is there is all that counts, not how many of them.
    there = consolidate(Weighted(then, right.weight), context.fresh).node if right.weight else then

    def meet(node: Node, side: Node, kind: JoinKind) -> Node:
        return Join(node, side, join.condition, kind)

    won = meet(meet(candidates, there, JoinKind.ANTI), now, JoinKind.SEMI)
    lost = meet(meet(candidates, there, JoinKind.SEMI), now, JoinKind.ANTI)
    return Partners(*(Weighted(node, left.weight) for node in (candidates, won, lost)))
