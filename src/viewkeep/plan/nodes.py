"""The nodes of a plan: one page of immutable dataclasses.

Every column has an id that is unique inside the plan, so a join never meets two columns of one
name. Nodes compare by identity: a node used twice is one shared subplan, emitted once.
A weight (+1 inserted, −1 deleted) is an ordinary integer column; see incremental/weighted.py.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import assert_never

from sqlglot import exp

from viewkeep.catalog import TableName
from viewkeep.errors import PlanError
from viewkeep.plan.scalars import Scalar, columns_of


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a node: its id inside the plan and its type (UNKNOWN where nobody can say for sure)."""

    id: str
    type: str = "UNKNOWN"


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """A computed column."""

    field: Field
    scalar: Scalar


class State(Enum):
    """Which rows of a table a scan reads."""

    NEW = "new"
    OLD = "old"
    DELTA = "delta"


class JoinKind(Enum):
    INNER = "inner"
    LEFT = "left"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"

    @property
    def keeps_right(self) -> bool:
        """Whether the columns of the right side are in the result."""
        return self not in (JoinKind.SEMI, JoinKind.ANTI)

    @property
    def linear_in_left(self) -> bool:
        """Whether each left row contributes by itself: op(L + M, R) = op(L, R) + op(M, R)."""
        return self is not JoinKind.FULL


class Fresh:
    """Makes column ids that no other column of the plan has.

    >>> fresh = Fresh(); fresh("uid"), fresh("uid"), fresh("a b")
    ('uid_1', 'uid_2', 'a_b_3')
    """

    def __init__(self, start: int = 1) -> None:
        self._numbers = itertools.count(start)

    def __call__(self, name: str) -> str:
        readable = re.sub(r"\W+", "_", name.lower()).strip("_")[:40] or "c"
        return f"{readable}_{next(self._numbers)}"


def _require(scalar: Scalar, node: Node, where: str) -> None:
    known = {f.id for f in node.fields}
    if missing := sorted(columns_of(scalar) - known):
        raise PlanError(f"{where} uses unknown column {missing[0]!r}", hint=f"columns here: {', '.join(sorted(known))}")


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """The rows of a stored relation. A DELTA scan has one more column, its weight."""

    table: TableName
    columns: tuple[tuple[Field, str], ...]
    state: State = State.NEW
    weight: Field | None = None

    def __post_init__(self) -> None:
        if (self.state is State.DELTA) != (self.weight is not None):
            raise PlanError(f"scan of {self.table}: exactly the delta state has a weight")

    @property
    def fields(self) -> tuple[Field, ...]:
        own = tuple(f for f, _ in self.columns)
        return (*own, self.weight) if self.weight else own


@dataclass(frozen=True, slots=True, eq=False)
class Filter:
    """Keep the rows where `predicate` is true. Linear: Δ(Filter(R)) = Filter(ΔR)."""

    input: Node
    predicate: Scalar

    def __post_init__(self) -> None:
        _require(self.predicate, self.input, "filter")

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields


@dataclass(frozen=True, slots=True, eq=False)
class TimeFilter:
    """Keep the rows whose value compares with a bound that moves with time. Not linear: rows cross the bound."""

    input: Node
    test: exp.Binary
    """A comparison whose left side is a value of the row and whose right side is the bound; see plan/clock.py."""
    state: State = State.NEW
    """At which time: that of this refresh, or that of the last one."""

    def __post_init__(self) -> None:
        _require(self.test, self.input, "filter")
        if columns_of(self.test.right) or self.state is State.DELTA:
            raise PlanError("the bound of a filter on the time is one value, now or before")

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields


@dataclass(frozen=True, slots=True, eq=False)
class Project:
    """Compute columns. Linear."""

    input: Node
    outputs: tuple[Named, ...]

    def __post_init__(self) -> None:
        for output in self.outputs:
            _require(output.scalar, self.input, "projection")

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(o.field for o in self.outputs)


