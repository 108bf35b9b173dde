"""Functions that make several rows of one: UNNEST, EXPLODE, generated series; in FROM and in the select list.

In FROM such a function reads the columns of the relations before it, so it is no relation of its
own but one more step over them. A series of constants is a step over one row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from viewkeep.errors import UnsupportedError
from viewkeep.plan.nodes import Field, Fresh, Named, Node, Unnest, types_of
from viewkeep.plan.scalars import Scalar, column, integer

SEVERAL_ROWS = (exp.Explode, exp.Unnest, exp.ExplodingGenerateSeries)
NOT_YET = (exp.Posexplode, exp.Inline)


@dataclass(frozen=True, slots=True)
class Series:
    """An entry of FROM that makes rows."""

    call: exp.Expr
    name: str
    """Of its column and its alias, unless the user gives others."""
    outer: bool = False
    """Whether a row without elements stays, beside a NULL."""


def series_of(tree: exp.Expr) -> Series | None:
    """What an entry of FROM makes rows by, if it is no relation."""
    if isinstance(tree, exp.Lateral) and tree.args.get("outer"):
        inner = series_of(tree.this)
        return replace(inner, outer=True) if inner is not None else None
    found = tree.this if isinstance(tree, exp.Lateral) else tree
    match found:
        case exp.Unnest(expressions=[values]) if not found.args.get("offset"):
            return Series(exp.Explode(this=values.copy()), "unnest")
        case exp.Explode():
            return Series(found.copy(), "col", isinstance(found, exp.ExplodeOuter))
        case exp.Table(this=exp.ExplodingGenerateSeries()):
            return Series(found.this.copy(), "generate_series")
        case exp.Table(this=exp.GenerateSeries()):
            name = "range" if found.this.args.get("is_end_exclusive") else "generate_series"
            return Series(exp.Explode(this=found.this.copy()), name)
        case _:
            return None


def explode(node: Node, call: Scalar, series: Series, fresh: Fresh) -> Unnest:
    """One more column, and a row for each of its elements."""
    made = _never_empty(call) if series.outer else call.copy()
    return Unnest(node, (Named(Field(fresh(series.name), _element_type(call, node)), made),))


def _never_empty(call: Scalar) -> Scalar:
    """EXPLODE of a list that has a NULL where the list has nothing."""
    if not isinstance(call, exp.Explode):
        raise UnsupportedError("generate_series that keeps rows without elements has no incremental form yet")
    some = exp.GT(this=exp.ArraySize(this=call.this.copy()), expression=integer(0))
    nothing = exp.Array(expressions=[exp.Null()], value_constructor=True)
    return exp.Explode(this=exp.Case(ifs=[exp.If(this=some, true=call.this.copy())], default=nothing))


def _element_type(call: Scalar, node: Node) -> str:
    known = types_of(node).get(call.this.name, "UNKNOWN") if isinstance(call.this, exp.Column) else "UNKNOWN"
    if known.upper().startswith(("STRUCT", "MAP")):
        raise UnsupportedError(f"UNNEST of {known.split('(')[0].upper()} has no incremental form yet")
    return known[:-2] if known.endswith("[]") else "UNKNOWN"


class SeriesCollector:
    """Turns scalars of a select list with such calls into scalars over their elements."""

    def __init__(self, fresh: Fresh, node: Node) -> None:
        self._fresh, self._node, self._calls = fresh, node, list[Named]()

    def take(self, scalar: Scalar) -> Scalar:
        if isinstance(scalar, SEVERAL_ROWS):
            return column(self._call(scalar))
        copy = scalar.copy()
        for call in list(copy.find_all(*SEVERAL_ROWS)):
            call.replace(column(self._call(call)))
        return copy

    def over(self, node: Node) -> Node:
        return Unnest(node, tuple(self._calls)) if self._calls else node

    def _call(self, call: Scalar) -> str:
        made = _never_empty(call) if isinstance(call, exp.ExplodeOuter) else call.copy()
        for known in self._calls:
            if known.scalar == made:
                return known.field.id
        field = Field(self._fresh("unnest"), _element_type(call, self._node))
        self._calls.append(Named(field, made))
        return field.id
