"""A process that dies while it works on a lake leaves each table and view before a commit or after it,
and the next refresh is right. The same for several processes at once."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewkeep
from support import Row, assert_view_equals_query, bag, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

VIEWS = {
    "sums": "SELECT g, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY g",
    "lows": "SELECT g, MIN(x) AS lo FROM t GROUP BY g",
    "pairs": "SELECT t.x, u.label FROM t JOIN u ON t.g = u.g",
    "child": "SELECT COUNT(*) AS n, SUM(n) AS total FROM sums",
}
LATE = "SELECT label, COUNT(*) AS n FROM u GROUP BY label"
STEPS = """
import os, signal, sys
import pyarrow as pa
import viewkeep
from viewkeep.engine.delta_log import DeltaLog
from viewkeep.engine.spark import Spark
from viewkeep.runtime.lake.rewriting import Rewriting

def watch(at_call, crash):
    "Call `crash` in place of the n-th write or commit."
    count = 0

    def counted(original):
        def run(self, *arguments, **options):
            nonlocal count
            count += 1
            if count == at_call:
                crash()
            return original(self, *arguments, **options)
        return run

    points = ((Spark, "write"), (Spark, "write_arrow"), (Rewriting, "files"), (DeltaLog, "commit"),
              (DeltaLog, "create"))
    kept = [(c, n, getattr(c, n)) for c, n in points]
    for owner, name, original in kept:
        setattr(owner, name, counted(original))

    def restore():
        for owner, name, original in kept:
            setattr(owner, name, original)
        return count

    return restore

def steps(keeper):
    "Everything that writes: a view is made, tables change, a chain of views follows."
    keeper.sql("CREATE MATERIALIZED VIEW late AS SELECT label, COUNT(*) AS n FROM u GROUP BY label")
    batch = {"g": pa.array([9, 1, 3], pa.int32()), "x": pa.array([9, -5, 3], pa.int32()), "_w": [1, 1, -1]}
    keeper.apply("t", pa.table(batch))
    keeper.sql("DELETE FROM t WHERE x > 16")
    keeper.sql("INSERT INTO u VALUES (9, 'nine')")
    keeper.refresh()
"""
CHILD = (
    STEPS
    + """
watch(int(sys.argv[2]), lambda: os.kill(os.getpid(), signal.SIGKILL))
steps(viewkeep.connect("spark:///" + sys.argv[1]))
"""
)
CALLS = 21
"""Writes and commits of `steps`; a test below counts them."""
KILLED_AT = (2, 3, 5, 8, 9, 11, 13, 16, 19, 21)
T0 = bag((i % 4, i) for i in range(20))
T1 = T0 + bag([(9, 9), (1, -5)]) - bag([(3, 3)])
T2 = bag(r for r in [(i % 4, i) for i in range(17) if i != 3] + [(9, 9), (1, -5)])
U0 = bag([(0, "zero"), (1, "one"), (1, "uno")])


class Crash(BaseException):
    """What a SIGKILL is to a process, as far as one process can play it to itself."""


steps_module: dict[str, Any] = {}
exec(STEPS, steps_module)
watch: Callable[[int, Callable[[], None]], Callable[[], int]] = steps_module["watch"]
steps: Callable[[viewkeep.Keeper], None] = steps_module["steps"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse to copy: everything in it is found from where it stands."""
    from conftest import why_not_spark

    if reason := why_not_spark():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("prepared") / "lake"
    with viewkeep.connect(f"spark:///{folder}") as keeper:
        keeper.sql("CREATE TABLE t (g INT, x INT); CREATE TABLE u (g INT, label STRING)")
        keeper.sql(f"INSERT INTO t VALUES {', '.join(f'({i % 4}, {i})' for i in range(20))}")
        keeper.sql("INSERT INTO u VALUES (0, 'zero'), (1, 'one'), (1, 'uno')")
        for name, query in VIEWS.items():
            keeper.sql(f"CREATE MATERIALIZED VIEW {name} WITH (policy = 'incremental') AS {query}")
    return folder


