"""What has to be stored so that an aggregate can follow changes without its input.

| aggregate            | stored                    | inserts  | deletes                      |
|----------------------|---------------------------|----------|------------------------------|
| COUNT, exact SUM/AVG | sum, count of non-NULLs   | add      | subtract                     |
| MIN, MAX             | the extreme               | extend   | recompute the group if hit   |
| … on a lake          | the first few, a count    | merge    | take out; recompute if none is left |
| SUM, AVG of DOUBLE   | sum                       | add      | recompute the group          |
| anything else        | its value                 | recompute the group | recompute the group |

A group dies when its row count is 0, never when a sum is. SUM of no non-NULL input is NULL, hence
the count beside each sum. Doubles are never subtracted: that would drift, and a NaN would stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from sqlglot import exp

from viewkeep.plan.lists import first, nth
from viewkeep.plan.nodes import Aggregate, Field, Fresh, Named, types_of
from viewkeep.plan.scalars import Scalar, column, integer, is_double, is_exact, is_whole, of_one_value
from viewkeep.strategy import names
from viewkeep.strategy.runners_up import Ranked


class Rule(Enum):
    ADD = "add"
    EXTEND_SUM = "extend sum"
    EXTEND_MIN = "extend minimum"
    EXTEND_MAX = "extend maximum"
    RANKED = "one of the first few"
    RECOMPUTE = "recompute the group"


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """One stored column of a group: how to compute it from rows, and how it follows changes."""

    field: Field
    call: Scalar
    rule: Rule
    name: str

    @property
    def argument(self) -> Scalar:
        found = self.call.this
        assert isinstance(found, exp.Expr)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """The stored form of an aggregate: its components, and each call in terms of them."""

    components: tuple[Component, ...]
    finals: tuple[Named, ...]
    ranked: tuple[Ranked, ...] = ()
    """Components that are the first values of one column, put together."""

    @property
    def additive(self) -> bool:
        return all(c.rule is Rule.ADD for c in self.components)


def state_of(aggregate: Aggregate, fresh: Fresh, decimal_average: bool, kept: int = 1) -> State:
    """`decimal_average`: the engine's AVG of decimals is a decimal, not a double. `kept`: how many values are stored
    where one is asked for, the smallest or the largest."""
    types = types_of(aggregate.input)
    components: list[Component] = []
    ranked: list[Ranked] = []

    def component(call: Scalar, rule: Rule, type_: str = "UNKNOWN", name: str = "") -> exp.Column:
        for known in components:
            if known.call == call:
                return column(known.field.id)
        found = Component(Field(fresh(name or call.key), type_), call.copy(), rule, name or call.key)
        components.append(found)
        return column(found.field.id)

    def extreme(call: exp.Min | exp.Max) -> Scalar:
        largest = isinstance(call, exp.Max)
        if kept == 1 or not _has_one_order(call.this, types):
            return component(call, Rule.EXTEND_MAX if largest else Rule.EXTEND_MIN)
        count = component(exp.Count(this=call.this.copy()), Rule.ADD, "BIGINT")
        values, number = first(call.this, largest, kept), len(components)
        columns = [component(nth(values, at), Rule.RANKED, name=call.key) for at in range(1, kept + 1)]
        if len(components) > number:
            fields = tuple(c.field for c in components[number:])
            ranked.append(Ranked(fields, call.this, largest, Field(count.name, "BIGINT")))
        return columns[0]

    def final(call: Scalar) -> Scalar:
        argument = call.this
        plain = isinstance(argument, exp.Expr) and not isinstance(argument, exp.Distinct) and of_one_value(call)
        match call:
            case exp.Count() if isinstance(argument, exp.Star):
                return column(names.ROWS)
            case exp.Count() if plain:
                return component(exp.Count(this=argument.copy()), Rule.ADD, "BIGINT")
            case exp.Sum() if plain and is_exact(argument, types):
                count = component(exp.Count(this=argument.copy()), Rule.ADD, "BIGINT")
                return _unless_empty(count, component(call, Rule.ADD))
            case exp.Sum() if plain:
                return component(call, Rule.EXTEND_SUM)
            case exp.Avg() if plain and decimal_average and _rounds(argument, types):
                return component(call, Rule.RECOMPUTE)
            case exp.Avg() if plain:
                rule = Rule.ADD if is_exact(argument, types) else Rule.EXTEND_SUM
                count = component(exp.Count(this=argument.copy()), Rule.ADD, "BIGINT")
                total = component(exp.Sum(this=argument.copy()), rule)
                exact = decimal_average and rule is Rule.ADD
                divided = total if exact else exp.cast(total, "DOUBLE")
                ratio = exp.Div(this=divided, expression=count.copy(), typed=False, safe=False)
                return _unless_empty(count, ratio)
            case exp.Min() | exp.Max() if plain:
                return extreme(call)
            case _:
                return component(call, Rule.RECOMPUTE)

    finals = tuple(Named(c.field, final(c.scalar)) for c in aggregate.calls)
    return State(tuple(components), finals, tuple(ranked))


_ORDERED_TYPES = ("DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPNTZ", "TIMESTAMP_NTZ", "TEXT", "STRING", "VARCHAR")


def _has_one_order(argument: Scalar, types: Mapping[str, str]) -> bool:
    """Whether equal values of this kind cannot be told apart, and every engine sorts them alike: not so for doubles
    and texts with a collation."""
    if isinstance(argument, exp.Column) and types.get(argument.name, "").split("(")[0].upper() in _ORDERED_TYPES:
        return True
    return is_exact(argument, types)


_QUOTIENT_DIGITS = 18
"""The widest decimals whose sum is divided by a count without rounding digits away that the average has."""


def _rounds(argument: Scalar, types: Mapping[str, str]) -> bool:
    """Whether sum / count may have fewer digits than the engine's own average: then only that will do."""
    if is_whole(argument, types) or is_double(argument, types):
        return False
    if not is_exact(argument, types):  # a quotient of decimals, or what nobody knows the type of
        return True
    declared = types[argument.name] if isinstance(argument, exp.Column) else ""
    digits = re.match(r"(?:DECIMAL|NUMERIC)\((\d+)", declared.upper())
    return digits is None or int(digits[1]) > _QUOTIENT_DIGITS


def _unless_empty(count: Scalar, value: Scalar) -> Scalar:
    return exp.Case(ifs=[exp.If(this=exp.GT(this=count.copy(), expression=integer(0)), true=value.copy())])


def from_rows(aggregate: Aggregate, state: State) -> tuple[Aggregate, tuple[Named, ...]]:
    """The aggregate that computes the state of every group from its rows, and its stored columns.

    Sums are stored as 0 where there is nothing to sum, so that additions need no NULL rules.
    """
    rows = Named(Field(names.ROWS, "BIGINT"), exp.Count(this=exp.Star()))
    raw = tuple(Named(c.field, c.call.copy()) for c in state.components)
    stored = tuple(
        Named(c.field, _zero(column(c.field.id)) if c.rule is Rule.ADD else column(c.field.id))
        for c in state.components
    )
    keys = tuple(Named(k.field, column(k.field.id)) for k in aggregate.keys)
    total = Named(rows.field, column(names.ROWS))
    return Aggregate(aggregate.input, aggregate.keys, (rows, *raw)), (*keys, total, *stored)


def _zero(scalar: Scalar) -> Scalar:
    return exp.Coalesce(this=scalar, expressions=[integer(0)])
