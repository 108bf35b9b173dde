"""ORDER BY … LIMIT of plain rows: the first rows are stored, and many in reserve.

    V = τ(R)        stored: σ(k ≤ bound)(R)        k: what R is sorted by first

The bound is the k of row RESERVE, as it was when all rows were last looked at; NULL where R had fewer, and then all
are stored. It stands in a table of its own, with one row, which never changes between: so what is stored is a filter
like any other, and its delta is that of a filter.

When so many rows have left that fewer are stored than the view shows, or so many have come that few of them are of
use, the view is computed anew and the bound with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from viewkeep.catalog import TableName
from viewkeep.incremental.weighted import keep
from viewkeep.plan.nodes import (
    Aggregate,
    Field,
    Filter,
    Fresh,
    Join,
    JoinKind,
    Named,
    Node,
    Order,
    Project,
    Scan,
    TopK,
)
from viewkeep.plan.scalars import Scalar, column, operand
from viewkeep.strategy import names

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


def bounded(view: TableName, rows: Node, order: TopK, fresh: Fresh) -> tuple[Node, Bound] | None:
    """The rows that are stored, and their bound; None where the order does not say which come first."""
    if order.limit is None or not order.order:
        return None
    shown = order.limit + order.offset
    reserve = max(RESERVE, TIMES * shown)
    table = names.bound(view)
    stored = _within(rows, Scan(table, ((Field(fresh("limit")), COLUMN),)), order.order[0])
    return stored, Bound(table, _value(rows, order.order, reserve, fresh), order.order, shown, reserve)


def rows_within_a_new_bound(stored: Node, bound: Bound, fresh: Fresh) -> Node:
    """How many of the stored rows would be stored if the bound were looked for now."""
    kept = _within(stored, _value(stored, bound.order, bound.reserve, fresh), bound.order[0])
    return Aggregate(kept, (), (Named(Field(names.ROWS, "BIGINT"), exp.Count(this=exp.Star())),))


def _value(rows: Node, order: tuple[Order, ...], reserve: int, fresh: Fresh) -> Node:
    key = Field(fresh("key"))
    at_reserve = Project(TopK(rows, order, 1, reserve - 1), (Named(key, order[0].scalar),))
    return Aggregate(at_reserve, (), (Named(Field(fresh("bound")), exp.Max(this=column(key.id))),))


def _within(rows: Node, bound: Node, first: Order) -> Node:
    (limit,) = bound.fields
    compare = exp.GTE if first.descending else exp.LTE
    inside: list[Scalar] = [
        exp.Is(this=column(limit.id), expression=exp.Null()),
        compare(this=operand(first.scalar), expression=column(limit.id)),
    ]
    if first.nulls_first:
        inside.append(exp.Is(this=operand(first.scalar), expression=exp.Null()))
    beside = Join(rows, bound, None, JoinKind.INNER)
    return Project(Filter(beside, exp.or_(*inside)), keep(rows.fields))
