"""What the entries of a Delta log did to files and their deletion vectors between two versions."""

from __future__ import annotations

import base64
import json
import os
import uuid
from typing import Any
from urllib.parse import unquote

from viewkeep.engine.delta_entries import actions, footer_rows
from viewkeep.engine.table_format import LostHistory, Snapshot

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_UUID = 20
"""Signs that a uuid takes in such a text."""


class Moves:
    def __init__(self, before: Snapshot, after: Snapshot) -> None:
        self.location = after.location
        self.data_changed = False
        """Commits that only move rows to other files do not count."""
        self.rewrites = False
        """Whether a file left the table together with rows."""
        self.metadata = False
        self.inserted = self.deleted = 0
        self.feed: set[str] = set()
        """Files that the change feed is made of: its own, and all that came and went in between."""
        self._first: dict[str, Any] = {}
        self._last: dict[str, Any] = {}
        for version in range(before.version + 1, after.version + 1):
            self._read(version)
        was, now = {f.path for f in before.files}, {f.path for f in after.files}
        same = {p for p in was & now if self._first.get(p) == self._last.get(p)}
        # A name stands for every file that has it, or a file that stayed would be read on one side only.
        moved = {os.path.basename(p) for p in self._last if p not in same}
        self.came = tuple(f for f in after.files if os.path.basename(f.path) in moved)
        self.gone = tuple(f for f in before.files if os.path.basename(f.path) in moved)

    @property
    def vectors(self) -> bool:
        """Whether a file that came or went has a deletion vector."""
        came = any(self._last.get(f.path) for f in self.came)
        return came or any(self._first.get(f.path) for f in self.gone)

    @property
    def old_vectors(self) -> list[str]:
        """Files of deletion vectors that the earlier version is read with."""
        return self._vector_files([v for f in self.gone if (v := self._first.get(f.path))])

    def _vector_files(self, vectors: list[Any]) -> list[str]:
        return [path for vector in vectors if (path := _vector_file(self.location, vector))]

    def _read(self, version: int) -> None:
        added: dict[str, Any] = {}
        removed: dict[str, Any] = {}
        feed: list[str] = []
        try:
            for action in actions(self.location, version):
                self.metadata |= "metaData" in action
                if body := action.get("add"):
                    added[self._path(body)] = body
                elif body := action.get("remove"):
                    removed[self._path(body)] = body
                elif body := action.get("cdc"):
                    feed.append(self._path(body))
        except FileNotFoundError:
            raise LostHistory(f"the log entry of its version {version} is gone") from None
        except (OSError, ValueError) as error:
            raise LostHistory(f"the log entry of its version {version} cannot be read: {error}") from error
        for path in added.keys() | removed.keys():
            came, went = added.get(path), removed.get(path)
            # An entry may name a file again without taking it out first: then it is as it was.
            earlier, later = went or added[path], came or removed[path]
            self._first.setdefault(path, earlier.get("deletionVector"))
            self._last[path] = came.get("deletionVector") if came else None
            if later.get("dataChange", True):
                self.data_changed = True
                self.rewrites |= went is not None
                if not feed:
                    self._count(path, came, went)
        vectors = [v for body in (*added.values(), *removed.values()) if (v := body.get("deletionVector"))]
        self.feed |= {*feed, *added, *removed, *self._vector_files(vectors)}
        rows = sum(footer_rows(path) for path in feed if os.path.exists(path))
        self.inserted, self.deleted = self.inserted + rows, self.deleted + rows

    def _count(self, path: str, came: Any, went: Any) -> None:
        if came and went:
            fewer = _marked(came) - _marked(went)
            self.inserted, self.deleted = self.inserted + max(-fewer, 0), self.deleted + max(fewer, 0)
        elif came:
            self.inserted += _rows(path, came)
        else:
            self.deleted += _rows(path, went)

    def _path(self, body: Any) -> str:
        return os.path.join(self.location, unquote(body["path"]))


def columns_of_both(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """The columns that two versions share. One that has another type now, or is another one of the same name,
    would make rows differ that no commit has changed."""
    was, now = _columns(before), _columns(after)
    for name in was.keys() & now.keys():
        if was[name] != now[name]:
            raise LostHistory(f"its column {name!r} is not the same any more")
    return tuple(name for name in now if name in was)


def _columns(snapshot: Snapshot) -> dict[str, tuple[Any, Any]]:
    fields = json.loads(snapshot.schema)["fields"]
    # Columns of a table that was not mapped from its beginning keep their names in its files.
    return {f["name"]: (f["type"], f["metadata"].get("delta.columnMapping.physicalName", f["name"])) for f in fields}


def _marked(body: Any) -> int:
    """Rows that a deletion vector takes out of a file."""
    vector = body.get("deletionVector")
    return int(vector["cardinality"]) if vector else 0


def _rows(path: str, body: Any) -> int:
    known = json.loads(body.get("stats") or "{}").get("numRecords")
    if known is None:
        known = footer_rows(path) if os.path.exists(path) else 0
    return int(known) - _marked(body)


def _vector_file(location: str, vector: Any) -> str | None:
    """Where a deletion vector is stored, if in a file beside the data.

    >>> _vector_file("/t", {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^"})
    '/t/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin'
    """
    if vector["storageType"] != "u":
        return None
    text = vector["pathOrInlineDv"]
    prefix, encoded = text[:-_UUID], text[-_UUID:]
    name = uuid.UUID(bytes=base64.b85decode(encoded.translate(str.maketrans(_Z85, _B85))))
    return os.path.join(location, prefix, f"deletion_vector_{name}.bin")
