"""Compile: SQL in, maintenance program out, for a join of six tables, with no engine running."""

from __future__ import annotations

import viewkeep
from bench.measure import median, seconds
from bench.tables import COUNT, MS, Column, Result, Table, verdict

TARGET = 0.050

SCHEMA = """
CREATE TABLE region (r_key INT, r_name VARCHAR);
CREATE TABLE nation (n_key INT, n_region INT, n_name VARCHAR);
CREATE TABLE customer (c_key INT, c_nation INT, c_segment VARCHAR);
CREATE TABLE orders (o_key INT, o_customer INT, o_day DATE);
CREATE TABLE lineitem (l_order INT, l_part INT, l_price DECIMAL(12, 2), l_discount DECIMAL(4, 2));
CREATE TABLE part (p_key INT, p_brand VARCHAR);
"""
_FROM = """
FROM region
JOIN nation ON n_region = r_key
JOIN customer ON c_nation = n_key
JOIN orders ON o_customer = c_key
JOIN lineitem ON l_order = o_key
JOIN part ON p_key = l_part
WHERE c_segment = 'BUILDING'
"""
VIEWS = {
    "rows": f"CREATE MATERIALIZED VIEW sold AS SELECT r_name, n_name, o_day, p_brand, l_price {_FROM}",
    "sums": "CREATE MATERIALIZED VIEW revenue AS SELECT r_name, p_brand, SUM(l_price * (1 - l_discount)) AS revenue, "
    f"COUNT(*) AS items {_FROM} GROUP BY r_name, p_brand",
}


def compiling(quick: bool = False) -> Result:
    rounds = 2 if quick else 15
    table = Table(
        f"viewkeep.compile of a six-way join, median of {rounds} after one warm-up",
        (
            Column("view of"),
            Column("statements", COUNT),
            Column("compile ms", MS),
            Column("slowest ms", MS),
            Column("target < ms", MS),
            Column("verdict"),
        ),
    )
    for kind, view in VIEWS.items():
        program = viewkeep.compile(SCHEMA, view)  # the warm-up: imports and caches of the parser
        spent = [seconds(lambda view=view: viewkeep.compile(SCHEMA, view)) for _ in range(rounds)]
        middle = median(spent)
        table.add(kind, len(program), middle, max(spent), TARGET, verdict(middle, TARGET, quick))
    return Result("compile", "the time from SQL text to a maintenance program", [table])
