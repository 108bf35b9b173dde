"""Decimals of more than 28 digits, and quotients of decimals: sums and averages have every digit of the query's own.

Spark gives a + b of DECIMAL(38, 12) eleven digits after the point, and a quotient as many as fit.
"""

# ruff: noqa: E501 (a query is one line)

from __future__ import annotations

import random
from decimal import Decimal

import pytest

import viewkeep
from support import Engine, as_if_large, assert_view_equals_query

VIEWS = {
    "sums": "SELECT k, SUM(d) AS s, AVG(d) AS a FROM f GROUP BY k",
    "sums of either": "SELECT k, SUM(CASE WHEN m = 1 THEN d ELSE 0 END) AS s, SUM(COALESCE(d, 1.5)) AS c, SUM(d * 0.5) AS h FROM f GROUP BY k",
    "sums of sums": "SELECT m, SUM(s) AS t, MAX(s) AS x, AVG(s) AS a FROM (SELECT k, m, SUM(d) AS s FROM f GROUP BY k, m) y GROUP BY m",
    "counted sums": "SELECT s, COUNT(*) AS n FROM (SELECT k, SUM(COALESCE(d, 1.5)) AS s FROM f GROUP BY k) y GROUP BY s",
    "quotients": "SELECT k, SUM(d / m) AS s, AVG(d / m) AS a, AVG(m / 3) AS t FROM f GROUP BY k",
    "quotients below": "SELECT k, AVG(x) AS a, SUM(x) AS s FROM (SELECT k, d / m AS x FROM f) y GROUP BY k",
    "quotients of sums": "SELECT m, SUM(s / m) AS t FROM (SELECT k, m, SUM(p * m) AS s FROM f GROUP BY k, m) y GROUP BY m",
    "one row": "SELECT SUM(d / m) AS s, SUM(d) AS t FROM f",
    "running": "SELECT k, i, SUM(d) OVER (PARTITION BY k ORDER BY i) AS s FROM f",
}  # fmt: skip


def rows(rng: random.Random, start: int, count: int) -> str:
    wide = [Decimal(rng.randint(-(10**14), 10**14)).scaleb(-10) for _ in range(count)]
    cells = (
        f"({start + at}, {rng.randint(1, 3)}, {rng.choice((1, 2, 7))}, {rng.choice((value, 'NULL', 0))}, {rng.randint(1, 99)}.25)"
        for at, value in enumerate(wide)
    )
    return f"INSERT INTO f VALUES {', '.join(cells)}"


def follow(keeper: viewkeep.Keeper, seed: int) -> None:
    rng = random.Random(seed)
    keeper.sql("CREATE TABLE f (i INT, k INT, m INT, d DECIMAL(30, 10), p DECIMAL(7, 2))")
    keeper.sql(rows(rng, 0, 20))
    for number, query in enumerate(VIEWS.values()):
        keeper.sql(f"CREATE MATERIALIZED VIEW v{number} WITH (policy = 'incremental') AS {query}")
    for batch in range(3):
        if batch:  # at first rows only come
            keeper.sql(f"DELETE FROM f WHERE i % 7 = {batch}")
        keeper.sql(rows(rng, 100 * (batch + 1), 4))
        for report, (name, query) in zip(keeper.refresh(), VIEWS.items(), strict=True):
            assert report.strategy == "classical", report
            assert_view_equals_query(keeper, report.view, query, f"{name}, batch {batch}")


@pytest.mark.parametrize("seed", range(3))
def test_on_duckdb(seed: int) -> None:
    with viewkeep.connect("duckdb://") as keeper:
        follow(keeper, seed)


@pytest.mark.spark
@pytest.mark.parametrize("large", [False, True])
def test_on_spark(spark: Engine, large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Merged in the driver and replaced, as small views are; and changed file by file, by Spark."""
    if large:
        as_if_large(monkeypatch)
    with spark.connect() as keeper:
        follow(keeper, 0)
