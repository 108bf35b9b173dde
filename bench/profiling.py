"""Profile: which statements a refresh spends its time in."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import viewkeep
from bench.data import INCOME_QUERY, JOIN_QUERY, JOIN_SCHEMA, IncomeRows, JoinRows
from bench.database import create_view, database, delete_by
from bench.measure import check, median, timed_refresh
from bench.tables import COUNT, MS, PERCENT, Column, Result, Table
from bench.w2 import TARGETS, change_payments, load_income

_SHOWN = 8


class Recorder:
    """Times every statement that reaches an engine."""

    def __init__(self, keeper: viewkeep.Keeper) -> None:
        self.spent: dict[str, list[float]] = {}
        engine: Any = keeper.engine
        for name in ("execute", "arrow"):
            setattr(engine, name, self._timed(getattr(engine, name)))

    def _timed(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(sql: str, *rest: Any) -> Any:
            start = time.perf_counter()
            try:
                return run(sql, *rest)
            finally:
                self.spent.setdefault(label(sql), []).append(time.perf_counter() - start)

        return wrapped


def label(sql: str) -> str:
    """What a statement does and to which table, on one line.

    >>> label('INSERT INTO "a"."b" (x) SELECT 1')
    'INSERT INTO a.b'
    """
    text = " ".join(sql.replace('"', "").split())
    found = re.match(
        r"(INSERT (?:OR REPLACE )?INTO|MERGE INTO|DELETE FROM|UPDATE|CREATE.*?(?:TABLE|VIEW)(?: IF NOT EXISTS)?) (\S+)",
        text,
    )
    if found:
        return f"{found[1]} {found[2]}"
    if text.startswith("SELECT") and (source := re.findall(r" FROM ([\w.]+)", text)):
        return f"SELECT … FROM {', '.join(dict.fromkeys(source))}"
    return text[:60]


def profiling(quick: bool = False) -> Result:
    return Result("profile", "where refresh time goes, statement by statement", [*_join(quick), *_income(quick)])


def _join(quick: bool) -> list[Table]:
    left, right, delta = (4_000, 100, 200) if quick else (2_000_000, 20_000, 40_000)
    rows = JoinRows(keys=right)
    with database("memory") as keeper:
        keeper.sql(JOIN_SCHEMA)
        keeper.load("left_side", rows.left(left))
        keeper.load("right_side", rows.right(right))
        create_view(keeper, JOIN_QUERY)

        def insert() -> None:
            keeper.load("left_side", rows.left(delta))

        def replace() -> None:
            gone = pa.table([rows.some_left_ids(delta // 2)], names=["increment_id"])
            delete_by(keeper, "left_side", "increment_id", gone)
            keeper.load("left_side", rows.left(delta // 2))

        return [
            _profile(keeper, f"W1, +{delta:,} rows", insert, quick),
            _profile(keeper, f"W1, +{delta // 2:,} −{delta // 2:,} rows", replace, quick),
        ]


def _income(quick: bool) -> list[Table]:
    gods, payments = (50, 5_000) if quick else (100_000, 5_000_000)
    rows = IncomeRows(gods)
    with database("memory") as keeper:
        load_income(keeper, rows, payments)
        create_view(keeper, INCOME_QUERY)
        return [
            _profile(keeper, f"W2, k = {k:,}", lambda k=k: change_payments(keeper, rows.batch(k, k // 100)), quick)
            for k in ((100,) if quick else TARGETS)
        ]


def _profile(keeper: viewkeep.Keeper, title: str, change: Callable[[], object], quick: bool) -> Table:
    change()
    keeper.refresh("kept")  # the first refresh also compiles: it is not the one to look at
    rounds, totals, recorded = 2 if quick else 5, [], []
    recorder = Recorder(keeper)
    for _ in range(rounds):
        change()
        recorder.spent = {}
        totals.append(timed_refresh(keeper))
        recorded.append(recorder.spent)
        recorder.spent = {}  # the next change is not part of a refresh
    check(keeper)
    total = median(totals)
    labels = {name for spent in recorded for name in spent}
    middles = {name: median(sum(spent.get(name, [0.0])) for spent in recorded) for name in labels}
    counts = {name: max(len(spent.get(name, ())) for spent in recorded) for name in labels}
    table = Table(
        f"{title}: refresh {total * 1000:.1f} ms, in memory, median of {rounds}",
        (Column("statement"), Column("times", COUNT), Column("ms", MS), Column("share", PERCENT)),
    )
    ordered = sorted(middles, key=lambda name: -middles[name])
    for name in ordered[:_SHOWN]:
        table.add(name, counts[name], middles[name], middles[name] / total)
    rest = sum(middles[name] for name in ordered[_SHOWN:])
    table.add("all other statements", sum(counts[n] for n in ordered[_SHOWN:]), rest, rest / total)
    # Round by round: the sum of the medians above is not the median of the sums.
    inside = (sum(sum(found) for found in spent.values()) for spent in recorded)
    outside = median(whole - part for whole, part in zip(totals, inside, strict=True))
    table.add("outside of DuckDB (Python)", 0, outside, outside / total)
    return table
