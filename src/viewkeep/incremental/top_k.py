"""Delta of ORDER BY … LIMIT below the top of a view: this operator alone is computed anew.

    Δ(τ R) = τ(R[new]) − τ(R[old])

One row in can push another out, and which one follows from all rows. The result is small, and what
is above gets the exact difference. At the top of a view the limit is applied when the view is read:
see strategy/layout.py.
"""

from __future__ import annotations

from dataclasses import replace

from viewkeep.incremental.weighted import Context, Weighted, add, negate
from viewkeep.plan.nodes import Node, TopK


def delta_top_k(node: TopK, before: Node, context: Context) -> Weighted:
    """`before` has the old rows of the input."""
    then = Weighted(replace(node, input=before))
    return add([Weighted(node), negate(then, context.fresh)], node.fields, context.fresh)
