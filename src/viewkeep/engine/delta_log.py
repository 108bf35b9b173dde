"""Delta Lake through its log alone: delta-rs in the driver, no jar in Spark.

Spark reads and writes the Parquet files; what belongs to a table is read here and committed here.
Tables whose files mean something else than their rows (deletion vectors, column mapping) are
refused by the name of the feature.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from viewkeep.engine.table_format import (
    Change,
    CommitConflict,
    DataFile,
    Kind,
    LostHistory,
    NewFile,
    Recorded,
    Snapshot,
)
from viewkeep.errors import EngineError

CHANGES_FOLDER = "_viewkeep_changes"
"""Inside a table's folder; the underscore keeps other programs from taking it for data."""
_RECORDED = "viewkeep.changes"
"""The commit info that names a file of changed rows."""
_MOVED = "viewkeep.moved"
"""The commit info that says how many rows came and went."""
_READABLE = frozenset({"timestampNtz"})
_LOG = "_delta_log"
_HOOKS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
_KEPT_SNAPSHOTS = 200


class DeltaLog:
    """Snapshots are remembered, the newest of them: a version of a table never changes."""

    def __init__(self) -> None:
        self._snapshots: dict[tuple[str, int], Snapshot] = {}

    def is_table(self, location: str) -> bool:
        return os.path.isdir(os.path.join(location, _LOG))

    # ------------------------------------------------------------------ reading
    def snapshot(self, location: str, version: int | None = None) -> Snapshot:
        try:
            return self._read(location, DeltaTable(location, version=version))
        except TableNotFoundError:
            raise EngineError(f"{location!r} is not a Delta table", hint="is the path right?") from None
        except (DeltaError, OSError) as error:
            text = " ".join(str(error).split())
            if version is not None:
                raise LostHistory(f"version {version} cannot be read any more: {text}") from error
            raise EngineError(f"the log of table {location!r} cannot be read: {text}") from error

    def _read(self, location: str, table: DeltaTable) -> Snapshot:
        metadata, version = table.metadata(), table.version()
        key = (str(metadata.id), version)
        if key not in self._snapshots:
            _refuse_features(location, table)
            if len(self._snapshots) >= _KEPT_SNAPSHOTS:
                del self._snapshots[next(iter(self._snapshots))]
            self._snapshots[key] = Snapshot(
                location,
                str(metadata.id),
                version,
                table.schema().to_json(),
                tuple(_files(location, table)),
                tuple(metadata.partition_columns),
                metadata.description or "",
            )
        return self._snapshots[key]

    def changes(self, after: Snapshot, since: int) -> Change:
        """Commit by commit: what viewkeep recorded, else the change feed where it is smaller, else files."""
        if after.version == since:
            return Change(Kind.NOTHING)
        files: dict[str, int] = {}
        recorded: list[DataFile] = []
        feed: list[DataFile] = []
        inserted = deleted = 0
        told: tuple[int, int] | None = (0, 0)  # by the writers of rewritten files, as long as all of them do
        for version in range(since + 1, after.version + 1):
            commit = _Commit(after.location, version)
            if commit.new_schema is not None and _fields(commit.new_schema) != _fields(after.schema):
                raise LostHistory(f"its columns changed in version {version}")
            if commit.recorded is not None:
                path = os.path.join(after.location, commit.recorded.path)
                recorded += _parquet_files(path)
                inserted, deleted = inserted + commit.recorded.inserted, deleted + commit.recorded.deleted
                continue
            if commit.feed and sum(f.size for f in commit.feed) < sum(commit.sizes):
                feed += commit.feed
                inserted, deleted = inserted + commit.feed_rows, deleted + commit.feed_rows
                continue
            for path, sign in commit.files:
                files[path] = files.get(path, 0) + sign
            if told is not None and commit.files:
                told = (told[0] + commit.moved[0], told[1] + commit.moved[1]) if commit.moved else None
        added = tuple(_data_file(p) for p, n in files.items() if n > 0)
        removed = tuple(_data_file(p) for p, n in files.items() if n < 0)
        if told is None:
            told = sum(f.rows for f in added), sum(f.rows for f in removed)
        inserted, deleted = inserted + told[0], deleted + told[1]
        if not (added or removed or recorded or feed):
            return Change(Kind.NOTHING)
        kind = Kind.MUTATED if deleted else Kind.APPENDED
        if deleted and not recorded and not feed and {f.path for f in after.files} <= {f.path for f in added}:
            kind = Kind.REPLACED
        return Change(kind, added, removed, tuple(recorded), tuple(feed), inserted, deleted)

    def positions(self, snapshot: Snapshot, names: Sequence[str]) -> list[int | None]:
        table = DeltaTable(snapshot.location, version=snapshot.version)
        return [table.transaction_version(name) for name in names]

    def history(self, location: str, name: str) -> list[tuple[int, str]]:
        entries = DeltaTable(location).history()
        found = [(int(e["version"]), str(e[name])) for e in entries if e.get(name)]
        return sorted(found)

    # ------------------------------------------------------------------ writing
    def create(
        self,
        location: str,
        schema: str,
        files: Sequence[NewFile] = (),
        note: str = "",
        info: Mapping[str, str] | None = None,
        positions: Mapping[str, int] | None = None,
        partitioned_by: Sequence[str] = (),
    ) -> None:
        os.makedirs(location, exist_ok=True)
        try:
            create_table_with_add_actions(
                location,
                Schema.from_json(schema),
                [_add(f) for f in files],
                mode="error",
                description=note or None,
                partition_by=list(partitioned_by),
                commit_properties=_properties(info, positions),
            )
        except (DeltaError, OSError) as error:
            raise EngineError(f"table {location!r} cannot be made: {' '.join(str(error).split())}") from error

    def commit(
        self,
        snapshot: Snapshot,
        added: Sequence[NewFile] = (),
        removed: Sequence[DataFile] = (),
        recorded: Recorded | None = None,
        info: Mapping[str, str] | None = None,
        positions: Mapping[str, int] | None = None,
        moved: tuple[int, int] | None = None,
    ) -> int:
        now = int(time.time() * 1000)
        gone = [
            RemoveAction(os.path.relpath(f.path, snapshot.location), True, now, f.size, dict(f.partition))
            for f in removed
        ]
        table = DeltaTable(snapshot.location, version=snapshot.version)
        try:
            table.create_write_transaction(
                [*(_add(f) for f in added), *gone],
                "append",
                table.schema(),
                partition_by=list(snapshot.partitioned_by) or None,
                commit_properties=_properties(info, positions, recorded, moved),
                post_commithook_properties=_HOOKS,
            )
        except CommitFailedError as error:
            raise CommitConflict(f"table {snapshot.location!r} has moved on from version {snapshot.version}") from error
        except (DeltaError, OSError) as error:
            raise EngineError(
                f"table {snapshot.location!r} cannot be written: {' '.join(str(error).split())}"
            ) from error
        return snapshot.version + 1


