"""One row an operator: a refresh after one row in a thousand changed, beside running the query again.

Every table of a view changes: half of the changed rows are new, the others go. The policy is 'auto',
so the way that a refresh takes is the one that viewkeep chooses; the table says which.
"""
# ruff: noqa: E501 (a query is one line)

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import viewkeep
from bench.database import REFERENCE, create_view, database
from bench.measure import VIEW, BenchmarkError, Run, check, seconds, summary, timed_recompute
from bench.tables import COUNT, MS, RATIO, Column, Result, Table, verdict

TARGET = 1.0
SHARE = 1000
"""One row in so many changes, in each batch."""
START = datetime(2026, 1, 1, tzinfo=UTC)
"""The time of the last row of a table; rows are a second apart."""


@dataclass(frozen=True, slots=True)
class Operator:
    name: str
    query: str
    """Over `f` (large), `g` (a quarter of it, for what is slow), `d` (one row for each value of f.k)."""
    changes: str = "keep"


OPERATORS = (
    Operator("filter", "SELECT id, k, v FROM f WHERE v < 500"),
    Operator("filter on the current time", "SELECT id, k, v FROM f WHERE ts > now() - INTERVAL 12 DAY"),
    Operator("project", "SELECT id, v * 2 AS w, k + 1 AS n FROM f"),
    Operator("inner join", "SELECT f.id, f.v, d.name FROM f JOIN d ON f.k = d.k"),
    Operator("self join", "SELECT a.id, b.id AS other FROM f a JOIN f b ON a.k = b.k WHERE a.v < 100"),
    Operator("theta join", "SELECT g.id, d.k FROM g JOIN d ON g.v BETWEEN d.low AND d.high AND d.k < 300"),
    Operator("left join", "SELECT f.id, f.v, d.name FROM f LEFT JOIN d ON f.k = d.k AND d.low < 500"),
    Operator("right join", "SELECT f.id, d.name, d.k FROM f RIGHT JOIN d ON f.k = d.k AND f.v < 300"),
    Operator("full join", "SELECT f.id, f.v, d.name FROM f FULL JOIN d ON f.k = d.k + 500"),
    Operator("semi join", "SELECT id, v FROM f WHERE EXISTS (SELECT 1 FROM d WHERE d.k = f.k AND d.low < 500)"),
    Operator("anti join", "SELECT id, v FROM f WHERE NOT EXISTS (SELECT 1 FROM d WHERE d.k = f.k AND d.low < 500)"),
    Operator("in", "SELECT id, v FROM f WHERE k IN (SELECT k FROM d WHERE low < 500)"),
    Operator("not in", "SELECT id, v FROM f WHERE k NOT IN (SELECT k FROM d WHERE low < 500 AND k IS NOT NULL)"),
    Operator("mark join", "SELECT id, v, k IN (SELECT k FROM d WHERE low < 500) AS known FROM f"),
    Operator("single join", "SELECT id, v, (SELECT MAX(name) FROM d) AS last FROM f"),
    Operator("correlated subquery", "SELECT d.k, (SELECT COUNT(*) FROM f WHERE f.k = d.k) AS n FROM d"),
    Operator("correlated in where", "SELECT id, v FROM g WHERE v > (SELECT AVG(o.v) FROM g o WHERE o.k = g.k)"),
    Operator("first rows of each", "SELECT d.k, t.id, t.v FROM d, LATERAL (SELECT id, v FROM g WHERE g.k = d.k ORDER BY v DESC, id LIMIT 3) t"),
    Operator("subquery in on", "SELECT f.id, d.name FROM f LEFT JOIN d ON f.k = d.k AND d.k IN (SELECT k FROM g WHERE v < 100)"),
    Operator("union all", "SELECT id, v FROM f UNION ALL SELECT id, v FROM g"),
    Operator("union", "SELECT k, v FROM f UNION SELECT k, v FROM g"),
    Operator("intersect", "SELECT k, v FROM f INTERSECT SELECT k, v FROM g"),
    Operator("except", "SELECT k, v FROM f EXCEPT SELECT k, v FROM g"),
    Operator("except all", "SELECT k, v FROM f EXCEPT ALL SELECT k, v FROM g"),
    Operator("distinct", "SELECT DISTINCT k, v FROM f"),
    Operator("unnest", "SELECT id, UNNEST([v, k]) AS x FROM f"),
    Operator("pivot", "SELECT * FROM (SELECT k, c, v FROM f) t PIVOT (SUM(v) FOR c IN (1, 2, 3))"),
    Operator("unpivot", "SELECT * FROM (SELECT id, k, v FROM f) t UNPIVOT (x FOR what IN (k, v))"),
    Operator("window", "SELECT id, RANK() OVER (PARTITION BY k ORDER BY v) AS n FROM g"),
    Operator("window, running sum", "SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY id) AS s FROM g"),
    Operator("qualify", "SELECT id, k, v FROM g QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) = 1"),
    Operator("window below a group", "SELECT n, COUNT(*) AS c FROM (SELECT RANK() OVER (PARTITION BY k ORDER BY v) AS n FROM g) t GROUP BY n"),
    Operator("window without partition", "SELECT id, v FROM g QUALIFY RANK() OVER (ORDER BY v DESC, id) <= 1000"),
    Operator("… all rows", "SELECT id, RANK() OVER (ORDER BY v) AS n FROM g"),
    Operator("… all rows, no changes kept", "SELECT id, RANK() OVER (ORDER BY v) AS n FROM g", "none"),
    Operator("window over all groups", "SELECT k, SUM(v) AS s, RANK() OVER (ORDER BY SUM(v) DESC) AS n FROM f GROUP BY k"),
    Operator("sum, count, avg", "SELECT k, SUM(v) AS s, COUNT(*) AS n, AVG(v) AS a FROM f GROUP BY k"),
    Operator("sum over a join", "SELECT d.name, SUM(f.v) AS s FROM f JOIN d ON f.k = d.k GROUP BY d.name"),
    Operator("sum over a left join", "SELECT d.k, SUM(f.v) AS s FROM d LEFT JOIN f ON f.k = d.k AND f.v < 500 GROUP BY d.k"),
    Operator("filter (where)", "SELECT k, SUM(v) FILTER (WHERE c = 1) AS s, COUNT(*) FILTER (WHERE v > 5) AS n FROM f GROUP BY k"),
    Operator("sum of doubles", "SELECT k, SUM(x) AS s, AVG(x) AS a FROM f GROUP BY k"),
    Operator("min, max", "SELECT k, MIN(v) AS lo, MAX(v) AS hi FROM f GROUP BY k"),
    Operator("count distinct", "SELECT k, COUNT(DISTINCT v) AS n FROM f GROUP BY k"),
    Operator("several distinct", "SELECT k, COUNT(DISTINCT v) AS n, SUM(DISTINCT c) AS s FROM f GROUP BY k"),
    Operator("stddev, variance", "SELECT k, STDDEV(x) AS s, VAR_POP(x) AS v FROM f GROUP BY k"),
    Operator("corr, covar", "SELECT k, CORR(x, v) AS c, COVAR_POP(x, v) AS p FROM f GROUP BY k"),
    Operator("median, quantile", "SELECT k, MEDIAN(v) AS m, QUANTILE_CONT(x, 0.9) AS q FROM f GROUP BY k"),
    Operator("string_agg", "SELECT k, STRING_AGG(v::VARCHAR, ',' ORDER BY id) AS s FROM g GROUP BY k"),
    Operator("array_agg", "SELECT k, ARRAY_AGG(v ORDER BY id) AS s FROM g GROUP BY k"),
    Operator("bool_and, bit_or", "SELECT k, BOOL_AND(v > 5) AS b, BIT_OR(v) AS o, BIT_XOR(v) AS x FROM f GROUP BY k"),
    Operator("max_by, min_by", "SELECT k, MAX_BY(v, id) AS hi, MIN_BY(v, id) AS lo FROM f GROUP BY k"),
    Operator("approx_count_distinct", "SELECT k, APPROX_COUNT_DISTINCT(v) AS n FROM f GROUP BY k"),
    Operator("grouping sets", "SELECT k, c, GROUPING(k, c) AS g, SUM(v) AS s FROM f GROUP BY GROUPING SETS ((k), (c), (k, c))"),
    Operator("rollup", "SELECT c, k, SUM(v) AS s FROM f GROUP BY ROLLUP (c, k)"),
    Operator("without group by", "SELECT SUM(f.v * LENGTH(d.name)) AS s, COUNT(*) AS n FROM f JOIN d ON f.k = d.k"),
    Operator("having", "SELECT k, COUNT(*) AS n FROM f GROUP BY k HAVING COUNT(*) > 200"),
    Operator("group of groups", "SELECT n, COUNT(*) AS groups FROM (SELECT k, COUNT(*) AS n FROM f GROUP BY k) t GROUP BY n"),
    Operator("join with groups", "SELECT d.name, t.s FROM d JOIN (SELECT k, SUM(v) AS s FROM f GROUP BY k) t ON t.k = d.k"),
    Operator("order by, limit of groups", "SELECT k, SUM(v) AS s FROM f GROUP BY k ORDER BY s DESC, k LIMIT 100"),
    Operator("order by, limit of rows", "SELECT f.id, f.v, d.name FROM f JOIN d ON f.k = d.k ORDER BY f.v DESC, f.id LIMIT 100"),
    Operator("limit inside", "SELECT name, COUNT(*) AS n FROM (SELECT d.name FROM f JOIN d ON f.k = d.k ORDER BY f.v DESC, f.id LIMIT 1000) t GROUP BY name"),
)  # fmt: skip


