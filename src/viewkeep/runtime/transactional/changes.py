"""A view's own changes, for those who follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from viewkeep.errors import RefreshError
from viewkeep.runtime.database import Since
from viewkeep.runtime.records import ViewRecord
from viewkeep.runtime.reports import RefreshReport
from viewkeep.runtime.transactional.refresh import KEPT_VERSIONS, outgoing_sql

if TYPE_CHECKING:
    from viewkeep.runtime.transactional.database import TransactionalDatabase


def changes_since(db: TransactionalDatabase, record: ViewRecord, since: Since) -> pa.Table:
    history, view = db.store.history(record.name), str(record.name)
    if not record.keeps_changes:
        raise RefreshError(f"view {view!r} keeps no changes", hint="make it again with changes = 'keep', the default")
    last = history[-1].version
    oldest = max(record.created, last - KEPT_VERSIONS)
    version = _version_of(since, history, oldest)
    if version < oldest:
        raise RefreshError(
            f"changes of {view!r} are kept from version {oldest} on, not from {version}",
            hint=f"read the view whole, then ask for changes since version {last}",
        )
    if version > last:
        raise RefreshError(f"{view!r} has no version {version} yet", hint=f"it is at version {last}")
    found = db.engine.arrow(outgoing_sql(db.compiled(record), version, db.dialect))
    return found.rename_columns(["_w", *found.column_names[1:]])


def _version_of(since: Since, history: list[RefreshReport], oldest: int) -> int:
    match since:
        case None:
            return oldest
        case int():
            return since
        case RefreshReport():
            return since.version
        case _:
            for entry in reversed(history):
                if entry.versions == dict(since):
                    return entry.version
            raise RefreshError("no refresh of the view has these source versions", hint="see history(view)")