class _Commit:
    """One entry of a log, read as it stands in its file."""

    def __init__(self, location: str, version: int) -> None:
        path = os.path.join(location, _LOG, f"{version:020}.json")
        self.location = location
        self.files: list[tuple[str, int]] = []
        self.sizes: list[int] = []
        self.feed: list[DataFile] = []
        self.feed_rows = 0
        self.recorded: Recorded | None = None
        self.moved: list[int] | None = None
        self.new_schema: str | None = None
        try:
            with open(path, encoding="utf-8") as lines:
                for line in lines:
                    if line.strip():
                        self._action(json.loads(line))
        except FileNotFoundError:
            raise LostHistory(f"the log entry of its version {version} is gone") from None
        except (OSError, ValueError) as error:
            raise LostHistory(f"the log entry of its version {version} cannot be read: {error}") from error

    def _action(self, action: dict[str, Any]) -> None:
        for kind, body in action.items():
            match kind:
                case "add" if body.get("dataChange", True):
                    self.files.append((self._path(body), 1))
                    self.sizes.append(body.get("size") or 0)
                case "remove" if body.get("dataChange", True):
                    self.files.append((self._path(body), -1))
                    self.sizes.append(body.get("size") or 0)
                case "cdc":
                    found = _data_file(self._path(body))
                    self.feed.append(found)
                    self.feed_rows += found.rows
                case "metaData":
                    self.new_schema = body["schemaString"]
                case "commitInfo":
                    if body.get(_RECORDED):
                        self.recorded = Recorded(**json.loads(body[_RECORDED]))
                    if body.get(_MOVED):
                        self.moved = json.loads(body[_MOVED])
                case _:
                    pass

    def _path(self, body: dict[str, Any]) -> str:
        if body.get("deletionVector"):
            raise LostHistory("its rows are deleted by deletion vectors, which the log alone does not show")
        return os.path.join(self.location, unquote(body["path"]))