def operators(quick: bool = False) -> Result:
    rows, groups, batches = (8_000, 800, 1) if quick else (8_000_000, 400_000, 5)
    table = Table(
        f"f ({rows:,} rows), g ({rows // 4:,}), d ({groups:,}); 0.1 % of each changes, median of {batches}",
        (
            Column("operator"),
            Column("way"),
            Column("refresh ms", MS),
            Column("recompute ms", MS),
            Column("ratio", RATIO),
            Column("target ≤", RATIO),
            Column("verdict"),
            Column("best ÷ best", RATIO),
            Column("view rows", COUNT),
        ),
    )
    clock = Clock()
    with tables(rows, groups, clock) as keeper:
        for number, operator in enumerate(OPERATORS):
            runs, way, size = measured(keeper, operator, clock, rows, groups, batches, number)
            s = summary(runs)
            met = verdict(s.ratio, TARGET, quick)
            table.add(operator.name, way, s.refresh, s.recompute, s.ratio, TARGET, met, s.best_ratio, size)
    return Result("operators", "every operator, when one row in a thousand changed", [table])


@dataclass(slots=True)
class Clock:
    time: datetime = START

    def __call__(self) -> datetime:
        return self.time


@contextmanager
def tables(rows: int, groups: int, clock: Clock) -> Iterator[viewkeep.Keeper]:
    with database("file", clock) as keeper:
        large = (
            "SELECT i::INTEGER AS id, (hash(i) % {groups})::INTEGER AS k, (hash(i + 1) % 1000)::INTEGER AS v, "
            "(hash(i + 2) % 8)::INTEGER AS c, (hash(i + 3) % 1000000) / 1e6 AS x, "
            "TIMESTAMP '2026-01-01' - INTERVAL 1 SECOND * ({rows} - i) AS ts FROM range({rows}) r(i)"
        )
        keeper.sql(f"CREATE TABLE f AS {large.format(rows=rows, groups=groups)}")
        keeper.sql(f"CREATE TABLE g AS {large.format(rows=rows // 4, groups=groups)}")
        keeper.sql(
            f"CREATE TABLE d AS SELECT i::INTEGER AS k, 'name ' || (i % {groups // 4}) AS name, "
            f"(hash(i) % 1000)::INTEGER AS low, (hash(i) % 1000 + 3)::INTEGER AS high FROM range({groups}) r(i)"
        )
        keeper.declare_key("f", ["id"])
        keeper.declare_key("g", ["id"])
        keeper.declare_key("d", ["k"])
        yield keeper


