"""Joins that ask who has no partner, and subqueries with SQL's three values: the smallest case of each mistake."""
# ruff: noqa: E501 (a query is one line)

from __future__ import annotations

from collections.abc import Iterator

import pytest

import viewkeep
from support import assert_view_equals_query, rows_of
from viewkeep.catalog import Catalog, TableName
from viewkeep.runtime.compiled import compile_view
from viewkeep.sql.schema import read_schema

CHANGES = (
    "INSERT INTO r VALUES (1, 10)",  # a first partner
    "INSERT INTO r VALUES (1, 10), (1, 11)",  # more partners, and a copy
    "DELETE FROM r WHERE b = 11",  # one of several
    "DELETE FROM r WHERE k = 1",  # the last ones
    "INSERT INTO r VALUES (NULL, 5); INSERT INTO l VALUES (NULL, 6)",  # keys that never match
    "DELETE FROM r WHERE k IS NULL; INSERT INTO r VALUES (NULL, NULL)",
    "INSERT INTO l VALUES (3, 1), (3, 1); INSERT INTO r VALUES (3, 2)",  # both sides at once
    "DELETE FROM l WHERE k = 3; DELETE FROM r WHERE k = 3",
    "UPDATE r SET k = 2 WHERE k = 4; UPDATE l SET k = 4 WHERE k = 2",  # they pass each other
    "INSERT INTO r VALUES (1, 1); DELETE FROM r WHERE k = 1",  # came and went
    "UPDATE r SET b = b + 1",
    "UPDATE l SET k = NULL WHERE k = 1",
    "DELETE FROM r",  # nobody has a partner
    "DELETE FROM l; INSERT INTO r VALUES (1, 1), (2, NULL)",
    "INSERT INTO l VALUES (1, 1), (2, 2), (NULL, NULL), (1, 1)",
)
QUERIES = {
    "left": "SELECT l.k, l.a, r.b FROM l LEFT JOIN r ON l.k = r.k",
    "left residual": "SELECT l.k, l.a, r.b FROM l LEFT JOIN r ON l.k = r.k AND l.a < r.b",
    "left theta": "SELECT l.k, l.a, r.b FROM l LEFT JOIN r ON l.a < r.b",
    "left null-safe": "SELECT l.k, l.a, r.b FROM l LEFT JOIN r ON l.k IS NOT DISTINCT FROM r.k",
    "left on left": "SELECT l.k, l.a, r.b FROM l LEFT JOIN r ON l.k = r.k AND l.a > 1",
    "full": "SELECT l.k, l.a, r.k AS rk, r.b FROM l FULL JOIN r ON l.k = r.k",
    "full theta": "SELECT l.k, l.a, r.k AS rk, r.b FROM l FULL JOIN r ON l.a < r.b",
    "full using": "SELECT k, a, b FROM l FULL JOIN r USING (k)",
    "semi": "SELECT k, a FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k)",
    "anti": "SELECT k, a FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k)",
    "in": "SELECT k, a FROM l WHERE a IN (SELECT b FROM r)",
    "not in": "SELECT k, a FROM l WHERE a NOT IN (SELECT b FROM r)",
    "not in, correlated": "SELECT k, a FROM l WHERE a NOT IN (SELECT b FROM r WHERE r.k = l.k)",
    "not in of pairs": "SELECT k, a FROM l WHERE (k, a) NOT IN (SELECT k, b FROM r)",
    "in as a value": "SELECT k, a, a IN (SELECT b FROM r) AS i, a NOT IN (SELECT b FROM r WHERE r.k = l.k) AS n FROM l",
    "exists as a value": "SELECT k, EXISTS (SELECT 1 FROM r WHERE r.k = l.k) AS e, EXISTS (SELECT 1 FROM r) AS f FROM l",
    "all": "SELECT k, a FROM l WHERE a > ALL (SELECT b FROM r WHERE r.k = l.k)",
    "count": "SELECT k, (SELECT COUNT(*) FROM r WHERE r.k = l.k) AS n, (SELECT SUM(b) FROM r WHERE r.k = l.k) AS s FROM l",
    "count theta": "SELECT k, a, (SELECT COUNT(b) FROM r WHERE r.b > l.a) AS n FROM l",
    "groups": "SELECT l.k, COUNT(*) AS n, COUNT(b) AS c, SUM(b) AS s, MIN(b) AS m FROM l LEFT JOIN r USING (k) GROUP BY l.k",
    "total": "SELECT COUNT(*) AS n, COUNT(l.k) AS c, SUM(r.b) AS s FROM l FULL JOIN r USING (k)",
}


