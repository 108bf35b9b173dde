"""Which changes mean the same to every engine: those in which no value is computed."""

from __future__ import annotations

import pytest

from viewkeep.emit.alike import means_the_same
from viewkeep.incremental.delta import delta
from viewkeep.incremental.weighted import Context, to_units
from viewkeep.plan.nodes import Fresh
from viewkeep.sql.build import build_query
from viewkeep.sql.schema import read_schema

SCHEMA = """
CREATE TABLE f (id INT PRIMARY KEY, k INT, name TEXT, price DECIMAL(9, 2), x DOUBLE);
CREATE TABLE d (k INT PRIMARY KEY, wide BIGINT, name TEXT, year INT);
"""
ALIKE = (
    "SELECT f.id, f.price, d.name FROM f JOIN d ON f.k = d.k",
    "SELECT f.id, d.name FROM f JOIN d ON f.k = d.wide",
    "SELECT f.id, 1 AS one FROM f JOIN d ON f.k = d.k WHERE d.year = 2000 AND 3 < f.k",
    "SELECT id FROM f UNION ALL SELECT k FROM d",
)
WHERE_THE_LEFT_CHANGED = (
    "SELECT f.id, d.name FROM f LEFT JOIN d ON f.k = d.k AND f.name = d.name",
    "SELECT id FROM f WHERE EXISTS (SELECT 1 FROM d WHERE d.k = f.k)",
)
COMPUTED = (
    "SELECT f.id + 1 AS id FROM f",
    "SELECT UPPER(name) AS name FROM f",
    "SELECT id FROM f WHERE price > 1",
    "SELECT id FROM f WHERE name = 'a'",
    "SELECT id FROM f WHERE k + 1 = 3",
    "SELECT id FROM f WHERE 'a' = 'a '",
    "SELECT f.id FROM f JOIN d ON f.k < d.k",
    "SELECT f.id, d.k FROM f CROSS JOIN d",
    "SELECT f.id FROM f JOIN d ON f.name = d.k",
    "SELECT f.id FROM f JOIN d ON f.k = d.k + 1",
    "SELECT k, SUM(price) AS total FROM f GROUP BY k",
    "SELECT 1.5 AS half, id FROM f",
    "SELECT id, ROW_NUMBER() OVER (PARTITION BY k ORDER BY id) AS n FROM f",
)


@pytest.mark.parametrize("query", [*ALIKE, *WHERE_THE_LEFT_CHANGED, *COMPUTED])
def test_only_what_is_matched_and_passed_on_is_alike(query: str) -> None:
    plan = build_query(query, read_schema(SCHEMA, "spark"), "spark").root
    for changed in ("f", "d", "fd"):
        context = Context(Fresh(1001), frozenset(changed), time_travel=True)
        change = delta(plan, context)
        if change is not None:
            alike = query in ALIKE or (query in WHERE_THE_LEFT_CHANGED and changed == "f")
            assert means_the_same(to_units(change, context.fresh).node) is alike, changed
