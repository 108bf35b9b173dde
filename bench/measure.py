"""Wall time, and the two promises every measured refresh must keep: it was incremental, and it was right."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import viewkeep
from bench.database import REFERENCE

VIEW = "kept"


class BenchmarkError(Exception):
    """A number that must not be shown: what was timed is not what the benchmark claims."""


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds of one batch."""

    apply: float
    refresh: float
    recompute: float


@dataclass(frozen=True, slots=True)
class Summary:
    """The middle of several batches; and fastest refresh ÷ fastest recompute, which other work disturbs least."""

    apply: float
    refresh: float
    recompute: float
    best_ratio: float
    slowest: float
    """The slowest refresh."""

    @property
    def ratio(self) -> float:
        return self.refresh / self.recompute


def summary(runs: Sequence[Run]) -> Summary:
    apply, refresh, recompute = (median(getattr(r, n) for r in runs) for n in ("apply", "refresh", "recompute"))
    refreshes = [r.refresh for r in runs]
    best_ratio = min(refreshes) / min(r.recompute for r in runs)
    return Summary(apply, refresh, recompute, best_ratio, max(refreshes))


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def timed_refresh(keeper: viewkeep.Keeper, strategy: str = "classical") -> float:
    """Seconds of one refresh; refuses a refresh that took another way than the one being measured."""
    start = time.perf_counter()
    report = keeper.refresh(VIEW)
    spent = time.perf_counter() - start
    if report.strategy != strategy:
        raise BenchmarkError(f"the refresh was {report.strategy!r}, not {strategy!r}: {report.reason}")
    return spent


def timed_recompute(keeper: viewkeep.Keeper, query: str) -> float:
    """Seconds DuckDB needs to store the view's query again.

    Sent to the engine, not through `keeper.sql`: a schema change seen there would make the next refresh
    compile its view anew, and the comparison would slow down what it compares with.
    """
    return seconds(lambda: keeper.engine.execute(f"CREATE OR REPLACE TABLE {REFERENCE} AS {query}"))


def run_batch(keeper: viewkeep.Keeper, query: str, change: Callable[[], object]) -> Run:
    applied = seconds(change)
    refreshed = timed_refresh(keeper)
    return Run(applied, refreshed, timed_recompute(keeper, query))


def check(keeper: viewkeep.Keeper) -> None:
    """The view equals its query; never timed."""
    if not (report := keeper.verify(VIEW)).equal:
        raise BenchmarkError(str(report))


def median(values: Iterable[float]) -> float:
    return statistics.median(values)
