"""Shapes that are easy to read wrongly: each was wrong once."""

from __future__ import annotations

import random

import pytest

import viewkeep
from support import Engine, assert_view_equals_query


@pytest.fixture
def keeper() -> viewkeep.Keeper:
    keeper = viewkeep.connect("duckdb://")
    keeper.sql("CREATE TABLE r (k INT, d DOUBLE, l INT[], t TIMESTAMP, h UHUGEINT, s STRUCT(a INT))")
    rng = random.Random(7)
    moment = "TIMESTAMP '2020-01-01' + INTERVAL {} MINUTE"
    rows = ", ".join(
        f"({rng.randint(0, 9)}, {rng.random()}, [{i}, 0], {moment.format(i)}, {i}, {{'a': {i}}})" for i in range(200)
    )
    keeper.sql(f"INSERT INTO r VALUES {rows}")
    return keeper


def change(keeper: viewkeep.Keeper, seed: int) -> None:
    rng = random.Random(seed)
    keeper.sql(f"DELETE FROM r WHERE h % 7 = {rng.randint(0, 6)}")
    values = ", ".join(
        f"({rng.randint(0, 9)}, {rng.random()}, [1], TIMESTAMP '2021-01-01', {i}, {{'a': 1}})" for i in range(9)
    )
    keeper.sql(f"INSERT INTO r VALUES {values}")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT s, COUNT(*) AS n FROM (SELECT k, SUM(d) AS s FROM r GROUP BY k) q GROUP BY s",
        "SELECT k, m FROM (SELECT k, AVG(d) AS m FROM r GROUP BY k) q WHERE m > 0.3",
        "SELECT a.k, b.s FROM r a JOIN (SELECT k, SUM(d) AS s FROM r GROUP BY k) b ON a.k = b.k",
        "SELECT SUM(EXTRACT(epoch FROM t)) AS e FROM r",
        "SELECT k, SUM(h) AS s FROM r GROUP BY k",
        "SELECT PRODUCT(k + 1) AS p FROM r",
        "SELECT k, FSUM(d) AS f FROM r GROUP BY k",
        "SELECT k, MIN(d) AS lo FROM ((r JOIN (SELECT DISTINCT k FROM r) q USING (k))) GROUP BY k",
        "SELECT s.a AS a FROM r",
        "SELECT s.A, COUNT(*) AS n, MAX(r.s.A) AS m FROM r WHERE main.r.s.a <> 3 GROUP BY s.A",
        "SELECT t.s.b.c.d.e AS e FROM (SELECT {'b': {'c': {'d': {'e': k}}}} AS s FROM r) t WHERE t.s.b.c.d.e > 2",
        "SELECT k, (SELECT MAX(q.s.a) FROM r q WHERE q.s.a < r.s.a) AS below FROM r",
        "SELECT k, MAX(h, 2) AS most, MIN(k, 2) FILTER (WHERE h > 9) AS least FROM r GROUP BY k",
    ],
)
def test_stays_incremental_and_right(keeper: viewkeep.Keeper, query: str) -> None:
    keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'incremental') AS {query}")
    for seed in range(5):
        change(keeper, seed)
        report = keeper.refresh("v")
        assert report.strategy == "classical", report
        verified = keeper.verify("v")
        assert verified.equal, verified


