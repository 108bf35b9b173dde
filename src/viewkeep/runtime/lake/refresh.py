"""Bringing views on a lake up to date: for each one, what changed in its sources, a delta, one commit.

A commit is made for the version of the stored rows that it was computed from; if another refresh
was first it is refused, and this one looks again at what is left to do. A crash before the commit
leaves files that belong to nothing; after it, the positions in it say that the work is done.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from viewkeep.catalog import TableName
from viewkeep.engine.spark import Spark, cannot_write
from viewkeep.engine.table_format import Change, CommitConflict, Kind, LostHistory, Snapshot
from viewkeep.errors import PolicyError, RefreshError, ViewkeepError
from viewkeep.runtime.lake.maintenance import Maintenance, Outcome, Reading, StartOver, write_rows
from viewkeep.runtime.lake.sources import Sources
from viewkeep.runtime.lake.stored import REPORT, StoredView, position_name, positions
from viewkeep.runtime.records import ViewRecord
from viewkeep.runtime.reports import RefreshReport, entry_of
from viewkeep.strategy.choose import Choice, Situation, choose, with_foreign_keys

if TYPE_CHECKING:
    from viewkeep.runtime.lake.database import LakeDatabase

_ATTEMPTS = 10


class LakeRefresher:
    def __init__(self, db: LakeDatabase) -> None:
        self.db = db
        self.spark: Spark = db.spark
        self.format = db.warehouse.format
        self.sources: Sources = db.sources()

    def run(self, order: list[ViewRecord], full: frozenset[str]) -> list[RefreshReport]:
        for record in order:  # every table at one version, before anything is computed
            for source in record.sources:
                if source.folded not in self.db.views:
                    self.sources.now(source)
        return [self._view(record, record.name.folded in full) for record in order]

    # ------------------------------------------------------------------ one view
    def _view(self, record: ViewRecord, full: bool) -> RefreshReport:
        failed: str | None = None
        for attempt in range(_ATTEMPTS):
            stored = self.db.stored.read(record)
            try:
                report = self._attempt(stored, full, failed)
            except CommitConflict:
                time.sleep(0.01 * 2**attempt)  # another refresh was first: look again at what is left to do
                continue
            except StartOver as again:
                failed = str(again)
                continue
            self.sources.pin(record.name, self.db.stored.read(record).snapshot)
            return report
        raise RefreshError(
            f"view {str(record.name)!r} was refreshed {_ATTEMPTS} times at once with another", hint="try again later"
        )

    def _attempt(self, stored: StoredView, full: bool, failed: str | None) -> RefreshReport:
        began, jobs, record = time.perf_counter(), self.spark.jobs, stored.record
        now = {s: self.sources.now(s) for s in record.sources}
        since = positions(self.format, stored, now)
        for source, snapshot in now.items():
            if (position := since[source.folded]) is not None and position > snapshot.version:
                # Another refresh has overtaken this run: what it has consumed cannot be taken back.
                now[source] = self.sources.overtake(source, position)
        changes, lost = self._changes(record, now, since)
        lost = failed or lost
        changed = {s: c for s, c in changes.items() if c.kind is not Kind.NOTHING}
        versions = {str(s): snapshot.version for s, snapshot in now.items()}
        if not changed and not lost and not full:
            return RefreshReport(
                str(record.name), "unchanged", "no source changed", versions=versions, version=stored.snapshot.version,
                seconds=time.perf_counter() - began,
            )  # fmt: skip
        choice = self._choose(record, changed, now, lost, full)
        reading = Reading()
        choice, outcome = self._compute(stored, choice, changed, since, reading)
        report = RefreshReport(
            str(record.name),
            choice.strategy,
            choice.reason,
            outcome.inserted,
            outcome.deleted,
            time.perf_counter() - began,
            versions,
            stored.snapshot.version + 1,
            sum(c.inserted + c.deleted for c in changed.values()),
            choice.predicted_rows,
            reading.rows,
            reading.bytes,
            self.spark.jobs - jobs,
            datetime.now(UTC),
            choice.dropped,
        )
        consumed = {position_name(s, snapshot): versions[str(s)] for s, snapshot in now.items()}
        self._commit(stored, outcome, report, consumed)
        return replace(report, seconds=time.perf_counter() - began)

    def _commit(self, stored: StoredView, outcome: Outcome, report: RefreshReport, consumed: Mapping[str, int]) -> None:
        try:
            self.format.commit(
                stored.snapshot,
                outcome.added,
                outcome.removed,
                outcome.recorded,
                {REPORT: entry_of(report)},
                consumed,
                (outcome.inserted, outcome.deleted),
            )
        except (CommitConflict, ViewkeepError, OSError) as error:
            outcome.discard(stored.snapshot.location)
            if isinstance(error, CommitConflict):
                raise
            raise _unchanged(stored.record, _told(stored, error)) from error

    def _changes(
        self, record: ViewRecord, now: Mapping[TableName, Snapshot], since: Mapping[str, int | None]
    ) -> tuple[dict[str, Change], str | None]:
        """What each source gained and lost, and why that cannot be told, where it cannot."""
        found: dict[str, Change] = {}
        for source, snapshot in now.items():
            position = since[source.folded]
            if position is None:
                return found, f"{str(source)!r} was made anew since the last refresh"
            if position > snapshot.version:
                return found, f"{str(source)!r} went back to version {snapshot.version}: a longer log was there before"
            if position == snapshot.version:
                continue
            try:
                found[source.folded] = self.sources.change(source, position)
            except LostHistory as lost:
                return found, f"the changes of {str(source)!r} are not known: {lost}"
        return found, None

    def _choose(
        self,
        record: ViewRecord,
        changed: Mapping[str, Change],
        now: Mapping[TableName, Snapshot],
        lost: str | None,
        full: bool,
    ) -> Choice:
        choice = choose(
            Situation(
                record.policy,
                record.strategy,
                {s: c.inserted + c.deleted for s, c in changed.items()},
                {s.folded: snapshot.rows for s, snapshot in now.items()},
                record.not_incremental,
                lost,
                full,
                record.keeps_changes,
            )
        )
        if choice.strategy == "recompute" and record.policy == "strict" and not full:
            raise PolicyError(
                f"view {str(record.name)!r} would have to be recomputed: {choice.reason}",
                hint=f"its policy is 'strict'; REFRESH MATERIALIZED VIEW {record.name} FULL recomputes it once",
            )
        return choice

    # ------------------------------------------------------------------ computing
    def _compute(
        self,
        stored: StoredView,
        choice: Choice,
        changed: Mapping[str, Change],
        since: Mapping[str, int | None],
        reading: Reading,
    ) -> tuple[Choice, Outcome]:
        record = stored.record
        try:
            if choice.strategy == "recompute":
                return choice, self._recompute(stored, reading)
            work = Maintenance(self.db, self.sources, stored, changed, since, reading)
            return with_foreign_keys(choice, work.shape, work.dropped, bool(record.parts)), work.outcome()
        except LostHistory as lost:
            raise StartOver(f"the changes are not known: {lost}") from lost
        except (ViewkeepError, OSError) as error:
            if choice.strategy != "recompute" and self.spark.is_data_error(error):
                raise StartOver(
                    f"the changes hold a value that does not fit ({_told(stored, error).fact}), the tables perhaps not"
                ) from error
            raise _unchanged(record, _told(stored, error)) from error

    def _recompute(self, stored: StoredView, reading: Reading) -> Outcome:
        frame = self.db.contents(stored.record, self.sources, reading.add)
        added = write_rows(self.spark, stored.snapshot, frame)
        return Outcome(added, stored.snapshot.files, None, sum(f.rows for f in added), stored.snapshot.rows)


def _told(stored: StoredView, error: ViewkeepError | OSError) -> ViewkeepError:
    return cannot_write(stored.snapshot.location, error) if isinstance(error, OSError) else error


def _unchanged(record: ViewRecord, error: ViewkeepError) -> RefreshError:
    return RefreshError(
        f"view {str(record.name)!r} could not be refreshed and is as it was: {error.fact}",
        hint=error.hint or "it still shows its last refresh",
    )
