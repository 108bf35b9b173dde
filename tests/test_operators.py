"""Every incremental operator under every batch: after each refresh the view is its query, and not by a recompute."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import viewkeep
from operator_cases import CASES, Case
from support import (
    BATCHES,
    DENSE_BATCHES,
    SHORT_BATCHES,
    TABLES,
    Batch,
    Engine,
    World,
    as_if_large,
    assert_view_equals_query,
    empty,
    everything,
    heavy_mix,
    open_keeper,
    refill,
    run_batches,
)


def follow(case: Case, seed: int, batches: Sequence[Batch]) -> None:
    """On DuckDB, where a database of its own costs nothing."""
    keeper, world = open_keeper(*case.tables, seed=seed)
    with keeper:
        keeper.sql(case.setup)
        keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'incremental') AS {case.query}")
        assert_view_equals_query(keeper, "v", case.query, "created")

        def check(what: str) -> None:
            report = keeper.refresh("v")
            assert report.strategy != "recompute", f"{what}: {report.reason}"
            assert_view_equals_query(keeper, "v", case.query, what)

        run_batches(keeper, world, check, batches)
        assert keeper.verify("v").equal


def test_every_case_has_tables_and_a_name_of_its_own() -> None:
    assert all(case.tables for case in CASES)
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name.replace(" ", "-"))
def test_operator(case: Case) -> None:
    follow(case, 1, SHORT_BATCHES)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name.replace(" ", "-"))
def test_operator_under_each_batch(case: Case) -> None:
    follow(case, 2, BATCHES)


# ---------------------------------------------------------------------- on Spark, many views in one warehouse
NOT_SPARK = {
    "quoted names": "blanks in the names of columns",
    "quoted group": "blanks in the names of columns",
    "quoted join": "blanks in the names of columns",
    "other case": "blanks in the names of columns",
    "pivot of two columns": "GROUP BY in PIVOT",
    "pivot of numbers": "GROUP BY in PIVOT",
    "pivot of pairs": "GROUP BY in PIVOT",
    "pivot statement": "PIVOT as a statement",
    "pivot joined": "an alias before PIVOT beside a join",
    "unpivot statement": "UNPIVOT as a statement",
    "star except and replace": "* REPLACE",
    "set by name": "BY NAME",
    "lists below": "an order inside LIST, below another operator: recomputed",
    "corr": "CORR of a group whose values are all the same: a division by zero",
    "corr below": "CORR of a group whose values are all the same: a division by zero",
    "window in expression": "a share of a sum that is 0: a division by zero",
    "by id": "an order inside FIRST",
    "products": "PRODUCT and HISTOGRAM",
    "frames": "frames of GROUPS",
    "exclude": "EXCLUDE in a frame",
    "window order by": "window functions in ORDER BY",
    "window count distinct": "DISTINCT in a window",
    "right join on a count": "correlated scalar subqueries in ON",
    "exists two deep": "names of a query two levels out",
    "exists two deep to the outermost": "names of a query two levels out",
    "in selected": "NULL as the value of IN: Spark says FALSE",
    "in selected, correlated": "NULL as the value of IN: Spark says FALSE",
    "full join on in and not in": "NULL as the value of IN, also in ON: Spark says FALSE",
    "in of several columns, selected": "NULL as the value of IN: Spark says FALSE",
    "any and in of windows": "ANY over a window function",
    "any, all and in of groups": "ANY over an aggregate",
    "correlated in the aggregate": "outer names inside an aggregate",
    "correlated after grouping": "correlated subqueries beside GROUP BY",
    "correlated two deep to the outermost": "names of a query two levels out",
    "lateral nearest": "outer names in ORDER BY",
    "cte of the query around": "outer names in WITH",
    "list of a query": "ARRAY of a query",
}
"""What of a case Spark itself refuses, or answers differently."""
SPARK_CASES = tuple(c for c in CASES if c.name not in NOT_SPARK)
PARTS = 12


def follow_together(keeper: viewkeep.Keeper, world: World, cases: Sequence[Case], batches: Sequence[Batch]) -> None:
    """All views in one warehouse, refreshed in one run; the failures of all of them are told together."""
    failed: dict[str, str] = {}
    views = [f"v{number}" for number in range(len(cases))]

    def check(what: str) -> None:
        for report in keeper.refresh():
            if report.strategy == "recompute":
                failed.setdefault(cases[views.index(report.view)].name, f"{what}: {report.reason}")
        for view, case in zip(views, cases, strict=True):
            try:
                assert_view_equals_query(keeper, view, case.query, what)
            except (AssertionError, viewkeep.ViewkeepError) as error:
                failed.setdefault(case.name, f"{what}: {error}")

    for view, case in zip(views, cases, strict=True):
        keeper.sql(case.setup)
        keeper.sql(f"CREATE MATERIALIZED VIEW {view} WITH (policy = 'incremental') AS {case.query}")
    run_batches(keeper, world, check, batches)
    for view, case in list(zip(views, cases, strict=True))[::4]:
        if not (report := keeper.verify(view)).equal:
            failed.setdefault(case.name, f"verify: {report}")
    assert failed == {}


def warehouse_of(cases: Sequence[Case], engine: Engine, seed: int) -> tuple[viewkeep.Keeper, World]:
    return open_keeper(*(t for t in TABLES if any(t in c.tables for c in cases)), seed=seed, engine=engine)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_operators_on_spark(spark: Engine, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refresh takes a second there: every case meets every kind of change once, and one in four lives on."""
    cases = SPARK_CASES[part::PARTS]
    if part % 2:
        as_if_large(monkeypatch)
    keeper, world = warehouse_of(cases, spark, seed=1)
    with keeper:
        follow_together(keeper, world, cases, DENSE_BATCHES if part % 4 == 0 else DENSE_BATCHES[:1])


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_operators_on_spark_under_more_batches(spark: Engine, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = SPARK_CASES[part::PARTS]
    if not part % 2:
        as_if_large(monkeypatch)
    keeper, world = warehouse_of(cases, spark, seed=2)
    with keeper:
        follow_together(keeper, world, cases, [*DENSE_BATCHES, everything, heavy_mix])


# ---------------------------------------------------------------------- shrinking counterexamples
SMALL_VIEWS = {
    "rows": "SELECT l.a, r.b FROM l JOIN r ON l.k = r.k",
    "sums": "SELECT l.k, SUM(l.a) AS s, COUNT(*) AS n FROM l JOIN r ON l.k = r.k GROUP BY l.k",
    "extremes": "SELECT k, MIN(a) AS lo, MAX(a) AS hi, COUNT(DISTINCT a) AS d FROM l GROUP BY k",
    "singles": "SELECT DISTINCT b FROM r",
    "nested": "SELECT n, COUNT(*) AS groups FROM (SELECT k, COUNT(*) AS n FROM l GROUP BY k) t GROUP BY n",
    "pairs": "SELECT x.a AS p, y.a AS q FROM l x JOIN l y ON x.k = y.k",
    "total": "SELECT SUM(a) AS s, MIN(a) AS m FROM l",
    "stacked": "SELECT k, a AS v FROM l UNION ALL SELECT k, b FROM r",
    "less": "SELECT k, a AS v FROM l EXCEPT ALL SELECT k, b FROM r",
    "common": "SELECT v, COUNT(*) AS n FROM (SELECT a AS v FROM l INTERSECT ALL SELECT b FROM r) t GROUP BY v",
    "ranks": "SELECT k, RANK() OVER (PARTITION BY k ORDER BY a) AS n FROM l",
    "ranked": "SELECT n, SUM(a) AS s FROM (SELECT a, RANK() OVER (PARTITION BY k ORDER BY a) AS n FROM l) t GROUP BY n",
    "totals": "SELECT k, b, COUNT(*) AS n, MIN(b) AS lo FROM r GROUP BY CUBE (k, b)",
}
Step = tuple[str, str, int | None, int | None, int | None]
small = st.one_of(st.none(), st.integers(0, 2))
step = st.tuples(st.sampled_from("lr"), st.sampled_from(["insert", "delete", "update"]), small, small, small)


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # examples are small; shrinking them takes minutes
)
@given(st.lists(st.lists(step, min_size=1, max_size=6), min_size=1, max_size=4))
def test_any_changes_of_two_small_tables(
    batches: list[list[Step]],
) -> None:
    with viewkeep.connect("duckdb://") as keeper:
        make_small_views(keeper)
        for batch in batches:
            change_small_tables(keeper, batch)


