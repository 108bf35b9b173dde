"""Refresh modes, policies, capture, dropping, reopening, and several users at once."""
# ruff: noqa: PT017 (some tests accept a refusal or a right answer)

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import viewkeep
from support import assert_view_equals_query, rows_of
from viewkeep.emit.capture import capture_sql
from viewkeep.engine.duckdb import DuckDBEngine
from viewkeep.errors import EngineError

TOTAL = "SELECT g, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY g"


@pytest.fixture
def keeper() -> Iterator[viewkeep.Keeper]:
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql("CREATE TABLE t (g INTEGER, x INTEGER); INSERT INTO t SELECT i % 5, i FROM range(100) r(i)")
        yield keeper


def create(keeper: viewkeep.Keeper, query: str = TOTAL, name: str = "v", **options: str) -> None:
    listed = ", ".join(f"{k} = '{v}'" for k, v in options.items())
    keeper.sql(f"CREATE MATERIALIZED VIEW {name} {f'WITH ({listed})' if listed else ''} AS {query}")


def own_objects(keeper: viewkeep.Keeper, word: str) -> list[str]:
    """Names of stored tables and triggers that mention a table or view."""
    con = keeper.engine.connection.cursor()
    tables = con.execute("SELECT table_name FROM duckdb_tables() WHERE schema_name = '_viewkeep'").fetchall()
    triggers = con.execute("SELECT trigger_name FROM duckdb_triggers()").fetchall()
    return sorted(name for (name,) in [*tables, *triggers] if name.endswith(f"_{word}"))


# ---------------------------------------------------------------------- when a view is refreshed
def test_manual_views_wait(keeper: viewkeep.Keeper) -> None:
    create(keeper)
    before = rows_of(keeper.query("SELECT * FROM v"))
    keeper.sql("INSERT INTO t VALUES (77, 1)")
    assert rows_of(keeper.query("SELECT * FROM v")) == before
    keeper.sql("REFRESH MATERIALIZED VIEW v")
    assert_view_equals_query(keeper, "v", TOTAL)


def test_on_read_refreshes_what_is_read(keeper: viewkeep.Keeper) -> None:
    create(keeper, refresh="on_read")
    create(keeper, "SELECT MAX(x) AS m FROM t", "other", refresh="on_read")
    keeper.sql("CREATE VIEW plain AS SELECT s FROM v WHERE g = 77")
    keeper.sql("INSERT INTO t VALUES (77, 1000)")
    assert rows_of(keeper.query("SELECT s FROM v WHERE g = 77")) == [(1000,)]
    assert len(keeper.history("other")) == 1
    keeper.sql("INSERT INTO t VALUES (77, 1)")
    assert rows_of(keeper.query("WITH w AS (SELECT * FROM v) SELECT s FROM w WHERE g = 77")) == [(1001,)]
    keeper.sql("INSERT INTO t VALUES (77, 1)")
    assert rows_of(keeper.sql("SELECT (SELECT SUM(s) FROM v WHERE g = 77) AS s")) == [(1002,)]
    keeper.sql("INSERT INTO t VALUES (77, 1)")
    assert rows_of(keeper.query("SELECT * FROM plain")) == [(1003,)]
    assert rows_of(keeper.query("SELECT m FROM other")) == [(1000,)]


def test_on_read_child_of_a_manual_parent(keeper: viewkeep.Keeper) -> None:
    create(keeper)
    create(keeper, "SELECT COUNT(*) AS n FROM v", "child", refresh="on_read")
    keeper.sql("INSERT INTO t VALUES (77, 1000)")
    assert rows_of(keeper.query("SELECT n FROM child")) == [(6,)]


def test_on_change_is_always_fresh(keeper: viewkeep.Keeper) -> None:
    create(keeper, refresh="on_change", policy="strict")
    create(keeper, "SELECT MAX(s) AS m FROM v", "child", refresh="on_change", policy="strict")
    for change in (
        "INSERT INTO t VALUES (77, 1000)",
        "UPDATE t SET x = x + 1 WHERE g = 2",
        "DELETE FROM t WHERE g < 2",
    ):
        keeper.sql(change)
        assert_view_equals_query(keeper, "v", TOTAL, change)
        assert_view_equals_query(keeper, "child", "SELECT MAX(s) AS m FROM v", change)
    keeper.apply("t", pa.table({"g": [77, 8], "x": [1000, 8], "_w": [-1, 2]}))
    assert_view_equals_query(keeper, "v", TOTAL, "apply")
    keeper.load("t", pa.table({"g": [9], "x": [9]}))
    assert_view_equals_query(keeper, "v", TOTAL, "load")
    assert_view_equals_query(keeper, "child", "SELECT MAX(s) AS m FROM v")


