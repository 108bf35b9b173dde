"""DuckDB: an embedded database in one file, or in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from viewkeep.catalog import Catalog, Column, ForeignKey, Key, Kind, Table, TableName
from viewkeep.engine.protocol import EngineFacts, Parameters
from viewkeep.errors import ConnectError, EngineError

_DEFAULT_SCHEMA = "main"
_CHECKPOINT = "64MB"
"""Written bytes after which DuckDB tidies its tables, and a commit waits for it; by default 16 MB. A change is written
several times here: to its table, to the table's log, to views and to their logs."""
_SPLIT_FROM, _SPLIT_TO = 500, 500_000
"""Changes of this many rows gain from being split for all cores: smaller ones are done before a second
core is awake, larger ones have row groups enough."""
_SPLIT_BESIDE = 1_000_000
"""Larger tables read beside a change have row groups enough, and splitting them would only cost."""


_DISTRUST = threading.Lock()
_DISTRUSTING: dict[str, tuple[int, str | None]] = {}
"""Databases that are just now planned for without statistics: by how many, and what was disabled before."""


class DuckDBEngine:
    facts = EngineFacts(dialect="duckdb", time_travel=False)

    def __init__(self, path: str) -> None:
        """`path` is a file, made if it is not there; empty for a database in memory."""
        if path and not Path(path).expanduser().parent.is_dir():
            raise ConnectError(
                f"folder {str(Path(path).parent)!r} does not exist",
                hint="make it first; duckdb:///file is relative, duckdb:////folder/file absolute",
            )
        try:
            self.connection = duckdb.connect(str(Path(path).expanduser()) if path else ":memory:")
            # Its bar would be drawn on stdout, in the midst of what a program prints there.
            self.connection.execute("SET enable_progress_bar = false")
            self.connection.execute(f"SET checkpoint_threshold = '{_CHECKPOINT}'")
        except duckdb.Error as error:
            text = str(error).splitlines()[0]
            if "lock" in text.lower():
                raise ConnectError(
                    f"database {path!r} is open in another process", hint="close it there; DuckDB allows one writer"
                ) from None
            raise ConnectError(f"database {path!r} cannot be opened: {text}") from None
        self.lock = threading.RLock()
        self._instance = str(Path(path).expanduser().resolve()) if path else f"memory {id(self)}"
        self._depth = 0
        self._users = False
        self._splitting = False

    def execute(self, sql: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        self._note_transaction(sql)
        try:
            return self.connection.execute(sql, parameters or None).fetchall()
        except duckdb.Error as error:
            raise translate(error) from error

    def arrow(self, sql: str) -> pa.Table:
        try:
            relation = self.connection.sql(sql)
            return relation.to_arrow_table() if relation is not None else pa.table({})
        except duckdb.Error as error:
            raise translate(error) from error

    def _note_transaction(self, sql: str) -> None:
        """Remember whether the user has a transaction open: a second BEGIN would abort it."""
        if not self._depth:
            word = sql.split(None, 1)[0].rstrip(";").upper() if sql.strip() else ""
            if word in ("BEGIN", "START"):
                self._users = True
            elif word in ("COMMIT", "END", "ROLLBACK", "ABORT"):
                self._users = False

    @contextmanager
    def transaction(self) -> Iterator[bool]:
        with self.lock:
            began = self._depth == 0 and not self._users
            self._depth += 1
            try:
                if began:
                    self.execute("BEGIN")
                yield began
                if began:
                    self.execute("COMMIT")
            except BaseException:
                if began:
                    self._roll_back()
                raise
            finally:
                self._depth -= 1

    @property
    def users_transaction(self) -> bool:
        return self._users

    def _roll_back(self) -> None:
        with suppress(duckdb.Error):  # a failed COMMIT has rolled back already
            self.connection.execute("ROLLBACK")
        self._stop_splitting()

    @contextmanager
    def using_all_cores(self, rows: int, largest: int) -> Iterator[None]:
        # DuckDB gives each core whole row groups of 122,880 rows, so one core alone works through a smaller
        # change. With this setting, made for its own tests, it hands out vectors of 2,048 rows instead.
        # In a transaction of the user's that failed nothing could be set back, so it is left alone there.
        if self._users or largest > _SPLIT_BESIDE or not _SPLIT_FROM <= rows <= _SPLIT_TO:
            yield
            return
        self._splitting = True
        self.connection.execute("PRAGMA verify_parallelism")
        yield
        self._stop_splitting()  # where this is not reached, the rollback does it

    def _stop_splitting(self) -> None:
        if self._splitting:
            self.connection.execute("PRAGMA disable_verify_parallelism")
            self._splitting = False

    @contextmanager
    def bound(self, name: str, data: pa.Table) -> Iterator[None]:
        self.connection.register(name, data)
        try:
            yield
        finally:
            with suppress(duckdb.Error):  # in a transaction that failed nothing can be done until it is rolled back
                self.connection.unregister(name)

    @contextmanager
    def without_statistics(self) -> Iterator[None]:
        with self.lock:
            self._distrust()
            try:
                yield
            finally:
                self._trust_again()

    def _distrust(self) -> None:
        """The setting is one for all connections to a database: the first to come sets it, the last to go sets it
        back."""
        with _DISTRUST:
            users, before = _DISTRUSTING.get(self._instance, (0, None))
            if not users:
                if before is None:
                    before = str(self.execute("SELECT current_setting('disabled_optimizers')")[0][0])
                disabled = ",".join(filter(None, [before, "statistics_propagation"]))
                self.execute(f"SET disabled_optimizers = '{disabled}'")
            _DISTRUSTING[self._instance] = users + 1, before

    def _trust_again(self) -> None:
        with _DISTRUST:
            users, before = _DISTRUSTING[self._instance]
            _DISTRUSTING[self._instance] = users - 1, before
            if users == 1:
                with suppress(duckdb.Error):  # in a failed transaction of the user's it waits for the next time
                    self.connection.execute(f"SET disabled_optimizers = '{before}'")
                    del _DISTRUSTING[self._instance]

    @contextmanager
    def without_optimizer(self) -> Iterator[None]:
        with self.lock:
            self.execute("PRAGMA disable_optimizer")
            try:
                yield
            finally:
                self.connection.execute("PRAGMA enable_optimizer")

    def is_conflict(self, error: BaseException) -> bool:
        return _caused_by(error, duckdb.TransactionException)

    def is_own_fault(self, error: BaseException) -> bool:
        return _caused_by(error, duckdb.InternalException)

    def is_too_deep(self, error: BaseException) -> bool:
        return isinstance(error.__cause__, duckdb.BinderException) and "expression depth" in str(error.__cause__)

    def is_data_error(self, error: BaseException) -> bool:
        kinds = (duckdb.OutOfRangeException, duckdb.ConversionException, duckdb.InvalidInputException)
        return isinstance(error.__cause__, kinds)

    def catalog(self) -> Catalog:
        collated = self._collated()
        columns: dict[tuple[str, str, bool], list[Column]] = {}
        for schema, table, temporary, name, type_, nullable in self.execute(
            "SELECT schema_name, table_name, database_name = 'temp', column_name, data_type, is_nullable "
            "FROM duckdb_columns() WHERE NOT internal AND database_name IN (current_database(), 'temp') "
            "ORDER BY schema_name, table_name, column_index"
        ):
            found = Column(name, type_, nullable, (schema, table, name) in collated)
            columns.setdefault((schema, table, temporary), []).append(found)
        keys: dict[TableName, list[Key]] = {}
        foreign: dict[TableName, list[ForeignKey]] = {}
        for schema, table, kind, names, parent, parent_columns in self.execute(
            "SELECT schema_name, table_name, constraint_type, constraint_column_names, referenced_table, "
            "referenced_column_names FROM duckdb_constraints() WHERE database_name = current_database()"
        ):
            name = _name(schema, table)
            if kind in ("PRIMARY KEY", "UNIQUE"):
                keys.setdefault(name, []).append(Key(tuple(names)))
            elif kind == "FOREIGN KEY" and parent:
                edge = ForeignKey(tuple(names), _name(schema, parent), tuple(parent_columns))
                foreign.setdefault(name, []).append(edge)
        definitions = {
            (schema, view): sql
            for schema, view, sql in self.execute(
                "SELECT schema_name, view_name, sql FROM duckdb_views() "
                "WHERE NOT internal AND database_name = current_database()"
            )
        }
        tables = []
        for (schema, table, temporary), found_columns in columns.items():
            name, definition = _name(schema, table), definitions.get((schema, table))
            kind = Kind.TEMPORARY if temporary else Kind.PLAIN_VIEW if definition else Kind.BASE
            tables.append(
                Table(
                    name,
                    tuple(found_columns),
                    kind,
                    tuple(keys.get(name, ())) if kind is Kind.BASE else (),
                    tuple(foreign.get(name, ())) if kind is Kind.BASE else (),
                    definition,
                )
            )
        # A temporary table hides a permanent one of its name, as it does in DuckDB itself.
        return Catalog.of(sorted(tables, key=lambda t: t.kind is Kind.TEMPORARY), _DEFAULT_SCHEMA)

    def _collated(self) -> set[tuple[str, str, str]]:
        """Columns with a collation, of which only the text of their table's definition tells."""
        return {
            (schema, table, column.name)
            for schema, table, sql in self.execute(
                "SELECT schema_name, table_name, sql FROM duckdb_tables() "
                "WHERE database_name = current_database() AND contains(upper(sql), ' COLLATE ')"
            )
            for column in sqlglot.parse_one(sql, dialect="duckdb").find_all(exp.ColumnDef)
            if column.find(exp.CollateColumnConstraint)
        }

    def close(self) -> None:
        self.connection.close()


def _name(schema: str, table: str) -> TableName:
    return TableName(table, None if schema == _DEFAULT_SCHEMA else schema)


def _caused_by(error: BaseException, kind: type[duckdb.Error]) -> bool:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, kind):
        cause = cause.__cause__
    return cause is not None


def translate(error: duckdb.Error) -> EngineError:
    """DuckDB's message without its picture of the text or its stack, and a hint where viewkeep knows better."""
    text = str(error).split("\n\nLINE")[0].split("\n\nStack Trace")[0].strip()
    hint = None
    if "MERGE INTO is not supported on tables with triggers" in text:
        hint = "the table feeds a materialized view: write the MERGE as DELETE and INSERT in one transaction"
    elif "ON CONFLICT DO UPDATE is not yet supported" in text:
        hint = "the table feeds a materialized view: write the upsert as DELETE and INSERT in one transaction"
    elif "cannot start a transaction within a transaction" in text:
        hint = "a transaction is open on this connection: begin and end it through viewkeep, or end it first"
    elif isinstance(error, duckdb.InternalException):
        hint = "this is an error of DuckDB's own; the same statement may run after PRAGMA disable_optimizer"
    return EngineError(" ".join(text.split()), hint=hint)
