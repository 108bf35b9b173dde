"""TPC-H and TPC-DS as views: made, kept over change batches, compared with their queries after each.

docs/tpc.md says how each of them is kept; `make golden` writes its tables.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import sqlglot

import viewkeep
from support import Engine, assert_view_equals_query
from tpc import TPCDS, TPCH, Benchmark, decided, open_tables, rows_for, with_limit
from viewkeep.catalog import TableName
from viewkeep.errors import UnsupportedError
from viewkeep.plan.nodes import Fresh, Join, Node, walk
from viewkeep.sql.build import build_query
from viewkeep.strategy.layout import layout_of
from viewkeep.strategy.methods import method_of

PAGE = Path(__file__).parent.parent / "docs" / "tpc.md"
REWRITE = bool(os.environ.get("VIEWKEEP_REWRITE_GOLDEN"))
WORDS = ("delta", "affected keys", "recompute of this operator", "recompute")
"""From best to worst."""

_QUICK = "q03 q07 q12 q16 q21 q22 q27 q32 q36 q41 q44 q51 q53 q67 q76 q84 q87 q93 q97"
QUICK = frozenset(_QUICK.split())
"""Of TPC-DS: every kind of operator, and little to compile. The others are run by `make long`."""
TPCDS_QUERIES = [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in TPCDS.queries]
SELDOM = frozenset({"q08", "q34", "q58", "q64"})
"""Views of TPC-DS that stay empty over small tables: they ask for many rows of a kind, or for sums that are close."""
SEEDS = {
    "TPC-H": {"q15": 6, "q21": 4},
    "TPC-DS": {
        **dict.fromkeys(("q11", "q21", "q39a", "q78", "q83", "q84"), 4),
        "q14b": 16,
        "q23b": 10,
        "q39b": 10,
        "q69": 10,
        "q73": 12,
        "q91": 6,
    },
}
"""With which a view has rows from the start, where 0 gives none."""
SPARK_SEEDS = SEEDS["TPC-DS"] | {"q17": 2, "q75": 12}
"""There with the others the query itself divides by zero, which is an error."""
TPCDS_ON_SPARK = [n if n == "q23b" else pytest.param(n, marks=pytest.mark.slow) for n in TPCDS.queries]
"""The one that is run each time has parts that are computed once, with several scalar subqueries in them."""


# ---------------------------------------------------------------------- kept
def follow(benchmark: Benchmark, name: str, seed: int, engine: Engine | None = None, batches: int = 3) -> int:
    """Run one view through some batches; how many rows it had at most."""
    world = rows_for(benchmark, name, seed, keyed=seed % 3 != 2)
    query = with_limit(benchmark.queries[name], 3) if seed % 2 else benchmark.queries[name]
    with viewkeep.connect("duckdb://") if engine is None else engine.connect() as keeper:
        open_tables(keeper, world)
        keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'incremental') AS {query}")
        beside = decided(query, keeper.query("SELECT * FROM v").num_columns)
        assert_view_equals_query(keeper, "v", beside, "at first")
        most = keeper.query("SELECT * FROM v").num_rows
        for number in range(batches):
            changed = world.rng.sample(list(world.tables), max(1, len(world.tables) * 2 // 3))
            for table in changed if number else world.tables:
                world.shake(table)
            if number == 2:
                world.truncate(changed[0])
            world.play(keeper, "apply" if number % 2 == 0 or keeper.dialect != "duckdb" else "sql")
            report = keeper.refresh("v")
            assert report.strategy in ("classical", "foreign-key"), report
            assert_view_equals_query(keeper, "v", beside, f"batch {number}: {report}")
            most = max(most, keeper.query("SELECT * FROM v").num_rows)
    return most


@pytest.mark.parametrize("name", TPCH.queries)
def test_tpch_is_kept(name: str) -> None:
    assert follow(TPCH, name, SEEDS["TPC-H"].get(name, 0))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", TPCDS_QUERIES)
def test_tpcds_is_kept(name: str) -> None:
    assert follow(TPCDS, name, SEEDS["TPC-DS"].get(name, 0)) or name in SELDOM


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", TPCH.queries)
def test_tpch_is_kept_with_other_keys_and_limits(name: str, seed: int) -> None:
    """Odd seeds cut the result to three rows; a third of them have tables without keys, and with duplicates."""
    follow(TPCH, name, seed)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", TPCDS.queries)
def test_tpcds_is_kept_with_other_keys_and_limits(name: str, seed: int) -> None:
    follow(TPCDS, name, seed)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", TPCH.queries)
def test_tpch_is_kept_on_spark(name: str, spark: Engine) -> None:
    follow(TPCH, name, 0, spark, batches=2)


@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", TPCDS_ON_SPARK)
def test_tpcds_is_kept_on_spark(name: str, spark: Engine) -> None:
    follow(TPCDS, name, SPARK_SEEDS.get(name, 0), spark, batches=1)


@pytest.mark.parametrize("name", TPCH.queries)
def test_tpch_compiles_for_spark(name: str) -> None:
    compile_for_spark(TPCH, name)


@pytest.mark.parametrize("name", TPCDS_QUERIES)
def test_tpcds_compiles_for_spark(name: str) -> None:
    compile_for_spark(TPCDS, name)


def compile_for_spark(benchmark: Benchmark, name: str) -> None:
    tables = [t for t in sqlglot.parse(benchmark.schema, dialect="duckdb") if t is not None]
    schema = ";\n".join(t.sql(dialect="spark") for t in tables)
    query = sqlglot.parse_one(benchmark.queries[name], dialect="duckdb").sql(dialect="spark")
    program = viewkeep.compile(schema, query, dialect="spark")
    assert any(part.startswith("-- refresh") for part in program)


# ---------------------------------------------------------------------- what the docs say
def test_all_of_them_are_there() -> None:
    assert len(TPCH.queries) == 22
    assert {int(name[1:3]) for name in TPCDS.queries} == set(range(1, 100))


@pytest.mark.parametrize("benchmark", [TPCH, TPCDS], ids=lambda b: b.name)
def test_the_tables_in_the_docs_are_current(benchmark: Benchmark) -> None:
    rows = [f"| {name} | {' | '.join(worst(benchmark, name))} |" for name in benchmark.queries]
    table = "\n".join(["| query | worst operator is kept by | which one, and why |", "|---|---|---|", *rows])
    block = f"<!-- {benchmark.name}: written by make golden -->\n{table}\n<!-- end -->"
    pattern = re.compile(rf"<!-- {benchmark.name}: written by make golden -->.*?<!-- end -->", re.DOTALL)
    text = PAGE.read_text(encoding="utf-8")
    if REWRITE:
        PAGE.write_text(pattern.sub(lambda _: block, text), encoding="utf-8")
        return
    found = pattern.search(text)
    assert found is not None
    assert found.group(0) == block, "run `make golden` and read the diff"


def worst(benchmark: Benchmark, name: str) -> tuple[str, str]:
    """The word of the operator of a view that costs most, which one it is, and its reason."""
    try:
        query = build_query(benchmark.queries[name], benchmark.catalog, "duckdb")
    except UnsupportedError as error:
        return WORDS[-1], error.fact
    layout = layout_of(TableName("v"), query, benchmark.catalog, Fresh(1001), False)
    said = [(node, *method_of(node, layout).partition(": ")[::2]) for node in walk(query.root)]
    worst_word = max((word for _, word, _ in said if word in WORDS), key=WORDS.index)
    found = {label(node): reason for node, word, reason in reversed(said) if word == worst_word and reason}
    if not found:
        return worst_word, ""
    (first, reason), *others = reversed(found.items())
    also = f"; also {', '.join(other for other, _ in others)}" if others else ""
    return worst_word, f"{first}: {reason}{also}"


def label(node: Node) -> str:
    kind = f" {node.kind.value}" if isinstance(node, Join) else ""
    return f"{type(node).__name__}{kind}"
