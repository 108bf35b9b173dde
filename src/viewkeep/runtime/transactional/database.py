"""A database with transactions, behind an engine: captured by triggers, its books in tables beside the user's."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime

import pyarrow as pa

from viewkeep.catalog import Catalog, ForeignKey, Key, Kind, Table, TableName
from viewkeep.emit.setup import drop_temporary, setup_sql, teardown_sql
from viewkeep.engine.protocol import Engine
from viewkeep.plan.clock import NOW
from viewkeep.runtime.clock import from_micros, time_literal, to_micros
from viewkeep.runtime.compiled import CompiledView
from viewkeep.runtime.database import Database, Since
from viewkeep.runtime.records import ViewRecord
from viewkeep.runtime.reports import RefreshReport, VerifyReport
from viewkeep.runtime.transactional.batches import apply_batch, load_batch
from viewkeep.runtime.transactional.capture import Capture
from viewkeep.runtime.transactional.changes import changes_since
from viewkeep.runtime.transactional.refresh import Refresher
from viewkeep.runtime.transactional.store import LOST, Store
from viewkeep.runtime.transactional.verify import verify_view
from viewkeep.runtime.transactional.view_log import versions_aside
from viewkeep.sql.parse import Statement
from viewkeep.sql.rewording import to_dialect
from viewkeep.strategy import names
from viewkeep.strategy.form import EMBEDDED

_UTC = ("Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu", "UCT", "Universal", "Zulu")
"""Other names of UTC: which one a machine has by default says nothing."""


class TransactionalDatabase(Database):
    engine: Engine

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.form = EMBEDDED
        self.engine, self.dialect, self.time_travel = engine, engine.facts.dialect, engine.facts.time_travel
        self.store = Store(engine)
        self.store.open()
        self.capture = Capture(engine, self.store)
        self.views: dict[str, ViewRecord] = self.store.views()
        self.capture_doubtful = True
        """Whether some captured table may have lost its triggers: they are then looked at one by one."""

    # ------------------------------------------------------------------ what there is
    def read_catalog(self) -> Catalog:
        catalog = self.engine.catalog()
        for name, key in self.store.declared_keys():
            catalog = catalog.with_constraints(name, [key], []) if catalog.find(name) else catalog
        for name, foreign in self.store.declared_foreign_keys():
            table = catalog.find(name)
            if table is not None and not any(known.same_as(foreign) for known in table.foreign_keys):
                catalog = catalog.with_constraints(name, [], [foreign])
        return catalog

    def read_views(self) -> dict[str, ViewRecord]:
        return self.store.books().views

    def reload_views(self) -> None:
        self.store.remember(None)
        super().reload_views()

    # ------------------------------------------------------------------ SQL of the user
    def output(self, text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return tuple(row[0] for row in self.engine.execute(f"DESCRIBE {text}")), ()

    def query(self, text: str) -> pa.Table:
        return self.engine.arrow(text)

    def execute(self, statement: Statement, dialect: str) -> None:
        self.engine.execute(to_dialect(statement.text, dialect, self.dialect))

    def zone(self) -> str:
        found = str(self.engine.execute("SELECT current_setting('TimeZone')")[0][0])
        return "UTC" if found in _UTC else found

    def transaction(self) -> AbstractContextManager[bool]:
        return self.engine.transaction()

    # ------------------------------------------------------------------ views
    def create(self, record: ViewRecord, compiled: CompiledView, replaced: ViewRecord | None) -> None:
        began = time.perf_counter()
        with self.engine.transaction():
            if replaced is not None:
                self._remove(replaced)
            version = self.store.tick()
            self._seal(compiled.sources, version)
            for source in compiled.sources:
                table = self.catalog().get(source)
                if table.kind is Kind.BASE:
                    self._capture(table)
            text, now = None if compiled.query else record.query, self.clock()
            for statement in setup_sql(compiled.layout, self.dialect, text, {NOW: time_literal(now)}):
                self.engine.execute(statement)
            if compiled.timed:
                self.store.put_time(record.name.folded, to_micros(now))
            self.store.put_view(replace(record, created=version))
            self.store.start_positions(record.name, compiled.sources, version)
            self.store.add_history(
                RefreshReport(
                    str(record.name),
                    "recompute",
                    "created",
                    rows_inserted=self.capture.count(names.backing(record.name)),
                    seconds=time.perf_counter() - began,
                    versions={str(s): version for s in compiled.sources},
                    version=version,
                )
            )

    def _capture(self, table: Table) -> None:
        """Start capture, or start it over where the table has columns that are not captured."""
        known = self.store.sources().get(table.name.folded)
        if known is not None and {c.name for c in known.columns} >= {c.name for c in table.columns}:
            return
        if known is not None:
            self.capture.stop(table.name)
            self.store.lose(table.name)
        self.capture.start(table)

    def _seal(self, sources: Sequence[TableName], version: int) -> None:
        """Seal what other views of the same tables still wait for: a view made now contains it already."""
        known = self.store.sources()
        for source in sources:
            if source.folded in known:
                pending = self.capture.pending(source)
                if pending.unexplained(known[source.folded].row_count):
                    self.store.lose(source)
                self.capture.seal(source, version)
                self.store.count_source(source, pending.rows, version)

    def drop(self, record: ViewRecord) -> None:
        with self.engine.transaction():
            self.store.tick()
            self._remove(record)

    def _remove(self, record: ViewRecord) -> None:
        """Its tables, its bookkeeping, and the capture that no other view needs."""
        for statement in teardown_sql(record.name, versions_aside(self.engine, record.name), self.dialect):
            self.engine.execute(statement)
        self.engine.execute(drop_temporary(names.delta(record.name), self.dialect))
        self.store.drop_view(record.name)
        known = self.store.sources()
        for source in record.sources:
            others = [v for v in self.readers(source) if v.name != record.name]
            if source.folded in known and not others:
                table = self.catalog().find(source)
                self.capture.stop(source, exists=table is not None and table.kind is Kind.BASE)

    def invalid_sources(self) -> dict[str, str]:
        """Tables that lost their capture: captured again where they still fit, else why not."""
        if not self.capture_doubtful:
            return {}
        uncaptured = self.capture.uncaptured(self.store.books().sources.values())
        self.capture_doubtful = bool(uncaptured)
        if not uncaptured:
            return {}
        self.forget_schema()
        broken: dict[str, str] = {}
        for record in uncaptured:
            if reason := self.capture.broken(record, self.catalog()):
                broken[record.name.folded] = reason
                continue
            with self.engine.transaction():
                self.store.tick()
                self.capture.stop(record.name)
                self.capture.start(self.catalog().get(record.name))
                self.store.lose(record.name)
        self.store.remember(None)
        self.capture_doubtful = bool(broken)
        return broken

    def refresh(self, order: list[ViewRecord], full: frozenset[str]) -> list[RefreshReport]:
        return Refresher(self).run(order, full)

    def verify(self, record: ViewRecord) -> VerifyReport:
        return verify_view(self, record)

    def changes(self, record: ViewRecord, since: Since) -> pa.Table:
        return changes_since(self, record, since)

    def history(self, record: ViewRecord) -> list[RefreshReport]:
        return self.store.history(record.name)

    def as_of(self, record: ViewRecord) -> datetime | None:
        return from_micros(self.store.books().times[record.name.folded]) if record.timed else None

    def standing(self, record: ViewRecord, invalid: Mapping[str, str]) -> tuple[int, int]:
        known, positions, waiting = self.store.sources(), self.store.positions().get(record.name.folded, {}), 0
        for source in record.sources:
            if source.folded in known and source.folded not in invalid:
                pending = self.capture.pending(source)
                sealed = self.capture.sealed_counts(source, positions.get(source.folded, LOST))
                waiting += pending.inserted + pending.deleted + sum(sealed)
        return max(positions.values(), default=0), waiting

    # ------------------------------------------------------------------ tables
    def load(self, table: Table, data: pa.Table) -> int:
        return load_batch(self.engine, table, data)

    def apply(self, table: Table, data: pa.Table) -> tuple[int, int]:
        return apply_batch(self.engine, table, data)

    def declare(self, table: TableName, keys: list[Key], foreign_keys: list[ForeignKey]) -> None:
        for key in keys:
            self.store.declare_key(table, key)
        for foreign in foreign_keys:
            self.store.declare_foreign_key(table, foreign)

    def close(self) -> None:
        self.engine.close()
