"""For each operator of a view, the word for how it is maintained, and the reason where it is not *delta*.

delta                        the change of the output follows from the change of the input
affected keys                only the groups that a change touches are computed, old and new
recompute of this operator   its whole result, old and new; what is above it gets the difference
"""

from __future__ import annotations

from viewkeep.incremental.window import window_chain
from viewkeep.plan.nodes import Aggregate, Join, JoinKind, Node, TimeFilter, TopK, Window, walk
from viewkeep.strategy.components import Rule
from viewkeep.strategy.layout import BagLayout, GroupLayout

_RULES = {
    Rule.EXTEND_MIN: "a deleted minimum makes its group computed anew",
    Rule.EXTEND_MAX: "a deleted maximum makes its group computed anew",
    Rule.RANKED: "a group that loses all of the few first values it keeps is computed anew",
    Rule.EXTEND_SUM: "a sum of doubles is never subtracted from: groups that lose rows are computed anew",
    Rule.RECOMPUTE: "this aggregate has no smaller state: affected groups are computed anew",
}

_JOINS = {
    JoinKind.INNER: "delta",
    JoinKind.LEFT: "affected keys: a change on the right can give a left row its first partner or take its last",
    JoinKind.FULL: "affected keys: a change can give a row of the other side its first partner or take its last",
    JoinKind.SEMI: "affected keys: a change on the right can give a left row its first partner or take its last",
    JoinKind.ANTI: "affected keys: a change on the right can give a left row its first partner or take its last",
}


_RECOMPUTE = "recompute of this operator"
_WHEN_READ = "applied when the view is read"


def recomputed(root: Node, layout: BagLayout | GroupLayout) -> str | None:
    """What is below *affected keys* in a view, if anything is."""
    words = ((node, method_of(node, layout)) for node in walk(root))
    return next((f"{type(n).__name__}: {word}" for n, word in words if word.startswith(_RECOMPUTE)), None)


def anew(root: Node, layout: BagLayout | GroupLayout, keeps_changes: bool) -> str | None:
    """The operator that a refresh computes whole where a recompute would be cheaper, in words.

    A window at the top of a view is computed once: its old rows are those that are stored, and both are
    compared. A recompute has to compare them too, unless nobody asks what changed."""
    at_top = keeps_changes and isinstance(layout, BagLayout) and layout.partition is not None
    for node in walk(root):
        if isinstance(node, TopK) and method_of(node, layout).startswith(_RECOMPUTE):
            return "ORDER BY … LIMIT inside is computed anew"
        if isinstance(node, Window) and not at_top and method_of(node, layout).startswith(_RECOMPUTE):
            return "a window without PARTITION BY is computed anew"
    return None


def _window(node: Window) -> str:
    _, partition = window_chain(node)
    if not partition:
        return f"{_RECOMPUTE}: without PARTITION BY every row may change"
    return "affected keys: a row's value follows from its partition, so whole partitions are computed anew"


def _time_filter(node: TimeFilter) -> str:
    if any(isinstance(n, Aggregate | Window | TopK) for n in walk(node.input)):
        return f"{_RECOMPUTE}: time can move any of the rows that are computed below, so all of them are looked at"
    return "delta, and the rows that time moves across the bound"


def _inside(node: Node, layout: BagLayout | GroupLayout) -> bool:
    """Whether a node is part of what is stored."""
    return any(type(n) is type(node) and n.fields == node.fields for n in walk(layout.contents))


def method_of(node: Node, layout: BagLayout | GroupLayout) -> str:
    """The word for one node of the view's plan."""
    if isinstance(node, Join):
        return _JOINS[node.kind]
    if isinstance(node, Window):
        return _window(node) if _inside(node, layout) else _WHEN_READ
    if isinstance(node, TimeFilter):
        return _time_filter(node)
    if isinstance(node, TopK):
        return f"{_RECOMPUTE}: one row in can push another out" if _inside(node, layout) else _WHEN_READ
    if not isinstance(node, Aggregate):
        return "delta"
    if isinstance(layout, GroupLayout) and node.fields == layout.aggregate.fields:
        reasons = dict.fromkeys(_RULES[c.rule] for c in layout.state.components if c.rule is not Rule.ADD)
        return f"affected keys: {'; '.join(reasons)}" if reasons else "delta (stored state, found by key)"
    if not _inside(node, layout):
        return _WHEN_READ
    return "affected keys: it is below another operator, so old and new rows of its groups are compared"
