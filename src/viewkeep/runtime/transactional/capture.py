"""The changes of base tables: captured, counted, sealed, handed to views, pruned.

A row in a log without a version is new since the last seal. A refresh seals what its own snapshot
shows under its version; what another transaction commits later stays unsealed for the next one.
When every reader of a table is refreshed in the same run, sealing is skipped: the rows are
consumed where they are and deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from viewkeep.catalog import Catalog, Column, Kind, Table, TableName
from viewkeep.emit.capture import capture_sql, release_sql, trigger_name
from viewkeep.emit.select import identifier, literal, table_text
from viewkeep.engine.protocol import Engine
from viewkeep.runtime.transactional.store import Books, SourceRecord, Store
from viewkeep.strategy import names

TRIGGERS = 3
"""Triggers of a captured table: insert, delete, update."""
COUNTED_EVERY = 10
"""In one of so many runs the rows of the tables are counted, though nothing speaks for it."""


@dataclass(frozen=True, slots=True)
class Pending:
    """Unsealed changes of one table."""

    inserted: int
    deleted: int
    rows: int
    """Rows of the table now."""

    def unexplained(self, rows_before: int) -> int:
        """How many rows the table has more (or fewer) than it should have after these changes."""
        return self.rows - (rows_before + self.inserted - self.deleted)


@dataclass(frozen=True, slots=True)
class Look:
    """What is waiting, as one snapshot shows it."""

    pending: dict[str, Pending]
    triggers: int
    version: int
    """What the clock shows."""
    given: dict[str, int]
    """Rows that each table was ever given, as far as DuckDB knows."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What can be had of a table without counting its rows."""

    inserted: int
    deleted: int
    updated: int
    """How many of these are halves of updates; -1 where nobody knows."""
    given: int | None

    def gained_since(self, given: int | None) -> int | None:
        """How many rows were written into the table since it had been given so many; None where that does not tell
        whether they were captured."""
        return None if given is None or self.given is None or self.updated else self.given - given


