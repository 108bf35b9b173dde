"""The Keeper: everything a user can ask of one open database. Thin; each answer has its own module."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, overload

import pyarrow as pa
from sqlglot import exp

from viewkeep.emit.program import strategy_of, whole_program
from viewkeep.errors import SqlError
from viewkeep.runtime.clock import Clock
from viewkeep.runtime.database import Database, Since
from viewkeep.runtime.definitions import guard, plan_view
from viewkeep.runtime.explain import draw_graph, explain_compiled
from viewkeep.runtime.keys import declare_foreign_key, declare_key
from viewkeep.runtime.parts import create_view, drop_view, parts_of
from viewkeep.runtime.pipeline import refresh_views
from viewkeep.runtime.records import ViewRecord
from viewkeep.runtime.reports import KeyCheck, RefreshReport, VerifyReport, ViewStatus
from viewkeep.runtime.status import view_status
from viewkeep.sql.parse import Statement, check_dialect, parse_one, split
from viewkeep.sql.references import named_in
from viewkeep.sql.rewording import to_dialect
from viewkeep.sql.statements import (
    CreateView,
    DeclareForeignKey,
    DropView,
    ExplainCreate,
    ExplainView,
    RefreshView,
    recognise,
)

_QUERIES = frozenset(
    ("SELECT", "WITH", "FROM", "VALUES", "SHOW", "DESCRIBE", "EXPLAIN", "PRAGMA", "SUMMARIZE", "TABLE", "(")
)
_WRITES = frozenset(["INSERT", "UPDATE", "DELETE", "MERGE"])
_SCHEMA = frozenset(["CREATE", "DROP", "ALTER", "ATTACH", "DETACH", "USE", "IMPORT", "ROLLBACK"])
_TRANSACTION = frozenset(["BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT"])


class Keeper:
    """Keeps the materialized views of one database fresh. Made by `viewkeep.connect`."""

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        self._db, self.engine, self.dialect = database, database.engine, database.dialect
        if clock is not None:
            database.clock = clock
        self._lock = threading.RLock()

    # ------------------------------------------------------------------ SQL
    def sql(self, text: str, dialect: str | None = None) -> Any:
        """Run statements: viewkeep's own and any of the engine's.

        The last one's result: a pyarrow.Table for a query, a report for REFRESH, text for EXPLAIN
        MATERIALIZED VIEW, what was found for a foreign key, None otherwise.
        `dialect`: what the text is written in, if not the engine's.
        """
        written, result = check_dialect(dialect or self.dialect), None
        with self._lock:
            for statement in split(text, written):
                result = self._statement(statement, written)
        return result

    def _statement(self, statement: Statement, dialect: str) -> Any:
        match recognise(statement, dialect):
            case CreateView() as create:
                create_view(self._db, create, dialect)
            case RefreshView() as refresh:
                return self.refresh(str(refresh.name), full=refresh.full)
            case DropView() as drop:
                drop_view(self._db, drop)
            case ExplainView() as explain:
                return self.explain(str(explain.name))
            case ExplainCreate() as explain:
                self._db.forget_schema()
                record, compiled = plan_view(self._db, explain.create, dialect)
                return explain_compiled(compiled, record.options, None)
            case DeclareForeignKey() as key:
                return self.declare_foreign_key(
                    str(key.child), key.columns, str(key.parent), key.parent_columns, key.trust
                )
            case None:
                return self._pass(statement, dialect)
        return None

    def query(self, text: str, dialect: str | None = None) -> pa.Table:
        """The rows of a query; views with refresh = 'on_read' are refreshed first."""
        written = check_dialect(dialect or self.dialect)
        found = list(split(text, written))
        if len(found) != 1:
            raise SqlError(f"query() takes one statement, not {len(found)}", hint="use sql() for a script")
        with self._lock:
            return self._read(found[0], written)

    def _pass(self, statement: Statement, dialect: str) -> pa.Table | None:
        """A statement for the engine."""
        first = statement.word(0)
        if first in _QUERIES and not (first == "WITH" and any(t.text.upper() in _WRITES for t in statement.tokens)):
            return self._read(statement, dialect)
        if first in ("DROP", "ALTER", "CREATE"):
            guard(self._db, statement, dialect)
        if first in _TRANSACTION:
            self._db.execute(statement, dialect)
        else:
            with self._eagerly():
                self._db.execute(statement, dialect)
        if first == "ROLLBACK":
            self._db.reload_views()
        elif first in _SCHEMA:
            self._db.forget_schema()
        return None

    def _read(self, statement: Statement, dialect: str) -> pa.Table:
        on_read = self._with_mode("on_read")
        if on_read and isinstance(parse_one(statement.text, dialect), exp.Query):
            named = named_in(statement.text, self._db.catalog(), dialect)
            if stale := [v.name for v in on_read if v.name.folded in named]:
                refresh_views(self._db, stale)
        return self._db.query(to_dialect(statement.text, dialect, self.dialect))

    @contextmanager
    def _eagerly(self) -> Iterator[None]:
        """A change and the refresh of every on_change view are one transaction."""
        if not (eager := self._with_mode("on_change")):
            yield
            return
        with self._db.transaction():
            yield
            refresh_views(self._db, [v.name for v in eager])

    def _with_mode(self, mode: str) -> list[ViewRecord]:
        return [v for v in self._db.views.values() if v.refresh == mode]

    # ------------------------------------------------------------------ refreshing
    @overload
    def refresh(self, view: str, full: bool = False) -> RefreshReport: ...
    @overload
    def refresh(self, view: None = None, full: bool = False) -> list[RefreshReport]: ...
    def refresh(self, view: str | None = None, full: bool = False) -> RefreshReport | list[RefreshReport]:
        """Refresh one view, after the views it reads, or all; a report, or a list of reports."""
        with self._lock:
            if view is None:
                return refresh_views(self._db, None, full)
            return refresh_views(self._db, [self._db.record(view).name], full)[-1]

    # ------------------------------------------------------------------ bulk changes
    def load(self, table: str, data: pa.Table) -> int:
        """Append an Arrow table; captured like any other change. How many rows."""
        with self._lock, self._eagerly():
            return self._db.load(self._db.base_table(table), data)

    def apply(self, table: str, changes: pa.Table) -> tuple[int, int]:
        """Apply weighted changes (column `_w`: +n inserts, −n deletes). How many rows came and went."""
        with self._lock, self._eagerly():
            return self._db.apply(self._db.base_table(table), changes)

    # ------------------------------------------------------------------ keys
    def declare_key(self, table: str, columns: Sequence[str]) -> None:
        """Say that no two rows share these columns. Relied on, checked by verify."""
        with self._lock:
            declare_key(self._db, table, columns)

    def declare_foreign_key(
        self,
        table: str,
        columns: Sequence[str],
        parent: str,
        parent_columns: Sequence[str] = (),
        trust: str = "checked",
    ) -> KeyCheck:
        """Say that each row points at one row of `parent`. Without columns: the parent's key.

        `trust`: 'checked' looks at the rows now and before each refresh; views are right whatever is found.
        'enforced' takes your word that somebody enforces it: nothing but the changes is looked at, and views
        are wrong if it does not hold (`verify` tells). A key that is declared again is trusted as said last.
        """
        with self._lock:
            return declare_foreign_key(self._db, table, columns, parent, parent_columns, trust)

    # ------------------------------------------------------------------ asking
    def explain(self, view: str, graph: str | None = None) -> str:
        """The plan, what is incremental and what is not, and what the last refresh chose and why.

        `graph`: only the foreign keys that its joins follow, as "text", "dot" (Graphviz) or "mermaid".
        """
        with self._lock:
            record = self._db.record(view)
            compiled, last = self._db.compiled(record), self._db.history(record)[-1]
            if graph:
                return draw_graph(compiled, last, graph)
            parts = [self._db.compiled(part) for part in parts_of(self._db, record)]
            return explain_compiled(compiled, record.options, last, parts)

    def compile(self, view: str, dialect: str | None = None, strategy: str | None = None) -> list[str]:
        """The whole maintenance program of a view as SQL statements.

        `strategy`: 'classical', or 'foreign-key' for a program that leaves out branches of joins wherever it
        finds, at each refresh, that foreign keys can be relied on. Without it, as the view was made.
        """
        with self._lock:
            record, catalog = self._db.record(view), self._db.catalog()
            compiled = self._db.compiled(record)
            tables = [catalog.get(s) for s in compiled.sources]
            wanted = strategy_of(compiled, strategy, record.strategy)
            return whole_program(compiled, tables, check_dialect(dialect or self.dialect), wanted)

    def verify(self, view: str) -> VerifyReport:
        """Compare a view with its query, as bags, in both directions, at the versions it has consumed."""
        with self._lock:
            return self._db.verify(self._db.record(view))

    def changes(self, view: str, since: Since = None) -> pa.Table:
        """What a view gained and lost after one of its versions, with a `_w` column.

        `since`: a version, or the report of a refresh; without it, all changes that are kept.
        """
        with self._lock:
            self._db.sync()
            return self._db.changes(self._db.record(view), since)

    def history(self, view: str) -> list[RefreshReport]:
        """All refreshes of a view, oldest first."""
        with self._lock:
            return self._db.history(self._db.record(view))

    def status(self) -> list[ViewStatus]:
        """One entry a view: options, version, how many source rows wait."""
        with self._lock:
            invalid = self._db.invalid_sources()
            return [view_status(self._db, v, invalid) for v in self._db.views.values() if v.owner is None]

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Keeper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
