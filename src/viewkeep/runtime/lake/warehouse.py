"""A folder of Delta tables: which there are, what they hold, and what was declared of them.

    <folder>/orders/_delta_log           a table of the default schema
    <folder>/sales/orders/_delta_log     a table of schema `sales`
    <folder>/_viewkeep/views/…           the stored rows of materialized views, one Delta table each
    <folder>/_viewkeep/tables/…json      keys that were declared, the texts of plain views

Any program may write the tables; nothing of theirs is kept anywhere else.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType
from sqlglot import exp

from viewkeep.catalog import TYPE_SPELLING, Catalog, Column, ForeignKey, Key, Kind, Table, TableName
from viewkeep.engine.spark import DIALECT, cannot_write
from viewkeep.engine.table_format import Snapshot, TableFormat
from viewkeep.errors import CatalogError, ConnectError, EngineError
from viewkeep.runtime.records import foreign_key_from_json, foreign_key_to_json
from viewkeep.strategy import names

DEFAULT_SCHEMA = "default"
FORMAT = 1
_NOT_IN_NAMES = frozenset("/\\:*?[]{}|<>%#.")
_WIDER = {
    # Types that DuckDB has and Spark does not.
    "HUGEINT": "DECIMAL(38, 0)",
    "INT128": "DECIMAL(38, 0)",
    "UBIGINT": "DECIMAL(20, 0)",
    "UINTEGER": "BIGINT",
    "UINT": "BIGINT",
    "USMALLINT": "INT",
    "UTINYINT": "SMALLINT",
}


class Warehouse:
    def __init__(self, folder: str, format_: TableFormat) -> None:
        self.folder, self.format = os.path.abspath(os.path.expanduser(folder)), format_
        self.own = os.path.join(self.folder, names.SCHEMA)
        try:
            for kind in ("views", "tables"):
                os.makedirs(os.path.join(self.own, kind), exist_ok=True)
        except OSError as error:
            raise ConnectError(
                f"warehouse {folder!r} cannot be used: {error.strerror}", hint="check the path"
            ) from None
        known = self._read_json(os.path.join(self.own, "format.json"))
        if known is None:
            _write_json(os.path.join(self.own, "format.json"), {"format": FORMAT})
        elif known["format"] > FORMAT:
            raise ConnectError(
                f"this warehouse was written by a newer viewkeep (format {known['format']}, this one knows {FORMAT})",
                hint="upgrade viewkeep",
            )

    # ------------------------------------------------------------------ tables
    def location(self, table: TableName) -> str:
        return os.path.join(self.folder, *([table.schema] if table.schema else []), table.name)

    def snapshot(self, table: TableName, version: int | None = None) -> Snapshot:
        return self.format.snapshot(self.location(table), version)

    def schemas(self) -> Iterator[str]:
        for entry in _folders(self.folder):
            if not self.format.is_table(entry.path):
                yield entry.name

    def _tables(self) -> Iterator[TableName]:
        for entry in _folders(self.folder):
            if self.format.is_table(entry.path):
                yield TableName(entry.name)
            else:
                for inner in _folders(entry.path):
                    if self.format.is_table(inner.path):
                        yield TableName(inner.name, entry.name)

    def new_name(self, table: TableName) -> TableName:
        """A name that something may be given, spelled as its schema is spelled already."""
        _check_name("table", table.name)
        if table.schema is None or table.schema.lower() == DEFAULT_SCHEMA:
            new = TableName(table.name)
        else:
            schema = self.find_schema(table.schema)
            if schema is None:
                raise CatalogError(
                    f"schema {table.schema!r} does not exist", hint=f"write CREATE SCHEMA {table.schema} first"
                )
            new = TableName(table.name, schema)
        location = self.location(new)
        if os.path.isdir(location) and any(not n.startswith(("_", ".", "vk-")) for n in os.listdir(location)):
            raise CatalogError(
                f"the folder of {str(new)!r} holds something else already",
                hint=f"choose another name, or empty {location}",
            )
        return new

    def find_schema(self, name: str) -> str | None:
        return next((s for s in self.schemas() if s.lower() == name.lower()), None)

    def make_schema(self, name: str, may_exist: bool) -> None:
        _check_name("schema", name)
        taken = [e.name for e in _folders(self.folder) if e.name.lower() == name.lower()]
        if taken and not (may_exist and self.find_schema(name)):
            raise CatalogError(f"{name!r} exists already", hint="choose another name, or write IF NOT EXISTS")
        if not taken:
            with _writing(self.folder):
                os.makedirs(os.path.join(self.folder, name))

    def drop_schema(self, name: str) -> None:
        with _writing(self.folder):
            remove_folder(os.path.join(self.folder, name))

    def catalog(self) -> Catalog:
        """Tables that cannot be read are left out: whoever names one is told why by `unreadable`."""
        tables: list[Table] = []
        for name in self._tables():
            try:
                snapshot = self.snapshot(name)
            except EngineError:
                continue
            tables.append(replace(self._declared(name, snapshot), columns=columns_of(snapshot.schema)))
        for name, record in self._records():
            if "definition" in record:
                columns = tuple(Column(**c) for c in record["columns"])
                tables.append(Table(name, columns, Kind.PLAIN_VIEW, definition=record["definition"]))
        return Catalog.of(tables, DEFAULT_SCHEMA)

    def unreadable(self, table: TableName) -> EngineError | None:
        """Why a table that is there is not in the catalog."""
        if self.format.is_table(self.location(table)):
            try:
                self.snapshot(table)
            except EngineError as error:
                return error
        return None

    def drop_table(self, table: TableName) -> None:
        with _writing(self.folder):
            remove_folder(self.location(table))
            self._forget(table)

    # ------------------------------------------------------------------ what was declared
    def _record_path(self, table: TableName) -> str:
        return os.path.join(self.own, "tables", f"{table.folded}.json")

    def _records(self) -> Iterator[tuple[TableName, dict[str, Any]]]:
        for path in sorted(Path(self.own, "tables").glob("*.json")):
            record = self._read_json(str(path))
            if record is not None:
                yield TableName.parse(record["name"]), record

    def _declared(self, name: TableName, snapshot: Snapshot) -> Table:
        record = self._read_json(self._record_path(name))
        if record is None or record.get("id") != snapshot.id:  # none, or of a table that was there before
            return Table(name, ())
        keys = tuple(Key(tuple(k), enforced=False) for k in record.get("keys", ()))
        foreign = tuple(map(foreign_key_from_json, record.get("foreign_keys", ())))
        return Table(name, (), Kind.BASE, keys, foreign)

    def declare(self, table: TableName, keys: list[Key], foreign_keys: list[ForeignKey]) -> None:
        snapshot = self.snapshot(table)
        before = self._declared(table, snapshot)
        listed = dict.fromkeys(k.columns for k in (*before.keys, *keys))
        kept = [f for f in before.foreign_keys if not any(f.same_as(g) for g in foreign_keys)]
        _write_json(
            self._record_path(table),
            {
                "name": str(table),
                "id": snapshot.id,
                "keys": [list(k) for k in listed],
                "foreign_keys": [foreign_key_to_json(f) for f in (*kept, *foreign_keys)],
            },
        )

    def put_plain_view(self, view: TableName, columns: tuple[Column, ...], definition: str) -> None:
        record = {"name": str(view), "definition": definition, "columns": [asdict(c) for c in columns]}
        _write_json(self._record_path(view), record)

    def drop_plain_view(self, view: TableName) -> None:
        self._forget(view)

    def _forget(self, name: TableName) -> None:
        Path(self._record_path(name)).unlink(missing_ok=True)

    def _read_json(self, path: str) -> dict[str, Any] | None:
        try:
            with open(path, encoding="utf-8") as file:
                found: dict[str, Any] = json.load(file)
                return found
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise CatalogError(f"{path!r} cannot be read: {error}", hint="it is one of viewkeep's own files") from None


# ---------------------------------------------------------------------- types
@lru_cache(maxsize=500)
def columns_of(schema: str) -> tuple[Column, ...]:
    """The columns of a table, from its schema as JSON."""
    struct = StructType.fromJson(json.loads(schema))
    return tuple(Column(f.name, catalog_type(f.dataType.simpleString()), f.nullable) for f in struct.fields)


def catalog_type(spark_type: str) -> str:
    """
    >>> catalog_type("timestamp"), catalog_type("decimal(12,2)")
    ('TIMESTAMPTZ', 'DECIMAL(12, 2)')
    """
    try:
        return exp.DataType.build(spark_type, dialect=DIALECT).sql(dialect=TYPE_SPELLING)
    except Exception:  # a type that sqlglot has no word for: it passes through, nothing is computed with it
        return "UNKNOWN"


def spark_type(catalog_type_: str) -> str:
    """
    >>> spark_type("HUGEINT"), spark_type("TIMESTAMP")
    ('DECIMAL(38, 0)', 'TIMESTAMP_NTZ')
    """
    wider = _WIDER.get(catalog_type_.upper(), catalog_type_)
    return exp.DataType.build(wider, dialect=TYPE_SPELLING, udt=True).sql(dialect=DIALECT)


# ---------------------------------------------------------------------- files
def _folders(path: str) -> list[os.DirEntry[str]]:
    with os.scandir(path) as entries:
        found = [e for e in entries if e.is_dir() and not e.name.startswith(("_", "."))]
    return sorted(found, key=lambda e: e.name)


def _write_json(path: str, data: dict[str, Any]) -> None:
    """All of it or nothing, whatever crashes."""
    beside = f"{path}.{uuid.uuid4().hex}"
    with _writing(os.path.dirname(path)):
        try:
            with open(beside, "w", encoding="utf-8") as file:
                json.dump(data, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        finally:
            Path(beside).unlink(missing_ok=True)


@contextmanager
def _writing(folder: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise cannot_write(folder, error) from error


def _check_name(kind: str, name: str) -> None:
    """A name becomes the name of a folder, and a part of paths that Spark and the log must read alike."""
    if not name or name.startswith(("_", ".", " ")) or name.endswith(" ") or len(name.encode()) > 200:
        raise CatalogError(
            f"{kind} name {name!r} cannot be the name of a folder",
            hint="it must not be empty or long, nor begin with _ or . or a blank",
        )
    if found := [sign for sign in name if sign in _NOT_IN_NAMES or not sign.isprintable()]:
        raise CatalogError(
            f"{kind} name {name!r} has the sign {found[0]!r}, which cannot be in the name of a folder",
            hint="use letters, digits and underscores",
        )


def remove_folder(folder: str) -> None:
    """First out of sight, in one step; then file by file."""
    if os.path.isdir(folder):
        aside = os.path.join(os.path.dirname(folder), f"_dropped-{uuid.uuid4().hex}")
        os.replace(folder, aside)
        shutil.rmtree(aside, ignore_errors=True)
