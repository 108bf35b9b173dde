"""A process that dies during a refresh leaves each view before it or after it, and the next refresh is right."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import viewkeep
from support import assert_same_bag, assert_view_equals_query, rows_of

VIEWS = {
    "sums": "SELECT g, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY g",
    "lows": "SELECT g, MIN(x) AS lo FROM t GROUP BY g",
    "pairs": "SELECT t.x, u.label FROM t JOIN u ON t.g = u.g",
    "child": "SELECT COUNT(*) AS n, SUM(n) AS total FROM sums",
}
CHANGE = (
    "INSERT INTO t VALUES (1, -5), (9, 9); DELETE FROM t WHERE x = 3; UPDATE t SET g = g + 1 WHERE x > 15; "
    "INSERT INTO u VALUES (9, 'nine'); DELETE FROM u WHERE g = 0"
)
CHILD = """
import os, signal, sys
import viewkeep
from viewkeep.engine.duckdb import DuckDBEngine

path, point, after = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "after"
keeper = viewkeep.connect("duckdb:///" + path)
count = 0

def counted(original):
    def run(self, *arguments, **options):
        global count
        count += 1
        if count == point and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        found = original(self, *arguments, **options)
        if count == point and after:
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    return run

DuckDBEngine.execute = counted(DuckDBEngine.execute)
DuckDBEngine.arrow = counted(DuckDBEngine.arrow)
keeper.refresh()
print(count, flush=True)
"""


def prepare(path: Path, policy: str = "incremental") -> None:
    with viewkeep.connect(f"duckdb:///{path}") as keeper:
        keeper.sql("CREATE TABLE t (g INTEGER, x INTEGER); INSERT INTO t SELECT i % 4, i FROM range(20) r(i)")
        keeper.sql("CREATE TABLE u (g INTEGER, label TEXT); INSERT INTO u VALUES (0, 'zero'), (1, 'one'), (1, 'uno')")
        for name, query in VIEWS.items():
            keeper.sql(f"CREATE MATERIALIZED VIEW {name} WITH (policy = '{policy}') AS {query}")
        keeper.sql(CHANGE)


def run_child(path: Path, point: int, when: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CHILD, str(path), str(point), when]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def snapshot(keeper: viewkeep.Keeper) -> dict[str, list[tuple[object, ...]]]:
    return {name: rows_of(keeper.query(f"SELECT * FROM {name}")) for name in VIEWS}


def same(a: dict[str, list[tuple[object, ...]]], b: dict[str, list[tuple[object, ...]]]) -> bool:
    return all(sorted(a[n], key=repr) == sorted(b[n], key=repr) for n in VIEWS)


def check_after_crash(path: Path, before: dict[str, list[tuple[object, ...]]], what: str) -> bool:
    """Whether the crash came after the commit."""
    with viewkeep.connect(f"duckdb:///{path}") as keeper:
        found = snapshot(keeper)
        after = {name: rows_of(keeper.query(query)) for name, query in VIEWS.items() if name != "child"}
        after["child"] = rows_of(keeper.query(f"SELECT COUNT(*) AS n, SUM(n) AS total FROM ({VIEWS['sums']})"))
        committed = same(found, after)
        assert committed or same(found, before), f"{what}: neither before nor after"
        for name in VIEWS:
            assert keeper.verify(name).equal, f"{name}, {what}"
        for _ in range(2):
            for report in keeper.refresh():
                assert report.strategy != "recompute", f"{what}: {report.reason}"
            for name, query in VIEWS.items():
                assert_view_equals_query(keeper, name, query, f"{name}, {what}")
            keeper.sql("INSERT INTO t VALUES (2, 2); DELETE FROM t WHERE g = 1")
        return committed


def statements_of_a_refresh(path: Path) -> int:
    prepare(path)
    done = run_child(path, 0, "before")
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def crash_at(tmp_path: Path, points: list[tuple[int, str]]) -> list[bool]:
    template = tmp_path / "template.duckdb"
    prepare(template)
    with viewkeep.connect(f"duckdb:///{template}") as keeper:
        before = snapshot(keeper)
    contents = template.read_bytes()
    committed = []
    for point, when in points:
        path = tmp_path / f"crash_{point}_{when}.duckdb"
        path.write_bytes(contents)
        done = run_child(path, point, when)
        assert done.returncode == -9, f"statement {point} was not reached: {done.stderr}"
        committed.append(check_after_crash(path, before, f"killed {when} statement {point}"))
    return committed


def test_killed_around_the_commit_and_at_a_few_statements(tmp_path: Path) -> None:
    last = statements_of_a_refresh(tmp_path / "counted.duckdb")
    assert last > 10
    points = [(last // 4, "before"), (last // 2, "after"), (last, "before"), (last, "after")]
    committed = crash_at(tmp_path, points)
    assert committed == [False, False, False, True]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_killed_before_every_statement(tmp_path: Path, part: int) -> None:
    last = statements_of_a_refresh(tmp_path / "counted.duckdb")
    committed = crash_at(tmp_path, [(n, "before") for n in range(1 + part, last + 1, 4)])
    assert not any(committed)


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path: Path) -> None:
    """From outside, wherever the process happens to be; also while it changes tables."""
    rng = random.Random(1)
    script = """
import sys, viewkeep
keeper = viewkeep.connect("duckdb:///" + sys.argv[1])
print("open", flush=True)
i = 0
while True:
    i += 1
    keeper.sql(f"INSERT INTO t VALUES ({i % 7}, {i}); DELETE FROM t WHERE x = {i - 20}")
    keeper.refresh()
"""
    path = tmp_path / "random.duckdb"
    prepare(path)
    for _ in range(8):
        child = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        time.sleep(rng.uniform(0.05, 0.6))
        child.kill()
        child.wait(30)
        child.stdout.close()
        with viewkeep.connect(f"duckdb:///{path}") as keeper:
            for name in VIEWS:
                assert keeper.verify(name).equal, name
            assert not [r.reason for r in keeper.refresh() if r.strategy == "recompute"]
            for name, query in VIEWS.items():
                assert_view_equals_query(keeper, name, query, name)


def test_killed_while_a_view_is_made(tmp_path: Path) -> None:
    """Either the view is there and right, or nothing of it is."""
    path = tmp_path / "made.duckdb"
    with viewkeep.connect(f"duckdb:///{path}") as keeper:
        keeper.sql("CREATE TABLE t (g INTEGER, x INTEGER); INSERT INTO t SELECT i % 4, i FROM range(20) r(i)")
    contents = path.read_bytes()
    create = f"CREATE MATERIALIZED VIEW sums AS {VIEWS['sums']}"
    script = CHILD.replace("keeper.refresh()", f"keeper.sql({create!r})")
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run([*command, "0", "before"], capture_output=True, text=True, timeout=60, check=True)
    last = int(done.stdout)
    for point in sorted({last // 3, last // 2, last - 2, last - 1, last}):
        path.write_bytes(contents)
        done = subprocess.run([*command, str(point), "before"], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == -9
        with viewkeep.connect(f"duckdb:///{path}") as keeper:
            if not keeper.status():
                assert keeper.engine.execute("SELECT COUNT(*) FROM duckdb_triggers()") == [(0,)]
                keeper.sql(f"CREATE MATERIALIZED VIEW sums AS {VIEWS['sums']}")
            keeper.sql("INSERT INTO t VALUES (1, 1)")
            keeper.refresh("sums")
            assert_view_equals_query(keeper, "sums", VIEWS["sums"])
            assert_same_bag(rows_of(keeper.query("SELECT COUNT(*) AS n FROM t")), [(21,)])
