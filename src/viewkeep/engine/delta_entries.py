"""The entries of a Delta log, one JSON file a version, and the files that they name."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from viewkeep.engine.table_format import DataFile, LostHistory, Recorded, Snapshot

LOG = "_delta_log"
RECORDED = "viewkeep.changes"
"""The commit info that names a file of changed rows."""
MOVED = "viewkeep.moved"
"""The commit info that says how many rows came and went."""
MARK = "viewkeep.commit"
"""The commit info by which a commit is known again."""
LoggedFile = tuple[str, tuple[tuple[str, str | None], ...]]
"""A path, and the values of the columns that the table is partitioned by."""


class Commit:
    """One entry of a log, read as it stands in its file."""

    def __init__(self, location: str, version: int) -> None:
        self.location = location
        self.files: list[tuple[LoggedFile, int]] = []
        self.sizes: list[int] = []
        self.feed: list[DataFile] = []
        self.feed_rows = 0
        self.recorded: Recorded | None = None
        self.moved: list[int] | None = None
        self.new_schema: str | None = None
        try:
            for action in actions(location, version):
                self._action(action)
        except FileNotFoundError:
            raise LostHistory(f"the log entry of its version {version} is gone") from None
        except (OSError, ValueError) as error:
            raise LostHistory(f"the log entry of its version {version} cannot be read: {error}") from error

    def _action(self, action: dict[str, Any]) -> None:
        for kind, body in action.items():
            match kind:
                case "add" if body.get("dataChange", True):
                    self.files.append((self._file(body), 1))
                    self.sizes.append(body.get("size") or 0)
                case "remove" if body.get("dataChange", True):
                    self.files.append((self._file(body), -1))
                    self.sizes.append(body.get("size") or 0)
                case "cdc":
                    path, partition = self._file(body)
                    found = data_file(path, partition)
                    self.feed.append(found)
                    self.feed_rows += found.rows
                case "metaData":
                    self.new_schema = body["schemaString"]
                case "commitInfo":
                    if body.get(RECORDED):
                        self.recorded = Recorded(**json.loads(body[RECORDED]))
                    if body.get(MOVED):
                        self.moved = json.loads(body[MOVED])
                case _:
                    pass

    def _file(self, body: dict[str, Any]) -> LoggedFile:
        if body.get("deletionVector"):
            raise LostHistory("its rows are deleted by deletion vectors, which the log alone does not show")
        values = body.get("partitionValues") or {}
        return os.path.join(self.location, unquote(body["path"])), tuple((c, v or None) for c, v in values.items())


def entry_path(location: str, version: int) -> str:
    return os.path.join(location, LOG, f"{version:020}.json")


def actions(location: str, version: int) -> Iterator[dict[str, Any]]:
    with open(entry_path(location, version), encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def commit_info(location: str, version: int, name: str) -> str | None:
    """What the commit of a version says under a name; None where it says nothing or is gone."""
    try:
        written = list(actions(location, version))
    except (OSError, ValueError):
        return None
    return next((i[name] for action in written if name in (i := action.get("commitInfo", {}))), None)


def has_mark(snapshot: Snapshot, mark: str) -> bool:
    return commit_info(snapshot.location, snapshot.version + 1, MARK) == mark


def data_file(path: str, partition: tuple[tuple[str, str | None], ...] = ()) -> DataFile:
    """A file that may not be part of the table any more."""
    return DataFile(path, footer_rows(path), os.path.getsize(path), partition=dict(partition))


def footer_rows(path: str) -> int:
    try:
        return int(pq.read_metadata(path).num_rows)
    except FileNotFoundError:
        raise LostHistory(f"its file {os.path.basename(path)!r} is gone: the history was vacuumed") from None


def parquet_files(folder: str) -> list[DataFile]:
    if not os.path.isdir(folder):
        raise LostHistory(f"its recorded changes {os.path.basename(folder)!r} are gone")
    found = [os.path.join(folder, n) for n in sorted(os.listdir(folder)) if n.endswith(".parquet")]
    return [f for f in map(data_file, found) if f.rows]
