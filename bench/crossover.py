"""Crossover: from which share of changed rows running the query again is the cheaper way.

Each share is measured in databases of their own, one that refreshes incrementally and one that
recomputes (policy 'full'), on the same rows; at half the size of W1 and W2, since there are many.
viewkeep's own recompute also writes down what changed in the view, for views on views and for
`changes()`; DuckDB's CREATE TABLE … AS does not. The chooser decides between the first two, so
their crossing is the number it needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

import viewkeep
from bench.data import INCOME_QUERY, JOIN_QUERY, JOIN_SCHEMA, IncomeRows, JoinRows
from bench.database import create_view, database, delete_by
from bench.measure import check, median, timed_recompute, timed_refresh
from bench.tables import COUNT, MS, PERCENT, RATIO, Column, Result, Table
from bench.w2 import change_payments, load_income

SHARES = (0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.35, 0.6)
Step = Callable[[int], Callable[[], object]]
"""Given a number of rows, make the change outside of the clock and return what applies it."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of the plot: how to load the tables, and how to change a number of rows."""

    title: str
    query: str
    start: Callable[[viewkeep.Keeper, bool], tuple[int, Step]]


def _start_join(keeper: viewkeep.Keeper, quick: bool) -> tuple[int, JoinRows]:
    left, right = (4_000, 100) if quick else (1_000_000, 10_000)
    rows = JoinRows(keys=right)
    keeper.sql(JOIN_SCHEMA)
    keeper.load("left_side", rows.left(left))
    keeper.load("right_side", rows.right(right))
    return left + right, rows


def _join_inserts(keeper: viewkeep.Keeper, quick: bool) -> tuple[int, Step]:
    total, rows = _start_join(keeper, quick)

    def step(count: int) -> Callable[[], object]:
        batch = rows.left(count)
        return lambda: keeper.load("left_side", batch)

    return total, step


def _join_replaced(keeper: viewkeep.Keeper, quick: bool) -> tuple[int, Step]:
    """Half of the changed rows go, as many new ones come."""
    total, rows = _start_join(keeper, quick)

    def step(count: int) -> Callable[[], object]:
        gone = pa.table([rows.some_left_ids(count // 2)], names=["increment_id"])
        batch = rows.left(count - count // 2)

        def change() -> None:
            delete_by(keeper, "left_side", "increment_id", gone)
            keeper.load("left_side", batch)

        return change

    return total, step


def _income(keeper: viewkeep.Keeper, quick: bool) -> tuple[int, Step]:
    gods, payments = (50, 5_000) if quick else (50_000, 2_500_000)
    rows = IncomeRows(gods)
    load_income(keeper, rows, payments)

    def step(count: int) -> Callable[[], object]:
        batch = rows.batch(count - count // 100, count // 100)
        return lambda: change_payments(keeper, batch)

    return gods + payments, step


CURVES = (
    Curve("join view, inserts", JOIN_QUERY, _join_inserts),
    Curve("join view, half deletes", JOIN_QUERY, _join_replaced),
    Curve("sums over a join, 1 % deletes", INCOME_QUERY, _income),
)


def crossover(quick: bool = False) -> Result:
    shares, batches = ((0.01, 0.2), 1) if quick else (SHARES, 3)
    found = Table(
        "from this share of changed rows on, recompute is cheaper",
        (Column("view"), Column("than viewkeep's recompute", PERCENT), Column("than CREATE TABLE … AS", PERCENT)),
        notes=("read off between the measured shares, on a logarithmic scale; – : never within them",),
    )
    tables = [_table(curve, shares, batches, quick) for curve in CURVES]
    for table in tables:
        own, plain = (crossing(shares, table.column(name)) for name in ("÷ viewkeep", "÷ DuckDB"))
        found.add(table.title.split(":")[0], own, plain)
    return Result("crossover", "refresh against recompute by the share of changed rows", [*tables, found])


def _table(curve: Curve, shares: Sequence[float], batches: int, quick: bool) -> Table:
    table = Table(
        f"{curve.title}: changed rows as a share of all source rows, in memory, median of {batches}",
        (
            Column("share", PERCENT),
            Column("changed rows", COUNT),
            Column("refresh ms", MS),
            Column("viewkeep's recompute ms", MS),
            Column("CREATE TABLE … AS ms", MS),
            Column("÷ viewkeep", RATIO),
            Column("÷ DuckDB", RATIO),
        ),
    )
    for share in shares:
        count, runs = _measure(curve, share, batches, quick)
        refresh, own, plain = ([run[i] for run in runs] for i in range(3))
        # Ratios batch by batch: the tables grow, and both ways are compared on the same size.
        ratios = (median(a / b for a, b in zip(refresh, other, strict=True)) for other in (own, plain))
        table.add(share, count, median(refresh), median(own), median(plain), *ratios)
    return table


def _measure(curve: Curve, share: float, batches: int, quick: bool) -> tuple[int, list[tuple[float, float, float]]]:
    """Changed rows of the first batch; for each batch the seconds of refresh, viewkeep's recompute, DuckDB's own.

    The two databases take turns, batch by batch: what else the machine does then disturbs both alike.
    """
    first, runs = 0, []
    with database("memory") as kept, database("memory") as full:
        total, change = curve.start(kept, quick)
        _, change_full = curve.start(full, quick)
        create_view(kept, curve.query)
        create_view(full, curve.query, "full")
        for keeper, step in ((kept, change), (full, change_full)):
            step(max(total // 1_000, 2))()
            keeper.refresh("kept")  # the first refresh of a view also pays for compiling it
        for _ in range(batches):
            count = max(int(total * share), 2)
            first = first or count
            before = _rows(kept)
            change(count)()
            change_full(count)()
            total += _rows(kept) - before
            runs.append((timed_refresh(kept), timed_refresh(full, "recompute"), timed_recompute(kept, curve.query)))
        check(kept)
        check(full)
    return first, runs


def _rows(keeper: viewkeep.Keeper) -> int:
    tables = [r[0] for r in keeper.engine.execute("SHOW TABLES") if r[0] in ("left_side", "payments")]
    return int(keeper.engine.execute(f"SELECT COUNT(*) FROM {tables[0]}")[0][0])


def crossing(shares: Sequence[float], ratios: Sequence[float]) -> float | None:
    """The share at which the ratio rises through 1 to stay there; None if it ends below.

    >>> round(crossing([0.01, 0.1], [0.5, 2.0]), 4)
    0.0316
    >>> crossing([0.01, 0.1], [0.5, 0.9])
    """
    if ratios[-1] <= 1:
        return None
    for at in range(len(shares) - 1, 0, -1):
        low, high = ratios[at - 1], ratios[at]
        if low <= 1 < high:
            part = math.log(1 / low) / math.log(high / low)
            return math.exp(math.log(shares[at - 1]) + part * math.log(shares[at] / shares[at - 1]))
    return shares[0]
