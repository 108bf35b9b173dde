"""A warehouse of Delta tables, with Spark to compute on them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import NullType
from sqlglot import exp

from viewkeep.catalog import Catalog, Column, ForeignKey, Key, Kind, Table, TableName
from viewkeep.emit.files import Programs
from viewkeep.engine.delta_log import DeltaLog
from viewkeep.engine.delta_spark import DeltaSpark, has_extension
from viewkeep.engine.local import Local
from viewkeep.engine.spark import DIALECT, Spark, cannot_write, col, discard, nullable
from viewkeep.engine.table_format import DataFile, LostHistory, NewFile
from viewkeep.engine.table_format import Kind as Moved
from viewkeep.errors import EngineError, RefreshError, SqlError, ViewkeepError
from viewkeep.plan.clock import NOW
from viewkeep.plan.nodes import scans
from viewkeep.runtime.clock import to_micros
from viewkeep.runtime.compiled import CompiledView
from viewkeep.runtime.database import Database, NotAsThought, Since, why_invalid
from viewkeep.runtime.lake.clustering import clustered
from viewkeep.runtime.lake.refresh import LakeRefresher
from viewkeep.runtime.lake.sources import Sources
from viewkeep.runtime.lake.stored import REPORT, TIME, Views, position_name, positions, time_of
from viewkeep.runtime.lake.tables import Tables
from viewkeep.runtime.lake.verify import verify_view
from viewkeep.runtime.lake.warehouse import Warehouse, catalog_type, columns_of
from viewkeep.runtime.records import ViewRecord, to_json
from viewkeep.runtime.reports import RefreshReport, VerifyReport, entry_of
from viewkeep.runtime.since import version_of
from viewkeep.sql.parse import Statement, parse_one
from viewkeep.sql.references import missing_in, named_in, replace_tables
from viewkeep.sql.rewording import text_of
from viewkeep.strategy import names
from viewkeep.strategy.choose import WARM
from viewkeep.strategy.form import ON_A_LAKE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_UNKNOWN = "TABLE_OR_VIEW_NOT_FOUND"
"""Spark's word for a table that it does not know."""


