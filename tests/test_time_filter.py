"""Filters on the current time: rows come and go as the clock moves, and nothing is recomputed for it."""
# ruff: noqa: E501 (a query is one line)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import viewkeep
from support import Batch, Engine, assert_view_equals_query, empty, heavy_mix, open_keeper, refill, small_changes

pytestmark = pytest.mark.timeout(1200)  # on Spark
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
        found = query.replace("now()", f"TIMESTAMPTZ '{time}+00'").replace(
            "current_timestamp", f"TIMESTAMPTZ '{time}+00'"
        )
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
    some = {n: q for n, q in QUERIES.items() if "localtimestamp" not in q}  # Spark has no such word
    followed = Followed(spark, dict(list(some.items())[part::4]), seed=part)
    with followed.keeper:
        followed.follow((heavy_mix, small_changes), MOVES[:5])
        for view in followed.views:
            report = followed.keeper.verify(view)
            assert report.equal, report


# ---------------------------------------------------------------------- what else depends on the time
@pytest.fixture
def watch() -> Watch:
    return Watch(datetime(2026, 1, 2, tzinfo=UTC))


_ROWS = ", ".join(f"({i}, {i % 5}, TIMESTAMP '{datetime(2026, 1, 1, 0, 30) + timedelta(hours=i)}')" for i in range(48))
HOURS = f"CREATE TABLE t (id INTEGER, k INTEGER, ts TIMESTAMP); INSERT INTO t VALUES {_ROWS}"
LAST_DAY = "SELECT id, ts FROM t WHERE ts > now() - INTERVAL 1 DAY AND ts <= now()"


@pytest.fixture
def keeper(engine: Engine, watch: Watch) -> viewkeep.Keeper:
    keeper = engine.connect(clock=watch)
    keeper.sql(HOURS)
    return keeper


def ids(keeper: viewkeep.Keeper, view: str = "v") -> list[int]:
    return sorted(keeper.query(f"SELECT id FROM {view}").column(0).to_pylist())


def test_rows_come_and_go_without_a_change(keeper: viewkeep.Keeper, watch: Watch) -> None:
    keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'strict') AS {LAST_DAY}")
    assert ids(keeper) == list(range(24))
    made = keeper.status()[0]
    assert made.as_of == watch.time
    watch.move(hours=2)
    assert ids(keeper) == list(range(24))  # as of its last refresh
    report = keeper.refresh("v")
    assert (report.strategy, report.rows_inserted, report.rows_deleted) == ("classical", 2, 2)
    assert "time has passed" in report.reason
    assert ids(keeper) == list(range(2, 26))
    assert keeper.status()[0].as_of == watch.time
    came = keeper.changes("v", since=made.version)
    assert sorted(zip(came.column("_w").to_pylist(), came.column("id").to_pylist(), strict=True)) == [
        (-1, 0), (-1, 1), (1, 24), (1, 25)
    ]  # fmt: skip
    assert keeper.verify("v").equal


def test_nothing_is_written_where_no_row_crosses(keeper: viewkeep.Keeper, watch: Watch) -> None:
    keeper.sql(f"CREATE MATERIALIZED VIEW v AS {LAST_DAY}")
    made = keeper.status()[0].as_of
    reports = []
    for _ in range(3):
        watch.move(minutes=5)
        reports.append(keeper.refresh("v"))
    assert {r.strategy for r in reports} == {"unchanged"}
    assert len({r.version for r in reports}) == 1
    assert keeper.status()[0].as_of == made
    assert len(keeper.history("v")) <= 2
    assert keeper.verify("v").equal
    watch.move(minutes=20)
    assert keeper.refresh("v").rows_inserted == 1
    assert ids(keeper) == list(range(1, 25))


