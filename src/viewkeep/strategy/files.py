"""Programs of a view that is stored as a set of files: read some of them, write others in their place.

    rows that stay   = TOUCHED ⊳ CHANGE          (of the files that may hold an affected row)
    rows in their place = TOUCHED ⋉ CHANGE and CHANGE, combined as the layout says

The driver is told which rows leave, by file and row, and copies the others without looking at them.

TOUCHED and CHANGE are relations that the runtime binds: the stored rows of the files it chose, and
the change, computed once. Old versions stay readable, so nothing has to be logged beside: what a
view gained and lost is the difference of the files of two of its versions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from viewkeep.catalog import TableName
from viewkeep.incremental.delta import delta
from viewkeep.incremental.netting import net_units
from viewkeep.incremental.weighted import Context, Weighted, add, consolidate, keep, negate, to_units
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
    Repeat,
    Scan,
    State,
    Union,
    Window,
    count_uses,
)
from viewkeep.plan.scalars import column, conjoin, integer, null_safe_equal
from viewkeep.strategy import names
from viewkeep.strategy.fetched import fetch_groups, fetch_rows
from viewkeep.strategy.grouped import Combination, additive_delta
from viewkeep.strategy.layout import BagLayout, GroupLayout
from viewkeep.strategy.partitioned import partition_change
from viewkeep.strategy.simplify import simplify

TOUCHED = TableName("_vk_touched")
CHANGE = TableName("_vk_change")
WAS, MOVED = "_vk_was", "_vk_moved"
FILE, ROW = Field("_vk_file", "BIGINT"), Field("_vk_row", "BIGINT")
"""Where a row of TOUCHED is: the number of its file, and its own in there, from 0."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One refresh of a view that is stored as files."""

    rows: Node | None
    """What comes into the touched files in place of what goes; without a change, rows that are all new. None of both:
    nothing to do."""
    stay: Node | None = None
    """Rows of the touched files that the change is not about."""
    copies: Node | None = None
    """Where rows are told by their values: copies of those that go that are left."""
    leave: Node | None = None
    """The rows that neither of both has, by FILE and ROW."""
    change: Node | None = None
    """Computed first, then read as CHANGE under `columns`."""
    columns: tuple[str, ...] = ()
    match: tuple[tuple[str, str], ...] = ()
    """Stored columns and the columns of the change they are found by; empty: every stored row is touched."""
    recorded: bool = False
    """Whether the change is the view's own, as weighted stored rows."""
    counted: bool = False
    """Whether the rows also say which groups were there (WAS) and which have changed (MOVED), empty ones included."""
    before: str | None = None
    """The column of the change that is NULL for a group that was not there."""
    hit: str | None = None
    """The column of the change that says which groups must be computed from the tables."""
    anew: Node | None = None
    """Those groups."""
    fetch: Node | None = None
    """Where the change is few rows: what Spark computes of it."""
    in_driver: Rewrite | None = None
    """The same refresh, over FETCHED. It has no way to compute a group from the tables."""

    @property
    def after(self) -> Node | None:
        """All that the touched files hold afterwards."""
        return _together(self.stay, self.copies, self.rows)


def refresh_files(layout: BagLayout | GroupLayout, context: Context, append_only: bool) -> Rewrite:
    """`append_only`: no source lost a row and the plan cannot turn an insert into a delete."""
    if isinstance(layout, BagLayout) and layout.partition is not None:
        change = partition_change(layout.contents, layout.partition, layout.scan(), context)
    else:
        change = delta(layout.aggregate.input if isinstance(layout, GroupLayout) else layout.contents, context)
    if change is None:
        return Rewrite(None)
    if isinstance(layout, GroupLayout):
        found = _add_state(layout, change, context) if layout.state.additive else _combine(layout, change, context)
    else:
        found = _append(layout, change, context) if append_only else _replace_rows(layout, change, context)
    return _simplified(_with_fetch(layout, found, change, context))


def _with_fetch(layout: BagLayout | GroupLayout, found: Rewrite, change: Weighted, context: Context) -> Rewrite:
    if found.change is None or (isinstance(layout, BagLayout) and layout.partition is not None):
        return found
    if isinstance(layout, BagLayout):
        fetch, read = fetch_rows(layout, change)
        return replace(found, fetch=fetch, in_driver=_replace_rows(layout, read, context))
    if (fetched := fetch_groups(layout, change, context.fresh)) is None:
        return found
    fetch, read, over = fetched
    way = _add_state if layout.state.additive else partial(_combine, tables=False)
    return replace(found, fetch=fetch, in_driver=way(over, read, context))


