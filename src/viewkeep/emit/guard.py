"""Which foreign keys must not be relied on this time: one query for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from viewkeep.emit.select import select
from viewkeep.plan.nodes import Node


def guard_sql(doubts: Sequence[Sequence[Node]], dialect: str, bind: Callable[[Node], Node] = lambda n: n) -> str | None:
    """The numbers of the edges one of whose doubts has a row; None where there is nothing to doubt."""
    parts: list[exp.Query] = []
    for number, plans in enumerate(doubts):
        for plan in plans:
            found = select(bind(plan), [(exp.Literal.number(1), "found")], dialect)
            one = exp.select(exp.alias_(exp.Literal.number(number), "edge")).where(exp.Exists(this=found))
            parts.append(one)
    if not parts:
        return None
    whole = parts[0]
    for part in parts[1:]:
        whole = exp.union(whole, part, distinct=False, copy=False)
    return whole.sql(dialect=dialect)
