"""The SQL of a view that is stored as files: compiled once for each shape of change, its relations bound
at each refresh.

    SELECT … FROM income_delta_payments JOIN income_old_gods …

A relation is not a table: what stands behind its name is chosen for each refresh, by version and file by file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from sqlglot import exp

from viewkeep.catalog import TableName
from viewkeep.emit.alike import compares_alike, means_the_same
from viewkeep.emit.guard import guard_query
from viewkeep.emit.select import Sizes, user_query
from viewkeep.emit.statements import parameters_of, query_sql
from viewkeep.emit.steps import steps_of
from viewkeep.incremental.foreign_keys import Doubts
from viewkeep.incremental.weighted import Edge
from viewkeep.plan.nodes import Fresh, Join, Node, Query, State, scans, walk
from viewkeep.plan.rewrite import prune
from viewkeep.strategy import names
from viewkeep.strategy.fetched import FETCHED
from viewkeep.strategy.files import (
    CHANGE,
    FILE,
    MOVED,
    ROW,
    TOUCHED,
    WAS,
    Rewrite,
    refresh_files,
    rows_that_come,
    rows_that_leave,
)
from viewkeep.strategy.layout import BagLayout, GroupLayout
from viewkeep.strategy.pruning import Relation, bind_scans
from viewkeep.strategy.shape import Shape

DIALECT = "spark"
IN_DRIVER = "duckdb"
"""What the driver runs over a few rows by itself."""
PLACE = (FILE.id, ROW.id)
"""What is told of a row that leaves."""
_STATES = {State.NEW: "new", State.OLD: "old", State.DELTA: "delta"}


class Compiled(Protocol):
    """What is needed of a compiled view here."""

    view: TableName
    text: str
    layout: BagLayout | GroupLayout
    query: Query | None
    fresh: Fresh

    @property
    def monotone(self) -> bool: ...

    def doubts(self, edge: Edge, shape: Shape) -> Doubts | None: ...


@dataclass(slots=True)
class Text:
    """A query, and what each relation in it stands for, by the name it has there."""

    sql: str
    relations: dict[str, Relation] = field(default_factory=dict)
    parameters: frozenset[str] = frozenset()
    """Times that it is told."""
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Which columns it reads of each relation."""
    steps: dict[str, str] = field(default_factory=dict)
    """Queries that come first, by the name under which their rows are read."""

    def values(self, times: Mapping[str, datetime]) -> dict[str, datetime]:
        return {name: times[name] for name in self.parameters}


@dataclass(frozen=True, slots=True)
class Extent:
    """How much there is of what a program reads. Tables are named as they are folded."""

    few: frozenset[str] = frozenset()
    """Changed tables whose deltas stay small when they are joined."""
    many: frozenset[str] = frozenset()
    """Large tables."""

    def sizes(self, relations: Mapping[str, Relation]) -> Sizes:
        few, many = set(), set()
        for name, relation in relations.items():
            if relation.state is State.DELTA:
                if relation.table.folded in self.few:
                    few.add(TableName(name))
            elif relation.table.folded in self.many:
                many.add(TableName(name))
        return Sizes(frozenset(few), frozenset(many))


UNKNOWN = Extent()


@dataclass(frozen=True, slots=True)
class Merge:
    """What touched files hold afterwards, for the driver: made of viewkeep's own operators over stored values, nothing
    of the user's is computed in it."""

    leave: Text | None
    """Where the rows are that go; None: all do."""
    rows: Text | None
    """What comes."""