@dataclass(frozen=True, slots=True, eq=False)
class Join:
    """Pairs for which the condition is true (None: all pairs).

    LEFT: and left rows without a partner, beside NULLs. FULL: and right rows without one.
    SEMI: left rows with a partner, ANTI: those without.
    """

    left: Node
    right: Node
    condition: Scalar | None = None
    kind: JoinKind = JoinKind.INNER

    def __post_init__(self) -> None:
        left, right = {f.id for f in self.left.fields}, {f.id for f in self.right.fields}
        if both := sorted(left & right):
            raise PlanError(f"both sides of a join have column {both[0]!r}")
        if self.condition is not None and (missing := sorted(columns_of(self.condition) - left - right)):
            raise PlanError(f"join condition uses unknown column {missing[0]!r}")

    @property
    def fields(self) -> tuple[Field, ...]:
        return (*self.left.fields, *self.right.fields) if self.kind.keeps_right else self.left.fields


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate:
    """One row a group; without keys one row always; without calls it is DISTINCT."""

    input: Node
    keys: tuple[Named, ...]
    calls: tuple[Named, ...] = ()

    def __post_init__(self) -> None:
        if not self.keys and not self.calls:
            raise PlanError("an aggregate needs a key or a call")
        for output in (*self.keys, *self.calls):
            _require(output.scalar, self.input, "aggregate")

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(o.field for o in (*self.keys, *self.calls))


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Every row, with columns computed over its partition; without one, all rows are one partition.

    A call is a whole `f(…) OVER (…)`. Its own partition may be finer than the node's, never coarser.
    """

    input: Node
    partition: tuple[Scalar, ...]
    calls: tuple[Named, ...]

    def __post_init__(self) -> None:
        for scalar in (*self.partition, *(c.scalar for c in self.calls)):
            _require(scalar, self.input, "window")

    @property
    def fields(self) -> tuple[Field, ...]:
        return (*self.input.fields, *(c.field for c in self.calls))


@dataclass(frozen=True, slots=True, eq=False)
class Union:
    """UNION ALL by position. Linear."""

    inputs: tuple[Node, ...]
    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        for node in self.inputs:
            if len(node.fields) != len(self.fields):
                raise PlanError(f"union of {len(self.fields)} columns with an input of {len(node.fields)}")


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Constant rows."""

    rows: tuple[tuple[Scalar, ...], ...]
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """Each row as many times as its positive `times` column says; that column is gone afterwards."""

    input: Node
    times: str

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(f for f in self.input.fields if f.id != self.times)


@dataclass(frozen=True, slots=True, eq=False)
class Unnest:
    """Each row once for each element of a list; several lists go side by side, shorter ones end in NULLs."""

    input: Node
    calls: tuple[Named, ...]

    def __post_init__(self) -> None:
        for call in self.calls:
            _require(call.scalar, self.input, "unnest")

    @property
    def fields(self) -> tuple[Field, ...]:
        return (*self.input.fields, *(c.field for c in self.calls))


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    scalar: Scalar
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TopK:
    """ORDER BY … LIMIT … OFFSET; without a limit only the order."""

    input: Node
    order: tuple[Order, ...]
    limit: int | None = None
    offset: int = 0

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields


Node = Scan | Filter | TimeFilter | Project | Join | Aggregate | Window | Union | Values | Repeat | Unnest | TopK


def inputs_of(node: Node) -> tuple[Node, ...]:
    match node:
        case Scan() | Values():
            return ()
        case Filter() | TimeFilter() | Project() | Aggregate() | Window() | Repeat() | Unnest() | TopK():
            return (node.input,)
        case Join():
            return (node.left, node.right)
        case Union():
            return node.inputs


def with_inputs(node: Node, inputs: tuple[Node, ...]) -> Node:
    """The same node over other inputs; itself where they are the same."""
    if all(a is b for a, b in zip(inputs, inputs_of(node), strict=True)):
        return node
    match node:
        case Scan() | Values():
            return node
        case Filter() | TimeFilter() | Project() | Aggregate() | Window() | Repeat() | Unnest() | TopK():
            return replace(node, input=inputs[0])
        case Join():
            return replace(node, left=inputs[0], right=inputs[1])
        case Union():
            return replace(node, inputs=inputs)
        case _:
            assert_never(node)


def graft(node: Node, old: Node, new: Node) -> Node:
    """The same plan with another node in the place of one of its nodes."""
    if node is old:
        return new
    return with_inputs(node, tuple(graft(child, old, new) for child in inputs_of(node)))


def walk(node: Node) -> Iterator[Node]:
    """Every node, parents first. A node that is used twice comes once: in a delta there may be more ways to it
    than one could walk."""
    seen: set[int] = set()
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if id(current) not in seen:
            seen.add(id(current))
            yield current
            waiting += reversed(inputs_of(current))


def scans(node: Node) -> Iterator[Scan]:
    return (n for n in walk(node) if isinstance(n, Scan))


def count_uses(node: Node, test: Callable[[Node], bool]) -> int:
    """How often rows of some nodes are used: a node that two others read counts twice."""
    known: dict[int, int] = {}

    def count(current: Node) -> int:
        if id(current) not in known:
            known[id(current)] = int(test(current)) + sum(map(count, inputs_of(current)))
        return known[id(current)]

    return count(node)


def sources(node: Node) -> tuple[TableName, ...]:
    """The stored relations a plan reads, each once, in order of appearance."""
    found: dict[str, TableName] = {}
    for scan in scans(node):
        found.setdefault(scan.table.folded, scan.table)
    return tuple(found.values())


def types_of(node: Node) -> dict[str, str]:
    return {f.id: f.type for f in node.fields}


@dataclass(frozen=True, slots=True)
class Query:
    """A plan with the names its user gave to the output columns."""

    root: Node
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.root.fields):
            raise PlanError(f"{len(self.names)} names for {len(self.root.fields)} columns")
