"""What a dialect cannot say, in words that it has: the texts, and the rows that they give."""
# ruff: noqa: E501 (a query is one line)

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal

import pytest

import viewkeep
from support import Engine
from viewkeep.errors import ViewkeepError
from viewkeep.sql.rewording import to_dialect

TEXTS = [
    (
        "ties",
        "postgres",
        "SELECT a FROM t ORDER BY b DESC FETCH FIRST 3 ROWS WITH TIES",
        "duckdb",
        "SELECT a FROM t QUALIFY RANK() OVER (ORDER BY b DESC NULLS FIRST) <= 3 ORDER BY b DESC NULLS FIRST",
    ),
    (
        "ties behind an offset, an alias, a number",
        "duckdb",
        "SELECT a, b + 1 AS z FROM t ORDER BY z, 1 OFFSET 2 ROWS FETCH NEXT 3 ROWS WITH TIES",
        "duckdb",
        "SELECT a, b + 1 AS z FROM t QUALIFY RANK() OVER (ORDER BY b + 1, a) <= 5 AND ROW_NUMBER() OVER (ORDER BY b + 1, a) > 2 ORDER BY z, 1",
    ),
    (
        "ties of a union",
        "duckdb",
        "WITH c AS (SELECT 1 AS a) SELECT a FROM c UNION SELECT b FROM u ORDER BY 1 FETCH FIRST 3 ROWS WITH TIES",
        "duckdb",
        "WITH c AS (SELECT 1 AS a) SELECT * FROM (SELECT a FROM c UNION SELECT b FROM u) AS cut QUALIFY RANK() OVER (ORDER BY a) <= 3 ORDER BY 1",
    ),
    (
        "ties of distinct rows, in a subquery",
        "duckdb",
        "SELECT k FROM u WHERE a IN (SELECT DISTINCT a FROM t ORDER BY a FETCH FIRST 2 ROWS WITH TIES)",
        "duckdb",
        "SELECT k FROM u WHERE a IN (SELECT * FROM (SELECT DISTINCT a FROM t) AS cut QUALIFY RANK() OVER (ORDER BY a) <= 2 ORDER BY a)",
    ),
    (
        "qualify with a star and a limit",
        "duckdb",
        "SELECT * FROM t QUALIFY RANK() OVER w = 1 WINDOW w AS (PARTITION BY k ORDER BY b DESC NULLS LAST) ORDER BY a + 1 DESC NULLS LAST, 2 DESC NULLS LAST LIMIT 2",
        "spark",
        "SELECT * EXCEPT (_vk_kept, _vk_by_0) FROM (SELECT *, RANK() OVER w = 1 AS _vk_kept, a + 1 AS _vk_by_0 FROM t WINDOW w AS (PARTITION BY k ORDER BY b DESC)) AS kept WHERE _vk_kept ORDER BY _vk_by_0 DESC, 2 DESC LIMIT 2",
    ),
    (
        "qualify by the name of a window",
        "duckdb",
        "WITH c AS (SELECT 1 AS a) SELECT DISTINCT a + 1 AS z, COUNT(*) OVER () AS n FROM c QUALIFY n > 1 ORDER BY a + 1 DESC NULLS LAST",
        "spark",
        "WITH c AS (SELECT 1 AS a) SELECT DISTINCT * EXCEPT (_vk_kept) FROM (SELECT a + 1 AS z, COUNT(*) OVER () AS n, (COUNT(*) OVER ()) > 1 AS _vk_kept FROM c) AS kept WHERE _vk_kept ORDER BY z DESC",
    ),
    (
        "the first of each, cut afterwards",
        "duckdb",
        "SELECT DISTINCT ON (k) * FROM t ORDER BY k DESC NULLS LAST LIMIT 2",
        "spark",
        "SELECT * EXCEPT (_vk_kept, _vk_by_0) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY k DESC) = 1 AS _vk_kept, k AS _vk_by_0 FROM t) AS kept WHERE _vk_kept ORDER BY _vk_by_0 DESC LIMIT 2",
    ),
    (
        "grouping of several",
        "duckdb",
        "SELECT GROUPING(a, b, c) AS g FROM t GROUP BY GROUPING SETS ((a, b), (b, c))",
        "spark",
        "SELECT (CAST(GROUPING(a) AS BIGINT) * 4 + CAST(GROUPING(b) AS BIGINT) * 2 + CAST(GROUPING(c) AS BIGINT)) AS g FROM t GROUP BY GROUPING SETS ((a, b), (b, c))",
    ),
    (
        "quantiles and lists",
        "duckdb",
        "SELECT QUANTILE_CONT(a, 0.25) AS q, ARRAY_AGG(a ORDER BY b NULLS LAST) AS l FROM t",
        "spark",
        "SELECT PERCENTILE(a, 0.25) AS q, CASE WHEN COUNT(*) > 0 THEN TRANSFORM(SORT_ARRAY(COLLECT_LIST(NAMED_STRUCT('absent_0', (b) IS NULL, 'by_0', b, 'value', a)), TRUE), row -> row.value) END AS l FROM t",
    ),
    (
        "the empty set of no rows",
        "duckdb",
        "SELECT a, COUNT(*) AS n FROM t WHERE b > 1 GROUP BY ROLLUP (a) HAVING COUNT(b) < 9 ORDER BY COUNT(*) DESC NULLS LAST LIMIT 2",
        "spark",
        "SELECT * FROM (SELECT a, COUNT(*) AS n FROM t WHERE b > 1 GROUP BY ROLLUP (a) HAVING COUNT(b) < 9 UNION ALL SELECT NULL AS a, COUNT(*) AS n FROM t WHERE b > 1 HAVING COUNT(b) < 9 AND COUNT(*) = 0) AS grouped ORDER BY n DESC LIMIT 2",
    ),
    (
        "the first by what is not shown",
        "duckdb",
        "SELECT (SELECT a FROM t WHERE t.k = u.k ORDER BY b DESC NULLS LAST, a NULLS FIRST LIMIT 1) AS x FROM u ORDER BY u.k NULLS FIRST LIMIT 2",
        "spark",
        "SELECT (SELECT * EXCEPT (_vk_by_0) FROM (SELECT a, b AS _vk_by_0 FROM t WHERE t.k = u.k ORDER BY _vk_by_0 DESC, a LIMIT 1) AS cut) AS x FROM u ORDER BY u.k LIMIT 2",
    ),
    (
        "any and all, asked and as values",
        "duckdb",
        "SELECT a > ANY (SELECT b FROM u) AS p FROM t WHERE (b <= ALL (SELECT k FROM u WHERE u.a = t.a)) AND a = ANY (SELECT 1)",
        "spark",
        "SELECT (CASE WHEN EXISTS(SELECT 1 FROM (SELECT b FROM u) AS _vk_rows(_vk_value) WHERE a > _vk_rows._vk_value) THEN TRUE WHEN EXISTS(SELECT 1 FROM (SELECT b FROM u) AS _vk_rows(_vk_value) WHERE (a > _vk_rows._vk_value) IS NULL) THEN NULL ELSE FALSE END) AS p FROM t WHERE (NOT EXISTS(SELECT 1 FROM (SELECT k FROM u WHERE u.a = t.a) AS _vk_rows(_vk_value) WHERE NOT COALESCE(b <= _vk_rows._vk_value, FALSE))) AND EXISTS(SELECT 1 FROM (SELECT 1) AS _vk_rows(_vk_value) WHERE a = _vk_rows._vk_value)",
    ),
    (
        "functions with another value",
        "duckdb",
        "SELECT ARG_MIN(a, b) FILTER (WHERE k > 1) AS m, COUNT_IF(a > 1) AS n, CONCAT(a, '-', b + 1) AS c, LOG(2, a) AS l FROM t GROUP BY DATE_DIFF('month', DATE_ADD(d, INTERVAL 1 DAY), e), ISODOW(d)",
        "spark",
        "SELECT MIN_BY(a, CASE WHEN NOT a IS NULL THEN b END) FILTER(WHERE k > 1) AS m, SUM(CAST(a > 1 AS INT)) AS n, CONCAT(COALESCE(a || '', ''), '-', COALESCE((b + 1) || '', '')) AS c, LOG(2, a) AS l FROM t GROUP BY DATEDIFF(MONTH, DATE_TRUNC('MONTH', (d + INTERVAL '1' DAY)), DATE_TRUNC('MONTH', e)), (WEEKDAY(d) + 1)",
    ),
    (
        "the same words, of Spark",
        "spark",
        "SELECT MIN_BY(a, b) AS m, COUNT_IF(a > 1) AS n, LOG(a) AS l, DAYOFWEEK(d) AS w FROM t",
        "spark",
        "SELECT MIN_BY(a, b) AS m, COUNT_IF(a > 1) AS n, LOG(a) AS l, DAYOFWEEK(d) AS w FROM t",
    ),
    ("nothing to do", "duckdb", "select A  from t -- with ties", "duckdb", "SELECT A FROM t /* with ties */"),
    ("left to the letter", "duckdb", "select A  from t", "duckdb", "select A  from t"),
]


