"""How each view stands."""

from __future__ import annotations

from viewkeep.runtime.database import Database
from viewkeep.runtime.reports import ViewStatus
from viewkeep.runtime.store import LOST, ViewRecord


def view_status(db: Database, record: ViewRecord, invalid: dict[str, str], positions: dict[str, int]) -> ViewStatus:
    known, waiting = db.store.sources(), 0
    for source in record.sources:
        if source.folded in known and source.folded not in invalid:
            pending = db.capture.pending(source)
            sealed = db.capture.sealed_counts(source, positions.get(source.folded, LOST))
            waiting += pending.inserted + pending.deleted + sum(sealed)
    return ViewStatus(
        str(record.name),
        record.policy,
        record.refresh,
        record.strategy,
        max(positions.values(), default=0),
        waiting,
        "yes" if record.not_incremental is None else f"no: {record.not_incremental}",
        next((invalid[s.folded] for s in record.sources if s.folded in invalid), None),
        tuple(str(s) for s in record.sources),
    )