def test_on_change_inside_a_transaction(keeper: viewkeep.Keeper) -> None:
    create(keeper, refresh="on_change")
    before = rows_of(keeper.query("SELECT * FROM v ORDER BY g"))
    keeper.sql("BEGIN")
    keeper.sql("INSERT INTO t VALUES (77, 1000)")
    assert_view_equals_query(keeper, "v", TOTAL)
    keeper.sql("ROLLBACK")
    assert rows_of(keeper.query("SELECT * FROM v ORDER BY g")) == before
    keeper.sql("INSERT INTO t VALUES (78, 1)")
    assert_view_equals_query(keeper, "v", TOTAL)


def test_a_change_that_its_on_change_view_cannot_take_is_rolled_back(keeper: viewkeep.Keeper) -> None:
    query = "SELECT g, CAST(x::TEXT AS TINYINT) AS small FROM t"
    create(keeper, query, refresh="on_change", policy="incremental")
    with pytest.raises(viewkeep.ViewkeepError, match="'v'"):
        keeper.sql("INSERT INTO t VALUES (1, 100000)")
    assert rows_of(keeper.query("SELECT COUNT(*) AS n FROM t")) == [(100,)]
    with pytest.raises(viewkeep.ViewkeepError, match="'v'"):
        keeper.apply("t", pa.table({"g": [1], "x": [100000], "_w": [1]}))
    assert rows_of(keeper.query("SELECT COUNT(*) AS n FROM t")) == [(100,)]
    keeper.sql("INSERT INTO t VALUES (1, 5)")
    assert_view_equals_query(keeper, "v", query)


def test_a_failed_refresh_leaves_the_view_as_it_was_and_can_be_tried_again(keeper: viewkeep.Keeper) -> None:
    query = "SELECT g, CAST(x::TEXT AS TINYINT) AS small FROM t"
    create(keeper, query, policy="incremental")
    before = rows_of(keeper.query("SELECT * FROM v"))
    keeper.sql("INSERT INTO t VALUES (1, 100000), (2, 2)")
    for _ in range(2):
        with pytest.raises(viewkeep.ViewkeepError, match="'v' could not be refreshed and is as it was"):
            keeper.refresh("v")
        assert rows_of(keeper.query("SELECT * FROM v")) == before
    keeper.sql("DELETE FROM t WHERE x = 100000")
    keeper.refresh("v")
    assert_view_equals_query(keeper, "v", query)


