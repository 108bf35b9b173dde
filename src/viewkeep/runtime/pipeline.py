"""Which views a refresh includes, in which order, and which cannot take part."""

from __future__ import annotations

from collections.abc import Sequence

from viewkeep.catalog import TableName
from viewkeep.errors import RefreshError
from viewkeep.runtime.database import Database, NotAsThought, why_invalid
from viewkeep.runtime.parts import parts_of, without_parts
from viewkeep.runtime.records import ViewRecord
from viewkeep.runtime.reports import RefreshReport


def refresh_views(db: Database, wanted: Sequence[TableName] | None, full: bool = False) -> list[RefreshReport]:
    """Refresh views after the views they read, all of them if None; the wanted ones are recomputed if `full`."""
    for _ in range(10):
        try:
            return without_parts(db, _refresh(db, wanted, full))
        except NotAsThought as surprise:
            # Another connection made or dropped a view, or a table lost its triggers: look anew, then go on.
            if not surprise.own:
                raise
            db.reload_views()
    raise RefreshError("the views kept changing while they were refreshed", hint="try again later")


def _refresh(db: Database, wanted: Sequence[TableName] | None, full: bool) -> list[RefreshReport]:
    records = list(db.views.values()) if wanted is None else [db.record(name) for name in wanted]
    order: dict[str, ViewRecord] = {}
    for record in records:
        _collect(db, record, order)
    if not order:
        db.sync()
        return _refresh(db, wanted, full) if db.views else []
    broken = db.invalid_sources()
    skipped: list[RefreshReport] = []
    for folded, record in list(order.items()):
        reason = why_invalid(record, broken)
        if reason is None:
            continue
        if wanted is not None and len(wanted) == 1:
            raise RefreshError(
                f"view {str(record.name)!r} is invalid: {reason}",
                hint=f"it still shows its last refresh; DROP MATERIALIZED VIEW {record.name} removes it",
            )
        broken[folded] = f"view {str(record.name)!r} is invalid: {reason}"
        skipped.append(RefreshReport(str(record.name), "invalid", reason))
        del order[folded]
    parts = [part for record in records for part in parts_of(db, record)]
    recomputed = frozenset(r.name.folded for r in (*records, *parts)) if full else frozenset[str]()
    return [*skipped, *db.refresh(list(order.values()), recomputed)]


def _collect(db: Database, record: ViewRecord, order: dict[str, ViewRecord]) -> None:
    """Parents first: a view is refreshed from what its parents have become."""
    for source in record.sources:
        if source.folded in db.views:
            _collect(db, db.views[source.folded], order)
    order.setdefault(record.name.folded, record)
