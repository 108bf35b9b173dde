"""One open database as viewkeep sees it: its tables, its views, and what was compiled of them.

What an engine must do for itself is abstract here: a database with transactions keeps its books in
tables of its own (transactional/), a lake keeps them in the logs of its tables (lake/).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

import pyarrow as pa
from sqlglot import exp

from viewkeep.catalog import Catalog, ForeignKey, Key, Kind, Table, TableName
from viewkeep.errors import CatalogError, RefreshError, ViewkeepError, nearest
from viewkeep.incremental.foreign_keys import edges_of
from viewkeep.runtime.clock import Clock, wall_clock
from viewkeep.runtime.compiled import CompiledView, compile_view, opaque_view
from viewkeep.runtime.records import ViewRecord
from viewkeep.runtime.reports import RefreshReport, VerifyReport
from viewkeep.runtime.view_keys import ViewKeys
from viewkeep.sql.parse import Statement
from viewkeep.strategy import names
from viewkeep.strategy.form import Form

Since = int | RefreshReport | Mapping[str, int] | None


class NotAsThought(ViewkeepError):
    """The database has other views, or fewer triggers, than this process believes."""

    own = True
    """Whether the run had its own transaction, so that it can simply be tried again."""


class Database(ABC):
    engine: Any
    """What is underneath, for whoever needs more of it than viewkeep offers."""
    dialect: str
    time_travel: bool
    form: Form
    """How new views are stored."""
    """Whether a table can be read as it was."""
    views: dict[str, ViewRecord]

    def __init__(self) -> None:
        self.clock: Clock = wall_clock
        self._catalog: Catalog | None = None
        self._compiled: dict[str, CompiledView] = {}
        self.view_keys = ViewKeys(self)

    # ------------------------------------------------------------------ what there is
    @abstractmethod
    def read_catalog(self) -> Catalog:
        """Tables and plain views, with declared keys; viewkeep's own may be among them."""

    @abstractmethod
    def read_views(self) -> dict[str, ViewRecord]: ...

    def catalog(self) -> Catalog:
        """Tables as users know them: viewkeep's own left out, its views marked."""
        if self._catalog is None:
            found, tables = self.read_catalog(), []
            for table in found.tables.values():
                is_view = table.name.folded in self.views
                own = table.name.schema == names.SCHEMA or table.name.name.startswith(names.RESERVED)
                if own and not is_view:
                    continue
                tables.append(Table(table.name, table.columns, Kind.MATERIALIZED) if is_view else table)
            self._catalog = Catalog.of(tables, found.default_schema)
        return self._catalog

    def forget_schema(self) -> None:
        """The schema may have changed: look again, compile again."""
        self._catalog = None
        self._compiled.clear()
        self.view_keys.forget()

    def reload_views(self) -> None:
        self.views = self.read_views()
        self.forget_schema()

    def sync(self) -> None:
        """Notice views that another connection made, replaced or dropped."""
        views = self.read_views()
        if views is not self.views and {k: v.created for k, v in views.items()} != {
            k: v.created for k, v in self.views.items()
        }:
            self.reload_views()

    def record(self, name: TableName | str) -> ViewRecord:
        wanted = TableName.parse(name) if isinstance(name, str) else name
        if wanted.folded not in self.views:
            self.sync()
        if wanted.folded not in self.views:
            known = [str(v.name) for v in self.views.values()]
            raise CatalogError(
                f"there is no materialized view {str(wanted)!r}",
                hint=nearest(str(wanted), known) or f"views: {', '.join(known) or 'none'}",
            )
        return self.views[wanted.folded]

    def base_table(self, name: str) -> Table:
        """A table that may be changed by its user."""
        table = self.catalog().get(TableName.parse(name))
        if table.kind not in (Kind.BASE, Kind.TEMPORARY):
            raise CatalogError(
                f"{table.kind.value} {name!r} cannot be changed directly", hint="change the tables it reads"
            )
        return table

    def refuse_unreadable(self, query: exp.Expr) -> None:  # noqa: B027 - most engines can read all they have
        """Say why a table that a query names is not in the catalog, if it is there all the same."""

    def compiled(self, record: ViewRecord) -> CompiledView:
        folded = record.name.folded
        if folded not in self._compiled:
            self._check_plain_views(record)
            if record.not_incremental is not None:
                found = opaque_view(record.name, record.query, record.output, record.sources, record.not_incremental)
            else:
                known = Catalog.of(record.tables, self.catalog().default_schema)
                found = compile_view(
                    record.name, record.query, known, self.dialect, record.output, record.parts, record.form
                )
                found.edges = edges_of(found.core, self.view_keys.with_foreign_keys(record.tables))
            found.time_travel, found.keeps_changes = self.time_travel, record.keeps_changes
            found.forget_programs()
            self._compiled[folded] = found
        return self._compiled[folded]

    def part_name(self, view: TableName, number: int) -> TableName:
        """A name for a view that is kept for the sake of another."""
        return TableName(f"sub_{view.name}_{number}", names.SCHEMA)

    def _check_plain_views(self, record: ViewRecord) -> None:
        for name, text in record.expanded.items():
            now = self.catalog().find(TableName.parse(name))
            if now is None or now.definition != text:
                raise RefreshError(
                    f"view {str(record.name)!r} reads {name!r}, whose definition changed",
                    hint=f"make it again with CREATE OR REPLACE MATERIALIZED VIEW {record.name}",
                )

    def parents(self, record: ViewRecord) -> dict[str, CompiledView]:
        """The compiled materialized views that a view reads."""
        return {s.folded: self.compiled(self.views[s.folded]) for s in record.sources if s.folded in self.views}

    def readers(self, table: TableName) -> list[ViewRecord]:
        """The views that read a table, also through plain views."""
        return [
            v
            for v in self.views.values()
            if any(s.folded == table.folded for s in v.sources) or table.folded in v.expanded
        ]

    # ------------------------------------------------------------------ SQL of the user
    @abstractmethod
    def output(self, text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of a query's columns as the engine gives them, and their types where they must be kept."""

    @abstractmethod
    def query(self, text: str) -> pa.Table:
        """The rows of a query in the engine's dialect."""

    @abstractmethod
    def execute(self, statement: Statement, dialect: str) -> None:
        """A statement that changes tables or the schema."""

    @abstractmethod
    def zone(self) -> str:
        """The time zone in which the session understands days and times without a zone."""

    def check_zone(self, record: ViewRecord) -> None:
        """The bounds of the last refresh are computed again; in another zone they would be others."""
        if record.timed and (zone := self.zone()) != record.zone:
            raise RefreshError(
                f"view {str(record.name)!r} follows the time in zone {record.zone}; the session is in {zone}",
                hint="set the session's time zone, or make the view again with CREATE OR REPLACE MATERIALIZED VIEW",
            )

    @abstractmethod
    def transaction(self) -> AbstractContextManager[bool]:
        """Where there are transactions: all inside happens or nothing does."""

    # ------------------------------------------------------------------ views
    @abstractmethod
    def create(self, record: ViewRecord, compiled: CompiledView, replaced: ViewRecord | None) -> None: ...

    @abstractmethod
    def drop(self, record: ViewRecord) -> None: ...

    @abstractmethod
    def invalid_sources(self) -> dict[str, str]:
        """Tables that can no longer be read, and views that cannot read theirs, with the reason, by folded name."""

    @abstractmethod
    def refresh(self, order: list[ViewRecord], full: frozenset[str]) -> list[RefreshReport]:
        """Refresh views that are given in dependency order; `full` ones are recomputed."""

    @abstractmethod
    def verify(self, record: ViewRecord) -> VerifyReport: ...

    @abstractmethod
    def changes(self, record: ViewRecord, since: Since) -> pa.Table: ...

    @abstractmethod
    def history(self, record: ViewRecord) -> list[RefreshReport]: ...

    @abstractmethod
    def as_of(self, record: ViewRecord) -> datetime | None:
        """The time that a view shows, where its rows depend on it."""

    @abstractmethod
    def standing(self, record: ViewRecord, invalid: Mapping[str, str]) -> tuple[int, int]:
        """A view's version, and how many changed source rows it has not consumed yet."""

    # ------------------------------------------------------------------ tables
    @abstractmethod
    def load(self, table: Table, data: pa.Table) -> int: ...

    @abstractmethod
    def apply(self, table: Table, data: pa.Table) -> tuple[int, int]: ...

    @abstractmethod
    def declare(self, table: TableName, keys: list[Key], foreign_keys: list[ForeignKey]) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


def why_invalid(record: ViewRecord, invalid: Mapping[str, str]) -> str | None:
    """Why a view cannot be refreshed: because of itself, or of what it reads."""
    return next((invalid[n.folded] for n in (record.name, *record.sources) if n.folded in invalid), None)
