"""Profile: where the time of a refresh goes: the log, binding relations, planning, jobs, the commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import viewkeep
from bench.data import INCOME_QUERY
from bench.measure import check, median, timed_refresh
from bench.spark.income import Payments, income
from bench.spark.jobs import JobWatch
from bench.spark.w2 import warm_up
from bench.spark.warehouse import Reference, database_of, warehouse
from bench.tables import COUNT, MS, PERCENT, Column, Result, Table

_OUTSIDE = "Python, between all of these"
_WRITING = "planning, starting and finishing jobs"


class Clock:
    """Time by label, each moment counted once: for the innermost label that is running."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self.times: dict[str, int] = {}
        self._running: list[tuple[str, float]] = []
        self._wrapped: list[tuple[Any, str, Any]] = []

    @contextmanager
    def running(self, label: str) -> Iterator[None]:
        start = time.perf_counter()
        self._running.append((label, 0.0))
        try:
            yield
        finally:
            whole = time.perf_counter() - start
            _, inner = self._running.pop()
            self.spent[label] = self.spent.get(label, 0.0) + whole - inner
            self.times[label] = self.times.get(label, 0) + 1
            if self._running:
                outer, already = self._running[-1]
                self._running[-1] = (outer, already + whole)

    def wrap(self, owner: Any, name: str, label: str) -> None:
        run: Callable[..., Any] = getattr(owner, name)

        def timed(*given: Any, **named: Any) -> Any:
            with self.running(label):
                return run(*given, **named)

        self._wrapped.append((owner, name, run))
        setattr(owner, name, timed)

    def unwrap(self) -> None:
        for owner, name, run in self._wrapped:
            setattr(owner, name, run)
        self._wrapped.clear()


def watched(keeper: viewkeep.Keeper) -> Clock:
    """Everything of a refresh that is worth a line of its own, timed from now on."""
    import viewkeep.engine.spark as engine
    import viewkeep.runtime.lake.maintenance as maintenance

    clock, db = Clock(), database_of(keeper)
    for name, label in (
        ("snapshot", "log: newest snapshots"),
        ("positions", "log: positions"),
        ("changes", "log: what changed"),
        ("commit", "log: commit"),
    ):
        clock.wrap(db.warehouse.format, name, label)
    clock.wrap(db, "invalid_sources", "checking that the sources are as they were")
    clock.wrap(db.spark, "files", "binding: relations of files")
    clock.wrap(db.spark, "register", "binding: temporary views")
    clock.wrap(db.spark, "sql", "planning: SQL to a resolved plan")
    clock.wrap(db.spark, "write", _WRITING)
    clock.wrap(db.spark, "write_arrow", "driver: files written")
    clock.wrap(db.local, "query", "driver: the change merged into stored rows")
    clock.wrap(engine, "written_files", "statistics of the written files")
    clock.wrap(maintenance, "read_small", "driver: the delta read")
    return clock


def profiling(quick: bool = False) -> Result:
    gods, payments, ks = (50, 5_000, (100,)) if quick else (100_000, 5_000_000, (1_000, 100_000))
    with warehouse() as keeper:
        rows = income(keeper, gods, payments)
        warm_up(keeper, rows, Reference(keeper, INCOME_QUERY, ("gods", "payments")), 1 if quick else 5)
        clock, watch = watched(keeper), JobWatch(keeper)
        try:
            tables = [_profile(keeper, clock, watch, rows, k, 1 if quick else 5) for k in ks]
        finally:
            clock.unwrap()
        check(keeper)
    return Result("spark-profile", f"where the time of a refresh of W2 goes ({payments:,} payments)", tables)


def _profile(keeper: viewkeep.Keeper, clock: Clock, watch: JobWatch, rows: Payments, k: int, rounds: int) -> Table:
    totals, spent, times, jobs = [], [], [], []
    for _ in range(rounds):
        keeper.apply("payments", rows.batch(k, k // 100))
        watch.taken()
        clock.spent, clock.times = {}, {}
        totals.append(timed_refresh(keeper))
        found = watch.taken()
        jobs.append(found)
        running = sum(j.seconds for j in found)
        each = {
            f"job {i}: {j.stages} stages, {j.tasks} tasks, reads {j.rows:,} rows": j.seconds
            for i, j in enumerate(found, 1)
        }
        inside = dict(clock.spent)
        inside[_WRITING] = max(inside.get(_WRITING, 0.0) - running, 0.0)
        inside[_OUTSIDE] = totals[-1] - sum(clock.spent.values())
        spent.append({**inside, **each})
        times.append(dict(clock.times))
    total = median(totals)
    table = Table(
        f"W2, k = {k:,}: refresh {total * 1000:.0f} ms, {len(jobs[-1])} jobs, median of {rounds}",
        (Column("what"), Column("times", COUNT), Column("ms", MS), Column("share", PERCENT)),
    )
    labels = list(dict.fromkeys(label for found in spent for label in found))
    middles = {label: median(found.get(label, 0.0) for found in spent) for label in labels}
    for label in sorted(labels, key=lambda name: -middles[name]):
        table.add(label, max(t.get(label, 1) for t in times), middles[label], middles[label] / total)
    return table
