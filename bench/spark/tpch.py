"""TPC-H: a dozen views, 0.1 % of the orders changed with their line items, in the manner of its refresh functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import viewkeep
from bench.measure import BenchmarkError, median, seconds
from bench.spark.jobs import JobWatch
from bench.spark.tpch_data import Orders, load
from bench.spark.tpch_views import APPENDED, VIEWS, View
from bench.spark.warehouse import Reference, warehouse
from bench.tables import COUNT, MS, RATIO, Column, Result, Table, verdict

TARGET = 0.35


@dataclass(slots=True)
class Seen:
    """What was measured of one view, batch by batch."""

    view: View
    reference: Reference
    refresh: list[float] = field(default_factory=list)
    recompute: list[float] = field(default_factory=list)
    jobs: int = 0
    rows: int = 0
    recompute_rows: int = 0
    strategy: str = ""


def tpch(quick: bool = False) -> Result:
    scale, warm, rounds = (0.01, 0, 1) if quick else (1.0, 3, 5)
    kinds = {"orders come and go, customers change": (VIEWS[:3] if quick else VIEWS, True)}
    if not quick:
        kinds = {"orders come": (APPENDED, False), **kinds}
    tables, whole = (
        [],
        Table(
            "all views together",
            (
                Column("batch"),
                Column("refresh ms", MS),
                Column("recompute ms", MS),
                Column("ratio", RATIO),
                Column("target ≤", RATIO),
                Column("verdict"),
                Column("slower than recompute"),
            ),
        ),
    )
    with warehouse() as keeper:
        orders = load(keeper, scale)
        for kind, (views, deletes) in kinds.items():
            seen = measure(keeper, orders, views, int(1_500 * scale), deletes, warm, rounds)
            tables.append(_table(f"{kind}, 0.1 % of {1_500_000 * scale:,.0f}, median of {rounds}", seen))
            refresh, recompute = (sum(median(getattr(s, n)) for s in seen) for n in ("refresh", "recompute"))
            slower = [
                f"{s.view.name} {median(s.refresh) / median(s.recompute):.2f}"
                for s in seen
                if median(s.refresh) > median(s.recompute)
            ]
            met = verdict(refresh / recompute, TARGET, quick)
            whole.add(kind, refresh, recompute, refresh / recompute, TARGET, met, ", ".join(slower) or "none")
    return Result("spark-tpch", f"TPC-H scale {scale:g}", [*tables, whole])


def measure(
    keeper: viewkeep.Keeper,
    orders: Orders,
    views: Sequence[View],
    changed: int,
    deletes: bool,
    warm: int,
    rounds: int,
    customers: bool = True,
) -> list[Seen]:
    """Refresh and recompute each view after each batch of changed orders; the first ones only warm up."""
    seen = []
    for view in views:
        keeper.sql(f"CREATE MATERIALIZED VIEW {view.name} WITH (policy = 'auto') AS {view.query}")
        seen.append(Seen(view, Reference(keeper, view.query, view.tables, view.name)))
    watch = JobWatch(keeper)
    for number in range(warm + rounds):
        orders.change(keeper, changed, deletes, customers and deletes)
        for one in seen:
            _run(keeper, one, watch, kept=number >= warm)
    for one in seen:
        if not (report := keeper.verify(one.view.name)).equal:
            raise BenchmarkError(str(report))
        keeper.sql(f"DROP MATERIALIZED VIEW {one.view.name}")
    return seen


def _run(keeper: viewkeep.Keeper, one: Seen, watch: JobWatch, kept: bool) -> None:
    watch.taken()
    reports = []
    refreshed = seconds(lambda: reports.append(keeper.refresh(one.view.name)))
    report, jobs = reports[0], watch.taken()
    recomputed = seconds(one.reference.recompute)
    again = watch.taken()
    if kept:
        one.refresh.append(refreshed)
        one.recompute.append(recomputed)
        one.jobs, one.rows, one.strategy = len(jobs), sum(j.rows for j in jobs), report.strategy
        one.recompute_rows = sum(j.rows for j in again)


def _table(title: str, seen: Sequence[Seen]) -> Table:
    table = Table(
        title,
        (
            Column("view"),
            Column("what it is"),
            Column("refresh ms", MS),
            Column("recompute ms", MS),
            Column("ratio", RATIO),
            Column("jobs", COUNT),
            Column("rows read", COUNT),
            Column("recompute reads", COUNT),
            Column("strategy"),
        ),
    )
    for one in seen:
        refresh, recompute = median(one.refresh), median(one.recompute)
        table.add(
            one.view.name, one.view.what, refresh, recompute, refresh / recompute,
            one.jobs, one.rows, one.recompute_rows, one.strategy,
        )  # fmt: skip
    return table