SHAPES_ON_SPARK = (
    "SELECT s, COUNT(*) AS n FROM (SELECT k, SUM(d) AS s FROM r GROUP BY k) q GROUP BY s",
    "SELECT k, m FROM (SELECT k, AVG(d) AS m FROM r GROUP BY k) q WHERE m > 0.3",
    "SELECT a.k, b.s FROM r a JOIN (SELECT k, SUM(d) AS s FROM r GROUP BY k) b ON a.k = b.k",
    "SELECT k, v FROM (SELECT k, STDDEV(d) AS v, VAR_POP(d) AS p FROM r GROUP BY k) q WHERE p < 1",
    "SELECT k, d, SUM(d) OVER (PARTITION BY k) AS s FROM r",
    "SELECT k, AVG(a) AS a FROM r GROUP BY k",
    "SELECT MAX(m) AS m FROM (SELECT k, AVG(a) AS m FROM r GROUP BY k) q",
    "SELECT k, MIN(d) AS lo FROM ((r JOIN (SELECT DISTINCT k FROM r) q USING (k))) GROUP BY k",
    "SELECT * FROM (SELECT d, k FROM r) x JOIN (SELECT h, k FROM r) y USING (k) WHERE h < 30",
)


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_shapes_on_spark(spark: Engine) -> None:
    rng = random.Random(7)

    def values(count: int) -> str:
        rows = (f"({rng.randint(0, 9)}, {rng.random()}D, {rng.randint(-99, 99)}.25, {i})" for i in range(count))
        return ", ".join(rows)

    with viewkeep.connect(spark.url()) as keeper:
        keeper.sql("CREATE TABLE r (k INT, d DOUBLE, a DECIMAL(12, 2), h INT)")
        keeper.sql(f"INSERT INTO r VALUES {values(60)}")
        for number, query in enumerate(SHAPES_ON_SPARK):
            keeper.sql(f"CREATE MATERIALIZED VIEW v{number} WITH (policy = 'incremental') AS {query}")
        for _ in range(2):
            keeper.sql(f"DELETE FROM r WHERE h % 7 = {rng.randint(0, 6)}; INSERT INTO r VALUES {values(9)}")
            assert {r.strategy for r in keeper.refresh()} == {"classical"}
            for number, query in enumerate(SHAPES_ON_SPARK):
                assert_view_equals_query(keeper, f"v{number}", query, query)
                assert keeper.verify(f"v{number}").equal


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT k FROM r ORDER BY k, d LIMIT 10%", "whole numbers have"),
        ("SELECT MAX(x) AS x FROM (SELECT k, ANY_VALUE(k) AS x FROM r GROUP BY k) q", "ANYVALUE"),
        ("SELECT 1 AS one", "no table"),
        (
            "WITH RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM c WHERE n < 3) SELECT n, k FROM c, r",
            "RECURSIVE",
        ),
        ("SELECT r.k FROM r ASOF JOIN r q ON r.k >= q.k", "ASOF JOIN"),
        ("SELECT * FROM r PIVOT (SUM(k), MAX(k) FOR h IN (1, 2) GROUP BY d)", "PIVOT with several aggregates"),
        ("SELECT * FROM (UNPIVOT r ON k + 1 AS x, h INTO NAME a VALUE b)", "UNPIVOT of anything but"),
    ],
)
def test_what_is_not_understood_is_recomputed_with_the_reason(keeper: viewkeep.Keeper, query: str, reason: str) -> None:
    with pytest.raises(viewkeep.ViewkeepError, match=reason):
        keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'strict') AS {query}")
    keeper.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert reason in keeper.explain("v")
    change(keeper, 1)
    report = keeper.refresh("v")
    assert (report.strategy == "recompute" and reason in report.reason) or query == "SELECT 1 AS one"
    assert keeper.verify("v").equal


def test_default_schema_may_be_written(keeper: viewkeep.Keeper) -> None:
    keeper.sql(
        "CREATE MATERIALIZED VIEW v WITH (policy = 'strict') AS SELECT main.r.k, COUNT(*) AS n FROM main.r GROUP BY ALL"
    )
    change(keeper, 2)
    assert keeper.refresh("v").strategy == "classical"
    assert keeper.verify("v").equal


def test_a_refresh_reads_the_pending_changes_once_for_all_views(keeper: viewkeep.Keeper) -> None:
    keeper.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM r; CREATE MATERIALIZED VIEW w AS SELECT d FROM r")
    change(keeper, 3)
    versions = {report.version for report in keeper.refresh()}
    assert len(versions) == 1
    assert keeper.query("SELECT COUNT(*) AS n FROM _viewkeep.log_r").to_pylist() == [{"n": 0}]


def test_error_positions_are_those_of_the_script(keeper: viewkeep.Keeper) -> None:
    with pytest.raises(viewkeep.ViewkeepError) as caught:
        keeper.sql("SELECT 1;\n\nCREATE MATERIALIZED VIEW v AS\n  SELECT kk FROM r")
    assert str(caught.value).startswith("column 'kk' does not exist (line 4, column 10)")


def test_explain_before_creation(keeper: viewkeep.Keeper) -> None:
    text = keeper.sql("EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT k, MIN(d) AS lo FROM r GROUP BY k")
    assert "affected keys" in text
    assert keeper.status() == []
    assert "NOT INCREMENTAL" in keeper.sql(
        "EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT r.k FROM r POSITIONAL JOIN r q"
    )


def test_a_table_dropped_after_a_refresh_makes_only_its_views_invalid(keeper: viewkeep.Keeper) -> None:
    keeper.sql("CREATE TABLE other (a INT); INSERT INTO other VALUES (1)")
    keeper.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM r; CREATE MATERIALIZED VIEW w AS SELECT a FROM other")
    change(keeper, 4)
    keeper.refresh()
    before = keeper.query("SELECT COUNT(*) AS n FROM v").to_pylist()
    keeper.engine.connection.execute("DROP TABLE r; INSERT INTO other VALUES (2)")
    reports = {r.view: r for r in keeper.refresh()}
    assert reports["v"].strategy == "invalid"
    assert reports["v"].reason == "table 'r' is gone"
    assert reports["w"].rows_inserted == 1
    with pytest.raises(viewkeep.ViewkeepError, match="view 'v' is invalid: table 'r' is gone"):
        keeper.refresh("v")
    assert keeper.query("SELECT COUNT(*) AS n FROM v").to_pylist() == before
