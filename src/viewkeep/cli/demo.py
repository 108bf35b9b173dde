"""`viewkeep demo`: a small shop whose views are refreshed, timed against recompute, and proven equal."""

from __future__ import annotations

import os
import tempfile
import textwrap
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from rich.console import Console
from rich.text import Text

import viewkeep
from viewkeep.cli import render
from viewkeep.cli.console import working
from viewkeep.cli.shop import DUCKDB_VIEWS, LINES_PER_ORDER, SPARK_VIEWS, Shop, ShopView

_WIDEST = 100
"""Explanations are wrapped here even where the screen, or the pipe, has more room."""


class EngineName(StrEnum):
    SPARK = "spark"
    DUCKDB = "duckdb"


@dataclass(frozen=True, slots=True)
class Cost:
    """What it took to bring a view up to date."""

    seconds: float
    rows_read: int = 0
    jobs: int = 0

    @staticmethod
    def of(report: viewkeep.RefreshReport) -> Cost:
        return Cost(report.seconds, report.rows_read, report.jobs)


@dataclass(slots=True)
class Totals:
    """What all batches together took, and whether every view was right."""

    refresh: float = 0.0
    recompute: float = 0.0
    slower: int = 0
    proofs: int = 0
    wrong: int = 0


class Place(ABC):
    """Where the shop is, and how a view is computed anew there."""

    title: str
    url: str
    views: tuple[ShopView, ...]
    orders: int
    """As large as shows the difference and is over soon."""
    counts: bool
    """Whether the engine tells rows read and jobs."""
    slow: str
    """Why a refresh can be slower than computing anew."""
    next: str

    @abstractmethod
    def make(self, keeper: viewkeep.Keeper, view: ShopView) -> None: ...

    @abstractmethod
    def recompute(self, keeper: viewkeep.Keeper, view: ShopView) -> Cost:
        """The view's query from scratch, its rows stored."""


class OnDuckDB(Place):
    title, views, orders, counts = "DuckDB", DUCKDB_VIEWS, 400_000, False
    slow = (
        "A refresh has a fixed cost of a few dozen milliseconds, and tables of this size are quickly read as a whole. "
        "The time of a query grows with the tables, that of a refresh mostly with the changes: try more --rows."
    )
    next = (
        "  viewkeep demo --engine duckdb --rows 20000   small tables: there the queries from scratch win\n"
        "  viewkeep sql --db my.duckdb --file my_tables_and_views.sql\n"
        "  viewkeep refresh --db my.duckdb              then: status, explain VIEW, history VIEW, verify"
    )

    def __init__(self, folder: str) -> None:
        self.url = f"duckdb:///{Path(folder) / 'shop.duckdb'}"

    def make(self, keeper: viewkeep.Keeper, view: ShopView) -> None:
        keeper.sql(f"CREATE MATERIALIZED VIEW {view.name} AS {view.query}")

    def recompute(self, keeper: viewkeep.Keeper, view: ShopView) -> Cost:
        started = time.perf_counter()
        keeper.engine.execute(f"CREATE TEMPORARY TABLE from_scratch AS {view.query}")
        taken = time.perf_counter() - started
        keeper.engine.execute("DROP TABLE temp.from_scratch")
        return Cost(taken)


class OnSpark(Place):
    """Every view has a twin that is only ever computed anew: the same query, written to a Delta table of its own."""

    title, views, orders, counts = "Spark and Delta Lake", SPARK_VIEWS, 350_000, True
    slow = (
        "A Spark job takes a tenth of a second or more, however little it reads, and tables of this size are quickly "
        "read as a whole. The time of a recompute grows with the tables, that of a refresh mostly with the changes: "
        "try more --rows."
    )
    next = (
        "  viewkeep demo --rows 1400000           the same shop, four times as large\n"
        "  viewkeep sql --db spark:///warehouse --file my_tables_and_views.sql\n"
        "  viewkeep refresh --db warehouse        then: status, explain VIEW, history VIEW, verify\n"
        "  viewkeep compile VIEW --db warehouse   the SQL that runs"
    )

    def __init__(self, folder: str) -> None:
        self.url = f"spark:///{Path(folder) / 'warehouse'}"
        # Over in a minute or two: the JVM's second compiler would cost more than it brings.
        os.environ.setdefault("VIEWKEEP_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")

    def make(self, keeper: viewkeep.Keeper, view: ShopView) -> None:
        for name in (view.name, _twin(view)):
            keeper.sql(f"CREATE MATERIALIZED VIEW {name} AS {view.query}")

    def recompute(self, keeper: viewkeep.Keeper, view: ShopView) -> Cost:
        return Cost.of(keeper.refresh(_twin(view), full=True))


def _twin(view: ShopView) -> str:
    return f"{view.name}_anew"


