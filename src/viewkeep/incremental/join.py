"""Delta of inner joins of any number of relations.

    Δ(R₁ ⋈ … ⋈ Rₙ) = Σᵢ  R₁[old] ⋈ … ⋈ Rᵢ₋₁[old] ⋈ ΔRᵢ ⋈ Rᵢ₊₁[new] ⋈ … ⋈ Rₙ[new]

n branches, not 2ⁿ−1: with everything before i old and everything after it new, each pair of
changes is counted in exactly one branch. Weights multiply, so an insert that meets a delete
cancels and two deletes count once. A relation that did not change has no branch, and its old
state is its new one. The order is free: the largest relation comes last, so that nobody has to make
its old state. Each branch starts from its delta, the smallest input, and of a relation that
is computed in groups it computes those that the delta can meet.

A relation that did not change would be read once a branch. Where the others hang together without it,
it is joined to the sum of the branches instead, and read once:

    Δ(R ⋈ S ⋈ U) = Δ(R ⋈ S) ⋈ U

Relations that are reached along foreign keys count as one with the relation that points at them:
see foreign_keys.py. Where it turns out only while the program runs whether they can, both forms are
there, and one of them is empty.
"""

from __future__ import annotations

from sqlglot import exp

from viewkeep.incremental.affected import narrowed
from viewkeep.incremental.foreign_keys import Component, all_rows, components
from viewkeep.incremental.joined_once import joined_once
from viewkeep.incremental.old import join_weighted, old
from viewkeep.incremental.weighted import Context, Weighted, add
from viewkeep.plan.conditions import ids_of
from viewkeep.plan.nodes import Filter, Join, Node
from viewkeep.plan.scalars import Scalar, columns_of, conjoin


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
    once = joined_once(parts, relations, predicates, changes, context)
    parts = [p for p in parts if p.root not in once]
    parts.sort(key=lambda part: max(context.size_rank(relations[m]) for m in part.members))
    inside = frozenset().union(*(ids_of(relations[m]) for p in parts for m in p.members))
    within = [p for p in predicates if columns_of(p) <= inside]
    branches: list[Weighted] = []
    for i, part in enumerate(parts):
        change = changes[part.root]
        if change is None:
            continue  # whatever else changed in this part, nothing points at it
        beside = [all_rows(relations[m], context) for m in part.others]
        before = [old(relations[m], context) for p in parts[:i] for m in p.members]
        after = [Weighted(relations[m]) for p in parts[i + 1 :] for m in p.members]
        others = [_narrowed(r, predicates, change, context) for r in (*before, *after)]
        # What stands beside the root is a table and the few rows it lost: there is nothing to narrow.
        branches.append(join_weighted([change, *beside, *others], within, context))
    if not branches:
        return None
    found = add(branches, tuple(f for f in node.fields if f.id in inside), context.fresh)
    if not once:
        return found
    rest = [_narrowed(Weighted(relations[u]), predicates, found, context) for u in once]
    above = [p for p in predicates if not columns_of(p) <= inside]
    return add([join_weighted([found, *rest], above, context)], node.fields, context.fresh)


def _narrowed(relation: Weighted, predicates: list[Scalar], change: Weighted, context: Context) -> Weighted:
    return Weighted(narrowed(relation.node, conjoin(predicates), change, context.fresh), relation.weight)
