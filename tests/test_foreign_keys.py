"""Deltas along foreign keys: right whatever the keys are worth, and without the branches they save.

The keys are declared and nobody enforces them: facts arrive before their dimension row, dimension rows
go while facts still point at them, keys come twice, go and come again, change what they say.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import viewkeep
from support import Engine
from viewkeep.catalog import Catalog, Column, ForeignKey, Key, Table, TableName, Trust
from viewkeep.engine.table_format import NewFile
from viewkeep.incremental.foreign_keys import Component, components, edges_of
from viewkeep.incremental.weighted import Edge
from viewkeep.plan.nodes import Field, Scan
from viewkeep.runtime.compiled import UNASKED
from viewkeep.runtime.lake import columns as read_columns
from viewkeep.runtime.lake.maintenance import Maintenance
from viewkeep.runtime.transactional import refresh
from viewkeep.sql.build import build_query
from viewkeep.strategy.shape import Shape

SCHEMA = """
CREATE TABLE countries (country INT, continent TEXT);
CREATE TABLE customers (customer INT, country INT, name TEXT, note TEXT);
CREATE TABLE items (shop INT, item INT, label TEXT, price INT);
CREATE TABLE days (day INT, weekday INT, quarter INT);
CREATE TABLE sales (sale INT, customer INT, shop INT, item INT, sold INT, shipped INT, amount INT);
CREATE TABLE returns (back INT, sale INT, customer INT, day INT, refund INT);
CREATE TABLE people (person INT, boss INT, name TEXT);
"""
KEYS = {
    "countries": ["country"],
    "customers": ["customer"],
    "items": ["shop", "item"],
    "days": ["day"],
    "sales": ["sale"],
    "people": ["person"],
}
FOREIGN_KEYS = [
    ("customers", ["country"], "countries", ["country"]),
    ("sales", ["customer"], "customers", ["customer"]),
    ("sales", ["shop", "item"], "items", ["shop", "item"]),
    ("sales", ["sold"], "days", ["day"]),
    ("sales", ["shipped"], "days", ["day"]),
    ("returns", ["sale"], "sales", ["sale"]),
    ("returns", ["customer"], "customers", ["customer"]),
    ("returns", ["day"], "days", ["day"]),
    ("people", ["boss"], "people", ["person"]),
]
VIEWS = {
    "star": """SELECT s.sale, c.name, i.label, d.weekday, s.amount FROM sales s
        JOIN customers c ON s.customer = c.customer JOIN days d ON s.sold = d.day
        JOIN items i ON s.shop = i.shop AND s.item = i.item""",
    "star_sums": """SELECT d.quarter, i.label, SUM(s.amount) AS total, COUNT(*) AS n FROM sales s
        JOIN days d ON s.sold = d.day JOIN items i ON s.shop = i.shop AND s.item = i.item
        WHERE d.weekday < 4 AND i.price > 2 GROUP BY d.quarter, i.label""",
    "snowflake": """SELECT s.sale, c.name, l.continent FROM sales s JOIN customers c ON s.customer = c.customer
        JOIN countries l ON c.country = l.country""",
    "twice_the_same": """SELECT s.sale, a.quarter AS sold_in, b.quarter AS shipped_in FROM sales s
        JOIN days a ON s.sold = a.day JOIN days b ON s.shipped = b.day""",
    "two_facts": """SELECT r.back, s.amount, c.name, x.weekday FROM returns r JOIN sales s ON r.sale = s.sale
        JOIN customers c ON r.customer = c.customer AND s.customer = c.customer JOIN days x ON r.day = x.day""",
    "no_root": """SELECT s.sale, r.back, c.name FROM sales s JOIN customers c ON s.customer = c.customer
        JOIN returns r ON r.customer = c.customer WHERE r.refund > 1""",
    "bosses": "SELECT p.name, b.name AS boss FROM people p JOIN people b ON p.boss = b.person",
    "extremes": """SELECT c.name, MAX(s.amount) AS most, MIN(d.quarter) AS first FROM sales s
        JOIN customers c ON s.customer = c.customer JOIN days d ON s.sold = d.day GROUP BY c.name""",
    "beside_a_group": """SELECT c.name, s.amount FROM sales s JOIN customers c ON s.customer = c.customer
        WHERE s.amount > (SELECT AVG(amount) FROM sales)""",
}


class Shop:
    """The rows of all tables, and batches that change them in ways nobody would allow who enforced keys."""

    def __init__(self, keeper: viewkeep.Keeper, seed: int) -> None:
        self.keeper, self.rng = keeper, random.Random(seed)
        keeper.sql(SCHEMA, dialect="duckdb")
        self.rows: dict[str, list[tuple[Any, ...]]] = {t: [] for t in [*KEYS, "returns"]}
        for table, columns in KEYS.items():
            keeper.declare_key(table, columns)
        for key in FOREIGN_KEYS:
            keeper.declare_foreign_key(*key)
        for table in self.rows:
            self.change(table, [], [self.row(table, n) for n in range(1, 9)])

    def pointer(self, top: int = 10) -> int | None:
        """At a key that is there, or is not yet, or at nothing."""
        return None if self.rng.random() < 0.1 else self.rng.randint(1, top)

    def row(self, table: str, key: int) -> tuple[Any, ...]:
        number, word = self.rng.randint(0, 5), self.rng.choice(["a", "b", None])
        match table:
            case "countries":
                return key, word
            case "customers":
                return key, self.pointer(), word, self.rng.choice(["x", "y"])
            case "items":
                return key % 2, key, word, number
            case "days":
                return key, number, number % 4
            case "sales":
                item = self.pointer() or 1
                return key, self.pointer(), item % 2, item, self.pointer(), self.pointer(), number
            case "returns":
                return key, self.pointer(), self.pointer(), self.pointer(), number
            case _:
                return key, self.pointer(), word

    def change(self, table: str, gone: list[tuple[Any, ...]], come: list[tuple[Any, ...]]) -> None:
        for row in gone:
            self.rows[table].remove(row)
        self.rows[table] += come
        listed = [(r, -1) for r in gone] + [(r, 1) for r in come]
        if not listed:
            return
        columns = self.keeper.query(f"SELECT * FROM {table} LIMIT 0").schema
        arrays = [pa.array([r[i] for r, _ in listed], f.type) for i, f in enumerate(columns)]
        batch = pa.table(arrays, names=columns.names)
        self.keeper.apply(table, batch.append_column("_w", pa.array([w for _, w in listed], pa.int32())))

    def batch(self, kind: str) -> None:
        dimensions = ["countries", "customers", "items", "days", "people"]
        match kind:
            case "facts":
                for table in ("sales", "returns"):
                    gone = self.some(table, 2)
                    self.change(table, gone, [self.row(table, self.rng.randint(9, 40)) for _ in range(3)])
            case "dimensions come":
                for table in dimensions:
                    self.change(table, [], [self.row(table, self.rng.randint(9, 12))])
            case "dimensions go, facts stay":
                for table in dimensions:
                    self.change(table, self.some(table, 1), [])
            case "dimensions go, facts first":
                for row in self.some("customers", 1):
                    for table, at in (("sales", 1), ("returns", 2)):
                        self.change(table, [r for r in self.rows[table] if r[at] == row[0]], [])
                    self.change("customers", [row], [])
            case "keys come again":
                for table in dimensions:
                    gone = self.some(table, 2)
                    self.change(table, gone, [self.row(table, r[0] if table != "items" else r[1]) for r in gone])
            case "keys come twice":
                for table in dimensions:
                    self.change(table, [], [self.row(table, self.rng.randint(1, 8))])
            case "unused columns":
                gone = self.some("customers", 3)
                self.change("customers", gone, [(*r[:3], "z") for r in gone])
            case "emptied":
                table = self.rng.choice(list(self.rows))
                self.change(table, list(self.rows[table]), [])
            case _:
                for other in self.rng.sample(BATCHES[:-1], 3):
                    self.batch(other)

    def some(self, table: str, count: int) -> list[tuple[Any, ...]]:
        return self.rng.sample(self.rows[table], min(count, len(self.rows[table])))


BATCHES = [
    "facts",
    "dimensions come",
    "dimensions go, facts stay",
    "dimensions go, facts first",
    "keys come again",
    "keys come twice",
    "unused columns",
    "emptied",
    "several at once",
]


def bag(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, zip(*(c.to_pylist() for c in table.columns), strict=True)))


@pytest.mark.parametrize("strategy", ["foreign-key", "auto"])
@pytest.mark.parametrize("seed", range(3))
def test_views_are_right_whatever_the_keys_are_worth(seed: int, strategy: str) -> None:
    with viewkeep.connect("duckdb://") as keeper:
        shop, used = Shop(keeper, seed), Counter[str]()
        for name, query in VIEWS.items():
            keeper.sql(
                f"CREATE MATERIALIZED VIEW {name} WITH (strategy = '{strategy}', policy = 'incremental') AS {query}"
            )
        for kind in shop.rng.sample(BATCHES * 2, len(BATCHES) * 2):
            shop.batch(kind)
            reports = keeper.refresh()
            used.update(r.strategy for r in reports)
            for name, query in VIEWS.items():
                assert bag(keeper.query(f"SELECT * FROM {name}")) == bag(keeper.query(query)), f"{name} after {kind}"
        assert used["foreign-key"] > 10
        assert not used["recompute"]


ON_VIEWS = {
    "good_items": "SELECT shop, item, label FROM items WHERE price > 1",
    "labels": "SELECT shop, item, label FROM good_items WHERE label IS NOT NULL",
    "places": "SELECT c.customer, c.name, l.continent FROM customers c JOIN countries l ON c.country = l.country",
    "lines": """SELECT s.sale, s.customer, s.shop, s.item, s.sold, s.amount FROM sales s
        JOIN days d ON s.shipped = d.day""",
    "above": """SELECT l.sale, p.continent, n.label, d.quarter FROM lines l JOIN places p ON l.customer = p.customer
        JOIN labels n ON l.shop = n.shop AND l.item = n.item JOIN days d ON l.sold = d.day""",
    "star_over_a_view": """SELECT p.continent, SUM(s.amount) AS total FROM sales s
        JOIN places p ON s.customer = p.customer JOIN days d ON s.sold = d.day GROUP BY p.continent""",
}


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_keys_are_carried_through_views_on_views(seed: int) -> None:
    follow(viewkeep.connect("duckdb://"), seed, ON_VIEWS, 12)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("read", [0, 1_000_000], ids=["asked in Spark", "asked in the driver"])
@pytest.mark.parametrize("views", [ON_VIEWS, VIEWS], ids=["on views", "on tables"])
def test_views_on_a_lake_are_right_whatever_the_keys_are_worth(
    spark: Engine, views: dict[str, str], read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_columns, "MOST_READ", read)
    follow(viewkeep.connect(spark.url()), 1, views, 12)


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_driver_and_spark_have_the_same_doubts(spark: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, in_driver = Counter[str](), Maintenance._asked_in_driver

    def both(self: Maintenance, edges: tuple[Edge, ...], shape: Shape) -> pa.Table | None:
        guard, answer = self.programs.guard(edges, shape), in_driver(self, edges, shape)
        assert guard is not None
        if answer is not None:
            found = self.spark.collect(self._query(guard))
            assert bag(answer) == bag(found)
            asked["doubts" if found.num_rows else "none"] += 1
        return answer

    monkeypatch.setattr(Maintenance, "_asked_in_driver", both)
    few = {name: VIEWS[name] for name in ("snowflake", "twice_the_same", "two_facts")}
    follow(viewkeep.connect(spark.url()), 3, few, 5)
    assert min(asked["doubts"], asked["none"]) > 0, asked


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_driver_and_spark_compute_the_same_change(spark: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, in_driver = Counter[str](), Maintenance._from_driver

    def both(self: Maintenance, *folder: str) -> list[NewFile] | None:
        written = in_driver(self, *folder)
        if written is not None:
            text = self.program.change or self.program.rows
            assert text is not None
            found = self.spark.collect(self._query(text))
            files = [os.path.join(self.stored.snapshot.location, f.path) for f in written]
            change = pa.concat_tables(
                [found.schema.empty_table(), *map(pq.read_table, files)], promote_options="permissive"
            )
            assert bag(change.select(found.column_names)) == bag(found)
            seen["change" if folder else "rows"] += bool(found.num_rows)
        return written

    monkeypatch.setattr(Maintenance, "_from_driver", both)
    few = {name: VIEWS[name] for name in ("star", "snowflake", "twice_the_same")}
    follow(viewkeep.connect(spark.url()), 3, few, 7)
    assert seen["change"] > 3, seen


@pytest.mark.spark
def test_a_question_about_few_rows_launches_no_job(spark: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = []
    for most in (read_columns.MOST_READ, 0):
        monkeypatch.setattr(read_columns, "MOST_READ", most)
        with viewkeep.connect(spark.url()) as keeper:
            keeper.sql("CREATE TABLE gods (uid INT, name STRING); CREATE TABLE pay (uid INT, x INT)")
            keeper.declare_key("gods", ["uid"])
            keeper.declare_foreign_key("pay", ["uid"], "gods", ["uid"])
            keeper.sql("INSERT INTO gods VALUES (1, 'a'), (2, 'b'); INSERT INTO pay VALUES (1, 10), (2, 20)")
            query = "SELECT g.name, p.x FROM pay p JOIN gods g ON p.uid = g.uid"
            keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (strategy = 'foreign-key', policy = 'incremental') AS {query}")
            keeper.sql(
                "INSERT INTO gods VALUES (3, 'c'); INSERT INTO pay VALUES (3, 30); DELETE FROM pay WHERE uid = 1"
            )
            keeper.sql("DELETE FROM gods WHERE uid = 1")
            report = keeper.refresh("v")
            assert (report.strategy, report.rows_inserted, report.rows_deleted) == ("foreign-key", 1, 1)
            assert keeper.verify("v").equal
            jobs.append(report.jobs)
    assert jobs[0] < jobs[1], jobs


def follow(keeper: viewkeep.Keeper, seed: int, views: dict[str, str], batches: int) -> None:
    """Views that rely on keys, equal to their queries after each of some batches."""
    with keeper:
        shop, used = Shop(keeper, seed), Counter[str]()
        for name, query in views.items():
            keeper.sql(
                f"CREATE MATERIALIZED VIEW {name} WITH (strategy = 'foreign-key', policy = 'incremental') AS {query}"
            )
        for kind in shop.rng.sample(BATCHES * 2, batches):
            shop.batch(kind)
            used.update(r.strategy for r in keeper.refresh())
            for name, query in views.items():
                assert bag(keeper.query(f"SELECT * FROM {name}")) == bag(keeper.query(query)), f"{name} after {kind}"
        assert used["foreign-key"] > 10


def test_a_star_over_views_has_one_branch() -> None:
    with viewkeep.connect("duckdb://") as keeper:
        Shop(keeper, 1)
        for name, query in ON_VIEWS.items():
            keeper.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        expected = """\
