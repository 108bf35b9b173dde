"""What cancels out in a change: before the join where the rows' key is that of the changed table, else after it."""

from __future__ import annotations

import pytest

import viewkeep
from support import assert_view_equals_query
from viewkeep.incremental.delta import delta
from viewkeep.incremental.netting import net_units
from viewkeep.incremental.weighted import Context
from viewkeep.plan.nodes import Aggregate, Filter, Fresh, Join, walk
from viewkeep.sql.build import build_query
from viewkeep.sql.schema import read_schema

SCHEMA = """
CREATE TABLE f (id INT PRIMARY KEY, k INT, v INT);
CREATE TABLE d (k INT PRIMARY KEY, name TEXT, kind INT);
"""
STAR = "SELECT f.id, d.name FROM f JOIN d ON f.k = d.k WHERE f.v + d.kind > 0"
COMPUTED = "SELECT f.id + 1 AS id, d.name FROM f JOIN d ON f.k = d.k"
BY_DIMENSION = "SELECT d.k, f.id FROM f JOIN d ON f.k = d.k"
LEFT = "SELECT f.id, d.name FROM f LEFT JOIN d ON f.k = d.k"
SEMI = "SELECT f.id, f.v FROM f WHERE EXISTS (SELECT 1 FROM d WHERE d.k = f.k)"
PLAIN = "SELECT id, v FROM f WHERE v > 0"


@pytest.mark.parametrize(
    ("query", "changed", "key", "below"),
    [
        (STAR, "f", 0, True),
        (STAR, "d", 0, False),  # one change of d may replace many rows
        (STAR, "fd", 0, False),  # two branches
        (COMPUTED, "f", 0, False),  # the column is no key of f any more
        (BY_DIMENSION, "f", 0, False),
        (BY_DIMENSION, "f", 1, True),
        (LEFT, "f", 0, True),
        (SEMI, "f", 0, True),
    ],
)
def test_where_a_change_is_netted(query: str, changed: str, key: int, below: bool) -> None:
    plan = build_query(query, read_schema(SCHEMA, "duckdb"), "duckdb").root
    context = Context(Fresh(1001), frozenset(changed), time_travel=True)
    change = delta(plan, context)
    assert change is not None
    units = net_units(change, (plan.fields[key].id,), context.fresh)
    assert [f.id for f in units.payload] == [f.id for f in plan.fields]
    (netted,) = [n for n in walk(units.node) if isinstance(n, Aggregate)]
    assert any(isinstance(n, Join) for n in walk(netted)) is not below


@pytest.mark.parametrize(("query", "key", "after"), [(STAR, (), Join), (PLAIN, ("id_1",), Filter)])
def test_without_a_key_or_a_join_the_change_itself_is_netted(query: str, key: tuple[str, ...], after: type) -> None:
    plan = build_query(query, read_schema(SCHEMA, "duckdb"), "duckdb").root
    context = Context(Fresh(1001), frozenset("f"))
    change = delta(plan, context)
    assert change is not None
    (netted,) = [n for n in walk(net_units(change, key, context.fresh).node) if isinstance(n, Aggregate)]
    assert any(isinstance(n, after) for n in walk(netted))


@pytest.mark.parametrize("query", [STAR, LEFT, SEMI, "SELECT d.name, f.v FROM f JOIN d ON f.k = d.k"])
def test_changes_that_take_each_other_back(query: str) -> None:
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql(SCHEMA)
        keeper.sql("INSERT INTO d VALUES (1, 'a', 1), (2, 'a', 1), (3, 'b', 1)")
        keeper.sql("INSERT INTO f SELECT i, i % 4, i FROM range(20) t(i)")
        keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'incremental') AS {query}")
        before = keeper.history("v")[-1].version
        for batch in (
            "UPDATE f SET k = 3 - k WHERE k IN (1, 2)",  # the same name as before
            "UPDATE f SET v = v + 1; UPDATE f SET v = v - 1",
            "INSERT INTO f VALUES (30, 1, 1); DELETE FROM f WHERE id = 30",
            "DELETE FROM f WHERE id = 5; INSERT INTO f VALUES (5, 1, 5)",
            "UPDATE f SET id = id + 100 WHERE id < 3; UPDATE f SET k = 3 WHERE id >= 100",
        ):
            keeper.sql(batch)
            keeper.refresh("v")
            assert_view_equals_query(keeper, "v", query, batch)
        changes = keeper.changes("v", since=before).to_pylist()
        rows = [tuple(v for c, v in row.items() if c != "_w") for row in changes]
        assert len(rows) == len(set(rows)), "a row that left and came again is no change"


def test_copies_where_a_declared_key_does_not_hold() -> None:
    query = "SELECT f.id, f.v, d.name FROM f JOIN d ON f.k = d.k"
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql("CREATE TABLE f (id INT, k INT, v INT); CREATE TABLE d (k INT PRIMARY KEY, name TEXT)")
        keeper.sql("INSERT INTO d VALUES (1, 'a'); INSERT INTO f VALUES (1, 1, 1)")
        keeper.declare_key("f", ["id"])
        keeper.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        for batch in (
            "INSERT INTO f VALUES (2, 1, 5), (2, 1, 5), (3, 1, 7)",
            "DELETE FROM f WHERE id = 2 AND rowid = (SELECT MAX(rowid) FROM f WHERE id = 2)",
            "INSERT INTO f VALUES (2, 1, 5), (2, 1, 6)",
            "DELETE FROM f WHERE id = 2",
        ):
            keeper.sql(batch)
            keeper.refresh("v")
            assert_view_equals_query(keeper, "v", query, batch)
