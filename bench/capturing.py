"""Capture: what writing down the changes adds to a bulk insert."""

from __future__ import annotations

import pyarrow as pa

import viewkeep
from bench.data import IncomeRows
from bench.database import PLACES, database
from bench.measure import median, seconds
from bench.tables import MS, RATIO, Column, Result, Table

_VIEW = "SELECT to_uid, SUM(amount) AS total FROM payments GROUP BY to_uid"


def capturing(quick: bool = False) -> Result:
    count, rounds = (2_000, 1) if quick else (2_000_000, 3)
    table = Table(
        f"one bulk insert of {count:,} payments into an empty table, median of {rounds}",
        (
            Column("database"),
            Column("table"),
            Column("keeper.load ms", MS),
            Column("INSERT … SELECT ms", MS),
            Column("load ÷ plain", RATIO),
            Column("INSERT ÷ plain", RATIO),
        ),
        notes=("captured: the table feeds a materialized view; each inserted row is also written to its change log",),
    )
    rows = IncomeRows(1_000).payments(count)
    for place in PLACES:
        plain: tuple[float, float] | None = None
        for name, key, captured in (
            ("plain", "", False),
            ("primary key", " PRIMARY KEY", False),
            ("captured", "", True),
            ("primary key, captured", " PRIMARY KEY", True),
        ):
            found = [_insert(place, rows, key, captured) for _ in range(rounds)]
            load, insert = median(f[0] for f in found), median(f[1] for f in found)
            plain = plain or (load, insert)
            table.add(place, name, load, insert, load / plain[0], insert / plain[1])
    return Result("capture", "the price of capture on bulk inserts", [table])


def _insert(place: str, rows: pa.Table, key: str, captured: bool) -> tuple[float, float]:
    """Seconds by `keeper.load`, and by SQL from another table; in a database of their own each."""
    with database(place) as keeper:
        _prepare(keeper, key, captured)
        load = seconds(lambda: keeper.load("payments", rows))
    with database(place) as keeper:
        _prepare(keeper, key, captured)
        keeper.sql("CREATE TABLE arrived (pid INTEGER, to_uid INTEGER, amount INTEGER)")
        keeper.load("arrived", rows)
        insert = seconds(lambda: keeper.sql("INSERT INTO payments SELECT * FROM arrived"))
    return load, insert


def _prepare(keeper: viewkeep.Keeper, key: str, captured: bool) -> None:
    keeper.sql(f"CREATE TABLE payments (pid INTEGER{key}, to_uid INTEGER, amount INTEGER)")
    if captured:
        keeper.sql(f"CREATE MATERIALIZED VIEW kept WITH (policy = 'incremental') AS {_VIEW}")
