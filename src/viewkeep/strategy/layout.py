"""How a view is stored, and the way from the stored columns to what its user sees.

A view's plan is split in two. The core is what gets stored: the topmost aggregate as keys and
state, or, where there is none, the rows themselves. The rest — HAVING, expressions over
aggregates, windows over all groups, ORDER BY … LIMIT — is the finalising query, a plain SQL view
over the stored rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from viewkeep.catalog import Catalog, TableName
from viewkeep.errors import SqlError
from viewkeep.incremental.reproducible import reproducible
from viewkeep.incremental.weighted import keep
from viewkeep.plan.keys import keys_of
from viewkeep.plan.nodes import (
    Aggregate,
    Field,
    Filter,
    Fresh,
    Named,
    Node,
    Project,
    Query,
    Repeat,
    Scan,
    TopK,
    Window,
    inputs_of,
)
from viewkeep.plan.scalars import column, window_function
from viewkeep.plan.ties import BY_PEERS, BY_POSITION, ONE_OF_THE_ROWS
from viewkeep.strategy import names
from viewkeep.strategy.bounded import Bound, bounded
from viewkeep.strategy.components import State, from_rows, state_of
from viewkeep.strategy.form import PLAIN, Form
from viewkeep.strategy.partitioned import Partition, partition_of

_REPEATABLE = (*BY_PEERS, *BY_POSITION, *ONE_OF_THE_ROWS, exp.Count, exp.Min, exp.Max)


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """What both kinds of stored view have in common."""

    view: TableName
    output: tuple[str, ...]
    """The names the user gave to the view's columns."""
    stored: tuple[Field, ...]
    """The columns of the backing table: ids in plans, and under `columns` their names in the table."""
    columns: tuple[str, ...]
    contents: Node
    """The backing table's rows computed from scratch; its fields are `stored`."""
    above: Node
    """The finalising plan over `scan()`."""
    ordered: bool
    """Whether the finalising plan has a LIMIT or a window, so that one row in can push another out."""

    @property
    def dated(self) -> bool:
        """Whether stored rows have the version they came in; additive state is updated in place instead."""
        return True

    def scan(self, table: TableName | None = None, suffix: str = "") -> Scan:
        """The backing table (or one with its columns)."""
        fields = tuple(replace(f, id=f.id + suffix) for f in self.stored)
        return Scan(table or names.backing(self.view), tuple(zip(fields, self.columns, strict=True)))

    def finalise(self, stored: Node) -> Node:
        """What the user sees of some stored rows; extra columns, such as a weight, must not be there."""
        return _replace_scan(self.above, stored)


@dataclass(frozen=True, slots=True, eq=False)
class BagLayout(Layout):
    """Rows as they are, addressed by a key where one is known, else by value with multiplicities."""

    key: tuple[str, ...] | None
    key_reason: str
    partition: Partition | None = None
    """Where the top is a window: how the rows of an affected partition are found."""
    bound: Bound | None = None
    """Where only the first rows are stored."""

    @property
    def found_by(self) -> tuple[str, ...]:
        """The columns by which a row is found that has changed."""
        return self.key or self.columns


