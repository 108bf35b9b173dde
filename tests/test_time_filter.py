"""Filters on the current time: rows come and go as the clock moves, and nothing is recomputed for it."""
# ruff: noqa: E501 (a query is one line)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import viewkeep
from support import Batch, Engine, World, assert_view_equals_query, empty, heavy_mix, open_keeper, refill, small_changes

TABLES = ("orders", "customers", "events", "tags")
QUERIES = {
    "rows": "SELECT * FROM events WHERE moment > now() - INTERVAL 2 HOUR",
    "keyed rows": "SELECT id, moment FROM orders WHERE moment >= current_timestamp - INTERVAL '90' MINUTE AND qty > 1",
    "rows to come": "SELECT kind, moment FROM events WHERE moment < now() - INTERVAL 1 HOUR",
    "between": "SELECT id, moment FROM orders WHERE moment BETWEEN now() - INTERVAL 90 MINUTE AND now() + INTERVAL 30 MINUTE",
    "swapped sides": "SELECT kind, value FROM events WHERE now() - INTERVAL 1 HOUR <= moment AND (now() > moment)",
    "the time between values": "SELECT kind, moment FROM events WHERE now() BETWEEN moment AND moment + INTERVAL 1 HOUR",
    "today": "SELECT id, moment FROM orders WHERE moment::DATE = current_date",
    "a date": "SELECT id, day FROM orders WHERE day + 55 >= today() - 1",
    "truncated": "SELECT kind, moment FROM events WHERE moment >= date_trunc('hour', now())",
    "a month ago": "SELECT id, moment FROM orders WHERE moment + INTERVAL 29 DAY > now() - INTERVAL 1 MONTH + INTERVAL 29 DAY",
    "without a zone": "SELECT kind, moment FROM events WHERE moment > localtimestamp - INTERVAL 1 HOUR",
    "sums": "SELECT customer, SUM(amount) AS s, COUNT(*) AS n, AVG(qty) AS a FROM orders WHERE moment > now() - INTERVAL 2 HOUR GROUP BY customer",
    "extremes": "SELECT kind, MIN(moment) AS lo, MAX(value) AS hi, COUNT(DISTINCT customer) AS d FROM events WHERE moment > now() - INTERVAL 2 HOUR GROUP BY kind",
    "one group": "SELECT COUNT(*) AS n, SUM(value) AS s, MAX(moment) AS m FROM events WHERE moment <= now()",
    "singles": "SELECT DISTINCT kind FROM events WHERE moment > now() - INTERVAL 1 HOUR",
    "a group's key": "SELECT moment, COUNT(*) AS n FROM events GROUP BY moment HAVING moment > now() - INTERVAL 2 HOUR",
    "a group's value": "SELECT kind, MAX(moment) AS m FROM events GROUP BY kind HAVING MAX(moment) > now() - INTERVAL 1 HOUR",
    "nested groups": "SELECT n, COUNT(*) AS groups FROM (SELECT customer, COUNT(*) AS n FROM orders WHERE moment > now() - INTERVAL 2 HOUR GROUP BY customer) t GROUP BY n",
    "grouping sets": "SELECT kind, ok, COUNT(*) AS n FROM events WHERE moment > now() - INTERVAL 2 HOUR GROUP BY ROLLUP (kind, ok)",
    "join": "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id WHERE o.moment > now() - INTERVAL 2 HOUR",
    "join of two": "SELECT o.id, e.kind FROM orders o JOIN events e ON o.customer = e.customer WHERE o.moment > now() - INTERVAL 2 HOUR AND e.moment < now()",
    "a value of both sides": "SELECT o.id, e.kind FROM orders o JOIN events e ON o.customer = e.customer WHERE GREATEST(o.moment, e.moment) > now() - INTERVAL 1 HOUR",
    "on": "SELECT o.id, e.kind FROM orders o JOIN events e ON o.customer = e.customer AND e.moment > now() - INTERVAL 1 HOUR",
    "left join": "SELECT c.id, o.qty FROM customers c LEFT JOIN orders o ON o.customer = c.id AND o.moment > now() - INTERVAL 2 HOUR",
    "left side of a left join": "SELECT e.kind, e.moment, t.tag FROM events e LEFT JOIN tags t USING (customer) WHERE e.moment > now() - INTERVAL 1 HOUR",
    "full join": "SELECT e.value, t.tag FROM (SELECT * FROM events WHERE moment > now() - INTERVAL 1 HOUR) e FULL JOIN tags t ON e.customer = t.customer",
    "exists": "SELECT id, name FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id AND o.moment > now() - INTERVAL 1 HOUR)",
    "not in": "SELECT id FROM customers WHERE id NOT IN (SELECT customer FROM events WHERE customer IS NOT NULL AND moment > now() - INTERVAL 1 HOUR)",
    "scalar subquery": "SELECT id, (SELECT COUNT(*) FROM events e WHERE e.customer = c.id AND e.moment > now() - INTERVAL 2 HOUR) AS n FROM customers c",
    "set difference": "SELECT customer FROM orders WHERE moment > now() - INTERVAL 2 HOUR EXCEPT ALL SELECT customer FROM events WHERE moment > now() - INTERVAL 1 HOUR",
    "union": "SELECT customer FROM orders WHERE moment > now() - INTERVAL 2 HOUR UNION SELECT customer FROM tags",
    "above a union": "SELECT * FROM (SELECT customer, moment FROM orders UNION ALL SELECT customer, moment FROM events) t WHERE moment > now() - INTERVAL 1 HOUR",
    "window": "SELECT kind, value, moment, RANK() OVER (PARTITION BY kind ORDER BY moment) AS n FROM events WHERE moment > now() - INTERVAL 2 HOUR",
    "above a window": "SELECT * FROM (SELECT kind, moment, RANK() OVER (PARTITION BY kind ORDER BY moment DESC) AS n FROM events) t WHERE moment > now() - INTERVAL 1 HOUR AND n < 4",
    "last of each": "SELECT id, customer, moment FROM orders WHERE moment < now() QUALIFY ROW_NUMBER() OVER (PARTITION BY customer ORDER BY moment DESC, id) = 1",
    "limit": "SELECT id, moment FROM orders WHERE moment < now() ORDER BY moment DESC, id LIMIT 3",
    "limit inside": "SELECT COUNT(*) AS n, MIN(moment) AS m FROM (SELECT id, moment FROM orders WHERE moment < now() ORDER BY moment DESC, id LIMIT 5) t",
    "cte": "WITH late AS (SELECT * FROM events WHERE moment > now() - INTERVAL 1 HOUR) SELECT a.kind, b.value FROM late a JOIN late b ON a.customer = b.customer",
    "plain view": "SELECT kind, COUNT(*) AS n FROM lately GROUP BY kind",
}  # fmt: skip
LATELY = "CREATE VIEW lately AS SELECT kind, value, moment FROM events WHERE moment > now() - INTERVAL 1 HOUR"
ABOVE = {
    "above rows": ("rows", "SELECT kind, value FROM {} WHERE moment < now() - INTERVAL 30 MINUTE"),
    "above sums": ("sums", "SELECT n, COUNT(*) AS groups FROM {} GROUP BY n"),
}


