"""viewkeep's own tables, in the database they describe: so a refresh and its bookkeeping are one commit.

Every statement here has fixed text; names and values travel as parameters.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime

from viewkeep.catalog import Column, ForeignKey, Key, TableName
from viewkeep.engine.protocol import Engine
from viewkeep.errors import ConnectError
from viewkeep.runtime.records import ViewRecord, foreign_key_from_json, foreign_key_to_json, from_json, to_json
from viewkeep.runtime.reports import RefreshReport, entry_of, report_of

FORMAT = 1
_TABLES = """
CREATE SCHEMA IF NOT EXISTS _viewkeep;
CREATE TABLE IF NOT EXISTS _viewkeep.format (version INTEGER);
CREATE TABLE IF NOT EXISTS _viewkeep.versions (
  kind VARCHAR, name VARCHAR, source VARCHAR, version BIGINT, row_count BIGINT, columns VARCHAR);
CREATE VIEW IF NOT EXISTS _viewkeep.clock AS SELECT version FROM _viewkeep.versions WHERE kind = 'clock';
CREATE TABLE IF NOT EXISTS _viewkeep.times (view VARCHAR, micros BIGINT);
CREATE TABLE IF NOT EXISTS _viewkeep.views (name VARCHAR, record VARCHAR);
CREATE TABLE IF NOT EXISTS _viewkeep.history (view VARCHAR, entry VARCHAR);
CREATE TABLE IF NOT EXISTS _viewkeep.keys (name VARCHAR, record VARCHAR);
CREATE TABLE IF NOT EXISTS _viewkeep.foreign_keys (name VARCHAR, record VARCHAR)
"""
# `versions` holds all that a refresh moves, so that one statement moves it: the clock; of each captured table its
# version, row count and columns (kind 'source'); of each view how far it has consumed each source (kind 'position').
LOST = -1
"""The position of a view whose recorded changes cannot be trusted: it must be recomputed."""


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A base table under capture: its columns and row count when its changes were last sealed or consumed."""

    name: TableName
    columns: tuple[Column, ...]
    row_count: int
    version: int


@dataclass(slots=True)
class Books:
    """What the store says of the database at one version of its clock."""

    version: int
    views: dict[str, ViewRecord]
    sources: dict[str, SourceRecord]
    positions: dict[str, dict[str, int]]
    times: dict[str, int] = field(default_factory=dict)
    """The time that each view shows whose rows depend on it, in microseconds."""
    rows: dict[str, int] = field(default_factory=dict)
    """Rows of stored views, as far as they were counted."""
    given: dict[str, int] = field(default_factory=dict)
    """Rows that tables had ever been given when this was so, as far as it is known: see Capture.look."""


