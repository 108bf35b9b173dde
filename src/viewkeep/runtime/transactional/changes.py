"""A view's own changes, for those who follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from viewkeep.errors import RefreshError
from viewkeep.runtime.database import Since
from viewkeep.runtime.records import ViewRecord
from viewkeep.runtime.since import version_of
from viewkeep.runtime.transactional.view_log import ViewLog

if TYPE_CHECKING:
    from viewkeep.runtime.transactional.database import TransactionalDatabase


def changes_since(db: TransactionalDatabase, record: ViewRecord, since: Since) -> pa.Table:
    history, view = db.store.history(record.name), str(record.name)
    if not record.keeps_changes:
        raise RefreshError(f"view {view!r} keeps no changes", hint="make it again with changes = 'keep', the default")
    last, log = history[-1].version, ViewLog(db.engine, db.compiled(record))
    oldest = max(record.created, last - log.kept)
    version = version_of(view, since, history, oldest, last)
    found = db.engine.arrow(log.changes_sql(version))
    return found.rename_columns(["_w", *found.column_names[1:]])
