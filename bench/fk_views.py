"""The views of the paper on foreign keys: stars of one, two and three dimensions over three facts, a snowflake, an
arbitrary graph, and a chain; the last ones also with filters."""

from __future__ import annotations

from dataclasses import dataclass

from bench.fk_data import TPCDS, TPCH, Points


@dataclass(frozen=True, slots=True)
class View:
    name: str
    shape: str
    query: str
    tables: tuple[str, ...]
    benchmark: str = "tpcds"
    without: tuple[str, ...] = ()
    """Children of foreign keys that are not declared, with what they point at: "child parent"."""

    @property
    def keys(self) -> tuple[Points, ...]:
        known = TPCDS if self.benchmark == "tpcds" else TPCH
        here = [k for k in known if k.child in self.tables and k.parent in self.tables]
        joined = [k for k in here if all(c in self.query for c in k.columns)]
        return tuple(k for k in joined if f"{k.child} {k.parent}" not in self.without)


def _stars() -> list[View]:
    found = []
    facts = (("store_sales", "ss", "ss_addr_sk"), ("web_sales", "ws", "ws_bill_addr_sk"),
             ("catalog_sales", "cs", "cs_bill_addr_sk"))  # fmt: skip
    for fact, p, address in facts:
        price = f"{p}_ext_sales_price"
        dimensions = (
            ("customer_address", f"{address} = ca_address_sk"),
            ("item", f"{p}_item_sk = i_item_sk"),
            ("date_dim", f"{p}_sold_date_sk = d_date_sk"),
        )
        columns = (
            f"{p}_sold_date_sk, {p}_item_sk, ca_gmt_offset, {price}",
            f"{p}_sold_date_sk, i_item_id, ca_gmt_offset, {price}",
            f"i_item_id, d_year, d_moy, ca_gmt_offset, {price}",
        )
        for count, wanted in enumerate(columns, start=1):
            joins = " ".join(f"JOIN {table} ON {on}" for table, on in dimensions[:count])
            tables = (fact, *(table for table, _ in dimensions[:count]))
            name = f"{p}_{count}dim"
            found.append(View(name, f"star, {count}", f"SELECT {wanted} FROM {fact} {joins}", tables))
    return found


_SNOWFLAKE = """SELECT ca_zip, ca_county, i_item_id, ws_sales_price FROM web_sales
    JOIN customer ON ws_bill_customer_sk = c_customer_sk JOIN customer_address ON c_current_addr_sk = ca_address_sk
    JOIN item ON ws_item_sk = i_item_sk JOIN date_dim ON ws_sold_date_sk = d_date_sk"""
_ARBITRARY = """SELECT i_item_id, i_item_desc, s_store_id, s_store_name, d1.d_moy AS returned_in, d2.d_moy AS sold_in,
    d2.d_year AS sold_year, d3.d_year AS catalog_year, ss_quantity, sr_return_quantity, cs_quantity FROM store_sales
    JOIN store_returns ON sr_item_sk = ss_item_sk AND sr_ticket_number = ss_ticket_number
    JOIN item ON ss_item_sk = i_item_sk JOIN store ON ss_store_sk = s_store_sk
    JOIN date_dim d1 ON sr_returned_date_sk = d1.d_date_sk JOIN date_dim d2 ON ss_sold_date_sk = d2.d_date_sk
    JOIN catalog_sales ON cs_item_sk = i_item_sk AND cs_bill_customer_sk = sr_customer_sk
    JOIN date_dim d3 ON cs_sold_date_sk = d3.d_date_sk"""
_CHAIN = """SELECT l_returnflag, o_orderdate, c_custkey, c_name, l_extendedprice, l_discount, c_acctbal, n_name,
    c_address, c_phone, c_comment FROM lineitem JOIN orders ON l_orderkey = o_orderkey
    JOIN customer ON o_custkey = c_custkey JOIN nation ON c_nationkey = n_nationkey"""
_RETURNED = "o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R'"
_SNOWFLAKE_TABLES = ("web_sales", "customer", "customer_address", "item", "date_dim")
_ARBITRARY_TABLES = ("store_sales", "store_returns", "catalog_sales", "item", "store", "date_dim")
_CHAIN_TABLES = ("lineitem", "orders", "customer", "nation")

STARS = _stars()
SNOWFLAKE = View("snowflake", "snowflake", _SNOWFLAKE, _SNOWFLAKE_TABLES)
SNOWFLAKE_FILTER = View(
    "snowflake_filter", "snowflake", f"{_SNOWFLAKE} WHERE d_qoy = 1 AND d_year = 2000", _SNOWFLAKE_TABLES
)
ARBITRARY = View("arbitrary", "arbitrary", _ARBITRARY, _ARBITRARY_TABLES)
ARBITRARY_3 = View("arbitrary_3", "arbitrary", _ARBITRARY, _ARBITRARY_TABLES, without=("store_returns store_sales",))
CHAIN = View("chain", "chain", _CHAIN, _CHAIN_TABLES, "tpch")
CHAIN_FILTER = View("chain_filter", "chain", f"{_CHAIN} WHERE {_RETURNED}", _CHAIN_TABLES, "tpch")
VIEWS = [*STARS, SNOWFLAKE, SNOWFLAKE_FILTER, ARBITRARY, ARBITRARY_3, CHAIN, CHAIN_FILTER]
BY_SHARE = [SNOWFLAKE, ARBITRARY]
"""Measured for several shares of changed rows."""