def measured(
    keeper: viewkeep.Keeper, operator: Operator, clock: Clock, rows: int, groups: int, batches: int, seed: int
) -> tuple[list[Run], str, int]:
    """Batches of changes under a view of one operator; the view is gone afterwards."""
    create_view(keeper, operator.query, "auto", operator.changes)
    sources, ways, runs = keeper.status()[0].sources, set[str](), list[Run]()
    sizes = {"f": rows, "g": rows // 4, "d": groups}
    for batch in range(batches + 1):  # the first one also compiles the programs
        applied = seconds(lambda b=batch: _change(keeper, sources, sizes, seed * 100 + b))
        clock.time += timedelta(seconds=rows // SHARE)
        refreshed = seconds(lambda: ways.add(_way(keeper.refresh(VIEW))))
        query = operator.query.replace("now()", f"TIMESTAMPTZ '{clock.time}'")
        runs.append(Run(applied, refreshed, timed_recompute(keeper, query)))
    _check(keeper, operator)
    size = keeper.query(f"SELECT COUNT(*) AS n FROM {VIEW}").column("n")[0].as_py()
    keeper.sql(f"DROP MATERIALIZED VIEW {VIEW}")
    return runs[1:], ", ".join(sorted(ways)), size


def _check(keeper: viewkeep.Keeper, operator: Operator) -> None:
    """The view is what was just computed again; what differs may be the last digits of doubles, which verify knows of."""
    both = (f"{VIEW} EXCEPT ALL FROM {REFERENCE}", f"{REFERENCE} EXCEPT ALL FROM {VIEW}")
    differing = [keeper.engine.execute(f"SELECT COUNT(*) FROM (FROM {query})")[0][0] for query in both]
    if any(differing):
        try:
            check(keeper)
        except BenchmarkError as error:
            raise BenchmarkError(f"{operator.name}: {error}") from None


def _way(report: viewkeep.RefreshReport) -> str:
    if report.strategy == "unchanged":
        raise BenchmarkError("nothing changed")
    return report.strategy


def _change(keeper: viewkeep.Keeper, sources: tuple[str, ...], sizes: dict[str, int], seed: int) -> None:
    for name in sources:
        half = max(1, sizes[name] // SHARE // 2)
        # The rows that go come back under new values: the tables keep their size.
        key = "k" if name == "d" else "id"
        chosen = f"SELECT {key} FROM {name} WHERE hash({key} + {seed}) % {SHARE * 2} = 0 LIMIT {half}"
        # Not through `keeper.sql`, for the reason that timed_recompute gives.
        keeper.engine.execute(
            f"CREATE OR REPLACE TEMP TABLE bench_gone AS SELECT * FROM {name} WHERE {key} IN ({chosen})"
        )
        keeper.sql(f"DELETE FROM {name} WHERE {key} IN (SELECT {key} FROM bench_gone)")
        if name == "d":
            keeper.sql("INSERT INTO d SELECT k, 'new ' || name, high, high + 3 FROM bench_gone")
        else:
            keeper.sql(
                f"INSERT INTO {name} SELECT id, (k + 1) % {sizes['d']}, (v + 7) % 1000, c, x, ts + INTERVAL 1 HOUR FROM bench_gone"
            )
