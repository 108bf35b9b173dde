"""What views read during one run: every source pinned at one version, and what changed up to it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from viewkeep.catalog import TableName
from viewkeep.emit.statements import query_sql
from viewkeep.engine.delta_spark import rows_at, rows_between
from viewkeep.engine.spark import DIALECT, Spark, col
from viewkeep.engine.table_format import Change, DataFile, LostHistory, Snapshot
from viewkeep.plan.nodes import Node
from viewkeep.runtime.compiled import CompiledView
from viewkeep.runtime.lake.stored import Views
from viewkeep.runtime.lake.warehouse import Warehouse
from viewkeep.runtime.records import ViewRecord
from viewkeep.strategy import names
from viewkeep.strategy.outgoing import of_limited, of_weighted
from viewkeep.strategy.pruning import Relation, bind_scans

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CHANGE_TYPE = "_change_type"


class Sources:
    def __init__(
        self,
        spark: Spark,
        warehouse: Warehouse,
        views: Views,
        records: dict[str, ViewRecord],
        compiled: Callable[[ViewRecord], CompiledView],
    ) -> None:
        self.spark, self.warehouse, self.views, self.records, self.compiled = spark, warehouse, views, records, compiled
        self._pinned: dict[str, Snapshot] = {}
        self._changes: dict[tuple[str, int, int], Change] = {}

    # ------------------------------------------------------------------ versions
    def now(self, name: TableName) -> Snapshot:
        """The version that this run reads."""
        if name.folded not in self._pinned:
            self._pinned[name.folded] = self._newest(name)
        return self._pinned[name.folded]

    def pin(self, name: TableName, snapshot: Snapshot) -> None:
        self._pinned[name.folded] = snapshot

    def _newest(self, name: TableName) -> Snapshot:
        if (record := self.records.get(name.folded)) is not None:
            return self.views.read(record).snapshot
        return self.warehouse.snapshot(name)

    def at(self, name: TableName, version: int) -> Snapshot:
        now = self.now(name)
        if version == now.version:
            return now
        found = self.warehouse.format.snapshot(now.location, version)
        for file in found.files:
            if not os.path.exists(file.path):
                raise LostHistory(f"its file {os.path.basename(file.path)!r} is gone: the history was vacuumed")
        return found

    def overtake(self, name: TableName, version: int) -> Snapshot:
        """Read a later version from now on, if there is one."""
        if self._newest(name).version >= version:
            self.pin(name, self.at(name, version))
        return self.now(name)

    def change(self, name: TableName, since: int) -> Change:
        now = self.now(name)
        key = (name.folded, since, now.version)
        if key not in self._changes:
            self._changes[key] = self.warehouse.format.changes(now, since)
        return self._changes[key]

    # ------------------------------------------------------------------ rows
    def rows(self, name: TableName, snapshot: Snapshot, files: tuple[DataFile, ...] | None = None) -> DataFrame:
        """The rows of a table or view as its users see them, at a version."""
        stored = self._files(snapshot, snapshot.files if files is None else files)
        record = self.records.get(name.folded)
        return stored if record is None else self._finalised(record, stored)

    def stored(self, snapshot: Snapshot, files: tuple[DataFile, ...] | None = None) -> DataFrame:
        return self._files(snapshot, snapshot.files if files is None else files)

    def _files(self, snapshot: Snapshot, files: tuple[DataFile, ...]) -> DataFrame:
        if snapshot.by_version:
            return rows_at(self.spark, snapshot)
        return self._plain(snapshot, files)

    def _plain(self, snapshot: Snapshot, files: tuple[DataFile, ...]) -> DataFrame:
        """The rows of files that hold nothing else."""
        root = snapshot.location if snapshot.partitioned_by else None
        return self.spark.files(files, schema_of(snapshot), root)

    def _finalised(self, record: ViewRecord, stored: DataFrame) -> DataFrame:
        compiled = self.compiled(record)
        name = self.spark.name(stored, f"stored_{record.name.folded}")
        return self.cast(record, self.select(compiled.layout.above, compiled.layout.output, lambda _: TableName(name)))

    def cast(self, record: ViewRecord, frame: DataFrame, first: tuple[str, ...] = ()) -> DataFrame:
        """The columns of a view in the types that its own query has."""
        typed = [col(c).cast(t).alias(c) for c, t in zip(record.output, record.types, strict=True)]
        return frame.select(*(sf.col(c) for c in first), *typed)

    def select(self, plan: Node, columns: tuple[str, ...], bind: Callable[[Relation], TableName]) -> DataFrame:
        bound = bind_scans(plan, frozenset(), bind)
        return self.spark.sql(query_sql(bound, columns, DIALECT).sql(dialect=DIALECT))

    # ------------------------------------------------------------------ changes
    def delta(self, name: TableName, since: int) -> DataFrame:
        """What a source gained and lost, one row a unit, beside its weight."""
        now, change = self.now(name), self.change(name, since)
        record = self.records.get(name.folded)
        if record is None:
            return self._net(now, change) if change.cancels else self._weighted(now, change)
        compiled = self.compiled(record)
        if compiled.layout.ordered:
            # A LIMIT is not linear: one row in can push another out.
            before = self.spark.name(self.stored(self.at(name, since)), f"before_{name.folded}")
            after = self.spark.name(self.stored(now), f"after_{name.folded}")
            found = of_limited(compiled.layout, TableName(after), TableName(before), compiled.fresh)
        else:
            stored = self.spark.name(self._weighted(now, change), f"changed_{name.folded}")
            found = of_weighted(compiled.layout, TableName(stored), compiled.fresh)
        frame = self.select(found, (names.WEIGHT, *compiled.layout.output), lambda r: r.table)
        return self.cast(record, frame, (names.WEIGHT,))

    def _weighted(self, snapshot: Snapshot, change: Change) -> DataFrame:
        """Rows that came and went as the log tells them; a rewritten file brings each of its rows twice."""
        if change.between is not None:
            return rows_between(self.spark, snapshot, change.between, names.WEIGHT)
        schema = schema_of(snapshot)
        parts = [
            self._plain(snapshot, files).withColumn(names.WEIGHT, sf.lit(sign))
            for files, sign in ((change.added, 1), (change.removed, -1))
            if files
        ]
        if change.recorded:
            weighted = StructType([StructField(names.WEIGHT, IntegerType()), *schema.fields])
            parts.append(self.spark.files(change.recorded, weighted))
        if change.feed:
            told = StructType([*schema.fields, StructField(_CHANGE_TYPE, StringType())])
            came = sf.col(_CHANGE_TYPE).isin("insert", "update_postimage")
            root = snapshot.location if snapshot.partitioned_by else None
            feed = self.spark.files(change.feed, told, root).withColumn(names.WEIGHT, sf.when(came, 1).otherwise(-1))
            parts.append(feed.drop(_CHANGE_TYPE))
        columns = [sf.col(names.WEIGHT), *(col(f.name) for f in schema.fields)]
        aligned = [part.select(*columns) for part in parts]
        whole = aligned[0]
        for part in aligned[1:]:
            whole = whole.unionAll(part)
        return whole

    def _net(self, snapshot: Snapshot, change: Change) -> DataFrame:
        """The same without what cancels."""
        weighted = self._weighted(snapshot, change)
        columns = [col(c) for c in weighted.columns if c != names.WEIGHT]
        total = weighted.groupBy(*columns).agg(sf.sum(names.WEIGHT).alias(names.WEIGHT))
        moved = total.where(sf.col(names.WEIGHT) != 0)
        copies = sf.explode(sf.sequence(sf.lit(1), sf.abs(sf.col(names.WEIGHT))))
        sign = sf.signum(names.WEIGHT).cast("int").alias(names.WEIGHT)
        return moved.select(sign, *columns, copies.alias("_vk_copy")).drop("_vk_copy")


def schema_of(snapshot: Snapshot) -> StructType:
    return StructType.fromJson(json.loads(snapshot.schema))
