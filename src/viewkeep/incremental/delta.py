"""The delta of a plan: what its result gains and loses when its tables change.

    delta(Q)  such that  old(Q) + delta(Q) = new(Q)   as bags, whatever changed at once

Each operator has its rule in the file of its name; this driver recurses and hands every rule the
deltas of its inputs. None means: no table below changed, nothing to do.
"""

from __future__ import annotations

from typing import assert_never

from viewkeep.errors import UnsupportedError
from viewkeep.incremental.aggregate import delta_aggregate
from viewkeep.incremental.filter import delta_filter
from viewkeep.incremental.join import delta_join
from viewkeep.incremental.old import old
from viewkeep.incremental.project import delta_project
from viewkeep.incremental.scan import delta_scan
from viewkeep.incremental.union import delta_union
from viewkeep.incremental.weighted import Context, Weighted
from viewkeep.plan.nodes import Aggregate, Filter, Join, JoinKind, Node, Project, Repeat, Scan, TopK, Union, Values
from viewkeep.plan.rewrite import flatten_join


def delta(node: Node, context: Context) -> Weighted | None:
    if not context.touches(node):
        return None
    match node:
        case Scan():
            return delta_scan(node, context)
        case Filter():
            return delta_filter(node, _changed(node.input, context))
        case Project():
            return delta_project(node, _changed(node.input, context))
        case Join(kind=JoinKind.INNER):
            relations, predicates = flatten_join(node)
            changes = [delta(r, context) for r in relations]
            return delta_join(node, relations, predicates, changes, context)
        case Union():
            return delta_union(node, [d for child in node.inputs if (d := delta(child, context))], context)
        case Aggregate():
            return delta_aggregate(node, _changed(node.input, context), old(node.input, context), context)
        case Values():
            return None
        case TopK() | Repeat() | Join():
            raise UnsupportedError(f"{type(node).__name__} inside a view has no delta rule")
        case _:
            assert_never(node)


def _changed(node: Node, context: Context) -> Weighted:
    """The delta of an input that is known to read a changed table."""
    found = delta(node, context)
    assert found is not None
    return found
