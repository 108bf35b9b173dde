"""Spark writes each CTE out where it is read: what is long and read by many is computed once."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from operator_cases import CASES, Case
from support import TABLES
from test_operators import NOT_SPARK
from viewkeep.catalog import TableName
from viewkeep.emit.files import Programs
from viewkeep.runtime.compiled import compile_view
from viewkeep.sql.schema import read_schema

LONGEST = 2_000
"""Relations that one query may read, written out. Spark plans one of ten thousand for a minute."""
PLANNED = [c for c in CASES if c.name not in NOT_SPARK and not c.setup]


def written_out(sql: str) -> int:
    """How many relations a query reads where each CTE stands at every place that names it."""
    query, lengths = sqlglot.parse_one(sql, dialect="spark"), dict[str, int]()
    for cte in query.ctes:
        lengths[cte.alias] = sum(lengths.get(t.name, 1) for t in cte.this.find_all(exp.Table))
    query.set("with_", None)
    return sum(lengths.get(t.name, 1) for t in query.find_all(exp.Table))


@pytest.mark.parametrize("part", range(8))
def test_no_query_of_a_refresh_is_long(part: int) -> None:
    catalog = read_schema("; ".join(t.ddl for t in TABLES.values()), "duckdb")
    found = {case.name: longest(case, catalog) for case in PLANNED[part::8]}
    assert {name: length for name, length in found.items() if length > LONGEST} == {}


def longest(case: Case, catalog: object) -> int:
    compiled = compile_view(TableName("v"), case.query, catalog, "duckdb")
    program = Programs(compiled, "_vk_").refresh(compiled.every_change())
    texts = [t for t in (program.change, program.rows, program.anew) if t is not None]
    return max(written_out(sql) for text in texts for sql in (*text.steps.values(), text.sql))


def test_each_step_is_read_by_its_name() -> None:
    catalog = read_schema("; ".join(t.ddl for t in TABLES.values()), "duckdb")
    (case,) = (c for c in CASES if c.name == "scalar over a union linked two ways")
    compiled = compile_view(TableName("v"), case.query, catalog, "duckdb")
    change = Programs(compiled, "_vk_").refresh(compiled.every_change()).change
    assert change is not None
    assert change.steps
    known = set(change.relations)
    for name, sql in (*change.steps.items(), ("", change.sql)):
        query = sqlglot.parse_one(sql, dialect="spark")
        read = {t.name for t in query.find_all(exp.Table)} - {cte.alias for cte in query.ctes}
        assert read <= known
        known.add(name)