def check_after_crash(folder: Path, what: str) -> None:
    with viewkeep.connect(f"spark:///{folder}") as keeper:
        t, u = (bag(rows_of(keeper.query(f"SELECT * FROM {table}"))) for table in ("t", "u"))
        assert t in (T0, T1, T2), f"{what}: a change is whole or not at all: {t}"
        assert u in (U0, U0 + bag([(9, "nine")])), what
        known = {s.view for s in keeper.status()}
        assert known - {"late"} == set(VIEWS), what
        for view in known:
            assert keeper.verify(view).equal, f"{what}: {view} is its query at the versions it has consumed"
        if "late" not in known:
            keeper.sql(f"CREATE MATERIALIZED VIEW late AS {LATE}")
        keeper.refresh()
        for view, query in {**VIEWS, "late": LATE}.items():
            assert_view_equals_query(keeper, view, query, f"{what}: {view}")
            assert keeper.verify(view).equal, what
        assert {(r.strategy, r.jobs) for r in keeper.refresh()} == {("unchanged", 0)}, what
        keeper.sql("INSERT INTO t VALUES (2, 77); DELETE FROM t WHERE g = 1")
        keeper.refresh()
        for view, query in VIEWS.items():
            assert_view_equals_query(keeper, view, query, f"{what}: {view}, later")


def test_the_steps_write_and_commit_as_often_as_is_tested(prepared: Path, tmp_path: Path) -> None:
    shutil.copytree(prepared, tmp_path / "lake")
    restore = watch(0, lambda: None)
    with viewkeep.connect(f"spark:///{tmp_path / 'lake'}") as keeper:
        steps(keeper)
    assert restore() == CALLS
    check_after_crash(tmp_path / "lake", "without a crash")


