"""Plan → one SELECT: a CTE for each operator, unique column names inside, wanted names at the top.

A subplan used twice is one CTE. Aggregates used twice are worth keeping, and so is what a delta has
made small; anything else is better planned together with its use, so engines that need to be told
are told.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from sqlglot import exp

from viewkeep.catalog import TableName
from viewkeep.emit.lists import spell_lists
from viewkeep.emit.negation import spell_negations
from viewkeep.emit.raising import spell_errors
from viewkeep.emit.spark_variance import spell_variances
from viewkeep.errors import PlanError
from viewkeep.plan.clock import predicate_of, reads_clock
from viewkeep.plan.conditions import equalities_of
from viewkeep.plan.nodes import (
    Aggregate,
    Filter,
    Join,
    JoinKind,
    Node,
    Project,
    Repeat,
    Scan,
    State,
    TimeFilter,
    TopK,
    Union,
    Unnest,
    Values,
    Window,
    inputs_of,
    scans,
)
from viewkeep.plan.scalars import NARROW_TYPES, Scalar, column
from viewkeep.sql.parse import parse_one
from viewkeep.sql.rewording import reworded
from viewkeep.sql.spark_aggregates import spell_aggregates
from viewkeep.strategy import names


def table(name: TableName) -> exp.Table:
    return exp.Table(
        this=exp.to_identifier(name.name, quoted=True),
        db=exp.to_identifier(name.schema, quoted=True) if name.schema else None,
    )


@functools.cache
def table_text(name: TableName, dialect: str) -> str:
    """A table's name as it stands in SQL; asked for often, hence kept."""
    return table(name).sql(dialect=dialect)


@functools.cache
def literal(text: str) -> str:
    """A text as it stands in SQL; as often."""
    return exp.Literal.string(text).sql()


def identifier(name: str) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=True)


MANY_PARTS = 300
DEEPEST = 12
"""Queries inside queries; what reads and writes SQL recurses a few dozen times for each."""
_WHOLE = NARROW_TYPES | {"BIGINT", "UBIGINT"}
_Part = tuple[str, exp.Query, bool | None]
"""A CTE: its name, its query, whether its rows are kept."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What an engine that spreads its work over machines is told, since it guesses a join to be as large as its
    inputs multiplied: it would rather move a large table than what a small delta has found so far."""

    few: frozenset[TableName] = frozenset()
    """Tables so small that what is joined to them stays small."""
    many: frozenset[TableName] = frozenset()
    """Tables so large that they should stay where they are."""


def select(plan: Node, outputs: Sequence[tuple[exp.Expr, str]], dialect: str, sizes: Sizes | None = None) -> exp.Select:
    """The query of a plan; `outputs` are scalars over the plan's columns and their final names."""
    emitter = _Emitter(plan, dialect, sizes or Sizes())
    last = emitter.emit(plan)
    query = _select([_as(s, n) for s, n in outputs], last)
    parts = emitter.ctes
    if dialect == "duckdb" and len(parts) > MANY_PARTS:
        parts = _folded(parts, query)
    ctes = [
        exp.CTE(this=body, alias=exp.TableAlias(this=exp.to_identifier(name)), materialized=keep)
        for name, body, keep in parts
    ]
    query.set("with_", exp.With(expressions=ctes))
    spell_negations(query, dialect)
    spell_errors(query, dialect)
    spell_lists(query, dialect)
    if dialect == "spark":
        spell_aggregates(query)
    return query


def _folded(parts: list[_Part], query: exp.Select) -> list[_Part]:
    """The same query with fewer CTEs: one that is read once stands where it is read.

    DuckDB takes each CTE for a level of nesting, of which it allows a thousand."""
    readers: dict[str, list[exp.Table]] = {}
    for body in (*(body for _, body, _ in parts), query):
        for read in body.find_all(exp.Table):
            readers.setdefault(read.name, []).append(read)
    depth: dict[str, int] = {}
    left = []
    for name, body, keep in parts:
        below = max((depth.get(r.name, 0) for r in body.find_all(exp.Table)), default=0)
        [reader, *others] = readers[name]
        if keep or others or below >= DEEPEST:
            left.append((name, body, keep))
        else:
            depth[name] = below + 1
            reader.replace(exp.Subquery(this=body, alias=exp.TableAlias(this=exp.to_identifier(name))))
    return left


