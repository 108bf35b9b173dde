"""A plan whose rows carry a weight, and the few things one does with weights.

A delta is a bag with weights: +1 for a row inserted, −1 for a row deleted, a row changed n times
stands n times. Stored changes and everything derived here keep to single units, so that no value
has to be multiplied by a weight: the smallest BIGINT times −1 overflows, a BOOLEAN cannot be
multiplied, and decimals may lose places. Only columns narrower than BIGINT are.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from viewkeep.catalog import TableName
from viewkeep.plan.clock import is_timed
from viewkeep.plan.nodes import Aggregate, Field, Filter, Fresh, Named, Node, Project, Repeat, Union, sources
from viewkeep.plan.scalars import Scalar, column, integer

WEIGHT_TYPE = "INTEGER"


@dataclass(frozen=True, slots=True, eq=False)
class Weighted:
    """A plan and the column that holds its weight; None where every row counts once."""

    node: Node
    weight: str | None = None

    @property
    def payload(self) -> tuple[Field, ...]:
        return tuple(f for f in self.node.fields if f.id != self.weight)

    @property
    def weight_scalar(self) -> Scalar:
        return column(self.weight) if self.weight else integer(1)


@dataclass(frozen=True, slots=True)
class Edge:
    """A join of a plan that follows a foreign key: from columns of one scan to a key of another."""

    child: str
    """The scan that points, named by its first column: the same table may be there twice."""
    parent: str
    pairs: tuple[tuple[str, str], ...]
    """Ids of the columns that point, and of those they point at."""
    parent_table: str
    """Folded name."""
    enforced: bool
    label: str


@dataclass(frozen=True, slots=True)
class Context:
    """What is the same for a whole delta plan."""

    fresh: Fresh
    changed: frozenset[str]
    """Folded names of the tables that changed: branches of all others are not even built."""
    time_travel: bool = False
    """Whether the engine can read a table as it was; otherwise old = new minus the changes."""
    edges: frozenset[Edge] = frozenset()
    """Foreign keys that hold for these changes, so that what they point at needs no branch."""
    lost_rows: frozenset[str] = frozenset()
    """Folded names of the changed tables that lost rows; only asked where there are edges."""
    time_moved: bool = False
    """Whether filters on the current time let other rows pass than before."""
    guard: TableName | None = None
    """For a program that decides while it runs: a table with a row for each doubt about the edges that has
    come true. They hold where it is empty. Without it they are known to hold."""
    by_size: tuple[str, ...] = ()
    """Folded names of the changed tables, the largest last, where that is known."""

    def size_rank(self, node: Node) -> int:
        """Higher for what reads larger tables, of those that changed."""
        return max((self.by_size.index(s.folded) for s in sources(node) if s.folded in self.by_size), default=-1)

    def touches(self, node: Node) -> bool:
        changed = any(name.folded in self.changed for name in sources(node))
        return changed or (self.time_moved and is_timed(node))


def keep(fields: tuple[Field, ...]) -> tuple[Named, ...]:
    """Pass columns through a projection unchanged."""
    return tuple(Named(f, column(f.id)) for f in fields)


def with_weight(weighted: Weighted, weight: Scalar, fresh: Fresh) -> Weighted:
    """The same rows under another weight."""
    field = Field(fresh("w"), WEIGHT_TYPE)
    return Weighted(Project(weighted.node, (*keep(weighted.payload), Named(field, weight))), field.id)


def negate(weighted: Weighted, fresh: Fresh) -> Weighted:
    minus: Scalar = exp.Neg(this=column(weighted.weight)) if weighted.weight else integer(-1)
    return with_weight(weighted, minus, fresh)


def add(terms: list[Weighted], fields: tuple[Field, ...], fresh: Fresh) -> Weighted:
    """The sum of bags: every term is brought to the columns `fields` followed by a weight."""
    aligned: list[Node] = []
    for term in terms:
        by_id = {f.id: f for f in term.payload}
        ordered = tuple(by_id.get(f.id, g) for f, g in zip(fields, term.payload, strict=True))
        weight = Named(Field(fresh("w"), WEIGHT_TYPE), term.weight_scalar)
        aligned.append(Project(term.node, (*keep(ordered), weight)))
    if len(aligned) == 1 and tuple(f.id for f in aligned[0].fields[:-1]) == tuple(f.id for f in fields):
        return Weighted(aligned[0], aligned[0].fields[-1].id)
    weight_field = Field(fresh("w"), WEIGHT_TYPE)
    return Weighted(Union(tuple(aligned), (*fields, weight_field)), weight_field.id)


def consolidate(weighted: Weighted, fresh: Fresh) -> Weighted:
    """Equal rows summed, zeros gone. The weight may now be any integer but zero."""
    total = Field(fresh("w"), "BIGINT")
    grouped = Aggregate(weighted.node, keep(weighted.payload), (Named(total, exp.Sum(this=weighted.weight_scalar)),))
    return Weighted(Filter(grouped, exp.NEQ(this=column(total.id), expression=integer(0))), total.id)


def to_rows(weighted: Weighted, fresh: Fresh) -> Node:
    """A weighted bag that is known to be a real table (no negative total) as plain rows."""
    if weighted.weight is None:
        return weighted.node
    summed = consolidate(weighted, fresh)
    assert summed.weight is not None
    return Repeat(summed.node, summed.weight)


def to_units(weighted: Weighted, fresh: Fresh) -> Weighted:
    """Consolidated, with each row as often as its weight says and every weight ±1."""
    summed = consolidate(weighted, fresh)
    total = column(summed.weight or "")
    sign, times = Field(fresh("w"), WEIGHT_TYPE), Field(fresh("times"), "BIGINT")
    signed = Project(
        summed.node,
        (
            *keep(summed.payload),
            Named(sign, exp.cast(exp.Sign(this=total.copy()), "INT")),
            Named(times, exp.Abs(this=total.copy())),
        ),
    )
    return Weighted(Repeat(signed, times.id), sign.id)