@pytest.mark.parametrize(("written", "text", "wanted", "reworded"), [t[1:] for t in TEXTS], ids=[t[0] for t in TEXTS])
def test_texts(written: str, text: str, wanted: str, reworded: str) -> None:
    assert to_dialect(text, written, wanted) == reworded


@pytest.mark.parametrize(
    ("text", "wanted", "word"),
    [
        ("SELECT a FROM t FETCH FIRST 3 ROWS WITH TIES", "duckdb", "WITH TIES needs ORDER BY"),
        ("SELECT * FROM t ORDER BY 2 FETCH FIRST 3 ROWS WITH TIES", "duckdb", "by its number"),
        ("SELECT FIRST(a ORDER BY b) FROM t", "spark", "ORDER BY inside FIRST"),
        ("SELECT k FROM t GROUP BY k HAVING MAX(a) > ANY (SELECT b FROM u)", "spark", "ANY and ALL over an aggregate"),
        ("SELECT DISTINCT ON (k) k FROM t QUALIFY COUNT(*) OVER () > 1 ORDER BY k", "spark", "DISTINCT ON"),
    ],
)
def test_what_cannot_be_reworded_is_said(text: str, wanted: str, word: str) -> None:
    with pytest.raises(ViewkeepError, match=word):
        to_dialect(text, "duckdb", wanted)


