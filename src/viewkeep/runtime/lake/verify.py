"""The proof on a lake: the user's own query, over the very versions that the view has consumed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from viewkeep.catalog import TableName
from viewkeep.emit.statements import query_sql, with_values
from viewkeep.engine.spark import DIALECT, SPARK_ERRORS, translate
from viewkeep.engine.table_format import Kind as Moved
from viewkeep.engine.table_format import LostHistory, Snapshot
from viewkeep.errors import RefreshError
from viewkeep.plan.clock import NOW
from viewkeep.plan.ties import chooses
from viewkeep.runtime.clock import time_literal
from viewkeep.runtime.comparing import SHOWN, without_rounding
from viewkeep.runtime.keys import broken_keys
from viewkeep.runtime.lake.sources import Sources
from viewkeep.runtime.lake.stored import positions
from viewkeep.runtime.parts import parts_of
from viewkeep.runtime.records import ViewRecord
from viewkeep.runtime.reports import VerifyReport
from viewkeep.sql.clock import at_time
from viewkeep.sql.parse import parse_one
from viewkeep.sql.references import replace_tables
from viewkeep.sql.rewording import text_of

if TYPE_CHECKING:
    from viewkeep.runtime.lake.database import LakeDatabase


def verify_view(db: LakeDatabase, record: ViewRecord) -> VerifyReport:
    """A view that reads parts is compared over them as it has consumed them, and each of them with its own query."""
    report, wrong = _verify(db, record), list[str]()
    for part in parts_of(db, record):
        if not (found := _verify(db, part)).equal:
            wrong.append(str(found))
    if wrong:
        return replace(report, equal=False, keys=(*report.keys, *wrong))
    return report


def _verify(db: LakeDatabase, record: ViewRecord) -> VerifyReport:
    db.check_zone(record)
    sources, stored = db.sources(), db.stored.read(record)
    since = positions(db.warehouse.format, stored, {s: sources.now(s) for s in record.sources})
    stand_ins = {s.folded: _as_seen(db, sources, record, s, since[s.folded]) for s in record.sources}
    view = sources.rows(record.name, stored.snapshot)
    try:
        for query in _expected(db, record, stand_ins):
            # Kept: a sum of doubles may come out different in its last digit the second time.
            expected = sources.cast(record, db.spark.sql(query).toDF(*record.output)).persist()
            with db.spark.counted():
                missing, extra = expected.exceptAll(view).toArrow(), view.exceptAll(expected).toArrow()
            expected.unpersist()
            missing, extra = without_rounding(missing, extra)
            if not missing.num_rows and not extra.num_rows:
                break
    except SPARK_ERRORS as error:
        raise translate(error) from error
    return VerifyReport(
        str(record.name),
        missing.num_rows == 0 and extra.num_rows == 0,
        missing.slice(0, SHOWN),
        extra.slice(0, SHOWN),
        missing.num_rows,
        extra.num_rows,
        {str(s): -1 if (seen := since[s.folded]) is None else seen for s in record.sources},
        *broken_keys(db, record),
    )


def _as_seen(
    db: LakeDatabase, sources: Sources, record: ViewRecord, source: TableName, version: int | None
) -> TableName:
    """A relation with the rows of a source that the view has consumed."""
    if version is None:
        raise RefreshError(
            f"view {str(record.name)!r} cannot be checked: {str(source)!r} was made anew since its last refresh",
            hint="refresh it first",
        )
    try:
        frame = sources.rows(source, _as_of(sources, source, version))
    except LostHistory as lost:
        raise RefreshError(
            f"view {str(record.name)!r} cannot be checked at its own version: {str(source)!r}: {lost}",
            hint="refresh it first",
        ) from None
    return TableName(db.spark.name(frame, f"seen_{source.folded}"))


def _as_of(sources: Sources, source: TableName, version: int) -> Snapshot:
    """Commits that only moved rows to other files may have left the old ones to be removed."""
    now = sources.now(source)
    if version < now.version and sources.change(source, version).kind is Moved.NOTHING:
        return now
    return sources.at(source, version)


def _expected(db: LakeDatabase, record: ViewRecord, stand_ins: dict[str, TableName]) -> Iterator[str]:
    """The user's query at the time that the view shows, or what it is over parts; after it, where a LIMIT may cut
    through ties, the query with its ties broken as the view breaks them."""
    compiled, catalog, as_of = db.compiled(record), db.catalog(), db.as_of(record)
    if not record.parts:
        written = replace_tables(parse_one(record.query, DIALECT), catalog, stand_ins, DIALECT)
        yield text_of(written if as_of is None else at_time(written, time_literal(as_of)), DIALECT)
    if compiled.query is not None and (record.parts or chooses(compiled.query.root)):
        query = query_sql(compiled.query.root, compiled.layout.output, DIALECT)
        tree = replace_tables(query, catalog, stand_ins, DIALECT)
        yield (tree if as_of is None else with_values(tree, {NOW: time_literal(as_of)})).sql(dialect=DIALECT)
