"""How each view stands."""

from __future__ import annotations

from collections.abc import Mapping

from viewkeep.runtime.database import Database, why_invalid
from viewkeep.runtime.parts import parts_of, read_by
from viewkeep.runtime.records import ViewRecord
from viewkeep.runtime.reports import ViewStatus


def view_status(db: Database, record: ViewRecord, invalid: Mapping[str, str]) -> ViewStatus:
    version, waiting = db.standing(record, invalid)
    waiting += sum(db.standing(part, invalid)[1] for part in parts_of(db, record))
    return ViewStatus(
        str(record.name),
        record.policy,
        record.refresh,
        record.strategy,
        version,
        waiting,
        "yes" if record.not_incremental is None else f"no: {record.not_incremental}",
        why_invalid(record, invalid),
        tuple(dict.fromkeys(str(s) for s in read_by(db, record))),
        db.as_of(record),
    )