@pytest.fixture
def keeper() -> Iterator[viewkeep.Keeper]:
    with viewkeep.connect("duckdb://") as keeper:
        yield keeper


@pytest.mark.parametrize("name", QUERIES)
def test_partners_come_and_go(keeper: viewkeep.Keeper, name: str) -> None:
    query = QUERIES[name]
    keeper.sql("CREATE TABLE l (k INTEGER, a INTEGER); CREATE TABLE r (k INTEGER, b INTEGER)")
    keeper.sql("INSERT INTO l VALUES (1, 1), (2, 2), (2, 2), (NULL, 3); INSERT INTO r VALUES (2, 9), (2, 9), (4, 1)")
    keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'strict') AS {query}")
    keeper.sql("CREATE MATERIALIZED VIEW above WITH (policy = 'strict') AS SELECT COUNT(*) AS n FROM v")
    for change in CHANGES:
        keeper.sql(change)
        assert {r.strategy for r in keeper.refresh()} <= {"classical", "unchanged"}
        assert_view_equals_query(keeper, "v", query, change)
        assert_view_equals_query(keeper, "above", f"SELECT COUNT(*) AS n FROM ({query})", change)


def test_a_second_row_of_a_scalar_subquery_is_an_error(keeper: viewkeep.Keeper) -> None:
    query = "SELECT l.k, (SELECT r.b FROM r WHERE r.k = l.k) AS b FROM l"
    keeper.sql("CREATE TABLE l (k INTEGER); CREATE TABLE r (k INTEGER, b INTEGER)")
    keeper.sql("INSERT INTO l VALUES (1), (2); INSERT INTO r VALUES (1, 10), (3, 30), (3, 31)")
    keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'strict') AS {query}")
    assert_view_equals_query(keeper, "v", query)
    keeper.sql("INSERT INTO r VALUES (1, 11)")
    with pytest.raises(viewkeep.ViewkeepError, match="more than one row"):
        keeper.refresh("v")
    assert sorted(rows_of(keeper.query("SELECT * FROM v")))[0] == (1, 10)
    keeper.sql("DELETE FROM r WHERE b = 10")
    keeper.refresh("v")
    assert_view_equals_query(keeper, "v", query)


def test_a_second_row_of_an_uncorrelated_subquery_is_an_error(keeper: viewkeep.Keeper) -> None:
    keeper.sql("CREATE TABLE l (k INTEGER); CREATE TABLE r (b DATE); INSERT INTO l VALUES (1)")
    keeper.sql("CREATE MATERIALIZED VIEW v WITH (policy = 'strict') AS SELECT k, (SELECT b FROM r) AS b FROM l")
    keeper.sql("INSERT INTO r VALUES ('2024-01-01')")
    keeper.refresh("v")
    assert_view_equals_query(keeper, "v", "SELECT k, (SELECT b FROM r) AS b FROM l")
    keeper.sql("INSERT INTO r VALUES ('2024-01-02')")
    with pytest.raises(viewkeep.ViewkeepError, match="more than one row"):
        keeper.refresh("v")


# ---------------------------------------------------------------------- what a plan looks like
SCHEMA = "CREATE TABLE l (k INTEGER, a INTEGER); CREATE TABLE r (k INTEGER, b INTEGER)"


def plan_of(query: str) -> str:
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql(SCHEMA)
        keeper.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        return keeper.explain("v")


