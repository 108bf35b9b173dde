"""Views with a window over all rows are stored anew, and still tell what has changed since any version that is kept."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import viewkeep
from viewkeep.errors import RefreshError
from viewkeep.runtime.transactional.view_log import versions_aside

VIEWS = {
    "positions": "SELECT id, v, ROW_NUMBER() OVER (ORDER BY v, id) AS n FROM t",
    "before": "SELECT id, LAG(v) OVER (ORDER BY id) AS b FROM t",
    "running": "SELECT v, SUM(id) OVER (ORDER BY v) AS s FROM t",
    "shares": "SELECT v, COUNT(*) OVER () AS n FROM t QUALIFY n > 2",
    "joined": "SELECT t.id, d.name, RANK() OVER (ORDER BY d.name) AS n FROM t JOIN d ON t.v = d.v",
}
CHILDREN = {
    "first": "SELECT * FROM w WHERE id < 8",
    "counted": "SELECT n % 2 AS odd, COUNT(*) AS c FROM w GROUP BY ALL",
}


@pytest.fixture
def keeper() -> Any:
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql("CREATE TABLE t AS SELECT i AS id, i % 4 AS v FROM range(12) r(i)")
        keeper.sql("CREATE TABLE d AS SELECT i AS v, 'n' || (i % 3) AS name FROM range(5) r(i)")
        yield keeper


def change(keeper: viewkeep.Keeper, rng: random.Random) -> None:
    """Some changes, after the last of which there is another row."""
    for _ in range(rng.randint(1, 3)):
        low, value = rng.randrange(12), rng.choice(["NULL", "1", "3", "9"])
        keeper.sql(
            rng.choice(
                [
                    f"INSERT INTO t SELECT i, {value} FROM range({low}, {low + 2}) r(i)",
                    f"DELETE FROM t WHERE id = {low}",
                    f"UPDATE t SET v = {value} WHERE id % 5 = {low % 5}",
                    f"UPDATE d SET name = 'x' WHERE v = {low % 5}",
                    "DELETE FROM t",
                ]
            )
        )
    keeper.sql(f"INSERT INTO t VALUES ({rng.randrange(12)}, {rng.randrange(4)})")


def rows(keeper: viewkeep.Keeper, view: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in keeper.query(f"SELECT * FROM {view}").to_pylist())


def told(keeper: viewkeep.Keeper, view: str, since: int) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for weight, *row in (r.values() for r in keeper.changes(view, since=since).to_pylist()):
        found[tuple(row)] += weight
    return found


@pytest.mark.parametrize("policy", ["auto", "incremental"])
@pytest.mark.parametrize("name", VIEWS)
def test_changes_are_known_since_each_kept_version(keeper: viewkeep.Keeper, name: str, policy: str) -> None:
    rng = random.Random(name + policy)
    keeper.sql(f"CREATE MATERIALIZED VIEW w WITH (policy = '{policy}') AS {VIEWS[name]}")
    was = {keeper.history("w")[-1].version: rows(keeper, "w")}
    for round_ in range(14):
        change(keeper, rng)
        report = keeper.refresh("w", full=round_ % 5 == 4)
        assert keeper.verify("w").equal
        was[report.version] = now = rows(keeper, "w")
        for version in [v for v in was if v >= report.version - 10]:
            difference = Counter(now)
            difference.subtract(was[version])
            assert told(keeper, "w", version) == Counter({r: n for r, n in difference.items() if n}), version
    with pytest.raises(RefreshError, match="are kept from version"):
        keeper.changes("w", since=min(was))
    kept = versions_aside(keeper.engine, viewkeep.catalog.TableName("w"))
    assert len(kept) <= 10
    assert max(kept) == report.version


@pytest.mark.parametrize("name", CHILDREN)
def test_views_above_follow(keeper: viewkeep.Keeper, name: str) -> None:
    rng = random.Random(name)
    keeper.sql(f"CREATE MATERIALIZED VIEW w AS {VIEWS['positions']}")
    keeper.sql(f"CREATE MATERIALIZED VIEW c WITH (policy = 'incremental') AS {CHILDREN[name]}")
    for round_ in range(20):
        change(keeper, rng)
        keeper.refresh("w")
        if round_ % 12 == 0:  # what it has not seen yet is kept for it
            keeper.refresh("c")
            assert keeper.verify("c").equal
    report = keeper.refresh("c")
    assert report.strategy == "classical"
    assert keeper.verify("c").equal


def test_each_view_drops_its_own_old_rows(keeper: viewkeep.Keeper, tmp_path: Path) -> None:
    """Several views have rows of one version, and an attached database may have views of the same names."""
    with viewkeep.connect(f"duckdb:///{tmp_path}/other.duckdb") as other:
        other.sql("CREATE TABLE t AS SELECT i AS id, i % 4 AS v FROM range(12) r(i)")
        other.sql(f"CREATE MATERIALIZED VIEW positions AS {VIEWS['positions']}")
        other.sql("INSERT INTO t VALUES (20, 1)")
        other.refresh()
    keeper.sql(f"ATTACH '{tmp_path}/other.duckdb' AS other (READ_ONLY)")
    for name, query in VIEWS.items():
        keeper.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    rng = random.Random(5)
    for _ in range(25):
        change(keeper, rng)
        keeper.refresh()
    for name in VIEWS:
        assert keeper.verify(name).equal
        assert len(versions_aside(keeper.engine, viewkeep.catalog.TableName(name))) == 10


def test_it_happens_within_a_transaction_or_not_at_all(keeper: viewkeep.Keeper) -> None:
    keeper.sql(f"CREATE MATERIALIZED VIEW w AS {VIEWS['positions']}")
    before = rows(keeper, "w")
    for end in ("ROLLBACK", "COMMIT"):
        keeper.engine.execute("BEGIN")
        for value in (1, 2):
            keeper.sql(f"INSERT INTO t VALUES (100, {value})")
            keeper.refresh("w")
        keeper.engine.execute(end)
        assert (rows(keeper, "w") == before) == (end == "ROLLBACK")
        keeper.refresh("w")
        assert keeper.verify("w").equal


def test_nothing_is_left_of_a_dropped_view(keeper: viewkeep.Keeper) -> None:
    stored = "SELECT table_name FROM information_schema.tables WHERE table_schema = '_viewkeep'"
    before = keeper.engine.execute(stored)
    for view in ("w", '"1_W"'):
        keeper.sql(f"CREATE MATERIALIZED VIEW {view} AS {VIEWS['before']}")
    keeper.sql("INSERT INTO t VALUES (50, 5)")
    keeper.refresh()
    assert sum(name.startswith("left_") for (name,) in keeper.engine.execute(stored)) == 2
    keeper.sql("DROP MATERIALIZED VIEW w")
    assert keeper.verify("1_W").equal
    assert keeper.changes("1_W").num_rows > 0
    keeper.sql('CREATE OR REPLACE MATERIALIZED VIEW "1_W" AS SELECT id FROM t')
    keeper.sql('DROP MATERIALIZED VIEW "1_W"')
    assert keeper.engine.execute(stored) == before


def test_a_file_that_is_opened_again_tells_what_changed(tmp_path: Path) -> None:
    with viewkeep.connect(f"duckdb:///{tmp_path}/a.duckdb") as keeper:
        keeper.sql("CREATE TABLE t AS SELECT i AS id, i % 4 AS v FROM range(12) r(i)")
        keeper.sql(f"CREATE MATERIALIZED VIEW w AS {VIEWS['running']}")
        keeper.sql("INSERT INTO t VALUES (50, 0)")
        first = keeper.refresh("w").version
    with viewkeep.connect(f"duckdb:///{tmp_path}/a.duckdb") as keeper:
        keeper.sql("INSERT INTO t VALUES (60, 1)")
        keeper.refresh("w")
        assert keeper.verify("w").equal
        assert {row[0] for row in told(keeper, "w", first)} == {1, 2, 3}


def test_a_view_that_keeps_no_changes_sets_nothing_aside(keeper: viewkeep.Keeper) -> None:
    keeper.sql(f"CREATE MATERIALIZED VIEW w WITH (policy = 'incremental', changes = 'none') AS {VIEWS['before']}")
    keeper.sql("INSERT INTO t VALUES (50, 5)")
    keeper.refresh("w")
    assert keeper.verify("w").equal
    assert versions_aside(keeper.engine, viewkeep.catalog.TableName("w")) == []


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_a_program_that_is_run_alone_logs_the_rows(keeper: viewkeep.Keeper, dialect: str) -> None:
    keeper.sql(f"CREATE MATERIALIZED VIEW w AS {VIEWS['before']}")
    program = [s.partition("\n")[2] for s in keeper.compile("w", dialect) if s.startswith("-- refresh: a window")]
    starts = ["INSERT INTO"] + (["CREATE OR REPLACE TABLE"] if dialect == "duckdb" else ["DELETE FROM", "INSERT INTO"])
    assert [s.startswith(start) for s, start in zip(program, starts, strict=True)] == [True] * len(starts)
    assert 'INSERT INTO "_viewkeep"."log_w"' in program[0]