4 tables, branches 4 → 1:
  lines
  └─ lines(customer) → places(customer)
  └─ lines(shop, item) → labels(shop, item)
  └─ lines(sold) → days(day)"""
        assert keeper.explain("above", graph="text") == expected
        assert keeper.explain("star_over_a_view", graph="text").startswith("3 tables, branches 3 → 1")
        # A view with several rows for a key cannot be pointed at.
        keeper.sql(
            "CREATE MATERIALIZED VIEW many AS SELECT c.customer, s.sale FROM customers c JOIN sales s USING (customer)"
        )
        keeper.sql("CREATE MATERIALIZED VIEW w AS SELECT r.back, m.sale FROM returns r JOIN many m USING (customer)")
        assert keeper.explain("w", graph="text") == "no join of this view follows a foreign key"


def income(enforced: bool = False) -> viewkeep.Keeper:
    keeper = viewkeep.connect("duckdb://")
    points = " REFERENCES gods (uid)" if enforced else ""
    keeper.sql(
        f"CREATE TABLE gods (uid INT PRIMARY KEY, name TEXT); CREATE TABLE pay (pid INT, uid INT{points}, x INT)"
    )
    if not enforced:
        keeper.declare_foreign_key("pay", ["uid"], "gods", ["uid"])
    keeper.sql("INSERT INTO gods VALUES (1, 'a'), (2, 'b'); INSERT INTO pay VALUES (1, 1, 10), (2, 2, 20)")
    query = "SELECT g.name, p.x FROM pay p JOIN gods g ON p.uid = g.uid"
    keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'incremental') AS {query}")
    return keeper


def rows(keeper: viewkeep.Keeper) -> list[tuple[Any, ...]]:
    return sorted(tuple(r.values()) for r in keeper.query("SELECT * FROM v").to_pylist())


def test_a_new_dimension_row_alone_concerns_nobody() -> None:
    with income() as keeper:
        keeper.sql("INSERT INTO gods VALUES (3, 'c')")
        report = keeper.refresh("v")
        assert (report.strategy, report.rows_inserted, report.rows_deleted) == ("foreign-key", 0, 0)


@pytest.mark.parametrize(("rows_from", "strategy"), [(0, "classical"), (100, "foreign-key")])
def test_of_a_large_fact_nothing_is_asked_for_one_branch(
    rows_from: int, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh, "LARGE", rows_from)
    with income() as keeper:
        keeper.sql("INSERT INTO gods VALUES (3, 'c'); INSERT INTO pay VALUES (3, 3, 30)")
        report = keeper.refresh("v")
        assert (report.strategy, report.rows_inserted) == (strategy, 1)
        assert (UNASKED in report.reason) == (strategy == "classical")


def test_of_two_keys_a_large_fact_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh, "LARGE", 0)
    with viewkeep.connect("duckdb://") as keeper:
        shop = Shop(keeper, 1)
        keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'incremental') AS {VIEWS['snowflake']}")
        shop.batch("dimensions come")
        report = keeper.refresh("v")
        assert report.strategy == "foreign-key"
        assert UNASKED not in report.dropped.values()


def test_a_late_dimension_row_meets_the_facts_that_waited_for_it() -> None:
    with income() as keeper:
        keeper.sql("INSERT INTO pay VALUES (3, 3, 30)")
        assert keeper.refresh("v").rows_inserted == 0
        keeper.sql("INSERT INTO gods VALUES (3, 'c')")
        report = keeper.refresh("v")
        assert report.strategy == "classical"
        assert "not relied on this time" in report.reason
        assert ("c", 30) in rows(keeper)


def test_a_dimension_row_that_goes_alone_takes_its_facts_out() -> None:
    with income() as keeper:
        keeper.sql("DELETE FROM gods WHERE uid = 2")
        assert keeper.refresh("v").strategy == "classical"
        assert rows(keeper) == [("a", 10)]


def test_a_dimension_row_that_goes_with_its_facts_costs_no_branch() -> None:
    with income() as keeper:
        keeper.sql("DELETE FROM pay WHERE uid = 2; DELETE FROM gods WHERE uid = 2; INSERT INTO pay VALUES (9, 1, 5)")
        report = keeper.refresh("v")
        assert (report.strategy, report.rows_inserted, report.rows_deleted) == ("foreign-key", 1, 1)
        assert rows(keeper) == [("a", 5), ("a", 10)]


def test_an_enforced_key_that_comes_again_is_noticed() -> None:
    with income(enforced=True) as keeper:
        keeper.sql("DELETE FROM pay WHERE uid = 2; DELETE FROM gods WHERE uid = 2")
        keeper.sql("INSERT INTO gods VALUES (2, 'again'); INSERT INTO pay VALUES (2, 2, 20)")
        assert keeper.refresh("v").strategy == "classical"
        assert rows(keeper) == [("a", 10), ("again", 20)]


def test_an_update_of_a_column_that_the_view_does_not_use_costs_nothing() -> None:
    with viewkeep.connect("duckdb://") as keeper:
        shop = Shop(keeper, 1)
        keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (strategy = 'foreign-key') AS {VIEWS['snowflake']}")
        shop.batch("unused columns")
        report = keeper.refresh("v")
        assert (report.strategy, report.rows_inserted, report.rows_deleted) == ("foreign-key", 0, 0)


# ---------------------------------------------------------------------- the graph
def _catalog() -> Catalog:
    tables = []
    for statement in SCHEMA.strip().split(";\n"):
        name, _, columns = statement.removeprefix("CREATE TABLE ").removesuffix(";").partition(" (")
        listed = [c.split() for c in columns.rstrip(");").split(", ")]
        keys = (Key(tuple(KEYS[name]), enforced=False),) if name in KEYS else ()
        foreign = tuple(
            ForeignKey(tuple(c), TableName(p), tuple(pc), Trust.CHECKED) for t, c, p, pc in FOREIGN_KEYS if t == name
        )
        tables.append(Table(TableName(name), tuple(Column(c, t) for c, t in listed), keys=keys, foreign_keys=foreign))
    return Catalog.of(tables)


@pytest.mark.parametrize(
    ("view", "edges"),
    [("star", 3), ("snowflake", 2), ("twice_the_same", 2), ("two_facts", 4), ("no_root", 2), ("bosses", 1)],
)
def test_the_edges_of_a_view(view: str, edges: int) -> None:
    assert len(edges_of(build_query(VIEWS[view], _catalog(), "duckdb").root, _catalog())) == edges


def _edge(child: int, parent: int) -> Edge:
    return Edge(f"n{child}", f"n{parent}", (), f"t{parent}", False, f"{child} → {parent}")


@pytest.mark.parametrize(
    ("count", "edges", "expected"),
    [
        (4, [(0, 1), (0, 2), (0, 3)], [Component(0, (1, 2, 3))]),  # a star has one branch
        (5, [(0, 1), (1, 2), (2, 3), (0, 4)], [Component(0, (1, 4, 2, 3))]),  # so has a snowflake
        (
            5,
            [(0, 1), (0, 2), (3, 2), (3, 4)],
            [Component(0, (1, 2)), Component(3, (4,))],
        ),  # shared: taken once
        (3, [], [Component(0), Component(1), Component(2)]),  # without keys there is a branch a table
        (3, [(0, 1), (1, 2), (2, 0)], [Component(0, (1, 2))]),  # a cycle has a root too
    ],
)
def test_the_largest_rooted_component_comes_first(
    count: int, edges: list[tuple[int, int]], expected: list[Component]
) -> None:
    relations = [Scan(TableName(f"t{i}"), ((Field(f"n{i}"), "a"),)) for i in range(count)]
    assert components(relations, frozenset(_edge(*e) for e in edges)) == expected
