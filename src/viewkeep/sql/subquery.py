"""A subquery as rows that can be joined to the query around it.

Columns of the query around are free in a subquery until it is decided how they get in. Three ways:

    pulled    predicates that use them become the join condition            EXISTS, IN
    equated   l.k = s.k: the subquery is grouped by s.k for all l at once, and joined on it
    domain    the distinct values of l.k are joined into the subquery, for any use of them

In each of them what comes out is a plan without free columns, and links: predicates over its columns
and those of the query around.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from viewkeep.plan.conditions import ids_of
from viewkeep.plan.nodes import (
    Aggregate,
    Field,
    Filter,
    Fresh,
    Join,
    JoinKind,
    Named,
    Node,
    Project,
    Values,
    inputs_of,
    with_inputs,
)
from viewkeep.plan.rewrite import normalise
from viewkeep.plan.scalars import Scalar, column, columns_of, conjoin, integer, operand, raise_error
from viewkeep.sql.meanings import meaning


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """The distinct values of some columns of the query around; `stand_in` is where they go in the plan."""

    stand_in: Values
    values: tuple[Scalar, ...]

    def into(self, node: Node, around: Node) -> Node:
        keys = tuple(Named(f, s) for f, s in zip(self.stand_in.fields, self.values, strict=True))
        used = frozenset().union(*map(columns_of, self.values))
        rows = Aggregate(_lowest(normalise(around), used), keys)

        def visit(here: Node) -> Node:
            if here is self.stand_in:
                return rows
            return with_inputs(here, tuple(visit(child) for child in inputs_of(here)))

        return visit(node)


@dataclass(frozen=True, slots=True, eq=False)
class Nested:
    """A subquery that was planned."""

    node: Node
    outputs: tuple[Scalar, ...]
    names: tuple[str, ...]
    links: tuple[Scalar, ...] = ()
    domains: tuple[Domain, ...] = ()
    one_row: bool = False
    """An aggregate without GROUP BY: it has its row even where `node` has none, and `outputs` fit that."""
    present: Scalar | None = None
    """Whether that one row stays: its HAVING."""
    single: bool = False
    """Whether there is at most one row for each link."""

    @property
    def correlated(self) -> bool:
        return bool(self.links)


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """A join with a subquery that waits until all that it is linked to is there."""

    node: Node
    kind: JoinKind
    condition: tuple[Scalar, ...]
    domains: tuple[Domain, ...] = ()

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(f.id for f in self.node.fields)

    @property
    def reads(self) -> frozenset[str]:
        """Columns of the query around."""
        return frozenset().union(*map(columns_of, self._scalars)) - self.ids

    @property
    def above_windows(self) -> bool:
        return any(scalar.find(exp.Window) for scalar in self._scalars)

    @property
    def _scalars(self) -> Iterator[Scalar]:
        yield from self.condition
        for domain in self.domains:
            yield from domain.values

    def rewritten(self, rewrite: Callable[[Scalar], Scalar]) -> Pending:
        domains = tuple(replace(d, values=tuple(map(rewrite, d.values))) for d in self.domains)
        return replace(self, condition=tuple(map(rewrite, self.condition)), domains=domains)

    def joined_to(self, around: Node) -> Node:
        node = self.node
        for domain in self.domains:
            node = domain.into(node, around)
        return Join(around, node, conjoin(self.condition), self.kind)


def _lowest(node: Node, used: frozenset[str]) -> Node:
    """The part of a plan that has some columns: more values than are needed do no harm, more joins do."""
    match node:
        case Filter(input=Join()):
            below = _lowest(node.input, used)
            return node if below is node.input else below
        case Join() if node.kind.linear_in_left and used <= ids_of(node.left):
            return _lowest(node.left, used)
        case Join(kind=JoinKind.INNER) if used <= ids_of(node.right):
            return _lowest(node.right, used)
        case _:
            return node


# ---------------------------------------------------------------------- columns of the query around
@dataclass(frozen=True, slots=True, eq=False)
class Equated:
    """A predicate that gives a value of the query around a counterpart in the subquery."""

    kind: type[exp.Expr]
    outer: Scalar
    inner: Scalar


def correlating(tests: list[Scalar | Pending], captured: set[str]) -> list[Scalar]:
    return [t for t in tests if not isinstance(t, Pending) and columns_of(t) & captured]


def equated(link: Scalar, captured: set[str]) -> Equated | None:
    if not isinstance(link, exp.EQ | exp.NullSafeEQ):
        return None
    for outer, inner in ((link.left, link.right), (link.right, link.left)):
        if (
            columns_of(outer)
            and columns_of(outer) <= captured
            and columns_of(inner)
            and not columns_of(inner) & captured
        ):
            return Equated(type(link), outer, inner)
    return None


def zero_counts(node: Node, dialect: str) -> dict[str, Scalar]:
    """What counts give where an aggregate without GROUP BY finds no row: 0, where all others give NULL."""
    if not isinstance(node, Aggregate):
        return {}
    kinds: tuple[type[exp.Expr], ...] = (exp.Count, exp.ApproxDistinct, exp.RegrCount)
    if meaning(dialect).count_if_counts_nothing:
        kinds += (exp.CountIf,)
    counts = [c.field.id for c in node.calls if isinstance(_unfiltered(c.scalar), kinds)]
    return {i: exp.Coalesce(this=column(i), expressions=[integer(0)]) for i in counts}


def _unfiltered(call: Scalar) -> Scalar:
    return call.this if isinstance(call, exp.Filter) else call


# ---------------------------------------------------------------------- what becomes of a subquery
Joined = tuple[list[Pending], Scalar]
"""Joins, and a scalar over their columns and those of the query around."""


def linked(nested: Nested, kind: JoinKind, *also: Scalar) -> Pending:
    return Pending(nested.node, kind, (*nested.links, *also), nested.domains)


def value_of(nested: Nested, fresh: Fresh) -> Joined:
    """A scalar subquery: a left join with at most one row; that there are not more of them is counted.

    SELECT (SELECT s.v FROM s WHERE s.k = l.k)   →   l ⟕ γ_k(COUNT(*), MAX(v))(s)
    """
    value = nested.outputs[0]
    if nested.one_row:
        shown = value if nested.present is None else case_of((nested.present, value))
        kind = JoinKind.LEFT if nested.correlated else JoinKind.INNER
        return [linked(nested, kind)], shown
    if nested.single and nested.correlated:
        joined, (named,), _ = rows_of(nested, JoinKind.LEFT, fresh)
        return [joined], column(named.field.id)
    count, single = Field(fresh("rows"), "BIGINT"), Field(fresh("value"))
    calls = (Named(count, exp.Count(this=exp.Star())), Named(single, exp.Max(this=value.copy())))
    several = exp.GT(this=column(count.id), expression=integer(1))
    shown = case_of((several, raise_error("a scalar subquery gives more than one row")), default=column(single.id))
    keys, links = by_link(nested, fresh)
    grouped = Aggregate(nested.node, keys, calls)
    kind = JoinKind.LEFT if nested.correlated else JoinKind.INNER
    return [Pending(grouped, kind, links, nested.domains)], shown


def named_outputs(nested: Nested, fresh: Fresh) -> tuple[Named, ...]:
    return tuple(Named(Field(fresh(n)), s.copy()) for n, s in zip(nested.names, nested.outputs, strict=True))


def rows_of(nested: Nested, kind: JoinKind, fresh: Fresh) -> tuple[Pending, tuple[Named, ...], bool]:
    """LATERAL: a join with all rows; its columns, and whether they are computed above the join.

    An aggregate without GROUP BY gives a row to every row of the query around: a left join.
    """
    columns = named_outputs(nested, fresh)
    if nested.one_row:
        return linked(nested, JoinKind.LEFT if nested.correlated else JoinKind.INNER), columns, True
    passed = tuple(Named(f, column(f.id)) for f in nested.node.fields)
    node = Project(nested.node, (*passed, *columns))
    return Pending(node, kind, nested.links, nested.domains), columns, False


def exists_as_value(nested: Nested, fresh: Fresh) -> Joined:
    """EXISTS inside an expression: a left join with a flag for each link that has rows."""
    if nested.one_row:
        return presence(nested)
    flag = Field(fresh("found"), "BOOLEAN")
    if not nested.correlated:
        count = Named(Field(fresh("rows"), "BIGINT"), exp.Count(this=exp.Star()))
        some = Named(flag, exp.GT(this=column(count.field.id), expression=integer(0)))
        # The flag hardly ever changes; the count does with each row.
        whole = Project(Aggregate(nested.node, (), (count,)), (some,))
        return [Pending(whole, JoinKind.INNER, ())], column(flag.id)
    keys, links = by_link(nested, fresh)
    node = flagged(Aggregate(nested.node, keys), flag)
    return [Pending(node, JoinKind.LEFT, links, nested.domains)], not_null(column(flag.id))


def by_link(nested: Nested, fresh: Fresh) -> tuple[tuple[Named, ...], tuple[Scalar, ...]]:
    """The subquery's side of each link as a key of its own, and the links over these keys."""
    own = frozenset(f.id for f in nested.node.fields)
    types = {f.id: f.type for f in nested.node.fields}
    keys, links = [], []
    for link in nested.links:
        assert isinstance(link, exp.EQ | exp.NullSafeEQ)
        inner, outer = (link.left, link.right) if columns_of(link.left) <= own else (link.right, link.left)
        key = Field(fresh("link"), types[inner.name] if isinstance(inner, exp.Column) else "UNKNOWN")
        keys.append(Named(key, inner.copy()))
        links.append(type(link)(this=outer.copy(), expression=column(key.id)))
    return tuple(keys), tuple(links)


def presence(nested: Nested) -> Joined:
    """EXISTS of an aggregate without GROUP BY: true, unless its HAVING says otherwise."""
    if nested.present is None:
        return [], exp.true()
    kind = JoinKind.LEFT if nested.correlated else JoinKind.INNER
    return [linked(nested, kind)], exp.Coalesce(this=nested.present.copy(), expressions=[exp.false()])


def flagged(node: Node, flag: Field) -> Node:
    return Project(node, (*(Named(f, column(f.id)) for f in node.fields), Named(flag, exp.true())))


def case_of(*branches: tuple[Scalar, Scalar], default: Scalar | None = None) -> Scalar:
    ifs = [exp.If(this=when.copy(), true=then.copy()) for when, then in branches]
    return exp.Case(ifs=ifs, default=default)


def is_null(scalar: Scalar) -> Scalar:
    return exp.Is(this=operand(scalar), expression=exp.Null())


def not_null(scalar: Scalar) -> Scalar:
    return exp.Not(this=is_null(scalar))
