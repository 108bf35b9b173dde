"""What viewkeep tells after it did something."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
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

    def __str__(self) -> str:
        return (
            f"{self.view}: {self.strategy}, +{self.rows_inserted} −{self.rows_deleted} rows "
            f"in {self.seconds * 1000:.1f} ms ({self.reason})"
        )


def entry_of(report: RefreshReport) -> str:
    """A report as an entry of a view's history."""
    return json.dumps({**asdict(report), "at": report.at.isoformat() if report.at else None})


def report_of(entry: str) -> RefreshReport:
    found = json.loads(entry)
    return RefreshReport(**{**found, "at": datetime.fromisoformat(found["at"]) if found["at"] else None})


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
    """Declared keys that do not hold, in words."""

    def __str__(self) -> str:
        if self.equal and not self.keys:
            return f"{self.view}: equal to its query"
        parts = [] if self.equal else [f"{self.missing_count} rows missing, {self.extra_count} rows too many"]
        return f"{self.view}: " + "; ".join([*parts, *self.keys])


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