class Store:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._books: Books | None = None

    def books(self) -> Books:
        """All bookkeeping. Every change of it moves the clock, so what was read at this version still holds."""
        version = self.version()
        if self._books is not None and self._books.version == version:
            return self._books
        return self._read(version)

    def last_books(self) -> Books:
        """The bookkeeping as it was last seen: holds only if the clock still shows its version."""
        return self._books or self._read(self.version())

    def _read(self, version: int) -> Books:
        found = Books(version, self.views(), self.sources(), self.positions(), self.times())
        self._books = None if self.engine.users_transaction else found
        return found

    def remember(self, books: Books | None) -> None:
        """What a committed run left behind; None where that is not known for sure."""
        self._books = books

    def open(self) -> None:
        """Make the tables where they are missing; refuse a database of a newer viewkeep."""
        with self.engine.transaction():
            for statement in _TABLES.strip().split(";\n"):
                self.engine.execute(statement)
            found = self.engine.execute("SELECT version FROM _viewkeep.format")
            if not found:
                self.engine.execute("INSERT INTO _viewkeep.format VALUES (?)", [FORMAT])
                self.engine.execute("INSERT INTO _viewkeep.versions VALUES ('clock', NULL, NULL, 0, NULL, NULL)")
            elif found[0][0] > FORMAT:
                raise ConnectError(
                    f"this database was written by a newer viewkeep (format {found[0][0]}, this one knows {FORMAT})",
                    hint="upgrade viewkeep",
                )

    # ------------------------------------------------------------------ versions
    def version(self) -> int:
        return int(self.engine.execute("SELECT version FROM _viewkeep.clock")[0][0])

    def tick(self) -> int:
        """The next version; also what makes two changes of the bookkeeping at once notice each other."""
        moved = self.engine.execute(
            "UPDATE _viewkeep.versions SET version = version + 1 WHERE kind = 'clock' RETURNING version"
        )
        return int(moved[0][0])

    def settle(self, version: int, views: Sequence[str], counts: Mapping[str, int]) -> None:
        """A run is over: move the clock, the views that consumed their sources, the tables whose rows were counted."""
        rows = f"CASE name {'WHEN ? THEN ? ' * len(counts)}ELSE row_count END" if counts else "row_count"
        names = [*views, *counts]  # no table has the name of a view
        marks = ", ".join("?" * len(names)) or "NULL"
        self.engine.execute(
            f"UPDATE _viewkeep.versions SET version = ?, row_count = {rows} WHERE kind = 'clock' OR name IN ({marks})",
            [version, *(value for pair in counts.items() for value in pair), *names],
        )

    def positions(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for view, source, version in self.engine.execute(
            "SELECT name, source, version FROM _viewkeep.versions WHERE kind = 'position'"
        ):
            found.setdefault(view, {})[source] = version
        return found

    def start_positions(self, view: TableName, sources: tuple[TableName, ...], version: int) -> None:
        for source in sources:
            self.engine.execute(
                "INSERT INTO _viewkeep.versions VALUES ('position', ?, ?, ?, NULL, NULL)",
                [view.folded, source.folded, version],
            )

    def times(self) -> dict[str, int]:
        return dict(self.engine.execute("SELECT view, micros FROM _viewkeep.times"))

    def put_time(self, view: str, micros: int) -> None:
        """`view`: folded."""
        if not self.engine.execute("UPDATE _viewkeep.times SET micros = ? WHERE view = ? RETURNING 1", [micros, view]):
            self.engine.execute("INSERT INTO _viewkeep.times VALUES (?, ?)", [view, micros])

    def lose(self, source: TableName, version: int = LOST + 1) -> None:
        """Changes of this table were not seen: every view over it that is not at `version` must be recomputed."""
        self.engine.execute(
            "UPDATE _viewkeep.versions SET version = ? WHERE kind = 'position' AND source = ? AND version <> ?",
            [LOST, source.folded, version],
        )

    # ------------------------------------------------------------------ views
    def views(self) -> dict[str, ViewRecord]:
        rows = self.engine.execute("SELECT name, record FROM _viewkeep.views ORDER BY rowid")
        return {name: from_json(record) for name, record in rows}

    def put_view(self, record: ViewRecord) -> None:
        self.engine.execute("INSERT INTO _viewkeep.views VALUES (?, ?)", [record.name.folded, to_json(record)])

    def forget_changes(self, name: TableName, version: int) -> None:
        """The view's changes up to a version are not known any more."""
        record = self.views()[name.folded]
        self.engine.execute("DELETE FROM _viewkeep.views WHERE name = ?", [name.folded])
        self.put_view(replace(record, created=version))

    def drop_view(self, name: TableName) -> None:
        self.engine.execute("DELETE FROM _viewkeep.views WHERE name = ?", [name.folded])
        self.engine.execute("DELETE FROM _viewkeep.versions WHERE kind = 'position' AND name = ?", [name.folded])
        self.engine.execute("DELETE FROM _viewkeep.history WHERE view = ?", [name.folded])
        self.engine.execute("DELETE FROM _viewkeep.times WHERE view = ?", [name.folded])

    # ------------------------------------------------------------------ captured tables
    def sources(self) -> dict[str, SourceRecord]:
        found = {}
        for name, columns, count, version in self.engine.execute(
            "SELECT name, columns, row_count, version FROM _viewkeep.versions WHERE kind = 'source'"
        ):
            listed = tuple(Column(**c) for c in json.loads(columns))
            record = SourceRecord(TableName.parse(name), listed, count, version)
            found[record.name.folded] = record
        return found

    def put_source(self, record: SourceRecord) -> None:
        self.engine.execute(
            "INSERT INTO _viewkeep.versions VALUES ('source', ?, NULL, ?, ?, ?)",
            [str(record.name), record.version, record.row_count, json.dumps([asdict(c) for c in record.columns])],
        )

    def count_source(self, name: TableName, count: int, version: int) -> None:
        self.engine.execute(
            "UPDATE _viewkeep.versions SET row_count = ?, version = ? WHERE kind = 'source' AND name = ?",
            [count, version, str(name)],
        )

    def drop_source(self, name: TableName) -> None:
        self.engine.execute("DELETE FROM _viewkeep.versions WHERE kind = 'source' AND name = ?", [str(name)])

    # ------------------------------------------------------------------ history
    def add_history(self, report: RefreshReport) -> RefreshReport:
        stamped = replace(report, at=datetime.now(UTC))
        self.engine.execute(
            "INSERT INTO _viewkeep.history VALUES (?, ?)", [TableName.parse(report.view).folded, entry_of(stamped)]
        )
        return stamped

    def history(self, view: TableName) -> list[RefreshReport]:
        rows = self.engine.execute("SELECT entry FROM _viewkeep.history WHERE view = ? ORDER BY rowid", [view.folded])
        return [report_of(entry) for (entry,) in rows]

    def last_strategy(self, view: TableName) -> str | None:
        found = self.engine.execute(
            "SELECT entry ->> 'strategy' FROM _viewkeep.history WHERE view = ? ORDER BY rowid DESC LIMIT 1",
            [view.folded],
        )
        return found[0][0] if found else None

    # ------------------------------------------------------------------ declared keys
    def declare_key(self, table: TableName, key: Key) -> None:
        self.engine.execute("INSERT INTO _viewkeep.keys VALUES (?, ?)", [str(table), json.dumps(list(key.columns))])

    def declare_foreign_key(self, table: TableName, key: ForeignKey) -> None:
        """Instead of one that says the same, which may have been trusted differently."""
        kept = [f for t, f in self.declared_foreign_keys() if t.folded == table.folded and not f.same_as(key)]
        self.engine.execute("DELETE FROM _viewkeep.foreign_keys WHERE lower(name) = ?", [table.folded])
        for foreign in (*kept, key):
            record = json.dumps(foreign_key_to_json(foreign))
            self.engine.execute("INSERT INTO _viewkeep.foreign_keys VALUES (?, ?)", [str(table), record])

    def declared_keys(self) -> list[tuple[TableName, Key]]:
        rows = self.engine.execute("SELECT name, record FROM _viewkeep.keys ORDER BY rowid")
        return [(TableName.parse(n), Key(tuple(json.loads(r)), enforced=False)) for n, r in rows]

    def declared_foreign_keys(self) -> list[tuple[TableName, ForeignKey]]:
        rows = self.engine.execute("SELECT name, record FROM _viewkeep.foreign_keys ORDER BY rowid")
        return [(TableName.parse(n), foreign_key_from_json(json.loads(r))) for n, r in rows]
