"""A materialized view on a lake: one Delta table that holds its rows, its definition, and how far it is.

The definition is in the table's description, so a view comes into being by one commit; the positions
in its sources, the strategy and the counts of a refresh are in the very commit that changes its rows.
A view that is made again is a new table beside the old one, under the next number.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime

from viewkeep.catalog import TableName
from viewkeep.engine.table_format import Snapshot, TableFormat
from viewkeep.runtime.clock import from_micros
from viewkeep.runtime.database import NotAsThought
from viewkeep.runtime.lake.warehouse import Warehouse, remove_folder
from viewkeep.runtime.records import ViewRecord, from_json
from viewkeep.runtime.reports import RefreshReport, report_of

REPORT = "viewkeep.report"
"""The commit info that holds the report of a refresh."""


@dataclass(frozen=True, slots=True)
class StoredView:
    """A view and its rows at one version."""

    record: ViewRecord
    snapshot: Snapshot


class Views:
    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse, self.format = warehouse, warehouse.format
        self.folder = os.path.join(warehouse.own, "views")

    def all(self) -> dict[str, ViewRecord]:
        """In the order they were made, which is one in which each comes after those it reads."""
        found = [self._record(number, path) for number, path in self._newest().values()]
        return {r.name.folded: r for r in sorted(found, key=lambda r: r.created)}

    def read(self, record: ViewRecord, version: int | None = None) -> StoredView:
        if not self.format.is_table(self.location(record)):
            raise NotAsThought(f"view {str(record.name)!r} was dropped or made again by somebody else")
        return StoredView(record, self.format.snapshot(self.location(record), version))

    def location(self, record: ViewRecord) -> str:
        return os.path.join(self.folder, f"{record.name.folded}@{record.created}")

    def next_number(self) -> int:
        """Later than that of any view that ever was, as far as anything of it is left."""
        return max((int(name.rpartition("@")[2]) for name in os.listdir(self.folder) if _numbered(name)), default=0) + 1

    def drop(self, record: ViewRecord) -> None:
        remove_folder(self.location(record))

    def history(self, record: ViewRecord) -> list[RefreshReport]:
        return [report_of(text) for _, text in self.format.history(self.location(record), REPORT)]

    def _newest(self) -> dict[str, tuple[int, str]]:
        found: dict[str, tuple[int, str]] = {}
        for entry in os.listdir(self.folder):
            path = os.path.join(self.folder, entry)
            if _numbered(entry) and self.format.is_table(path):
                name, _, number = entry.rpartition("@")
                found[name] = max(found.get(name, (0, "")), (int(number), path))
        return found

    def _record(self, number: int, path: str) -> ViewRecord:
        return from_json(self.format.snapshot(path).note)


def _numbered(name: str) -> bool:
    return not name.startswith("_") and name.rpartition("@")[2].isdigit()


def position_name(source: TableName, snapshot: Snapshot) -> str:
    """Under which a view's commit says how far it has consumed a source; a table made again is another one."""
    return f"viewkeep:{source.folded}:{snapshot.id}"


TIME = "viewkeep:time"
"""Under which a view's commit says what time its rows show, in microseconds."""


def time_of(format_: TableFormat, stored: StoredView) -> datetime | None:
    """The time that a view shows, where its rows depend on it."""
    if not stored.record.timed:
        return None
    micros = format_.positions(stored.snapshot, [TIME])[0]
    assert micros is not None  # it is in the commit that made the view
    return from_micros(micros)


def positions(format_: TableFormat, stored: StoredView, sources: dict[TableName, Snapshot]) -> dict[str, int | None]:
    """How far a view is in each of its sources, by folded name; None where it has never read this table."""
    found = format_.positions(stored.snapshot, [position_name(s, snap) for s, snap in sources.items()])
    return dict(zip((s.folded for s in sources), found, strict=True))
