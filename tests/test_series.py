"""UNNEST, generated series and VALUES: rows that are made of rows, or of nothing."""
# ruff: noqa: E501 (a query is one line)

from __future__ import annotations

import random

import pytest

import viewkeep
from support import Engine, assert_view_equals_query

VIEWS = (
    "SELECT k, UNNEST(l) AS u FROM r",
    "SELECT k, u, COUNT(*) AS n FROM (SELECT k, UNNEST(l) AS u FROM r) q GROUP BY k, u",
    "SELECT r.k, u.x FROM r, UNNEST(r.l) AS u(x) WHERE u.x > 2",
    "SELECT k, unnest FROM r, UNNEST(l)",
    "SELECT r.k, g.i FROM r, generate_series(1, r.k) AS g(i)",
    "SELECT r.k, i FROM r CROSS JOIN range(3) t(i)",
    "SELECT i, COUNT(r.k) AS n FROM range(10) t(i) LEFT JOIN r ON r.k = i GROUP BY i",
    "SELECT UNNEST(l) AS u, UNNEST([1, k]) AS w, k FROM r ORDER BY u, w, k LIMIT 5",
    "SELECT k, UNNEST(LIST(a ORDER BY a)) AS x FROM r GROUP BY k",
    "SELECT DISTINCT u FROM (SELECT UNNEST(l) AS u FROM r) t",
    "SELECT x, SUM(k) AS s FROM r, UNNEST(l) t(x) GROUP BY x",
    "SELECT k, generate_series(1, k) AS s FROM r",
    "SELECT a.k, b.u FROM r a LEFT JOIN (SELECT k, UNNEST(l) AS u FROM r) b ON a.a = b.u",
    "SELECT d.d, COUNT(r.k) AS n FROM generate_series(DATE '2020-01-01', DATE '2020-01-05', INTERVAL 1 DAY) d(d) LEFT JOIN r ON r.t = d.d GROUP BY d.d",
    "SELECT v.name, COUNT(*) AS n FROM r JOIN (VALUES (1, 'one'), (2, 'two')) v(i, name) ON v.i = r.k GROUP BY v.name",
    "SELECT k FROM r UNION ALL VALUES (1), (NULL)",
    "SELECT r.k, t.u FROM r LEFT JOIN UNNEST(r.l) t(u) ON TRUE",
    "SELECT r.k, t.u FROM r LEFT JOIN UNNEST([1, 2]) t(u) ON t.u = r.k",
    "SELECT r.k, t.u FROM r LEFT JOIN generate_series(1, 2) t(u) ON TRUE",
)


def rows(rng: random.Random, count: int) -> str:
    lists = ("NULL", "[]", "[1, 2]", "[3, 3, 4]", "[NULL, 1]")
    cells = [
        f"({rng.choice([0, 1, 2, 3, 'NULL'])}, {rng.randint(0, 5)}, {rng.choice(lists)}, TIMESTAMP '2020-01-0{rng.randint(1, 7)}')"
        for _ in range(count)
    ]
    return f"INSERT INTO r VALUES {', '.join(cells)}"


@pytest.mark.parametrize("query", VIEWS)
def test_rows_made_of_rows(query: str) -> None:
    rng = random.Random(1)
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql(f"CREATE TABLE r (k INT, a INT, l INT[], t TIMESTAMP); {rows(rng, 20)}")
        keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'incremental') AS {query}")
        for what in range(5):
            keeper.sql(f"DELETE FROM r WHERE a = {rng.randint(0, 5)}; {rows(rng, 4)}")
            keeper.sql(f"UPDATE r SET k = 2, l = [7] WHERE a = {rng.randint(0, 5)}")
            report = keeper.refresh("v")
            assert report.strategy == "classical", report
            assert_view_equals_query(keeper, "v", query, f"batch {what}")


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT UNNEST(s) FROM r", "STRUCT"),
        ("SELECT UNNEST(l) AS u, COUNT(*) AS n FROM r GROUP BY u", "elements of a list"),
        ("SELECT r.k, u FROM r LEFT JOIN UNNEST(r.l) t(u) ON u > k", "UNNEST in FROM"),
    ],
)
def test_what_is_recomputed(query: str, reason: str) -> None:
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql("CREATE TABLE r (k INT, l INT[], s STRUCT(a INT, b INT))")
        keeper.sql("INSERT INTO r VALUES (1, [1, 2], {'a': 1, 'b': 2})")
        assert reason in keeper.sql(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {query}")


IN_SPARKS_WORDS = (
    "SELECT k, u FROM r LATERAL VIEW explode(l) t AS u",
    "SELECT k, u FROM r LATERAL VIEW OUTER explode(l) t AS u",
    "SELECT k, explode_outer(l) AS u FROM r",
    "SELECT u, COUNT(*) AS n, SUM(r.s.a) AS t FROM r LATERAL VIEW OUTER explode(r.l) t AS u GROUP BY u",
    "SELECT k, s.b.c, r.s.a + 1 AS more FROM r WHERE s.a > 1",
    "SELECT s.b.c, COUNT(k, s.a) AS n, COUNT(k, s.a) FILTER (WHERE k > 1) AS m FROM r GROUP BY s.b.c",
)


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_lists_and_structs_on_spark(spark: Engine) -> None:
    rng = random.Random(4)
    lists = ("CAST(NULL AS ARRAY<INT>)", "ARRAY()", "ARRAY(1, 2)", "ARRAY(3, 3, NULL)")

    def insert(count: int) -> str:
        structs = (
            f"named_struct('a', {rng.choice([1, 2, 3, 'NULL'])}, 'b', named_struct('c', '{rng.choice('xyz')}'))"
            for _ in range(count)
        )
        cells = (f"({rng.choice([1, 2, 3, 'NULL'])}, {rng.choice(lists)}, {s})" for s in structs)
        return f"INSERT INTO r VALUES {', '.join(cells)}"

    with viewkeep.connect(spark.url()) as keeper:
        keeper.sql("CREATE TABLE r (k INT, l ARRAY<INT>, s STRUCT<a: INT, b: STRUCT<c: STRING>>)")
        keeper.sql(insert(20))
        for number, query in enumerate(IN_SPARKS_WORDS):
            keeper.sql(f"CREATE MATERIALIZED VIEW v{number} WITH (policy = 'strict') AS {query}")
        for _ in range(2):
            keeper.sql(f"DELETE FROM r WHERE k = {rng.randint(1, 3)}; {insert(5)}")
            assert {r.strategy for r in keeper.refresh()} == {"classical"}
            for number, query in enumerate(IN_SPARKS_WORDS):
                assert_view_equals_query(keeper, f"v{number}", query, query)
