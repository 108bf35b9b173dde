"""Plan → one SELECT: a CTE for each operator, unique column names inside, wanted names at the top.

A subplan used twice is one CTE. Aggregates used twice are worth keeping; anything else is better
planned together with its use, so engines that need to be told are told.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import assert_never

import sqlglot
from sqlglot import exp

from viewkeep.catalog import TableName
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
    TopK,
    Union,
    Values,
    inputs_of,
)
from viewkeep.plan.scalars import column
from viewkeep.strategy import names


def table(name: TableName) -> exp.Table:
    return exp.Table(
        this=exp.to_identifier(name.name, quoted=True),
        db=exp.to_identifier(name.schema, quoted=True) if name.schema else None,
    )


def identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def select(plan: Node, outputs: Sequence[tuple[exp.Expr, str]], dialect: str) -> exp.Select:
    """The query of a plan; `outputs` are scalars over the plan's columns and their final names."""
    emitter = _Emitter(plan, dialect)
    last = emitter.emit(plan)
    query = exp.select(*(_as(s, n) for s, n in outputs)).from_(exp.to_identifier(last))
    for name, body, keep in emitter.ctes:
        query = query.with_(name, as_=body, materialized=keep, copy=False)
    return query


def user_query(text: str, columns: Sequence[str], dialect: str) -> exp.Select:
    """A query of the user that has no plan, with its columns named."""
    tree = sqlglot.parse_one(text, dialect=dialect)
    assert isinstance(tree, exp.Query)
    inner = tree.subquery("query")
    inner.args["alias"].set("columns", [identifier(c) for c in columns])
    return exp.select("*").from_(inner)


def by_name(plan: Node, wanted: Sequence[str]) -> list[tuple[exp.Expr, str]]:
    """The plan's columns in order under final names."""
    return [(column(f.id), n) for f, n in zip(plan.fields, wanted, strict=True)]


class _Emitter:
    def __init__(self, plan: Node, dialect: str) -> None:
        self.dialect = dialect
        self.ctes: list[tuple[str, exp.Query, bool | None]] = []
        self.done: dict[int, str] = {}
        self.uses: Counter[int] = Counter()
        self.numbers = itertools.count(1)
        self._count_uses(plan, set())

    def _count_uses(self, node: Node, seen: set[int]) -> None:
        self.uses[id(node)] += 1
        if id(node) not in seen:
            seen.add(id(node))
            for child in inputs_of(node):
                self._count_uses(child, seen)

    def emit(self, node: Node) -> str:
        """The CTE that holds a node's rows."""
        if id(node) in self.done:
            return self.done[id(node)]
        body = self._body(node)
        name = f"{_label(node)}_{next(self.numbers)}"
        keep = isinstance(node, Aggregate) and self.uses[id(node)] > 1
        self.ctes.append((name, body, keep if self.dialect in ("duckdb", "postgres") else None))
        self.done[id(node)] = name
        return name

    def _body(self, node: Node) -> exp.Query:
        match node:
            case Scan():
                return self._scan(node)
            case Filter():
                return _columns(node).from_(self.emit(node.input)).where(node.predicate.copy())
            case Project():
                return exp.select(*(_as(o.scalar, o.field.id) for o in node.outputs)).from_(self.emit(node.input))
            case Join():
                return self._join(node)
            case Aggregate():
                return self._aggregate(node)
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

    def _scan(self, node: Scan) -> exp.Query:
        source = names.delta(node.table) if node.state is State.DELTA else node.table
        if node.state is State.OLD:
            raise NotImplementedError("reading old versions belongs to engines with time travel")
        columns = [_as(column(n), f.id) for f, n in node.columns]
        if node.weight:
            columns.append(_as(column(names.WEIGHT), node.weight.id))
        return exp.select(*columns).from_(table(source))

    def _join(self, node: Join) -> exp.Query:
        left, right = self.emit(node.left), self.emit(node.right)
        query = _columns(node).from_(left)
        if node.kind is JoinKind.INNER:
            if node.condition is None:
                return query.join(exp.to_table(right), join_type="cross")
            return query.join(exp.to_table(right), on=node.condition.copy())
        partner = exp.select(exp.Literal.number(1)).from_(right)
        if node.condition is not None:
            partner = partner.where(node.condition.copy())
        return query.where(exp.Exists(this=partner))

    def _aggregate(self, node: Aggregate) -> exp.Query:
        outputs = [_as(o.scalar, o.field.id) for o in (*node.keys, *node.calls)]
        query = exp.select(*outputs).from_(self.emit(node.input))
        # By position: a key may be any expression, even one that looks like a number.
        return query.group_by(*(exp.Literal.number(i + 1) for i in range(len(node.keys))))

    def _union(self, node: Union) -> exp.Query:
        parts: list[exp.Query] = []
        for child in node.inputs:
            source = self.emit(child)
            parts.append(
                exp.select(*(_as(column(c.id), f.id) for c, f in zip(child.fields, node.fields, strict=True))).from_(
                    source
                )
            )
        return parts[0] if len(parts) == 1 else exp.union(*parts, distinct=False)

    def _values(self, node: Values) -> exp.Query:
        rows: list[exp.Query] = [
            exp.select(*(_as(s, f.id) for s, f in zip(row, node.fields, strict=True))) for row in node.rows
        ]
        return rows[0] if len(rows) == 1 else exp.union(*rows, distinct=False)

    def _repeat(self, node: Repeat) -> exp.Query:
        """Rows by a series of numbers: each row meets the numbers 1 to `times`."""
        source = self.emit(node.input)
        series = exp.GenerateSeries(start=exp.Literal.number(1), end=exp.cast(column(node.times), "BIGINT"))
        counter: exp.Expr = exp.Unnest(expressions=[series])
        if self.dialect == "spark":
            counter = exp.Explode(this=series)
        elif self.dialect == "postgres":
            counter = series  # gives a row a number by itself
        wide = exp.select(*(column(f.id) for f in node.fields), exp.alias_(counter, "_vk_copy")).from_(source)
        return _columns(node).from_(wide.subquery("copies"))

    def _top_k(self, node: TopK) -> exp.Query:
        query = _columns(node).from_(self.emit(node.input))
        for order in node.order:
            query = query.order_by(
                exp.Ordered(this=order.scalar.copy(), desc=order.descending, nulls_first=order.nulls_first)
            )
        if node.limit is not None:
            query = query.limit(node.limit)
        return query.offset(node.offset) if node.offset else query


def _as(scalar: exp.Expr, name: str) -> exp.Expr:
    if isinstance(scalar, exp.Column) and scalar.name == name and not scalar.table:
        return scalar.copy()
    return exp.alias_(scalar.copy(), identifier(name))


def _columns(node: Node) -> exp.Select:
    return exp.select(*(column(f.id) for f in node.fields))


def _label(node: Node) -> str:
    match node:
        case Scan():
            return {State.NEW: "scan", State.OLD: "old", State.DELTA: "delta"}[node.state]
        case Aggregate():
            return "aggregate" if node.calls else "distinct"
        case Join():
            return "join" if node.kind is JoinKind.INNER else "semi"
        case _:
            return type(node).__name__.lower()