class LakeDatabase(Database):
    dialect, time_travel, form = DIALECT, True, ON_A_LAKE

    def __init__(self, session: SparkSession | None, folder: str) -> None:
        super().__init__()
        self.warehouse = Warehouse(folder, DeltaSpark() if session and has_extension(session) else DeltaLog())
        self.engine = self.spark = Spark(session)
        self.local = Local()
        self.stored = Views(self.warehouse)
        self.views = self.stored.all()
        self.tables = Tables(self)
        self._programs: dict[str, Programs] = {}

    # ------------------------------------------------------------------ what there is
    def read_catalog(self) -> Catalog:
        catalog = self.warehouse.catalog()
        for view in self.views.values():
            columns = tuple(Column(n, catalog_type(t)) for n, t in zip(view.output, view.types, strict=True))
            catalog = catalog.with_table(Table(view.name, columns))
        return catalog

    def read_views(self) -> dict[str, ViewRecord]:
        return self.stored.all()

    def forget_schema(self) -> None:
        super().forget_schema()
        self._programs.clear()

    def programs(self, record: ViewRecord) -> Programs:
        if record.name.folded not in self._programs:
            self._programs[record.name.folded] = Programs(self.compiled(record), self.spark.prefix)
        return self._programs[record.name.folded]

    def sources(self) -> Sources:
        """What a run reads; each table at the version it has when it is first asked for."""
        return Sources(self.spark, self.warehouse, self.stored, self.views, self.compiled)

    # ------------------------------------------------------------------ SQL of the user
    def output(self, text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        schema = self.frame(text).schema
        types = ["string" if isinstance(f.dataType, NullType) else f.dataType.simpleString() for f in schema.fields]
        return tuple(schema.names), tuple(types)

    def query(self, text: str) -> pa.Table:
        return self.spark.collect(self.frame(text))

    def frame(self, text: str, sources: Sources | None = None) -> DataFrame:
        """A query of the user in Spark's dialect, over the tables as they are now."""
        try:
            return self._frame(text, sources)
        except (NotAsThought, EngineError) as error:
            if sources is not None or not (isinstance(error, NotAsThought) or _UNKNOWN in error.fact):
                raise
            self.reload_views()  # somebody else made, replaced or dropped what the query reads
            return self._frame(text, None)

    def _frame(self, text: str, sources: Sources | None) -> DataFrame:
        found = parse_one(text, DIALECT)
        if missing_in(found, self.catalog()):  # another program may have made it
            self.forget_schema()
        try:
            return self.spark.sql(text_of(self.bound(found, sources or self.sources()), DIALECT))
        except EngineError as error:
            self.refuse_unreadable(found)
            catalog = self.catalog()
            for name in missing_in(found, catalog):  # the name that is near is a better hint than Spark's
                catalog.get(name)
            raise error

    def bound(self, tree: exp.Expr, sources: Sources) -> exp.Expr:
        """The same with relations of the session in place of tables and views."""
        catalog = self.catalog()
        stand_ins: dict[str, TableName] = {}
        for folded in named_in(text_of(tree, DIALECT), catalog, DIALECT):
            table = catalog.tables[folded]
            if table.kind is not Kind.PLAIN_VIEW:
                frame = sources.rows(table.name, sources.now(table.name))
                stand_ins[folded] = TableName(self.spark.name(frame, f"now_{folded}"))
        return replace_tables(tree, catalog, stand_ins, DIALECT)

    def refuse_unreadable(self, query: exp.Expr) -> None:
        for name in missing_in(query, self.catalog()):
            if (unreadable := self.warehouse.unreadable(name)) is not None:
                raise unreadable

    def base_table(self, name: str) -> Table:
        """With the columns that it has now: other programs make tables and change them."""
        if self.catalog().find(TableName.parse(name)) is None:
            self.forget_schema()
        table = super().base_table(name)
        return replace(table, columns=columns_of(self.warehouse.snapshot(table.name).schema))

    def execute(self, statement: Statement, dialect: str) -> None:
        tree = parse_one(statement.text, dialect)
        if isinstance(tree, exp.Transaction | exp.Commit | exp.Rollback):
            raise SqlError(
                f"{statement.word(0)}: there are no transactions across the tables of a lake",
                hint="every statement is committed by itself",
            )
        self.tables.execute(tree, dialect)

    def zone(self) -> str:
        return self.spark.zone

    @contextmanager
    def transaction(self) -> Iterator[bool]:
        """There are none across tables: a change is committed, then each view that follows it."""
        yield False

    # ------------------------------------------------------------------ views
    def create(self, record: ViewRecord, compiled: CompiledView, replaced: ViewRecord | None) -> None:
        if replaced is None:
            self.warehouse.new_name(record.name)
        made = replace(record, created=self.stored.next_number())
        written: list[NewFile] = []
        try:
            self._create(made, compiled, written)
        except Exception as error:
            # Only what is ours: another process may be making a view of this name and number.
            location = self.stored.location(made)
            discard(location, written)
            with suppress(OSError):
                os.rmdir(location)
            if isinstance(error, OSError):
                raise cannot_write(location, error) from error
            raise
        if replaced is not None:
            self.stored.drop(replaced)

    def _create(self, made: ViewRecord, compiled: CompiledView, files: list[NewFile]) -> None:
        began, jobs = time.perf_counter(), self.spark.jobs
        sources, location = self.sources(), self.stored.location(made)
        compiled.time_travel = True
        moment = self.clock()
        frame = _storable(self._contents(compiled, sources, moment, lambda _: None))
        files += self.spark.write(frame, location)
        files[:] = clustered(self.spark, location, files, frame.schema, compiled.layout.found_by)
        now = {s: sources.now(s) for s in made.sources}
        seconds = time.perf_counter() - began
        report = RefreshReport(
            str(made.name),
            "recompute",
            "created",
            rows_inserted=sum(f.rows for f in files),
            seconds=seconds,
            versions={str(s): snapshot.version for s, snapshot in now.items()},
            jobs=self.spark.jobs - jobs,
            at=datetime.now(UTC),
            full_seconds=seconds * WARM,
        )
        self.warehouse.format.create(
            location,
            nullable(frame.schema).json(),
            files,
            to_json(made),
            {REPORT: entry_of(report)},
            {position_name(s, snapshot): snapshot.version for s, snapshot in now.items()}
            | ({TIME: to_micros(moment)} if made.timed else {}),
        )

    def contents(
        self, record: ViewRecord, sources: Sources, moment: datetime, read: Callable[[Sequence[DataFile]], None]
    ) -> DataFrame:
        """The stored rows of a view from scratch, at a time."""
        return self._contents(self.compiled(record), sources, moment, read)

    def _contents(
        self, compiled: CompiledView, sources: Sources, moment: datetime, read: Callable[[Sequence[DataFile]], None]
    ) -> DataFrame:
        for source in compiled.sources:
            read(sources.now(source).files)
        if compiled.query is None:
            return self.frame(compiled.text, sources).toDF(*compiled.layout.columns)
        text = Programs(compiled, self.spark.prefix).contents()
        for name, relation in text.relations.items():
            self.spark.register(sources.rows(relation.table, sources.now(relation.table)), name)
        return self.spark.sql(text.sql, text.values({NOW: moment}), text.steps)

    def part_name(self, view: TableName, number: int) -> TableName:
        """Beside the view: on a lake no program but viewkeep sees views by their names."""
        return TableName(f"{view.name}__sub_{number}", view.schema)

    def drop(self, record: ViewRecord) -> None:
        self.stored.drop(record)

    def invalid_sources(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for view in self.views.values():
            for table in view.tables:
                if table.kind is Kind.BASE and (reason := self._broken(view, table)):
                    found[view.name.folded] = reason
        return found

    def _broken(self, view: ViewRecord, table: Table) -> str | None:
        name = str(table.name)
        if not self.warehouse.format.is_table(self.warehouse.location(table.name)):
            return f"table {name!r} is gone"
        try:
            now = {c.name.lower(): c for c in columns_of(self.warehouse.snapshot(table.name).schema)}
        except EngineError as error:
            return error.fact
        for column in table.columns:
            found = now.get(column.name.lower())
            if found is not None and found.type == column.type:
                continue
            if not self._uses(view, table, column):
                continue
            if found is None:
                return f"column {column.name!r} of table {name!r} is gone"
            return f"column {column.name!r} of table {name!r} changed from {column.type} to {found.type}"
        return None

    def _uses(self, view: ViewRecord, table: Table, column: Column) -> bool:
        """Whether a view needs a column; all of them, where it has no plan that would tell."""
        try:
            query = self.compiled(view).query
        except ViewkeepError:  # it cannot be refreshed for another reason
            query = None
        if query is None:
            return True
        read = (s for s in scans(query.root) if s.table.folded == table.name.folded)
        return any(name == column.name for scan in read for _, name in scan.columns)

    def refresh(self, order: list[ViewRecord], full: frozenset[str]) -> list[RefreshReport]:
        return LakeRefresher(self).run(order, full)

    def verify(self, record: ViewRecord) -> VerifyReport:
        return verify_view(self, record)

    def changes(self, record: ViewRecord, since: Since) -> pa.Table:
        history, view, sources = self.history(record), str(record.name), self.sources()
        if not record.keeps_changes:
            raise RefreshError(
                f"view {view!r} keeps no changes", hint="make it again with changes = 'keep', the default"
            )
        now = sources.now(record.name)
        version = version_of(view, since, history, 0, now.version)
        try:
            if sources.change(record.name, version).kind is Moved.NOTHING:
                empty = sources.rows(record.name, now).limit(0)
                frame = empty.select(sf.lit(0).alias("_w"), "*")
            else:
                frame = sources.delta(record.name, version).withColumnRenamed(names.WEIGHT, "_w")
        except LostHistory as lost:
            raise RefreshError(
                f"changes of {view!r} from version {version} on are not known: {lost}",
                hint=f"read the view whole, then ask for changes since version {now.version}",
            ) from None
        return self.spark.collect(frame)

    def history(self, record: ViewRecord) -> list[RefreshReport]:
        return self.stored.history(record)

    def as_of(self, record: ViewRecord) -> datetime | None:
        return time_of(self.warehouse.format, self.stored.read(record))

    def standing(self, record: ViewRecord, invalid: Mapping[str, str]) -> tuple[int, int]:
        stored, sources, waiting = self.stored.read(record), self.sources(), 0
        if why_invalid(record, invalid) is not None:
            return stored.snapshot.version, 0
        now = {s: sources.now(s) for s in record.sources}
        since = positions(self.warehouse.format, stored, now)
        for source in record.sources:
            position = since[source.folded]
            if position is not None and source.folded not in self.views and position < now[source].version:
                try:
                    change = sources.change(source, position)
                except LostHistory:
                    continue
                waiting += change.inserted + change.deleted
        return stored.snapshot.version, waiting

    # ------------------------------------------------------------------ tables
    def load(self, table: Table, data: pa.Table) -> int:
        return self.tables.load(table, data)

    def apply(self, table: Table, data: pa.Table) -> tuple[int, int]:
        return self.tables.apply(table, data)

    def declare(self, table: TableName, keys: list[Key], foreign_keys: list[ForeignKey]) -> None:
        self.warehouse.declare(table, keys, foreign_keys)

    def close(self) -> None:
        self.spark.close()


def _storable(frame: DataFrame) -> DataFrame:
    """Columns that are NULL and nothing else have no type that a file could keep."""
    void = [f.name for f in frame.schema.fields if isinstance(f.dataType, NullType)]
    for name in void:
        frame = frame.withColumn(name, col(name).cast("string"))
    return frame
