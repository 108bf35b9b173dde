"""Delta of inner joins of any number of relations.

    Δ(R₁ ⋈ … ⋈ Rₙ) = Σᵢ  R₁[old] ⋈ … ⋈ Rᵢ₋₁[old] ⋈ ΔRᵢ ⋈ Rᵢ₊₁[new] ⋈ … ⋈ Rₙ[new]

n branches, not 2ⁿ−1: with everything before i old and everything after it new, each pair of
changes is counted in exactly one branch. Weights multiply, so an insert that meets a delete
cancels and two deletes count once. A relation that did not change has no branch, and its old
state is its new one. The order is free: the largest relation comes last, so that nobody has to make
its old state. Each branch starts from its delta, the smallest input, and of a relation that
is computed in groups it computes those that the delta can meet.

Relations that are reached along foreign keys count as one with the relation that points at them:
see foreign_keys.py. Where it turns out only while the program runs whether they can, both forms are
there, and one of them is empty.
"""

from __future__ import annotations

from sqlglot import exp

from viewkeep.incremental.affected import narrowed
from viewkeep.incremental.foreign_keys import Component, all_rows, components
from viewkeep.incremental.old import join_weighted, old
from viewkeep.incremental.weighted import Context, Weighted, add
from viewkeep.plan.nodes import Filter, Join, Node
from viewkeep.plan.scalars import Scalar, conjoin


def delta_join(
    node: Join, relations: list[Node], predicates: list[Scalar], changes: list[Weighted | None], context: Context
) -> Weighted | None:
    """`relations` and `predicates` are the flattened join; `changes` has the delta of each relation."""
    parts = components(relations, context.edges)
    relied = _sum_of_branches(node, parts, relations, predicates, changes, context)
    if context.guard is None or len(parts) == len(relations):
        return relied
    alone = components(relations, frozenset())
    general = _sum_of_branches(node, alone, relations, predicates, changes, context)
    doubted = exp.Exists(this=exp.select(exp.Literal.number(1)).from_(exp.to_table(context.guard.name, quoted=True)))
    cases = [(relied, exp.Not(this=doubted)), (general, doubted.copy())]
    found = [Weighted(Filter(case.node, when), case.weight) for case, when in cases if case is not None]
    return add(found, node.fields, context.fresh) if found else None


def _sum_of_branches(
    node: Join,
    parts: list[Component],
    relations: list[Node],
    predicates: list[Scalar],
    changes: list[Weighted | None],
    context: Context,
) -> Weighted | None:
    branches: list[Weighted] = []
    condition = conjoin(predicates)
    parts = sorted(parts, key=lambda part: max(context.size_rank(relations[m]) for m in part.members))
    for i, part in enumerate(parts):
        change = changes[part.root]
        if change is None:
            continue  # whatever else changed in this part, nothing points at it
        beside = [all_rows(relations[m], context) for m in part.others]
        before = [old(relations[m], context) for p in parts[:i] for m in p.members]
        after = [Weighted(relations[m]) for p in parts[i + 1 :] for m in p.members]
        others = [Weighted(narrowed(r.node, condition, change, context.fresh), r.weight) for r in (*before, *after)]
        # What stands beside the root is a table and the few rows it lost: there is nothing to narrow.
        branches.append(join_weighted([change, *beside, *others], predicates, context))
    return add(branches, node.fields, context.fresh) if branches else None