def user_query(text: str, columns: Sequence[str], dialect: str) -> exp.Select:
    """A query of the user that has no plan, with its columns named."""
    tree = reworded(parse_one(text, dialect), dialect)
    assert isinstance(tree, exp.Query)
    inner = tree.subquery("query")
    inner.args["alias"].set("columns", [identifier(c) for c in columns])
    return exp.select("*").from_(inner)


def by_name(plan: Node, wanted: Sequence[str]) -> list[tuple[exp.Expr, str]]:
    """The plan's columns in order under final names."""
    return [(column(f.id), n) for f, n in zip(plan.fields, wanted, strict=True)]


class _Emitter:
    def __init__(self, plan: Node, dialect: str, sizes: Sizes) -> None:
        self.dialect, self.sizes = dialect, sizes
        self.ctes: list[_Part] = []
        self.done: dict[int, str] = {}
        self.uses: Counter[int] = Counter()
        self.small: dict[int, bool] = {}
        self.numbers = itertools.count(1)
        self.matched: set[str] = set()
        """Columns of which a join wants equal ones."""
        self._look_at(plan, set())

    def _look_at(self, node: Node, seen: set[int]) -> None:
        self.uses[id(node)] += 1
        if id(node) not in seen:
            seen.add(id(node))
            if isinstance(node, Join):
                pairs = [(e.left, e.right) for e in equalities_of(node) if not e.null_safe]
                self.matched |= {side.name for pair in pairs for side in pair if isinstance(side, exp.Column)}
            for child in inputs_of(node):
                self._look_at(child, seen)

    def emit(self, node: Node) -> str:
        """The CTE that holds a node's rows."""
        if id(node) in self.done:
            return self.done[id(node)]
        body = self._body(node)
        name = f"{_label(node)}_{next(self.numbers)}"
        keep = self.uses[id(node)] > 1 and (_grouped(node) or self._small(node))
        self.ctes.append((name, body, keep if self.dialect in ("duckdb", "postgres") else None))
        self.done[id(node)] = name
        return name

    def _body(self, node: Node) -> exp.Query:
        match node:
            case Scan():
                return self._scan(node)
            case Filter():
                return _where(_columns(node, self.emit(node.input)), node.predicate.copy())
            case TimeFilter():
                return _where(_columns(node, self.emit(node.input)), predicate_of(node))
            case Project():
                return _select([_as(o.scalar, o.field.id) for o in node.outputs], self.emit(node.input))
            case Join():
                return self._join(node)
            case Aggregate():
                return self._aggregate(node)
            case Window() | Unnest():
                calls = [_as(self._call(c.scalar), c.field.id) for c in node.calls]
                return _select([*(column(f.id) for f in node.input.fields), *calls], self.emit(node.input))
            case Union():
                return self._union(node)
            case Values():
                return self._values(node)
            case Repeat():
                return self._repeat(node)
            case TopK():
                return self._top_k(node)
            case _:
                assert_never(node)

    def _small(self, node: Node) -> bool:
        """Whether a delta decides how many rows there are, and more was done than to read it."""
        if id(node) not in self.small:
            self.small[id(node)] = self._is_small(node)
        return self.small[id(node)]

    def _is_small(self, node: Node) -> bool:
        match node:
            case Filter() if reads_clock(node.predicate):
                return True  # rows that cross a bound
            case Filter() | TimeFilter() | Project():
                return self._small(node.input)
            case Repeat() | Aggregate():
                return self._changes_only(node.input)
            case Join(kind=JoinKind.SEMI | JoinKind.ANTI):
                return self._changes_only(node.right) or self._small(node.left)
            case Join():
                return self._changes_only(node.left) or self._changes_only(node.right)
            case Union():
                return all(map(self._changes_only, node.inputs)) and any(map(self._small, node.inputs))
            case _:
                return False

    def _changes_only(self, node: Node) -> bool:
        match node:
            case Scan():
                return node.state is State.DELTA
            case Filter() if reads_clock(node.predicate):
                return True
            case Filter() | TimeFilter() | Project():
                return self._changes_only(node.input)
            case _:
                return self._small(node)

    def _scan(self, node: Scan) -> exp.Query:
        source = names.delta(node.table) if node.state is State.DELTA else node.table
        if node.state is State.OLD:
            raise PlanError(f"scan of {node.table} [old] must be lowered before it is emitted")
        blurred = set[str]()
        if self.dialect == "duckdb" and node.state is State.DELTA:
            blurred = self.matched
        columns = [_as(unbounded(column(n), f.type) if f.id in blurred else column(n), f.id) for f, n in node.columns]
        if node.weight:
            weight = column(names.WEIGHT)
            columns.append(_as(unbounded(weight) if self.dialect == "duckdb" else weight, node.weight.id))
        return _select(columns, table(source))

    def _join(self, node: Join) -> exp.Query:
        left, right = self.emit(node.left), self.emit(node.right)
        query, condition = _columns(node, left), node.condition.copy() if node.condition is not None else None
        how: dict[str, object]
        match node.kind:
            case JoinKind.INNER:
                how = {"kind": "CROSS"} if condition is None else {"on": condition}
            case JoinKind.LEFT | JoinKind.FULL:
                how = {"side": node.kind.name, "on": exp.true() if condition is None else condition}
            case JoinKind.SEMI | JoinKind.ANTI:
                partner = _select([exp.Literal.number(1)], right)
                found = exp.Exists(this=partner if condition is None else _where(partner, condition))
                return _where(query, found if node.kind is JoinKind.SEMI else exp.Not(this=found))
            case _:
                assert_never(node.kind)
        query.set("joins", [exp.Join(this=_named(right), **how)])
        if node.kind is JoinKind.INNER and (sent := self._sent(node, left, right)) is not None:
            hint = exp.Anonymous(this="BROADCAST", expressions=[exp.to_identifier(sent)])
            query.set("hint", exp.Hint(expressions=[hint]))
        return query

    def _sent(self, node: Join, left: str, right: str) -> str | None:
        """The side of a join that is small because of a delta, where the other one is large."""
        if not self.sizes.many:
            return None
        for small, name, other in ((node.left, left, node.right), (node.right, right, node.left)):
            large = any(scan.table in self.sizes.many for scan in scans(other))
            if large and self._is_few(small) and not self._is_few(other):
                return name
        return None

    def _is_few(self, node: Node) -> bool:
        """Whether one of the small tables decides how many rows there are."""
        match node:
            case Scan():
                return node.table in self.sizes.few
            case Filter() | TimeFilter() | Project() | Repeat() | Aggregate():
                return self._is_few(node.input)
            case Join(kind=JoinKind.INNER | JoinKind.SEMI):
                return self._is_few(node.left) or self._is_few(node.right)
            case Join(kind=JoinKind.ANTI | JoinKind.LEFT):
                return self._is_few(node.left)
            case Union():
                return all(map(self._is_few, node.inputs))
            case _:
                return False

    def _aggregate(self, node: Aggregate) -> exp.Query:
        calls = [_as(self._call(c.scalar), c.field.id) for c in node.calls]
        query = _select([*(_as(k.scalar, k.field.id) for k in node.keys), *calls], self.emit(node.input))
        if node.keys:
            # By position: a key may be any expression, even one that looks like a number.
            positions = [exp.Literal.number(i + 1) for i in range(len(node.keys))]
            query.set("group", exp.Group(expressions=positions))
        return query

    def _call(self, call: Scalar) -> Scalar:
        return spell_variances(call) if self.dialect == "spark" else call

    def _union(self, node: Union) -> exp.Query:
        return _union_all(
            [
                _select([_as(column(c.id), f.id) for c, f in zip(child.fields, node.fields, strict=True)], source)
                for child in node.inputs
                for source in (self.emit(child),)
            ]
        )

    def _values(self, node: Values) -> exp.Query:
        return _union_all([_select([_as(s, f.id) for s, f in zip(row, node.fields, strict=True)]) for row in node.rows])

    def _repeat(self, node: Repeat) -> exp.Query:
        """Rows by a series of numbers: each row meets the numbers 1 to `times`."""
        source = self.emit(node.input)
        series = exp.GenerateSeries(start=exp.Literal.number(1), end=exp.cast(column(node.times), "BIGINT"))
        counter: exp.Expr = exp.Unnest(expressions=[series])
        if self.dialect == "spark":
            counter = exp.Explode(this=series)
        elif self.dialect == "postgres":
            counter = series  # gives a row a number by itself
        wide = _select([*(column(f.id) for f in node.fields), _as(counter, "_vk_copy")], source)
        return _columns(node, wide.subquery("copies", copy=False))

    def _top_k(self, node: TopK) -> exp.Query:
        query = _columns(node, self.emit(node.input))
        order = [exp.Ordered(this=o.scalar.copy(), desc=o.descending, nulls_first=o.nulls_first) for o in node.order]
        query.set("order", exp.Order(expressions=order))
        if node.limit is not None:
            query.set("limit", exp.Limit(expression=exp.Literal.number(node.limit)))
        if node.offset:
            query.set("offset", exp.Offset(expression=exp.Literal.number(node.offset)))
        return query


