"""Delta Lake with its Spark extension, for tables whose files are not their rows (deletion vectors, column
mapping, …): the log is read in the driver as ever, rows come by version from the extension's own reader.

What changed between two versions is classified from the log before any job runs. Its rows are those of
the change feed, where the table keeps one; else those of the files that are not the same in both versions,
as the later version reads them minus as the earlier one does. Other tables go the way of the log alone.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from deltalake import DeltaTable
from pyspark.sql import functions as sf

from viewkeep.engine.delta_features import refused, rules_of
from viewkeep.engine.delta_log import DeltaLog
from viewkeep.engine.delta_moves import Moves, columns_of_both
from viewkeep.engine.spark import FEW, SPARK_ERRORS, Spark, col, translate
from viewkeep.engine.table_format import Between, Change, Kind, LostHistory, Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_PLAIN = frozenset({"deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Features with which a file that has no deletion vector still is its rows."""
_CHANGE_TYPE = "_change_type"


def has_extension(session: SparkSession) -> bool:
    """By its settings, which every kind of session tells."""
    extensions = session.conf.get("spark.sql.extensions", None) or ""
    catalog = session.conf.get("spark.sql.catalog.spark_catalog", None)
    return _EXTENSION in extensions.split(",") and catalog == _CATALOG


class DeltaSpark(DeltaLog):
    def _by_version(self, location: str, table: DeltaTable) -> bool:
        return refused(location, table) is not None

    def _guarded(self, table: DeltaTable) -> bool:
        return bool(rules_of(table))

    def changes(self, after: Snapshot, since: int) -> Change:
        return self._between(after, since) if after.by_version else super().changes(after, since)

    def _between(self, after: Snapshot, since: int) -> Change:
        if after.version == since:
            return Change(Kind.NOTHING)
        before = self.snapshot(after.location, since)
        columns, moves = columns_of_both(before, after), Moves(before, after)
        came, gone = moves.came, moves.gone
        if not moves.data_changed or not (came or gone):
            return Change(Kind.NOTHING)
        mutated = moves.rewrites and bool(gone)
        deleted = max(moves.deleted, 1) if mutated else 0
        kind = Kind.MUTATED if mutated else Kind.APPENDED
        if mutated and len(gone) == len(before.files) and not {f.path for f in came} & {f.path for f in gone}:
            kind = Kind.REPLACED
        table = DeltaTable(after.location, version=after.version)
        # The feed has them all, but a join also reads the earlier version.
        _require([*(f.path for f in gone), *moves.old_vectors])
        if not moves.vectors and _plain(table):
            return Change(kind, came, gone, inserted=moves.inserted, deleted=deleted)
        fed = table.metadata().configuration.get("delta.enableChangeDataFeed") == "true"
        # A feed is kept from the commit on that turns it on, which also is a commit of metadata.
        fed = fed and not moves.metadata and all(map(os.path.exists, moves.feed))
        between = Between(since, after.version, columns, came, gone, fed)
        return Change(kind, inserted=moves.inserted, deleted=deleted, between=between)


def _plain(table: DeltaTable) -> bool:
    mapped = (table.metadata().configuration.get("delta.columnMapping.mode") or "none") != "none"
    return not mapped and set(table.protocol().reader_features or ()) <= _PLAIN


def _require(paths: list[str]) -> None:
    for path in paths:
        if not os.path.exists(path):
            raise LostHistory(f"its file {os.path.basename(path)!r} is gone: the history was vacuumed")


# ---------------------------------------------------------------------- rows
def rows_at(spark: Spark, snapshot: Snapshot) -> DataFrame:
    """A table at the version of a snapshot."""
    frame = _load(spark, snapshot.location, versionAsOf=snapshot.version)
    return frame.coalesce(1) if snapshot.rows <= FEW else frame


def rows_between(spark: Spark, snapshot: Snapshot, between: Between, weight: str) -> DataFrame:
    """Rows that came and went, with their weight; some may cancel out."""
    columns = [col(c) for c in between.columns]
    if between.feed:
        feed = _load(
            spark,
            snapshot.location,
            readChangeFeed="true",
            startingVersion=between.since + 1,
            endingVersion=between.until,
        )
        came = sf.col(_CHANGE_TYPE).isin("insert", "update_postimage")
        whole = feed.select(sf.when(came, 1).otherwise(-1).alias(weight), *columns)
    else:
        named = sorted({os.path.basename(f.path) for f in (*between.came, *between.gone)})
        parts = []
        for version, files, sign in ((between.until, between.came, 1), (between.since, between.gone, -1)):
            if files:
                frame = _load(spark, snapshot.location, versionAsOf=version)
                moved = frame.metadataColumn("_metadata").getField("file_name").isin(named)
                parts.append(frame.where(moved).select(sf.lit(sign).alias(weight), *columns))
        whole = parts[0].unionAll(parts[1]) if len(parts) == 2 else parts[0]
    return whole.coalesce(1) if sum(f.rows for f in (*between.came, *between.gone)) <= FEW else whole


def _load(spark: Spark, location: str, **options: str | int) -> DataFrame:
    try:
        return spark.session.read.format("delta").options(**options).load(location)
    except SPARK_ERRORS as error:
        raise translate(error) from error