class Capture:
    def __init__(self, engine: Engine, store: Store) -> None:
        self.engine, self.store = engine, store
        self.dialect = engine.facts.dialect
        self._bound: dict[str, tuple[int | None, tuple[Column, ...]]] = {}
        self._logs_marking: set[str] | None = None
        self._database_and_schema: tuple[str, str] | None = None

    # ------------------------------------------------------------------ starting and ending
    def start(self, source: Table) -> None:
        self._logs_marking = None
        for statement in capture_sql(source, self.dialect, marks_updates=True):
            self.engine.execute(statement)
        self.store.put_source(SourceRecord(source.name, source.columns, self.count(source.name), self.store.version()))

    def stop(self, source: TableName, exists: bool = True) -> None:
        for statement in release_sql(source, self.dialect):
            if exists or statement.startswith("DROP TABLE"):
                self.engine.execute(statement)
        self.store.drop_source(source)

    def broken(self, record: SourceRecord, catalog: Catalog) -> str | None:
        """Why the capture of a table no longer works, in words; None where all is well."""
        name, now = str(record.name), catalog.find(record.name)
        if now is None or now.kind is not Kind.BASE:
            return f"table {name!r} is gone"
        there = {c.name.lower(): c for c in now.columns}
        for column in record.columns:
            found = there.get(column.name.lower())
            if found is None:
                return f"column {column.name!r} of table {name!r} is gone"
            if found.type != column.type:
                return f"column {column.name!r} of table {name!r} changed from {column.type} to {found.type}"
        return None

    def uncaptured(self, captured: Iterable[SourceRecord]) -> list[SourceRecord]:
        """Those that have lost their triggers: tables dropped, perhaps made again."""
        found = self.engine.execute(
            "SELECT trigger_name FROM duckdb_triggers() WHERE database_name = CURRENT_DATABASE()"
        )
        there = {name for (name,) in found}
        return [
            record
            for record in captured
            if any(trigger_name(record.name, event) not in there for event in ("insert", "delete", "update"))
        ]

    # ------------------------------------------------------------------ looking
    def count(self, name: TableName) -> int:
        return int(self.engine.execute(f"SELECT COUNT(*) FROM {self._sql(name)}")[0][0])

    def pending(self, name: TableName) -> Pending:
        return self.look([name]).pending[name.folded]

    def look(self, tables: Sequence[TableName], books: Books | None = None) -> Look:
        """Unsealed changes of several tables, how many triggers there are, and the clock.

        How many rows a table must have follows from what it had before and its changes. Whether it has them need not
        be counted each time. What bypasses triggers are appended rows, and DuckDB knows at once how many rows a table
        was ever given: if it is as many more as were inserted, nothing did. After updates that does not tell, as an
        update may write its rows anew or in place: then they are counted. So they are now and then in any case.
        """
        version, triggers, seen = self._ask(tables)
        rows = {
            folded: books.sources[folded].row_count + found.inserted - found.deleted
            for folded, found in seen.items()
            if books and version % COUNTED_EVERY and found.gained_since(books.given.get(folded)) == found.inserted
        }
        rows |= self._counted([name for name in tables if name.folded not in rows])
        pending = {folded: Pending(found.inserted, found.deleted, rows[folded]) for folded, found in seen.items()}
        given = {folded: found.given for folded, found in seen.items() if found.given is not None}
        return Look(pending, triggers, version, given)

    def _ask(self, tables: Sequence[TableName]) -> tuple[int, int, dict[str, _Seen]]:
        """The clock, the number of triggers, and what is known of each table at once, in one statement."""
        # One branch a question, and little more than columns in it: a function, or a scalar subquery, takes longer to
        # plan than all of this takes to answer.
        listed = ", ".join(literal(name.name) for name in tables) or "''"
        looks = [
            "SELECT 'clock', '', '', version, 0, 0 FROM _viewkeep.clock",
            "SELECT 'trigger', database_name, trigger_name, 0, 0, 0 FROM duckdb_triggers()",
            "SELECT database_name, schema_name, table_name, estimated_size, 0, 0 FROM duckdb_tables() "
            f"WHERE table_name IN ({listed})",
        ]
        for name in tables:
            log = names.log(name)
            updated = f"COUNT({names.UPDATED})" if log.name in self._marking() else "-1"
            # Every weight is 1 or -1, so a count and a sum say as much as two counts with a condition, and are faster.
            looks.append(
                f"SELECT 'changes', {literal(name.folded)}, '', COUNT(*), SUM(_vk_weight), {updated} "
                f"FROM {self._sql(log)} WHERE _vk_version IS NULL"
            )
        answers = self.engine.execute(" UNION ALL ".join(looks))
        found = {(what, of.lower(), name.lower()): numbers for what, of, name, *numbers in answers}
        database, schema = self._place()
        ours = ("trigger", database)  # an attached database may be another keeper's
        triggers = sum((what, of) == ours and trigger.startswith("_vk_") for what, of, trigger in found)
        seen = {}
        for name in tables:
            count, net, updated = found["changes", name.folded, ""]
            given, *_ = found.get((database, (name.schema or schema).lower(), name.name.lower()), [None])
            seen[name.folded] = _Seen((count + (net or 0)) // 2, (count - (net or 0)) // 2, updated, given)
        return found["clock", "", ""][0], triggers, seen

    def _place(self) -> tuple[str, str]:
        """The database and the schema that names without one mean, in lower case."""
        if self._database_and_schema is None:
            ((database, schema),) = self.engine.execute("SELECT CURRENT_DATABASE(), CURRENT_SCHEMA()")
            self._database_and_schema = database.lower(), schema.lower()
        return self._database_and_schema

    def _marking(self) -> set[str]:
        """Logs that tell updates from other changes; those of earlier days do not."""
        if self._logs_marking is None:
            columns = self.engine.execute(
                "SELECT table_name FROM duckdb_columns() "
                "WHERE database_name = CURRENT_DATABASE() AND schema_name = ? AND column_name = ?",
                [names.SCHEMA, names.UPDATED],
            )
            self._logs_marking = {name for (name,) in columns}
        return self._logs_marking

    def _counted(self, tables: Sequence[TableName]) -> dict[str, int]:
        counts = [f"SELECT {literal(name.folded)}, COUNT(*) FROM {self._sql(name)}" for name in tables]
        return dict(self.engine.execute(" UNION ALL ".join(counts))) if counts else {}

    def sealed_counts(self, name: TableName, after: int) -> tuple[int, int]:
        """Inserted and deleted rows that were sealed after a version."""
        found = self.engine.execute(
            f"SELECT COUNT(*) FILTER (WHERE _vk_weight > 0), COUNT(*) FILTER (WHERE _vk_weight < 0) "
            f"FROM {self._sql(names.log(name))} WHERE _vk_version > ?",
            [after],
        )[0]
        return int(found[0]), int(found[1])

    # ------------------------------------------------------------------ consuming
    def bind(self, name: TableName, after: int | None, captured: tuple[Column, ...]) -> None:
        """Let the delta of a table be what changed after a version; None: what is not sealed yet."""
        if self._bound.get(name.folded) == (after, captured):
            return
        columns = ", ".join(
            identifier(c).sql(dialect=self.dialect) for c in (names.WEIGHT, *(c.name for c in captured))
        )
        sealed = "" if after is None else f" OR _vk_version > {after:d}"
        self.engine.execute(
            f"CREATE OR REPLACE TEMP VIEW {self._sql(names.delta(name))} AS SELECT {columns} "
            f"FROM {self._sql(names.log(name))} WHERE _vk_version IS NULL{sealed}"
        )
        self._bound[name.folded] = after, captured

    def unbind(self) -> None:
        """Bind anew from now on: what was bound may have been rolled back."""
        self._bound.clear()

    def seal(self, name: TableName, version: int) -> None:
        self.engine.execute(
            f"UPDATE {self._sql(names.log(name))} SET _vk_version = ? WHERE _vk_version IS NULL", [version]
        )

    def prune(self, name: TableName, consumed: int, unsealed: bool) -> None:
        """Forget what every view has consumed; where that includes the `unsealed` rows, it is all there is."""
        log = self._sql(names.log(name))
        if unsealed:
            self.engine.execute(f"DELETE FROM {log}")
        else:
            self.engine.execute(f"DELETE FROM {log} WHERE _vk_version <= ?", [consumed])

    def _sql(self, name: TableName) -> str:
        return table_text(name, self.dialect)
