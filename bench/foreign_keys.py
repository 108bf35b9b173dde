"""Foreign keys: the views and the update policy of the paper, every strategy in one run, each in a database of its own.

The delta computation is everything that a refresh does before it changes the view: the question whether keys can be
relied on, the statement that computes the change, and for `foreign-key-materialized` all that is done for its parts.
"""

from __future__ import annotations

import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import viewkeep
from bench.database import database
from bench.fk_data import Rows, changing, key_of
from bench.fk_views import BY_SHARE, CHAIN, SNOWFLAKE, SNOWFLAKE_FILTER, STARS, VIEWS, View
from bench.measure import VIEW, BenchmarkError, median, seconds, timed_recompute
from bench.tables import COUNT, MS, PERCENT, RATIO, Column, Result, Table, verdict
from viewkeep.runtime.compiled import UNASKED

CLASSICAL, ENFORCED, CHECKED, MATERIALIZED = STRATEGIES = (
    "classical", "foreign-key", "auto, checked keys", "foreign-key-materialized",
)  # fmt: skip
SHARE = 0.001
"""Of the rows that point nowhere: half of it comes, half of it goes."""
SHARES = (0.0005, 0.001, 0.002, 0.005)
QUICK = {"tpcds": 0.01, "tpch": 0.01}
"""Scales of a quick run, by the benchmark that the data are of."""
SIZES = {"ss": 1, "cs": 2, "ws": 4, "snowflake": 4}
"""A fact has as many rows as store_sales at a scale that is so many times as large, by the names of views on it."""
DELTA_TARGET, REFRESH_TARGET, NEVER_SLOWER = 1 / 2.7, 1 / 2, 1.05


@dataclass(slots=True)
class Seen:
    """What was measured of one view with one strategy."""

    strategy: str
    scale: float
    delta: list[float] = field(default_factory=list)
    refresh: list[float] = field(default_factory=list)
    recompute: list[float] = field(default_factory=list)
    guard: list[float] = field(default_factory=list)
    rows_read: int = 0
    branches: tuple[int, int] = (0, 0)
    changed: int = 0


class Place(ABC):
    """Where views are measured."""

    name: str
    counts_apart = True
    """Whether counting rows takes time, so that it needs a round of its own."""

    @abstractmethod
    def open(self) -> Any:
        """A context with a keeper over an empty database."""

    @abstractmethod
    def fill(self, keeper: viewkeep.Keeper, table: str, rows: pa.Table) -> None: ...

    @abstractmethod
    def change(self, keeper: viewkeep.Keeper, table: str, key: Sequence[str], come: pa.Table, go: pa.Table) -> None: ...

    @abstractmethod
    def watch(self, keeper: viewkeep.Keeper) -> Watch: ...

    @abstractmethod
    def recompute(self, keeper: viewkeep.Keeper, view: View) -> float: ...

    @abstractmethod
    def check(self, keeper: viewkeep.Keeper, view: View) -> None:
        """That the view equals its query; never timed."""


