"""What 'auto' chooses where an operator is computed anew at each refresh."""

from __future__ import annotations

import pytest

import viewkeep

TOP = "SELECT SUM(v) AS s FROM (SELECT id, v FROM t ORDER BY v DESC, id LIMIT 5) q"
RANKS = "SELECT id, RANK() OVER (ORDER BY v) AS n FROM t"
RANKED = "SELECT n, COUNT(*) AS c FROM (SELECT RANK() OVER (ORDER BY v) AS n FROM t) q GROUP BY n"
LATE = "SELECT v, MAX(id) AS m FROM t GROUP BY v"


@pytest.mark.parametrize(
    ("query", "options", "way", "reason"),
    [
        (TOP, "policy = 'auto'", "recompute", "LIMIT inside is computed anew"),
        (TOP, "policy = 'incremental'", "classical", ""),
        (TOP, "strategy = 'classical'", "classical", ""),
        (RANKED, "policy = 'auto'", "recompute", "without PARTITION BY is computed anew"),
        (RANKS, "policy = 'auto'", "classical", ""),
        (RANKS, "changes = 'none'", "recompute", "nobody asks what changed"),
        (
            f"SELECT t.id, q.id AS top FROM t, ({TOP.replace('SUM(v) AS s', 'id')}) q",
            "policy = 'auto'",
            "classical",
            "",
        ),
        (LATE, "policy = 'auto'", "classical", ""),
    ],
)
def test_auto_recomputes_what_would_be_computed_twice_for_a_small_view(
    query: str, options: str, way: str, reason: str
) -> None:
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql("CREATE TABLE t AS SELECT i AS id, i % 20 AS v FROM range(1000) r(i)")
        keeper.sql(f"CREATE MATERIALIZED VIEW w WITH ({options}) AS {query}")
        for step in range(2):
            keeper.sql(f"DELETE FROM t WHERE id = {step + 7}; INSERT INTO t VALUES ({2000 + step}, 25)")
            report = keeper.refresh("w")
            assert (report.strategy, reason in report.reason) == (way, True), report
            assert keeper.verify("w").equal