def _simplified(found: Rewrite) -> Rewrite:
    def simple(node: Node | None) -> Node | None:
        return None if node is None else simplify(node)

    return replace(
        found,
        rows=simple(found.rows),
        stay=simple(found.stay),
        copies=simple(found.copies),
        leave=simple(found.leave),
        change=simple(found.change),
        anew=simple(found.anew),
        fetch=simple(found.fetch),
        in_driver=None if found.in_driver is None else _simplified(found.in_driver),
    )


# ---------------------------------------------------------------------- rows
def _append(layout: BagLayout, change: Weighted, context: Context) -> Rewrite:
    """Nothing leaves the view. With one delta there is nothing to cancel either."""
    deltas = count_uses(change.node, lambda n: isinstance(n, Scan) and n.state is State.DELTA)
    rows = change if deltas == 1 else to_units(change, context.fresh)
    return Rewrite(Project(rows.node, keep(layout.stored)))


def _replace_rows(layout: BagLayout, change: Weighted, context: Context) -> Rewrite:
    units, fresh = net_units(change, layout.key_ids, context.fresh), context.fresh
    weight = Field(names.WEIGHT, "INTEGER")
    staged = Project(units.node, (Named(weight, units.weight_scalar), *keep(layout.stored)))
    return Rewrite(
        rows_that_come(layout),
        _rows_that_stay(layout, fresh),
        _copies_left(layout, fresh),
        rows_that_leave(layout, fresh),
        staged,
        (names.WEIGHT, *layout.columns),
        tuple((c, c) for c in layout.found_by),
        recorded=True,
    )


def rows_after(layout: BagLayout, fresh: Fresh) -> Node:
    """TOUCHED with the weighted rows of CHANGE applied: one copy goes for each deleted row, others stay."""
    found = _together(_rows_that_stay(layout, fresh), _copies_left(layout, fresh), rows_that_come(layout))
    assert found is not None
    return found


def _together(*parts: Node | None) -> Node | None:
    there = [part for part in parts if part is not None]
    return Union(tuple(there), there[0].fields) if len(there) > 1 else there[0] if there else None


def _rows_that_stay(layout: BagLayout, fresh: Fresh) -> Node:
    return _of_touched(layout, layout.found_by, JoinKind.ANTI, fresh)


def rows_that_come(layout: BagLayout) -> Node:
    return Project(_signed(layout, exp.GT), keep(layout.stored))


def rows_that_leave(layout: BagLayout, fresh: Fresh) -> Node:
    """Which of TOUCHED: of equal rows as many as go, if there are that many. The caller counts them."""
    touched = _located(layout)
    if layout.key:
        gone = _gone(layout, layout.key, fresh)
        return _which(_on_keys(touched, _fields(layout, layout.key), gone, JoinKind.SEMI))
    gone = _gone(layout, layout.columns, fresh)
    count, copy = Field(fresh("n"), "BIGINT"), Field(fresh("copy"), "BIGINT")
    counted = Aggregate(gone, keep(gone.fields), (Named(count, exp.Count(this=exp.Star())),))
    met = _on_keys(touched, layout.stored, counted, JoinKind.INNER)
    values = tuple(column(f.id) for f in layout.stored)
    place = exp.Order(expressions=[exp.Ordered(this=column(f.id)) for f in (FILE, ROW)])
    number = exp.Window(this=exp.RowNumber(), partition_by=[v.copy() for v in values], order=place)
    numbered = Window(met, values, (Named(copy, number),))
    return _which(Filter(numbered, exp.LTE(this=column(copy.id), expression=column(count.id))))


def _located(layout: BagLayout | GroupLayout) -> Scan:
    """TOUCHED, with where each row is."""
    scan = layout.scan(TOUCHED)
    return replace(scan, columns=(*scan.columns, (FILE, FILE.id), (ROW, ROW.id)))


def _which(rows: Node) -> Node:
    return Project(rows, keep((FILE, ROW)))


def _copies_left(layout: BagLayout, fresh: Fresh) -> Node | None:
    if layout.key:
        return None
    gone = negate(Weighted(Project(_signed(layout, exp.LT), keep(layout.stored))), fresh)
    met = Weighted(_of_touched(layout, layout.columns, JoinKind.SEMI, fresh))
    left = consolidate(add([met, gone], layout.stored, fresh), fresh)
    assert left.weight is not None
    # Below zero: a row that should go and was not there. It is missing from what the caller counts.
    return Repeat(Filter(left.node, exp.GT(this=column(left.weight), expression=integer(0))), left.weight)