@dataclass(frozen=True, slots=True)
class Program:
    plan: Rewrite
    change: Text | None
    rows: Text | None
    anew: Text | None
    merge: Merge | None
    """`rows` again, for the driver, where they come from stored rows and the change alone."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """The way for a change of few rows: what Spark computes, and what the driver makes of it."""

    plan: Rewrite
    rows: Text
    change: Text
    merge: Merge


def _columns_read(plans: Sequence[Node]) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for scan in (s for plan in plans for s in scans(plan)):
        found.setdefault(scan.table.name, {}).update(dict.fromkeys(name for _, name in scan.columns))
    return {name: tuple(columns) for name, columns in found.items()}


def merge_rows(layout: BagLayout) -> Merge:
    """For a table whose own rows change: those that come and go are CHANGE."""

    def text(plan: Node, columns: tuple[str, ...]) -> Text:
        relations = dict[str, Relation]()

        def name(relation: Relation) -> TableName:
            relations[relation.table.name] = relation
            return relation.table

        query = query_sql(bind_scans(plan, frozenset(), name), columns, IN_DRIVER)
        return Text(query.sql(dialect=IN_DRIVER), relations)

    return Merge(text(rows_that_leave(layout, Fresh()), PLACE), text(rows_that_come(layout), layout.columns))


class Programs:
    """Of one view. `prefix`: what the names of its relations start with."""

    def __init__(self, compiled: Compiled, prefix: str, pretty: bool = False) -> None:
        self.compiled, self.prefix, self.pretty = compiled, prefix, pretty
        self._programs: dict[tuple[Shape, Extent], Program] = {}
        self._fetched: dict[tuple[Shape, Extent], Fetched | None] = {}
        self._in_driver: dict[Shape, Text | None] = {}
        self._guards: dict[tuple[tuple[Edge, ...], Shape, str], Text | None] = {}

    def refresh(self, shape: Shape, extent: Extent = UNKNOWN) -> Program:
        if (shape, extent) not in self._programs:
            context, appended = shape.context(self.compiled.fresh, True), shape.append_only and self.compiled.monotone
            plan = refresh_files(self.compiled.layout, context, appended)
            columns = self._columns(plan)
            self._programs[shape, extent] = Program(
                plan,
                self._text(plan.change, plan.columns, extent=extent),
                self._text(plan.after, columns, extent=extent),
                self._text(plan.anew, self.compiled.layout.columns),
                self._merge(plan, columns),
            )
        return self._programs[shape, extent]

    def fetched(self, shape: Shape, extent: Extent = UNKNOWN) -> Fetched | None:
        """None where there is no such way."""
        if (shape, extent) not in self._fetched:
            self._fetched[shape, extent] = self._few(self.refresh(shape, extent).plan, extent)
        return self._fetched[shape, extent]

    def _few(self, plan: Rewrite, extent: Extent) -> Fetched | None:
        if plan.fetch is None or plan.in_driver is None:
            return None
        rows = self._text(plan.fetch, tuple(f.id for f in plan.fetch.fields), extent=extent)
        change = self._text(plan.in_driver.change, plan.in_driver.columns, IN_DRIVER)
        merge = self._merge(plan.in_driver, self._columns(plan))
        if rows is None or change is None or merge is None:
            return None
        return Fetched(plan.in_driver, rows, change, merge)

    def in_driver(self, shape: Shape) -> Text | None:
        """The change of a view of rows, or the rows that come where none goes, for the driver; None where something of
        the user's must be computed for it."""
        if shape not in self._in_driver:
            plan = self.refresh(shape).plan
            wanted, columns = (plan.rows, self._columns(plan)) if plan.change is None else (plan.change, plan.columns)
            alike = isinstance(self.compiled.layout, BagLayout) and wanted is not None and means_the_same(wanted)
            text = self._text(wanted, columns, IN_DRIVER) if alike else None
            self._in_driver[shape] = None if text is None or text.parameters else text
        return self._in_driver[shape]

    def _columns(self, plan: Rewrite) -> tuple[str, ...]:
        stored = self.compiled.layout.columns
        return (*stored, WAS, MOVED) if plan.counted else stored

    def guard(self, edges: tuple[Edge, ...], shape: Shape) -> Text | None:
        """Which edges are in doubt for a change and why, by their numbers; None where none can be."""
        return self._guard(edges, shape, DIALECT)

    def guard_in_driver(self, edges: tuple[Edge, ...], shape: Shape) -> Text | None:
        """The same for the driver; None where something of the user's must be computed for it."""
        doubts = [self.compiled.doubts(edge, shape) for edge in edges]
        joins = [n for d in doubts if d is not None for n in walk(d.plan) if isinstance(n, Join)]
        return self._guard(edges, shape, IN_DRIVER) if all(map(compares_alike, joins)) else None

    def _guard(self, edges: tuple[Edge, ...], shape: Shape, dialect: str) -> Text | None:
        if (edges, shape, dialect) not in self._guards:
            relations: dict[str, Relation] = {}
            namer, plans = self._namer(relations), list[Node]()

            def bind(plan: Node) -> Node:
                plans.append(bind_scans(prune(plan), frozenset(), namer))
                return plans[-1]

            query = guard_query([self.compiled.doubts(edge, shape) for edge in edges], dialect, bind)
            sql = None if query is None else query.sql(dialect=dialect, pretty=self.pretty)
            self._guards[edges, shape, dialect] = (
                None if sql is None else Text(sql, relations, columns=_columns_read(plans))
            )
        return self._guards[edges, shape, dialect]

    def _merge(self, plan: Rewrite, columns: tuple[str, ...]) -> Merge | None:
        if plan.change is None or plan.after is None:
            return None
        leave, rows = self._text(plan.leave, PLACE, IN_DRIVER), self._text(plan.rows, columns, IN_DRIVER)
        read = {r.table for text in (leave, rows) if text is not None for r in text.relations.values()}
        return Merge(leave, rows) if read <= {CHANGE, TOUCHED} else None

    def contents(self) -> Text:
        """The stored rows from scratch; the user's own text where the view has no plan."""
        if self.compiled.query is None:
            text = user_query(self.compiled.text, self.compiled.layout.columns, DIALECT)
            return Text(text.sql(dialect=DIALECT, pretty=self.pretty))
        found = self._text(self.compiled.layout.contents, self.compiled.layout.columns)
        assert found is not None
        return found

    def shown(self) -> Text:
        """What users read, over the stored rows."""
        found = self._text(self.compiled.layout.above, self.compiled.layout.output)
        assert found is not None
        return found

    def _text(
        self, plan: Node | None, columns: tuple[str, ...], dialect: str = DIALECT, extent: Extent | None = None
    ) -> Text | None:
        if plan is None:
            return None
        relations: dict[str, Relation] = {}
        bound = bind_scans(plan, frozenset({CHANGE}), self._namer(relations))
        sizes = None if extent is None else extent.sizes(relations)
        query = query_sql(bound, columns, dialect, sizes)
        parameters, first = parameters_of(query), dict[str, exp.Select]()
        if dialect == DIALECT:
            first, query = steps_of(query, f"{self.prefix}{self.compiled.view.folded}_step_{{}}".format)
        steps = {name: step.sql(dialect=dialect, pretty=self.pretty) for name, step in first.items()}
        sql = query.sql(dialect=dialect, pretty=self.pretty)
        return Text(sql, relations, parameters, _columns_read([bound]), steps)

    def _namer(self, relations: dict[str, Relation]) -> Callable[[Relation], TableName]:
        def name(relation: Relation) -> TableName:
            for known, other in relations.items():
                if other == relation:
                    return TableName(known)
            label = wanted = f"{self.prefix}{self.compiled.view.folded}_{self._label(relation)}"
            number = 1
            while label in relations:  # the same rows, once for each way to find them
                number += 1
                label = f"{wanted}_{number}"
            relations[label] = relation
            return TableName(label)

        return name

    def _label(self, relation: Relation) -> str:
        if relation.table == CHANGE:
            return "change"
        if relation.table == TOUCHED:
            return "touched"
        if relation.table == FETCHED:
            return "fetched"
        if relation.table == names.backing(self.compiled.view):
            return "stored"
        return f"{_STATES[relation.state]}_{relation.table.name}"
