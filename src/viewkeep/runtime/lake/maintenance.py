"""One incremental refresh of one view: its program run over bound relations, its new files written.

nothing leaves           the new rows are written, one query
anything else            the change is written first; then only files that can hold a row of it are read
                         and written again: by the driver where they are small, else by a second query
a view of sums in        change and result are one query, and the whole view is written
between

Where few rows are expected, Spark computes only them: the driver groups them, merges them into the stored rows
and writes the files itself. Where no value has to be computed, the driver does all of it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Observation
from pyspark.sql import functions as sf

from viewkeep.catalog import TableName
from viewkeep.emit.files import Extent, Merge, Text
from viewkeep.engine.delta_log import CHANGES_FOLDER, arrow_schema
from viewkeep.engine.local import Files, is_simple
from viewkeep.engine.spark import FEW, SIMPLE, SPARK_ERRORS, Spark, col, discard, translate
from viewkeep.engine.table_format import Change, DataFile, NewFile, Recorded, Snapshot
from viewkeep.errors import EngineError
from viewkeep.incremental.weighted import Edge
from viewkeep.plan.nodes import State, scans
from viewkeep.runtime.lake.columns import Columns
from viewkeep.runtime.lake.pruning import Values, distinct, prune, scattered
from viewkeep.runtime.lake.rewriting import Rewriting, read, small_enough
from viewkeep.runtime.lake.sources import Sources, schema_of
from viewkeep.runtime.lake.staged import MOST_ROWS, Staged, read_small
from viewkeep.runtime.lake.stored import StoredView
from viewkeep.strategy import names
from viewkeep.strategy.choose import LARGE, READS_ALL
from viewkeep.strategy.fetched import FETCHED
from viewkeep.strategy.files import CHANGE, MOVED, TOUCHED, WAS, Rewrite
from viewkeep.strategy.pruning import Origin, Relation
from viewkeep.strategy.shape import Shape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from viewkeep.runtime.lake.database import LakeDatabase

Check = Callable[[pa.Table], pa.Array]
SMALL = 1_000_000
"""Stored rows up to which a view of sums is simply written anew when something in it changes."""
SUMS_IN_DRIVER = 4_000_000
"""Stored groups up to which sums are added up there."""
MOST_COMPUTED = 4_000_000
"""Rows that the driver reads to compute what changes, and as many at most that it makes of them."""
BROADCAST = 300_000
"""Rows that are sent to every task, where a delta is joined with a large table."""
FETCHED_ROWS = 50_000
"""Rows of a change that are expected at most where the driver groups them."""


class StartOver(Exception):
    """The incremental way failed, or turned out to be the longer one: the view is recomputed, with the reason."""

    def __init__(self, reason: str, would_read: int = 0) -> None:
        super().__init__(reason)
        self.would_read = would_read
        """Rows, where it was given up because of them."""


@dataclass(slots=True)
class Outcome:
    """What is to be committed."""

    added: Sequence[NewFile] = ()
    removed: Sequence[DataFile] = ()
    recorded: Recorded | None = None
    inserted: int = 0
    deleted: int = 0

    def discard(self, location: str) -> None:
        """It was not committed after all."""
        discard(location, self.added)
        if self.recorded is not None:
            shutil.rmtree(os.path.join(location, self.recorded.path), ignore_errors=True)


@dataclass(slots=True)
class Reading:
    """What a refresh handed to Spark to read, after pruning."""

    rows: int = 0
    bytes: int = 0

    def add(self, files: Sequence[DataFile]) -> None:
        self.rows += sum(f.rows for f in files)
        self.bytes += sum(f.size for f in files)


class Maintenance:
    def __init__(
        self,
        db: LakeDatabase,
        sources: Sources,
        stored: StoredView,
        changed: Mapping[str, Change],
        since: Mapping[str, int | None],
        reading: Reading,
        times: Mapping[str, datetime],
        may_recompute: bool = False,
    ) -> None:
        """`may_recompute`: whether to give up where that is cheaper."""
        self.may_recompute = may_recompute
        self.spark, self.local, self.sources, self.times = db.spark, db.local, sources, times
        self.stored, self.since, self.reading = stored, since, reading
        self.compiled = db.compiled(stored.record)
        self.changed = {s: c for s, c in changed.items() if not self._cancels(s, c)}
        self.staged: Staged | None = None
        self.programs = db.programs(stored.record)
        self.shape, self.dropped = Shape(frozenset()), dict[str, str]()
        if self.changed or self.compiled.timed:
            lost_rows = frozenset(s for s, c in self.changed.items() if c.deleted)
            self.shape, self.dropped = self.compiled.shape(
                stored.record.strategy, frozenset(self.changed), lost_rows, self._violated
            )
            self.program = self.programs.refresh(self.shape, self._extent())
            self.plan = self.program.plan

    def _violated(self, edges: tuple[Edge, ...], shape: Shape) -> list[tuple[int, int]]:
        if (guard := self.programs.guard(edges, shape)) is None:
            return []
        found = self._asked_in_driver(edges, shape)
        if found is None:
            found = self.spark.collect(self._query(guard))
        return list(zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True))

    def _asked_in_driver(self, edges: tuple[Edge, ...], shape: Shape) -> pa.Table | None:
        """The answer without Spark, where columns of few enough rows are all that is asked for."""
        guard = self.programs.guard_in_driver(edges, shape)
        return None if guard is None else self._answered_in_driver(guard)

    def _answered_in_driver(self, text: Text, most: int | None = None) -> pa.Table | None:
        columns = Columns(self.sources, self.changed, lambda relation: self._pruned(relation)[:2])
        try:
            if (known := columns.of(text, most)) is None:
                return None
            found = self.local.query(text.sql, known, most)
        except (EngineError, pa.ArrowInvalid, OSError):  # a file that is not what the log says: Spark knows better
            return None
        if most is not None and found.num_rows > most:
            return None
        self.reading.add(columns.read)
        return found

    def _cancels(self, source: str, change: Change) -> bool:
        """Whether what came is what went, as far as the view reads it: columns were updated that it does not have."""
        told = change.recorded and not (change.added or change.removed or change.feed)
        if not told or change.inserted != change.deleted or source in self.sources.records:
            return False
        read = {
            n for scan in scans(self.compiled.layout.contents) if scan.table.folded == source for _, n in scan.columns
        }
        rows = read_small(change.recorded, [names.WEIGHT, *read])
        if rows is None:
            return False
        try:
            net = rows.group_by(list(read)).aggregate([(names.WEIGHT, "sum")])
        except pa.ArrowNotImplementedError:  # nested values cannot be grouped
            return False
        return not _true(pc.not_equal(net.column(f"{names.WEIGHT}_sum"), 0))

    def _little(self) -> bool:
        """Whether the change of the view is expected to be small enough for the driver."""
        return bool(self.changed) and self._extent().few >= self.changed.keys()

    def _extent(self) -> Extent:
        few = frozenset(s for s in self.changed if self._expected(s) <= BROADCAST)
        return Extent(few, frozenset(s.folded for s in self.stored.record.sources if self.sources.now(s).rows > FEW))

    def _expected(self, source: str) -> float:
        """Rows that the change of a table leads to: if a hundredth of it changed, about a hundredth of any join with
        it is in question."""
        sizes = {s.folded: self.sources.now(s).rows for s in self.stored.record.sources}
        change = self.changed[source]
        return (change.inserted + change.deleted) * max(sizes.values()) / max(sizes[source], 1)

    def outcome(self) -> Outcome:
        if not self.changed and not self.compiled.timed:
            return Outcome()
        if self.program.change is None:
            if self.program.rows is None:
                return Outcome()
            added = self._from_driver()
            if added is None:
                added = write_rows(self.spark, self.stored.snapshot, self._query(self.program.rows), self._little())
            return Outcome(added, inserted=sum(f.rows for f in added))
        if (written := self._from_driver(CHANGES_FOLDER)) is not None:
            return self._in_two_steps(written)
        if (found := self._fetched()) is not None:
            return found
        if self.plan.counted and self.stored.snapshot.rows <= SMALL and not self._small(self.stored.snapshot.files):
            return self._add_up(self._query(self.program.change), self.stored.snapshot.files)
        computed = self._query(self.program.change)
        write = self.spark.write_few if self._little() else self.spark.write
        return self._in_two_steps(write(computed, self.stored.snapshot.location, CHANGES_FOLDER), computed)

    def _in_two_steps(self, written: Sequence[NewFile], computed: DataFrame | None = None) -> Outcome:
        """The change has been written; `computed`: by which query."""
        if not written:
            return Outcome()
        before = self.stored.snapshot
        self.staged = Staged.of(before.location, written)
        try:
            touched = self._touched(self.staged, self.plan)
            outcome = self._in_driver(self.staged, touched, self.plan, self.program.merge)
            outcome = outcome or self._in_spark(self.staged, touched, computed)
        except BaseException:
            self.staged.discard()
            raise
        if outcome.recorded is None:
            self.staged.discard()
        return outcome

    def _in_spark(self, staged: Staged, touched: tuple[DataFile, ...], computed: DataFrame | None) -> Outcome:
        assert self.program.change is not None
        computed = self._query(self.program.change) if computed is None else computed
        change = self.spark.files(staged.files, computed.schema)
        return self._add_up(change, touched) if self.plan.counted else self._replace(staged, change, touched)

    # ------------------------------------------------------------------ in the driver
    def _small(self, touched: Sequence[DataFile]) -> bool:
        """Whether what is touched, and what changed, can be looked at by the driver."""
        return (
            self.program.merge is not None
            and small_enough(touched)
            and not (self.plan.counted and sum(f.rows for f in touched) > SUMS_IN_DRIVER)
            and sum(c.inserted + c.deleted for c in self.changed.values()) <= MOST_ROWS
            and all(is_simple(f.type) for f in arrow_schema(self.stored.snapshot.schema))
        )

    def _from_driver(self, *folder: str) -> list[NewFile] | None:
        """What the program starts with, computed and written without Spark, where few rows are read and only matched
        and passed on; None where that is not possible."""
        if not self._little() or (text := self.programs.in_driver(self.shape)) is None:
            return None
        if (rows := self._answered_in_driver(text, MOST_COMPUTED)) is None:
            return None
        if not rows.num_rows:
            return []
        before = self.stored.snapshot
        wanted = arrow_schema(before.schema)
        if self.program.change is not None:
            wanted = pa.schema([(names.WEIGHT, pa.int32()), *wanted])
        try:
            rows = rows.select(wanted.names).cast(wanted)
        except pa.ArrowInvalid:  # a value that does not fit: Spark says so better
            return None
        return list(self.spark.write_arrow(rows, before.location, *folder))

    def _fetched(self) -> Outcome | None:
        """The rows of a small change fetched, and all else done without Spark; None where that is not possible."""
        before = self.stored.snapshot
        few = self._little() and sum(map(self._expected, self.changed)) <= FETCHED_ROWS
        if not few or not self._small(before.files):
            return None
        if (way := self.programs.fetched(self.shape, self._extent())) is None:
            return None
        computed = self._query(way.rows)
        if not all(isinstance(f.dataType, SIMPLE) for f in computed.schema.fields):
            return None
        wanted = arrow_schema(before.schema)
        try:
            known = {FETCHED: self.spark.collect(computed)}
            if any(r.table not in known for r in way.change.relations.values()):
                self.reading.add(before.files)
                stored = Rewriting(self.local, before.location, wanted, before.files)
                if not stored.possible:
                    return None
                known[names.backing(self.stored.record.name)] = stored.stored()
            change = self._locally(way.change, known)
            if way.plan.recorded:
                recorded = pa.schema([(names.WEIGHT, pa.int32()), *wanted])
                change = change.select(recorded.names).cast(recorded)
        except (EngineError, pa.ArrowInvalid):  # more rows than expected, or a value that does not fit
            return None
        if not change.num_rows:
            return Outcome()
        staged = Staged("", "", (), change)
        if way.plan.recorded:
            staged = Staged.of(before.location, self.spark.write_arrow(change, before.location, CHANGES_FOLDER))
        try:
            outcome = self._in_driver(staged, self._touched(staged, way.plan), way.plan, way.merge)
        except BaseException:
            staged.discard()
            raise
        if outcome is None or outcome.recorded is None:
            staged.discard()
        return outcome

    def _in_driver(
        self, staged: Staged, touched: tuple[DataFile, ...], plan: Rewrite, merge: Merge | None
    ) -> Outcome | None:
        """The change merged without Spark; None where it is too large, or must be computed from the tables."""
        if merge is None or staged.known is None or not self._small(touched):
            return None
        if plan.hit is not None and _any_hit(staged, plan.hit):
            return None
        try:
            outcome = (self._added_up if plan.counted else self._rewritten)(staged, staged.known, touched, plan, merge)
        except (EngineError, pa.ArrowInvalid):  # a value that does not fit: Spark says so better
            return None
        self.reading.add(touched)
        return outcome

    def _rewritten(
        self, staged: Staged, change: pa.Table, touched: tuple[DataFile, ...], plan: Rewrite, merge: Merge
    ) -> Outcome | None:
        before = self.stored.snapshot
        rewriting = Rewriting(self.local, before.location, arrow_schema(before.schema), touched)
        if not rewriting.possible:
            return None
        return self._replaced(staged, *rewriting.files(merge, change), plan)

    def _added_up(
        self, staged: Staged, change: pa.Table, touched: tuple[DataFile, ...], plan: Rewrite, merge: Merge
    ) -> Outcome:
        before = self.stored.snapshot
        wanted = arrow_schema(before.schema)
        assert merge.rows is not None
        found = self._locally(merge.rows, {CHANGE: change, TOUCHED: read(touched, wanted)})
        rows = found.select(wanted.names).cast(wanted)
        alive, moved = pc.greater(rows.column(names.ROWS), 0), pc.equal(found.column(MOVED), 1)
        if not plan.match:
            alive = pa.array([True] * rows.num_rows)  # the one row of a global aggregate stays
        inserted, deleted = _true(pc.and_(moved, alive)), _true(pc.and_(moved, pc.equal(found.column(WAS), 1)))
        if not inserted and not deleted:
            return Outcome()
        added = self.spark.write_arrow(rows.filter(alive), before.location)
        return Outcome(added, touched, None, inserted, deleted)

    def _locally(self, text: Text, known: Mapping[TableName, pa.Table | Files]) -> pa.Table:
        return self.local.query(text.sql, {name: known[r.table] for name, r in text.relations.items()})

    # ------------------------------------------------------------------ in Spark
    def _add_up(self, change: DataFrame, touched: tuple[DataFile, ...]) -> Outcome:
        """Stored sums and their changes, by group. A group that was there is one row out and one in."""
        assert self.program.rows is not None
        seen, before = Observation(), self.stored.snapshot
        alive, moved = sf.col(names.ROWS) > 0, sf.col(MOVED) == 1
        if not self.plan.match:
            alive = sf.lit(True)  # the one row of a global aggregate stays
        groups = self._query(self.program.rows, change, touched).observe(
            seen,
            sf.count_if(moved & alive).alias("inserted"),
            sf.count_if(moved & (sf.col(WAS) == 1)).alias("deleted"),
        )
        added = write_rows(self.spark, before, groups.where(alive))
        inserted, deleted = _observed(seen)
        if not inserted and not deleted:  # the changes cancelled out
            discard(before.location, added)
            return Outcome()
        return Outcome(added, touched, None, inserted, deleted)

    def _replace(self, staged: Staged, change: DataFrame, touched: tuple[DataFile, ...]) -> Outcome:
        """Rows of the touched files that stay, and what comes in place of those that go."""
        texts = [self.program.rows] if self.program.rows is not None else []
        if self.program.anew is not None and self.plan.hit is not None and _any_hit(staged, self.plan.hit):
            self._stop_if_all_is_read(self.program.anew)
            texts.append(self.program.anew)
        parts = [self._query(text, change, touched) for text in texts]
        frame = parts[0]
        for part in parts[1:]:
            frame = frame.unionAll(part)
        return self._replaced(staged, write_rows(self.spark, self.stored.snapshot, frame), touched, self.plan, change)

    def _replaced(
        self,
        staged: Staged,
        added: Sequence[NewFile],
        removed: Sequence[DataFile],
        plan: Rewrite,
        change: DataFrame | None = None,
    ) -> Outcome:
        """What came and went, counted: a key that does not hold shows here."""
        written, read = sum(f.rows for f in added), sum(f.rows for f in removed)
        if not plan.recorded:
            gone = self._count(staged, change, f"`{plan.before}` IS NOT NULL", _is_valid(plan.before))
            return Outcome(added, removed, None, written - (read - gone), gone)
        came = self._count(staged, change, f"{names.WEIGHT} > 0", _positive)
        gone = staged.rows - came
        if (found := read + came - written) != gone:
            raise StartOver(
                f"{gone} rows should have left the view and {found} were found: a declared key does not hold"
            )
        return Outcome(added, removed, Recorded(staged.folder, came, gone), came, gone)

    def _stop_if_all_is_read(self, anew: Text) -> None:
        """Groups that lost their extreme are looked for among the rows of the tables. Where statistics let that skip
        nothing, running the query is cheaper: it need not find out what it is about."""
        if not self.may_recompute:
            return
        read = sum(f.rows for r in anew.relations.values() if self._is_table(r) for f in self._pruned(r)[1])
        total = sum(self.sources.now(s).rows for s in self.stored.record.sources)
        if total >= LARGE and read >= READS_ALL * total:
            raise StartOver(
                f"a minimum or maximum was deleted, and the next one would be looked for in {read:,} rows, no fewer "
                "than the query itself reads",
                self.reading.rows + read,
            )

    def _count(self, staged: Staged, change: DataFrame | None, condition: str, check: Check) -> int:
        known = staged.count(check)
        if known is not None:
            return known
        assert change is not None
        with self.spark.counted():
            return change.where(condition).count()

    def _touched(self, staged: Staged, plan: Rewrite) -> tuple[DataFile, ...]:
        """The files of the view that can hold a row that the change is about."""
        files = self.stored.snapshot.files
        keep = _negative if plan.recorded else None
        wanted = []
        for stored, changed in plan.match:
            if (values := staged.values(changed, keep)) is not None:
                wanted.append((stored, values))
        return prune(files, wanted)

    # ------------------------------------------------------------------ relations
    def _query(self, text: Text, change: DataFrame | None = None, touched: tuple[DataFile, ...] = ()) -> DataFrame:
        for name, relation in text.relations.items():
            self.spark.register(self._frame(relation, change, touched), name)
        return self.spark.sql(text.sql, text.values(self.times), text.steps)

    def _frame(self, relation: Relation, change: DataFrame | None, touched: tuple[DataFile, ...]) -> DataFrame:
        if relation.table == CHANGE:
            assert change is not None
            return change
        if relation.table == TOUCHED:
            self.reading.add(touched)
            return self.sources.stored(self.stored.snapshot, touched)
        if relation.table == names.backing(self.stored.record.name):
            self.reading.add(self.stored.snapshot.files)
            return self.sources.stored(self.stored.snapshot)
        return self._source(relation)

    def _source(self, relation: Relation) -> DataFrame:
        name, since = relation.table, self.since[relation.table.folded]
        assert since is not None
        if relation.state is State.DELTA:
            change = self.changed[name.folded]
            self.reading.add(change.files)
            return self.sources.delta(name, since)
        snapshot, files, told = self._pruned(relation)
        self.reading.add(files)
        frame = self.sources.rows(name, snapshot, files)
        for column, values in told:
            frame = frame.where(values.condition(col(column)))
        return frame

    def _is_table(self, relation: Relation) -> bool:
        """Whether it is a source, as it is or was."""
        return relation.state is not State.DELTA and relation.table.folded in self.since

    def _pruned(self, relation: Relation) -> tuple[Snapshot, tuple[DataFile, ...], list[tuple[str, Values]]]:
        """The version of a source that a query reads, those of its files that can matter, and what the scan of
        them is told."""
        name = relation.table
        snapshot = self.sources.now(name)
        if relation.state is State.OLD and name.folded in self.changed:
            since = self.since[name.folded]
            assert since is not None
            snapshot = self.sources.at(name, since)
        # A small table is read as a whole, sooner than it is known what to leave out.
        if name.folded in self.sources.records or snapshot.rows <= FEW:
            return snapshot, snapshot.files, []
        wanted = [(c, v) for c, origin in relation.keys if (v := self._values(origin)) is not None]
        # A table that is read by version is pruned by its own reader, which is told the same conditions.
        if snapshot.by_version:
            return snapshot, snapshot.files, wanted
        told = [(c, v) for c, v in wanted if not scattered(snapshot.files, c, v)]
        return snapshot, prune(snapshot.files, wanted), told

    def _values(self, origin: Origin) -> Values | None:
        """The values that a column of a change has, where they are few."""
        if origin.table == CHANGE:
            hit = _is_true(self.plan.hit) if self.plan.hit else None
            found = self.staged.values(origin.column, hit) if self.staged else None
        else:
            change = self.changed[origin.table.folded]
            if change.cancels or change.between or origin.table.folded in self.sources.records:
                return None
            if any(origin.column in f.partition for f in change.added):
                return None  # the files themselves do not have the column
            rows = read_small((*change.added, *change.recorded), [origin.column])
            found = None if rows is None else distinct(rows.column(0))
        if found is None or origin.nulls:
            return found
        return Values(found.sorted, False)


def write_rows(spark: Spark, snapshot: Snapshot, frame: DataFrame, few: bool = False) -> list[NewFile]:
    """Write rows with the columns and types of a table; `few`: as is expected of them."""
    typed = [col(f.name).cast(f.dataType).alias(f.name) for f in schema_of(snapshot).fields]
    try:
        return (spark.write_few if few else spark.write)(frame.select(*typed), snapshot.location)
    except SPARK_ERRORS as error:  # a column that does not fit is noticed before anything runs
        raise translate(error) from error


def _observed(seen: Observation) -> tuple[int, int]:
    try:
        found = seen.get
        return int(found["inserted"]), int(found["deleted"])
    except (*SPARK_ERRORS, KeyError):  # the optimizer saw that there are no rows at all
        return 0, 0


def _true(values: pa.ChunkedArray) -> int:
    return int(pc.sum(values.cast(pa.int64())).as_py() or 0)


def _negative(rows: pa.Table) -> pa.Array:
    return pc.less(rows.column(names.WEIGHT), 0)


def _positive(rows: pa.Table) -> pa.Array:
    return pc.greater(rows.column(names.WEIGHT), 0)


def _is_true(column: str) -> Check:
    return lambda rows: rows.column(column)


def _any_hit(staged: Staged, hit: str) -> bool:
    hits = staged.count(_is_true(hit))
    return hits is None or hits > 0


def _is_valid(column: str | None) -> Check:
    return lambda rows: pc.is_valid(rows.column(column))