class Watch(ABC):
    """Looks on while a view is refreshed."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def delta(self) -> float:
        """Seconds of the delta computation since the start."""

    @abstractmethod
    def guard(self) -> float:
        """Seconds of it that went into asking whether keys can be relied on."""

    def counting(self) -> Any:
        """A context in which rows are counted, at the expense of time."""
        return nullcontext()

    @abstractmethod
    def rows(self) -> int:
        """Rows read from tables in that context, or by the last refresh."""


# ---------------------------------------------------------------------- DuckDB
class DuckDB(Place):
    name = "foreign-keys"

    def open(self) -> Any:
        return database("memory")

    def fill(self, keeper: viewkeep.Keeper, table: str, rows: pa.Table) -> None:
        with keeper.engine.bound("bench_rows", rows):
            keeper.sql(f"CREATE TABLE {table} AS FROM bench_rows")

    def change(self, keeper: viewkeep.Keeper, table: str, key: Sequence[str], come: pa.Table, go: pa.Table) -> None:
        if come.num_rows:
            keeper.load(table, come)
        if go.num_rows:
            columns = ", ".join(key)
            with keeper.engine.bound("bench_gone", go.select(list(key))):
                keeper.sql(f"DELETE FROM {table} WHERE ({columns}) IN (SELECT ({columns}) FROM bench_gone)")

    def watch(self, keeper: viewkeep.Keeper) -> Watch:
        return Statements(keeper)

    def recompute(self, keeper: viewkeep.Keeper, view: View) -> float:
        return timed_recompute(keeper, view.query)

    def check(self, keeper: viewkeep.Keeper, view: View) -> None:
        """By a sum of hashes of rows: comparing millions of rows as bags takes longer than all that is timed."""
        told = "SELECT COUNT(*), SUM(hash(r)::HUGEINT) FROM"
        kept, wanted = (keeper.engine.execute(f"{told} ({q}) r") for q in (f"SELECT * FROM {VIEW}", view.query))
        if kept != wanted:
            raise BenchmarkError(f"{view.name} is not equal to its query: {kept} is not {wanted}")


class Statements(Watch):
    """Times the statements that reach DuckDB, by what they are for."""

    def __init__(self, keeper: viewkeep.Keeper) -> None:
        self._engine: Any = keeper.engine
        self._run: Callable[..., Any] = self._engine.execute
        self._spent: list[tuple[str, float]] = []
        self._counted: int | None = None
        self._engine.execute = self._timed

    def _timed(self, sql: str, *rest: Any) -> Any:
        start = time.perf_counter()
        answer = self._run(sql, *rest)
        self._spent.append((_purpose(sql), time.perf_counter() - start))
        if self._counted is not None and not sql.startswith(("SET", "BEGIN", "COMMIT", "DROP")):
            told = self._engine.connection.get_profiling_information()
            self._counted += sum(_scanned(o) for o in json.loads(told).get("operator", ()))
        return answer

    def start(self) -> None:
        self._spent.clear()

    def delta(self) -> float:
        return sum(spent for purpose, spent in self._spent if purpose in ("guard", "delta"))

    def guard(self) -> float:
        return sum(spent for purpose, spent in self._spent if purpose == "guard")

    @contextmanager
    def counting(self) -> Iterator[None]:
        self._run("SET enable_profiling = 'no_output'")
        self._counted = 0
        try:
            yield
        finally:
            self._found, self._counted = self._counted, None
            self._run("RESET enable_profiling")

    def rows(self) -> int:
        return int(self._found or 0)


def _purpose(sql: str) -> str:
    if sql.startswith("SELECT edge, reason"):
        return "guard"
    if f"_vk_change_{VIEW}" in sql and sql.startswith("CREATE") and "_vk_out" not in sql.split("AS", 1)[0]:
        return "delta"
    return "delta" if f"sub_{VIEW}" in sql and f"data_{VIEW}" not in sql else "other"


def _scanned(operator: dict[str, Any]) -> int:
    return int(operator.get("rows_scanned", 0)) + sum(_scanned(c) for c in operator.get("children", ()))


# ---------------------------------------------------------------------- measuring
def foreign_keys(quick: bool = False) -> Result:
    # The chain's rows are wide: at TPC-H scale 10 they would not fit into memory. Nine rounds: in some of them DuckDB
    # writes a checkpoint, which takes longer than the refresh.
    return compare(DuckDB(), QUICK if quick else scales(10.0, tpcds=10.0, tpch=1.0), 1 if quick else 9, quick)


def scales(store_sales: float, **others: float) -> dict[str, float]:
    """Stars and snowflakes have facts of as many rows as store_sales has at a scale."""
    views = [*STARS, SNOWFLAKE, SNOWFLAKE_FILTER]
    return {**others, **{view.name: store_sales * SIZES[view.name.partition("_")[0]] for view in views}}


def compare(place: Place, scales: Mapping[str, float], rounds: int, quick: bool) -> Result:
    views = [STARS[2], SNOWFLAKE, CHAIN] if quick else VIEWS
    share = 0.02 if quick else SHARE  # of a few rows a thousandth is none
    found = {}
    for view in views:
        found[view.name] = seen = measure(place, view, _scale(view, scales), share, rounds)
        times = ", ".join(f"{s} {median(t.delta):.3f} of {median(t.refresh):.3f} s" for s, t in seen.items())
        print(f"{view.name}: {times}", file=sys.stderr, flush=True)
    shares = [(0.02,)] if quick else [SHARES]
    by_share = Table(
        "by share of the rows that point nowhere",
        (Column("view"), Column("share", PERCENT), Column("changed rows", COUNT), Column("classical ms", MS),
         Column("foreign-key ms", MS), Column("guard ms", MS), Column("ratio", RATIO)),
    )  # fmt: skip
    for view in [] if quick else BY_SHARE:
        for each in shares[0]:
            known = (
                found[view.name]
                if each == share
                else measure(place, view, _scale(view, scales), each, rounds, STRATEGIES[:2])
            )
            old, new = known[CLASSICAL], known[ENFORCED]
            times = median(old.delta), median(new.delta)
            by_share.add(view.name, each, old.changed, *times, median(new.guard), times[1] / times[0])
    tables = [_delta(views, found, quick), _refresh(views, found, quick), _rows(views, found)]
    if by_share.rows:
        tables.append(by_share)
    about = f"{share:.2%} of the rows that point nowhere changed, and what points at them; TPC-DS, the chain TPC-H"
    return Result(place.name, about, tables)


def _scale(view: View, scales: Mapping[str, float]) -> float:
    """The scale that is named for the view, or for the benchmark that its data are of."""
    return scales.get(view.name) or scales[view.benchmark]


def measure(
    place: Place, view: View, scale: float, share: float, rounds: int, strategies: Sequence[str] = STRATEGIES
) -> dict[str, Seen]:
    batches = rounds + 1 + place.counts_apart
    rows = changing(view.benchmark, scale, view.tables, view.keys, share, view.query, batches)
    return {
        strategy: _measure(place, view, rows, scale, strategy, rounds)
        for strategy in strategies
        if strategy != MATERIALIZED or not view.shape.startswith("star")  # a star has no parts
    }


def _measure(place: Place, view: View, rows: dict[str, Rows], scale: float, strategy: str, rounds: int) -> Seen:
    """One warming round, the measured ones, and perhaps one in which rows are counted."""
    seen, wanted = Seen(strategy, scale), strategy.partition(",")[0]
    with place.open() as keeper:
        for table, found in rows.items():
            place.fill(keeper, table, found.start)
            keeper.declare_key(table, key_of(view.benchmark, table))
        for key in view.keys:
            trust = "checked" if strategy == CHECKED else "enforced"
            keeper.declare_foreign_key(key.child, key.columns, key.parent, key.parent_columns, trust)
        keeper.sql(
            f"CREATE MATERIALIZED VIEW {VIEW} WITH (strategy = '{wanted}', policy = 'incremental') AS {view.query}"
        )
        seen.branches = _branches(keeper) if wanted != CLASSICAL else (0, 0)
        seen.changed = sum(r.changed for r in rows.values())
        watch = place.watch(keeper)
        for number in range(rounds + 1 + place.counts_apart):
            for table, found in rows.items():
                place.change(keeper, table, key_of(view.benchmark, table), *found.batches[number])
            watch.start()
            if number > rounds:
                with watch.counting():
                    keeper.refresh(VIEW)
                continue
            reports: list[viewkeep.RefreshReport] = []
            refreshed = seconds(lambda reports=reports: reports.append(keeper.refresh(VIEW)))
            _expect(reports[0], wanted)
            if number:
                seen.delta.append(watch.delta())
                seen.guard.append(watch.guard())
                seen.refresh.append(refreshed)
                if strategy == CLASSICAL:
                    seen.recompute.append(place.recompute(keeper, view))
        seen.rows_read = watch.rows()
        place.check(keeper, view)
    return seen


def _branches(keeper: viewkeep.Keeper) -> tuple[int, int]:
    first = keeper.explain(VIEW, graph="text").splitlines()[0]
    before, after = first.partition("branches ")[2].rstrip(":").split(" → ")
    return int(before), int(after)


def _expect(report: viewkeep.RefreshReport, wanted: str) -> None:
    # Some graphs have no parts; and about one key alone 'auto' does not ask a large table.
    allowed = {MATERIALIZED: {wanted, "foreign-key"}, "auto": {"foreign-key", "classical"}}.get(wanted, {wanted})
    if report.strategy not in allowed or set(report.dropped.values()) - {UNASKED}:
        raise BenchmarkError(f"the refresh was {report.strategy!r}, not {wanted!r}: {report.reason}")


# ---------------------------------------------------------------------- tables
def _columns(*more: Column) -> tuple[Column, ...]:
    return (
        Column("view"), Column("scale"), Column("branches"), Column("changed rows", COUNT),
        *(Column(f"{s} ms", MS) for s in STRATEGIES), *more,
    )  # fmt: skip


def _delta(views: Sequence[View], found: dict[str, dict[str, Seen]], quick: bool) -> Table:
    table = Table(
        "delta computation",
        _columns(Column("ratio", RATIO), Column("times faster", RATIO), Column("target ≤", RATIO), Column("verdict")),
        notes=("ratio: foreign-key ÷ classical; keys enforced, as in the paper. Checked keys ask the tables first.",),
    )
    for view in views:
        seen = found[view.name]
        times = [median(seen[s].delta) if s in seen else None for s in STRATEGIES]
        target = DELTA_TARGET if view.shape in ("snowflake", "star, 3") else NEVER_SLOWER
        ratio = _ratio(seen, "delta")
        met = verdict(ratio, target, quick)
        table.add(view.name, *_told(seen), *times, ratio, 1 / ratio, target, met)
    return table


def _refresh(views: Sequence[View], found: dict[str, dict[str, Seen]], quick: bool) -> Table:
    table = Table(
        "whole refresh",
        _columns(
            Column("recompute ms", MS), Column("ratio", RATIO), Column("times faster", RATIO),
            Column("target ≤", RATIO), Column("verdict"), Column("auto ÷ classical", RATIO),
        ),
    )  # fmt: skip
    for view in views:
        seen = found[view.name]
        times = [median(seen[s].refresh) if s in seen else None for s in STRATEGIES]
        target = REFRESH_TARGET if view.shape in ("snowflake", "star, 3") else NEVER_SLOWER
        ratio, recompute = _ratio(seen, "refresh"), median(seen[CLASSICAL].recompute)
        met = verdict(ratio, target, quick)
        checked = _ratio(seen, "refresh", CHECKED)
        table.add(view.name, *_told(seen), *times, recompute, ratio, 1 / ratio, target, met, checked)
    return table


def _rows(views: Sequence[View], found: dict[str, dict[str, Seen]]) -> Table:
    table = Table("rows read by a refresh", (Column("view"), *(Column(s, COUNT) for s in STRATEGIES)))
    for view in views:
        seen = found[view.name]
        table.add(view.name, *(seen[s].rows_read if s in seen else None for s in STRATEGIES))
    return table


def _ratio(seen: dict[str, Seen], times: str, strategy: str = ENFORCED) -> float:
    new, old = (median(getattr(seen[s], times)) for s in (strategy, CLASSICAL))
    return new / old


def _told(seen: dict[str, Seen]) -> tuple[str, str, int]:
    before, after = seen[ENFORCED].branches
    return f"{seen[ENFORCED].scale:g}", f"{before} → {after}", seen[ENFORCED].changed