@pytest.mark.parametrize("options", ["policy = 'full'", "strategy = 'recompute'", "changes = 'none'"])
def test_time_passes_under_every_option(keeper: viewkeep.Keeper, watch: Watch, options: str) -> None:
    keeper.sql(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS {LAST_DAY}")
    sums = "SELECT k, COUNT(*) AS n FROM t WHERE ts > now() - INTERVAL 1 DAY GROUP BY k"
    keeper.sql(f"CREATE MATERIALIZED VIEW s WITH ({options}) AS {sums}")
    watch.move(hours=30)
    keeper.sql("DELETE FROM t WHERE id = 40")
    keeper.refresh()
    assert ids(keeper) == [i for i in range(30, 48) if i != 40]
    assert_view_equals_query(keeper, "s", watch.put_into(sums))
    watch.move(hours=2)
    assert keeper.refresh("v", full=True).strategy == "recompute"
    assert ids(keeper) == [i for i in range(32, 48) if i != 40]
    assert keeper.verify("v").equal
    assert keeper.verify("s").equal


def test_on_read_and_on_change(keeper: viewkeep.Keeper, watch: Watch) -> None:
    keeper.sql(f"CREATE MATERIALIZED VIEW r WITH (refresh = 'on_read') AS {LAST_DAY}")
    keeper.sql(f"CREATE MATERIALIZED VIEW c WITH (refresh = 'on_change') AS {LAST_DAY}")
    watch.move(hours=3)
    assert ids(keeper, "r") == list(range(3, 27))
    assert ids(keeper, "c") == list(range(24))
    keeper.sql(
        "INSERT INTO t VALUES (100, 0, TIMESTAMP '2026-01-02 03:00:00'), (101, 0, TIMESTAMP '2026-01-02 03:00:01')"
    )
    assert ids(keeper, "c") == [*range(3, 27), 100]
    watch.move(seconds=1)
    assert ids(keeper, "r") == [*range(3, 27), 100, 101]


def test_views_of_one_database_have_their_own_times(keeper: viewkeep.Keeper, watch: Watch) -> None:
    names = {f"v{i}": f"SELECT id, ts FROM t WHERE ts > now() - INTERVAL {i + 5} HOUR" for i in range(2)}
    for name, query in names.items():
        keeper.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    shown = dict.fromkeys(names, watch.time)
    for step, name in enumerate(("v0", "v1", "v0")):
        watch.move(hours=3)
        keeper.sql(f"UPDATE t SET ts = ts + INTERVAL 90 MINUTE WHERE id % 7 = {step}")
        keeper.refresh(name)
        shown[name] = watch.time
        assert {s.view: s.as_of for s in keeper.status()} == shown
    assert all(keeper.verify(n).equal for n in names)


def test_the_time_is_stored_with_the_rows(tmp_path: Path, watch: Watch) -> None:
    url = f"duckdb:///{tmp_path / 'a.duckdb'}"
    with viewkeep.connect(url, clock=watch) as keeper:
        keeper.sql(HOURS)
        keeper.sql(f"CREATE MATERIALIZED VIEW v AS {LAST_DAY}")
        watch.move(hours=2)
        keeper.refresh()
        watch.move(hours=2)
        keeper.sql("BEGIN")
        keeper.refresh()
        assert ids(keeper) == list(range(4, 28))
        keeper.sql("ROLLBACK")
        assert ids(keeper) == list(range(2, 26))
        assert keeper.status()[0].as_of == watch.time - timedelta(hours=2)
        assert keeper.verify("v").equal
    with viewkeep.connect(url, clock=watch) as keeper:
        assert keeper.status()[0].as_of == watch.time - timedelta(hours=2)
        assert keeper.refresh("v").rows_deleted == 2
        assert ids(keeper) == list(range(4, 28))


def test_a_refresh_that_fails_leaves_the_time_as_it_was(watch: Watch) -> None:
    with viewkeep.connect("duckdb://", clock=watch) as keeper:
        keeper.sql(HOURS)
        keeper.sql("CREATE MATERIALIZED VIEW v AS SELECT id, CAST(id * 5 AS TINYINT) AS x FROM t WHERE ts <= now()")
        made = keeper.status()[0].as_of
        watch.move(hours=10)
        with pytest.raises(viewkeep.ViewkeepError):
            keeper.refresh("v")
        assert keeper.status()[0].as_of == made
        assert ids(keeper) == list(range(24))
        keeper.sql("DELETE FROM t WHERE id > 25")
        keeper.refresh("v")
        assert ids(keeper) == list(range(26))


def test_days_are_those_of_the_session(watch: Watch) -> None:
    with viewkeep.connect("duckdb://", clock=watch) as keeper:
        keeper.sql("SET TimeZone = 'America/New_York'")
        keeper.sql(HOURS)
        keeper.sql("CREATE TABLE z AS SELECT id, ts::TIMESTAMPTZ AS tz FROM t")
        queries = {
            "today": "SELECT id FROM t WHERE ts::DATE = current_date",
            "zoned": "SELECT id FROM z WHERE tz > now() - INTERVAL 1 DAY AND tz < date_trunc('day', now()) + INTERVAL 5 HOUR",
        }
        for name, query in queries.items():
            keeper.sql(f"CREATE MATERIALIZED VIEW {name} WITH (policy = 'incremental') AS {query}")
        for _ in range(9):
            watch.move(hours=5)
            keeper.refresh()
            for name, query in queries.items():
                now = f"TIMESTAMPTZ '{watch.time.replace(tzinfo=None)}+00'"
                expected = query.replace("now()", now).replace("current_date", f"({now})::DATE")
                assert_view_equals_query(keeper, name, expected)
                assert keeper.verify(name).equal
        keeper.sql("SET TimeZone = 'Asia/Tokyo'")
        for call in (lambda: keeper.refresh("today"), lambda: keeper.verify("today")):
            with pytest.raises(viewkeep.ViewkeepError, match=r"America/New_York.*Asia/Tokyo"):
                call()
        keeper.sql("SET TimeZone = 'America/New_York'")
        assert keeper.verify("today").equal


REFUSED = (
    "SELECT id, now() AS n FROM t",
    "SELECT id, ts > now() AS late FROM t",
    "SELECT id FROM t WHERE ts > now() OR id = 1",
    "SELECT id FROM t WHERE NOT (ts > now())",
    "SELECT id FROM t WHERE ts <> now()",
    "SELECT id FROM t WHERE now() - ts < INTERVAL 1 DAY",
    "SELECT id FROM t WHERE ts > now() - INTERVAL 1 DAY * id",
    "SELECT id FROM t WHERE ts - (now() - ts) > now()",
    "SELECT id FROM t WHERE ts > (SELECT now() - INTERVAL 1 DAY)",
    "SELECT id FROM t WHERE extract(hour FROM ts) > extract(hour FROM now())",
    "SELECT COUNT(*) FILTER (WHERE ts > now()) AS n FROM t",
    "SELECT SUM(CASE WHEN ts > now() THEN 1 END) AS n FROM t",
    "SELECT id FROM t ORDER BY ts > now(), id LIMIT 3",
    "SELECT a.id FROM t a LEFT JOIN t b ON a.k = b.k AND a.ts > now()",
    "SELECT id FROM t WHERE ts > now() AND id > random()",
)


@pytest.mark.parametrize("query", REFUSED)
def test_any_other_use_of_the_time_is_refused(watch: Watch, query: str) -> None:
    with viewkeep.connect("duckdb://", clock=watch) as keeper:
        keeper.sql(HOURS)
        with pytest.raises(viewkeep.ViewkeepError, match=r"now\(\)|current time|random") as caught:
            keeper.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert caught.value.hint
        assert keeper.status() == []


def test_the_time_is_refused_where_there_is_no_plan(watch: Watch) -> None:
    with viewkeep.connect("duckdb://", clock=watch) as keeper:
        keeper.sql(HOURS)
        keeper.sql("CREATE VIEW late AS SELECT * FROM t WHERE ts > now()")
        for query in (
            "SELECT * FROM t POSITIONAL JOIN (SELECT 1 AS one) u WHERE ts > now()",
            "SELECT * FROM late POSITIONAL JOIN (SELECT 1 AS one) u",
        ):
            with pytest.raises(viewkeep.ViewkeepError, match=r"current time.*POSITIONAL"):
                keeper.sql(f"CREATE MATERIALIZED VIEW v AS {query}")


def test_what_strict_says(watch: Watch) -> None:
    with viewkeep.connect("duckdb://", clock=watch) as keeper:
        keeper.sql(HOURS)
        keeper.sql("CREATE MATERIALIZED VIEW v WITH (policy = 'strict') AS SELECT ts, COUNT(*) AS n FROM t GROUP BY ts HAVING ts > now()")  # fmt: skip
        assert "rows that time moves across the bound" in keeper.explain("v")
        with pytest.raises(viewkeep.ViewkeepError, match="time can move any"):
            keeper.sql("CREATE MATERIALIZED VIEW w WITH (policy = 'strict') AS SELECT k, MAX(ts) AS m FROM t GROUP BY k HAVING MAX(ts) > now()")  # fmt: skip


def test_the_program_follows_the_time_without_viewkeep() -> None:
    """What `compile` prints, run by the engine alone; only the clock is set by hand."""
    import duckdb

    watch, schema = Watch(datetime(2026, 1, 2, tzinfo=UTC)), HOURS.partition(";")[0]
    query = "SELECT k, COUNT(*) AS n, MAX(ts) AS m FROM t WHERE ts > now() - INTERVAL 1 DAY AND ts < now() GROUP BY k"
    program = viewkeep.compile(schema, f"CREATE MATERIALIZED VIEW v AS {query}")

    def run(word: str) -> None:
        for statement in program:
            if statement.startswith(f"-- {word}"):
                connection.execute(statement.replace("CURRENT_TIMESTAMP", f"TIMESTAMPTZ '{watch.time}'"))

    with duckdb.connect() as connection:
        for statement in HOURS.split(";"):
            connection.execute(statement)
        run("setup")
        run("capture")
        for step in range(3):
            watch.move(hours=5)
            connection.execute(f"DELETE FROM t WHERE id = {step + 8}")
            run("refresh")
            found, expected = (
                sorted(connection.execute(q).fetchall()) for q in ("SELECT * FROM v", watch.put_into(query))
            )
            assert found == expected
