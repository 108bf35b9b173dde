"""Every type as a value, a key, a partition and a payload; names, types and rows are those of the query."""
# ruff: noqa: E501 (a query is one line)

from __future__ import annotations

import random

import pytest

import viewkeep
from support import assert_view_equals_query

COLUMNS = {
    "k INT": ("1", "2", "3", "NULL"),
    "d4 DECIMAL(4, 1)": ("1.5", "-2.5", "NULL"),
    "d18 DECIMAL(18, 6)": ("0.000001", "123456.5", "NULL"),
    "d38 DECIMAL(38, 10)": ("1234567890123456789012345678.0123456789", "-1", "NULL"),
    "f DOUBLE": ("'NaN'", "'Infinity'", "'-Infinity'", "'-0.0'", "0.0", "1e300", "0.1", "NULL"),
    "fl FLOAT": ("'NaN'", "1.5", "-0.0", "NULL"),
    "da DATE": ("DATE '2024-02-29'", "DATE '0001-01-01'", "NULL"),
    "ts TIMESTAMP": ("TIMESTAMP '2024-02-29 23:59:59.999999'", "TIMESTAMP '1969-12-31'", "NULL"),
    "tz TIMESTAMPTZ": ("TIMESTAMPTZ '2024-03-31 01:30:00+01'", "TIMESTAMPTZ '2024-03-31 03:30:00+02'", "NULL"),
    "iv INTERVAL": ("INTERVAL 1 MONTH", "INTERVAL 3 DAY", "INTERVAL '1 day 02:00:00'", "NULL"),
    "b BOOLEAN": ("TRUE", "FALSE", "NULL"),
    "bl BLOB": (r"'\x00\xFF'::BLOB", "''::BLOB", "NULL"),
    "s STRUCT(a INT, b TEXT)": ("{'a': 1, 'b': 'x'}", "{'a': NULL, 'b': ''}", "NULL"),
    "l INT[]": ("[1, 2]", "[]", "[NULL]", "NULL"),
    "m MAP(TEXT, INT)": ("MAP {'a': 1}", "MAP {}", "NULL"),
    "t TEXT": ("''", "'ä'", "'a'", "' '", "NULL"),
    "h HUGEINT": ("170141183460469231731687303715884105727", "-5", "NULL"),
    "u UBIGINT": ("18446744073709551615", "0", "NULL"),
    "ti TINYINT": ("127", "-128", "NULL"),
    "tm TIME": ("TIME '23:59:59'", "NULL"),
    "id UUID": ("'00000000-0000-0000-0000-000000000001'::UUID", "NULL"),
}
VIEWS = (
    "SELECT * FROM r",
    "SELECT * FROM r EXCEPT ALL SELECT * FROM r WHERE k = 1",
    "SELECT DISTINCT * FROM r",
    "SELECT k, SUM(d4) AS a, SUM(d18) AS b, AVG(d4) AS c, MIN(d38) AS d, MAX(d38) AS e, SUM(ti) AS f, SUM(b::INT) AS g, MAX(u) AS h FROM r GROUP BY k",
    "SELECT k, MIN(f) AS a, MAX(f) AS b, SUM(f) AS c, AVG(fl) AS d, COUNT(DISTINCT f) AS e FROM r GROUP BY k",
    "SELECT k, AVG(d18) AS a, AVG(ti) AS b, STDDEV(d4) AS c FROM r GROUP BY k",
    "SELECT f, COUNT(*) AS n FROM r GROUP BY f",
    "SELECT iv, COUNT(*) AS n, MAX(tz) AS m FROM r GROUP BY iv",
    "SELECT s, l, m, COUNT(*) AS n FROM r GROUP BY s, l, m",
    "SELECT k, MIN(bl) AS a, MAX(t) AS b, MIN(da) AS c, MAX(ts) AS d, MIN(tm) AS e, MAX(id) AS f, MIN(s) AS g, MAX(l) AS h, MIN(iv) AS i FROM r GROUP BY k",
    "SELECT k, s, l, m, ROW_NUMBER() OVER (PARTITION BY k ORDER BY t, d4, d18, d38, f, fl, da, ts, tz, iv, b, bl, s, l, m, h, u, ti, tm, id) AS n FROM r",
    "SELECT k, SUM(d38) OVER (PARTITION BY k) AS a, SUM(f) OVER (PARTITION BY k ORDER BY d4) AS b, MAX(m) OVER (PARTITION BY k) AS c FROM r",
    "SELECT f, COUNT(*) OVER (PARTITION BY f) AS n, COUNT(*) OVER (PARTITION BY iv, s) AS i FROM r",
    "SELECT t, LENGTH(t) AS n, t || '!' AS x FROM r WHERE t <> 'b'",
    "SELECT t, COUNT(*) AS n FROM r GROUP BY t",
    "SELECT a.k, b.f FROM r a JOIN r b ON a.f = b.f AND a.t = b.t",
    "SELECT iv, SUM(n) AS s FROM (SELECT iv, t, COUNT(*) AS n FROM r GROUP BY iv, t) q GROUP BY iv",
    "SELECT f FROM r INTERSECT SELECT fl FROM r",
    "SELECT d4 FROM r UNION SELECT d18 FROM r",
    "SELECT tz, d38, SUM(d18) AS s, AVG(d4) AS a FROM r GROUP BY ROLLUP (tz, d38)",
)


