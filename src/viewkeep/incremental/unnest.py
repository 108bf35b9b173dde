"""Delta of UNNEST.

    Δ(unnest R) = unnest(ΔR)

Linear: the elements come from the row itself, and have its weight.
"""

from __future__ import annotations

from dataclasses import replace

from viewkeep.incremental.weighted import Weighted
from viewkeep.plan.nodes import Unnest


def delta_unnest(node: Unnest, below: Weighted) -> Weighted:
    return Weighted(replace(node, input=below.node), below.weight)
