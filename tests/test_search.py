"""Rows that leave a large view are looked for by one column of their key first: the one with the most values."""

from __future__ import annotations

import pytest

import viewkeep
from support import BATCHES, assert_view_equals_query, open_keeper, run_batches
from viewkeep.runtime.transactional import refresh

QUERIES = {
    "one column": ("SELECT id, qty FROM orders", {"id"}),
    "hidden": ("SELECT qty, day FROM orders WHERE qty > 1", {"_vk_key_1"}),
    "two columns": ("SELECT c.name, o.qty FROM orders o JOIN customers c ON o.qty > c.id", {"_vk_key_1", "_vk_key_2"}),
    # Views with outer joins are refreshed without statistics, so nothing is known of their columns.
    "outer join": ("SELECT o.id, c.id AS cid FROM customers c LEFT JOIN orders o ON o.customer = c.id", set()),
    "no key": ("SELECT tag FROM tags", set()),
    "groups": ("SELECT customer, MAX(qty) AS most FROM orders GROUP BY customer", set()),
}
"""And the columns by which rows may be looked for."""


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every view is large, every change small; and the column that each search began with."""
    monkeypatch.setattr(refresh, "LARGE", 0)
    monkeypatch.setattr(refresh, "FEW", 0)
    found: list[str] = []
    first_by = refresh.Refresher._first_by

    def noted(*arguments: object) -> str | None:
        name = first_by(*arguments)  # type: ignore[arg-type]
        found.append(name or "")
        return name

    monkeypatch.setattr(refresh.Refresher, "_first_by", noted)
    return found


@pytest.mark.parametrize("name", QUERIES)
def test_the_same_rows_are_found(name: str, searches: list[str]) -> None:
    (query, columns), (keeper, world) = QUERIES[name], open_keeper("orders", "customers", "tags", seed=5)
    with keeper:
        keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'incremental') AS {query}")

        def check(what: str) -> None:
            report = keeper.refresh("v")
            assert report.strategy != "recompute", report.reason
            assert_view_equals_query(keeper, "v", query, what)

        run_batches(keeper, world, check, BATCHES)
    assert bool(set(searches) - {""}) == bool(columns)
    assert set(searches) <= {*columns, ""}


def wide(rows: int, pairs: str) -> viewkeep.Keeper:
    keeper = viewkeep.connect("duckdb://")
    keeper.sql("CREATE TABLE t (a INTEGER, b INTEGER, x INTEGER)")
    keeper.declare_key("t", ["a", "b"])
    keeper.sql(f"INSERT INTO t SELECT {pairs}, i % 7 FROM range({rows}) r(i)")
    keeper.sql("CREATE MATERIALIZED VIEW v WITH (policy = 'incremental') AS SELECT x FROM t")
    return keeper


@pytest.mark.parametrize(("pairs", "by"), [("i % 10, i", "_vk_key_2"), ("i, i % 10", "_vk_key_1")])
def test_the_column_with_the_most_values_is_first(pairs: str, by: str, searches: list[str]) -> None:
    with wide(20_000, pairs) as keeper:
        keeper.sql("DELETE FROM t WHERE x = 3 AND a + b < 500")
        keeper.refresh("v")
        assert searches == [by]
        assert_view_equals_query(keeper, "v", "SELECT x FROM t")


def test_few_rows_of_a_large_view() -> None:
    """With the limits as they are."""
    with wide(600_000, "i % 10, i") as keeper:
        statements: list[str] = []
        execute = keeper.engine.execute
        keeper.engine.execute = lambda sql, *more: (statements.append(sql), execute(sql, *more))[1]  # type: ignore[method-assign]
        for condition, first in (("b < 100", True), ("b < 400000", False)):
            statements.clear()
            keeper.sql(f"DELETE FROM t WHERE {condition}")
            keeper.refresh("v")
            (search,) = (s for s in statements if s.startswith('DELETE FROM "_viewkeep"."data_v"'))
            assert ('stored."_vk_key_2" IN (' in search) == first
            assert_view_equals_query(keeper, "v", "SELECT x FROM t")


def test_null_in_a_declared_key(searches: list[str]) -> None:
    with wide(100, "i % 10, i") as keeper:
        keeper.sql("DELETE FROM t WHERE b = 5; INSERT INTO t VALUES (NULL, 200, 1), (1, NULL, 2)")
        keeper.refresh("v")
        keeper.sql("DELETE FROM t WHERE b = 6 OR a IS NULL OR b IS NULL")
        report = keeper.refresh("v")
        assert searches[:2] == ["_vk_key_2", "_vk_key_2"]
        assert "rows were found by value" in report.reason
        assert_view_equals_query(keeper, "v", "SELECT x FROM t")


@pytest.mark.parametrize(
    "kind", ["TIMESTAMPTZ", "TIMESTAMP", "DATE", "TIME", "DECIMAL(30, 3)", "UUID", "BLOB", "DOUBLE", "BOOLEAN", "INT[]"]
)
def test_keys_of_any_type(kind: str, searches: list[str]) -> None:
    made = {
        "TIMESTAMPTZ": "TIMESTAMPTZ '2026-01-01 00:00:00+00' + INTERVAL (i) DAY",
        "TIMESTAMP": "TIMESTAMP '2026-01-01' + INTERVAL (i) DAY",
        "DATE": "DATE '2026-01-01' + i::INT",
        "TIME": "TIME '00:00:00' + INTERVAL (i) MINUTE",
        "UUID": "('00000000-0000-0000-0000-' || lpad(i::VARCHAR, 12, '0'))::UUID",
        "BLOB": "i::VARCHAR::BLOB",
        "BOOLEAN": "i % 2 = 0",
        "INT[]": "[i]",
    }.get(kind, f"i::{kind}")
    first = "_vk_key_2" if kind in ("BOOLEAN", "INT[]") else "_vk_key_1"
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql(f"CREATE TABLE t (a {kind}, b INTEGER, x INTEGER)")
        keeper.declare_key("t", ["a", "b"])
        keeper.sql(f"INSERT INTO t SELECT {made}, {'i' if kind == 'BOOLEAN' else 'i % 10'}, i % 7 FROM range(100) r(i)")
        keeper.sql("CREATE MATERIALIZED VIEW v WITH (policy = 'incremental') AS SELECT x FROM t")
        keeper.sql("DELETE FROM t WHERE x = 3")
        assert keeper.refresh("v").strategy == "classical"
        assert searches[0] == first
        assert_view_equals_query(keeper, "v", "SELECT x FROM t")


def test_rows_with_one_key_leave_with_the_versions_they_came_in() -> None:
    """Of a declared key that does not hold, and of what is told to those who follow the view."""
    with wide(10, "i, i") as keeper:
        versions = [keeper.history("v")[-1].version]
        for rows in ("(50, 50, 1)", "(50, 50, 1), (50, 50, 2)"):
            keeper.sql(f"INSERT INTO t VALUES {rows}")
            versions.append(keeper.refresh("v").version)
        keeper.sql("DELETE FROM t WHERE a = 50")
        assert "rows were found by value" in keeper.refresh("v").reason
        assert_view_equals_query(keeper, "v", "SELECT x FROM t")
        told = [sorted((r["_w"], r["x"]) for r in keeper.changes("v", since=v).to_pylist()) for v in versions]
        assert told == [[], [(-1, 1)], [(-1, 1), (-1, 1), (-1, 2)]]
