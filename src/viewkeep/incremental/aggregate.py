"""Delta of GROUP BY and DISTINCT below the top of a view, by affected keys.

    K = keys in ΔR        Δ(γ R) = γ(R[new] ⋉ K) − γ(R[old] ⋉ K)

Right for every aggregate function that gives the same value for the same rows: reproducible.py
sees to that. The aggregate at the top of a view keeps state instead: see strategy/grouped.py.
Without keys there is one group, and it is affected.
"""

from __future__ import annotations

from dataclasses import replace

from viewkeep.incremental.affected import affected_keys, restrict
from viewkeep.incremental.weighted import Context, Weighted, add, negate
from viewkeep.incremental.weighted_groups import aggregate_weighted
from viewkeep.plan.nodes import Aggregate


def delta_aggregate(node: Aggregate, change: Weighted, before: Weighted, context: Context) -> Weighted:
    """`change` and `before` are the delta and the old state of the input."""
    new_input, old_input = node.input, before
    if node.keys:
        scalars = tuple(k.scalar for k in node.keys)
        keys = affected_keys(change, scalars, context.fresh)
        new_input = restrict(node.input, scalars, keys)
        old_input = Weighted(restrict(before.node, scalars, keys), before.weight)
    now = Weighted(replace(node, input=new_input))
    then = Weighted(aggregate_weighted(node, old_input, context.fresh))
    return add([now, negate(then, context.fresh)], node.fields, context.fresh)
