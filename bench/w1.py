"""W1: a join view, and batches of new rows on its large side."""

from __future__ import annotations

from bench.data import JOIN_QUERY, JOIN_SCHEMA, JoinRows
from bench.database import PLACES, create_view, database
from bench.measure import Run, check, run_batch, summary
from bench.tables import COUNT, MS, RATIO, Column, Result, Table, verdict

TARGET = 0.25


def w1(quick: bool = False) -> Result:
    left, right, delta, batches = (4_000, 100, 200, 2) if quick else (2_000_000, 20_000, 40_000, 21)
    table = Table(
        f"left_side ({left:,}) JOIN right_side ({right:,}), +{delta:,} left rows a batch, median of {batches}",
        (
            Column("database"),
            Column("apply ms", MS),
            Column("refresh ms", MS),
            Column("recompute ms", MS),
            Column("ratio", RATIO),
            Column("target ≤", RATIO),
            Column("verdict"),
            Column("best ÷ best", RATIO),
            Column("slowest ms", MS),
            Column("view rows", COUNT),
        ),
    )
    for place in PLACES:
        runs, rows = _runs(place, left, right, delta, batches)
        s = summary(runs)
        met = verdict(s.ratio, TARGET, quick)
        table.add(place, s.apply, s.refresh, s.recompute, s.ratio, TARGET, met, s.best_ratio, s.slowest, rows)
    return Result("w1", "a join view, inserts only", [table])


def _runs(place: str, left: int, right: int, delta: int, batches: int) -> tuple[list[Run], int]:
    rows = JoinRows(keys=right)
    with database(place) as keeper:
        keeper.sql(JOIN_SCHEMA)
        keeper.load("left_side", rows.left(left))
        keeper.load("right_side", rows.right(right))
        create_view(keeper, JOIN_QUERY)
        runs = []
        for _ in range(batches):
            batch = rows.left(delta)
            runs.append(run_batch(keeper, JOIN_QUERY, lambda batch=batch: keeper.load("left_side", batch)))
        check(keeper)
        return runs, keeper.query("SELECT COUNT(*) AS n FROM kept").column("n")[0].as_py()
