"""Views over TPC-H: rows, joins, stars, chains, sums, extremes, distinct values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class View:
    name: str
    what: str
    tables: tuple[str, ...]
    query: str


_L, _O, _C, _S, _N, _R, _P = "lineitem", "orders", "customer", "supplier", "nation", "region", "part"

BULK = View(
    "bulk_items",
    "rows of one table, filtered",
    (_L,),
    "SELECT l_orderkey, l_linenumber, l_partkey, l_quantity, l_extendedprice FROM lineitem WHERE l_quantity >= 49",
)
URGENT = View(
    "urgent_orders",
    "rows of a join, filtered",
    (_O, _C),
    """SELECT o_orderkey, o_orderdate, o_totalprice, c_name, c_mktsegment
FROM orders JOIN customer ON o_custkey = c_custkey
WHERE o_orderpriority = '1-URGENT'""",
)
SHIPPED = View(
    "shipped_parts",
    "rows of a chain of 4",
    (_C, _O, _L, _P),
    """SELECT c_name, o_orderkey, o_orderdate, l_linenumber, p_name, l_quantity
FROM customer JOIN orders ON o_custkey = c_custkey JOIN lineitem ON l_orderkey = o_orderkey
JOIN part ON p_partkey = l_partkey
WHERE p_brand = 'Brand#23' AND p_container LIKE 'MED%'""",
)
PRICING = View(
    "pricing_summary",
    "sums, 4 groups (Q1)",
    (_L,),
    """SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS quantity, SUM(l_extendedprice) AS base,
SUM(l_extendedprice * (1 - l_discount)) AS discounted, SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS charged,
AVG(l_quantity) AS average, COUNT(*) AS items
FROM lineitem WHERE l_shipdate <= DATE '1998-09-02' GROUP BY l_returnflag, l_linestatus""",
)
SHIPPING = View(
    "shipping_priority",
    "sums by order over a join of 3 (Q3)",
    (_C, _O, _L),
    """SELECT l_orderkey, o_orderdate, o_shippriority, SUM(l_extendedprice * (1 - l_discount)) AS revenue
FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey
WHERE c_mktsegment = 'BUILDING' AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
GROUP BY l_orderkey, o_orderdate, o_shippriority""",
)
LOCAL = View(
    "local_suppliers",
    "sums over a chain of 6 (Q5)",
    (_C, _O, _L, _S, _N, _R),
    """SELECT n_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue
FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey
JOIN supplier ON l_suppkey = s_suppkey AND c_nationkey = s_nationkey
JOIN nation ON s_nationkey = n_nationkey JOIN region ON n_regionkey = r_regionkey
WHERE r_name = 'ASIA' GROUP BY n_name""",
)
FORECAST = View(
    "forecast_revenue",
    "one sum (Q6)",
    (_L,),
    """SELECT SUM(l_extendedprice * l_discount) AS revenue, COUNT(*) AS items
FROM lineitem WHERE l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
)
RETURNED = View(
    "returned_items",
    "sums by customer over a join of 4 (Q10)",
    (_C, _O, _L, _N),
    """SELECT c_custkey, c_name, n_name, SUM(l_extendedprice * (1 - l_discount)) AS lost, COUNT(*) AS items
FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey
JOIN nation ON c_nationkey = n_nationkey
WHERE l_returnflag = 'R' GROUP BY c_custkey, c_name, n_name""",
)
MODES = View(
    "shipping_modes",
    "counts with conditions over a join (Q12)",
    (_O, _L),
    """SELECT l_shipmode,
SUM(CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS high,
SUM(CASE WHEN o_orderpriority NOT IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS low
FROM orders JOIN lineitem ON o_orderkey = l_orderkey
WHERE l_commitdate < l_receiptdate AND l_shipdate < l_commitdate GROUP BY l_shipmode""",
)
STAR = View(
    "brand_revenue",
    "sums over a star of 4",
    (_L, _P, _S, _N),
    """SELECT p_brand, n_name, SUM(l_extendedprice) AS revenue, COUNT(*) AS items
FROM lineitem JOIN part ON p_partkey = l_partkey JOIN supplier ON s_suppkey = l_suppkey
JOIN nation ON n_nationkey = s_nationkey GROUP BY p_brand, n_name""",
)
EXTREMES = View(
    "supplier_extremes",
    "MIN and MAX by supplier",
    (_L,),
    """SELECT l_suppkey, MIN(l_shipdate) AS first, MAX(l_shipdate) AS last, MAX(l_extendedprice) AS dearest
FROM lineitem GROUP BY l_suppkey""",
)
BOUGHT = View(
    "bought_brands",
    "DISTINCT over a join of 3",
    (_O, _L, _P),
    """SELECT DISTINCT o_custkey, p_brand FROM orders JOIN lineitem ON l_orderkey = o_orderkey
JOIN part ON p_partkey = l_partkey WHERE p_size >= 40""",
)

VIEWS = (
    BULK, URGENT, SHIPPED, PRICING, SHIPPING, LOCAL, FORECAST, RETURNED, MODES, STAR, EXTREMES, BOUGHT,
)  # fmt: skip
APPENDED = (BULK, SHIPPED, PRICING, LOCAL, RETURNED, EXTREMES)
"""Also measured when orders only come."""