def rows(rng: random.Random, count: int) -> str:
    cells = [f"({', '.join(rng.choice(values) for values in COLUMNS.values())})" for _ in range(count)]
    return f"INSERT INTO r VALUES {', '.join(cells)}"


@pytest.mark.parametrize("query", VIEWS)
def test_types_are_those_of_the_query(query: str) -> None:
    rng = random.Random(3)
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql(f"CREATE TABLE r ({', '.join(COLUMNS)}); {rows(rng, 25)}")
        keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'incremental') AS {query}")
        assert_view_equals_query(keeper, "v", query, "created")
        for batch in range(5):
            keeper.sql(f"DELETE FROM r WHERE rowid IN (SELECT rowid FROM r ORDER BY hash(rowid + {batch}) LIMIT 5)")
            keeper.sql(rows(rng, 4))
            keeper.sql(f"UPDATE r SET k = 2, f = 'NaN' WHERE ti = 127 AND k = {rng.randint(1, 3)}")
            report = keeper.refresh("v")
            assert report.strategy == "classical", report
            assert_view_equals_query(keeper, "v", query, f"batch {batch}")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, a * 1000 AS p FROM r",
        "SELECT k, SUM(b) AS s FROM r GROUP BY k",
        "SELECT k, SUM(a * 1000) OVER (PARTITION BY k) AS s FROM r",
        "SELECT k, a * 1000 AS p FROM r EXCEPT ALL SELECT k, a FROM r",
        "SELECT SUM(m) AS n FROM (SELECT k, MAX(a * 1000) AS m FROM r GROUP BY k) q",
    ],
)
def test_an_overflow_raises_and_changes_nothing(query: str) -> None:
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql("CREATE TABLE r (k INT, a INT, b HUGEINT); INSERT INTO r VALUES (1, 1, 1), (2, 5, 7)")
        keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'incremental') AS {query}")
        before = keeper.query("SELECT * FROM v").to_pylist()
        largest = 2**127 - 1
        keeper.sql(f"INSERT INTO r VALUES (1, 2147483647, {largest})")
        with pytest.raises(viewkeep.ViewkeepError, match=r"[Oo]verflow"):
            keeper.refresh("v")
        assert keeper.query("SELECT * FROM v").to_pylist() == before
        keeper.sql("DELETE FROM r WHERE a = 2147483647")
        keeper.refresh("v")
        assert_view_equals_query(keeper, "v", query)


UNDER_A_COLLATION = (
    "SELECT COUNT(*) AS n, SUM(x) AS s FROM c GROUP BY g",
    "SELECT COUNT(*) AS n FROM (SELECT DISTINCT g FROM c) d",
    "SELECT c.x, t.x AS y FROM c JOIN t ON c.g = t.g",
    "SELECT c.x, t.x AS y FROM t LEFT JOIN c ON c.g = t.g",
    "SELECT COUNT(*) AS n FROM c WHERE g = 'A'",
    "SELECT x FROM c WHERE g IN (SELECT g FROM t)",
    "SELECT x, RANK() OVER (PARTITION BY g ORDER BY x) AS n FROM c",
    "SELECT COUNT(*) AS n FROM t GROUP BY g COLLATE NOCASE",
)


@pytest.mark.parametrize("query", UNDER_A_COLLATION)
def test_texts_that_a_collation_makes_equal(query: str) -> None:
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql("CREATE TABLE c (g VARCHAR COLLATE NOCASE, x INT); CREATE TABLE t (g VARCHAR, x INT)")
        keeper.sql("INSERT INTO c VALUES ('a', 1), ('A', 2), ('b', 3); INSERT INTO t SELECT * FROM c")
        keeper.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        keeper.sql("CREATE MATERIALIZED VIEW w WITH (policy = 'strict') AS SELECT c.x FROM c JOIN t USING (x)")
        for change in (
            "INSERT INTO c VALUES ('A', 10), ('B', 20), ('', 5); INSERT INTO t VALUES ('B', 6)",
            "DELETE FROM c WHERE x = 1; UPDATE t SET g = 'A' WHERE x = 3",
            "UPDATE c SET g = UPPER(g); INSERT INTO c VALUES (NULL, 1); INSERT INTO t VALUES ('C', 6)",
            "DELETE FROM t WHERE g = 'a'; DELETE FROM c WHERE g = 'a'",
        ):
            keeper.sql(change)
            report, _ = keeper.refresh()
            assert (report.strategy, "equal that are stored differently" in report.reason) == ("recompute", True)
            assert_view_equals_query(keeper, "v", query, change)
