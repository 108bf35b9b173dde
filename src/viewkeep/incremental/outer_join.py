"""Delta of outer joins.

    Δ(L ⟕ R) = ΔL ⟕ R[new]  +  L[old] ⋈ ΔR  +  (lost − won) × NULL
    Δ(L ⟗ R) = Δ(L ⟕ R)  +  NULL × Δ(R ▷ L)

A left row brings its partners, or NULLs, by itself: a change of the left side joins the right side
as it is now, and if nothing else changed that is all. A change of the right side is joined with the
old left side, weights multiplied; beyond that it only matters to the rows that stop or start to
stand beside NULLs (partners.py). A full join also has the right rows without a partner: an anti join.
"""

from __future__ import annotations

from sqlglot import exp

from viewkeep.incremental.affected import narrowed
from viewkeep.incremental.old import join_weighted
from viewkeep.incremental.partners import Partners
from viewkeep.incremental.weighted import Context, Weighted, add, negate
from viewkeep.plan.nodes import Filter, Join, JoinKind, Node
from viewkeep.plan.scalars import conjuncts


def delta_left(
    node: Join, left: Weighted | None, right: Weighted | None, moved: Partners | None, context: Context
) -> Weighted:
    """`left` and `right` are the deltas of the sides; `moved` is what that of the right side does."""
    terms: list[Weighted] = []
    if left is not None:
        met = Join(left.node, narrowed(node.right, node.condition, left, context.fresh), node.condition, JoinKind.LEFT)
        terms.append(Weighted(met, left.weight))
    if right is not None and moved is not None:
        # The candidates are all that a changed right row can meet.
        terms.append(join_weighted([right, moved.candidates], conjuncts(node.condition), context))
        terms += [beside_nulls(moved.lost, node.right), negate(beside_nulls(moved.won, node.right), context.fresh)]
    return add(terms, node.fields, context.fresh)


def delta_full(node: Join, left_join: Weighted, right_alone: Weighted, context: Context) -> Weighted:
    """`left_join` is Δ(L ⟕ R), `right_alone` is Δ(R ▷ L)."""
    return add([left_join, beside_nulls(right_alone, node.left)], node.fields, context.fresh)


def beside_nulls(rows: Weighted, other: Node) -> Weighted:
    """Rows with a NULL for each column of another relation, of that column's own type."""
    nobody = Filter(other, exp.false())
    return Weighted(Join(rows.node, nobody, exp.false(), JoinKind.LEFT), rows.weight)
