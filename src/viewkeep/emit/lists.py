"""Functions of lists in the words of an engine."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from viewkeep.plan.lists import PREFIX
from viewkeep.plan.scalars import Scalar, integer


def spell_lists(tree: exp.Expr, dialect: str) -> None:
    """Change the calls of `plan/lists.py`, wherever they stand."""
    if dialect not in _SPELLED:
        return
    # The inner ones first: a call is replaced together with what it holds.
    for call in reversed(list(tree.find_all(exp.Anonymous, bfs=False))):
        if call.name.startswith(PREFIX):
            spelled = _SPELLED[dialect][call.name.removeprefix(PREFIX)](*call.expressions)
            call.replace(spelled)


def _named(name: str) -> Callable[..., Scalar]:
    return lambda *arguments: exp.Anonymous(this=name, expressions=[*arguments])


def _with(name: str, *more: Scalar) -> Callable[..., Scalar]:
    return lambda *arguments: exp.Anonymous(this=name, expressions=[*arguments, *(m.copy() for m in more)])


def _spark_first(name: str, ascending: exp.Boolean) -> Callable[..., Scalar]:
    def call(value: Scalar, number: Scalar) -> Scalar:
        found = exp.Anonymous(this=name, expressions=[value.copy(), value, number])
        return exp.Anonymous(this="SORT_ARRAY", expressions=[found, ascending.copy()])

    return call


def _spark_nth(values: Scalar, number: Scalar) -> Scalar:
    return exp.Anonymous(this="GET", expressions=[values, integer(int(number.name) - 1)])


def _spark_filter_at(values: Scalar, condition: exp.Lambda) -> Scalar:
    """Spark counts from 0."""
    at = condition.expressions[1].name
    for place in list(condition.this.find_all(exp.Var)):
        if place.name == at:
            place.replace(exp.paren(exp.Add(this=exp.var(at), expression=integer(1))))
    return exp.Anonymous(this="FILTER", expressions=[values, condition])


_SPELLED: dict[str, dict[str, Callable[..., Scalar]]] = {
    "spark": {
        "OF": _named("ARRAY"),
        "SMALLEST": _spark_first("MIN_BY", exp.true()),
        "LARGEST": _spark_first("MAX_BY", exp.false()),
        "NTH": _spark_nth,
        "SIZE": _named("SIZE"),
        "MIN": _named("ARRAY_MIN"),
        "MAX": _named("ARRAY_MAX"),
        "POSITION": _named("ARRAY_POSITION"),
        "CONCAT": _named("CONCAT"),
        "SORT_UP": _with("SORT_ARRAY", exp.true()),
        "SORT_DOWN": _with("SORT_ARRAY", exp.false()),
        "FILTER": _named("FILTER"),
        "FILTER_AT": _spark_filter_at,
    },
    "duckdb": {
        "OF": _named("LIST_VALUE"),
        "SMALLEST": _named("MIN"),
        "LARGEST": _named("MAX"),
        "NTH": _named("LIST_EXTRACT"),
        "SIZE": _named("LEN"),
        "MIN": _named("LIST_MIN"),
        "MAX": _named("LIST_MAX"),
        "POSITION": _named("LIST_POSITION"),
        "CONCAT": _named("LIST_CONCAT"),
        "SORT_UP": _with("LIST_SORT", exp.Literal.string("ASC")),
        "SORT_DOWN": _with("LIST_SORT", exp.Literal.string("DESC")),
        "FILTER": _named("LIST_FILTER"),
        "FILTER_AT": _named("LIST_FILTER"),
    },
}
