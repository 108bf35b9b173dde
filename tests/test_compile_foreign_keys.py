"""The compiled program with foreign keys, run as plain SQL: it decides by itself, and is right either way."""

from __future__ import annotations

import duckdb
import pytest

import viewkeep
from viewkeep.errors import SqlError

TABLES = """
CREATE TABLE days (day INT, quarter INT);
CREATE TABLE places (place INT, city TEXT);
CREATE TABLE customers (customer INT, name TEXT, place INT);
CREATE TABLE sales (sale INT, customer INT, day INT, amount INT);
CREATE TABLE returns (back INT, sale INT, day INT);
"""
KEYS = """
ALTER TABLE customers ADD FOREIGN KEY (place) REFERENCES places (place) {0};
ALTER TABLE sales ADD FOREIGN KEY (customer) REFERENCES customers (customer) {0};
ALTER TABLE sales ADD FOREIGN KEY (day) REFERENCES days (day) {0};
ALTER TABLE returns ADD FOREIGN KEY (sale) REFERENCES sales (sale) {0};
ALTER TABLE returns ADD FOREIGN KEY (day) REFERENCES days (day) {0};
"""
VIEWS = {
    "snowflake": """SELECT s.sale, c.name, p.city, d.quarter, s.amount FROM sales s
        JOIN customers c ON s.customer = c.customer JOIN places p ON c.place = p.place JOIN days d ON s.day = d.day""",
    "sums": """SELECT p.city, d.quarter, SUM(s.amount) AS total, COUNT(*) AS n FROM sales s
        JOIN customers c ON s.customer = c.customer JOIN places p ON c.place = p.place
        JOIN days d ON s.day = d.day WHERE s.amount > 1 GROUP BY p.city, d.quarter""",
    "extremes": """SELECT p.city, MAX(s.amount) AS most FROM sales s JOIN customers c ON s.customer = c.customer
        JOIN places p ON c.place = p.place GROUP BY p.city""",
    "arbitrary": """SELECT r.back, s.sale, o.sale AS other, d.quarter FROM returns r JOIN sales s ON r.sale = s.sale
        JOIN days d ON r.day = d.day JOIN sales o ON o.day = d.day JOIN customers c ON o.customer = c.customer""",
}
BASE = """
INSERT INTO days VALUES (1, 1), (2, 1), (3, 2);
INSERT INTO places VALUES (1, 'Rome'), (2, 'Bern');
INSERT INTO customers VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 1);
INSERT INTO sales VALUES (1, 1, 1, 5), (2, 2, 1, 7), (3, 3, 2, 9), (4, 1, 3, 1), (5, NULL, 1, 8);
INSERT INTO returns VALUES (1, 1, 2), (2, 2, 2), (3, 4, 1);
"""
BATCHES = [
    ("INSERT INTO sales VALUES (6, 1, 2, 4); DELETE FROM returns WHERE back = 3", True),
    ("INSERT INTO days VALUES (4, 2); INSERT INTO customers VALUES (4, 'd', 1); INSERT INTO sales VALUES (7, 4, 4, 3);"
     "INSERT INTO returns VALUES (4, 7, 4)", True),
    ("DELETE FROM returns WHERE sale = 7; DELETE FROM sales WHERE sale = 7; DELETE FROM customers WHERE customer = 4;"
     "DELETE FROM days WHERE day = 4", True),
    ("UPDATE places SET city = 'Roma' WHERE place = 1; INSERT INTO sales VALUES (8, 2, 2, 6)", False),
    ("DELETE FROM places WHERE place = 2", False),  # customers stay that point at it
    ("INSERT INTO sales VALUES (9, 9, 2, 6)", True),  # nobody yet
    ("INSERT INTO customers VALUES (9, 'late', 1)", False),
    ("INSERT INTO places VALUES (1, 'twice')", False),
    ("DELETE FROM days; DELETE FROM sales", False),
    (BASE, None),
]  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
def test_the_program_keeps_the_view_whether_it_relies_on_keys_or_not(view: str) -> None:
    query, decided = VIEWS[view], set()
    program = viewkeep.compile(
        TABLES + KEYS.format("NOT ENFORCED"), f"CREATE MATERIALIZED VIEW v AS {query}", "duckdb", "foreign-key"
    )
    once = [s for s in program if s.startswith(("-- setup", "-- capture"))]
    refresh = [s for s in program if s.startswith("-- refresh")]
    with duckdb.connect() as plain:
        for statement in [TABLES, BASE, *once]:
            plain.execute(statement)
        for batch, relied in BATCHES:
            plain.execute(batch)
            for statement in refresh:
                plain.execute(statement)
            doubts = plain.execute("FROM _vk_guard_v").fetchall()
            decided.add(not doubts)
            if relied:
                assert not doubts, batch
            wrong = f"(({query}) EXCEPT ALL (FROM v)) UNION ALL ((FROM v) EXCEPT ALL ({query}))"
            assert plain.execute(wrong).fetchall() == [], batch
        assert decided == {True, False}


def test_of_enforced_keys_only_the_changes_are_looked_at() -> None:
    for words, scans in (("ENFORCED", 0), ("NOT ENFORCED", 1)):
        program = viewkeep.compile(TABLES + KEYS.format(words), VIEWS["snowflake"], "duckdb", "foreign-key")
        (guard,) = [s for s in program if "must not be relied on" in s]
        assert ('FROM "sales"' in guard) == bool(scans)


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "spark"])
def test_both_ways_are_in_one_program(dialect: str) -> None:
    schema = TABLES + KEYS.format("NOT ENFORCED")
    made = f"CREATE MATERIALIZED VIEW v WITH (strategy = 'foreign-key') AS {VIEWS['snowflake']}"
    program = "\n".join(viewkeep.compile(schema, made, dialect))
    assert "sales(customer) → customers(customer)" in program or dialect == "spark"
    assert "doubts" in program
    assert program.count("EXISTS(") >= 2
    assert program != "\n".join(viewkeep.compile(schema, made, dialect, strategy="classical"))


def test_a_strategy_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(SqlError, match="follows a foreign key"):
        viewkeep.compile(TABLES, VIEWS["sums"], "duckdb", "foreign-key")
    with pytest.raises(SqlError, match="cannot be compiled with strategy 'recompute'"):
        viewkeep.compile(TABLES, VIEWS["sums"], "duckdb", "recompute")
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql(TABLES + KEYS.format("RELY") + f"CREATE MATERIALIZED VIEW v AS {VIEWS['sums']}")
        assert keeper.compile("v", strategy="foreign-key") != keeper.compile("v")
