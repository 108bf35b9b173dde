"""A run: some views brought up to date, in dependency order, in one transaction.

All of it happens or nothing does: the deltas, the stored rows, the positions, the history. Every
view of a run sees the same versions of its sources, because the transaction sees one snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from viewkeep.catalog import TableName
from viewkeep.emit.select import table_text
from viewkeep.emit.setup import drop_temporary, tell_bound_sql
from viewkeep.emit.statements import ByValue, Search, Statement, out_of, program_sql, query_sql
from viewkeep.errors import EngineError, RefreshError, ViewkeepError
from viewkeep.incremental.weighted import Edge
from viewkeep.plan.clock import NOW, THEN
from viewkeep.runtime.clock import from_micros, to_micros
from viewkeep.runtime.compiled import CompiledView
from viewkeep.runtime.database import NotAsThought
from viewkeep.runtime.policy import allowed
from viewkeep.runtime.records import ViewRecord
from viewkeep.runtime.reports import RefreshReport
from viewkeep.runtime.transactional.capture import TRIGGERS, Look, Pending
from viewkeep.runtime.transactional.store import LOST, Books, SourceRecord
from viewkeep.runtime.transactional.view_log import ViewLog
from viewkeep.strategy import names
from viewkeep.strategy.bounded import COLUMN, Bound, rows_within_a_new_bound
from viewkeep.strategy.choose import Situation, choose, with_foreign_keys
from viewkeep.strategy.layout import BagLayout
from viewkeep.strategy.program import Append, Clear, DeleteMatching, DropEmpty, MergeAdd, Replace, Stage, TakeOut
from viewkeep.strategy.shape import Shape

if TYPE_CHECKING:
    from viewkeep.runtime.transactional.database import TransactionalDatabase

LARGE, FEW = 500_000, 5
"""From how many stored rows on, and if for each that leaves there are so many values of a key column, rows are looked
for by that column first. Reading a table with so many rows takes time."""
SHARED = 20
"""Rows that have the same value, on the average, where ranks are computed by value."""


class _StartOver(Exception):
    """The incremental way failed for a view: the run starts over and recomputes it, with the reason.

    `by_value`: another incremental way is left, to look for its rows by their values."""

    def __init__(self, view: str, reason: str, logged: bool = True, by_value: bool = False) -> None:
        self.view, self.reason, self.logged, self.by_value = view, reason, logged, by_value


@dataclass(frozen=True, slots=True)
class _Change:
    """How many rows a source gained and lost since a view last looked."""

    inserted: int = 0
    deleted: int = 0

    @property
    def total(self) -> int:
        return self.inserted + self.deleted


@dataclass(slots=True)
class _Run:
    """What is known during one run."""

    records: dict[str, ViewRecord]
    sources: dict[str, SourceRecord]
    positions: dict[str, dict[str, int]]
    pending: dict[str, Pending]
    lost: dict[str, str]
    """Tables whose changes were not all seen, with the reason."""
    started: int
    """The version before this run."""
    now: datetime
    """The time that all views of this run will show."""
    times: dict[str, int]
    """The time that each view shows whose rows depend on it."""
    rows: dict[str, int]
    """Rows of each stored view, where they are known."""
    given: dict[str, int]
    """Rows that each table was ever given."""
    backlog: set[str] = field(default_factory=set)
    """Tables with sealed changes that some view had not consumed."""
    version: int | None = None
    done: set[str] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)
    """Views whose log this run wrote."""
    plainly: bool = False
    """Whether it runs without the engine's optimizer, which has failed."""


