"""W2 on Spark: sums and counts over a join, and batches of new and removed rows."""

from __future__ import annotations

from dataclasses import dataclass

import viewkeep
from bench.data import INCOME_QUERY
from bench.measure import Run, check, seconds, summary, timed_refresh
from bench.spark.income import Payments, income
from bench.spark.jobs import JobWatch
from bench.spark.warehouse import Reference, warehouse
from bench.tables import COUNT, MS, RATIO, Column, Result, Table, verdict

TARGETS = {5_000_000: {1_000: 0.4, 10_000: 0.4, 100_000: 0.4}, 50_000_000: {1_000: 0.12}}


@dataclass(frozen=True, slots=True)
class Counts:
    """What the last batch of several launched and read."""

    jobs: int
    rows: int
    recompute_rows: int


def w2(quick: bool = False) -> Result:
    gods, batches = (50, 1) if quick else (100_000, 5)
    sizes = {5_000: {100: 0.4}} if quick else TARGETS
    table = Table(
        f"SUM and COUNT by name over gods ({gods:,}) JOIN payments, k inserts and k/100 deletes a batch, "
        f"median of {batches}",
        (
            Column("payments", COUNT),
            Column("k", COUNT),
            Column("apply ms", MS),
            Column("refresh ms", MS),
            Column("recompute ms", MS),
            Column("ratio", RATIO),
            Column("target ≤", RATIO),
            Column("verdict"),
            Column("best ÷ best", RATIO),
            Column("jobs", COUNT),
            Column("rows read", COUNT),
            Column("recompute reads", COUNT),
        ),
    )
    for payments, targets in sizes.items():
        with warehouse() as keeper:
            rows = income(keeper, gods, payments)
            reference = Reference(keeper, INCOME_QUERY, ("gods", "payments"))
            warm_up(keeper, rows, reference, 1 if quick else 3)
            for k, target in targets.items():
                runs, counts = income_runs(keeper, rows, reference, k, batches)
                s = summary(runs)
                met = verdict(s.ratio, target, quick)
                table.add(
                    payments, k, s.apply, s.refresh, s.recompute, s.ratio, target, met, s.best_ratio,
                    counts.jobs, counts.rows, counts.recompute_rows,
                )  # fmt: skip
            check(keeper)
    return Result("spark-w2", "an aggregate over a join, inserts and deletes", [table])


def warm_up(keeper: viewkeep.Keeper, rows: Payments, reference: Reference, rounds: int) -> None:
    """Java compiles what runs often: the first runs of either way are several times slower."""
    for _ in range(rounds):
        keeper.apply("payments", rows.batch(1_000, 10))
        timed_refresh(keeper)
        reference.recompute()


def income_runs(
    keeper: viewkeep.Keeper, rows: Payments, reference: Reference, k: int, batches: int
) -> tuple[list[Run], Counts]:
    runs, watch = [], JobWatch(keeper)
    counts = Counts(0, 0, 0)
    for _ in range(batches):
        batch = rows.batch(k, k // 100)
        applied = seconds(lambda batch=batch: keeper.apply("payments", batch))
        watch.taken()
        refreshed = timed_refresh(keeper)
        jobs = watch.taken()
        recomputed = seconds(reference.recompute)
        again = watch.taken()
        counts = Counts(len(jobs), sum(j.rows for j in jobs), sum(j.rows for j in again))
        runs.append(Run(applied, refreshed, recomputed))
    return runs, counts