def unbounded(value: exp.Expr, kind: str = "INTEGER") -> exp.Expr:
    """The same value; if it is a whole number, DuckDB does not know the smallest and the largest.

    Of a weight it had better not: DuckDB 2.0 may hold a join for empty that is not, where a side of an outer join, or
    what an aggregate without groups counts, is empty by its statistics. Then it takes a sum of weights for 0, and
    `<> 0` for false. Of a key that few rows are looked up by: every row of the other table would be compared with both
    bounds, and then with the keys, which leave out all that the bounds do."""
    return exp.BitwiseXor(this=value, expression=exp.Literal.number(0)) if kind in _WHOLE else value


# Trees are put together here without sqlglot's builders, which copy at every step.
def _select(columns: list[exp.Expr], source: str | exp.Expr | None = None) -> exp.Select:
    # Where nobody asks for a column, how many rows there are still counts.
    query = exp.Select(expressions=columns or [_as(exp.Literal.number(1), "_vk_row")])
    if source is not None:
        query.set("from_", exp.From(this=_named(source) if isinstance(source, str) else source))
    return query


def _columns(node: Node, source: str | exp.Expr) -> exp.Select:
    return _select([column(f.id) for f in node.fields], source)


def _named(cte: str) -> exp.Table:
    return exp.Table(this=exp.to_identifier(cte))


def _where(query: exp.Select, predicate: exp.Expr) -> exp.Select:
    query.set("where", exp.Where(this=predicate))
    return query


def _union_all(parts: list[exp.Select]) -> exp.Query:
    whole: exp.Query = parts[0]
    for part in parts[1:]:
        whole = exp.Union(this=whole, expression=part, distinct=False)
    return whole


def _as(scalar: exp.Expr, name: str) -> exp.Expr:
    if isinstance(scalar, exp.Column) and scalar.name == name and not scalar.table:
        return scalar.copy()
    return exp.Alias(this=scalar.copy(), alias=identifier(name))


def _grouped(node: Node) -> bool:
    return isinstance(node, Aggregate) or (isinstance(node, Filter | TimeFilter | Project) and _grouped(node.input))


def _label(node: Node) -> str:
    match node:
        case Scan():
            return {State.NEW: "scan", State.OLD: "old", State.DELTA: "delta"}[node.state]
        case TimeFilter():
            return "filter"
        case Aggregate():
            return "aggregate" if node.calls else "distinct"
        case Join():
            return "join" if node.kind is JoinKind.INNER else node.kind.value
        case _:
            return type(node).__name__.lower()
