"""What 'auto' chooses where an operator is computed anew at each refresh, and after what past refreshes have read."""

from __future__ import annotations

import pytest

import viewkeep
from viewkeep.strategy.choose import Experience, Situation, choose

TOP = "SELECT SUM(v) AS s FROM (SELECT id, v FROM t ORDER BY v DESC, id LIMIT 5) q"
JOINED = f"SELECT q.s, t.v FROM ({TOP}) q JOIN t ON t.id = q.s"
RANKS = "SELECT id, RANK() OVER (ORDER BY v) AS n FROM t"
RANKED = "SELECT n, COUNT(*) AS c FROM (SELECT RANK() OVER (ORDER BY v) AS n FROM t) q GROUP BY n"
OF_GROUPS = "SELECT v, COUNT(*) AS c, RANK() OVER (ORDER BY COUNT(*) DESC) AS n FROM t GROUP BY v"
LATE = "SELECT v, MAX(id) AS m FROM t GROUP BY v"


@pytest.mark.parametrize(
    ("query", "options", "way", "reason"),
    [
        (TOP, "policy = 'auto'", "classical", ""),
        (TOP, "policy = 'incremental'", "classical", ""),
        (JOINED, "policy = 'auto'", "recompute", "LIMIT inside is computed anew"),
        (JOINED, "strategy = 'classical'", "classical", ""),
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
    ("experience", "changed", "sources", "is_read", "way"),
    [
        (None, 1_000, 2_000_000, False, "classical"),
        (Experience(1_000, 1_990_000, 1.2, 2, 0.8), 1_000, 2_000_000, False, "recompute"),
        (Experience(1_000, 1_990_000, 1.2, 1, 0.8), 1_000, 2_000_000, False, "classical"),  # the first is always slow
        (Experience(1_000, 1_990_000, 0.7, 2, 0.8), 1_000, 2_000_000, False, "classical"),  # a gain all the same
        (Experience(1_000, 1_990_000, 1.2, 2, 0.8), 400, 2_000_000, False, "classical"),  # so small a change is new
        (Experience(1_000, 1_200_000, 1.2, 2, 0.8), 1_000, 2_000_000, False, "classical"),  # much was skipped
        (Experience(1_000, 1_990_000, 1.2, 2, 0.8), 1_000, 2_000_000, True, "classical"),  # views above would suffer
        (Experience(10, 1_000, 1.2, 2, 0.8), 10, 1_000, False, "classical"),  # nothing is dear here
        (Experience(1_000, 1_990_000, 1.2, 2, 0.0), 1_000, 2_000_000, False, "classical"),  # nobody knows the other way
    ],
)
def test_auto_learns_from_what_refreshes_have_cost(
    experience: Experience | None, changed: int, sources: int, is_read: bool, way: str
) -> None:
    for policy, expected in (("auto", way), ("incremental", "classical")):
        situation = Situation(policy, "auto", {"t": changed}, {"t": sources}, experience=experience, is_read=is_read)
        assert choose(situation).strategy == expected
