"""The smallest (or largest) few values of a group, kept so that a deleted extreme has a successor.

On a lake the next minimum of a group is found by reading the table again, which costs as much as the query
itself. So a group stores its first values: `known`, a beginning of its values in order, copies included.

    whole       every value of the group is known
    came, went  the first values that were inserted and deleted, at most GATHERED of each

    candidates  known + came, as far as a value is surely among them if the group has it:
                ≤ the last known one (or the group is whole), ≤ the last of `came` if some were left out,
                < the last of `went` if some were left out
    known'      candidates − went

Of the last known value there may be more copies than are known. Taking away one of them leaves a beginning
all the same. Where nothing is left of `known'` and the group has values, it is computed from its rows.

An embedded engine reads its tables again in the time that Spark needs to start: there one value is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from viewkeep.plan.lists import first, last, listed, position, size, together, where, where_at
from viewkeep.plan.nodes import Field
from viewkeep.plan.scalars import Scalar, column, conjoin, integer

GATHERED = 8
"""Inserted and deleted values of a group that a refresh looks at, of each."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """The first values of a group, in as many columns."""

    fields: tuple[Field, ...]
    argument: Scalar
    largest: bool
    count: Field
    """The column that counts the values of the group."""

    def first_of(self, value: Scalar) -> Scalar:
        """An aggregate over a change: the first values that came, or went."""
        return first(value, self.largest, GATHERED)

    def known(self) -> Scalar:
        """What is stored, as a list."""
        present = exp.Not(this=exp.Is(this=exp.var("v"), expression=exp.Null()))
        return where(listed([column(f.id) for f in self.fields]), present, "v")

    def whole(self) -> Scalar:
        return exp.EQ(this=size(self.known()), expression=column(self.count.id))

    def candidates(self, known: Scalar, whole: Scalar, came: Scalar, went: Scalar) -> Scalar:
        """Lists, none of them NULL, and a condition."""
        upto, below = (exp.GTE, exp.GT) if self.largest else (exp.LTE, exp.LT)

        def within(values: Scalar, compare: type[exp.Expr], otherwise: Scalar) -> Scalar:
            inside = compare(this=exp.var("v"), expression=last(values, self.largest))
            return exp.paren(exp.Or(this=otherwise, expression=inside))

        def all_gathered(values: Scalar) -> Scalar:
            return exp.LT(this=size(values), expression=integer(GATHERED))

        sure = conjoin(
            [
                within(known, upto, whole.copy()),
                within(came, upto, all_gathered(came)),
                within(went, below, all_gathered(went)),
            ]
        )
        assert sure is not None
        return where(together(known, came, self.largest), sure, "v")


def without(candidates: Scalar, went: Scalar) -> Scalar:
    """A sorted list without one copy of each value of another: of n equal ones the first so many go."""
    number = exp.Add(
        this=exp.Sub(this=exp.var("n"), expression=position(candidates, exp.var("v"))), expression=integer(1)
    )
    gone = size(where(went, exp.EQ(this=exp.var("g"), expression=exp.var("v")), "g"))
    return where_at(candidates, exp.GT(this=number, expression=gone), "v", "n")
