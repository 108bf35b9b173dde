"""Delta of UNION ALL.

    Δ(R + S) = ΔR + ΔS

Linear: inputs that did not change add nothing.
"""

from __future__ import annotations

from viewkeep.incremental.weighted import Context, Weighted, add
from viewkeep.plan.nodes import Union


def delta_union(node: Union, changes: list[Weighted], context: Context) -> Weighted:
    return add(changes, node.fields, context.fresh)
