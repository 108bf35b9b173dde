"""The delta of a plan: what its result gains and loses when its tables change.

    delta(Q)  such that  old(Q) + delta(Q) = new(Q)   as bags, whatever changed at once

Each operator has its rule in the file of its name; this driver recurses and hands every rule the
deltas of its inputs. None means: nothing below changed, there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from viewkeep.incremental.aggregate import delta_aggregate
from viewkeep.incremental.filter import delta_filter
from viewkeep.incremental.join import delta_join
from viewkeep.incremental.old import old, old_rows
from viewkeep.incremental.outer_join import delta_full, delta_left
from viewkeep.incremental.partners import partners
from viewkeep.incremental.project import delta_project
from viewkeep.incremental.repeat import delta_repeat
from viewkeep.incremental.scan import delta_scan
from viewkeep.incremental.semi_join import delta_semi
from viewkeep.incremental.time_filter import delta_time_filter
from viewkeep.incremental.top_k import delta_top_k
from viewkeep.incremental.union import delta_union
from viewkeep.incremental.unnest import delta_unnest
from viewkeep.incremental.weighted import Context, Weighted, to_units
from viewkeep.incremental.window import delta_window, window_chain, window_difference
from viewkeep.plan.nodes import (
    Aggregate,
    Filter,
    Join,
    JoinKind,
    Node,
    Project,
    Repeat,
    Scan,
    TimeFilter,
    TopK,
    Union,
    Unnest,
    Values,
    Window,
    walk,
)
from viewkeep.plan.rewrite import flatten_join


def delta(node: Node, context: Context) -> Weighted | None:
    if not context.touches(node):
        return None
    match node:
        case Scan():
            return delta_scan(node, context)
        case Filter():
            return _over(delta(node.input, context), lambda below: delta_filter(node, below))
        case TimeFilter():
            before = old(node.input, context) if context.time_moved else None
            return delta_time_filter(node, delta(node.input, context), before, context)
        case Project():
            return _over(delta(node.input, context), lambda below: delta_project(node, below))
        case Join(kind=JoinKind.INNER):
            relations, predicates = flatten_join(node)
            changes = [_tight(r, context) for r in relations]
            return delta_join(node, relations, predicates, changes, context)
        case Union():
            found = [d for child in node.inputs if (d := delta(child, context))]
            return delta_union(node, found, context) if found else None
        case Aggregate():
            return _over(
                delta(node.input, context),
                lambda below: delta_aggregate(node, below, old(node.input, context), context),
            )
        case Window():
            base, partition = window_chain(node)
            if not partition:
                return _over(
                    delta(base, context),
                    lambda _: window_difference(node, base, old_rows(base, context), context),
                )
            return _over(delta(base, context), lambda below: delta_window(node, below, old(base, context), context))
        case Repeat():
            return _over(delta(node.input, context), lambda below: delta_repeat(node, below))
        case Unnest():
            return _over(delta(node.input, context), lambda below: delta_unnest(node, below))
        case TopK():
            return _over(
                delta(node.input, context), lambda _: delta_top_k(node, old_rows(node.input, context), context)
            )
        case Values():
            return None
        case Join():
            return _join_with_unmatched(node, context)
        case _:
            assert_never(node)


def _join_with_unmatched(node: Join, context: Context) -> Weighted | None:
    """Joins that also ask who has no partner: semi, anti, left, full."""
    left = _tight(node.left, context) if node.kind is JoinKind.FULL else delta(node.left, context)
    right, moved = _tight(node.right, context), None
    if left is None and right is None:
        return None
    if right is not None:
        moved = partners(node, old(node.left, context), old(node.right, context), right, context)
    if not node.kind.keeps_right:
        return delta_semi(node, left, moved, context)
    left_join = delta_left(node, left, right, moved, context)
    if node.kind is JoinKind.LEFT:
        return left_join
    mirrored = Join(node.right, node.left, node.condition, JoinKind.ANTI)
    met = partners(mirrored, old(node.right, context), old(node.left, context), left, context) if left else None
    return delta_full(node, left_join, delta_semi(mirrored, right, met, context), context)


def _tight(node: Node, context: Context) -> Weighted | None:
    """A delta without rows that cancel: each of them would be looked for on the other side.

    Only what is computed old and new leaves such rows.
    """
    found = delta(node, context)
    grouped = any(isinstance(n, Aggregate | Window | TopK) for n in walk(node))
    return to_units(found, context.fresh) if found is not None and grouped else found


def _over(below: Weighted | None, rule: Callable[[Weighted], Weighted]) -> Weighted | None:
    """A rule over the delta of an input, if it has one: by a foreign key a change may concern nobody."""
    return None if below is None else rule(below)
