"""What viewkeep asks of a table format on a lake: snapshots by version, what changed between two of
them, and commits that happen at the version they were made for or not at all.

Everything here is read from and written to a table's log, in the driver, in milliseconds: no rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file with what its log entry says of it."""

    path: str
    """Absolute."""
    rows: int
    size: int
    low: Mapping[str, Any] = field(default_factory=dict)
    """Smallest value of each column for which it is known."""
    high: Mapping[str, Any] = field(default_factory=dict)
    nulls: Mapping[str, int] = field(default_factory=dict)
    partition: Mapping[str, str | None] = field(default_factory=dict)
    """Of a partitioned table: values of columns that the file itself does not have."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table at one version."""

    location: str
    id: str
    """Stays for as long as the table lives: one that is made again has another."""
    version: int
    schema: str
    """As JSON, the way Spark writes its own schemas."""
    files: tuple[DataFile, ...]
    partitioned_by: tuple[str, ...] = ()
    note: str = ""
    """Free text that was given when the table was made."""
    by_version: bool = False
    """Its files are not its rows: they are read by version, through the engine's own reader of the format."""
    guarded: bool = False
    """Whoever writes it must keep rules that files alone may break."""

    @property
    def through_engine(self) -> bool:
        """Written by the engine's own writer of the format."""
        return self.by_version or self.guarded

    @property
    def rows(self) -> int:
        """At most: rows that are deleted by a vector beside their file still count."""
        return sum(f.rows for f in self.files)


class Kind(Enum):
    NOTHING = "nothing"
    APPENDED = "appended"
    MUTATED = "mutated"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class Between:
    """Two versions of a table, to be compared by the engine's own reader of the format."""

    since: int
    until: int
    columns: tuple[str, ...]
    """Those that both versions have."""
    came: tuple[DataFile, ...]
    """Files in which the later version has other rows than the earlier one; all other files cancel out."""
    gone: tuple[DataFile, ...]
    """The same, the other way round."""
    feed: bool = False
    """The table keeps a change feed from one version to the other."""


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to a table between two versions, in files."""

    kind: Kind
    added: tuple[DataFile, ...] = ()
    removed: tuple[DataFile, ...] = ()
    recorded: tuple[DataFile, ...] = ()
    """Files of changed rows with a weight, written beside a commit by viewkeep."""
    feed: tuple[DataFile, ...] = ()
    """Files of the table's change feed, where its writer keeps one."""
    inserted: int = 0
    """Rows that came, at most: a rewritten file counts with all its rows, unless its writer told better."""
    deleted: int = 0
    between: Between | None = None
    """In place of files, for a table that is read by version."""

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All that are read to find out the rows."""
        compared = (*self.between.came, *self.between.gone) if self.between else ()
        return (*self.added, *self.removed, *self.recorded, *self.feed, *compared)

    @property
    def cancels(self) -> bool:
        """Whether a row may be among those that came and among those that went."""
        return bool(self.removed or self.feed or (self.between and (self.between.gone or self.between.feed)))


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that was written and is not part of any table yet."""

    path: str
    """Relative to the table."""
    rows: int
    size: int
    statistics: str
    """As they stand in a log entry."""
    partition: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A folder of changed rows that goes with a commit."""

    path: str
    """Relative to the table."""
    inserted: int
    deleted: int


class LostHistory(Exception):
    """What changed since a version cannot be told any more; the message says why."""


class CommitConflict(Exception):
    """Somebody else committed first."""


class TableFormat(Protocol):
    def is_table(self, location: str) -> bool: ...

    def snapshot(self, location: str, version: int | None = None) -> Snapshot:
        """The newest version, or the one asked for; LostHistory where that one is gone."""
        ...

    def changes(self, after: Snapshot, since: int) -> Change:
        """What changed after version `since`, up to a snapshot; LostHistory where that cannot be told."""
        ...

    def positions(self, snapshot: Snapshot, names: Sequence[str]) -> list[int | None]:
        """Numbers that commits left under names."""
        ...

    def info(self, snapshot: Snapshot, name: str) -> str | None:
        """What the very commit of a snapshot says under a name."""
        ...

    def history(self, location: str, name: str) -> list[tuple[int, str]]:
        """Versions whose commit has an info of this name, oldest first."""
        ...

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
        """A new table; with `replace` in place of the one that is there, in one commit."""
        ...

    def add_columns(self, snapshot: Snapshot, schema: str) -> None:
        """Columns that are NULL in all rows; CommitConflict where another commit was first."""
        ...

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
        """Move a table from a snapshot to its next version, the number of which is returned; CommitConflict
        where another commit was first. Whatever it raises, it has not happened.

        `info` is kept with the commit; `positions` are numbers by name that stay readable for ever;
        `moved`: how many rows really come and go, where files are rewritten that hold others too."""
        ...