def _signed(layout: BagLayout, compare: type[exp.Expr]) -> Node:
    """The changed rows of one sign."""
    weight = (Field(names.WEIGHT, "INTEGER"), names.WEIGHT)
    changed = Scan(CHANGE, (weight, *zip(layout.stored, layout.columns, strict=True)))
    return Filter(changed, compare(this=column(names.WEIGHT), expression=integer(0)))


def _of_touched(layout: BagLayout, match: tuple[str, ...], kind: JoinKind, fresh: Fresh) -> Node:
    """Touched rows that match, or do not match, a row that goes."""
    return _on_keys(layout.scan(TOUCHED), _fields(layout, match), _gone(layout, match, fresh), kind)


def _gone(layout: BagLayout, columns: tuple[str, ...], fresh: Fresh) -> Node:
    """Some columns of the rows that go."""
    renamed = (Named(Field(fresh("k"), f.type), column(f.id)) for f in _fields(layout, columns))
    return Project(_signed(layout, exp.LT), tuple(renamed))


def _fields(layout: BagLayout, columns: tuple[str, ...]) -> tuple[Field, ...]:
    """What stored columns are in plans."""
    by_name = dict(zip(layout.columns, layout.stored, strict=True))
    return tuple(by_name[c] for c in columns)


def _on_keys(touched: Node, keys: tuple[Field, ...], changed: Node, kind: JoinKind) -> Node:
    """Touched rows whose key is, or is not, among the changed keys, which come first in `changed`."""
    pairs = zip(keys, changed.fields[: len(keys)], strict=True)
    return Join(touched, changed, conjoin(null_safe_equal(column(f.id), column(n.id)) for f, n in pairs), kind)


# ---------------------------------------------------------------------- groups
def _add_state(layout: GroupLayout, change: Weighted, context: Context) -> Rewrite:
    """γ(TOUCHED + D): stored state and its changes, summed by group."""
    keys, counters, fresh = layout.key_fields, layout.counters, context.fresh
    columns = tuple(zip(layout.stored, layout.columns, strict=True))
    was, moved = Field(WAS, "INTEGER"), Field(MOVED, "INTEGER")

    def marked(table: TableName, suffix: str, there: int, new: int) -> Node:
        scan = Scan(table, tuple((Field(f.id + suffix, f.type), c) for f, c in columns))
        marks = (Named(Field(fresh(n), "INTEGER"), integer(v)) for n, v in (("was", there), ("moved", new)))
        return Project(scan, (*keep(scan.fields), *marks))

    both = Union((marked(TOUCHED, "", 1, 0), marked(CHANGE, "_c", 0, 1)), (*layout.stored, was, moved))
    totals = tuple(Named(Field(fresh("t"), f.type), exp.Sum(this=column(f.id))) for f in counters)
    marks = tuple(Named(Field(fresh("m"), f.type), exp.Max(this=column(f.id))) for f in (was, moved))
    summed = Aggregate(both, keep(keys), (*totals, *marks))
    found = zip((*counters, was, moved), (*totals, *marks), strict=True)
    rows = Project(summed, (*keep(keys), *(Named(f, column(t.field.id)) for f, t in found)))
    return Rewrite(
        rows,
        change=additive_delta(layout, change, fresh),
        columns=layout.columns,
        match=tuple((k, k) for k in layout.keys),
        counted=True,
    )


def _combine(layout: GroupLayout, change: Weighted, context: Context, tables: bool = True) -> Rewrite:
    """Affected groups go; what becomes of them comes, derived from the change or, where the `tables` can be read,
    computed from their rows."""
    groups = Combination(layout, change, context, CHANGE)
    stay: Node | None = None
    leave: Node | None = None
    match: tuple[tuple[str, str], ...] = ()
    if layout.keys:
        keys, affected = layout.key_fields, groups.keys_only(suffix=True)
        match = tuple(zip(layout.keys, (f.id for f in keys), strict=True))
        stay = _on_keys(layout.scan(TOUCHED), keys, affected, JoinKind.ANTI)
        leave = _which(_on_keys(_located(layout), keys, affected, JoinKind.SEMI))
    columns = tuple(f.id for f in groups.node.fields)
    anew = groups.from_rows() if tables else None
    before = groups.rows_before.id
    return Rewrite(
        groups.derived(), stay, None, leave, groups.node, columns, match, before=before, hit=groups.HIT, anew=anew
    )
