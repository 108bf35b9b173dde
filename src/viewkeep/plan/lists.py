"""Functions of lists, under names of their own: each engine has them, and each calls them differently.

Positions count from 1, as in SQL. `emit/lists.py` writes them in an engine's words.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewkeep.plan.scalars import Scalar, integer

PREFIX = "_VK_LIST_"


def listed(values: Sequence[Scalar]) -> Scalar:
    return _call("OF", *values)


def first(value: Scalar, largest: bool, number: int) -> Scalar:
    """An aggregate: the smallest or largest values in order; NULLs are left out, and so is the list if it is empty."""
    return _call("LARGEST" if largest else "SMALLEST", value, integer(number))


def nth(values: Scalar, position: int) -> Scalar:
    """NULL where there are not as many."""
    return _call("NTH", values, integer(position))


def size(values: Scalar) -> Scalar:
    return _call("SIZE", values)


def last(values: Scalar, largest: bool) -> Scalar:
    """The largest value, or the smallest of a list that starts with the largest."""
    return _call("MIN" if largest else "MAX", values)


def position(values: Scalar, value: Scalar) -> Scalar:
    """Of the first such value."""
    return _call("POSITION", values, value)


def together(left: Scalar, right: Scalar, largest: bool) -> Scalar:
    """Both lists in one, sorted."""
    return _call("SORT_DOWN" if largest else "SORT_UP", _call("CONCAT", left, right))


def where(values: Scalar, condition: Scalar, variable: str) -> Scalar:
    """Those values for which a condition on `variable` holds."""
    return _call("FILTER", values, exp.Lambda(this=condition, expressions=[exp.to_identifier(variable)]))


def where_at(values: Scalar, condition: Scalar, variable: str, at: str) -> Scalar:
    """The same for a condition that also asks for the position `at` of a value."""
    parameters = [exp.to_identifier(variable), exp.to_identifier(at)]
    return _call("FILTER_AT", values, exp.Lambda(this=condition, expressions=parameters))


def _call(name: str, *arguments: Scalar) -> Scalar:
    return exp.Anonymous(this=PREFIX + name, expressions=[a.copy() for a in arguments])
