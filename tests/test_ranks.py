"""Ranks of all rows are computed by value where few values sort many rows, with the same outcome."""

from __future__ import annotations

from typing import Any

import pytest

import viewkeep
from viewkeep.runtime.transactional.refresh import Refresher

VIEWS = {
    "up": "SELECT id, RANK() OVER (ORDER BY v) AS n FROM t",
    "down": "SELECT id, v, RANK() OVER (ORDER BY v DESC) AS n, DENSE_RANK() OVER (ORDER BY v DESC) AS d FROM t",
    "first": "SELECT id, DENSE_RANK() OVER (ORDER BY v NULLS FIRST) AS n FROM t WHERE id % 3 > 0",
    "above": "SELECT n + id AS m FROM (SELECT id, RANK() OVER (ORDER BY v NULLS LAST) AS n FROM t) r WHERE n > 100",
    "text": "SELECT id, RANK() OVER (ORDER BY label DESC) AS n FROM t",
}
CHANGES = (
    "INSERT INTO t SELECT 1000 + i, i % 3, 'x' FROM range(7) r(i)",
    "DELETE FROM t WHERE v = 2 OR v IS NULL",
    "UPDATE t SET v = NULL WHERE id % 7 = 0; UPDATE t SET label = 'B' WHERE id % 11 = 0",
    "DELETE FROM t",
    "INSERT INTO t VALUES (1, NULL, NULL)",
)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What was found out about the number of values."""
    found: list[bool] = []
    ask = Refresher._few_values

    def noted(self: Refresher, *given: Any) -> bool:
        found.append(ask(self, *given))
        return found[-1]

    monkeypatch.setattr(Refresher, "_few_values", noted)
    return found


@pytest.mark.parametrize("name", VIEWS)
def test_ranks_follow_from_few_values(name: str, few: list[bool]) -> None:
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql(
            "CREATE TABLE t AS SELECT i AS id, CASE WHEN i % 6 < 5 THEN i % 6 END AS v, "
            "CASE i % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'B' END AS label FROM range(400) r(i)"
        )
        keeper.sql(f"CREATE MATERIALIZED VIEW w WITH (policy = 'auto', changes = 'none') AS {VIEWS[name]}")
        for change in CHANGES:
            for statement in change.split("; "):
                keeper.sql(statement)
            keeper.refresh("w", full=True)
            assert keeper.verify("w").equal, change
        assert few[:3] == [True] * 3


def test_many_values_are_sorted_as_rows(few: list[bool]) -> None:
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql("CREATE TABLE t AS SELECT i AS id, i % 200 AS v FROM range(400) r(i)")
        keeper.sql("CREATE MATERIALIZED VIEW w WITH (changes = 'none') AS " + VIEWS["up"])
        keeper.sql("INSERT INTO t VALUES (1, 1)")
        keeper.refresh("w", full=True)
        assert keeper.verify("w").equal
    assert few == [False]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, ROW_NUMBER() OVER (ORDER BY v, id) AS n FROM t",
        "SELECT id, RANK() OVER (ORDER BY v, id) AS n FROM t",
        "SELECT id, RANK() OVER (ORDER BY v + 1) AS n FROM t",
        "SELECT id, RANK() OVER (ORDER BY v) AS n, COUNT(*) OVER (ORDER BY v) AS c FROM t",
    ],
)
def test_other_windows_are_computed_as_they_are(query: str, few: list[bool]) -> None:
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql("CREATE TABLE t AS SELECT i AS id, i % 2 AS v FROM range(100) r(i)")
        keeper.sql(f"CREATE MATERIALIZED VIEW w WITH (changes = 'none') AS {query}")
        keeper.sql("INSERT INTO t VALUES (1000, 1)")
        keeper.refresh("w", full=True)
        assert keeper.verify("w").equal
    assert few == []