@dataclass
class Watch:
    """A clock that goes when it is told to."""

    time: datetime = datetime(2024, 2, 29, 0, 10, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def move(self, **by: float) -> None:
        self.time += timedelta(**by)

    def put_into(self, query: str) -> str:
        """A query at this time, without a word of viewkeep's."""
        time = self.time.astimezone(UTC).replace(tzinfo=None)
        found = query.replace("now()", f"TIMESTAMPTZ '{time}+00'").replace("current_timestamp", f"TIMESTAMPTZ '{time}+00'")
        found = found.replace("localtimestamp", f"TIMESTAMP '{time}'").replace("today()", f"DATE '{time.date()}'")
        return found.replace("current_date", f"DATE '{time.date()}'")


MOVES = (
    {"minutes": 50},
    {"seconds": 0},
    {"hours": 1.5},
    {"minutes": -70},
    {"hours": 2, "microseconds": 1},
    {"days": 28, "hours": 20},
    {"days": 2},
    {"hours": 3},
    {"days": -30},
)
"""A month before March 30, 23:00 is later than a month before March 31, 01:00."""


class Followed:
    """The views of some queries, compared with them at the time of the clock."""

    def __init__(self, engine: Engine | None, queries: dict[str, str], seed: int) -> None:
        self.watch, self.views = Watch(), dict[str, str]()
        self.keeper, self.world = open_keeper(*TABLES, seed=seed, engine=engine, clock=self.watch)
        self.keeper.sql(LATELY)
        for name, query in queries.items():
            self.make(f"v{len(self.views)}", name, query)
        for name, (below, query) in ABOVE.items():
            if below in queries:
                at = list(queries).index(below)
                self.views[f"v{len(self.views)}"] = query.format(f"({queries[below]}) t")
                self.keeper.sql(_create(f"v{len(self.views) - 1}", query.format(f"v{at}")))
                del name

    def make(self, view: str, name: str, query: str) -> None:
        del name
        self.views[view] = query
        self.keeper.sql(_create(view, query))

    def refresh(self, what: str) -> None:
        assert {r.strategy for r in self.keeper.refresh()} <= {"classical", "unchanged", "foreign-key"}, what
        self.compare(what)

    def compare(self, what: str) -> None:
        for view, query in self.views.items():
            expected = self.watch.put_into(query.replace("lately", f"({LATELY.partition(' AS ')[2]}) t"))
            assert_view_equals_query(self.keeper, view, expected, f"{query} {what}")

    def follow(self, batches: Sequence[Batch], moves: Sequence[dict[str, float]]) -> None:
        """Time passes without a change, with one, and with nothing at all."""
        for number, move in enumerate(moves):
            self.watch.move(**move)
            if number % 2:
                batch = batches[number // 2 % len(batches)]
                for table in self.world.tables:
                    batch(self.world, table)
                self.world.play(self.keeper, "sql" if self.keeper.dialect == "duckdb" else "apply")
            self.refresh(f"after move {number}, {self.watch.time}")


def _create(view: str, query: str) -> str:
    return f"CREATE MATERIALIZED VIEW {view} WITH (policy = 'incremental') AS {query}"


@pytest.mark.parametrize("part", range(3))
def test_views_follow_the_time(part: int) -> None:
    some = dict(list(QUERIES.items())[part::3])
    followed = Followed(None, some, seed=part)
    with followed.keeper:
        followed.follow((heavy_mix, small_changes, empty, refill), MOVES)
        for view in followed.views:
            report = followed.keeper.verify(view)
            assert report.equal, report


def test_views_above_views_follow_the_time() -> None:
    followed = Followed(None, {n: QUERIES[n] for n in ("rows", "sums")}, seed=7)
    with followed.keeper:
        followed.follow((heavy_mix, small_changes), MOVES)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 16))
def test_views_follow_the_time_for_long(seed: int) -> None:
    followed = Followed(None, QUERIES, seed)
    with followed.keeper:
        rng = followed.world.rng
        moves = [{"minutes": rng.choice((-45, 0, 1, 20, 60, 200))} for _ in range(24)]
        followed.follow((heavy_mix, small_changes, refill, empty, refill), moves)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(4))
def test_views_follow_the_time_on_spark(spark: Engine, part: int) -> None:
    followed = Followed(spark, dict(list(QUERIES.items())[part::4]), seed=part)
    with followed.keeper:
        followed.follow((heavy_mix, small_changes), MOVES[:5])
        for view in followed.views:
            report = followed.keeper.verify(view)
            assert report.equal, report
