"""Which views a refresh includes, in which order, and which cannot take part."""

from __future__ import annotations

from viewkeep.errors import RefreshError
from viewkeep.runtime.database import Database
from viewkeep.runtime.refresh import Refresher
from viewkeep.runtime.reports import RefreshReport
from viewkeep.runtime.store import SourceRecord, ViewRecord


def refresh_views(db: Database, wanted: list[ViewRecord], full: bool = False) -> list[RefreshReport]:
    """Refresh views after the views they read; the wanted ones are recomputed if `full`."""
    order: dict[str, ViewRecord] = {}
    if not wanted:
        return []
    for record in wanted:
        _collect(db, record, order)
    captured = db.store.sources()
    broken = repair(db, captured)
    skipped: list[RefreshReport] = []
    for folded, record in list(order.items()):
        reason = next((broken[s.folded] for s in record.sources if s.folded in broken), None)
        if reason is None:
            continue
        if len(wanted) == 1:
            raise RefreshError(
                f"view {str(record.name)!r} is invalid: {reason}",
                hint=f"it still shows its last refresh; DROP MATERIALIZED VIEW {record.name} removes it",
            )
        broken[folded] = f"view {str(record.name)!r} is invalid: {reason}"
        skipped.append(RefreshReport(str(record.name), "invalid", reason))
        del order[folded]
    recomputed = frozenset(r.name.folded for r in wanted) if full else frozenset[str]()
    return [*skipped, *Refresher(db).run(list(order.values()), recomputed)]


def _collect(db: Database, record: ViewRecord, order: dict[str, ViewRecord]) -> None:
    """Parents first: a view is refreshed from what its parents have become."""
    for source in record.sources:
        if source.folded in db.views:
            _collect(db, db.views[source.folded], order)
    order.setdefault(record.name.folded, record)


def repair(db: Database, captured: dict[str, SourceRecord]) -> dict[str, str]:
    """Tables that lost their capture: captured again where they still fit, else why not, by folded name."""
    if not (uncaptured := db.capture.uncaptured(captured.values())):
        return {}
    db.forget_schema()
    broken: dict[str, str] = {}
    for record in uncaptured:
        if reason := db.capture.broken(record, db.catalog()):
            broken[record.name.folded] = reason
            continue
        with db.engine.transaction():
            db.capture.stop(record.name)
            db.capture.start(db.catalog().get(record.name))
            db.store.lose(record.name)
    return broken
