"""Delta of a projection.

    Δ(π R) = π(ΔR)

Linear. The weight passes beside the computed columns; rows that became equal are not merged.
"""

from __future__ import annotations

from viewkeep.incremental.weighted import Weighted, keep
from viewkeep.plan.nodes import Project


def delta_project(node: Project, below: Weighted) -> Weighted:
    weight = tuple(f for f in below.node.fields if f.id == below.weight)
    return Weighted(Project(below.node, (*node.outputs, *keep(weight))), below.weight)
