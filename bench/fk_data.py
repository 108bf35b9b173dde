"""TPC-DS and TPC-H data from `tpcgen-cli`, and changes that follow foreign keys.

The policy is that of the paper on foreign keys. A share of the rows of each table that points at no other is
drawn, half of it to come and half of it to go; then, table by table, every row that points at one of these.
What points at both comes and goes at once: it is left out of all states. Tables start without what is to
come, so a batch is one step forward, and the next one is the same step back.
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
    """Of one table: before the first batch, and what each batch moves."""

    start: pa.Table
    come: pa.Table
    go: pa.Table

    @property
    def changed(self) -> int:
        return int(self.come.num_rows + self.go.num_rows)


def changing(
    benchmark: str, scale: float, tables: Iterable[str], keys: Iterable[Points], share: float, query: str
) -> dict[str, Rows]:
    """The rows of some tables, if `share` of the rows that point nowhere are drawn: tables pointed at come first.

    They have the columns that the query or a key names. All columns of the large tables would not fit into memory."""
    tables = list(tables)
    folder, found = generated(benchmark, scale, tables), dict[str, Rows]()
    wanted, keys = tables, [k for k in keys if k.child != k.parent]
    named = {*re.findall(r"\w+", query), *(c for k in keys for c in (*k.columns, *k.parent_columns))}
    with duckdb.connect() as db:
        for table in _parents_first(wanted, keys):
            file = folder / f"{table}.parquet"
            known = named | set(key_of(benchmark, table))
            columns = ", ".join(c for c in pq.read_schema(file).names if c in known)
            db.execute(f"CREATE VIEW all_{table} AS SELECT {columns} FROM read_parquet('{file}')")
            come, go = _conditions(benchmark, table, [k for k in keys if k.child == table], share)
            db.execute(f"CREATE TABLE come_{table} AS SELECT * FROM all_{table} WHERE ({come}) AND NOT ({go})")
            db.execute(f"CREATE TABLE go_{table} AS SELECT * FROM all_{table} WHERE ({go}) AND NOT ({come})")
            # What points at rows of both kinds is in no state: who points at it must not be either.
            db.execute(f"CREATE TABLE out_{table} AS SELECT * FROM all_{table} WHERE ({come}) AND ({go})")
            db.execute(f"CREATE VIEW away_{table} AS FROM come_{table} UNION ALL FROM out_{table}")
            db.execute(f"CREATE VIEW gone_{table} AS FROM go_{table} UNION ALL FROM out_{table}")
            start = f"SELECT * FROM all_{table} WHERE NOT ({come})"
            found[table] = Rows(*(_arrow(db, q) for q in (start, f"FROM come_{table}", f"FROM go_{table}")))
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


def _conditions(benchmark: str, table: str, keys: list[Points], share: float) -> tuple[str, str]:
    """Which rows of a table come, and which go."""
    moving = [k for k in keys if k.parent not in _FIXED]
    if not moving:
        drawn = f"hash({', '.join(key_of(benchmark, table))}, 'drawn') % 1000000" if table not in _FIXED else "1000000"
        half = share / 2 * 1_000_000
        return f"{drawn} < {half}", f"{drawn} >= {half} AND {drawn} < {2 * half}"
    conditions = []
    for kind in ("away", "gone"):
        each = []
        for key in moving:
            child, parent = ", ".join(key.columns), ", ".join(key.parent_columns)
            known = " AND ".join(f"{c} IS NOT NULL" for c in key.columns)
            each.append(f"({known} AND ({child}) IN (SELECT ({parent}) FROM {kind}_{key.parent}))")
        conditions.append(" OR ".join(each))
    return conditions[0], conditions[1]
