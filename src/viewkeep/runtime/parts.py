"""Views that are kept for the sake of another one: made before it, refreshed before it, dropped with it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace

from viewkeep.catalog import Kind, Table, TableName
from viewkeep.plan.nodes import Scan
from viewkeep.runtime.database import Database
from viewkeep.runtime.definitions import may_create, plan_view, to_drop
from viewkeep.runtime.records import ViewRecord
from viewkeep.runtime.reports import RefreshReport
from viewkeep.sql.statements import CreateView, DropView
from viewkeep.strategy.choose import MATERIALIZED
from viewkeep.strategy.materialized import Part, SubTree, part_scan, sub_tree_query, sub_trees


def create_view(db: Database, create: CreateView, dialect: str) -> None:
    """The view and its parts, or nothing at all."""
    if not may_create(db, create):
        return
    replaced, before = db.views.get(create.name.folded), frozenset(db.views)
    record, compiled = plan_view(db, create, dialect)
    wanted = create.options.get("strategy") == MATERIALIZED and compiled.query is not None
    trees = sub_trees(compiled.query.root, compiled.edges) if wanted and compiled.query else []
    if not trees and (replaced is None or not replaced.parts):
        db.create(record, compiled, replaced)
        db.reload_views()
        return
    try:
        with db.transaction():
            parts = [_make(db, create, tree) for tree in trees]
            tables = [_table(db, part) for part in parts]
            if parts:
                record, compiled = plan_view(db, create, dialect, parts, tables)
            db.create(record, compiled, replaced)
            db.reload_views()
            if replaced is not None:
                drop_parts(db, [v for v in parts_of(db, replaced) if v.name.folded in before])
    except BaseException:
        db.reload_views()
        drop_parts(db, [v for name, v in db.views.items() if name not in before and v.owner == create.name])
        raise


def drop_view(db: Database, drop: DropView) -> None:
    record = to_drop(db, drop)
    if record is None:
        return
    parts = parts_of(db, record)
    with db.transaction():
        db.drop(record)
        db.reload_views()
        drop_parts(db, parts)


def _make(db: Database, create: CreateView, tree: SubTree) -> Part:
    below = []
    for child, pairs in tree.below:
        if isinstance(child, SubTree):
            below.append((part_scan(_make(db, create, child).view, child.fields), pairs))
        else:
            assert isinstance(child, Scan)
            below.append((child, pairs))
    name, text = _free_name(db, create.name), sub_tree_query(tree.top, below).sql(dialect=db.dialect)
    options = {k: v for k, v in create.options.items() if k == "policy"}
    made = CreateView(name, text, {**options, "strategy": "foreign-key"})
    record, compiled = plan_view(db, made, db.dialect)
    db.create(replace(record, owner=create.name), compiled, None)
    db.reload_views()
    return tree.part(name)


def _free_name(db: Database, view: TableName) -> TableName:
    number = 1
    while (name := db.part_name(view, number)).folded in db.views or db.catalog().find(name) is not None:
        number += 1
    return name


def _table(db: Database, part: Part) -> Table:
    """With the keys that the view has: rows above it are found by them."""
    found = db.catalog().get(part.view)
    return Table(found.name, found.columns, Kind.MATERIALIZED, tuple(db.view_keys.keys(part.view)))


def parts_of(db: Database, record: ViewRecord) -> list[ViewRecord]:
    """In the order they were made, which is one in which each comes after those it reads."""
    return [v for v in db.views.values() if v.owner == record.name]


def drop_parts(db: Database, parts: Sequence[ViewRecord]) -> None:
    for part in reversed(parts):
        db.drop(part)
        db.reload_views()


def without_parts(db: Database, reports: Iterable[RefreshReport]) -> list[RefreshReport]:
    """Reports of what users know: what was spent on the parts of a view was spent on it."""
    found: dict[str, RefreshReport] = {}
    spent: dict[str, list[RefreshReport]] = {}
    owners = {str(v.name): str(v.owner) for v in db.views.values() if v.owner is not None}
    for report in reports:
        if report.view in owners:
            spent.setdefault(owners[report.view], []).append(report)
        else:
            found[report.view] = report
    return [_with(report, spent[view], owners.keys()) if view in spent else report for view, report in found.items()]


def _with(report: RefreshReport, parts: list[RefreshReport], hidden: Container[str]) -> RefreshReport:
    every = (report, *parts)
    return replace(
        report,
        versions={source: v for r in every for source, v in r.versions.items() if source not in hidden},
        seconds=sum(r.seconds for r in every),
        rows_read=sum(r.rows_read for r in every),
        bytes_read=sum(r.bytes_read for r in every),
        jobs=sum(r.jobs for r in every),
    )


def read_by(db: Database, record: ViewRecord) -> Iterator[TableName]:
    """What a view reads, its parts' tables in place of its parts."""
    for source in record.sources:
        view = db.views.get(source.folded)
        if view is not None and view.owner == (record.owner or record.name):
            yield from read_by(db, view)
        else:
            yield source
