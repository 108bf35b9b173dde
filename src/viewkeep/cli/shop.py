"""The shop of the demonstration: tables, views and batches of changes, the same at every run and on every engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from viewkeep import Keeper

LINES_PER_ORDER = 3
_LOADS = 5
"""Orders come in as many loads, one after the other, as in a shop that loads every night."""


@dataclass(frozen=True, slots=True)
class ShopView:
    name: str
    kind: str
    query: str


@dataclass(frozen=True, slots=True)
class Batch:
    title: str
    change: Callable[[Keeper], None]


SPARK_VIEWS = (
    ShopView(
        "product_totals",
        "aggregate",
        "SELECT product_id, COUNT(*) AS lines, SUM(amount) AS total FROM order_lines GROUP BY product_id",
    ),
    ShopView(
        "big_sales",
        "join of four tables",
        """SELECT l.order_id, o.day, c.name, c.city, p.title, p.category, l.amount
           FROM order_lines l
           JOIN orders o ON o.order_id = l.order_id
           JOIN customers c ON c.customer_id = o.customer_id
           JOIN products p ON p.product_id = l.product_id
           WHERE l.amount >= 190""",
    ),
    ShopView(
        "big_by_city",
        "view on the view big_sales",
        "SELECT city, category, COUNT(*) AS lines, SUM(amount) AS revenue FROM big_sales GROUP BY city, category",
    ),
    ShopView(
        "revenue_by_city",
        "join and aggregate",
        """SELECT c.city, COUNT(*) AS lines, SUM(l.amount) AS revenue, AVG(l.amount) AS average
           FROM customers c
           JOIN orders o ON o.customer_id = c.customer_id
           JOIN order_lines l ON l.order_id = o.order_id
           GROUP BY c.city""",
    ),
    ShopView(
        "price_range",
        "MIN and MAX",
        "SELECT product_id, MIN(amount) AS lowest, MAX(amount) AS highest FROM order_lines GROUP BY product_id",
    ),
)

DUCKDB_VIEWS = (
    ShopView(
        "order_totals",
        "aggregate",
        "SELECT order_id, COUNT(*) AS lines, SUM(amount) AS total FROM order_lines GROUP BY order_id",
    ),
    ShopView(
        "sales",
        "join of four tables",
        """SELECT l.order_id, o.day, c.name, c.city, p.title, p.category, l.quantity, l.amount
           FROM order_lines l
           JOIN orders o ON o.order_id = l.order_id
           JOIN customers c ON c.customer_id = o.customer_id
           JOIN products p ON p.product_id = l.product_id""",
    ),
    ShopView(
        "revenue_by_city",
        "view on the view sales",
        "SELECT city, category, COUNT(*) AS lines, SUM(amount) AS revenue FROM sales GROUP BY city, category",
    ),
    ShopView(
        "customer_value",
        "join and aggregate",
        """SELECT c.customer_id, c.name, COUNT(*) AS lines, SUM(l.amount) AS spent, AVG(l.amount) AS average
           FROM customers c
           JOIN orders o ON o.customer_id = c.customer_id
           JOIN order_lines l ON l.order_id = o.order_id
           GROUP BY c.customer_id, c.name""",
    ),
    ShopView(
        "price_range",
        "MIN and MAX",
        """SELECT p.title, MIN(l.amount) AS lowest, MAX(l.amount) AS highest
           FROM products p JOIN order_lines l ON l.product_id = p.product_id
           GROUP BY p.title""",
    ),
    ShopView(
        "who_bought_what",
        "DISTINCT over a join",
        """SELECT DISTINCT c.name, p.title
           FROM order_lines l
           JOIN orders o ON o.order_id = l.order_id
           JOIN customers c ON c.customer_id = o.customer_id
           JOIN products p ON p.product_id = l.product_id""",
    ),
)
"""Larger ones, because DuckDB reads narrow tables of this size in milliseconds."""

_TABLES = """
CREATE TABLE customers (customer_id INT PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE products (product_id INT PRIMARY KEY, title TEXT, category TEXT);
CREATE TABLE orders (order_id INT PRIMARY KEY, customer_id INT, day DATE);
CREATE TABLE order_lines (order_id INT, product_id INT, quantity INT, amount DECIMAL(10, 2));
"""


@dataclass(frozen=True, slots=True)
class Shop:
    """A shop of so many orders."""

    orders: int

    @property
    def customers(self) -> int:
        return max(20, self.orders // 20)

    @property
    def products(self) -> int:
        return max(10, self.orders // 200)

    @property
    def few(self) -> int:
        """About one order in a thousand."""
        return max(1, self.orders // 1000)

    def open(self, keeper: Keeper) -> None:
        keeper.sql(_TABLES)
        ids = _numbers(0, self.customers)
        keeper.load("customers", _table(customer_id=ids, name=_named("customer ", ids), city=_city(ids)))
        ids = _numbers(0, self.products)
        category = _named("category ", _scattered(ids, 12))
        keeper.load("products", _table(product_id=ids, title=_named("product ", ids), category=category))
        for load in range(_LOADS):
            self._sell(keeper, self.orders * load // _LOADS, self.orders * (load + 1) // _LOADS)

    def warm_ups(self) -> tuple[Callable[[Keeper], None], ...]:
        """The same kinds of change as in the batches, of a row or two, before anything is timed."""
        after, first = self.orders + self.few, self.orders // 8

        def append(keeper: Keeper) -> None:
            self._sell(keeper, after, after + 1)

        def mutate(keeper: Keeper) -> None:
            self._cancel(keeper, first, first + 1)
            keeper.sql(f"UPDATE order_lines SET amount = amount + 1 WHERE order_id = {first + 1}")

        def move(keeper: Keeper) -> None:
            keeper.sql("UPDATE customers SET city = 'city 0' WHERE customer_id = 1")
            keeper.sql(f"UPDATE orders SET customer_id = 1 WHERE order_id = {first + 2}")

        return append, mutate, move

    def batches(self) -> tuple[Batch, ...]:
        few, last = self.few, self.orders
        return (
            Batch(
                f"{few:,} new orders with {few * LINES_PER_ORDER:,} lines: rows are appended, nothing else",
                lambda keeper: self._sell(keeper, last, last + few),
            ),
            Batch(
                f"{few:,} orders are cancelled, {few:,} corrected: deletes, and updates of lowest or highest amounts",
                self._repent,
            ),
            Batch("keys move: customers to another city, orders to another customer", self._move),
            Batch("nothing at all", lambda keeper: None),
        )

    def _sell(self, keeper: Keeper, first: int, end: int) -> None:
        """Orders with numbers from `first` up to `end`, and their lines."""
        ids = _numbers(first, end)
        days = pc.add(pc.divide(pc.multiply(ids, 365), self.orders), (date(2025, 1, 1) - date(1970, 1, 1)).days)
        # One customer in twenty has not bought anything yet.
        buyers = _scattered(ids, self.customers * 19 // 20)
        keeper.load("orders", _table(order_id=ids, customer_id=buyers, day=days.cast(pa.int32()).cast(pa.date32())))
        lines = _numbers(first * LINES_PER_ORDER, end * LINES_PER_ORDER)
        cents = _scattered(pc.add(lines, 17), 20_000)
        cent = pa.scalar(Decimal("0.01"), pa.decimal128(3, 2))
        keeper.load(
            "order_lines",
            _table(
                order_id=pc.divide(lines, LINES_PER_ORDER),
                product_id=_scattered(lines, self.products),
                quantity=pc.add(_scattered(lines, 4), 1),
                amount=pc.multiply(cents.cast(pa.int32()).cast(pa.decimal128(10, 0)), cent),
            ),
        )

    def _cancel(self, keeper: Keeper, first: int, end: int) -> None:
        for table in ("order_lines", "orders"):
            keeper.sql(f"DELETE FROM {table} WHERE order_id >= {first} AND order_id < {end}")

    def _repent(self, keeper: Keeper) -> None:
        middle = self.orders // 2
        self._cancel(keeper, middle, middle + self.few)
        chosen = f"order_id >= {middle - self.few} AND order_id < {middle}"
        keeper.sql(f"UPDATE order_lines SET amount = amount * 0.75 WHERE {chosen}")

    def _move(self, keeper: Keeper) -> None:
        few = max(1, self.few // 10)
        moved, first = self.customers // 2, self.orders // 4
        keeper.sql(f"UPDATE customers SET city = 'city 1' WHERE customer_id >= {moved} AND customer_id < {moved + few}")
        keeper.sql(
            f"UPDATE orders SET customer_id = {moved} WHERE order_id >= {first} AND order_id < {first + self.few}"
        )


def _numbers(first: int, end: int) -> pa.Array:
    return pa.array(range(first, end), pa.int64())


def _scattered(numbers: pa.Array, below: int) -> pa.Array:
    """Each number as another one from 0 up to `below`, the same at every run."""
    mixed = pc.bit_wise_and(pc.multiply(pc.add(numbers, 1), 2_654_435_761), 0xFFFFFFFF)
    mixed = pc.shift_right(pc.bit_wise_xor(mixed, pc.shift_right(mixed, 15)), 3)
    return pc.subtract(mixed, pc.multiply(pc.divide(mixed, below), below))


def _named(word: str, numbers: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(word, numbers.cast(pa.string()), "")


def _city(ids: pa.Array) -> pa.Array:
    return _named("city ", _scattered(ids, 40))


def _table(**columns: pa.Array) -> pa.Table:
    return pa.table(columns)
