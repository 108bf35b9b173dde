"""Creating and dropping views, and guarding the tables they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from viewkeep.catalog import Kind, Table, TableName
from viewkeep.errors import CatalogError, EngineError, NondeterministicError, PolicyError, SqlError, UnsupportedError
from viewkeep.incremental.foreign_keys import edges_of
from viewkeep.runtime.compiled import CompiledView, compile_view, opaque_view
from viewkeep.runtime.database import Database
from viewkeep.runtime.records import ViewRecord
from viewkeep.sql.parse import Statement, parse_one
from viewkeep.sql.references import asks_for_time, sources_of, tables_of
from viewkeep.sql.rewording import to_dialect
from viewkeep.sql.statements import CreateView, DropView, table_name
from viewkeep.strategy import names
from viewkeep.strategy.materialized import Part
from viewkeep.strategy.methods import recomputed


def plan_view(
    db: Database, create: CreateView, dialect: str, parts: Sequence[Part] = (), part_tables: Sequence[Table] = ()
) -> tuple[ViewRecord, CompiledView]:
    """Everything that can be known, and refused, before anything is made.

    `parts`: views that it reads in place of some of its tables; `part_tables`: the same as tables."""
    catalog = db.catalog()
    for table in part_tables:
        catalog = catalog.with_table(table)
    if not isinstance(tree := parse_one(create.query, dialect), exp.Query):
        raise SqlError(f"a view needs a query, not {tree.key.upper()}", hint="write SELECT …")
    db.refuse_unreadable(tree)
    reads = sources_of(create.query, catalog, dialect)
    named = (*tables_of(create.query, catalog, dialect), *part_tables)
    _check_names(create.name, named)
    text, reason = to_dialect(create.query.strip(), dialect, db.dialect), None
    # A bound has to be moved now and then, by a recompute: only 'auto' leaves that to us.
    form = db.form if create.options.get("policy", "auto") == "auto" else replace(db.form, bounded=False, ranked=False)
    try:
        # The user's own text is planned first, so that positions in errors are the user's.
        compile_view(create.name, create.query, catalog, dialect)
        output, types = _output(db, text)
        compiled = compile_view(create.name, text, catalog, db.dialect, output, parts, form)
        compiled.full_statements(db.dialect)  # what the dialect has no words for is known now
    except (UnsupportedError, SqlError) as error:
        reason = error.fact + (f" ({error.position})" if error.position else "")
        if isinstance(error, SqlError) and not _engine_accepts(db, text):
            raise  # it is wrong, and our words for it are better than the engine's
        if asks_for_time(create.query, catalog, dialect):
            raise NondeterministicError(
                f"the query asks for the current time, and has no plan by which that could be followed: {reason}",
                hint="compute the value outside and store it in a table",
            ) from error
        _refuse_recompute(create, reason)
        output, types = _output(db, text)
        compiled = opaque_view(create.name, text, output, reads, reason)
    if compiled.query is not None:
        compiled.edges = edges_of(compiled.core, db.view_keys.with_foreign_keys(named))
    _refuse_operators(create, compiled)
    for source in compiled.sources:
        if source.folded in db.views and not db.views[source.folded].keeps_changes:
            raise SqlError(
                f"view {str(source)!r} keeps no changes, so no view can be kept on top of it",
                hint="make it again with changes = 'keep'",
            )
    plain = {t.name.folded: t.definition or "" for t in named if t.kind is Kind.PLAIN_VIEW}
    record = ViewRecord(
        create.name,
        text,
        compiled.sources,
        dict(create.options),
        compiled.layout.output,
        reason,
        plain,
        named,
        types=types,
        parts=tuple(parts),
        zone=db.zone() if compiled.timed else None,
        form=form,
    )
    return record, compiled


def _check_names(view: TableName, named: Sequence[Table]) -> None:
    if any(t.name.folded == view.folded for t in named):
        raise SqlError(f"view {str(view)!r} cannot read itself")
    for name in (view, *(t.name for t in named)):
        if "." in name.name:
            raise SqlError(f"the name {name.name!r} has a dot in it, which viewkeep cannot keep", hint="rename it")


def _engine_accepts(db: Database, text: str) -> bool:
    """Whether the engine understands a query that viewkeep does not."""
    try:
        _output(db, text)
    except (EngineError, SqlError):
        return False
    return True


def _refuse_recompute(create: CreateView, reason: str) -> None:
    name = str(create.name)
    if create.options.get("policy") == "strict":
        raise PolicyError(
            f"view {name!r} has no incremental form: {reason}",
            hint="policy 'strict' refuses it; 'auto' and 'incremental' would recompute it at each refresh",
        )
    if create.options.get("strategy") == "classical":
        raise PolicyError(
            f"strategy 'classical' is not possible for {name!r}: {reason}",
            hint="leave the strategy to 'auto', which recomputes this view at each refresh",
        )


def _refuse_operators(create: CreateView, compiled: CompiledView) -> None:
    """With policy 'strict': an operator whose whole result is computed at each refresh."""
    if create.options.get("policy") != "strict" or compiled.query is None:
        return
    if reason := recomputed(compiled.query.root, compiled.layout):
        raise PolicyError(
            f"view {str(create.name)!r} has an operator that is computed anew at each refresh: {reason}",
            hint="policy 'strict' refuses it; 'auto' and 'incremental' allow it",
        )


def _output(db: Database, text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The column names (and types) the engine itself gives; asking it also checks types and functions."""
    found, types = db.output(text)
    seen: set[str] = set()
    for name in found:
        if name.lower() in seen:
            raise SqlError(f"two output columns are named {name!r}", hint="give one of them an alias with AS")
        if name.lower().startswith(names.RESERVED):
            raise SqlError(f"column name {name!r} is reserved for viewkeep", hint="give it an alias with AS")
        seen.add(name.lower())
    return found, types


