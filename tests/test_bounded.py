"""ORDER BY … LIMIT of plain rows: only the first rows are stored, and the view is right whenever the bound is moved."""
# ruff: noqa: E501 (a query is one line)

from __future__ import annotations

from collections import Counter

import pytest

import viewkeep
from support import BATCHES, assert_view_equals_query, open_keeper, run_batches
from viewkeep.strategy import bounded

TOP = {
    "up": "SELECT id, qty FROM orders ORDER BY qty NULLS LAST, id LIMIT 4",
    "down": "SELECT id, amount FROM orders ORDER BY amount DESC NULLS LAST, id LIMIT 5",
    "nulls first": "SELECT id, qty FROM orders ORDER BY qty NULLS FIRST, id DESC LIMIT 3 OFFSET 2",
    "nulls first, down": "SELECT id, qty FROM orders ORDER BY qty DESC NULLS FIRST, id LIMIT 4",
    "hidden": "SELECT name FROM customers ORDER BY id LIMIT 3",
    "computed": "SELECT id, -qty AS q FROM orders ORDER BY ABS(qty - 5) NULLS LAST, id LIMIT 4",
    "copies": "SELECT tag, customer FROM tags ORDER BY tag NULLS LAST, customer NULLS LAST LIMIT 6",
    "doubles": "SELECT kind, weight FROM events ORDER BY weight DESC NULLS LAST, kind NULLS LAST LIMIT 5",
    "join": "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id ORDER BY o.day NULLS LAST, o.id LIMIT 5",
    "left join": "SELECT o.id, c.region FROM orders o LEFT JOIN customers c ON o.customer = c.id ORDER BY c.region DESC NULLS LAST, o.id LIMIT 5",
    "union": "SELECT id AS n FROM orders UNION ALL SELECT customer FROM tags ORDER BY n NULLS LAST LIMIT 5",
    "filtered above": "SELECT id FROM (SELECT id, qty FROM orders ORDER BY qty NULLS LAST, id LIMIT 6) t WHERE qty > 0",
    "twice": "SELECT id FROM (SELECT id, qty FROM orders ORDER BY id LIMIT 6) t ORDER BY qty NULLS LAST, id LIMIT 3",
    "rank": "SELECT id, qty FROM orders QUALIFY RANK() OVER (ORDER BY qty DESC NULLS LAST) <= 3",
    "rank, nulls first": "SELECT id, RANK() OVER (ORDER BY qty NULLS FIRST) AS r FROM orders QUALIFY r < 4 AND id > 2",
    "row number": "SELECT id FROM orders QUALIFY ROW_NUMBER() OVER (ORDER BY amount DESC NULLS LAST, id) = 2",
    "ranks below a filter": "SELECT id, r, d FROM (SELECT id, qty, RANK() OVER (ORDER BY day NULLS LAST) AS r, DENSE_RANK() OVER (ORDER BY day NULLS LAST) AS d FROM orders) t WHERE r BETWEEN 2 AND 6 AND qty IS NOT NULL",
    "rank of a join": "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id QUALIFY 4 >= RANK() OVER (ORDER BY o.amount DESC NULLS LAST)",
    "rank, then limit": "SELECT id FROM orders QUALIFY RANK() OVER (ORDER BY qty NULLS LAST) <= 6 ORDER BY id DESC LIMIT 2",
    "groups of the first": "SELECT customer, COUNT(*) AS n, SUM(qty) AS s FROM (SELECT customer, qty FROM orders ORDER BY amount DESC NULLS LAST, id LIMIT 7) t GROUP BY customer",
    "groups of the first of a join": "SELECT region, MAX(qty) AS top FROM (SELECT c.region, o.qty FROM orders o JOIN customers c ON o.customer = c.id ORDER BY o.day NULLS LAST, o.id LIMIT 6) t GROUP BY region HAVING COUNT(*) > 1",
    "total of the first": "SELECT SUM(weight) AS s, COUNT(*) AS n FROM (SELECT weight FROM events ORDER BY weight DESC NULLS LAST LIMIT 5) t",
    "distinct of the first": "SELECT DISTINCT customer FROM (SELECT customer FROM tags ORDER BY tag NULLS LAST, customer NULLS LAST LIMIT 6) t",
    "groups of the best by rank": "SELECT customer, COUNT(*) AS n FROM (SELECT customer FROM orders QUALIFY RANK() OVER (ORDER BY qty DESC NULLS LAST) <= 4) t GROUP BY customer",
}
NOT_BOUNDED = {
    "groups of the best groups": "SELECT n, COUNT(*) AS customers FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer ORDER BY n DESC, customer NULLS LAST LIMIT 4) t GROUP BY n",
    "count beside the rank": "SELECT id, COUNT(*) OVER () AS n FROM orders QUALIFY RANK() OVER (ORDER BY qty NULLS LAST) <= 3",
    "limit below the filter": "SELECT id FROM (SELECT id, RANK() OVER (ORDER BY qty NULLS LAST) AS r FROM orders ORDER BY id DESC LIMIT 5) t WHERE r <= 4",
    "dense rank": "SELECT id FROM orders QUALIFY DENSE_RANK() OVER (ORDER BY qty NULLS LAST) <= 2",
    "two orders": "SELECT id, RANK() OVER (ORDER BY day) AS d FROM orders QUALIFY RANK() OVER (ORDER BY qty NULLS LAST) <= 3",
    "rank from below": "SELECT id FROM orders QUALIFY RANK() OVER (ORDER BY qty NULLS LAST) >= 3",
    "either": "SELECT id FROM orders QUALIFY RANK() OVER (ORDER BY qty NULLS LAST) <= 3 OR id < 4",
}


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in reserve: nearly every delete moves the bound."""
    monkeypatch.setattr(bounded, "RESERVE", 1)
    monkeypatch.setattr(bounded, "TIMES", 1)
    monkeypatch.setattr(bounded, "GROWN", 2)


def rows_of(keeper: viewkeep.Keeper) -> Counter[str]:
    return Counter(repr(list(row.values())) for row in keeper.query("SELECT * FROM v").to_pylist())


@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("name", [*TOP, *NOT_BOUNDED])
def test_views_are_right_however_tight_the_bound_is(name: str) -> None:
    query, ways = {**TOP, **NOT_BOUNDED}[name], Counter[str]()
    keeper, world = open_keeper("orders", "customers", "tags", "events", seed=3)
    with keeper:
        keeper.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        bounds = keeper.sql("SELECT * FROM duckdb_tables() WHERE table_name = 'bound_v'").num_rows
        assert bounds == (name in TOP)
        keeper.sql("CREATE MATERIALIZED VIEW above AS SELECT COUNT(*) AS n FROM v")
        seen, version = rows_of(keeper), keeper.history("v")[-1].version

        def check(what: str) -> None:
            nonlocal seen, version
            reports = {r.view: r for r in keeper.refresh()}
            ways[reports["v"].strategy] += 1
            assert_view_equals_query(keeper, "v", query, what)
            assert_view_equals_query(keeper, "above", f"SELECT COUNT(*) AS n FROM ({query}) q", what)
            for row in keeper.changes("v", since=version).to_pylist():
                weight = row.pop("_w")
                seen[repr(list(row.values()))] += weight
            seen = Counter({row: copies for row, copies in seen.items() if copies})
            assert seen == rows_of(keeper), what
            version = reports["v"].version

        run_batches(keeper, world, check, BATCHES)
        assert keeper.verify("v").equal
    assert ways["classical"] > 3, ways


def rows_stored(keeper: viewkeep.Keeper) -> int:
    return int(keeper.sql("SELECT COUNT(*) AS n FROM _viewkeep.data_v").to_pylist()[0]["n"])


@pytest.fixture
def keeper(monkeypatch: pytest.MonkeyPatch) -> viewkeep.Keeper:
    monkeypatch.setattr(bounded, "RESERVE", 20)
    keeper = viewkeep.connect("duckdb://")
    keeper.sql("CREATE TABLE t (id INT, v INT); INSERT INTO t SELECT i, i FROM range(1000) r(i)")
    return keeper


QUERY = "SELECT id, v FROM t ORDER BY v DESC, id LIMIT 2"


def test_the_bound_moves_when_it_must(keeper: viewkeep.Keeper) -> None:
    keeper.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
    assert rows_stored(keeper) == 20
    for change, strategy, stored in (
        ("DELETE FROM t WHERE v > 985", "classical", 6),
        ("INSERT INTO t VALUES (0, 7)", "classical", 6),
        ("DELETE FROM t WHERE v > 980", "recompute", 20),
        ("INSERT INTO t SELECT i, i FROM range(2000, 2150) r(i)", "classical", 170),
        ("INSERT INTO t SELECT i, i FROM range(2200, 2300) r(i)", "recompute", 20),
    ):
        keeper.sql(change)
        report = keeper.refresh("v")
        assert (report.strategy, rows_stored(keeper)) == (strategy, stored), f"{change}: {report.reason}"
        assert_view_equals_query(keeper, "v", QUERY, change)


def test_a_short_table_is_stored_whole(keeper: viewkeep.Keeper) -> None:
    keeper.sql("DELETE FROM t WHERE v > 10")
    keeper.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
    for change in (
        "DELETE FROM t WHERE v BETWEEN 2 AND 6",
        "DELETE FROM t WHERE v > 0",
        "INSERT INTO t VALUES (1, NULL)",
    ):
        keeper.sql(change)
        keeper.refresh("v")
        assert_view_equals_query(keeper, "v", QUERY, change)
        assert rows_stored(keeper) == len(keeper.sql("SELECT * FROM t"))


def test_rows_that_are_sorted_alike_do_not_move_the_bound_again_and_again(keeper: viewkeep.Keeper) -> None:
    keeper.sql("UPDATE t SET v = 1")
    keeper.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
    keeper.sql("INSERT INTO t VALUES (5000, 1)")
    assert keeper.refresh("v").strategy == "classical"
    assert rows_stored(keeper) == 1001


@pytest.mark.parametrize("policy", ["incremental", "strict"])
def test_who_wants_no_recompute_stores_all_rows(keeper: viewkeep.Keeper, policy: str) -> None:
    keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = '{policy}') AS {QUERY}")
    keeper.sql("DELETE FROM t WHERE v > 500")
    assert keeper.refresh("v").strategy == "classical"
    assert rows_stored(keeper) == 501
    assert_view_equals_query(keeper, "v", QUERY)


def test_nothing_is_left_of_a_dropped_view(keeper: viewkeep.Keeper) -> None:
    keeper.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY}; DROP MATERIALIZED VIEW v")
    left = keeper.sql("SELECT table_name FROM duckdb_tables() WHERE table_name LIKE '%\\_v' ESCAPE '\\'")
    assert left.num_rows == 0