def run_demo(console: Console, engine: EngineName = EngineName.SPARK, orders: int | None = None) -> bool:
    """Whether every view was equal to its query after every batch."""
    with tempfile.TemporaryDirectory(prefix="viewkeep-demo-") as folder:
        place: Place = OnSpark(folder) if engine is EngineName.SPARK else OnDuckDB(folder)
        shop, totals = Shop(orders or place.orders), Totals()
        began = time.perf_counter()
        with working(f"starting {place.title}"):
            keeper = viewkeep.connect(place.url)
        with keeper:
            _open_shop(console, keeper, place, shop)
            _say(console, f"Ready after {render.duration(time.perf_counter() - began)}.", "dim")
            for number, batch in enumerate(shop.batches(), start=1):
                _say(console, f"\nbatch {number}: {batch.title}", "bold")
                with working("changing the tables"):
                    batch.change(keeper)
                _header(console, place)
                for view in place.views:
                    _one_view(console, keeper, place, view, totals)
    _close(console, place, totals)
    return totals.wrong == 0


def _open_shop(console: Console, keeper: viewkeep.Keeper, place: Place, shop: Shop) -> None:
    lines = shop.orders * LINES_PER_ORDER
    _say(console, f"A shop on {place.title}: {shop.orders:,} orders, {lines:,} order lines.", "bold")
    with working("filling the tables"):
        shop.open(keeper)
    _say(console, "Its materialized views:")
    for view in place.views:
        with working(f"making {view.name}"):
            place.make(keeper, view)
            rows = keeper.history(view.name)[-1].rows_inserted
        console.print(f"  {view.name:<17}{view.kind:<28}{rows:>9,} stored rows")
    for number, change in enumerate(warm_ups := shop.warm_ups(), start=1):
        with working(f"warming up ({number} of {len(warm_ups)})"):
            change(keeper)
            for view in place.views:
                keeper.refresh(view.name)


def _one_view(console: Console, keeper: viewkeep.Keeper, place: Place, view: ShopView, totals: Totals) -> None:
    with working(f"refreshing {view.name}"):
        report = keeper.refresh(view.name)
    if report.strategy == "unchanged":
        _line(console, place, report, None, ("nothing to do", "dim"))
        return
    with working(f"recomputing {view.name}"):
        anew = place.recompute(keeper, view)
    with working(f"verifying {view.name}"):
        verified = keeper.verify(view.name)
    totals.refresh += report.seconds
    totals.recompute += anew.seconds
    totals.slower += report.seconds > anew.seconds
    totals.proofs += 1
    totals.wrong += not verified.equal
    _line(console, place, report, anew, ("equal", "green") if verified.equal else ("NOT EQUAL", "bold red"))
    compared = _compared(report.seconds, anew.seconds)
    lines = textwrap.wrap(f"{compared}; {report.reason}", min(console.width, _WIDEST) - 4)
    console.print(Text("\n".join(f"    {line}" for line in lines), "dim"))
    if not verified.equal:
        render.print_verified([verified])


def _line(
    console: Console, place: Place, report: viewkeep.RefreshReport, anew: Cost | None, check: tuple[str, str]
) -> None:
    console.print(
        Text.assemble(
            f"  {report.view:<16}",
            (f"{report.strategy:<12}", render.strategy(report.strategy).style),
            f"{render.gained_and_lost(report):<13}",
            _cost(Cost.of(report), place),
            (" │", "dim"),
            "" if anew is None else _cost(anew, place),
            " ",
            check,
        )
    )


def _cost(cost: Cost, place: Place) -> str:
    counts = f"{cost.rows_read:>10,}{cost.jobs:>5}" if place.counts else ""
    return f"{render.duration(cost.seconds):>9}{counts}"


def _compared(refresh: float, recompute: float) -> str:
    """
    >>> _compared(0.5, 2.0), _compared(0.5, 0.4)
    ('4.0 times as fast as recompute', 'recompute was faster, 1.2 times')
    """
    if refresh <= recompute:
        return f"{recompute / max(refresh, 1e-4):,.1f} times as fast as recompute"
    return f"recompute was faster, {refresh / max(recompute, 1e-4):,.1f} times"


def _header(console: Console, place: Place) -> None:
    def cost(name: str) -> str:
        return f"{name:>9}" + (f"{'rows read':>10}{'jobs':>5}" if place.counts else "")

    line = f"  {'view':<16}{'strategy':<12}{'rows':<13}{cost('refresh')} │{cost('anew')} check"
    console.print(Text(line, "underline"))


def _close(console: Console, place: Place, totals: Totals) -> None:
    right = totals.proofs - totals.wrong
    _say(console, f"\n{right} of {totals.proofs} times a view was equal to its query.", "bold")
    _say(
        console,
        f"All refreshes: {render.duration(totals.refresh)}. "
        f"All views computed anew: {render.duration(totals.recompute)}.",
    )
    if totals.slower:
        _say(console, f"{totals.slower} of {totals.proofs} times computing anew was faster. {place.slow}")
    console.print(f"\nTry next:\n{place.next}")


def _say(console: Console, text: str, style: str = "") -> None:
    for line in text.split("\n"):
        console.print(Text(textwrap.fill(line, min(console.width, _WIDEST)), style))
