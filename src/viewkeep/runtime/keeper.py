"""The Keeper: one open database, its views, and everything a user can ask of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp

from viewkeep.catalog import Catalog, ForeignKey, Key, Kind, TableName
from viewkeep.emit.program import whole_program
from viewkeep.emit.setup import setup_sql, teardown_sql
from viewkeep.engine.protocol import Engine
from viewkeep.errors import CatalogError, PolicyError, RefreshError, SqlError, UnsupportedError, nearest
from viewkeep.runtime.batches import apply_batch, load_batch
from viewkeep.runtime.capture import Capture
from viewkeep.runtime.compiled import CompiledView, compile_view, opaque_view
from viewkeep.runtime.explain import explain_compiled
from viewkeep.runtime.refresh import KEPT_VERSIONS, Refresher, outgoing_sql
from viewkeep.runtime.reports import RefreshReport, VerifyReport, ViewStatus
from viewkeep.runtime.store import LOST, Store, ViewRecord
from viewkeep.runtime.verify import verify_view
from viewkeep.sql.parse import Statement, check_dialect, parse_one, split
from viewkeep.sql.references import plain_views_of, sources_of
from viewkeep.sql.statements import (
    CreateView,
    DeclareForeignKey,
    DropView,
    ExplainCreate,
    ExplainView,
    RefreshView,
    recognise,
    table_name,
)
from viewkeep.strategy import names

_QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "SHOW", "DESCRIBE", "EXPLAIN", "PRAGMA", "SUMMARIZE", "TABLE", "(")
_CHANGES_SCHEMA = ("CREATE", "DROP", "ALTER", "ATTACH", "DETACH", "USE", "IMPORT")


class Keeper:
    """Keeps the materialized views of one database fresh. Made by `viewkeep.connect`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.dialect = engine.facts.dialect
        self._lock = threading.RLock()
        self._store = Store(engine)
        self._store.open()
        self._capture = Capture(engine, self._store)
        self._refresher = Refresher(engine, self._store, self._capture, self._compiled)
        self._views = self._store.views()
        self._cache: dict[str, CompiledView] = {}
        self._known: Catalog | None = None

    # ------------------------------------------------------------------ SQL
    def sql(self, text: str, dialect: str | None = None) -> Any:
        """Run statements: viewkeep's own and any of the engine's.

        The last one's result: a pyarrow.Table for a query, reports for REFRESH, text for EXPLAIN
        MATERIALIZED VIEW, None otherwise. `dialect`: what the text is written in, if not the engine's.
        """
        written = check_dialect(dialect or self.dialect)
        result: Any = None
        with self._lock:
            for statement in split(text, written):
                own = recognise(statement, written)
                match own:
                    case CreateView():
                        result = self._create(own, written)
                    case RefreshView():
                        result = self._refresh([self._record(own.name)], full=own.full)[-1]
                    case DropView():
                        result = self._drop(own)
                    case ExplainView():
                        result = self.explain(str(own.name))
                    case ExplainCreate():
                        result = self._explain_create(own.create, written)
                    case DeclareForeignKey():
                        result = self.declare_foreign_key(
                            str(own.child), own.columns, str(own.parent), own.parent_columns or None
                        )
                    case None:
                        result = self._pass(statement, written)
        return result

    def query(self, text: str, dialect: str | None = None) -> pa.Table:
        """The rows of a query; views with refresh = 'on_read' are refreshed first."""
        found = list(split(text, check_dialect(dialect or self.dialect)))
        if len(found) != 1:
            raise SqlError(f"query() takes one statement, not {len(found)}", hint="use sql() for a script")
        with self._lock:
            return self._read(found[0], dialect or self.dialect)

    def _read(self, statement: Statement, dialect: str) -> pa.Table:
        if any(v.refresh == "on_read" for v in self._views.values()):
            self._refresh_read(statement.text, dialect)
        return self.engine.arrow(self._to_engine(statement.text, dialect))

    def _refresh_read(self, text: str, dialect: str) -> None:
        tree = parse_one(text, dialect)
        if not isinstance(tree, exp.Query):
            return
        named = (self._views.get(t.folded) for t in sources_of(text, self._catalog(), dialect))
        if stale := [v for v in named if v is not None and v.refresh == "on_read"]:
            self._refresh(stale)

    def _pass(self, statement: Statement, dialect: str) -> pa.Table | None:
        """A statement for the engine, guarded where it could pull a table from under a view."""
        first = statement.word(0)
        if first in _QUERIES and not (first == "WITH" and _writes(statement)):
            return self._read(statement, dialect)
        if first in ("DROP", "ALTER"):
            self._guard(statement, dialect)
        text = self._to_engine(statement.text, dialect)
        if any(v.refresh == "on_change" for v in self._views.values()) and first not in ("BEGIN", "COMMIT", "ROLLBACK"):
            with self._eager():
                self.engine.execute(text)
        else:
            self.engine.execute(text)
        if first in _CHANGES_SCHEMA:
            self._forget_schema()
        return None

    @contextmanager
    def _eager(self) -> Iterator[None]:
        """A change and the refresh of every on_change view are one transaction."""
        eager = [v for v in self._views.values() if v.refresh == "on_change"]
        with self.engine.transaction():
            yield
            if eager:
                self._refresh(eager)

    def _to_engine(self, text: str, dialect: str) -> str:
        if dialect == self.dialect:
            return text
        return sqlglot.transpile(text, read=dialect, write=self.dialect)[0]

    def _guard(self, statement: Statement, dialect: str) -> None:
        tree = parse_one(statement.text, dialect)
        if isinstance(tree, exp.Drop):
            targets = [table_name(t) for t in tree.args.get("tables") or [tree.this] if isinstance(t, exp.Table)]
        elif isinstance(tree, exp.Alter) and isinstance(tree.this, exp.Table):
            targets = [table_name(tree.this)]
        else:
            return
        for target in targets:
            if target.folded in self._views:
                raise CatalogError(
                    f"{str(target)!r} is a materialized view", hint=f"use DROP MATERIALIZED VIEW {target}"
                )
            if readers := self._readers(target):
                raise CatalogError(
                    f"{statement.word(0)} would break {_listed(readers)}, which read {str(target)!r}",
                    hint="drop the views first; nothing was changed",
                )

    def _readers(self, table: TableName) -> list[str]:
        return [
            str(v.name)
            for v in self._views.values()
            if any(s.folded == table.folded for s in v.sources) or table.folded in v.expanded
        ]

    # ------------------------------------------------------------------ the catalog
    def _catalog(self) -> Catalog:
        """Tables as viewkeep sees them: its own hidden ones left out, its views marked as such."""
        if self._known is None:
            catalog = self.engine.catalog()
            tables = []
            for table in catalog.tables.values():
                if table.name.schema == names.SCHEMA or table.name.name.startswith(names.RESERVED):
                    continue
                if table.name.folded in self._views:
                    table = type(table)(table.name, table.columns, Kind.MATERIALIZED)
                tables.append(table)
            known = Catalog.of(tables)
            for name, key in self._store.declared_keys():
                known = known.with_constraints(name, [key], []) if known.find(name) else known
            for name, foreign in self._store.declared_foreign_keys():
                known = known.with_constraints(name, [], [foreign]) if known.find(name) else known
            self._known = known
        return self._known

    def _forget_schema(self) -> None:
        self._known = None
        self._cache.clear()

    def _record(self, name: TableName | str) -> ViewRecord:
        wanted = TableName.parse(name) if isinstance(name, str) else name
        if wanted.folded not in self._views:
            raise CatalogError(
                f"there is no materialized view {str(wanted)!r}",
                hint=nearest(str(wanted), (str(v.name) for v in self._views.values()))
                or f"views: {', '.join(str(v.name) for v in self._views.values()) or 'none'}",
            )
        return self._views[wanted.folded]

    def _compiled(self, record: ViewRecord) -> CompiledView:
        if record.name.folded not in self._cache:
            catalog = self._catalog()
            for name, text in record.expanded.items():
                if (now := catalog.find(TableName.parse(name))) is None or now.definition != text:
                    raise RefreshError(
                        f"view {str(record.name)!r} reads {name!r}, whose definition changed",
                        hint=f"create {str(record.name)!r} again with CREATE OR REPLACE MATERIALIZED VIEW",
                    )
            if record.not_incremental is not None:
                found = opaque_view(record.name, record.query, record.output, record.sources, record.not_incremental)
            else:
                found = compile_view(record.name, record.query, catalog, self.dialect, record.output)
            self._cache[record.name.folded] = found
        return self._cache[record.name.folded]

    # ------------------------------------------------------------------ creating and dropping
    def _plan(self, create: CreateView, dialect: str) -> tuple[ViewRecord, CompiledView]:
        """Everything that can be known, and refused, before anything is made."""
        text, catalog = self._to_engine(create.query, dialect), self._catalog()
        reads, expanded = (f(create.query, catalog, dialect) for f in (sources_of, plain_views_of))
        if create.name.folded in expanded or any(s.folded == create.name.folded for s in reads):
            raise SqlError(f"view {str(create.name)!r} cannot read itself")
        policy, reason = create.options.get("policy", "auto"), None
        try:
            # The user's own text is planned, so that positions in errors are the user's.
            compiled = compile_view(create.name, create.query, catalog, dialect)
            output = self._output_names(text) if dialect == self.dialect else compiled.layout.output
            compiled = compile_view(create.name, text, catalog, self.dialect, output)
        except UnsupportedError as error:
            reason = error.fact + (f" ({error.position})" if error.position else "")
            if policy == "strict":
                raise PolicyError(
                    f"view {str(create.name)!r} has no incremental form: {reason}",
                    hint="policy 'strict' refuses it; policy 'auto' or 'incremental' would recompute it at each refresh",
                ) from error
            compiled = opaque_view(create.name, text, self._output_names(text), reads, reason)
        if create.options.get("strategy") == "classical" and reason:
            raise PolicyError(f"strategy 'classical' is not possible for {str(create.name)!r}: {reason}")
        record = ViewRecord(
            create.name,
            text,
            compiled.sources,
            dict(create.options),
            compiled.layout.output,
            reason,
            expanded,
        )
        return record, compiled

    def _output_names(self, text: str) -> tuple[str, ...]:
        """The column names the engine itself gives; it also checks types and functions."""
        found = tuple(row[0] for row in self.engine.execute(f"DESCRIBE {text}"))
        if len({n.lower() for n in found}) != len(found):
            raise SqlError("two output columns have the same name", hint="give one of them an alias with AS")
        return found

    def _create(self, create: CreateView, dialect: str) -> None:
        self._forget_schema()
        existing = self._catalog().find(create.name)
        if existing is not None:
            is_view = existing.kind is Kind.MATERIALIZED
            if is_view and create.if_not_exists:
                return
            if not (is_view and create.replace):
                raise CatalogError(
                    f"{existing.kind.value} {str(create.name)!r} exists already",
                    hint="use CREATE OR REPLACE MATERIALIZED VIEW" if is_view else "choose another name",
                )
        record, compiled = self._plan(create, dialect)
        with self.engine.transaction():
            if existing is not None:
                self._drop(DropView(create.name), replacing=True)
            version = self._store.tick()
            self._seal(compiled.sources, version)
            for source in compiled.sources:
                table = self._catalog().get(source)
                if table.kind is Kind.BASE and source.folded not in self._store.sources():
                    self._capture.start(table)
            for statement in setup_sql(compiled.layout, self.dialect, None if compiled.query else record.query):
                self.engine.execute(statement)
            self._store.put_view(replace(record, created=version))
            self._store.set_positions(record.name, {s.folded: version for s in compiled.sources})
            self._store.add_history(
                RefreshReport(
                    str(record.name),
                    "recompute",
                    "created",
                    rows_inserted=self._capture.count(names.backing(record.name)),
                    versions={str(s): version for s in compiled.sources},
                    version=version,
                )
            )
        self._views = self._store.views()
        self._forget_schema()

    def _seal(self, sources: Sequence[TableName], version: int) -> None:
        """Seal what other views of the same tables still wait for: a view made now contains it already."""
        known = self._store.sources()
        for source in sources:
            if source.folded in known:
                pending = self._capture.pending(source)
                if pending.rows != known[source.folded].row_count + pending.inserted - pending.deleted:
                    self._store.lose(source)
                self._capture.seal(source, version)
                self._store.count_source(source, pending.rows, version)

    def _drop(self, drop: DropView, replacing: bool = False) -> None:
        if drop.name.folded not in self._views and drop.if_exists:
            return
        record = self._record(drop.name)
        above = [str(v.name) for v in self._views.values() if any(s.folded == record.name.folded for s in v.sources)]
        if above:
            raise CatalogError(
                f"{_listed(above)} read {str(record.name)!r}", hint="drop them first; nothing was changed"
            )
        with self.engine.transaction():
            for statement in teardown_sql(record.name, self.dialect):
                self.engine.execute(statement)
            self._store.drop_view(record.name)
            remaining = [v for k, v in self._views.items() if k != record.name.folded]
            known, there = self._store.sources(), self._catalog()
            for source in record.sources:
                if source.folded in known and not any(s.folded == source.folded for v in remaining for s in v.sources):
                    self._capture.stop(source, exists=there.find(source) is not None)
        if not replacing:
            self._views = self._store.views()
            self._forget_schema()

    # ------------------------------------------------------------------ refreshing
    def refresh(self, view: str | None = None, full: bool = False) -> Any:
        """Refresh one view (and the views it reads), or all; a report, or a list of reports."""
        with self._lock:
            if view is None:
                return self._refresh(list(self._views.values()), full=full)
            return self._refresh([self._record(view)], full=full)[-1]

    def _refresh(self, wanted: list[ViewRecord], full: bool = False) -> list[RefreshReport]:
        order: dict[str, ViewRecord] = {}
        for record in wanted:
            self._collect(record, order)
        only_invalid = len(wanted) == 1
        invalid = self._repair()
        skipped: list[RefreshReport] = []
        for folded, record in list(order.items()):
            reason = next((invalid[s.folded] for s in record.sources if s.folded in invalid), None)
            if reason is None:
                continue
            if only_invalid:
                raise RefreshError(
                    f"view {str(record.name)!r} is invalid: {reason}",
                    hint=f"it still shows its last refresh; drop it with DROP MATERIALIZED VIEW {record.name}",
                )
            invalid[folded] = f"view {str(record.name)!r} is invalid: {reason}"
            skipped.append(RefreshReport(str(record.name), "invalid", reason))
            del order[folded]
        recomputed = frozenset(r.name.folded for r in wanted) if full else frozenset[str]()
        return [*skipped, *self._refresher.run(list(order.values()), self._views, recomputed)]

    def _collect(self, record: ViewRecord, order: dict[str, ViewRecord]) -> None:
        """Parents first: a view is refreshed from what its parents have become."""
        for source in record.sources:
            if source.folded in self._views:
                self._collect(self._views[source.folded], order)
        order.setdefault(record.name.folded, record)

    def _repair(self) -> dict[str, str]:
        """Tables that lost their capture: captured again if they fit, else named with the reason."""
        if not (uncaptured := self._capture.uncaptured()):
            return {}
        self._forget_schema()
        invalid: dict[str, str] = {}
        for folded in uncaptured:
            record = self._store.sources()[folded]
            if reason := self._capture.broken(record, self._catalog()):
                invalid[folded] = reason
                continue
            with self.engine.transaction():
                self._capture.stop(record.name)
                self._capture.start(self._catalog().get(record.name))
                self._store.lose(record.name)
        return invalid

    # ------------------------------------------------------------------ bulk changes
    def load(self, table: str, data: pa.Table) -> int:
        """Append an Arrow table; captured like any other change. How many rows."""
        with self._lock, self._eager():
            return load_batch(self.engine, self._base_table(table), data)

    def apply(self, table: str, changes: pa.Table) -> tuple[int, int]:
        """Apply weighted changes (column `_w`: +n inserts, −n deletes). How many rows came and went."""
        with self._lock, self._eager():
            return apply_batch(self.engine, self._base_table(table), changes)

    def _base_table(self, name: str) -> Any:
        table = self._catalog().get(TableName.parse(name))
        if table.kind not in (Kind.BASE, Kind.TEMPORARY):
            raise CatalogError(f"{table.kind.value} {name!r} cannot be changed directly", hint="change the tables it reads")
        return table

    # ------------------------------------------------------------------ keys
    def declare_key(self, table: str, columns: Sequence[str]) -> None:
        """Say that no two rows share these columns. Relied on, checked by verify."""
        with self._lock:
            found = self._base_table(table)
            key = Key(tuple(found.column(c).name for c in columns), enforced=False)
            self._store.declare_key(found.name, key)
            self._forget_schema()

    def declare_foreign_key(
        self, table: str, columns: Sequence[str], parent: str, parent_columns: Sequence[str] | None = None
    ) -> None:
        """Say that each row points at one row of `parent`. Without columns: the parent's key."""
        with self._lock:
            child, target = self._base_table(table), self._base_table(parent)
            if not parent_columns:
                if not target.keys:
                    raise CatalogError(f"table {parent!r} has no key to refer to", hint="name the columns, or declare a key")
                parent_columns = target.keys[0].columns
            if len(parent_columns) != len(columns):
                raise CatalogError(f"{len(columns)} columns cannot refer to {len(parent_columns)}")
            key = ForeignKey(
                tuple(child.column(c).name for c in columns),
                target.name,
                tuple(target.column(c).name for c in parent_columns),
                enforced=False,
            )
            self._store.declare_foreign_key(child.name, key)
            self._forget_schema()

    # ------------------------------------------------------------------ asking
    def explain(self, view: str) -> str:
        """The plan, what is incremental and what is not, and what the last refresh chose and why."""
        with self._lock:
            record = self._record(view)
            history = self._store.history(record.name)
            return explain_compiled(self._compiled(record), record.options, history[-1] if history else None)

    def _explain_create(self, create: CreateView, dialect: str) -> str:
        self._forget_schema()
        record, compiled = self._plan(create, dialect)
        return explain_compiled(compiled, record.options, None)

    def compile(self, view: str, dialect: str | None = None) -> list[str]:
        """The whole maintenance program of a view as SQL statements."""
        with self._lock:
            record = self._record(view)
            compiled, catalog = self._compiled(record), self._catalog()
            tables = [catalog.get(s) for s in compiled.sources]
            return whole_program(compiled, tables, check_dialect(dialect or self.dialect))

    def verify(self, view: str) -> VerifyReport:
        """Compare a view with its query, as bags, in both directions; changes not yet refreshed are left out."""
        with self._lock:
            record = self._record(view)
            compiled = self._compiled(record)
            parents = {s.folded: self._compiled(self._views[s.folded]) for s in record.sources if s.folded in self._views}
            return verify_view(self.engine, self._store, self._capture, record, compiled, self._catalog(), parents)

    def changes(self, view: str, since: int | RefreshReport | Mapping[str, int] | None = None) -> pa.Table:
        """What a view gained and lost after one of its versions, with a `_w` column.

        `since`: a version, or the report of a refresh; without it, all changes that are kept.
        """
        with self._lock:
            record = self._record(view)
            history = self._store.history(record.name)
            oldest = max(record.created, history[-1].version - KEPT_VERSIONS)
            version = _version_of(since, history, oldest)
            if version < oldest:
                raise RefreshError(
                    f"changes of {view!r} are kept from version {oldest} on, not from {version}",
                    hint=f"read the view whole, then ask for changes since version {history[-1].version}",
                )
            if version > history[-1].version:
                raise RefreshError(f"{view!r} has no version {version}; it is at {history[-1].version}")
            found = self.engine.arrow(outgoing_sql(self._compiled(record), version, self.dialect))
            return found.rename_columns(["_w", *found.column_names[1:]])

    def history(self, view: str) -> list[RefreshReport]:
        """All refreshes of a view, oldest first."""
        with self._lock:
            return self._store.history(self._record(view).name)

    def status(self) -> list[ViewStatus]:
        """One entry a view: options, version, how many source rows wait."""
        with self._lock:
            invalid, positions = self._repair(), self._store.positions()
            return [self._status(v, invalid, positions.get(k, {})) for k, v in self._views.items()]

    def _status(self, record: ViewRecord, invalid: dict[str, str], positions: dict[str, int]) -> ViewStatus:
        known, waiting = self._store.sources(), 0
        reason = next((invalid[s.folded] for s in record.sources if s.folded in invalid), None)
        for source in record.sources:
            if source.folded in known and source.folded not in invalid:
                pending = self._capture.pending(source)
                sealed = self._capture.sealed_counts(source, positions.get(source.folded, LOST))
                waiting += pending.inserted + pending.deleted + sum(sealed)
        return ViewStatus(
            str(record.name),
            record.policy,
            record.refresh,
            record.strategy,
            max(positions.values(), default=0),
            waiting,
            "yes" if record.not_incremental is None else f"no: {record.not_incremental}",
            reason,
            tuple(str(s) for s in record.sources),
        )

    def close(self) -> None:
        self.engine.close()

    def __enter__(self) -> Keeper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _version_of(since: int | RefreshReport | Mapping[str, int] | None, history: list[RefreshReport], oldest: int) -> int:
    match since:
        case None:
            return oldest
        case int():
            return since
        case RefreshReport():
            return since.version
        case _:
            for entry in reversed(history):
                if entry.versions == dict(since):
                    return entry.version
            raise RefreshError("no refresh of the view has these source versions", hint="see history(view)")


def _listed(views: Sequence[str]) -> str:
    return ("view " if len(views) == 1 else "views ") + ", ".join(repr(v) for v in views)


def _writes(statement: Statement) -> bool:
    return any(t.text.upper() in ("INSERT", "UPDATE", "DELETE", "MERGE") for t in statement.tokens)

