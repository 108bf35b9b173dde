"""Bringing views on a lake up to date: for each one, what changed in its sources, a delta, one commit.

A commit is made for the version of the stored rows that it was computed from; if another refresh
was first it is refused, and this one looks again at what is left to do. A crash before the commit
leaves files that belong to nothing; after it, the positions in it say that the work is done.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from viewkeep.catalog import TableName
from viewkeep.engine.spark import Spark, cannot_write
from viewkeep.engine.table_format import Change, CommitConflict, Kind, LostHistory, Snapshot, TableFormat
from viewkeep.errors import RefreshError, ViewkeepError
from viewkeep.plan.clock import NOW, THEN
from viewkeep.runtime.clock import to_micros
from viewkeep.runtime.lake.clustering import clustered
from viewkeep.runtime.lake.maintenance import Maintenance, Outcome, Reading, StartOver, write_rows
from viewkeep.runtime.lake.sources import Sources, schema_of
from viewkeep.runtime.lake.stored import REPORT, TIME, StoredView, position_name, positions, time_of
from viewkeep.runtime.policy import allowed
from viewkeep.runtime.records import ViewRecord
from viewkeep.runtime.reports import RefreshReport, entry_of, report_of
from viewkeep.strategy.choose import ENOUGH, Choice, Experience, Situation, choose, with_foreign_keys

if TYPE_CHECKING:
    from viewkeep.runtime.lake.database import LakeDatabase

_ATTEMPTS = 10


class LakeRefresher:
    def __init__(self, db: LakeDatabase) -> None:
        self.db = db
        self.spark: Spark = db.spark
        self.format = db.warehouse.format
        self.sources: Sources = db.sources()
        self.now = db.clock()
        """The time that all views of this run will show."""

    def run(self, order: list[ViewRecord], full: frozenset[str]) -> list[RefreshReport]:
        for record in order:  # every table at one version, before anything is computed
            for source in record.sources:
                if source.folded not in self.db.views:
                    self.sources.now(source)
        return [self._view(record, record.name.folded in full) for record in order]

    # ------------------------------------------------------------------ one view
    def _view(self, record: ViewRecord, full: bool) -> RefreshReport:
        failed: StartOver | None = None
        for attempt in range(_ATTEMPTS):
            stored = self.db.stored.read(record)
            try:
                report = self._attempt(stored, full, failed)
            except CommitConflict:
                time.sleep(0.01 * 2**attempt)  # another refresh was first: look again at what is left to do
                continue
            except StartOver as again:
                failed = again
                continue
            self.sources.pin(record.name, self.db.stored.read(record).snapshot)
            return report
        raise RefreshError(
            f"view {str(record.name)!r} was refreshed {_ATTEMPTS} times at once with another", hint="try again later"
        )

    def _attempt(self, stored: StoredView, full: bool, failed: StartOver | None) -> RefreshReport:
        began, jobs, record = time.perf_counter(), self.spark.jobs, stored.record
        now = {s: self.sources.now(s) for s in record.sources}
        since = positions(self.format, stored, now)
        for source, snapshot in now.items():
            if (position := since[source.folded]) is not None and position > snapshot.version:
                # Another refresh has overtaken this run: what it has consumed cannot be taken back.
                now[source] = self.sources.overtake(source, position)
        changes, lost = self._changes(record, now, since)
        lost = str(failed) if failed else lost
        changed = {s: c for s, c in changes.items() if c.kind is not Kind.NOTHING}
        versions = {str(s): snapshot.version for s, snapshot in now.items()}
        idle = not changed and not lost and not full
        if idle and not record.timed:
            report = self._unchanged(stored, "no source changed", now, since)
            return replace(report, seconds=time.perf_counter() - began)
        self.db.check_zone(record)
        last, kind = _last_report(self.format, stored), _kind_of(changed)
        choice = self._choose(stored, changed, now, lost, full, _experience(last, kind))
        reading = Reading()
        choice, outcome = self._compute(stored, choice, changed, since, reading)
        if idle and not outcome.inserted and not outcome.deleted:
            outcome.discard(stored.snapshot.location)
            reason = "no source changed, and no row has crossed a bound"
            report = self._unchanged(stored, reason, now, since)
            return replace(report, seconds=time.perf_counter() - began)
        rows_changed, spent = sum(c.inserted + c.deleted for c in changed.values()), time.perf_counter() - began
        experience, full_seconds = last.experience, last.full_seconds
        if choice.strategy == "recompute":
            full_seconds = spent
            if failed and failed.would_read:  # it need not be tried again
                experience = {**experience, kind: (rows_changed, failed.would_read, 2 * spent, ENOUGH)}
        else:
            _, _, fewest, times = experience.get(kind, (0, 0, spent, 0))
            experience = {**experience, kind: (rows_changed, reading.rows, min(fewest, spent), times + 1)}
        report = RefreshReport(
            str(record.name),
            choice.strategy,
            choice.reason,
            outcome.inserted,
            outcome.deleted,
            spent,
            versions,
            stored.snapshot.version + 1,
            rows_changed,
            choice.predicted_rows,
            reading.rows,
            reading.bytes,
            self.spark.jobs - jobs,
            datetime.now(UTC),
            choice.dropped,
            experience,
            full_seconds,
        )
        consumed = _consumed(now)
        if record.timed:
            consumed[TIME] = to_micros(self.now)
        self._commit(stored, outcome, report, consumed)
        return replace(report, seconds=time.perf_counter() - began)

    def _unchanged(
        self,
        stored: StoredView,
        reason: str,
        now: Mapping[TableName, Snapshot],
        since: Mapping[str, int | None],
    ) -> RefreshReport:
        """Nothing to do. That is written down once, and again when a source moved on without a change."""
        last = _last_report(self.format, stored)
        report = RefreshReport(
            str(stored.record.name),
            "unchanged",
            reason,
            versions={str(s): snapshot.version for s, snapshot in now.items()},
            version=stored.snapshot.version,
            at=datetime.now(UTC),
            experience=last.experience,
            full_seconds=last.full_seconds,
        )
        moved = any(since[s.folded] != snapshot.version for s, snapshot in now.items())
        if moved or last.strategy != "unchanged":
            # Whoever may not write, or was second, has still seen that nothing changed.
            with suppress(CommitConflict, ViewkeepError, OSError):
                noted = replace(report, version=stored.snapshot.version + 1)
                self.format.commit(
                    stored.snapshot, info={REPORT: entry_of(noted)}, positions=_consumed(now), moved=(0, 0)
                )
                return noted
        return report

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
            raise _as_it_was(stored.record, _told(stored, error)) from error

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
        stored: StoredView,
        changed: Mapping[str, Change],
        now: Mapping[TableName, Snapshot],
        lost: str | None,
        full: bool,
        experience: Experience | None,
    ) -> Choice:
        record = stored.record
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
                record.timed,
                self.db.compiled(record).anew,
                stored.snapshot.rows,
                experience,
                self._is_read(record),
            )
        )
        return allowed(choice, record, full)

    def _is_read(self, record: ViewRecord) -> bool:
        """Whether other views read this one."""
        return any(record.name.folded == s.folded for view in self.db.views.values() for s in view.sources)

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
            times = {NOW: self.now, THEN: time_of(self.format, stored) or self.now}
            free = record.policy == record.strategy == "auto" and not self._is_read(record)
            work = Maintenance(self.db, self.sources, stored, changed, since, reading, times, free)
            return with_foreign_keys(choice, work.shape, work.dropped, bool(record.parts)), work.outcome()
        except LostHistory as lost:
            raise StartOver(f"the changes are not known: {lost}") from lost
        except (ViewkeepError, OSError) as error:
            if choice.strategy != "recompute" and self.spark.is_data_error(error):
                raise StartOver(
                    f"the changes hold a value that does not fit ({_told(stored, error).fact}), the tables perhaps not"
                ) from error
            raise _as_it_was(record, _told(stored, error)) from error

    def _recompute(self, stored: StoredView, reading: Reading) -> Outcome:
        frame = self.db.contents(stored.record, self.sources, self.now, reading.add)
        written, location = write_rows(self.spark, stored.snapshot, frame), stored.snapshot.location
        found_by = self.db.compiled(stored.record).layout.found_by
        added = clustered(self.spark, location, written, schema_of(stored.snapshot), found_by)
        return Outcome(added, stored.snapshot.files, None, sum(f.rows for f in added), stored.snapshot.rows)


def _last_report(format_: TableFormat, stored: StoredView) -> RefreshReport:
    """That of the last commit, which carries on what refreshes of the view have cost so far."""
    last = format_.info(stored.snapshot, REPORT)
    return report_of(last) if last else RefreshReport(str(stored.record.name), "unknown", "")


def _experience(last: RefreshReport, kind: str) -> Experience | None:
    seen = last.experience.get(kind)
    return Experience(*seen, last.full_seconds) if seen else None


def _kind_of(changed: Mapping[str, Change]) -> str:
    """What happened to which sources, in a word: another kind of change is another experience."""
    return " ".join(f"{source}{'±' if change.deleted else '+'}" for source, change in sorted(changed.items()))


def _consumed(now: Mapping[TableName, Snapshot]) -> dict[str, int]:
    """How far a view is that has read these versions of its sources."""
    return {position_name(source, snapshot): snapshot.version for source, snapshot in now.items()}


def _told(stored: StoredView, error: ViewkeepError | OSError) -> ViewkeepError:
    return cannot_write(stored.snapshot.location, error) if isinstance(error, OSError) else error


def _as_it_was(record: ViewRecord, error: ViewkeepError) -> RefreshError:
    return RefreshError(
        f"view {str(record.name)!r} could not be refreshed and is as it was: {error.fact}",
        hint=error.hint or "it still shows its last refresh",
    )
