"""Where only the first rows of many matter: these are stored, and many in reserve.

    V = τ(R)        stored: σ(k ≤ bound)(R)        k: what R is sorted by first

The bound is the k of row RESERVE, as it was when all rows were last looked at; NULL where R had fewer, and then all
are stored. It stands in a table of its own, with one row, and does not change until then: so what is stored is a filter
like any other, and its delta is that of a filter. To a program the bound is a value that it is told, not a table that
it reads: an engine knows better what to do with a constant.

When so many rows have left that fewer are stored than the view shows, or so many have come that few of them are of
use, the view is computed anew and the bound with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from viewkeep.catalog import TableName
from viewkeep.plan.nodes import (
    Aggregate,
    Field,
    Filter,
    Fresh,
    Join,
    Named,
    Node,
    Order,
    Project,
    TopK,
)
from viewkeep.plan.scalars import Scalar, column, operand
from viewkeep.strategy import names
from viewkeep.strategy.core import Cut

RESERVE, TIMES = 10_000, 10
"""Rows that are stored, if there are as many; or this many times those that are shown, if that is more."""
GROWN = 10
"""How many times the reserve is stored before the bound is looked at again."""


COLUMN = "bound"


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """The bound of a view."""

    table: TableName
    value: Node
    """From scratch: one row, one column."""
    order: tuple[Order, ...]
    shown: int
    """Rows up to the last one that the view shows."""
    reserve: int

    @property
    def most(self) -> int:
        return GROWN * self.reserve


def bounded(view: TableName, rows: Node, cut: Cut, fresh: Fresh) -> tuple[Node, Bound]:
    """The rows that are stored, and their bound."""
    reserve = max(RESERVE, TIMES * cut.shown)
    stored = Filter(rows, _within(cut.order[0], exp.Placeholder(this=names.BOUND)))
    return stored, Bound(names.bound(view), _value(rows, cut.order, reserve, fresh), cut.order, cut.shown, reserve)


def rows_within_a_new_bound(stored: Node, bound: Bound, fresh: Fresh) -> Node:
    """How many of the stored rows would be stored if the bound were looked for now."""
    value = _value(stored, bound.order, bound.reserve, fresh)
    kept = Filter(Join(stored, value), _within(bound.order[0], column(value.fields[0].id)))
    return Aggregate(kept, (), (Named(Field(names.ROWS, "BIGINT"), exp.Count(this=exp.Star())),))


def _value(rows: Node, order: tuple[Order, ...], reserve: int, fresh: Fresh) -> Node:
    key = Field(fresh("key"))
    at_reserve = Project(TopK(rows, order, 1, reserve - 1), (Named(key, order[0].scalar),))
    return Aggregate(at_reserve, (), (Named(Field(fresh("bound")), exp.Max(this=column(key.id))),))


def _within(first: Order, limit: Scalar) -> Scalar:
    compare = exp.GTE if first.descending else exp.LTE
    inside: list[Scalar] = [
        exp.Is(this=limit.copy(), expression=exp.Null()),
        compare(this=operand(first.scalar), expression=limit.copy()),
    ]
    if first.nulls_first:
        inside.append(exp.Is(this=operand(first.scalar), expression=exp.Null()))
    return exp.or_(*inside)
