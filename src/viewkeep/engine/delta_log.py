"""Delta Lake through its log alone: delta-rs in the driver, no jar in Spark.

Spark reads and writes the Parquet files; what belongs to a table is read here and committed here.
Tables whose files mean something else than their rows (deletion vectors, column mapping) are
refused by the name of the feature.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from viewkeep.engine.delta_entries import (
    LOG,
    MARK,
    MOVED,
    RECORDED,
    Commit,
    LoggedFile,
    commit_info,
    data_file,
    entry_path,
    footer_rows,
    has_mark,
    parquet_files,
)
from viewkeep.engine.delta_features import brief, diagnosis, refuse_writing, refused
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
_HOOKS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
_KEPT_SNAPSHOTS = 200
Written = tuple[int, ...]
_WRITABLE = "is there room on the disk, and may the folder be written?"


class DeltaLog:
    """Snapshots are remembered, the newest of them: a version of a table never changes."""

    def __init__(self) -> None:
        self._snapshots: dict[tuple[str, str, int, Written], Snapshot] = {}
        self._newest: dict[str, tuple[Written, Written, Snapshot]] = {}
        """By location: by what the entry of the newest version is known, and the checkpoint of when it was read."""

    def is_table(self, location: str) -> bool:
        return os.path.isdir(os.path.join(location, LOG))

    # ------------------------------------------------------------------ reading
    def snapshot(self, location: str, version: int | None = None) -> Snapshot:
        if version is None and (known := self._still_newest(location)):
            return known
        checkpoint = _checkpoint(location)  # before the table: what is written meanwhile must not pass for known
        try:
            found = self._read(location, DeltaTable(location, version=version))
            if version is None and (written := _written(location, found.version)):
                self._newest[location] = (written, checkpoint, found)
            return found
        except TableNotFoundError:
            raise EngineError(f"{location!r} is not a Delta table", hint="is the path right?") from None
        except (DeltaError, OSError) as error:
            if version is not None:
                raise LostHistory(f"version {version} cannot be read any more: {brief(error)}") from error
            raise diagnosis(location, error) from error
        except LostHistory as lost:
            if version is not None:
                raise
            raise EngineError(f"table {location!r} cannot be read: {lost}", hint="restore its files") from lost

    def _still_newest(self, location: str) -> Snapshot | None:
        """What was the newest version when it was last asked for, if its entry is still there and no other follows.

        The next one may have come and gone: entries are cleaned up, but only after a checkpoint."""
        written, checkpoint, snapshot = self._newest.get(location, (None, None, None))
        if snapshot is None or _written(location, snapshot.version) != written or _checkpoint(location) != checkpoint:
            return None
        return None if os.path.exists(entry_path(location, snapshot.version + 1)) else snapshot

    def _read(self, location: str, table: DeltaTable) -> Snapshot:
        metadata, version = table.metadata(), table.version()
        # A folder that was copied has the id of the first, and one that an older one took the place of has
        # versions that come again.
        key = (location, str(metadata.id), version, _written(location, version))
        if key not in self._snapshots:
            by_version = self._by_version(location, table)
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
                by_version,
                self._guarded(table),
            )
        return self._snapshots[key]

    def _by_version(self, location: str, table: DeltaTable) -> bool:
        """Whether only the engine can tell the rows; here there is none that could."""
        if error := refused(location, table):
            raise error
        return False

    def _guarded(self, table: DeltaTable) -> bool:
        return False

    def changes(self, after: Snapshot, since: int) -> Change:
        """Commit by commit: what viewkeep recorded, else the change feed where it is smaller, else files."""
        if after.version == since:
            return Change(Kind.NOTHING)
        files: dict[LoggedFile, int] = {}
        recorded: list[DataFile] = []
        feed: list[DataFile] = []
        inserted = deleted = 0
        told: tuple[int, int] | None = (0, 0)  # by the writers of rewritten files, as long as all of them do
        for version in range(since + 1, after.version + 1):
            commit = Commit(after.location, version)
            if commit.new_schema is not None and _fields(commit.new_schema) != _fields(after.schema):
                raise LostHistory(f"its columns changed in version {version}")
            if commit.recorded is not None:
                path = os.path.join(after.location, commit.recorded.path)
                recorded += parquet_files(path)
                inserted, deleted = inserted + commit.recorded.inserted, deleted + commit.recorded.deleted
                continue
            if commit.feed and sum(f.size for f in commit.feed) < sum(commit.sizes):
                feed += commit.feed
                inserted, deleted = inserted + commit.feed_rows, deleted + commit.feed_rows
                continue
            if after.partitioned_by and not all(partition for (_, partition), _ in commit.files):
                raise LostHistory(f"version {version} does not say to which partition its files belong")
            for file, sign in commit.files:
                files[file] = files.get(file, 0) + sign
            if told is not None and commit.files:
                told = (told[0] + commit.moved[0], told[1] + commit.moved[1]) if commit.moved else None
        added = tuple(data_file(*f) for f, n in files.items() if n > 0)
        removed = tuple(data_file(*f) for f, n in files.items() if n < 0)
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

    def info(self, snapshot: Snapshot, name: str) -> str | None:
        return commit_info(snapshot.location, snapshot.version, name)

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
        replace: bool = False,
    ) -> None:
        try:
            os.makedirs(location, exist_ok=True)
            create_table_with_add_actions(
                location,
                Schema.from_json(schema),
                [_add(f) for f in files],
                mode="overwrite" if replace else "error",
                description=note or None,
                partition_by=list(partitioned_by),
                commit_properties=_properties(info, positions),
            )
        except (DeltaError, OSError) as error:
            raise EngineError(f"table {location!r} cannot be made: {brief(error)}", hint=_WRITABLE) from error

    def add_columns(self, snapshot: Snapshot, schema: str) -> None:
        """Columns at the end, NULL in all rows that are there."""
        try:
            DeltaTable(snapshot.location, version=snapshot.version).alter.add_columns(
                Schema.from_json(schema).fields, commit_properties=_properties(None, None)
            )
        except (DeltaError, OSError) as error:
            raise self._failed(snapshot, error) from error

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
        mark = uuid.uuid4().hex
        try:
            table = DeltaTable(snapshot.location, version=snapshot.version)
            refuse_writing(snapshot.location, table)
            table.create_write_transaction(
                [*(_add(f) for f in added), *gone],
                "append",
                table.schema(),
                partition_by=list(snapshot.partitioned_by) or None,
                commit_properties=_properties({**(info or {}), MARK: mark}, positions, recorded, moved),
                post_commithook_properties=_HOOKS,
            )
        except (DeltaError, OSError) as error:
            # What comes after a commit, a checkpoint say, may fail too: whoever is told of a failure removes files.
            if not has_mark(snapshot, mark):
                raise self._failed(snapshot, error) from error
        return snapshot.version + 1

    def _failed(self, snapshot: Snapshot, error: Exception) -> CommitConflict | EngineError:
        if os.path.exists(entry_path(snapshot.location, snapshot.version + 1)):
            return CommitConflict(f"table {snapshot.location!r} has moved on from version {snapshot.version}")
        return EngineError(f"table {snapshot.location!r} cannot be written: {brief(error)}", hint=_WRITABLE)


def _written(location: str, version: int) -> Written:
    """By what an entry is told from another one of the same name; nothing where it was cleaned up."""
    return _stamp(entry_path(location, version))


def _checkpoint(location: str) -> Written:
    """By what the last checkpoint is told from another one; nothing where there is none."""
    return _stamp(os.path.join(location, LOG, "_last_checkpoint"))


def _stamp(path: str) -> Written:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_ino, found.st_size)


def arrow_schema(schema: str) -> pa.Schema:
    """The Arrow types in which rows of a table are written."""
    return pa.schema(Schema.from_json(schema).to_arrow())


def _fields(schema: str) -> list[tuple[str, Any]]:
    return [(f["name"], f["type"]) for f in json.loads(schema)["fields"]]


def _files(location: str, table: DeltaTable) -> Iterator[DataFile]:
    actions = pa.table(table.get_add_actions(flatten=True))
    columns: dict[str, dict[str, list[Any]]] = {"min": {}, "max": {}, "null_count": {}, "partition": {}}
    for name in actions.column_names:
        kind, dot, column = name.partition(".")
        if dot and kind in columns:
            columns[kind][column] = actions.column(name).to_pylist()
    paths, sizes = actions.column("path").to_pylist(), actions.column("size_bytes").to_pylist()
    counted = "num_records" in actions.column_names
    counts: list[int | None] = actions.column("num_records").to_pylist() if counted else [None] * len(paths)

    def at(kind: str, i: int) -> dict[str, Any]:
        return {c: values[i] for c, values in columns[kind].items() if values[i] is not None}

    for i, relative in enumerate(paths):
        path = os.path.join(location, unquote(relative))
        count = counts[i]
        rows = footer_rows(path) if count is None else count
        # An empty text stands for NULL: partition columns cannot tell them apart.
        values = {c: v[i] if v[i] != "" else None for c, v in columns["partition"].items()}
        known = {c: v for c, v in values.items() if v is not None}
        nulls = {c: rows if v is None else 0 for c, v in values.items()}
        yield DataFile(
            path,
            rows,
            sizes[i],
            at("min", i) | known,
            at("max", i) | known,
            at("null_count", i) | nulls,
            {c: _partition_text(v) for c, v in values.items()},
        )


def _partition_text(value: Any) -> str | None:
    """A value of a partition column as logs spell it."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S.%f")
        case _:
            return str(value)


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
        kept[MOVED] = json.dumps(moved)
    if recorded is not None:
        kept[RECORDED] = json.dumps({"path": recorded.path, "inserted": recorded.inserted, "deleted": recorded.deleted})
    return CommitProperties(
        custom_metadata=kept or None,
        max_commit_retries=0,  # at this version or not at all: what was computed holds for this one only
        app_transactions=[Transaction(n, v) for n, v in (positions or {}).items()],
    )