def make_small_views(keeper: viewkeep.Keeper) -> None:
    keeper.sql("CREATE TABLE l (k INTEGER, a INTEGER); CREATE TABLE r (k INTEGER, b INTEGER)")
    keeper.sql("INSERT INTO l VALUES (0, 0), (0, 0), (1, NULL); INSERT INTO r VALUES (0, 1), (NULL, 1)")
    for name, query in SMALL_VIEWS.items():
        keeper.sql(f"CREATE MATERIALIZED VIEW {name} WITH (policy = 'strict') AS {query}")


def change_small_tables(keeper: viewkeep.Keeper, batch: list[Step]) -> None:
    for table, kind, k, v, w in batch:
        column = "a" if table == "l" else "b"
        key, value, other = ("NULL" if x is None else str(x) for x in (k, v, w))
        if kind == "insert":
            keeper.sql(f"INSERT INTO {table} VALUES ({key}, {value})")
        elif kind == "delete":
            keeper.sql(f"DELETE FROM {table} WHERE k IS NOT DISTINCT FROM {key}")
        else:
            keeper.sql(f"UPDATE {table} SET k = {other}, {column} = {value} WHERE k IS NOT DISTINCT FROM {key}")
    keeper.refresh()
    for name, query in SMALL_VIEWS.items():
        assert_view_equals_query(keeper, name, query, f"{name} after {batch}")


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_changes_of_two_small_tables_on_spark(spark: Engine) -> None:
    """By statements, so that what SQL does to a lake is captured as well as what `apply` does."""
    rng = random.Random(3)
    values = (None, 0, 1, 2)
    with spark.connect() as keeper:
        make_small_views(keeper)
        for _ in range(3):
            kinds = ("insert", "insert", "delete", "update")
            change_small_tables(
                keeper, [(rng.choice("lr"), rng.choice(kinds), *rng.choices(values, k=3)) for _ in range(6)]
            )


def test_views_share_tables_and_are_refreshed_together() -> None:
    """One run for many views: what one of them consumes must not be missing for the next."""
    keeper, world = open_keeper("orders", "customers", "products", "tags", "events", seed=9)
    shared = [c for c in CASES if not c.setup and set(c.tables) <= set(world.tables)][1::8]
    with keeper:
        for number, case in enumerate(shared):
            keeper.sql(f"CREATE MATERIALIZED VIEW v{number} WITH (policy = 'incremental') AS {case.query}")

        def check(what: str) -> None:
            assert {r.strategy for r in keeper.refresh()} <= {"classical", "unchanged", "foreign-key", "viewlet"}
            for number, case in enumerate(shared):
                assert_view_equals_query(keeper, f"v{number}", case.query, f"{case.name} {what}")

        run_batches(keeper, world, check, [heavy_mix, empty, refill, heavy_mix])
