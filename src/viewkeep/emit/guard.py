"""Which foreign keys must not be relied on this time, and why: one query for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from viewkeep.emit.select import select
from viewkeep.incremental.foreign_keys import Doubts
from viewkeep.plan.nodes import Node
from viewkeep.plan.scalars import column


def guard_query(
    doubts: Sequence[Doubts | None], dialect: str, bind: Callable[[Node], Node] = lambda n: n
) -> exp.Query | None:
    """The numbers of edges that have a doubt, and of their reason; None where there is nothing to doubt."""
    parts: list[exp.Query] = []
    for edge, about in enumerate(doubts):
        if about is None:
            continue
        reason = exp.Case()
        for number, (id_, _) in enumerate(about.reasons):
            found = exp.NEQ(this=column(id_), expression=exp.Literal.number(0))
            reason = reason.when(found, exp.Literal.number(number))
        outputs = [(exp.Literal.number(edge), "edge"), (reason, "reason")]
        parts.append(exp.select("edge", "reason").from_(select(bind(about.plan), outputs, dialect).subquery("doubts")))
    if not parts:
        return None
    whole = parts[0]
    for part in parts[1:]:
        whole = exp.union(whole, part, distinct=False, copy=False)
    return whole
