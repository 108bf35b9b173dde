"""Rows whose user left out their key are found by it nevertheless: it is stored, hidden."""
# ruff: noqa: E501 (a query is one line)

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import viewkeep
from support import BATCHES, assert_view_equals_query, open_keeper, run_batches
from viewkeep.strategy.form import PLAIN, Form

HIDDEN = {
    "one table": ("SELECT qty, day FROM orders", 1),
    "filtered": ("SELECT amount FROM orders WHERE qty > 2", 1),
    "along a key": ("SELECT c.name, o.qty FROM orders o JOIN customers c ON o.customer = c.id", 1),
    "both keys": ("SELECT c.name, o.qty FROM orders o JOIN customers c ON o.qty > c.id", 2),
    "left join": ("SELECT c.region, o.qty FROM orders o LEFT JOIN customers c ON o.customer = c.id", 1),
    "semi join": ("SELECT qty FROM orders o WHERE EXISTS (SELECT 1 FROM tags t WHERE t.customer = o.customer)", 1),
    "self join": ("SELECT a.qty, b.day FROM orders a JOIN orders b ON a.customer = b.customer", 2),
    "one of them shown": ("SELECT a.id, b.day FROM orders a JOIN orders b ON a.customer = b.customer", 1),
    "subquery": ("SELECT q FROM (SELECT qty * 2 AS q, day FROM orders) t WHERE day IS NOT NULL", 1),
}
NONE = {
    "shown": "SELECT id, qty FROM orders",
    "no key": "SELECT tag FROM tags",
    "no key on one side": "SELECT t.tag, o.qty FROM orders o JOIN tags t ON t.customer = o.customer",
    "union": "SELECT qty FROM orders UNION ALL SELECT id FROM customers",
    "too many": "SELECT a.qty FROM orders a JOIN orders b ON a.customer = b.customer JOIN orders c ON a.customer = c.customer JOIN orders d ON d.qty = a.qty WHERE a.qty < 3 AND b.qty < 3 AND c.qty < 3",
}


def hidden_columns(keeper: viewkeep.Keeper) -> int:
    found = "SELECT * FROM duckdb_columns() WHERE table_name = 'data_v' AND starts_with(column_name, '_vk_key_')"
    return keeper.sql(found).num_rows


@pytest.mark.parametrize("name", [*HIDDEN, *NONE])
def test_rows_are_found_by_a_hidden_key(name: str) -> None:
    query, columns = HIDDEN[name] if name in HIDDEN else (NONE[name], 0)
    keeper, world = open_keeper("orders", "customers", "tags", seed=11)
    with keeper:
        keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'incremental') AS {query}")
        assert hidden_columns(keeper) == columns
        seen = Counter(map(repr, keeper.query("SELECT * FROM v").to_pylist()))
        version = keeper.history("v")[-1].version

        def check(what: str) -> None:
            nonlocal version
            report = keeper.refresh("v")
            assert report.strategy != "recompute", report.reason
            assert_view_equals_query(keeper, "v", query, what)
            for row in keeper.changes("v", since=version).to_pylist():
                weight = row.pop("_w")
                seen[repr(row)] += weight
            assert +seen == Counter(map(repr, keeper.query("SELECT * FROM v").to_pylist())), what
            version = report.version

        run_batches(keeper, world, check, BATCHES)


@pytest.mark.parametrize("form", [PLAIN, Form(bounded=True)], ids=["plain", "bounded"])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM t",
        "SELECT id, a FROM t QUALIFY RANK() OVER (ORDER BY a DESC) <= 3",
        "SELECT a, COUNT(*) AS n FROM (SELECT id, a FROM t ORDER BY a DESC, id LIMIT 20) q GROUP BY a",
        "SELECT id, a FROM t ORDER BY a DESC, id LIMIT 3",
    ],
    ids=["rows", "rank", "groups of the first", "limit"],
)
def test_a_view_made_before_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, form: Form
) -> None:
    url = f"duckdb:///{tmp_path}/shop.duckdb"
    with monkeypatch.context() as before:
        before.setattr("viewkeep.runtime.transactional.database.EMBEDDED", form)
        with viewkeep.connect(url) as keeper:
            keeper.sql(
                "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER); INSERT INTO t SELECT i, i % 7 FROM range(90) r(i)"
            )
            keeper.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    with viewkeep.connect(url) as keeper:
        keeper.sql("DELETE FROM t WHERE id = 8; INSERT INTO t VALUES (100, 3)")
        # Of a small view a LIMIT below groups is not computed twice.
        assert keeper.refresh("v").strategy == ("recompute" if "GROUP BY" in query else "classical")
        assert_view_equals_query(keeper, "v", query)
        assert hidden_columns(keeper) == 0
