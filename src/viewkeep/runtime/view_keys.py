"""Foreign keys of views on views: what each materialized view carries from the tables below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from viewkeep.catalog import Catalog, ForeignKey, Key, Table, TableName
from viewkeep.plan.carried import NOTHING, Carried, carried, point_at_copies

if TYPE_CHECKING:
    from viewkeep.runtime.database import Database


class ViewKeys:
    def __init__(self, db: Database) -> None:
        self.db = db
        self._known: dict[str, Carried] = {}

    def forget(self) -> None:
        self._known.clear()

    def with_foreign_keys(self, tables: Sequence[Table]) -> Catalog:
        """Tables as they were when a view was made, with the foreign keys of now, and those that views carry:
        no stored row depends on them."""
        views = self._below(tables)
        found = [replace(t, foreign_keys=self._now(t, views.get(t.name.folded))) for t in tables]
        return Catalog.of(point_at_copies(found, views), self.db.catalog().default_schema)

    def keys(self, view: TableName) -> list[Key]:
        """Of a materialized view."""
        return [Key(columns, enforced=False) for columns in self._carried(view).keys]

    def _now(self, table: Table, view: Carried | None) -> tuple[ForeignKey, ...]:
        if view is not None:
            return view.foreign_keys
        now = self.db.catalog().find(table.name)
        return now.foreign_keys if now else ()

    def _below(self, tables: Sequence[Table]) -> dict[str, Carried]:
        return {t.name.folded: self._carried(t.name) for t in tables if t.name.folded in self.db.views}

    def _carried(self, view: TableName) -> Carried:
        if view.folded not in self._known:
            record = self.db.views[view.folded]
            query, below = self.db.compiled(record).query, self._below(record.tables)
            known = self.with_foreign_keys(record.tables)
            for read in record.tables:
                known = known.with_constraints(read.name, self._keys(read, below.get(read.name.folded, NOTHING)), [])
            self._known[view.folded] = carried(query, known, below) if query is not None else NOTHING
        return self._known[view.folded]

    def _keys(self, table: Table, view: Carried) -> list[Key]:
        """Keys of a view, and columns that a foreign key says are a key."""
        pointing = (f for t in self.db.catalog().tables.values() for f in t.foreign_keys)
        pointed = [f.parent_columns for f in pointing if f.parent.folded == table.name.folded and f.parent_columns]
        return [Key(columns, enforced=False) for columns in (*view.keys, *pointed)]