def may_create(db: Database, create: CreateView) -> bool:
    """Whether a view is to be made: False if it is there already, and that is fine."""
    db.forget_schema()
    existing = db.catalog().find(create.name)
    if existing is not None:
        is_view = existing.kind is Kind.MATERIALIZED
        if is_view and create.if_not_exists:
            return False
        if not (is_view and create.replace):
            raise CatalogError(
                f"{existing.kind.value} {str(create.name)!r} exists already",
                hint="use CREATE OR REPLACE MATERIALIZED VIEW" if is_view else "choose another name",
            )
        _check_own(db, existing.name)
        _check_not_read(db, existing.name)
    return True


def to_drop(db: Database, drop: DropView) -> ViewRecord | None:
    """The view that is to be dropped, if it is there and nobody reads it."""
    if drop.name.folded not in db.views and drop.if_exists:
        return None
    record = db.record(drop.name)
    _check_own(db, record.name)
    _check_not_read(db, record.name)
    return record


def _check_own(db: Database, view: TableName) -> None:
    owner = db.views[view.folded].owner
    if owner is not None:
        raise CatalogError(
            f"view {str(view)!r} is kept for the sake of {str(owner)!r}", hint=f"DROP MATERIALIZED VIEW {owner}"
        )


def _check_not_read(db: Database, view: TableName) -> None:
    if above := db.readers(view):
        raise CatalogError(f"{_listed(above)} read {str(view)!r}", hint="drop them first; nothing was changed")


def guard(db: Database, statement: Statement, dialect: str) -> None:
    """Refuse a DROP, ALTER or CREATE OR REPLACE that would pull a table from under a view."""
    tree = parse_one(statement.text, dialect)
    if isinstance(tree, exp.Drop) and tree.kind in ("SCHEMA", "DATABASE"):
        nodes = tree.args.get("tables") or [tree.this]
        schemas = {(node.text("db") or node.name).lower() for node in nodes}
        tables = db.catalog().tables.values()
        targets = [t.name for t in tables if (t.name.schema or _default(db) or "").lower() in schemas]
    elif isinstance(tree, exp.Drop):
        targets = [table_name(t) for t in tree.args.get("tables") or [tree.this] if isinstance(t, exp.Table)]
    elif isinstance(tree, exp.Create) and tree.args.get("replace"):
        targets = [table_name(t)] if (t := tree.find(exp.Table)) else []
    elif isinstance(tree, exp.Alter) and isinstance(tree.this, exp.Table):
        targets = [table_name(tree.this)]
    else:
        return
    for target in targets:
        _check_unread(db, statement.word(0), target)


def _default(db: Database) -> str | None:
    return db.catalog().default_schema


def _check_unread(db: Database, verb: str, target: TableName) -> None:
    found = db.catalog().find(target)
    name = found.name if found else target
    if name.folded in db.views:
        raise CatalogError(f"{str(name)!r} is a materialized view", hint=f"use DROP MATERIALIZED VIEW {name}")
    if readers := db.readers(name):
        raise CatalogError(
            f"{verb} would break {_listed(readers)}, which read {str(name)!r}",
            hint="drop the views first; nothing was changed",
        )


def _listed(views: Sequence[ViewRecord]) -> str:
    found = dict.fromkeys(repr(str(v.owner or v.name)) for v in views)
    return ("view " if len(found) == 1 else "views ") + ", ".join(found)