@pytest.mark.parametrize(
    "point", [p if p % 5 == 1 else pytest.param(p, marks=pytest.mark.slow) for p in range(1, CALLS + 1)]
)
def test_a_crash_before_each_write_and_commit(
    prepared: Path, tmp_path: Path, point: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one commit is before the next write. A dead process does not clean up either."""
    folder = tmp_path / "lake"
    shutil.copytree(prepared, folder)
    keeper = viewkeep.connect(f"spark:///{folder}")

    def crash() -> None:
        monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
        raise Crash

    restore = watch(point, crash)
    try:
        with pytest.raises(Crash):
            steps(keeper)
    finally:
        restore()
        monkeypatch.undo()
    check_after_crash(folder, f"before call {point}")


@pytest.mark.parametrize("point", [p if p in (3, 13) else pytest.param(p, marks=pytest.mark.slow) for p in KILLED_AT])
def test_a_process_killed_at_a_write_or_commit(prepared: Path, tmp_path: Path, point: int) -> None:
    folder = tmp_path / "lake"
    shutil.copytree(prepared, folder)
    command = [sys.executable, "-c", CHILD, str(folder), str(point)]
    died = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr[-2000:]
    check_after_crash(folder, f"killed before call {point}")


BUSY = """
import random, sys
import viewkeep
keeper = viewkeep.connect("spark:///" + sys.argv[1])
rng = random.Random(int(sys.argv[2]))
keeper.refresh()
print("ready", flush=True)
while True:
    keeper.sql(f"INSERT INTO t VALUES ({rng.randint(0, 5)}, {rng.randint(0, 99)})")
    keeper.sql(f"DELETE FROM t WHERE x = {rng.randint(0, 99)}")
    keeper.refresh()
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_process_killed_at_any_moment(prepared: Path, tmp_path: Path, seed: int) -> None:
    folder = tmp_path / "lake"
    shutil.copytree(prepared, folder)
    with start(BUSY, folder, seed) as busy:
        wait_for(busy, "ready")
        time.sleep(random.Random(seed).uniform(0.2, 3))
        busy.kill()
    with viewkeep.connect(f"spark:///{folder}") as keeper:
        for view in VIEWS:
            assert keeper.verify(view).equal, view
        keeper.refresh()
        for view, query in VIEWS.items():
            assert_view_equals_query(keeper, view, query, view)


# ---------------------------------------------------------------------- several processes at once
FOLLOWER = """
import os, sys
import viewkeep
keeper = viewkeep.connect("spark:///" + sys.argv[1])
keeper.refresh()
print("ready", flush=True)
runs = 0
while not os.path.exists(sys.argv[2]):
    keeper.refresh()
    runs += 1
print("runs", runs, flush=True)
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if line.startswith(word):
            return line
    raise AssertionError("".join(said)[-3000:])


@pytest.mark.parametrize("seconds", [15, pytest.param(60, marks=pytest.mark.slow)])
def test_two_processes_refresh_while_a_third_changes_the_tables(prepared: Path, tmp_path: Path, seconds: int) -> None:
    folder, stop = tmp_path / "lake", tmp_path / "stop"
    shutil.copytree(prepared, folder)
    followers = [start(FOLLOWER, folder, stop) for _ in range(2)]
    try:
        for follower in followers:
            wait_for(follower, "ready")
        rng = random.Random(seconds)
        with viewkeep.connect(f"spark:///{folder}") as keeper:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                g, x = rng.randint(0, 5), rng.randint(0, 30)
                match rng.choice(["insert", "delete", "apply", "other"]):
                    case "insert":
                        keeper.sql(f"INSERT INTO t VALUES ({g}, {x}), ({g}, {x})")
                    case "delete":
                        keeper.sql(f"DELETE FROM t WHERE x = {x}")
                    case "apply":
                        present = rows_of(keeper.query("SELECT * FROM t LIMIT 3"))
                        keeper.apply("t", weighted([(r, -1) for r in present] + [((g, x), 2)]))
                    case _:
                        keeper.sql(f"INSERT INTO u VALUES ({g}, 'l{x}')")
            stop.touch()
            runs = [int(wait_for(f, "runs").split()[1]) for f in followers]
            for follower in followers:
                assert follower.wait(300) == 0
            keeper.refresh()
            for view, query in VIEWS.items():
                assert_view_equals_query(keeper, view, query, view)
                assert keeper.verify(view).equal, view
                versions = [r.version for r in keeper.history(view)]
                assert versions == sorted(set(versions)), f"{view}: each version was made by one refresh"
    finally:
        for follower in followers:
            follower.kill()
            follower.wait()
    assert min(runs) > 0


def weighted(entries: list[tuple[Row, int]]) -> pa.Table:
    columns = {n: pa.array([r[i] for r, _ in entries], pa.int32()) for i, n in enumerate(("g", "x"))}
    return pa.table({**columns, "_w": [w for _, w in entries]})


@pytest.mark.parametrize("full", [False, True])
def test_a_refresh_that_another_has_overtaken(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    """A run reads its tables at versions that it looked up first; another may have gone beyond some of them."""
    from viewkeep.runtime.lake.refresh import LakeRefresher

    shutil.copytree(prepared, tmp_path / "lake")
    first, second = (viewkeep.connect(f"spark:///{tmp_path / 'lake'}") for _ in range(2))
    original, overtaken = LakeRefresher._attempt, []

    def attempt(self: LakeRefresher, *arguments: Any) -> Any:
        if self.db is first._db and not overtaken:
            overtaken.append(True)
            # The other one sees a newer `u` than this run does, and this run a newer `t`.
            second.sql("INSERT INTO u VALUES (2, 'two'), (5, 'five')")
            run = LakeRefresher(second._db)  # type: ignore[arg-type]
            run.sources.pin(viewkeep.TableName("t"), before_t)
            run.run([second._db.record("pairs")], frozenset())
        return original(self, *arguments)

    before_t = second._db.warehouse.snapshot(viewkeep.TableName("t"))  # type: ignore[attr-defined]
    first.sql("INSERT INTO t VALUES (2, 100), (5, 500); DELETE FROM t WHERE x = 2")
    monkeypatch.setattr(LakeRefresher, "_attempt", attempt)
    first.refresh("pairs", full=full)
    assert overtaken
    assert first.verify("pairs").equal
    first.refresh("pairs")
    assert_view_equals_query(first, "pairs", VIEWS["pairs"])
    first.close()
    second.close()
