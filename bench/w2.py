"""W2: sums and counts over a join, and batches of new and removed rows."""

from __future__ import annotations

import itertools

import viewkeep
from bench.data import INCOME_QUERY, INCOME_SCHEMA, Batch, IncomeRows
from bench.database import PLACES, create_view, database, delete_by
from bench.measure import Run, check, run_batch, summary
from bench.tables import COUNT, MS, RATIO, Column, Result, Table, verdict

TARGETS = {1_000: 0.15, 10_000: 0.20, 100_000: 0.35}


def w2(quick: bool = False) -> Result:
    gods, payments, batches = (50, 5_000, 2) if quick else (100_000, 5_000_000, 21)
    targets = {100: 0.15, 300: 0.20} if quick else TARGETS
    table = Table(
        f"SUM and COUNT by name over gods ({gods:,}) JOIN payments ({payments:,}), "
        f"k inserts and k/100 deletes a batch, median of {batches}",
        (
            Column("database"),
            Column("changes"),
            Column("k", COUNT),
            Column("apply ms", MS),
            Column("refresh ms", MS),
            Column("recompute ms", MS),
            Column("ratio", RATIO),
            Column("target ≤", RATIO),
            Column("verdict"),
            Column("best ÷ best", RATIO),
            Column("slowest ms", MS),
        ),
    )
    for place, changes in itertools.product(PLACES, ("keep", "none")):
        rows = IncomeRows(gods)
        with database(place) as keeper:
            load_income(keeper, rows, payments)
            create_view(keeper, INCOME_QUERY, changes=changes)
            for k, target in targets.items():
                s = summary(income_runs(keeper, rows, k, k // 100, batches))
                met = verdict(s.ratio, target, quick)
                table.add(
                    place, changes, k, s.apply, s.refresh, s.recompute, s.ratio, target, met, s.best_ratio, s.slowest
                )
    return Result("w2", "an aggregate over a join, inserts and deletes", [table])


def load_income(keeper: viewkeep.Keeper, rows: IncomeRows, payments: int) -> None:
    keeper.sql(INCOME_SCHEMA)
    keeper.load("gods", rows.gods())
    keeper.load("payments", rows.payments(payments))


def income_runs(keeper: viewkeep.Keeper, rows: IncomeRows, inserts: int, deletes: int, batches: int) -> list[Run]:
    runs = []
    for _ in range(batches):
        batch = rows.batch(inserts, deletes)
        runs.append(run_batch(keeper, INCOME_QUERY, lambda batch=batch: change_payments(keeper, batch)))
    check(keeper)
    return runs


def change_payments(keeper: viewkeep.Keeper, batch: Batch) -> None:
    keeper.load("payments", batch.inserted)
    if batch.deleted.num_rows:
        delete_by(keeper, "payments", "pid", batch.deleted)
