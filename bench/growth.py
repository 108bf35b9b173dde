"""Growth: the same small change to a table that gets larger. The refresh should cost what the change costs."""

from __future__ import annotations

from bench.data import INCOME_QUERY, IncomeRows
from bench.database import create_view, database
from bench.measure import summary
from bench.tables import COUNT, MS, RATIO, Column, Result, Table
from bench.w2 import income_runs, load_income

SIZES = (500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000)


def growth(quick: bool = False) -> Result:
    gods, sizes, delta, batches = (50, (2_000, 4_000), 100, 2) if quick else (100_000, SIZES, 1_000, 7)
    deletes = delta // 100
    table = Table(
        f"SUM and COUNT by name over gods ({gods:,}) JOIN payments, {delta:,} changed rows a batch "
        f"({deletes:,} of them deletes), in memory, median of {batches}",
        (
            Column("payments", COUNT),
            Column("apply ms", MS),
            Column("refresh ms", MS),
            Column("recompute ms", MS),
            Column("ratio", RATIO),
        ),
    )
    for size in sizes:
        rows = IncomeRows(gods)
        with database("memory") as keeper:
            load_income(keeper, rows, size)
            create_view(keeper, INCOME_QUERY)
            s = summary(income_runs(keeper, rows, delta - deletes, deletes, batches))
        table.add(size, s.apply, s.refresh, s.recompute, s.ratio)
    first, last = (table.column("refresh ms")[i] for i in (0, -1))
    rise = Table(
        "how much more the last size costs than the first",
        (Column("payments ×", RATIO), Column("refresh ×", RATIO), Column("recompute ×", RATIO)),
    )
    recomputes = table.column("recompute ms")
    rise.add(sizes[-1] / sizes[0], last / first, recomputes[-1] / recomputes[0])
    return Result("growth", "a fixed change to a growing table", [table, rise])
