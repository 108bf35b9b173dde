"""Delta of a filter.

    Δ(σ R) = σ(ΔR)

Linear: the predicate sees one row at a time, and a weight says nothing about it.
"""

from __future__ import annotations

from viewkeep.incremental.weighted import Weighted
from viewkeep.plan.nodes import Filter


def delta_filter(node: Filter, below: Weighted) -> Weighted:
    return Weighted(Filter(below.node, node.predicate), below.weight)
