"""How a view is stored, and the way from the stored columns to what its user sees.

A view's plan is split in two: see core.py. The core is what gets stored, an aggregate as keys and
state, others as the rows themselves. The rest — HAVING, expressions over aggregates, windows over
all groups, ORDER BY … LIMIT — is the finalising query, a plain SQL view over the stored rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from viewkeep.catalog import Catalog, TableName
from viewkeep.errors import SqlError
from viewkeep.incremental.reproducible import reproducible
from viewkeep.incremental.weighted import keep
from viewkeep.plan.clock import is_timed
from viewkeep.plan.keys import keys_of
from viewkeep.plan.nodes import (
    Aggregate,
    Field,
    Fresh,
    Named,
    Node,
    Project,
    Query,
    Scan,
)
from viewkeep.plan.scalars import column
from viewkeep.strategy import names
from viewkeep.strategy.bounded import Bound, bounded
from viewkeep.strategy.components import State, from_rows, state_of
from viewkeep.strategy.core import ABOVE, Core, core_of, cuts
from viewkeep.strategy.form import PLAIN, Form
from viewkeep.strategy.hidden_key import with_key
from viewkeep.strategy.partitioned import Partition, partition_of


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
    replaced: bool = False
    """Whether all rows are stored anew when something changes: replaced.py."""

    @property
    def dated(self) -> bool:
        return not self.replaced

    @property
    def found_by(self) -> tuple[str, ...]:
        """The columns by which a row is found that has changed."""
        return self.key or self.columns

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The key's columns in plans; none where there is no key."""
        by_name = dict(zip(self.columns, self.stored, strict=True))
        return tuple(by_name[c].id for c in self.key or ())


@dataclass(frozen=True, slots=True, eq=False)
class GroupLayout(Layout):
    """Groups with hidden state."""

    aggregate: Aggregate
    state: State

    @property
    def replaced(self) -> bool:
        return False

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
    core = core_of(query.root, form)
    if isinstance(core.node, Aggregate):
        return _groups(view, query, core.node, fresh, decimal_average, form.kept)
    return _rows(view, query, core, catalog, fresh, form)


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
    above = reproducible(_swap(query.root, top, Project(scan, (*keys, *state.finals))))
    return GroupLayout(view, query.names, fields, labels, contents, above, cuts(query.root, top), core, state)


def _rows(view: TableName, query: Query, stored: Core, catalog: Catalog, fresh: Fresh, form: Form) -> BagLayout:
    top = stored.node
    core, partition = partition_of(top)
    if partition is None:
        core = reproducible(core)
    keys = sorted(keys_of(core, catalog), key=lambda k: (len(k), sorted(k)))
    key = tuple(sorted(keys[0])) if keys else None
    if key is None and partition is None and form.keyed:
        core, key = with_key(core, catalog, fresh) or (core, None)
    contents, bound = core, None
    if partition is None and stored.cut is not None:
        contents, bound = bounded(view, core, stored.cut, fresh)
    # Stored under the names the user gave, where the core is the whole view; its sort columns otherwise.
    label = {f.id: _label(f.id, query) for f in core.fields}
    labels = tuple(label.values())
    scan = Scan(names.backing(view), tuple(zip(core.fields, labels, strict=True)))
    seen = scan if core.fields == top.fields else Project(scan, keep(top.fields))
    return BagLayout(
        view,
        query.names,
        core.fields,
        labels,
        contents,
        reproducible(_swap(query.root, top, seen)),
        cuts(query.root, top),
        None if key is None else tuple(label[i] for i in key),
        "no key of the result is known" if key is None else "every row is found by its key",
        partition,
        bound,
        # Where time alone can move rows it mostly moves none, and that has to be found out.
        form.replaced and partition is not None and not partition.scalars and not is_timed(core),
    )


def _stored_names(aggregate: Aggregate, state: State) -> tuple[str, ...]:
    """Names that depend on the query alone: they must fit the stored table for as long as the view lives."""
    keys = [f"key_{i}" for i, _ in enumerate(aggregate.keys, 1)]
    components = [f"{c.name}_{i}" for i, c in enumerate(state.components, 1)]
    return (*keys, names.ROWS, *components)


def _label(column_id: str, query: Query) -> str:
    for name, output in zip(query.names, query.root.fields, strict=True):
        if output.id == column_id:
            return name
    return column_id


def _swap(root: Node, core: Node, stand_in: Node) -> Node:
    if root is core:
        return stand_in
    assert isinstance(root, ABOVE)
    return replace(root, input=_swap(root.input, core, stand_in))


def _replace_scan(node: Node, stored: Node) -> Node:
    if isinstance(node, Scan):
        return stored
    assert isinstance(node, ABOVE)
    return replace(node, input=_replace_scan(node.input, stored))
