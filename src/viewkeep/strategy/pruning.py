"""Which scans of large tables can be cut down to the few keys that a delta has.

    Δ ⋈ R on Δ.k = R.k      R needs only the rows whose k occurs in Δ

An engine that stores tables as files with statistics skips what cannot match, if it is told the
values. This pass finds, for each scan on its way down the plan, which of its columns must equal
which column of which delta; the runtime knows the values.

Every scan gets a relation of its own for what is asked of it, so that each can be bound apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from viewkeep.catalog import TableName
from viewkeep.plan.nodes import (
    Aggregate,
    Filter,
    Join,
    JoinKind,
    Named,
    Node,
    Project,
    Repeat,
    Scan,
    State,
    TimeFilter,
    Union,
    inputs_of,
    with_inputs,
)
from viewkeep.plan.scalars import conjuncts
from viewkeep.strategy import names


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """A column of a delta (or of a staged change) that another column's values come from."""

    table: TableName
    column: str
    nulls: bool = False
    """Whether NULL matches NULL here."""


@dataclass(frozen=True, slots=True)
class Relation:
    """What a scan reads: the rows of a table in a state, as far as they can match."""

    table: TableName
    state: State
    keys: tuple[tuple[str, Origin], ...] = ()


Origins = Mapping[str, Origin]
Bind = Callable[[Relation], TableName]


def bind_scans(root: Node, staged: frozenset[TableName], bind: Bind) -> Node:
    """The plan with every scan reading the relation that `bind` names for it.

    `staged`: relations that hold a change and so tell values as a delta does."""
    return _Binder(staged, bind).push(root, {})


class _Binder:
    def __init__(self, staged: frozenset[TableName], bind: Bind) -> None:
        self.staged, self.bind = staged, bind
        self._done: dict[tuple[int, tuple[tuple[str, Origin], ...]], Node] = {}
        self._origins: dict[int, Origins] = {}
        self._alive: list[Node] = []
        """Nodes whose id is remembered must not be collected."""

    def push(self, node: Node, wanted: Origins) -> Node:
        """`wanted`: columns of the node of which only some values are of use."""
        ids = {f.id for f in node.fields}
        kept = {i: o for i, o in wanted.items() if i in ids}
        key = (id(node), tuple(sorted(kept.items())))
        if key not in self._done:
            self._alive.append(node)
            self._done[key] = self._push(node, kept)
        return self._done[key]

    def _push(self, node: Node, wanted: Origins) -> Node:
        match node:
            case Scan():
                return self._scan(node, wanted)
            case Filter() | TimeFilter() | Repeat():
                return replace(node, input=self.push(node.input, wanted))
            case Project():
                below = {
                    o.scalar.name: wanted[o.field.id]
                    for o in node.outputs
                    if o.field.id in wanted and isinstance(o.scalar, exp.Column)
                }
                return replace(node, input=self.push(node.input, below))
            case Aggregate():
                below = {
                    k.scalar.name: wanted[k.field.id]
                    for k in node.keys
                    if k.field.id in wanted and isinstance(k.scalar, exp.Column)
                }
                return replace(node, input=self.push(node.input, below))
            case Union():
                at = {f.id: i for i, f in enumerate(node.fields)}
                inputs = tuple(
                    self.push(child, {child.fields[at[i]].id: o for i, o in wanted.items()}) for child in node.inputs
                )
                return replace(node, inputs=inputs)
            case Join(kind=JoinKind.INNER):
                left, right = dict(wanted), dict(wanted)
                for a, b, nulls in _equal(node):
                    for mine, other, side in ((a, b, right), (b, a, left)):
                        if (origin := self.origins_of(node).get(mine)) and other not in side:
                            side[other] = replace(origin, nulls=origin.nulls and nulls)
                return replace(node, left=self.push(node.left, left), right=self.push(node.right, right))
            case Join(kind=JoinKind.SEMI):
                left = dict(wanted)
                from_right = self.origins_of(node.right)
                for a, b, nulls in _equal(node):
                    if b in from_right and a not in left:
                        left[a] = replace(from_right[b], nulls=nulls)
                return replace(node, left=self.push(node.left, left), right=self.push(node.right, {}))
            case _:
                return with_inputs(node, tuple(self.push(child, {}) for child in inputs_of(node)))

    def _scan(self, node: Scan, wanted: Origins) -> Scan:
        own = {f.id: n for f, n in node.columns}
        keys: tuple[tuple[str, Origin], ...] = ()
        if node.state is not State.DELTA and node.table not in self.staged:
            keys = tuple(sorted((own[i], o) for i, o in wanted.items() if i in own))
        columns = node.columns
        if node.weight is not None:
            columns = (*columns, (node.weight, names.WEIGHT))
        return Scan(self.bind(Relation(node.table, node.state, keys)), columns)

    # ------------------------------------------------------------------ where values come from
    def origins_of(self, node: Node) -> Origins:
        if id(node) not in self._origins:
            self._alive.append(node)
            self._origins[id(node)] = self._find_origins(node)
        return self._origins[id(node)]

    def _find_origins(self, node: Node) -> Origins:
        match node:
            case Scan():
                if node.state is not State.DELTA and node.table not in self.staged:
                    return {}
                return {f.id: Origin(node.table, n, nulls=True) for f, n in node.columns}
            case Filter() | TimeFilter() | Repeat():
                return self.origins_of(node.input)
            case Project():
                return _passed(node.outputs, self.origins_of(node.input))
            case Aggregate():
                return _passed(node.keys, self.origins_of(node.input))
            case Join(kind=JoinKind.INNER | JoinKind.SEMI):
                found = {**self.origins_of(node.left), **self.origins_of(node.right)}
                for a, b, nulls in _equal(node):
                    for mine, other in ((a, b), (b, a)):
                        if mine in found and other not in found:
                            found[other] = replace(found[mine], nulls=found[mine].nulls and nulls)
                ids = {f.id for f in node.fields}
                return {i: o for i, o in found.items() if i in ids}
            case Union():
                each = [
                    {f.id: self.origins_of(child).get(c.id) for f, c in zip(node.fields, child.fields, strict=True)}
                    for child in node.inputs
                ]
                first, rest = each[0], each[1:]
                return {i: o for i, o in first.items() if o is not None and all(e[i] == o for e in rest)}
            case _:
                return {}


def _passed(outputs: tuple[Named, ...], below: Origins) -> Origins:
    found = {}
    for output in outputs:
        scalar = output.scalar
        if isinstance(scalar, exp.Column) and scalar.name in below:
            found[output.field.id] = below[scalar.name]
    return found


def _equal(join: Join) -> list[tuple[str, str, bool]]:
    """Pairs (left column, right column) that must be equal, and whether NULL equals NULL."""
    left = {f.id for f in join.left.fields}
    found = []
    for part in conjuncts(join.condition):
        if isinstance(part, exp.EQ | exp.NullSafeEQ):
            a, b = part.left, part.right
            if isinstance(a, exp.Column) and isinstance(b, exp.Column) and (a.name in left) != (b.name in left):
                pair = (a.name, b.name) if a.name in left else (b.name, a.name)
                found.append((*pair, isinstance(part, exp.NullSafeEQ)))
    return found
