"""Aggregates in Spark's spelling: the text alone, which needs no Spark."""

from __future__ import annotations

import pytest
import sqlglot

from viewkeep.sql.spark_aggregates import spell_aggregates


@pytest.mark.parametrize(
    ("written", "spelled"),
    [
        ("PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)", "PERCENTILE(x, 0.5)"),
        ("PERCENTILE_CONT(0.1) WITHIN GROUP (ORDER BY x DESC)", "PERCENTILE(x, 1 - 0.1)"),
        ("QUANTILE_CONT(x, 0.25)", "PERCENTILE(x, 0.25)"),
        (
            "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY x)",
            "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY x ASC NULLS LAST)",
        ),
        (
            "SUM(x ORDER BY x)",
            "CASE WHEN COUNT(x) > 0 THEN AGGREGATE(ARRAY_SORT(COLLECT_LIST(x)), CAST(0 AS DOUBLE), "
            "(total, value) -> total + value) END",
        ),
        (
            "SUM(x ORDER BY x) OVER (PARTITION BY k)",
            "CASE WHEN COUNT(x) OVER (PARTITION BY k) > 0 THEN AGGREGATE(ARRAY_SORT(COLLECT_LIST(x) OVER "
            "(PARTITION BY k)), CAST(0 AS DOUBLE), (total, value) -> total + value) END",
        ),
        (
            "LIST(x ORDER BY y)",
            "TRANSFORM(SORT_ARRAY(COLLECT_LIST(NAMED_STRUCT('absent_0', (y) IS NULL, 'by_0', y, 'value', x)), "
            "TRUE), row -> row.value)",
        ),
        ("STDDEV(x ORDER BY x)", "STDDEV(x)"),
    ],
)
def test_spelling(written: str, spelled: str) -> None:
    tree = sqlglot.parse_one(f"SELECT {written} AS v FROM t", dialect="duckdb")
    spell_aggregates(tree)
    assert tree.sql(dialect="spark") == f"SELECT {spelled} AS v FROM t"