def arrow_schema(schema: str) -> pa.Schema:
    """The Arrow types in which rows of a table are written."""
    return pa.schema(Schema.from_json(schema).to_arrow())


def _fields(schema: str) -> list[tuple[str, Any]]:
    return [(f["name"], f["type"]) for f in json.loads(schema)["fields"]]


def _refuse_features(location: str, table: DeltaTable) -> None:
    protocol = table.protocol()
    features = set(protocol.reader_features or ())
    if protocol.min_reader_version == 2 and table.metadata().configuration.get("delta.columnMapping.mode"):
        features.add("columnMapping")
    if unknown := sorted(features - _READABLE):
        raise EngineError(
            f"table {location!r} uses the Delta feature {', '.join(map(repr, unknown))}, "
            "which cannot be read through its log alone",
            hint="use a Spark session with Delta Lake's extension, or turn the feature off for this table",
        )


def _files(location: str, table: DeltaTable) -> Iterator[DataFile]:
    actions = pa.table(table.get_add_actions(flatten=True))
    columns: dict[str, dict[str, list[Any]]] = {"min": {}, "max": {}, "null_count": {}, "partition": {}}
    for name in actions.column_names:
        kind, dot, column = name.partition(".")
        if dot and kind in columns:
            columns[kind][column] = actions.column(name).to_pylist()
    paths, sizes = actions.column("path").to_pylist(), actions.column("size_bytes").to_pylist()
    known = "num_records" in actions.column_names
    counts: list[int | None] = actions.column("num_records").to_pylist() if known else [None] * len(paths)

    def at(kind: str, i: int) -> dict[str, Any]:
        return {c: values[i] for c, values in columns[kind].items() if values[i] is not None}

    for i, relative in enumerate(paths):
        path = os.path.join(location, unquote(relative))
        count = counts[i]
        rows = _footer_rows(path) if count is None else count
        yield DataFile(path, rows, sizes[i], at("min", i), at("max", i), at("null_count", i), at("partition", i))


def _data_file(path: str) -> DataFile:
    """A file that may not be part of the table any more."""
    return DataFile(path, _footer_rows(path), os.path.getsize(path))


def _footer_rows(path: str) -> int:
    try:
        return int(pq.read_metadata(path).num_rows)
    except FileNotFoundError:
        raise LostHistory(f"its file {os.path.basename(path)!r} is gone: the history was vacuumed") from None


def _parquet_files(folder: str) -> list[DataFile]:
    if not os.path.isdir(folder):
        raise LostHistory(f"its recorded changes {os.path.basename(folder)!r} are gone")
    found = [os.path.join(folder, n) for n in sorted(os.listdir(folder)) if n.endswith(".parquet")]
    return [f for f in map(_data_file, found) if f.rows]


def _add(file: NewFile) -> AddAction:
    return AddAction(file.path, file.size, dict(file.partition), int(time.time() * 1000), True, file.statistics)


def _properties(
    info: Mapping[str, str] | None,
    positions: Mapping[str, int] | None,
    recorded: Recorded | None = None,
    moved: tuple[int, int] | None = None,
) -> CommitProperties:
    kept = dict(info or {})
    if moved is not None:
        kept[_MOVED] = json.dumps(moved)
    if recorded is not None:
        kept[_RECORDED] = json.dumps(
            {"path": recorded.path, "inserted": recorded.inserted, "deleted": recorded.deleted}
        )
    return CommitProperties(
        custom_metadata=kept or None,
        max_commit_retries=0,  # at this version or not at all: what was computed holds for this one only
        app_transactions=[Transaction(n, v) for n, v in (positions or {}).items()],
    )