@pytest.mark.parametrize(
    ("query", "there", "not_there"),
    [
        ("SELECT a, b FROM l LEFT JOIN r ON l.k = r.k WHERE b > 1", "Join inner", "Join left"),
        ("SELECT a, b FROM l LEFT JOIN r ON l.k = r.k WHERE b IS NULL", "Join left", "Join inner"),
        ("SELECT a, b FROM l LEFT JOIN r ON l.k = r.k WHERE a > 1 OR b > 1", "Join left", "Join inner"),
        ("SELECT a, b FROM l FULL JOIN r ON l.k = r.k WHERE b > 1", "Join left", "Join full"),
        ("SELECT a, b FROM l LEFT JOIN r ON l.k = r.k AND b > 1", "Filter b_4 > 1", "Join inner"),
        ("SELECT a FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND b > a)", "Join semi", "Distinct k_"),
        ("SELECT a FROM l WHERE k NOT IN (SELECT k FROM r)", "Join anti", "NOT INCREMENTAL"),
        ("SELECT a FROM l WHERE a > (SELECT AVG(b) FROM r WHERE r.k = l.k)", "Join inner", "Join left"),
    ],
)
def test_a_join_is_the_simplest_that_is_right(query: str, there: str, not_there: str) -> None:
    plan = plan_of(query).partition("stored as")[0]
    assert there in plan, plan
    assert not_there not in plan, plan


def catalog() -> Catalog:
    return read_schema(SCHEMA, "duckdb")


@pytest.mark.parametrize(
    ("query", "monotone"),
    [
        ("SELECT a, b FROM l JOIN r USING (k)", True),
        ("SELECT a FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k)", True),
        ("SELECT a FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k)", False),
        ("SELECT a, b FROM l LEFT JOIN r USING (k)", False),
        ("SELECT a, b FROM l FULL JOIN r USING (k)", False),
        ("SELECT a, EXISTS (SELECT 1 FROM r) AS e FROM l", False),
    ],
)
def test_an_insert_that_can_take_a_row_away_is_known(query: str, monotone: bool) -> None:
    assert compile_view(TableName("v"), query, catalog(), "duckdb").monotone is monotone


@pytest.mark.parametrize("query", ["semi", "in"])
def test_inserts_into_a_semi_join(keeper: viewkeep.Keeper, query: str) -> None:
    """Appended without looking for what leaves; a second partner adds nothing."""
    keeper.sql(SCHEMA)
    keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'strict') AS {QUERIES[query]}")
    for change in ("INSERT INTO l VALUES (1, 1), (1, 1)", "INSERT INTO r VALUES (1, 1)", "INSERT INTO r VALUES (1, 1)"):
        keeper.sql(change)
        keeper.refresh("v")
        assert_view_equals_query(keeper, "v", QUERIES[query], change)
    keeper.sql("INSERT INTO l VALUES (2, 2); INSERT INTO r VALUES (2, 2), (2, 2)")
    keeper.refresh("v")
    assert_view_equals_query(keeper, "v", QUERIES[query])


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT a, (SELECT SUM(b) OVER () FROM r WHERE r.k = l.k HAVING COUNT(*) = 1) AS b FROM l", "a window"),
        ("SELECT a, (SELECT SUM(b) FROM r WHERE r.k = l.k GROUP BY GROUPING SETS (())) AS b FROM l", "GROUPING SETS"),
        ("SELECT a, ARRAY(SELECT DISTINCT b FROM r WHERE r.k = l.k ORDER BY b) AS b FROM l", "ARRAY of a query"),
        (
            "SELECT k FROM l GROUP BY k HAVING EXISTS (SELECT 1 FROM r WHERE b = SUM(l.a))",
            "aggregate of the query around",
        ),
        ("SELECT a, (k, a) > ALL (SELECT k, b FROM r) AS i FROM l", "several columns"),
        (
            "SELECT l.a FROM l LEFT JOIN r ON l.k = r.k AND EXISTS (SELECT 1 FROM r x WHERE x.k = l.a + r.b)",
            "both sides",
        ),
    ],
)
def test_what_stays_correlated_says_why(keeper: viewkeep.Keeper, query: str, reason: str) -> None:
    keeper.sql(SCHEMA)
    with pytest.raises(viewkeep.ViewkeepError, match=reason):
        keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'strict') AS {query}")


def test_wrong_subqueries_are_errors(keeper: viewkeep.Keeper) -> None:
    keeper.sql(SCHEMA)
    for query, words in (
        ("SELECT (SELECT k, b FROM r) AS x FROM l", "one column"),
        ("SELECT a FROM l WHERE k IN (SELECT k, b FROM r)", "a row of 1 is compared with one of 2"),
        ("SELECT a FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.nothing)", "nothing"),
        ("SELECT COUNT(*) AS n, (SELECT MAX(b) FROM r WHERE r.k = l.k) AS m FROM l", "GROUP BY"),
    ):
        with pytest.raises(viewkeep.ViewkeepError, match=words):
            keeper.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
