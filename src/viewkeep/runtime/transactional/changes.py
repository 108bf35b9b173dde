"""A view's own changes, for those who follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from viewkeep.errors import RefreshError
from viewkeep.runtime.database import Since
from viewkeep.runtime.records import ViewRecord
from viewkeep.runtime.since import version_of
from viewkeep.runtime.transactional.refresh import KEPT_VERSIONS, outgoing_sql

if TYPE_CHECKING:
    from viewkeep.runtime.transactional.database import TransactionalDatabase


def changes_since(db: TransactionalDatabase, record: ViewRecord, since: Since) -> pa.Table:
    history, view = db.store.history(record.name), str(record.name)
    if not record.keeps_changes:
        raise RefreshError(f"view {view!r} keeps no changes", hint="make it again with changes = 'keep', the default")
    last = history[-1].version
    oldest = max(record.created, last - KEPT_VERSIONS)
    version = version_of(view, since, history, oldest, last)
    found = db.engine.arrow(outgoing_sql(db.compiled(record), version, db.dialect))
    return found.rename_columns(["_w", *found.column_names[1:]])