@dataclass(frozen=True, slots=True, eq=False)
class GroupLayout(Layout):
    """Groups with hidden state."""

    aggregate: Aggregate
    state: State

    @property
    def dated(self) -> bool:
        return not self.state.additive

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns of the backing table."""
        return self.columns[: len(self.aggregate.keys)]

    @property
    def found_by(self) -> tuple[str, ...]:
        return self.keys

    @property
    def key_fields(self) -> tuple[Field, ...]:
        return self.stored[: len(self.aggregate.keys)]

    @property
    def counters(self) -> tuple[Field, ...]:
        """The row count and the components."""
        return self.stored[len(self.aggregate.keys) :]


def layout_of(
    view: TableName,
    query: Query,
    catalog: Catalog,
    fresh: Fresh,
    decimal_average: bool = False,
    form: Form = PLAIN,
) -> BagLayout | GroupLayout:
    """`decimal_average`: what `state_of` asks of an engine."""
    for name in query.names:
        if name.lower().startswith(names.RESERVED):
            raise SqlError(f"column name {name!r} is reserved for viewkeep", hint="give it an alias with AS")
    top = _core(query.root)
    if isinstance(top, Aggregate):
        return _groups(view, query, top, fresh, decimal_average, form.kept)
    return _rows(view, query, top, catalog, fresh if form.bounded else None)


def _groups(
    view: TableName, query: Query, top: Aggregate, fresh: Fresh, decimal_average: bool, kept: int
) -> GroupLayout:
    core = replace(top, input=reproducible(top.input))
    state = state_of(core, fresh, decimal_average, kept)
    raw, stored = from_rows(core, state)
    contents = Project(raw, stored)
    fields = contents.fields
    keys = tuple(Named(k.field, column(k.field.id)) for k in core.keys)
    labels = _stored_names(core, state)
    scan = Scan(names.backing(view), tuple(zip(fields, labels, strict=True)))
    above = _swap(query.root, top, Project(scan, (*keys, *state.finals)))
    return GroupLayout(view, query.names, fields, labels, contents, above, _limited(query.root, top), core, state)


def _rows(view: TableName, query: Query, top: Node, catalog: Catalog, bounds: Fresh | None) -> BagLayout:
    """`bounds`: ids for a bound, where there may be one."""
    core, partition = partition_of(top)
    if partition is None:
        core = reproducible(core)
    contents, bound = core, None
    cut = _cut_above(query.root, top)
    if partition is None and bounds is not None and cut is not None:
        contents, bound = bounded(view, core, cut, bounds) or (core, None)
    # Stored under the names the user gave, where the core is the whole view; its sort columns otherwise.
    wanted = tuple(f.id for f in core.fields)
    labels = tuple(_label(i, query) for i in wanted)
    scan = Scan(names.backing(view), tuple(zip(core.fields, labels, strict=True)))
    seen = scan if core.fields == top.fields else Project(scan, keep(top.fields))
    key = next(iter(sorted(keys_of(core, catalog), key=lambda k: (len(k), sorted(k)))), None)
    label = dict(zip(wanted, labels, strict=True))
    return BagLayout(
        view,
        query.names,
        core.fields,
        labels,
        contents,
        _swap(query.root, top, seen),
        _limited(query.root, top),
        None if key is None else tuple(label[i] for i in sorted(key)),
        "no key of the result is known" if key is None else "every row is found by its key",
        partition,
        bound,
    )


def _stored_names(aggregate: Aggregate, state: State) -> tuple[str, ...]:
    """Names that depend on the query alone: they must fit the stored table for as long as the view lives."""
    keys = [f"key_{i}" for i, _ in enumerate(aggregate.keys, 1)]
    components = [f"{c.name}_{i}" for i, c in enumerate(state.components, 1)]
    return (*keys, names.ROWS, *components)


def _core(root: Node) -> Node:
    """The topmost aggregate if only projections, filters, windows over all groups and an order are above it; else
    what is below a LIMIT."""
    node, below_order = root, root
    while isinstance(node, Project | Filter | Repeat | TopK) or _over_all(node):
        if isinstance(node, TopK):
            below_order = node.input
        (node,) = inputs_of(node)
    return node if isinstance(node, Aggregate) else below_order


def _over_all(node: Node) -> bool:
    """Whether it is a window in which every row may depend on every other, and which says the same of the same
    rows whenever it is asked: a sum of doubles may differ in its last digit."""
    if not isinstance(node, Window) or node.partition:
        return False
    return all(isinstance(window_function(c.scalar), _REPEATABLE) for c in node.calls)


def _cut_above(root: Node, core: Node) -> TopK | None:
    """The ORDER BY … LIMIT right above what is stored, if there is one."""
    node = root
    while node is not core:
        (below,) = inputs_of(node)
        if below is core:
            return node if isinstance(node, TopK) else None
        node = below
    return None


def _limited(root: Node, core: Node) -> bool:
    """Whether a LIMIT or a window is applied when the view is read."""
    if root is core:
        return False
    cuts = isinstance(root, TopK) and (root.limit is not None or root.offset > 0)
    return cuts or isinstance(root, Window) or _limited(inputs_of(root)[0], core)


def _label(column_id: str, query: Query) -> str:
    for name, output in zip(query.names, query.root.fields, strict=True):
        if output.id == column_id:
            return name
    return column_id


def _swap(root: Node, core: Node, stand_in: Node) -> Node:
    if root is core:
        return stand_in
    assert isinstance(root, Project | Filter | Repeat | TopK | Window)
    return replace(root, input=_swap(root.input, core, stand_in))


def _replace_scan(node: Node, stored: Node) -> Node:
    if isinstance(node, Scan):
        return stored
    assert isinstance(node, Project | Filter | Repeat | TopK | Window)
    return replace(node, input=_replace_scan(node.input, stored))
