"""TPC-DS and TPC-H data from `tpcgen-cli`, and changes that follow foreign keys.

The policy is that of the paper on foreign keys. For each batch a share of the rows of each table that points at no
other is drawn, half of it to come and half of it to go; then, table by table, every row that points at one of these.
Each batch is about other rows, so that those that go lie where the tables had them, not where the last batch has put
them. What points at rows that move in different ways is left out of all states. Tables start without what is to come.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from bench.data_folder import data_folder
from bench.measure import BenchmarkError


@dataclass(frozen=True, slots=True)
class Points:
    """A foreign key."""

    child: str
    columns: tuple[str, ...]
    parent: str
    parent_columns: tuple[str, ...]


def points(child: str, columns: str, parent: str, parent_columns: str) -> Points:
    return Points(child, tuple(columns.split()), parent, tuple(parent_columns.split()))


TPCDS = (
    points("store_sales", "ss_sold_date_sk", "date_dim", "d_date_sk"),
    points("store_sales", "ss_item_sk", "item", "i_item_sk"),
    points("store_sales", "ss_addr_sk", "customer_address", "ca_address_sk"),
    points("store_sales", "ss_store_sk", "store", "s_store_sk"),
    points("web_sales", "ws_sold_date_sk", "date_dim", "d_date_sk"),
    points("web_sales", "ws_item_sk", "item", "i_item_sk"),
    points("web_sales", "ws_bill_addr_sk", "customer_address", "ca_address_sk"),
    points("web_sales", "ws_bill_customer_sk", "customer", "c_customer_sk"),
    points("catalog_sales", "cs_sold_date_sk", "date_dim", "d_date_sk"),
    points("catalog_sales", "cs_item_sk", "item", "i_item_sk"),
    points("catalog_sales", "cs_bill_addr_sk", "customer_address", "ca_address_sk"),
    points("store_returns", "sr_item_sk sr_ticket_number", "store_sales", "ss_item_sk ss_ticket_number"),
    points("store_returns", "sr_returned_date_sk", "date_dim", "d_date_sk"),
    points("customer", "c_current_addr_sk", "customer_address", "ca_address_sk"),
)
TPCH = (
    points("lineitem", "l_orderkey", "orders", "o_orderkey"),
    points("orders", "o_custkey", "customer", "c_custkey"),
    points("customer", "c_nationkey", "nation", "n_nationkey"),
)
KEYS = {
    "store_sales": "ss_item_sk ss_ticket_number",
    "web_sales": "ws_item_sk ws_order_number",
    "catalog_sales": "cs_item_sk cs_order_number",
    "store_returns": "sr_item_sk sr_ticket_number",
    "date_dim": "d_date_sk",
    "item": "i_item_sk",
    "customer_address": "ca_address_sk",
    "store": "s_store_sk",
    "lineitem": "l_orderkey l_linenumber",
    "orders": "o_orderkey",
    "nation": "n_nationkey",
}
CUSTOMER_KEY = {"tpcds": "c_customer_sk", "tpch": "c_custkey"}
_FIXED = frozenset({"nation", "store"})
"""Tables of a few rows that never change."""
_TABLES = {"tpcds": TPCDS, "tpch": TPCH}


def key_of(benchmark: str, table: str) -> tuple[str, ...]:
    return tuple((CUSTOMER_KEY[benchmark] if table == "customer" else KEYS[table]).split())


def generated(benchmark: str, scale: float, tables: Iterable[str]) -> Path:
    """A folder with a Parquet file for each table; others may be there, too."""
    folder = data_folder() / f"keys-{benchmark}-{scale:g}"
    made = folder / "made"
    if missing := [t for t in sorted(tables) if not (folder / f"{t}.parquet").exists()]:
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        command = [generator(), benchmark, "parquet", f"--scale-factor={scale:g}", f"--tables={','.join(missing)}"]
        subprocess.run([*command, "--output-dir", str(made)], check=True, stdout=subprocess.DEVNULL)
        for table in missing:  # a file that is there is whole
            (made / f"{table}.parquet").rename(folder / f"{table}.parquet")
    return folder


def generator() -> str:
    beside = Path(sys.executable).parent / "tpcgen-cli"
    found = str(beside) if beside.exists() else shutil.which("tpcgen-cli")
    if found is None:
        raise BenchmarkError("tpcgen-cli is not installed: pip install tpcgen-cli")
    return found


@dataclass(frozen=True, slots=True)
class Rows:
    """Of one table: before the first batch, and what comes and goes in each."""

    start: pa.Table
    batches: tuple[tuple[pa.Table, pa.Table], ...]

    @property
    def changed(self) -> int:
        """In a batch, on average."""
        return round(sum(come.num_rows + go.num_rows for come, go in self.batches) / len(self.batches))


def changing(
    benchmark: str,
    scale: float,
    tables: Iterable[str],
    keys: Iterable[Points],
    share: float,
    query: str,
    batches: int,
) -> dict[str, Rows]:
    """The rows of some tables, if `share` of the rows that point nowhere is drawn for each batch: tables pointed at
    come first.

    They have the columns that the query or a key names. All columns of the large tables would not fit into memory."""
    tables = list(tables)
    folder, found = generated(benchmark, scale, tables), dict[str, Rows]()
    keys = [k for k in keys if k.child != k.parent]
    named = {*re.findall(r"\w+", query), *(c for k in keys for c in (*k.columns, *k.parent_columns))}
    with duckdb.connect() as db:
        for table in _parents_first(tables, keys):
            file = folder / f"{table}.parquet"
            known = named | set(key_of(benchmark, table))
            columns = ", ".join(c for c in pq.read_schema(file).names if c in known)
            moving = [k for k in keys if k.child == table and k.parent not in _FIXED]
            move = _of_parents(moving) if moving else _drawn(benchmark, table, share, batches)
            joins = "".join(_join(number, key) for number, key in enumerate(moving))
            db.execute(
                f"CREATE VIEW all_{table} AS SELECT child.*, {move} AS move FROM read_parquet('{file}') child {joins}"
            )
            db.execute(f"CREATE TABLE moving_{table} AS SELECT * FROM all_{table} WHERE move IS NOT NULL")
            start = _arrow(db, f"SELECT {columns} FROM all_{table} WHERE move IS NULL OR move % 2 = 1")
            moved = [_arrow(db, f"SELECT {columns} FROM moving_{table} WHERE move = {n}") for n in range(2 * batches)]
            found[table] = Rows(start, tuple(zip(moved[::2], moved[1::2], strict=True)))
    return found


def _arrow(db: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    table = db.sql(query).to_arrow_table()
    return table.cast(
        pa.schema([pa.field(f.name, pa.string() if pa.types.is_string_view(f.type) else f.type) for f in table.schema])
    )


def _parents_first(tables: list[str], keys: list[Points]) -> list[str]:
    order: list[str] = []

    def visit(table: str) -> None:
        for key in keys:
            if key.child == table and key.parent in tables:
                visit(key.parent)
        if table not in order:
            order.append(table)

    for table in tables:
        visit(table)
    return order


_OUT = -1
"""The move of a row that is in no state. Others: 2 n comes in batch n, 2 n + 1 goes in it; none: it stays."""


def _drawn(benchmark: str, table: str, share: float, batches: int) -> str:
    """How a row moves that points at none that do."""
    if table in _FIXED:
        return "NULL"
    drawn = f"floor(hash({', '.join(key_of(benchmark, table))}, 'drawn') % 1000000 / {share / 2 * 1_000_000})"
    return f"CASE WHEN {drawn} < {2 * batches} THEN CAST({drawn} AS INTEGER) END"


def _of_parents(keys: list[Points]) -> str:
    """How a row moves that points at others."""
    moves = ", ".join(f"parent_{number}.move" for number, _ in enumerate(keys))
    first, last = f"least({moves})", f"greatest({moves})"  # of those that move
    return f"CASE WHEN {first} = {last} THEN {first} WHEN {first} IS NOT NULL THEN {_OUT} END"


def _join(number: int, key: Points) -> str:
    pairs = zip(key.columns, key.parent_columns, strict=True)
    on = " AND ".join(f"child.{own} = parent_{number}.{theirs}" for own, theirs in pairs)
    return f" LEFT JOIN moving_{key.parent} parent_{number} ON {on}"
