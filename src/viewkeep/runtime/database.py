"""One open database as viewkeep sees it: engine, bookkeeping, views, and what was compiled of them."""

from __future__ import annotations

from viewkeep.catalog import Catalog, Kind, Table, TableName
from viewkeep.engine.protocol import Engine
from viewkeep.errors import CatalogError, RefreshError, nearest
from viewkeep.runtime.capture import Capture
from viewkeep.runtime.compiled import CompiledView, compile_view, opaque_view
from viewkeep.runtime.store import Store, ViewRecord
from viewkeep.strategy import names


class Database:
    def __init__(self, engine: Engine) -> None:
        self.engine, self.dialect = engine, engine.facts.dialect
        self.store = Store(engine)
        self.store.open()
        self.capture = Capture(engine, self.store)
        self.views: dict[str, ViewRecord] = self.store.views()
        self.capture_doubtful = True
        """Whether some captured table may have lost its triggers: they are then looked at one by one."""
        self._catalog: Catalog | None = None
        self._compiled: dict[str, CompiledView] = {}

    def catalog(self) -> Catalog:
        """Tables as users know them: viewkeep's own left out, its views marked, declared keys added."""
        if self._catalog is None:
            found, tables = self.engine.catalog(), []
            for table in found.tables.values():
                if table.name.schema == names.SCHEMA or table.name.name.startswith(names.RESERVED):
                    continue
                is_view = table.name.folded in self.views
                tables.append(Table(table.name, table.columns, Kind.MATERIALIZED) if is_view else table)
            catalog = Catalog.of(tables, found.default_schema)
            for name, key in self.store.declared_keys():
                catalog = catalog.with_constraints(name, [key], []) if catalog.find(name) else catalog
            for name, foreign in self.store.declared_foreign_keys():
                catalog = catalog.with_constraints(name, [], [foreign]) if catalog.find(name) else catalog
            self._catalog = catalog
        return self._catalog

    def forget_schema(self) -> None:
        """The schema may have changed: look again, compile again."""
        self._catalog = None
        self._compiled.clear()

    def reload_views(self) -> None:
        self.store.remember(None)
        self.views = self.store.books().views
        self.forget_schema()

    def sync(self) -> None:
        """Notice views that another connection made, replaced or dropped."""
        views = self.store.books().views
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

    def compiled(self, record: ViewRecord) -> CompiledView:
        folded = record.name.folded
        if folded not in self._compiled:
            self._check_plain_views(record)
            if record.not_incremental is not None:
                found = opaque_view(record.name, record.query, record.output, record.sources, record.not_incremental)
            else:
                known = Catalog.of(record.tables, self.catalog().default_schema)
                found = compile_view(record.name, record.query, known, self.dialect, record.output)
            found.time_travel, found.keeps_changes = self.engine.facts.time_travel, record.keeps_changes
            found.forget_programs()
            self._compiled[folded] = found
        return self._compiled[folded]

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