def test_a_program_at_which_the_optimizer_fails_runs_without_it(
    keeper: viewkeep.Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(keeper, policy="incremental")
    keeper.sql("INSERT INTO t VALUES (1, 5), (3, 4)")
    execute, failures = keeper.engine.execute, []
    optimizing = "SELECT current_setting('enable_optimizer')"

    def failing(sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        if sql.startswith("MERGE INTO") and execute(optimizing) == [(True,)]:
            failures.append(sql)
            raise EngineError("INTERNAL Error: no such binding") from duckdb.InternalException("no such binding")
        return execute(sql, *parameters)

    monkeypatch.setattr(keeper.engine, "execute", failing)
    report = keeper.refresh("v")
    assert (report.strategy, len(failures)) == ("classical", 1)
    assert "without the engine's optimizer" in report.reason
    assert_view_equals_query(keeper, "v", TOTAL)
    assert execute(optimizing) == [(True,)]


def test_outer_joins_are_planned_without_statistics_and_others_as_before(tmp_path: Path) -> None:
    disabled = "SELECT current_setting('disabled_optimizers')"
    url = f"duckdb:///{tmp_path / 'shop.duckdb'}"
    with viewkeep.connect(url) as keeper, viewkeep.connect(url) as other:
        keeper.sql("CREATE TABLE a (k INT, x INT); CREATE TABLE b (k INT)")
        create(keeper, "SELECT a.k, a.x FROM a LEFT JOIN b ON a.k = b.k AND b.k > 3", policy="incremental")
        create(keeper, "SELECT a.k, a.x FROM a JOIN b ON a.k = b.k", name="w", policy="incremental")
        execute, seen = keeper.engine.execute, dict[str, set[str]]()

        def watched(sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
            if f'"data_{view}"' in sql:
                seen.setdefault(view, set()).add(other.engine.execute(disabled)[0][0])
            return execute(sql, *parameters)

        for mine in ("", "top_n"):
            execute(f"SET disabled_optimizers = '{mine}'")
            keeper.engine.execute = watched  # type: ignore[method-assign]
            for view in ("v", "w"):
                keeper.sql("INSERT INTO a VALUES (1, 1); INSERT INTO b VALUES (1)")
                seen.clear()
                keeper.refresh(view)
                both = ",".join(filter(None, ["statistics_propagation", mine]))  # DuckDB sorts them
                assert seen == {view: {both if view == "v" else mine}}
                assert execute(disabled) == [(mine,)]
            keeper.engine.execute = execute  # type: ignore[method-assign]
        keeper.sql("INSERT INTO a VALUES (2, 2); ALTER TABLE _viewkeep.data_v RENAME TO gone")
        with pytest.raises(viewkeep.ViewkeepError):
            keeper.refresh("v")
        assert execute(disabled) == [("top_n",)]


# ---------------------------------------------------------------------- policies
def test_auto_takes_the_cheaper_way_and_says_why(keeper: viewkeep.Keeper) -> None:
    create(keeper)
    keeper.sql("INSERT INTO t VALUES (1, 1)")
    report = keeper.refresh("v")
    assert report.strategy == "classical"
    assert "1 of 101 source rows changed" in report.reason
    keeper.sql("UPDATE t SET x = x + 1")
    report = keeper.refresh("v")
    assert report.strategy == "recompute"
    assert "202 of 101 source rows changed" in report.reason
    assert "recompute" in report.reason
    assert_view_equals_query(keeper, "v", TOTAL)
    assert [h.strategy for h in keeper.history("v")] == ["recompute", "classical", "recompute"]


@pytest.mark.parametrize("policy", ["incremental", "strict"])
def test_incremental_and_strict_do_not_recompute(keeper: viewkeep.Keeper, policy: str) -> None:
    create(keeper, policy=policy)
    keeper.sql("UPDATE t SET x = x + 1")
    assert keeper.refresh("v").strategy == "classical"
    assert_view_equals_query(keeper, "v", TOTAL)


def test_full_always_recomputes(keeper: viewkeep.Keeper) -> None:
    create(keeper, policy="full")
    keeper.sql("INSERT INTO t VALUES (1, 1)")
    report = keeper.refresh("v")
    assert (report.strategy, report.reason) == ("recompute", "policy is 'full'")
    assert_view_equals_query(keeper, "v", TOTAL)
    assert keeper.refresh("v").strategy == "unchanged"


def test_refresh_full_recomputes_once(keeper: viewkeep.Keeper) -> None:
    create(keeper, policy="strict")
    assert keeper.sql("REFRESH MATERIALIZED VIEW v FULL").strategy == "recompute"
    assert keeper.refresh("v", full=True).strategy == "recompute"
    assert keeper.refresh("v").strategy == "unchanged"
    assert_view_equals_query(keeper, "v", TOTAL)


def test_strict_refuses_a_view_that_has_no_incremental_form(keeper: viewkeep.Keeper) -> None:
    query = "WITH RECURSIVE r(n) AS (SELECT MIN(x) FROM t UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r"
    with pytest.raises(viewkeep.ViewkeepError, match=r"no incremental form.*RECURSIVE"):
        create(keeper, query, policy="strict")
    assert own_objects(keeper, "v") == []
    for policy in ("auto", "incremental"):
        create(keeper, query, f"v_{policy}", policy=policy)
        keeper.sql("INSERT INTO t VALUES (1, -1)")
        report = keeper.refresh(f"v_{policy}")
        assert report.strategy == "recompute"
        assert "RECURSIVE" in report.reason
        assert_view_equals_query(keeper, f"v_{policy}", query)


def test_report_counts_rows(keeper: viewkeep.Keeper) -> None:
    create(keeper, "SELECT x FROM t WHERE x < 10", policy="strict")
    keeper.sql("INSERT INTO t VALUES (1, 5), (1, 6), (1, 600); DELETE FROM t WHERE x = 3; DELETE FROM t WHERE x = 99")
    report = keeper.refresh("v")
    assert (report.rows_inserted, report.rows_deleted) == (2, 1)
    assert report.seconds > 0
    assert report.versions.keys() == {"t"}


# ---------------------------------------------------------------------- changes that capture did not see
def bypass(keeper: viewkeep.Keeper, columns: dict[str, list[int]]) -> None:
    """Rows that come without a trace in the log, as by the appender."""
    con = keeper.engine.connection.cursor()
    con.execute("BEGIN")
    for row in zip(*columns.values(), strict=True):
        con.execute(f"INSERT INTO t ({', '.join(columns)}) VALUES {row}")
        con.execute("DELETE FROM _viewkeep.log_t WHERE rowid = (SELECT MAX(rowid) FROM _viewkeep.log_t)")
    con.execute("COMMIT")


def test_the_appender_itself(keeper: viewkeep.Keeper) -> None:
    """Whether the appender fires triggers has changed between versions of DuckDB: both must be right."""
    pandas = pytest.importorskip("pandas")
    create(keeper)
    keeper.engine.connection.append("t", pandas.DataFrame({"g": [1, 77], "x": [1, 1]}))
    report = keeper.refresh("v")
    assert report.strategy == "classical" or "bypassed capture" in report.reason
    assert_view_equals_query(keeper, "v", TOTAL)


def test_every_way_to_write_is_captured(keeper: viewkeep.Keeper, tmp_path: Path) -> None:
    create(keeper, policy="strict")
    file = tmp_path / "rows.csv"
    file.write_text("1,1\n2,2\n")
    for statement in (
        f"COPY t FROM '{file}'",
        "INSERT INTO t VALUES (1, 7) RETURNING x",
        "INSERT INTO t BY NAME SELECT 5 AS x, 1 AS g",
        "UPDATE t SET x = x + u.y FROM (SELECT 3 AS y) u WHERE g = 1",
        "DELETE FROM t USING (SELECT 2 AS z) u WHERE g = u.z",
        "WITH c AS (SELECT 8 AS a) INSERT INTO t SELECT a, a FROM c",
        "WITH c AS (SELECT 8 AS a) DELETE FROM t WHERE x IN (SELECT a FROM c)",
        "TRUNCATE t",
    ):
        keeper.sql(statement)
        assert keeper.refresh("v").strategy == "classical", statement
        assert_view_equals_query(keeper, "v", TOTAL, statement)


@pytest.mark.parametrize(
    "statement",
    [
        "MERGE INTO k USING (SELECT 1 AS id, 5 AS x) s ON k.id = s.id WHEN MATCHED THEN UPDATE SET x = s.x",
        "INSERT INTO k VALUES (1, 9) ON CONFLICT (id) DO UPDATE SET x = 9",
        "INSERT OR REPLACE INTO k VALUES (1, 9)",
    ],
)
def test_upserts_are_refused_with_a_way_out(keeper: viewkeep.Keeper, statement: str) -> None:
    keeper.sql("CREATE TABLE k (id INTEGER PRIMARY KEY, x INTEGER); INSERT INTO k VALUES (1, 1)")
    create(keeper, "SELECT SUM(x) AS s FROM k")
    with pytest.raises(viewkeep.ViewkeepError, match="DELETE and INSERT in one transaction"):
        keeper.sql(statement)
    assert rows_of(keeper.query("SELECT * FROM k")) == [(1, 1)]


def test_the_appender_is_noticed_and_named(keeper: viewkeep.Keeper) -> None:
    create(keeper)
    create(keeper, "SELECT COUNT(*) AS n FROM v", "child")
    bypass(keeper, {"g": [1, 77], "x": [1, 1]})
    reports = keeper.refresh()
    assert reports[0].strategy == "recompute"
    assert "'t'" in reports[0].reason
    assert "bypassed capture" in reports[0].reason
    assert_view_equals_query(keeper, "v", TOTAL)
    assert_view_equals_query(keeper, "child", "SELECT COUNT(*) AS n FROM v")
    keeper.sql("INSERT INTO t VALUES (5, 5)")
    assert keeper.refresh("v").strategy == "classical"
    assert_view_equals_query(keeper, "v", TOTAL)


def test_the_appender_before_other_views_are_made_or_refreshed(keeper: viewkeep.Keeper) -> None:
    create(keeper)
    create(keeper, "SELECT MIN(x) AS lo FROM t", "w")
    bypass(keeper, {"g": [1, 77], "x": [1, -1]})
    keeper.sql("INSERT INTO t VALUES (3, 3)")
    assert keeper.refresh("v").strategy == "recompute"
    create(keeper, "SELECT MAX(x) AS hi FROM t", "late")
    keeper.sql("INSERT INTO t VALUES (3, 1000)")
    keeper.refresh()
    assert_view_equals_query(keeper, "v", TOTAL)
    assert_view_equals_query(keeper, "w", "SELECT MIN(x) AS lo FROM t")
    assert_view_equals_query(keeper, "late", "SELECT MAX(x) AS hi FROM t")


def counted(keeper: viewkeep.Keeper, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables whose rows are counted from now on."""
    seen: list[str] = []
    capture = keeper._db.capture  # type: ignore[attr-defined]
    count = capture._counted
    monkeypatch.setattr(capture, "_counted", lambda tables: (seen.extend(map(str, tables)), count(tables))[1])
    monkeypatch.setattr("viewkeep.runtime.transactional.capture.COUNTED_EVERY", 10_000)
    return seen


@pytest.mark.parametrize(
    ("change", "is_counted"),
    [
        ("INSERT INTO t VALUES (1, 1), (2, 2)", False),
        ("DELETE FROM t WHERE x IN (4, 5)", False),
        ("DELETE FROM t WHERE x = 4; INSERT INTO t VALUES (1, 1)", False),
        ("SELECT 1", False),
        ("UPDATE t SET x = x + 1 WHERE x IN (4, 5)", True),
        ("UPDATE t SET x = x + 1 WHERE x = 4; INSERT INTO t VALUES (1, 1)", True),
        ("TRUNCATE t", False),
    ],
)
def test_rows_are_counted_only_where_that_tells_more(
    keeper: viewkeep.Keeper, monkeypatch: pytest.MonkeyPatch, change: str, is_counted: bool
) -> None:
    seen = counted(keeper, monkeypatch)
    create(keeper)
    for hidden in ({"g": [], "x": []}, {"g": [77], "x": [1]}, {"g": [77, 78], "x": [1, 2]}, {"g": [], "x": []}):
        keeper.sql("INSERT INTO t VALUES (6, 4)")
        keeper.refresh("v")  # counts, if it is the first one or the last one was surprised
        seen.clear()
        keeper.sql(change)
        bypass(keeper, hidden)
        report = keeper.refresh("v")
        assert ("bypassed capture" in report.reason) == bool(hidden["g"]), report.reason
        assert ("t" in seen) == (is_counted or bool(hidden["g"]))
        assert_view_equals_query(keeper, "v", TOTAL, f"{change}, and {hidden}")


def test_a_log_that_does_not_know_updates_has_its_table_counted(
    keeper: viewkeep.Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = counted(keeper, monkeypatch)
    monkeypatch.setattr(
        "viewkeep.runtime.transactional.capture.capture_sql",
        lambda source, dialect, marks_updates: capture_sql(source, dialect),
    )
    create(keeper)
    for _ in range(2):
        keeper.sql("INSERT INTO t VALUES (3, 3)")
        seen.clear()
        assert keeper.refresh("v").strategy == "classical"
        assert "t" in seen


def test_rows_are_counted_now_and_then_in_any_case(keeper: viewkeep.Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = counted(keeper, monkeypatch)
    monkeypatch.setattr("viewkeep.runtime.transactional.capture.COUNTED_EVERY", 3)
    create(keeper)
    for _ in range(9):
        keeper.sql("INSERT INTO t VALUES (3, 3)")
        keeper.refresh("v")
    assert 3 <= seen.count("t") <= 5


def test_strict_refuses_to_recompute_what_the_appender_hid(keeper: viewkeep.Keeper) -> None:
    create(keeper, policy="strict")
    bypass(keeper, {"g": [77], "x": [1]})
    with pytest.raises(viewkeep.ViewkeepError, match=r"would have to be recomputed.*bypassed capture"):
        keeper.refresh("v")
    keeper.refresh("v", full=True)
    assert_view_equals_query(keeper, "v", TOTAL)


def test_changes_made_directly_on_the_connection_are_captured(keeper: viewkeep.Keeper) -> None:
    create(keeper, policy="strict")
    keeper.engine.connection.execute("UPDATE t SET g = 4 WHERE x < 10")
    keeper.refresh("v")
    assert_view_equals_query(keeper, "v", TOTAL)


# ---------------------------------------------------------------------- dropping and altering
def test_drop_removes_everything_that_no_other_view_needs(keeper: viewkeep.Keeper) -> None:
    create(keeper)
    create(keeper, "SELECT COUNT(*) AS n FROM t", "w")
    assert own_objects(keeper, "v")
    captured = own_objects(keeper, "t")
    assert len(captured) == 4
    keeper.sql("DROP MATERIALIZED VIEW v")
    assert own_objects(keeper, "v") == []
    assert own_objects(keeper, "t") == captured
    keeper.sql("INSERT INTO t VALUES (1, 1)")
    assert keeper.refresh("w").strategy == "classical"
    keeper.sql("DROP MATERIALIZED VIEW w")
    assert own_objects(keeper, "w") == own_objects(keeper, "t") == []
    for table in ("views", "history", "versions WHERE kind <> 'clock'"):
        assert keeper.engine.execute(f"SELECT COUNT(*) FROM _viewkeep.{table}") == [(0,)]
    with pytest.raises(viewkeep.ViewkeepError):
        keeper.query("SELECT * FROM v")
    keeper.sql("DROP TABLE t")


def test_drop_if_exists_and_create_if_not_exists(keeper: viewkeep.Keeper) -> None:
    keeper.sql("DROP MATERIALIZED VIEW IF EXISTS v")
    with pytest.raises(viewkeep.ViewkeepError, match="no materialized view 'v'"):
        keeper.sql("DROP MATERIALIZED VIEW v")
    create(keeper)
    keeper.sql("CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT 1 AS one FROM t")
    assert_view_equals_query(keeper, "v", TOTAL)


def test_or_replace_changes_the_query_and_goes_on(keeper: viewkeep.Keeper) -> None:
    create(keeper)
    keeper.sql("INSERT INTO t VALUES (1, 1)")
    keeper.sql("CREATE OR REPLACE MATERIALIZED VIEW v WITH (policy = 'strict') AS SELECT MIN(x) AS lo FROM t")
    assert_view_equals_query(keeper, "v", "SELECT MIN(x) AS lo FROM t")
    keeper.sql("INSERT INTO t VALUES (1, -5)")
    keeper.refresh("v")
    assert_view_equals_query(keeper, "v", "SELECT MIN(x) AS lo FROM t")


def test_a_view_that_others_read_is_not_dropped(keeper: viewkeep.Keeper) -> None:
    create(keeper)
    create(keeper, "SELECT COUNT(*) AS n FROM v", "child")
    for statement in (
        "DROP MATERIALIZED VIEW v",
        "DROP VIEW v",
        "DROP TABLE v",
        f"CREATE OR REPLACE MATERIALIZED VIEW v AS {TOTAL}",
    ):
        with pytest.raises(viewkeep.ViewkeepError, match="'v'"):
            keeper.sql(statement)
        assert_view_equals_query(keeper, "v", TOTAL, statement)
    keeper.sql("INSERT INTO t VALUES (78, 1)")
    keeper.refresh()
    assert_view_equals_query(keeper, "child", "SELECT COUNT(*) AS n FROM v")


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE t",
        "DROP TABLE IF EXISTS t CASCADE",
        "DROP TABLE main.t",
        'DROP TABLE "T"',
        "ALTER TABLE t DROP COLUMN x",
        "ALTER TABLE t RENAME COLUMN x TO y",
        "ALTER TABLE t ALTER COLUMN x TYPE BIGINT",
        "ALTER TABLE t RENAME TO u",
        "CREATE OR REPLACE TABLE t (z INTEGER)",
    ],
)
def test_a_table_is_not_pulled_from_under_its_views(keeper: viewkeep.Keeper, statement: str) -> None:
    create(keeper, name="first_view")
    create(keeper, "SELECT x FROM t", name="second_view")
    with pytest.raises(viewkeep.ViewkeepError, match="first_view") as caught:
        keeper.sql(statement)
    assert "second_view" in str(caught.value)
    keeper.sql("INSERT INTO t VALUES (50, 50)")
    keeper.refresh()
    assert_view_equals_query(keeper, "first_view", TOTAL)


def test_a_plain_view_is_not_pulled_from_under_its_reader(keeper: viewkeep.Keeper) -> None:
    keeper.sql("CREATE VIEW plain AS SELECT x FROM t WHERE x > 50")
    create(keeper, "SELECT SUM(x) AS s FROM plain", "reader")
    with pytest.raises(viewkeep.ViewkeepError, match="reader"):
        keeper.sql("DROP VIEW plain")


@pytest.mark.parametrize("through", ["keeper", "connection"])
def test_a_redefined_plain_view_never_gives_wrong_rows(keeper: viewkeep.Keeper, through: str) -> None:
    """Refused, or noticed at the refresh: the view shows its old definition or its new one, never a mixture."""
    keeper.sql("CREATE VIEW plain AS SELECT x FROM t WHERE x > 50")
    create(keeper, "SELECT SUM(x) AS s FROM plain", "reader")
    before = rows_of(keeper.query("SELECT * FROM reader"))
    statement = "CREATE OR REPLACE VIEW plain AS SELECT x FROM t WHERE x > 90"
    try:
        keeper.sql(statement) if through == "keeper" else keeper.engine.connection.execute(statement)
    except viewkeep.ViewkeepError as error:
        assert "reader" in str(error)
        return
    keeper.sql("INSERT INTO t VALUES (1, 95)")
    try:
        keeper.refresh("reader")
    except viewkeep.ViewkeepError as error:
        assert "plain" in str(error)
        assert rows_of(keeper.query("SELECT * FROM reader")) == before
    else:
        assert_view_equals_query(keeper, "reader", "SELECT SUM(x) AS s FROM plain")
    keeper.sql("CREATE OR REPLACE MATERIALIZED VIEW reader AS SELECT SUM(x) AS s FROM plain")
    assert_view_equals_query(keeper, "reader", "SELECT SUM(x) AS s FROM plain")


@pytest.mark.parametrize(
    "again",
    [
        "CREATE TABLE t (g INTEGER, x INTEGER); INSERT INTO t SELECT i % 3, i * 7 FROM range(100) r(i)",
        "CREATE TABLE t (x INTEGER, extra TEXT, g INTEGER); INSERT INTO t SELECT i, 'e', i % 3 FROM range(100) r(i)",
        "CREATE TABLE t (g INTEGER, x INTEGER)",
        "CREATE TABLE t (g INTEGER, x DOUBLE); INSERT INTO t VALUES (1, 0.5)",
        "CREATE TABLE t (g INTEGER, y INTEGER)",
        "CREATE VIEW t AS SELECT 1 AS g, 2 AS x",
        "SELECT 'never made again'",
    ],
)
def test_a_table_made_again_behind_our_back(keeper: viewkeep.Keeper, again: str) -> None:
    """The view follows the new table, or says that it cannot and keeps what it had."""
    create(keeper)
    keeper.sql("INSERT INTO t VALUES (1, 1)")
    before = rows_of(keeper.query("SELECT * FROM v ORDER BY g"))
    keeper.engine.connection.execute("DROP TABLE t")
    for statement in again.split("; "):
        keeper.engine.connection.execute(statement)
    for _ in range(2):
        try:
            report = keeper.refresh("v")
        except viewkeep.ViewkeepError as error:
            assert "'t'" in str(error)
            assert rows_of(keeper.query("SELECT * FROM v ORDER BY g")) == before
        else:
            assert report.strategy in ("recompute", "unchanged")
            assert_view_equals_query(keeper, "v", TOTAL)
            keeper.engine.connection.execute("INSERT INTO t (g, x) VALUES (9, 9)")
            assert keeper.refresh("v").strategy != "unchanged"
            assert_view_equals_query(keeper, "v", TOTAL)
    keeper.sql("DROP MATERIALIZED VIEW v")
    assert own_objects(keeper, "v") == own_objects(keeper, "t") == []


def test_triggers_of_an_attached_database_are_not_ours(keeper: viewkeep.Keeper, tmp_path: Path) -> None:
    with viewkeep.connect(f"duckdb:///{tmp_path}/other.duckdb") as other:
        other.sql("CREATE TABLE t (g INTEGER, x INTEGER)")
        create(other)
    create(keeper)
    keeper.sql(f"ATTACH '{tmp_path}/other.duckdb' AS other")
    assert keeper.refresh("v").strategy == "unchanged"
    keeper.engine.connection.execute("DROP TABLE t")
    keeper.engine.connection.execute("CREATE TABLE t (g INTEGER, x INTEGER)")
    keeper.engine.connection.execute("INSERT INTO t SELECT i % 5, i + 1 FROM range(100) r(i)")
    assert keeper.refresh("v").strategy == "recompute"
    assert_view_equals_query(keeper, "v", TOTAL)


def test_a_column_added_behind_our_back(keeper: viewkeep.Keeper) -> None:
    create(keeper)
    try:
        keeper.engine.connection.execute("ALTER TABLE t ADD COLUMN extra INTEGER")
    except duckdb.Error:
        return  # the engine itself protects tables with triggers
    keeper.engine.connection.execute("INSERT INTO t VALUES (1, 2, 3)")
    keeper.refresh("v")
    assert_view_equals_query(keeper, "v", TOTAL)


# ---------------------------------------------------------------------- the log
def test_logs_are_pruned_once_all_views_have_consumed_them(keeper: viewkeep.Keeper) -> None:
    create(keeper)
    create(keeper, "SELECT COUNT(*) AS n FROM t", "w")

    def logged() -> int:
        return int(keeper.engine.execute("SELECT COUNT(*) FROM _viewkeep.log_t")[0][0])

    keeper.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    assert logged() == 2
    keeper.refresh("v")
    assert logged() == 2
    keeper.sql("INSERT INTO t VALUES (3, 3)")
    keeper.refresh("w")
    keeper.refresh("v")
    assert logged() == 0
    keeper.sql("INSERT INTO t VALUES (3, 3)")
    keeper.refresh()
    assert logged() == 0
    for name, query in (("v", TOTAL), ("w", "SELECT COUNT(*) AS n FROM t")):
        assert_view_equals_query(keeper, name, query)


def test_dropping_the_last_laggard_frees_the_log(keeper: viewkeep.Keeper) -> None:
    create(keeper)
    create(keeper, "SELECT COUNT(*) AS n FROM t", "laggard")
    keeper.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    keeper.refresh("v")
    keeper.sql("DROP MATERIALIZED VIEW laggard")
    keeper.sql("INSERT INTO t VALUES (1, 1)")
    keeper.refresh("v")
    assert keeper.engine.execute("SELECT COUNT(*) FROM _viewkeep.log_t") == [(0,)]


def test_status_counts_what_waits(keeper: viewkeep.Keeper) -> None:
    create(keeper)
    create(keeper, "SELECT COUNT(*) AS n FROM t", "w")
    keeper.sql("INSERT INTO t VALUES (1, 1), (2, 2); UPDATE t SET x = 3 WHERE x = 99")
    keeper.refresh("v")
    assert {s.view: s.pending for s in keeper.status()} == {"v": 0, "w": 4}


# ---------------------------------------------------------------------- files and processes
def test_another_process_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "shop.duckdb"
    with viewkeep.connect(f"duckdb:///{path}") as keeper:
        keeper.sql("CREATE TABLE t (g INTEGER, x INTEGER); INSERT INTO t SELECT i % 5, i FROM range(100) r(i)")
        create(keeper, policy="strict")
        create(keeper, "SELECT MAX(s) AS m FROM v", "child", policy="strict")
        keeper.sql("INSERT INTO t VALUES (1, 1)")
    script = f"""
import viewkeep
with viewkeep.connect("duckdb:///{path}") as keeper:
    keeper.sql("DELETE FROM t WHERE x < 5; INSERT INTO t VALUES (9, 9)")
    print([r.strategy for r in keeper.refresh()])
    keeper.sql("UPDATE t SET x = -x WHERE g = 2")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "['classical', 'classical']"
    with viewkeep.connect(f"duckdb:///{path}") as keeper:
        assert [r.strategy for r in keeper.refresh()] == ["classical", "classical"]
        assert_view_equals_query(keeper, "v", TOTAL)
        assert_view_equals_query(keeper, "child", "SELECT MAX(s) AS m FROM v")
        assert [h.strategy for h in keeper.history("v")] == ["recompute", "classical", "classical"]


def test_changes_by_plain_duckdb_are_captured(tmp_path: Path) -> None:
    path = tmp_path / "shop.duckdb"
    with viewkeep.connect(f"duckdb:///{path}") as keeper:
        keeper.sql("CREATE TABLE t (g INTEGER, x INTEGER); INSERT INTO t VALUES (1, 1)")
        create(keeper, policy="strict")
    with duckdb.connect(str(path)) as con:
        con.execute("INSERT INTO t VALUES (1, 5), (2, 2)")
    with viewkeep.connect(f"duckdb:///{path}") as keeper:
        keeper.refresh("v")
        assert_view_equals_query(keeper, "v", TOTAL)


def test_keepers_in_threads_refresh_while_another_changes(tmp_path: Path) -> None:
    """Refreshes may meet and try again; at the end every change has arrived once."""
    url = f"duckdb:///{tmp_path / 'busy.duckdb'}"
    main = viewkeep.connect(url)
    main.sql("CREATE TABLE t (g INTEGER, x INTEGER); INSERT INTO t SELECT i % 5, i FROM range(50) r(i)")
    create(main, policy="incremental")
    create(main, "SELECT MIN(x) AS lo, MAX(x) AS hi FROM t", "w", policy="incremental")
    create(main, "SELECT COUNT(*) AS n, SUM(s) AS s FROM v", "child", policy="incremental")
    others = [viewkeep.connect(url) for _ in range(2)]
    failures: list[BaseException] = []
    changing = threading.Event()

    def change() -> None:
        try:
            con = main.engine.connection.cursor()
            for i in range(60):
                con.execute("INSERT INTO t VALUES (?, ?)", [i % 7, i - 30])
                con.execute("UPDATE t SET g = g + 1 WHERE x = ? AND g < 5", [i])
                if i % 9 == 0:
                    con.execute("DELETE FROM t WHERE x = ?", [i - 35])
        except BaseException as error:
            failures.append(error)
        finally:
            changing.set()

    def refresh(keeper: viewkeep.Keeper) -> None:
        try:
            while not changing.is_set():
                keeper.refresh()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=change), *(threading.Thread(target=refresh, args=[k]) for k in others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(t.is_alive() for t in threads)
    # A meeting that outlasts ten attempts is reported, never served wrong.
    assert all(isinstance(f, viewkeep.ViewkeepError) for f in failures), failures
    assert not [r.reason for r in main.refresh() if r.strategy == "recompute"]
    assert_view_equals_query(main, "v", TOTAL)
    assert_view_equals_query(main, "w", "SELECT MIN(x) AS lo, MAX(x) AS hi FROM t")
    assert_view_equals_query(main, "child", "SELECT COUNT(*) AS n, SUM(s) AS s FROM v")
    for keeper in (*others, main):
        keeper.close()


def test_one_keeper_shared_by_threads(keeper: viewkeep.Keeper) -> None:
    create(keeper, policy="strict")
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for i in range(10):
                keeper.sql(f"INSERT INTO t VALUES ({number}, {i})")
                keeper.refresh("v")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=[n]) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    keeper.refresh("v")
    assert_view_equals_query(keeper, "v", TOTAL)


def test_a_view_made_by_one_keeper_is_known_to_another(tmp_path: Path) -> None:
    url = f"duckdb:///{tmp_path / 'two.duckdb'}"
    with viewkeep.connect(url) as first, viewkeep.connect(url) as second:
        first.sql("CREATE TABLE t (g INTEGER, x INTEGER); INSERT INTO t VALUES (1, 1)")
        create(first)
        second.sql("INSERT INTO t VALUES (2, 2)")
        second.refresh("v")
        assert_view_equals_query(second, "v", TOTAL)
        with pytest.raises(viewkeep.ViewkeepError, match="v"):
            second.sql("DROP TABLE t")


def test_a_refresh_of_an_unchanged_view_runs_no_program(
    keeper: viewkeep.Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(keeper)
    keeper.refresh("v")
    written: list[str] = []
    original = DuckDBEngine.execute

    def spy(self: DuckDBEngine, sql: str, parameters: object = ()) -> object:
        written.append(sql)
        return original(self, sql, parameters)  # type: ignore[arg-type]

    monkeypatch.setattr(DuckDBEngine, "execute", spy)
    assert keeper.refresh("v").strategy == "unchanged"
    assert not [s for s in written if s.split()[0].upper() in ("INSERT", "DELETE", "UPDATE", "MERGE", "CREATE")]


def test_a_failed_change_leaves_the_engine_as_it_was() -> None:
    engine = DuckDBEngine("")
    with pytest.raises(EngineError), engine.transaction(), engine.using_all_cores(100_000, 0):
        engine.execute("SELECT error('stop')")
    assert not engine._splitting
    with engine.transaction(), engine.using_all_cores(100_000, 0):
        assert engine._splitting
        assert engine.execute("SELECT COUNT(*) FROM range(300000)") == [(300_000,)]
    assert not engine._splitting
