"""Growth: the same thousand changed rows while TPC-H gets larger. The refresh should cost what the change costs."""

from __future__ import annotations

from bench.measure import BenchmarkError, median
from bench.spark.tpch import measure
from bench.spark.tpch_data import load
from bench.spark.tpch_views import BULK, LOCAL, PRICING, RETURNED, SHIPPED, STAR
from bench.spark.warehouse import warehouse
from bench.tables import COUNT, MS, RATIO, Column, Result, Table, verdict

SCALES = (0.5, 1.0, 2.0, 4.0)
VIEWS = (BULK, SHIPPED, PRICING, LOCAL, STAR, RETURNED)
TARGET = 1.5
_ORDERS = 100
"""That come, and as many that go: with about four line items each a thousand rows."""


def growth(quick: bool = False) -> Result:
    scales, views, orders, warm, rounds = (
        ((0.01, 0.02), VIEWS[:1], 2, 0, 1) if quick else (SCALES, VIEWS, _ORDERS, 2, 5)
    )
    by_scale = Table(
        f"{len(views)} views together, {orders:,} orders in and out with their line items, median of {rounds}",
        (
            Column("scale"),
            Column("line items", COUNT),
            Column("refresh ms", MS),
            Column("recompute ms", MS),
            Column("ratio", RATIO),
            Column("jobs", COUNT),
            Column("rows read", COUNT),
            Column("recompute reads", COUNT),
        ),
    )
    by_view = Table(
        "view by view",
        (Column("view"), Column("what it is"), *(Column(f"refresh ms at {s:g}", MS) for s in scales),
         Column("refresh ×", RATIO), Column("recompute ×", RATIO)),
    )  # fmt: skip
    found = []
    for scale in scales:
        with warehouse() as keeper:
            seen = measure(keeper, load(keeper, scale), views, orders, True, warm, rounds, customers=False)
        if full := [s.view.name for s in seen if s.strategy == "recompute"]:
            raise BenchmarkError(f"the last refresh of {', '.join(full)} was a recompute")
        found.append(seen)
        refresh, recompute = (sum(median(getattr(s, n)) for s in seen) for n in ("refresh", "recompute"))
        jobs, rows, again = (sum(getattr(s, n) for s in seen) for n in ("jobs", "rows", "recompute_rows"))
        by_scale.add(f"{scale:g}", int(6_000_000 * scale), refresh, recompute, refresh / recompute, jobs, rows, again)
    for i, view in enumerate(views):
        times = [median(seen[i].refresh) for seen in found]
        again = [median(seen[i].recompute) for seen in found]
        by_view.add(view.name, view.what, *times, times[-1] / times[0], again[-1] / again[0])
    rise = Table(
        "how much more the last scale costs than the first",
        (Column("scale ×", RATIO), Column("refresh ×", RATIO), Column("recompute ×", RATIO), Column("target ≤", RATIO),
         Column("verdict")),
    )  # fmt: skip
    times, again = by_scale.column("refresh ms"), by_scale.column("recompute ms")
    grown = times[-1] / times[0]
    rise.add(scales[-1] / scales[0], grown, again[-1] / again[0], TARGET, verdict(grown, TARGET, quick))
    return Result("spark-growth", "a fixed change to growing tables", [by_scale, by_view, rise])
