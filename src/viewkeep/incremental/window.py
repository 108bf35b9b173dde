"""Delta of window functions, by affected partitions.

    K = partitions in ΔR        Δ(ω R) = ω(R[new] ⋉ K) − ω(R[old] ⋉ K)

Right for every function and frame: a row's value depends on the rows of its partition alone. It
has to be the same for the same rows, which plan/ties.py and reproducible.py see to. Without
PARTITION BY all rows are one partition, and it is affected.

Windows on top of one another are one operator by the coarsest partition, where the partition of
one is part of the other's. Otherwise the upper ones see the change of the lower ones.
"""

from __future__ import annotations

from viewkeep.incremental.affected import affected_keys, restrict
from viewkeep.incremental.weighted import Context, Weighted, add, negate, to_rows
from viewkeep.plan.nodes import Node, Window, graft
from viewkeep.plan.scalars import Scalar


def window_chain(node: Window) -> tuple[Node, tuple[Scalar, ...]]:
    """What is below the windows that are maintained together with this one, and their partition."""
    base, partition = node.input, node.partition
    while isinstance(base, Window):
        lower = base.partition
        if not (set(lower) <= set(partition) or set(partition) <= set(lower)):
            break
        base, partition = base.input, min(lower, partition, key=len)
    return base, partition


def delta_window(node: Window, change: Weighted, before: Weighted, context: Context) -> Weighted:
    """`change` and `before` are the delta and the old state of what `window_chain` gives."""
    base, partition = window_chain(node)
    keys = affected_keys(change, partition, context.fresh)
    rows = to_rows(Weighted(restrict(before.node, partition, keys), before.weight), context.fresh)
    return window_difference(node, restrict(base, partition, keys), rows, context)


def window_difference(node: Window, new_rows: Node, old_rows: Node, context: Context) -> Weighted:
    """The windows over the rows of now, minus the windows over the rows of before."""
    base, _ = window_chain(node)
    now, then = Weighted(graft(node, base, new_rows)), Weighted(graft(node, base, old_rows))
    return add([now, negate(then, context.fresh)], node.fields, context.fresh)
