"""Queries that leave a choice: the view makes one, sticks to it, and `verify` accepts it."""
# ruff: noqa: E501 (a query is one line)

from __future__ import annotations

import random

import pytest

import viewkeep

VIEWS = {
    "number": "SELECT k, a, b, ROW_NUMBER() OVER (PARTITION BY k ORDER BY a) AS n FROM r",
    "unordered": "SELECT k, b, ROW_NUMBER() OVER (PARTITION BY k) AS n, LAG(b) OVER (PARTITION BY k) AS l FROM r",
    "two orders": """SELECT k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY a) AS up,
        ROW_NUMBER() OVER (PARTITION BY k ORDER BY b DESC) AS down FROM r""",
    "first": "SELECT k, a, FIRST_VALUE(b) OVER (PARTITION BY k ORDER BY a) AS f FROM r",
    "last of peers": "SELECT k, a, LAST_VALUE(b) OVER (PARTITION BY k ORDER BY a) AS l FROM r",
    "rows": "SELECT k, a, SUM(b) OVER (PARTITION BY k ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM r",
    "no partition": "SELECT b, NTILE(3) OVER (ORDER BY a) AS n FROM r",
    "best": "SELECT k, b FROM r QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY a) = 1",
    "once": "SELECT DISTINCT ON (k) k, b FROM r ORDER BY k, a",
    "below": "SELECT n, COUNT(*) AS c, SUM(b) AS s FROM (SELECT b, ROW_NUMBER() OVER (PARTITION BY k ORDER BY a) AS n FROM r) t GROUP BY n",
    "limit below": "SELECT r.k, t.b FROM r JOIN (SELECT k, b FROM r ORDER BY a LIMIT 5) t ON r.k = t.k",
    "doubles": "SELECT k, SUM(d) OVER (PARTITION BY k ORDER BY a) AS s, AVG(d) OVER (PARTITION BY k) AS m FROM r",
    "doubles below": "SELECT s, COUNT(*) AS n FROM (SELECT SUM(d) OVER (PARTITION BY k) AS s FROM r) t GROUP BY s",
    "doubles, no partition": "SELECT a, SUM(d) OVER (ORDER BY a) AS s FROM r",
}  # fmt: skip


def rows(rng: random.Random, count: int) -> str:
    cells = [
        f"({rng.choice([1, 2, 3, 'NULL'])}, {rng.choice([1, 2, 'NULL'])}, {rng.randint(0, 3)}, {rng.random()})"
        for _ in range(count)
    ]
    return f"INSERT INTO r VALUES {', '.join(cells)}"


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("seed", range(3))
def test_a_view_sticks_to_its_choice(name: str, seed: int) -> None:
    rng = random.Random(seed)
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql(f"CREATE TABLE r (k INT, a INT, b INT, d DOUBLE); {rows(rng, 40)}")
        keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'incremental') AS {VIEWS[name]}")
        for _ in range(6):
            keeper.sql(f"DELETE FROM r WHERE b = {rng.randint(0, 3)} AND a IS NOT DISTINCT FROM {rng.choice([1, 2])}")
            keeper.sql(rows(rng, 6))
            keeper.sql(f"UPDATE r SET k = 2 WHERE k = 1 AND b = {rng.randint(0, 3)}")
            report = keeper.refresh("v")
            assert report.strategy == "classical", report
            verified = keeper.verify("v")
            assert verified.equal, verified


def test_what_cannot_be_decided_is_recomputed_with_the_reason() -> None:
    query = "SELECT k, NTH_VALUE(b, 2) OVER (PARTITION BY k ORDER BY a) AS n FROM r"
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql("CREATE TABLE r (k INT, a INT, b INT)")
        text = keeper.sql(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {query}")
    assert "NTHVALUE may choose among rows that are equal in ORDER BY" in text


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("SELECT k, RANK() OVER (ORDER BY a) AS n FROM r", "without PARTITION BY every row may change"),
        ("SELECT r.a FROM r JOIN (SELECT k FROM r ORDER BY a LIMIT 3) t USING (k)", "one row in can push another out"),
    ],
)
def test_strict_refuses_an_operator_that_is_computed_anew(query: str, word: str) -> None:
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql("CREATE TABLE r (k INT, a INT, b INT)")
        with pytest.raises(viewkeep.ViewkeepError, match=word):
            keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'strict') AS {query}")
        keeper.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert f"recompute of this operator: {word}" in keeper.explain("v")