# ---------------------------------------------------------------------- the rows
VIEWS = {
    "ties": (
        "SELECT a, b FROM r ORDER BY b DESC NULLS LAST FETCH FIRST 5 ROWS WITH TIES",
        "SELECT a, b FROM (SELECT a, b, RANK() OVER (ORDER BY b DESC NULLS LAST) AS n FROM r) WHERE n <= 5",
    ),
    "ties of groups": (
        "SELECT k, COUNT(*) AS n FROM r GROUP BY k ORDER BY n DESC FETCH FIRST 1 ROW WITH TIES",
        "SELECT k, n FROM (SELECT k, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS p FROM r GROUP BY k) WHERE p <= 1",
    ),
    "ties inside": (
        "SELECT k, SUM(b) AS s FROM (SELECT k, b FROM r ORDER BY b NULLS LAST FETCH FIRST 6 ROWS WITH TIES) t GROUP BY k",
        "SELECT k, SUM(b) AS s FROM (SELECT k, b, RANK() OVER (ORDER BY b NULLS LAST) AS n FROM r) WHERE n <= 6 GROUP BY k",
    ),
    "best of all columns": ("SELECT * FROM r QUALIFY RANK() OVER (PARTITION BY k ORDER BY b DESC NULLS LAST, a) = 1",) * 2,
    "best, cut": (
        "SELECT k, a FROM r QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY b DESC NULLS LAST, a) = 1 ORDER BY a DESC LIMIT 2",
    )
    * 2,
    "lists": ("SELECT k, ARRAY_AGG(a ORDER BY b DESC NULLS LAST, a DESC NULLS LAST) AS l, QUANTILE_CONT(a, 0.3) AS q, QUANTILE_DISC(a, 0.7) AS d FROM r GROUP BY k",) * 2,
    "sums of sets": ("SELECT n, COUNT(*) AS c FROM (SELECT k, COUNT(*) AS n, MAX(b) AS m FROM r WHERE b > 1 GROUP BY ROLLUP (k) HAVING COUNT(*) < 50) t GROUP BY n",) * 2,
    "list of all": ("SELECT ARRAY_AGG(a ORDER BY a) FILTER (WHERE b > 1) AS l, COUNT(*) AS n FROM r",) * 2,
    "any and all": ("SELECT a, b > ANY (SELECT x.b FROM r x WHERE x.k = r.k) AS p, k <= ALL (SELECT b FROM r WHERE a > 4) AS q FROM r",) * 2,
    "any and all asked": ("SELECT a FROM r WHERE b >= ANY (SELECT k FROM r) AND (k <> ALL (SELECT b FROM r WHERE b > 2))",) * 2,
    "not all, or any": ("SELECT a FROM r WHERE NOT b < ALL (SELECT k FROM r WHERE k > 1) OR k = ANY (SELECT b - 2 FROM r)",) * 2,
    "sets": ("SELECT k, b, GROUPING(k, b) AS g, COUNT(*) AS n FROM r GROUP BY CUBE (k, b)",) * 2,
    "aggregates that pass over NULL": ("SELECT k, MIN_BY(b, a) AS x, ARG_MAX(b, a) FILTER (WHERE a % 3 > 0) AS y, COUNT_IF(b > 2) AS n FROM r GROUP BY k",) * 2,
    "functions": ("SELECT a, CONCAT('n', b, k) AS t, LOG(a + 1) AS l, ISNAN(b) AS q, DAYNAME(d) AS dn, MONTHNAME(d) AS mn, WEEK(d) AS w, ISODOW(d) AS i, EXTRACT(DOW FROM d) AS o, DATE_DIFF('month', DATE '2019-12-31', d) AS m, DATE_DIFF('week', DATE '2019-12-31', d) AS ww FROM (SELECT *, DATE '2020-01-01' + 3 * a AS d FROM r) t",) * 2,
    "first of each, cut": ("SELECT DISTINCT ON (k) k, a FROM r ORDER BY k DESC NULLS LAST, b DESC NULLS LAST, a LIMIT 2",) * 2,
}  # fmt: skip


