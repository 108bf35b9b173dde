"""Tables 7.1 to 7.6 of the thesis on joins in OpenIVM, scaled down, run after run.

As there, "using IVM" counts everything that keeping the view costs: in run 1 its creation, in every
run the insertion with capture and the refresh. "Reference" is the view's query with its rows
thrown away; since a view has to be stored somewhere, storing them is shown too.
"""

from __future__ import annotations

from dataclasses import dataclass

import viewkeep
from bench.data import JOIN_QUERY, JOIN_SCHEMA, JoinRows
from bench.database import REFERENCE, create_view, database
from bench.measure import check, seconds, timed_recompute, timed_refresh
from bench.tables import MS, RATIO, Column, Result, Table


@dataclass(frozen=True, slots=True)
class Setting:
    """Row counts as in the thesis, the divisor used here, and its run 10 in ms: using IVM, reference."""

    number: str
    left: int
    right: int
    new_left: int
    new_right: int
    entropy: int
    scale: int
    published: tuple[int, int]

    def scaled(self, more: int) -> tuple[int, int, int, int, int]:
        by = self.scale * more
        return (self.left // by, self.right // by, self.new_left // by, self.new_right // by, self.entropy // by)


# The symmetrical tables are divided by more: with few keys their views have far more rows than their tables.
SETTINGS = (
    Setting("7.1", 20_000_000, 20_000_000, 2_000_000, 2_000_000, 20_000_000, 200, (982, 276)),
    Setting("7.2", 20_000_000, 20_000_000, 2_000_000, 2_000_000, 2_000_000, 200, (1174, 771)),
    Setting("7.3", 20_000_000, 20_000_000, 2_000_000, 2_000_000, 600_000, 200, (1787, 2280)),
    Setting("7.4", 200_000_000, 2_000_000, 4_000_000, 0, 2_000_000, 100, (1077, 869)),
    Setting("7.5", 400_000_000, 4_000_000, 8_000_000, 0, 4_000_000, 100, (1548, 1839)),
    Setting("7.6", 600_000_000, 6_000_000, 12_000_000, 0, 6_000_000, 100, (2333, 2854)),
)
_ROWS = ("using IVM", "… its refresh alone", "reference: rows thrown away", "reference: rows stored")


def thesis(quick: bool = False) -> Result:
    runs, more = (2, 1_000) if quick else (10, 1)
    tables, last = (
        [],
        Table(
            f"run {runs} of each, and the thesis's own run 10 at full size on its 8 cores",
            (
                Column("table"),
                Column("using IVM ÷ thrown away", RATIO),
                Column("thesis", RATIO),
                Column("refresh ÷ thrown away", RATIO),
                Column("refresh ÷ stored", RATIO),
            ),
        ),
    )
    for setting in SETTINGS:
        table, spent = _table(setting, runs, more)
        tables.append(table)
        kept, refresh, thrown, stored = (values[-1] for values in spent)
        published = setting.published[0] / setting.published[1]
        last.add(setting.number, kept / thrown, published, refresh / thrown, refresh / stored)
    return Result("thesis", "tables 7.1 to 7.6 of the thesis on joins in OpenIVM, scaled down", [*tables, last])


def _table(setting: Setting, runs: int, more: int) -> tuple[Table, list[list[float]]]:
    left, right, new_left, new_right, entropy = setting.scaled(more)
    title = (
        f"table {setting.number} ÷ {setting.scale * more:,}, in memory, ms: |L| = {left:,}, |R| = {right:,}, "
        f"|ΔL| = {new_left:,}, |ΔR| = {new_right:,}, n = {entropy:,}"
    )
    table = Table(title, (Column("run"), *(Column(str(i + 1), MS) for i in range(runs))))
    rows = JoinRows(keys=entropy)
    spent: list[list[float]] = [[] for _ in _ROWS]
    with database("memory") as keeper:
        keeper.sql(JOIN_SCHEMA)
        keeper.load("left_side", rows.left(left))
        keeper.load("right_side", rows.right(right))
        for run in range(runs):
            created = seconds(lambda: create_view(keeper, JOIN_QUERY)) if run == 0 else 0.0
            applied = _insert(keeper, rows, new_left, new_right)
            refreshed = timed_refresh(keeper)
            measured = (created + applied + refreshed, refreshed, _thrown_away(keeper), _stored(keeper))
            for values, value in zip(spent, measured, strict=True):
                values.append(value)
        check(keeper)
    for name, values in zip(_ROWS, spent, strict=True):
        table.add(name, *values)
    return table, spent


def _insert(keeper: viewkeep.Keeper, rows: JoinRows, new_left: int, new_right: int) -> float:
    batches = {"left_side": rows.left(new_left)}
    if new_right:
        batches["right_side"] = rows.right(new_right)
    return seconds(lambda: [keeper.load(name, batch) for name, batch in batches.items()])


def _thrown_away(keeper: viewkeep.Keeper) -> float:
    # EXPLAIN ANALYZE computes every column of every row and keeps none; a COUNT(*) would skip the columns.
    return seconds(lambda: keeper.engine.execute(f"EXPLAIN ANALYZE {JOIN_QUERY}"))


def _stored(keeper: viewkeep.Keeper) -> float:
    spent = timed_recompute(keeper, JOIN_QUERY)
    keeper.engine.execute(f"DROP TABLE {REFERENCE}")  # these views are large: hold one copy, not two
    return spent
