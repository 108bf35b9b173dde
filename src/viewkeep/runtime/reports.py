"""What viewkeep tells after it did something."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from datetime import datetime

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class RefreshReport:
    """One refresh of one view; also one entry of its history."""

    view: str
    strategy: str
    """"classical", "foreign-key", "recompute" or "unchanged"."""
    reason: str
    rows_inserted: int = 0
    rows_deleted: int = 0
    seconds: float = 0.0
    versions: dict[str, int] = field(default_factory=dict)
    """The version of each source that the view now reflects."""
    version: int = 0
    """The view's own version: give it to `changes(view, since=…)`."""
    changed_rows: int = 0
    """Source rows that this refresh consumed."""
    predicted_rows: int = 0
    """Source rows that the chooser expected the chosen way to read."""
    rows_read: int = 0
    """Rows of the files that were handed to the engine, after pruning; 0 where the engine does not tell."""
    bytes_read: int = 0
    jobs: int = 0
    """Spark jobs launched; 0 on other engines."""
    at: datetime | None = None
    dropped: dict[str, str] = field(default_factory=dict)
    """Foreign keys that this refresh could not rely on, with the reason."""
    experience: dict[str, tuple[int, int, float, int]] = field(default_factory=dict)
    """Of the incremental refreshes after each kind of change: rows that had changed and rows that were read, the last
    time; the fewest seconds; how many there were."""
    full_seconds: float = 0.0
    """What running the whole query took when it was last done; 0 where nobody looked."""

    def __str__(self) -> str:
        return (
            f"{self.view}: {self.strategy}, +{self.rows_inserted} −{self.rows_deleted} rows "
            f"in {self.seconds * 1000:.1f} ms ({self.reason})"
        )


def entry_of(report: RefreshReport) -> str:
    """A report as an entry of a view's history."""
    told = {f.name: getattr(report, f.name) for f in fields(report)}  # asdict would copy all of it first
    return json.dumps({**told, "at": report.at.isoformat() if report.at else None})


def report_of(entry: str) -> RefreshReport:
    found = json.loads(entry)
    experience = {kind: tuple(seen) for kind, seen in found.pop("experience", {}).items()}
    at = datetime.fromisoformat(found.pop("at")) if found["at"] else None
    return RefreshReport(**{**found, "at": at}, experience=experience)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Whether a view equals its query over the tables it has seen so far."""

    view: str
    equal: bool
    missing: pa.Table
    """Rows the query has and the view lacks; the first of them."""
    extra: pa.Table
    """Rows the view has and the query does not; the first of them."""
    missing_count: int
    extra_count: int
    versions: dict[str, int]
    keys: tuple[str, ...] = ()
    """Declared keys that are trusted and do not hold, in words."""
    notes: tuple[str, ...] = ()
    """Foreign keys that do not hold and are checked at each refresh: the view is right all the same."""

    def __str__(self) -> str:
        parts = ["equal to its query"] if self.equal and not self.keys else []
        if not self.equal:
            parts.append(f"{self.missing_count} rows missing, {self.extra_count} rows too many")
        return f"{self.view}: " + "; ".join([*parts, *self.keys, *self.notes])


@dataclass(frozen=True, slots=True)
class KeyCheck:
    """What was found when a foreign key was looked at."""

    key: str
    """As it is written: table(columns) → parent(columns)."""
    trust: str
    """"checked", "enforced", or "engine" for the database's own."""
    orphans: int | None = None
    """Rows that point at nothing; None where nobody looked."""
    duplicates: int | None = None
    """Keys that more than one row of the parent has."""

    @property
    def holds(self) -> bool:
        return not self.orphans and not self.duplicates

    def __str__(self) -> str:
        if self.orphans is None:
            return f"foreign key {self.key}: trusted, not looked at"
        if self.holds:
            return f"foreign key {self.key} holds"
        found = []
        if self.orphans:
            found.append("1 row points at nothing" if self.orphans == 1 else f"{self.orphans:,} rows point at nothing")
        if self.duplicates:
            several = "1 key is" if self.duplicates == 1 else f"{self.duplicates:,} keys are"
            found.append(f"{several} there more than once")
        return f"foreign key {self.key} does not hold: {' and '.join(found)}"


@dataclass(frozen=True, slots=True)
class ViewStatus:
    """One line of `viewkeep status`."""

    view: str
    policy: str
    refresh: str
    strategy: str
    version: int
    pending: int
    """Source rows that changed since the last refresh."""
    incremental: str
    """"yes", or the reason why not."""
    invalid: str | None
    sources: tuple[str, ...]
    as_of: datetime | None = None
    """The time that the view shows, where its rows depend on the current time."""
