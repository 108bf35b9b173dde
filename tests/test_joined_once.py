"""Tables of a join that did not change: read once where they can be, and right whichever tables changed."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations

import pytest

import viewkeep
from support import assert_view_equals_query
from viewkeep.incremental.delta import delta
from viewkeep.incremental.weighted import Context
from viewkeep.plan.nodes import Fresh, Node, Scan, inputs_of
from viewkeep.sql.build import build_query
from viewkeep.sql.schema import read_schema

SCHEMA = """
CREATE TABLE c (ck INT, name TEXT);
CREATE TABLE o (ok INT, ck INT, day INT);
CREATE TABLE l (ok INT, pk INT, q INT);
CREATE TABLE p (pk INT, kind INT);
"""
CHAIN = "SELECT name, o.ok, q, kind FROM c JOIN o ON c.ck = o.ck JOIN l ON l.ok = o.ok JOIN p ON p.pk = l.pk"
SAME_KEY = "SELECT o.day, l.q, c.name FROM o JOIN l ON o.ok = l.ok JOIN c ON c.ck = o.ok"
BAND = "SELECT o.day, l.q, c.name FROM o JOIN l ON o.day < l.q JOIN c ON c.ck = o.ck AND c.ck = l.pk"
BESIDE = "SELECT o.ok, q, name FROM o JOIN l ON o.ok = l.ok CROSS JOIN c WHERE c.name <> 'b'"
GROUPED = """SELECT o.ok, q, n FROM o JOIN l ON l.ok = o.ok
JOIN (SELECT pk, COUNT(*) AS n FROM p GROUP BY pk) g ON g.pk = o.ck"""


@pytest.mark.parametrize(
    ("query", "changed", "once"),
    [
        (CHAIN, "ol", "cp"),  # both ends hang on one of the two
        (CHAIN, "o", "clp"),  # a single branch: nothing to sum
        (CHAIN, "col", "p"),
        (CHAIN, "lp", "co"),  # c goes first, then o, which held it
        (SAME_KEY, "ol", ""),  # every change tells the key of c
        (CHAIN, "cp", ""),  # o and l hold the two together
        (BAND, "ol", ""),  # an inequality does not hold two tables together
        (BESIDE, "ol", "c"),
        (GROUPED, "ol", "p"),
    ],
)
def test_what_did_not_change_is_read_once(query: str, changed: str, once: str) -> None:
    plan = build_query(query, read_schema(SCHEMA, "duckdb"), "duckdb").root
    change = delta(plan, Context(Fresh(1001), frozenset(changed), time_travel=True))
    assert change is not None
    read = Counter(table for table in _read_by(change.node) if table not in changed)
    assert {table for table, times in read.items() if times == 1} == set(once)


def _read_by(node: Node) -> list[str]:
    """The tables that a plan reads, each as often as it does."""
    if isinstance(node, Scan):
        return [node.table.name]
    return [table for child in inputs_of(node) for table in _read_by(child)]


@pytest.mark.parametrize("query", [CHAIN, SAME_KEY, BAND, BESIDE, GROUPED])
def test_right_whichever_tables_changed(query: str) -> None:
    rng = random.Random(11)

    def row(table: str) -> str:
        values = [rng.choice(["NULL", *map(str, range(5))]) for _ in range(2 if table in "cp" else 3)]
        if table == "c":
            values[1] = rng.choice(["NULL", "'a'", "'b'"])
        return f"({', '.join(values)})"

    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql(SCHEMA)
        for table in "colp":
            keeper.sql(f"INSERT INTO {table} VALUES {', '.join(row(table) for _ in range(12))}")
        keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'incremental') AS {query}")
        for size in (2, 3, 1, 4):
            for tables in combinations("colp", size):
                for table in tables:
                    keeper.sql(f"DELETE FROM {table} WHERE rowid % 3 = {rng.randint(0, 2)}")
                    keeper.sql(f"INSERT INTO {table} VALUES {', '.join(row(table) for _ in range(5))}")
                keeper.refresh("v")
                assert_view_equals_query(keeper, "v", query)
