"""Tables of Delta Lake's Spark extension, run by test_delta_spark.py in a process of its own: the jars of a
session are fixed when it starts. Each case is a function; what became of it is printed as a line of JSON.

In every case `facts` has features that the log alone cannot show, and `dims` is a table of viewkeep's own.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import viewkeep
from viewkeep.engine.delta_log import DeltaLog
from viewkeep.engine.delta_spark import DeltaSpark, has_extension
from viewkeep.engine.java import find_java
from viewkeep.engine.table_format import Change, Kind
from viewkeep.errors import EngineError, RefreshError, ViewkeepError

PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
"""The newest for this Spark on Maven Central."""
IN_SPARK = (
    "org.apache.hadoop:*",
    "org.apache.parquet:*",
    "org.apache.logging.log4j:*",
    "com.fasterxml.jackson.core:*",
    "com.fasterxml.jackson.datatype:*",
    "com.github.luben:*",
    "org.xerial.snappy:*",
    "org.roaringbitmap:*",
    "org.scala-lang:*",
    "org.slf4j:*",
)
"""What the package names and Spark brings itself, so that it need not be fetched."""
VECTORS = "'delta.enableDeletionVectors' = 'true'"
MAPPED = "'delta.columnMapping.mode' = 'name'"
FED = "'delta.enableChangeDataFeed' = 'true'"
VIEWS = {
    "large": "SELECT k, v FROM {facts} WHERE v > 150",
    "joined": "SELECT f.k, d.label, f.v FROM {facts} f JOIN {dims} d ON f.g = d.g",
    "sums": "SELECT g, SUM(v) AS total, COUNT(*) AS n FROM {facts} GROUP BY g",
    "bounds": "SELECT g, MIN(v) AS low, MAX(v) AS high FROM {facts} GROUP BY g",
}
ROWS = 300


def session() -> SparkSession:
    find_java()
    settings = {
        "spark.jars.packages": PACKAGE,
        "spark.jars.excludes": ",".join(IN_SPARK),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.databricks.delta.vacuum.parallelDelete.enabled": "false",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
        "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC {os.environ.get('VIEWKEEP_JAVA_OPTIONS', '')}",
        "spark.driver.memory": os.environ.get("VIEWKEEP_DRIVER_MEMORY", "2g"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": tempfile.mkdtemp(prefix="viewkeep-unused-"),
    }
    if repository := os.environ.get("VIEWKEEP_MAVEN_REPOSITORY"):
        settings["spark.jars.repositories"] = repository
    builder = SparkSession.builder.master("local[2]").appName("viewkeep with Delta Lake")
    for key, value in settings.items():
        builder = builder.config(key, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("ERROR")
    return found


class Lake:
    """A warehouse with the two tables, and views on them that the case keeps fresh."""

    def __init__(self, spark: SparkSession, folder: str, *properties: str) -> None:
        self.spark, self.folder = spark, folder
        self.views: list[str] = []
        self.names = {t: f"delta.`{folder}/{t}`" for t in ("facts", "dims")}
        self.keeper = viewkeep.connect(spark=spark, warehouse=folder)
        self.keeper.sql("CREATE TABLE dims (g STRING, label STRING)")
        self.keeper.sql("INSERT INTO dims VALUES ('g0', 'zero'), ('g1', 'one'), ('g2', NULL)")
        stated = f"TBLPROPERTIES ({', '.join(properties)})" if properties else ""
        self.delta(f"CREATE TABLE {{facts}} (k INT, g STRING, v INT, note STRING, more STRING) USING delta {stated}")
        values = f"SELECT CAST(id AS INT), 'g' || id % 4, CAST(id AS INT), 'n', NULL FROM range(0, {ROWS}, 1, 1)"
        self.delta(f"INSERT INTO {{facts}} {values}")

    def delta(self, text: str) -> None:
        """A statement of another program, which knows nothing of viewkeep."""
        self.spark.sql(text.format(**self.names))

    def make_views(self, *names: str) -> None:
        for name in names or VIEWS:
            self.views.append(name)
            query = VIEWS[name].format(facts="facts", dims="dims")
            self.keeper.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")

    @property
    def version(self) -> int:
        return DeltaSpark().snapshot(f"{self.folder}/facts").version

    def change(self, since: int) -> Change:
        return DeltaSpark().changes(DeltaSpark().snapshot(f"{self.folder}/facts"), since)

    def refresh(self) -> set[str]:
        """Refresh all views and compare each with its query as the extension runs it; the strategies."""
        reports = self.keeper.refresh()
        for view in self.views:
            wanted = self.spark.sql(VIEWS[view].format(**self.names)).toArrow()
            assert rows(self.keeper.query(f"SELECT * FROM {view}")) == rows(wanted), (view, reports)
        return {r.strategy for r in reports}

    def verify(self) -> None:
        for view in self.views:
            assert self.keeper.verify(view).equal, view

    def logged(self, text: str) -> bool:
        return any(text in p.read_text() for p in Path(self.folder, "facts", "_delta_log").glob("*.json"))


def rows(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


INCREMENTAL = {"classical"}


def deletion_vectors(spark: SparkSession, folder: str) -> None:
    lake = Lake(spark, folder, VECTORS)
    lake.make_views()
    since = lake.version
    lake.delta("DELETE FROM {facts} WHERE k = 299 OR k = 7")
    assert lake.logged('"deletionVector"')
    change = lake.change(since)
    assert (change.kind, change.deleted) == (Kind.MUTATED, 2)
    assert lake.refresh() == INCREMENTAL
    lake.delta("UPDATE {facts} SET v = v + 1000, g = NULL WHERE k IN (1, 2, 100)")
    lake.keeper.sql("INSERT INTO dims VALUES ('g3', 'three')")
    assert lake.refresh() <= INCREMENTAL
    since = lake.version
    lake.delta("INSERT INTO {facts} VALUES (500, 'g1', 500, NULL, NULL), (500, 'g1', 500, NULL, NULL)")
    change = lake.change(since)
    assert (change.kind, change.inserted, change.between) == (Kind.APPENDED, 2, None)
    lake.refresh()
    lake.delta("DELETE FROM {facts} WHERE g = 'g2'")
    lake.delta("INSERT INTO {facts} VALUES (7, 'g2', 7, 'again', NULL)")
    assert "recompute" not in lake.refresh()
    lake.verify()
    assert lake.refresh() == {"unchanged"}


def column_mapping(spark: SparkSession, folder: str) -> None:
    lake = Lake(spark, folder, MAPPED, VECTORS)
    lake.keeper.sql("ALTER TABLE facts RENAME COLUMN more TO rest")
    lake.make_views()
    since = lake.version
    lake.delta("ALTER TABLE {facts} RENAME COLUMN note TO remark")
    lake.delta("ALTER TABLE {facts} DROP COLUMN rest")
    assert lake.change(since).kind is Kind.NOTHING
    assert lake.refresh() == {"unchanged"}
    lake.delta("DELETE FROM {facts} WHERE k < 3")
    lake.delta("INSERT INTO {facts} VALUES (600, 'g1', 600, 'r')")
    assert "recompute" not in lake.refresh()
    lake.delta("ALTER TABLE {facts} ADD COLUMN extra INT")
    lake.keeper.sql("UPDATE facts SET v = v + 1, extra = 3 WHERE k = 600")
    assert "recompute" not in lake.refresh()
    lake.verify()
    # A column of the same name that is another one: all rows have another value in it now.
    lake.delta("ALTER TABLE {facts} DROP COLUMN v")
    lake.delta("ALTER TABLE {facts} ADD COLUMN v INT")
    reports = {r.view: r for r in lake.keeper.refresh()}
    assert reports["sums"].strategy == "recompute"
    assert "'v' is not the same" in reports["sums"].reason
    assert lake.refresh() == {"unchanged"}
    lake.delta("ALTER TABLE {facts} RENAME COLUMN v TO value")
    with pytest.raises(ViewkeepError, match="column 'v'"):
        lake.keeper.refresh("sums")


def change_feed(spark: SparkSession, folder: str) -> None:
    lake = Lake(spark, folder, VECTORS, FED)
    lake.make_views()
    since = lake.version
    lake.delta("DELETE FROM {facts} WHERE k % 50 = 3")
    lake.delta("UPDATE {facts} SET v = -v WHERE k = 4")
    lake.delta(
        "MERGE INTO {facts} t USING (SELECT 5 AS k UNION ALL SELECT 900) s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET v = 5000 "
        "WHEN NOT MATCHED THEN INSERT (k, g, v) VALUES (s.k, 'new', 1)"
    )
    change = lake.change(since)
    assert change.kind is Kind.MUTATED
    assert change.between is not None
    assert change.between.feed
    assert "recompute" not in lake.refresh()
    # What came and went again is in the feed, and is no change.
    lake.delta("INSERT INTO {facts} VALUES (901, 'g1', 901, NULL, NULL)")
    lake.delta("DELETE FROM {facts} WHERE k = 901")
    lake.refresh()
    lake.verify()


def statements(spark: SparkSession, folder: str) -> None:
    lake = Lake(spark, folder, VECTORS)
    keeper = lake.keeper
    lake.make_views("joined", "sums")
    keeper.sql("INSERT INTO facts (k, g, v) SELECT 1000, g, 10 FROM dims")
    keeper.sql("UPDATE facts SET facts.v = facts.v * 2 WHERE k = 11")
    keeper.sql("DELETE FROM facts AS f WHERE f.k = 12")
    keeper.sql(
        "MERGE INTO facts t USING (SELECT g, label FROM dims) s ON t.g = s.g AND t.k = 20 "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (k, g, v, note) VALUES (1001, s.g, 0, s.label)"
    )
    assert lake.logged('"deletionVector"')
    assert "recompute" not in lake.refresh()
    columns = ("k", "g", "v", "note", "more")
    batch = [(2000, "g1", 1, None, None)] * 3 + [(2001, None, 2, "x", "y")]
    assert keeper.load("facts", _batch(columns, batch)) == 4
    changes = [(-1, 2000, "g1", 1, None, None)] * 2 + [(-1, 2001, None, 2, "x", "y"), (1, 2002, "g2", 3, None, "z")]
    assert keeper.apply("facts", _batch(("_w", *columns), changes)) == (1, 3)
    kept = keeper.query("SELECT k, COUNT(*) AS n FROM facts WHERE k >= 2000 GROUP BY k ORDER BY k")
    assert rows(kept) == Counter({(2000, 1): 1, (2002, 1): 1})
    with pytest.raises(ViewkeepError, match="1 of them are not there"):
        keeper.apply("facts", _batch(("_w", *columns), [(-1, 2000, "g1", 1, None, None)] * 2))
    assert "recompute" not in lake.refresh()
    keeper.sql("TRUNCATE TABLE facts")
    assert keeper.query("SELECT * FROM facts").num_rows == 0
    lake.refresh()
    lake.verify()


def _batch(columns: tuple[str, ...], values: list[tuple[Any, ...]]) -> pa.Table:
    types = {"_w": pa.int64(), "k": pa.int32(), "v": pa.int32()}
    arrays = zip(*values, strict=True)
    return pa.table({c: pa.array(a, types.get(c, pa.string())) for c, a in zip(columns, arrays, strict=True)})


def optimize(spark: SparkSession, folder: str) -> None:
    lake = Lake(spark, folder, VECTORS)
    lake.make_views()
    lake.delta("INSERT INTO {facts} VALUES (301, 'g1', 301, NULL, NULL)")
    lake.delta("DELETE FROM {facts} WHERE k = 30")
    assert "recompute" not in lake.refresh()
    since = lake.version
    lake.delta("OPTIMIZE {facts}")
    assert lake.version > since
    assert lake.change(since).kind is Kind.NOTHING
    assert lake.refresh() == {"unchanged"}
    lake.delta("INSERT INTO {facts} VALUES (302, 'g1', 302, NULL, NULL)")
    change = lake.change(since)
    assert (change.kind, change.inserted, change.deleted) == (Kind.APPENDED, 1, 0)
    assert "recompute" not in lake.refresh()
    lake.delta("DELETE FROM {facts} WHERE k = 31")
    since = lake.version
    lake.delta("REORG TABLE {facts} APPLY (PURGE)")
    assert lake.version > since
    assert lake.change(since).kind is Kind.NOTHING
    lake.refresh()
    lake.verify()


def restore(spark: SparkSession, folder: str) -> None:
    lake = Lake(spark, folder, VECTORS)
    lake.make_views()
    since = lake.version
    lake.delta("DELETE FROM {facts} WHERE k IN (40, 41)")
    lake.delta("INSERT INTO {facts} VALUES (303, 'g9', 303, NULL, NULL)")
    assert "recompute" not in lake.refresh()
    lake.delta(f"RESTORE TABLE {{facts}} TO VERSION AS OF {since}")
    assert lake.change(since).kind is Kind.NOTHING
    assert "recompute" not in lake.refresh()
    lake.verify()
    lake.delta("INSERT OVERWRITE {facts} SELECT k + 1, g, v, note, more FROM {facts} WHERE k < 250")
    assert lake.change(lake.version - 1).kind is Kind.REPLACED
    lake.refresh()
    lake.verify()


def vacuumed_history(spark: SparkSession, folder: str) -> None:
    lake = Lake(spark, folder, VECTORS)
    lake.delta("DELETE FROM {facts} WHERE k = 50")
    lake.make_views("sums")
    lake.delta("DELETE FROM {facts} WHERE k = 51")
    lake.delta("VACUUM {facts} RETAIN 0 HOURS")
    [report] = lake.keeper.refresh()
    assert report.strategy == "recompute"
    assert "vacuumed" in report.reason
    assert lake.refresh() == {"unchanged"}


def rules_of_a_table(spark: SparkSession, folder: str) -> None:
    """Way one reads such a table and may not write it."""
    lake = Lake(spark, folder)
    lake.delta("ALTER TABLE {facts} ADD CONSTRAINT small CHECK (v < 10000)")
    lake.make_views("sums")
    lake.keeper.sql("INSERT INTO facts (k, g, v) VALUES (700, 'g1', 9999)")
    with pytest.raises(EngineError, match="small"):
        lake.keeper.sql("INSERT INTO facts (k, g, v) VALUES (701, 'g1', 10000)")
    assert "recompute" not in lake.refresh()
    lake.verify()


def without_the_extension(spark: SparkSession, folder: str) -> None:
    assert has_extension(spark)
    Lake(spark, folder, VECTORS)
    with pytest.raises(EngineError, match="'deletionVectors'") as refused:
        DeltaLog().snapshot(f"{folder}/facts")
    assert "extension" in (refused.value.hint or "")


def views_on_views(spark: SparkSession, folder: str) -> None:
    """A view over a view over such a table, and its own changes."""
    lake = Lake(spark, folder, VECTORS, MAPPED)
    lake.make_views("sums")
    lake.keeper.sql("CREATE MATERIALIZED VIEW top AS SELECT g, total FROM sums WHERE total > 100")
    lake.delta("DELETE FROM {facts} WHERE k = 200")
    reports = lake.keeper.refresh()
    assert {r.strategy for r in reports} == INCREMENTAL
    assert lake.keeper.changes("top", since=0).num_rows == 2
    assert lake.keeper.verify("top").equal
    with pytest.raises(RefreshError):
        lake.keeper.changes("top", since=99)


CASES: tuple[Callable[[SparkSession, str], None], ...] = (
    deletion_vectors,
    column_mapping,
    change_feed,
    statements,
    optimize,
    restore,
    vacuumed_history,
    rules_of_a_table,
    without_the_extension,
    views_on_views,
)


def main(wanted: list[str]) -> None:
    spark = session()
    for case in CASES:
        if wanted and case.__name__ not in wanted:
            continue
        failed = ""
        with tempfile.TemporaryDirectory(prefix="viewkeep-delta-") as folder:
            try:
                case(spark, folder)
            except BaseException:
                failed = traceback.format_exc()
        print(json.dumps({"case": case.__name__, "failed": failed}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
