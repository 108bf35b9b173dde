"""What 'auto' chooses where an operator is computed anew at each refresh, and after what past refreshes have read."""

from __future__ import annotations

import pytest

import viewkeep
from viewkeep.strategy.choose import Situation, choose

TOP = "SELECT SUM(v) AS s FROM (SELECT id, v FROM t ORDER BY v DESC, id LIMIT 5) q"
RANKS = "SELECT id, RANK() OVER (ORDER BY v) AS n FROM t"
RANKED = "SELECT n, COUNT(*) AS c FROM (SELECT RANK() OVER (ORDER BY v) AS n FROM t) q GROUP BY n"
OF_GROUPS = "SELECT v, COUNT(*) AS c, RANK() OVER (ORDER BY COUNT(*) DESC) AS n FROM t GROUP BY v"
LATE = "SELECT v, MAX(id) AS m FROM t GROUP BY v"


@pytest.mark.parametrize(
    ("query", "options", "way", "reason"),
    [
        (TOP, "policy = 'auto'", "recompute", "LIMIT inside is computed anew"),
        (TOP, "policy = 'incremental'", "classical", ""),
        (TOP, "strategy = 'classical'", "classical", ""),
        (RANKED, "policy = 'auto'", "recompute", "without PARTITION BY is computed anew"),
        (RANKS, "policy = 'auto'", "classical", ""),
        (OF_GROUPS, "policy = 'auto'", "classical", ""),
        (OF_GROUPS, "changes = 'none'", "classical", ""),
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


@pytest.mark.parametrize(
    ("experience", "changed", "sources", "stored", "way"),
    [
        (None, 1_000, 2_000_000, 10_000, "classical"),
        ((1_000, 1_990_000), 1_000, 2_000_000, 10_000, "recompute"),
        ((1_000, 1_990_000), 400, 2_000_000, 10_000, "classical"),  # so small a change was not tried yet
        ((1_000, 1_200_000), 1_000, 2_000_000, 10_000, "classical"),  # much was skipped
        ((1_000, 1_990_000), 1_000, 2_000_000, 900_000, "classical"),  # the view is dear to write
        ((10, 1_000), 10, 1_000, 10, "classical"),  # nothing is dear here
    ],
)
def test_auto_learns_what_an_incremental_refresh_reads(
    experience: tuple[int, int] | None, changed: int, sources: int, stored: int, way: str
) -> None:
    for policy, expected in (("auto", way), ("incremental", "classical")):
        situation = Situation(policy, "auto", {"t": changed}, {"t": sources}, view_rows=stored, experience=experience)
        assert choose(situation).strategy == expected
