"""The proof: a view equals its query, as bags, in both directions.

The query is the user's own text, run by the engine: nothing that viewkeep derived from it takes
part. Changes that the view has not consumed yet are taken off the tables first, so a stale view
is compared with the state it claims to show.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeep.catalog import Catalog, Table, TableName
from viewkeep.emit.select import table
from viewkeep.emit.setup import drop_temporary
from viewkeep.emit.statements import query_sql, with_values
from viewkeep.engine.protocol import Engine
from viewkeep.incremental.old import old
from viewkeep.incremental.weighted import Context, to_rows
from viewkeep.plan.clock import NOW
from viewkeep.plan.nodes import Field, Fresh, Scan
from viewkeep.plan.ties import chooses
from viewkeep.runtime.clock import time_literal
from viewkeep.runtime.comparing import SHOWN, without_rounding
from viewkeep.runtime.compiled import CompiledView
from viewkeep.runtime.keys import broken_keys
from viewkeep.runtime.parts import parts_of, read_by
from viewkeep.runtime.records import ViewRecord
from viewkeep.runtime.reports import VerifyReport
from viewkeep.runtime.transactional.store import LOST
from viewkeep.runtime.transactional.view_log import ViewLog
from viewkeep.sql.clock import at_time
from viewkeep.sql.parse import parse_one
from viewkeep.sql.references import replace_tables
from viewkeep.strategy import names

if TYPE_CHECKING:
    from viewkeep.runtime.transactional.database import TransactionalDatabase

_EXPECTED = TableName("_vk_expected")


def verify_view(db: TransactionalDatabase, record: ViewRecord) -> VerifyReport:
    engine, store, catalog, dialect = db.engine, db.store, db.catalog(), db.dialect
    db.check_zone(record)
    compiled = db.compiled(record)
    positions = _positions(db, record)
    with engine.transaction():
        stand_ins = {}
        known = store.sources()
        for source in dict.fromkeys(read_by(db, record)):
            position = positions.get(source.folded, LOST)
            if position == LOST:
                continue
            if source.folded in known:
                db.capture.bind(source, position, known[source.folded].columns)
            else:
                delta = table(names.delta(source)).sql(dialect=dialect)
                sql = ViewLog(engine, db.compiled(db.views[source.folded])).changes_sql(position)
                engine.execute(f"CREATE OR REPLACE TEMP TABLE {delta} AS {sql}")
            stand_ins[source.folded] = _as_seen(engine, catalog.get(source))
        view = exp.select("*").from_(table(record.name)).sql(dialect=dialect)
        expected = table(_EXPECTED).sql(dialect=dialect)
        for query in _expected(record, catalog, stand_ins, compiled, dialect, db.as_of(record)):
            # Run once: a sum of doubles may come out different in its last digit the second time.
            engine.execute(f"CREATE OR REPLACE TEMP TABLE {expected} AS {query}")
            missing = engine.arrow(f"(FROM {expected}) EXCEPT ALL ({view})")
            extra = engine.arrow(f"({view}) EXCEPT ALL (FROM {expected})")
            missing, extra = without_rounding(missing, extra)
            if not missing.num_rows and not extra.num_rows:
                break
        engine.execute(drop_temporary(_EXPECTED, dialect))
        for seen in stand_ins.values():
            engine.execute(drop_temporary(seen, dialect))
    db.capture.unbind()  # a refresh binds what it needs, and this may yet be rolled back
    return VerifyReport(
        str(record.name),
        missing.num_rows == 0 and extra.num_rows == 0,
        missing.slice(0, SHOWN),
        extra.slice(0, SHOWN),
        missing.num_rows,
        extra.num_rows,
        {str(s): positions.get(s.folded, LOST) for s in read_by(db, record)},
        *broken_keys(db, record),
    )


def _positions(db: TransactionalDatabase, record: ViewRecord) -> dict[str, int]:
    """How far a view is in its sources. Its parts are refreshed with it, so they are as far in theirs."""
    every, found = db.store.positions(), dict[str, int]()
    for view in (*parts_of(db, record), record):
        found |= every.get(view.name.folded, {})
    return found


def _as_seen(engine: Engine, source: Table) -> TableName:
    """A temporary table with the rows of a source that the view has consumed."""
    fresh, dialect = Fresh(), engine.facts.dialect
    scan = Scan(source.name, tuple((Field(fresh(c.name), c.type), c.name) for c in source.columns))
    rows = to_rows(old(scan, Context(fresh, frozenset({source.name.folded}))), fresh)
    query = query_sql(rows, tuple(c.name for c in source.columns), dialect).sql(dialect=dialect)
    seen = names.stage(source.name, "seen")
    engine.execute(f"CREATE OR REPLACE TEMP TABLE {table(seen).sql(dialect=dialect)} AS {query}")
    return seen


def _expected(
    record: ViewRecord,
    catalog: Catalog,
    stand_ins: dict[str, TableName],
    compiled: CompiledView,
    dialect: str,
    as_of: datetime | None,
) -> Iterator[str]:
    """The user's query over the stand-ins, at the time that the view shows; after it, where a LIMIT or a window
    may have to choose among ties, the query with its ties broken as the view breaks them."""
    written = replace_tables(parse_one(record.query, dialect), catalog, stand_ins, dialect)
    yield (written if as_of is None else at_time(written, time_literal(as_of))).sql(dialect=dialect)
    if compiled.query is not None and chooses(compiled.query.root):
        tree = replace_tables(
            query_sql(compiled.query.root, compiled.layout.output, dialect), catalog, stand_ins, dialect
        )
        yield (tree if as_of is None else with_values(tree, {NOW: time_literal(as_of)})).sql(dialect=dialect)
