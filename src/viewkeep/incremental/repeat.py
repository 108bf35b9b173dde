"""Delta of a repetition.

    Δ(repeat R) = repeat(ΔR)

Linear: each row stands for itself, as often as its own `times` column says, and its copies have
its weight.
"""

from __future__ import annotations

from viewkeep.incremental.weighted import Weighted
from viewkeep.plan.nodes import Repeat


def delta_repeat(node: Repeat, below: Weighted) -> Weighted:
    return Weighted(Repeat(below.node, node.times), below.weight)