def rows(rng: random.Random, count: int, start: int) -> str:
    cells = [
        f"({start + i}, {rng.choice([1, 2, 3, 'NULL'])}, {rng.choice([1, 2, 3, 4, 'NULL'])})" for i in range(count)
    ]
    return f"INSERT INTO r VALUES {', '.join(cells)}"


def follow(keeper: viewkeep.Keeper, seed: int) -> None:
    """DuckDB, which the views are written for, says beside the keeper what their rows are."""
    rng = random.Random(seed)
    beside = viewkeep.connect("duckdb://")
    both = (keeper, beside)

    def run(text: str) -> None:
        for one in both:
            one.sql(text, dialect="duckdb")

    run("CREATE TABLE r (a INT, k INT, b INT)")
    run(rows(rng, 30, 0))
    for number, (query, _) in enumerate(VIEWS.values()):
        keeper.sql(f"CREATE MATERIALIZED VIEW v{number} WITH (policy = 'incremental') AS {query}", dialect="duckdb")
    for batch in range(5):
        run("DELETE FROM r" if batch == 3 else f"DELETE FROM r WHERE a % 4 = {batch} AND b IS NOT NULL")
        if batch != 3:
            run(rows(rng, 5 - batch, 100 * (batch + 1)))
        run(f"UPDATE r SET b = b + 1 WHERE k = {rng.randint(1, 3)}")
        for report, (name, (_, plain)) in zip(keeper.refresh(), VIEWS.items(), strict=True):
            assert report.strategy in ("classical", "unchanged"), report
            found, wanted = keeper.query(f"SELECT * FROM {report.view}"), beside.query(plain)
            assert bag(found.to_pylist()) == bag(wanted.to_pylist()), (name, batch)
            assert keeper.verify(report.view).equal, (name, batch)
    beside.close()


def bag(found: list[dict[str, object]]) -> Counter[str]:
    """Numbers by their value: a sum of integers is wider in DuckDB."""

    def told(value: object) -> object:
        return round(float(value), 9) if isinstance(value, int | float | Decimal) else value

    return Counter(repr([told(v) for v in row.values()]) for row in found)


@pytest.mark.parametrize("seed", range(5))
def test_rows_on_duckdb(seed: int) -> None:
    with viewkeep.connect("duckdb://") as keeper:
        follow(keeper, seed)


@pytest.mark.spark
def test_rows_on_spark(spark: Engine) -> None:
    with spark.connect() as keeper:
        follow(keeper, 0)


@pytest.mark.spark
def test_a_query_of_spark_keeps_its_qualify(spark: Engine) -> None:
    """Not only what is translated is written anew: names of tables are replaced in every query."""
    query = "SELECT * FROM r QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY a) = 1 ORDER BY a DESC LIMIT 1"
    with spark.connect() as keeper:
        keeper.sql("CREATE TABLE r (a INT, k INT); INSERT INTO r VALUES (1, 1), (2, 1), (3, 2)")
        assert keeper.query(query).to_pylist() == [{"a": 3, "k": 2}]
        keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'incremental') AS {query}")
        keeper.sql("INSERT INTO r VALUES (0, 2), (5, 3)")
        assert keeper.refresh("v").strategy == "classical"
        assert keeper.query("SELECT * FROM v").to_pylist() == [{"a": 5, "k": 3}]
        assert keeper.verify("v").equal


@pytest.mark.spark
def test_a_recomputed_view_of_spark_keeps_its_words(spark: Engine) -> None:
    query = "SELECT a AS x, 'it''s' AS t FROM r LATERAL VIEW POSEXPLODE(ARRAY(7)) AS p, v QUALIFY RANK() OVER (ORDER BY a) = 1"
    with spark.connect() as keeper:
        keeper.sql("CREATE TABLE r (a INT, k INT); INSERT INTO r VALUES (1, 1), (2, 1)")
        keeper.sql(f"CREATE MATERIALIZED VIEW v AS {query}", dialect="spark")
        assert keeper.query("SELECT * FROM v").to_pylist() == [{"x": 1, "t": "it's"}]
        keeper.sql("INSERT INTO r VALUES (0, 2)")
        assert keeper.refresh("v").strategy == "recompute"
        assert keeper.query("SELECT * FROM v").to_pylist() == [{"x": 0, "t": "it's"}]
        assert keeper.verify("v").equal
