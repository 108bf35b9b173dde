"""The shop of the demonstration: tables, views and batches of changes, the same at every run."""

from __future__ import annotations

from dataclasses import dataclass

LINES_PER_ORDER = 3


@dataclass(frozen=True, slots=True)
class ShopView:
    name: str
    kind: str
    query: str


@dataclass(frozen=True, slots=True)
class Batch:
    title: str
    sql: str


VIEWS = (
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


def tables(orders: int) -> str:
    """A script that makes and fills the tables. hash() scatters, and gives the same at every run."""
    customers, products = _sizes(orders)
    return f"""
    CREATE TABLE customers (customer_id INT PRIMARY KEY, name VARCHAR, city VARCHAR);
    CREATE TABLE products (product_id INT PRIMARY KEY, title VARCHAR, category VARCHAR);
    CREATE TABLE orders (order_id INT PRIMARY KEY, customer_id INT, day DATE);
    CREATE TABLE order_lines (order_id INT, product_id INT, quantity INT, amount DECIMAL(10, 2));
    INSERT INTO customers SELECT i, 'customer ' || i, 'city ' || (hash(i) % 40) FROM range({customers}) r(i);
    INSERT INTO products SELECT i, 'product ' || i, 'category ' || (hash(i) % 12) FROM range({products}) r(i);
    INSERT INTO orders
    SELECT i, hash(i * 3) % {customers}, DATE '2025-01-01' + (i * 365 // {orders})::INT FROM range({orders}) r(i);
    {_lines(0, orders, products)}
    """


def batches(orders: int) -> tuple[Batch, ...]:
    """Inserts, deletes, updates, and rows that move to another key; about one row in a thousand each."""
    customers, products = _sizes(orders)
    few = max(1, orders // 500)
    # Coprime to the table sizes, so that the touched rows are spread over all of the table.
    step = max(7, min(997, orders // 20 | 1))
    return (
        Batch(
            f"{few:,} new orders arrive, with {few * LINES_PER_ORDER:,} lines and a new customer",
            f"""INSERT INTO customers VALUES ({customers}, 'customer {customers}', 'city 7');
            INSERT INTO orders
            SELECT i, hash(i * 3) % {customers + 1}, DATE '2026-01-01' FROM range({orders}, {orders + few}) r(i);
            {_lines(orders, orders + few, products)}""",
        ),
        Batch(
            f"every {step}th order is cancelled: its lines and itself are deleted",
            f"""DELETE FROM order_lines WHERE order_id % {step} = 0;
            DELETE FROM orders WHERE order_id % {step} = 0""",
        ),
        Batch(
            "amounts are corrected: updates, some of them of a product's lowest or highest",
            f"UPDATE order_lines SET amount = amount * 1.25 WHERE order_id % {step} = 1",
        ),
        Batch(
            "keys move: customers to another city, orders to another customer, lines to another product",
            f"""UPDATE customers SET city = 'city 1' WHERE customer_id % {step} = 3;
            UPDATE orders SET customer_id = (customer_id + 1) % {customers} WHERE order_id % {step} = 5;
            UPDATE order_lines SET product_id = (product_id + 1) % {products} WHERE order_id % {step} = 6""",
        ),
    )


def _sizes(orders: int) -> tuple[int, int]:
    """How many customers and products a shop of so many orders has."""
    return max(20, orders // 20), max(10, orders // 200)


def _lines(first: int, end: int, products: int) -> str:
    n = LINES_PER_ORDER
    return f"""INSERT INTO order_lines
    SELECT i // {n}, hash(i * 5) % {products}, hash(i * 11) % 4 + 1, (hash(i * 13) % 20000) / 100
    FROM range({first * n}, {end * n}) r(i);"""