class Refresher:
    def __init__(self, db: TransactionalDatabase) -> None:
        self.db, self.engine, self.store, self.capture = db, db.engine, db.store, db.capture
        self.compiled, self.records, self.dialect = db.compiled, db.views, db.dialect

    # ------------------------------------------------------------------ a whole run
    def run(self, order: list[ViewRecord], full: frozenset[str] = frozenset()) -> list[RefreshReport]:
        """Refresh views that are given in dependency order; `full` ones are recomputed."""
        forced: dict[str, _StartOver] = {}
        own, plainly = True, False
        for attempt in range(10):
            books: Books | None = None
            try:
                with ExitStack() as stack:
                    if plainly:
                        stack.enter_context(self.engine.without_optimizer())
                    changed = [r for r in order if r.policy != "full" and r.name.folded not in full]
                    if any(self.compiled(record).may_be_held_for_empty for record in changed):
                        stack.enter_context(self.engine.without_statistics())
                    own = stack.enter_context(self.engine.transaction())
                    reports, left_behind = self._run(order, full, forced, plainly)
                books = left_behind  # only now is it committed
                return reports
            except _StartOver as again:
                if not own:
                    raise RefreshError(
                        f"view {again.view!r}: {again.reason}",
                        hint="roll back, then refresh outside of a transaction",
                    ) from None
                forced[again.view] = again
            except NotAsThought as surprise:
                surprise.own = own
                raise
            except ViewkeepError as error:
                if attempt == 9 or not own:
                    raise
                if self.engine.is_own_fault(error) and not plainly:
                    plainly = True
                elif self.engine.is_conflict(error):
                    time.sleep(0.01 * 2**attempt)  # another refresh was first: look again at what is left to do
                else:
                    raise
            finally:
                # Inside somebody's transaction all of this may still be rolled back.
                self.store.remember(books if own else None)
                if books is None or not own:
                    self.capture.unbind()
        raise RefreshError("the refresh was tried ten times and always met another one", hint="try again later")

    def _run(
        self, order: list[ViewRecord], full: frozenset[str], forced: Mapping[str, _StartOver], plainly: bool
    ) -> tuple[list[RefreshReport], Books | None]:
        """The reports, and the bookkeeping as it is once this is committed."""
        run = self._look(order)
        run.plainly = plainly
        reports = [self._view(run, record, record.name.folded in full, forced) for record in order]
        self._settle(run)
        if run.lost or any(not again.logged for again in forced.values()):
            return reports, None  # positions of other views changed too
        version = run.started if run.version is None else run.version
        return reports, Books(version, run.records, run.sources, run.positions, run.times, run.rows, run.given)

    def _look(self, order: list[ViewRecord]) -> _Run:
        """Count what is waiting, and notice what capture did not see."""
        books, look = self._count(order)
        positions = {view: dict(p) for view, p in books.positions.items()}
        run = _Run(
            self.records,
            dict(books.sources),
            positions,
            look.pending,
            {},
            books.version,
            self.db.clock(),
            dict(books.times),
            dict(books.rows),
            {**books.given, **look.given},
        )
        if {k: v.created for k, v in books.views.items()} != {k: v.created for k, v in self.records.items()}:
            raise NotAsThought("another connection made, replaced or dropped a view", hint="try again")
        if look.triggers < TRIGGERS * len(run.sources):
            self._doubt()
        for folded, pending in run.pending.items():
            record = run.sources[folded]
            if any(record.version > p[folded] for p in run.positions.values() if folded in p):
                run.backlog.add(folded)
            if unseen := pending.unexplained(record.row_count):
                run.lost[folded] = (
                    f"table {str(record.name)!r} has {abs(unseen):,} {'more' if unseen > 0 else 'fewer'} rows than its "
                    "captured changes explain: something bypassed capture"
                )
        return run

    def _count(self, order: list[ViewRecord]) -> tuple[Books, Look]:
        """The bookkeeping and what is waiting. What was remembered is tried first: mostly it still holds."""
        books = self.store.last_books()
        while True:
            wanted = {s.folded: s for record in order for s in record.sources if s.folded in books.sources}
            try:
                look = self.capture.look(list(wanted.values()), books)
            except EngineError as error:  # a table is gone, or is a view now
                self._doubt(error)
                raise
            if look.version == books.version:
                return books, look
            books = self.store.books()

    def _doubt(self, cause: EngineError | None = None) -> None:
        """A table was dropped, perhaps made again: look at each captured one, unless that was just done."""
        if not self.db.capture_doubtful:
            self.db.capture_doubtful = True
            raise NotAsThought("a table has lost its capture", hint="try again") from cause

    def _settle(self, run: _Run) -> None:
        """Seal or forget what was consumed, and write down how far everything is."""
        counts: dict[str, int] = {}
        for folded, pending in run.pending.items():
            name, fresh, lost = run.sources[folded].name, bool(pending.inserted or pending.deleted), folded in run.lost
            # From the positions, not from what this process has open: another one may have made a view.
            readers = [view for view, positions in run.positions.items() if folded in positions]
            everyone = run.done.issuperset(readers)
            if fresh or lost:
                version = self._tick(run)
                counts[str(name)] = pending.rows
                run.sources[folded] = replace(run.sources[folded], row_count=pending.rows, version=version)
                if not everyone:
                    self.capture.seal(name, version)
            if fresh or lost or folded in run.backlog:
                self.capture.prune(name, self._floor(run, readers, folded), unsealed=everyone)
        if run.version is None:
            return
        self.store.settle(run.version, sorted(run.moved), counts)
        for folded in run.moved & run.times.keys():
            self.store.put_time(folded, run.times[folded])
        for folded in run.lost:  # views outside this run missed the unexplained rows too
            self.store.lose(run.sources[folded].name, run.version)
        for folded in run.moved:
            self._forget(run, run.records[folded])

    def _floor(self, run: _Run, readers: list[str], source: str) -> int:
        """The version up to which every reader has consumed a source; the lost ones start anew."""
        behind = [run.positions.get(r, {}).get(source, LOST) for r in readers]
        return min((p for p in behind if p != LOST), default=run.version or 0)

    def _forget(self, run: _Run, record: ViewRecord) -> None:
        """Drop a view's oldest changes, except what views above it still need."""
        assert run.version is not None
        log = self._log(record)
        if log.is_due(run.version):
            log.forget(self._oldest(run, record))

    def _oldest(self, run: _Run, record: ViewRecord) -> int:
        """The oldest version since which somebody may ask for a view's changes."""
        above = [p[record.name.folded] for p in run.positions.values() if record.name.folded in p]
        kept = min([run.started + 1 - self._log(record).kept, *(p for p in above if p != LOST)])
        return max(record.created, kept)

    def _tick(self, run: _Run) -> int:
        """The version of this run. The clock itself moves when the run settles; then two runs at once collide."""
        if run.version is None:
            run.version = run.started + 1
        return run.version

    # ------------------------------------------------------------------ one view of a run
    def _view(self, run: _Run, record: ViewRecord, full: bool, forced: Mapping[str, _StartOver]) -> RefreshReport:
        began = time.perf_counter()
        folded, compiled = record.name.folded, self.compiled(record)
        positions = run.positions.setdefault(folded, {})
        changes = {s.folded: self._change(run, record, s) for s in record.sources}
        again, remark = forced.get(folded), ""
        if run.plainly:
            remark = "; without the engine's optimizer, which failed at the program"
        if again and again.by_value:
            remark += f"; rows were found by value: {again.reason}"
            again, compiled = None, compiled.by_value()
        lost = again.reason if again else next((run.lost[s] for s in changes if s in run.lost), None)
        if lost is None and any(positions.get(s, LOST) == LOST for s in changes):
            lost = "changes of a source were missed, or the view below was replaced as a whole"
        changed = {s: c for s, c in changes.items() if c.total}
        if not changed and not lost and not full and not record.timed:
            run.done.add(folded)
            return self._unchanged(run, record)
        self.db.check_zone(record)
        sizes = {s: self._rows(run, s) for s in changes}
        choice = choose(
            Situation(
                record.policy,
                record.strategy,
                {s: c.total for s, c in changed.items()},
                sizes,
                record.not_incremental,
                lost,
                full,
                record.keeps_changes,
                record.timed,
                compiled.anew,
                self._stored_rows(run, record) if compiled.anew else 0,
            )
        )
        allowed(choice, record, full)
        # Where no row turns out to have crossed, nothing is written and the clock does not move.
        idle = record.timed and not changed and not lost and not full
        version = run.started + 1 if idle else self._tick(run)
        if again and not again.logged:
            inserted, deleted = self._replace(run, record, compiled)
        elif choice.strategy == "recompute":
            inserted, deleted = self._execute(run, record, compiled, None)
        else:
            self._bind(run, record, changed)
            lost_rows = frozenset(s for s, c in changed.items() if c.deleted)
            shape, dropped = compiled.shape(
                record.strategy,
                frozenset(changed),
                lost_rows,
                partial(self._violated, compiled),
                asking_is_cheap=max(sizes.values()) < LARGE,
            )
            shape = replace(shape, by_size=tuple(sorted(changed, key=lambda s: (sizes[s], s))))
            choice = with_foreign_keys(choice, shape, dropped, bool(record.parts))
            # A source that alone has changed is not read itself, but for self joins.
            read = [n for s, n in sizes.items() if len(changed) > 1 or s not in changed]
            largest = max([self._stored_rows(run, record), *read])
            with self.engine.using_all_cores(sum(c.total for c in changed.values()), largest):
                inserted, deleted = self._execute(run, record, compiled, shape)
        run.done.add(folded)
        if idle and not inserted and not deleted:
            return self._unchanged(run, record, "no source changed, and no row has crossed a bound")
        self._tick(run)
        run.moved.add(folded)
        if record.timed:
            run.times[folded] = to_micros(run.now)
        positions.update(dict.fromkeys(changes, version))
        return self.store.add_history(
            RefreshReport(
                str(record.name),
                choice.strategy,
                choice.reason + remark,
                inserted,
                deleted,
                time.perf_counter() - began,
                {str(s): version for s in record.sources},
                version,
                sum(c.total for c in changed.values()),
                choice.predicted_rows,
                dropped=choice.dropped,
            )
        )

    def _unchanged(self, run: _Run, record: ViewRecord, reason: str = "no source changed") -> RefreshReport:
        positions = run.positions.get(record.name.folded, {})
        versions = {str(s): positions.get(s.folded, 0) for s in record.sources}
        report = RefreshReport(
            str(record.name),
            "unchanged",
            reason,
            versions=versions,
            version=max(versions.values(), default=0),
        )
        last = self.store.last_strategy(record.name)
        return report if last == "unchanged" else self.store.add_history(report)

    def _change(self, run: _Run, record: ViewRecord, source: TableName) -> _Change:
        """What a source gained and lost since this view last looked; binds a parent view's delta."""
        position = run.positions.get(record.name.folded, {}).get(source.folded, LOST)
        if position == LOST:
            return _Change()
        if source.folded in run.pending:
            pending = run.pending[source.folded]
            sealed = (0, 0)
            if run.sources[source.folded].version > position:
                sealed = self.capture.sealed_counts(source, position)
            return _Change(pending.inserted + sealed[0], pending.deleted + sealed[1])
        return self._parent_change(run, run.records[source.folded], position)

    def _parent_change(self, run: _Run, parent: ViewRecord, position: int) -> _Change:
        log = self._log(parent)
        if not log.moved_since(position):
            return _Change()
        sql = log.changes_sql(position)
        delta = table_text(names.delta(parent.name), self.dialect)
        self.engine.execute(f"CREATE OR REPLACE TEMP TABLE {delta} AS {sql}")
        inserted, deleted = self.engine.execute(
            f"SELECT COUNT(*) FILTER (WHERE _vk_weight > 0), COUNT(*) FILTER (WHERE _vk_weight < 0) FROM {delta}"
        )[0]
        return _Change(inserted, deleted)

    def _log(self, view: ViewRecord) -> ViewLog:
        return ViewLog(self.engine, self.compiled(view))

    def _stored_rows(self, run: _Run, record: ViewRecord) -> int:
        if record.name.folded not in run.rows:
            run.rows[record.name.folded] = self.capture.count(names.backing(record.name))
        return run.rows[record.name.folded]

    def _rows(self, run: _Run, source: str) -> int:
        if source in run.pending:
            return run.pending[source].rows
        return self.capture.count(run.records[source].name)

    # ------------------------------------------------------------------ running its program
    def _bind(self, run: _Run, record: ViewRecord, changed: Mapping[str, _Change]) -> None:
        """Let the deltas of the changed tables be what this view has not consumed."""
        for source in record.sources:
            if source.folded in changed and source.folded in run.sources:
                after = run.positions[record.name.folded][source.folded] if source.folded in run.backlog else None
                self.capture.bind(source, after, run.sources[source.folded].columns)

    def _violated(self, compiled: CompiledView, edges: tuple[Edge, ...], shape: Shape) -> list[tuple[int, int]]:
        text = compiled.guard(edges, shape, self.dialect)
        return [(edge, doubt) for edge, doubt in self.engine.execute(text)] if text else []

    def _execute(self, run: _Run, record: ViewRecord, compiled: CompiledView, shape: Shape | None) -> tuple[int, int]:
        """Run the program for a shape of change, or the one that recomputes."""
        if shape is None:
            statements = compiled.full_statements(self.dialect)
        else:
            statements = compiled.statements(shape, self.dialect)
        try:
            counts = self._apply(run, compiled, statements)
            if shape is not None and isinstance(compiled.layout, BagLayout) and compiled.layout.bound is not None:
                self._check_bound(run, compiled, compiled.layout.bound)
            return counts
        except ViewkeepError as error:
            if self.engine.is_data_error(error):
                reason = f"the changes hold a value that does not fit ({error.fact}), the tables perhaps not"
                raise _StartOver(record.name.folded, reason, logged=shape is not None) from error
            if shape is not None and self.engine.is_too_deep(error):
                reason = "its incremental statements are nested deeper than the engine allows (max_expression_depth)"
                raise _StartOver(record.name.folded, reason) from error
            raise self._failed(record, error) from error

    def _check_bound(self, run: _Run, compiled: CompiledView, bound: Bound) -> None:
        """Of a view that shows the first rows: enough of them must be stored, and not many more."""
        view, stored = compiled.view.folded, run.rows[compiled.view.folded]
        if bound.shown <= stored <= bound.most:
            return
        table = table_text(bound.table, self.dialect)
        if stored < bound.shown:
            if not self.engine.execute(f"SELECT {COLUMN} IS NULL FROM {table}")[0][0]:  # else there are no others
                reason = f"of the rows in reserve {stored:,} are left, and {bound.shown:,} are needed"
                raise _StartOver(view, reason)
            return
        # Where many rows are sorted alike, a new bound would let in as many.
        within = rows_within_a_new_bound(compiled.layout.scan(), bound, compiled.fresh)
        text = query_sql(within, (names.ROWS,), self.dialect).sql(dialect=self.dialect)
        if self.engine.execute(text)[0][0] * 2 <= stored:
            reason = f"{stored:,} rows are stored, many more than the {bound.shown:,} that can be shown"
            raise _StartOver(view, reason)

    def _replace(self, run: _Run, record: ViewRecord, compiled: CompiledView) -> tuple[int, int]:
        """Recompute a view whose difference to before cannot be told; its readers start anew."""
        assert run.version is not None
        statements = program_sql(compiled.full_program(logged=False), self.dialect)
        try:
            counts = self._apply(run, compiled, statements)
        except ViewkeepError as error:
            raise self._failed(record, error) from error
        self._log(record).forget(run.version)
        self.store.lose(record.name)
        for positions in run.positions.values():
            if record.name.folded in positions:
                positions[record.name.folded] = LOST
        self.store.forget_changes(record.name, run.version)
        return counts

    def _failed(self, record: ViewRecord, error: ViewkeepError) -> RefreshError:
        return RefreshError(
            f"view {str(record.name)!r} could not be refreshed and is as it was: {error.fact}", hint=error.hint
        )

    def _apply(self, run: _Run, compiled: CompiledView, statements: list[Statement]) -> tuple[int, int]:
        """Run a program; how many view rows came and went."""
        backing, inserted, deleted = names.backing(compiled.view), 0, 0
        staged: list[TableName] = []
        rows, empty = self._stored_rows(run, run.records[compiled.view.folded]), 0
        values = self._values(run, compiled)
        bound = compiled.layout.bound if isinstance(compiled.layout, BagLayout) else None
        if bound is not None:
            self.engine.execute(tell_bound_sql(bound.table, self.dialect))
        expected: int | None = None
        first: str | None = None
        for statement in statements:
            if isinstance(statement.step, DropEmpty) and not empty:
                continue
            if isinstance(statement.step, Replace) and statement.step.kept_of is not None:
                ViewLog(self.engine, compiled).set_aside(run.started + 1)
            sql, given = statement.sql, {name: values[name] for name in statement.parameters}
            if statement.search is not None:
                if expected is None:
                    expected, *keys = self.engine.execute(statement.search.count)[0]
                    if keys:  # of two rows with one key nobody could say when each came
                        self._check_removed(compiled, expected, keys[0])
                    first = self._first_by(compiled, statement.search, expected, rows)
                sql = statement.search.by[first] if first else sql
            if statement.by_value is not None and self._few_values(statement.by_value, rows):
                sql = statement.by_value.sql
            answer = self.engine.execute(sql, given or ())
            count = answer[0][0] if answer and isinstance(answer[0][0], int) else 0
            match statement.step:
                case MergeAdd():
                    # A group that was there is one row out and one in; how many are new shows in the count.
                    now, empty = self._groups(backing)
                    inserted, deleted = count, count - (now - rows)
                case DropEmpty():
                    inserted -= count
                case Append(target=target):
                    inserted += count if target == backing else 0
                    if bound is not None and target == bound.table:
                        self.engine.execute(tell_bound_sql(bound.table, self.dialect))
                case TakeOut() as step:
                    if statement.counts_removed:
                        self._check_removed(compiled, expected, count)
                        expected = None
                        deleted += count
                        staged += [] if step.by_key else [out_of(step.view)]
                case Clear(target=target) | DeleteMatching(target=target):
                    deleted += count if target == backing else 0
                case Replace():
                    inserted, deleted = count, rows
                case Stage(name=name):
                    staged.append(name)
        for name in staged:
            self.engine.execute(drop_temporary(name, self.dialect))
        run.rows[compiled.view.folded] = rows + inserted - deleted
        return inserted, deleted

    def _groups(self, backing: TableName) -> tuple[int, int]:
        """How many groups are stored, and how many of them have no row any more."""
        stored = f"SELECT COUNT(*) FROM {table_text(backing, self.dialect)}"
        # In two branches: the second is answered from DuckDB's smallest and largest values alone, mostly.
        counts = self.engine.execute(f"{stored} UNION ALL {stored} WHERE {names.ROWS} = 0")
        (now,), (empty,) = counts
        return int(now), int(empty)

    def _values(self, run: _Run, compiled: CompiledView) -> dict[str, int | datetime]:
        """What a program is told."""
        then = run.times.get(compiled.view.folded)
        before = run.now if then is None else from_micros(then)
        oldest = self._oldest(run, run.records[compiled.view.folded])
        return {names.RUN: run.started + 1, names.OLDEST: oldest, NOW: run.now, THEN: before}

    def _first_by(self, compiled: CompiledView, search: Search, expected: int, stored: int) -> str | None:
        """The column by which to look first for rows that leave, if it is of use: it has many values."""
        if stored < LARGE or not search.by:
            return None
        if compiled.key_values is None:
            (told,) = self.engine.execute(search.statistics)
            known = zip(search.by, told[::2], told[1::2], strict=True)
            compiled.key_values = {c: values or 0 for c, values, null in known if null is False}
        name, values = max(compiled.key_values.items(), key=lambda known: known[1], default=("", 0))
        return name if expected * FEW <= values else None

    def _few_values(self, way: ByValue, stored: int) -> bool:
        """Whether values are so few that working with them is faster than with rows; of a view nothing is known."""
        return any(values is not None and values * SHARED <= stored for (values,) in self.engine.execute(way.values))

    def _check_removed(self, compiled: CompiledView, expected: int | None, removed: int) -> None:
        """As many rows must have gone as the delta says; a key that is not one, or a change that
        capture did not see, shows here."""
        if expected is None:
            return
        if removed != expected:
            raise _StartOver(
                compiled.view.folded,
                f"{expected} rows should have left the view and {removed} were found: "
                "a declared key does not hold, or a change was not captured",
                by_value=isinstance(compiled.layout, BagLayout) and compiled.layout.key is not None,
            )
