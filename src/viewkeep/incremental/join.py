"""Delta of inner joins of any number of relations.

    Δ(R₁ ⋈ … ⋈ Rₙ) = Σᵢ  R₁[old] ⋈ … ⋈ Rᵢ₋₁[old] ⋈ ΔRᵢ ⋈ Rᵢ₊₁[new] ⋈ … ⋈ Rₙ[new]

n branches, not 2ⁿ−1: with everything before i old and everything after it new, each pair of
changes is counted in exactly one branch. Weights multiply, so an insert that meets a delete
cancels and two deletes count once. A relation that did not change has no branch, and its old
state is its new one. Each branch starts from its delta, the smallest input, and of a relation that
is computed in groups it computes those that the delta can meet.
"""

from __future__ import annotations

from viewkeep.incremental.affected import narrowed
from viewkeep.incremental.old import join_weighted, old
from viewkeep.incremental.weighted import Context, Weighted, add
from viewkeep.plan.nodes import Join, Node
from viewkeep.plan.scalars import Scalar, conjoin


def delta_join(
    node: Join, relations: list[Node], predicates: list[Scalar], changes: list[Weighted | None], context: Context
) -> Weighted:
    """`relations` and `predicates` are the flattened join; `changes` has the delta of each relation."""
    branches: list[Weighted] = []
    condition = conjoin(predicates)
    for i, change in enumerate(changes):
        if change is None:
            continue
        before = [old(r, context) for r in relations[:i]]
        after = [Weighted(r) for r in relations[i + 1 :]]
        others = [Weighted(narrowed(r.node, condition, change, context.fresh), r.weight) for r in (*before, *after)]
        branches.append(join_weighted([change, *others], predicates, context))
    return add(branches, node.fields, context.fresh)
