"""Which foreign keys must not be relied on this time, and why: one query for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from viewkeep.emit.select import select
from viewkeep.incremental.foreign_keys import Doubt
from viewkeep.plan.nodes import Node


def guard_query(
    doubts: Sequence[Sequence[Doubt]], dialect: str, bind: Callable[[Node], Node] = lambda n: n
) -> exp.Query | None:
    """The numbers of the edges and of their doubts that have a row; None where there is nothing to doubt."""
    parts: list[exp.Query] = []
    for edge, about in enumerate(doubts):
        for number, doubt in enumerate(about):
            found = select(bind(doubt.plan), [(exp.Literal.number(1), "found")], dialect)
            numbers = [(edge, "edge"), (number, "doubt")]
            one = exp.select(*(exp.alias_(exp.Literal.number(n), name) for n, name in numbers))
            parts.append(one.where(exp.Exists(this=found)))
    if not parts:
        return None
    whole = parts[0]
    for part in parts[1:]:
        whole = exp.union(whole, part, distinct=False, copy=False)
    return whole
