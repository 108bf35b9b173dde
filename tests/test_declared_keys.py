"""Foreign keys that are declared: checked or trusted, counted when they do not hold, drawn by explain."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import viewkeep
from support import Engine, assert_view_equals_query
from viewkeep.errors import CatalogError, SqlError

QUERY = "SELECT p.pid, g.name, p.x FROM pay p JOIN gods g ON p.uid = g.uid"
KEY = ("pay", ["uid"], "gods", ["uid"])
LABEL = "pay(uid) → gods(uid)"


@pytest.fixture
def keeper(engine: Engine) -> Iterator[viewkeep.Keeper]:
    with viewkeep.connect(engine.url()) as keeper:
        keeper.sql("CREATE TABLE gods (uid INT, name STRING, note STRING); CREATE TABLE pay (pid INT, uid INT, x INT)")
        keeper.sql("INSERT INTO gods VALUES (1, 'a', ''), (2, 'b', '')")
        keeper.sql("INSERT INTO pay VALUES (1, 1, 10), (2, 2, 20), (3, NULL, 30)")
        yield keeper


def create(keeper: viewkeep.Keeper, query: str = QUERY) -> None:
    keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (strategy = 'foreign-key') AS {query}")


def test_a_checked_key_is_looked_at_when_it_is_declared(keeper: viewkeep.Keeper) -> None:
    check = keeper.declare_foreign_key(*KEY)
    assert (check.trust, check.orphans, check.duplicates, check.holds) == ("checked", 0, 0, True)
    keeper.sql("INSERT INTO pay VALUES (4, 7, 1), (5, 8, 1); INSERT INTO gods VALUES (2, 'twice', '')")
    check = keeper.declare_foreign_key(*KEY)
    assert (check.orphans, check.duplicates) == (2, 1)
    assert str(check) == (
        f"foreign key {LABEL} does not hold: 2 rows point at nothing and 1 key is there more than once"
    )


def test_a_trusted_key_is_not_looked_at(keeper: viewkeep.Keeper) -> None:
    keeper.sql("INSERT INTO pay VALUES (4, 7, 1)")
    check = keeper.declare_foreign_key(*KEY, trust="enforced")
    assert (check.trust, check.orphans) == ("enforced", None)
    create(keeper)
    keeper.sql("INSERT INTO pay VALUES (5, 1, 50); INSERT INTO gods VALUES (3, 'c', '')")
    assert keeper.refresh("v").strategy == "foreign-key"
    assert_view_equals_query(keeper, "v", QUERY)


def test_verify_says_that_a_trusted_key_does_not_hold_and_what_to_do(keeper: viewkeep.Keeper) -> None:
    keeper.declare_foreign_key(*KEY, trust="enforced")
    create(keeper)
    keeper.sql("INSERT INTO pay VALUES (4, 7, 40)")
    keeper.refresh("v")
    keeper.sql("INSERT INTO gods VALUES (7, 'late', '')")  # who enforces it would have refused the row before
    assert keeper.refresh("v").strategy == "foreign-key"
    found = keeper.verify("v")
    assert (found.equal, found.missing_count) == (False, 1)
    keeper.sql("INSERT INTO pay VALUES (5, 8, 50)")
    (said,) = keeper.verify("v").keys
    assert f"{LABEL} does not hold: 1 row points at nothing" in said
    assert "trust = 'checked'" in said
    assert "REFRESH MATERIALIZED VIEW v FULL" in said
    # What it says is done, and helps: also for a view that was made before.
    assert keeper.declare_foreign_key(*KEY, trust="checked").orphans == 1
    keeper.sql("REFRESH MATERIALIZED VIEW v FULL; INSERT INTO gods VALUES (8, 'late, too', '')")
    report = keeper.refresh("v")
    assert report.dropped == {LABEL: "rows that pay had before point at what gods gained"}
    assert_view_equals_query(keeper, "v", QUERY)
    assert keeper.verify("v").equal


def test_a_checked_key_that_does_not_hold_is_a_note(keeper: viewkeep.Keeper) -> None:
    keeper.declare_foreign_key(*KEY)
    create(keeper)
    keeper.sql("INSERT INTO pay VALUES (4, 7, 40)")
    keeper.refresh("v")
    found = keeper.verify("v")
    assert (found.equal, found.keys) == (True, ())
    assert f"{LABEL} does not hold: 1 row points at nothing" in found.notes[0]
    assert str(found).startswith("v: equal to its query; foreign key")


def test_a_key_that_is_declared_after_the_view_is_used(keeper: viewkeep.Keeper) -> None:
    create(keeper)
    keeper.declare_foreign_key(*KEY)
    keeper.sql("INSERT INTO gods VALUES (3, 'c', ''); INSERT INTO pay VALUES (4, 3, 40)")
    assert keeper.refresh("v").strategy == "foreign-key"
    assert_view_equals_query(keeper, "v", QUERY)


@pytest.mark.parametrize("trust", ["checked", "enforced"])
def test_an_update_of_a_column_that_the_view_does_not_use_costs_no_edge(keeper: viewkeep.Keeper, trust: str) -> None:
    keeper.declare_foreign_key(*KEY, trust=trust)
    create(keeper)
    keeper.sql("UPDATE gods SET note = 'changed'; INSERT INTO pay VALUES (4, 1, 40)")
    report = keeper.refresh("v")
    assert (report.strategy, report.dropped, report.rows_inserted, report.rows_deleted) == ("foreign-key", {}, 1, 0)
    keeper.sql("UPDATE gods SET name = 'changed' WHERE uid = 1")  # this one it does use
    assert list(keeper.refresh("v").dropped) == [LABEL]
    assert_view_equals_query(keeper, "v", QUERY)


@pytest.mark.parametrize(
    ("words", "trust"),
    [("", "checked"), ("RELY", "checked"), ("NOT ENFORCED", "checked"), ("NOT ENFORCED RELY", "checked"),
     ("ENFORCED", "enforced")],
)  # fmt: skip
def test_the_words_of_alter_table(words: str, trust: str) -> None:
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql("CREATE TABLE gods (uid INT); CREATE TABLE pay (pid INT, uid INT)")
        for name in ("CONSTRAINT points ", ""):
            check = keeper.sql(f"ALTER TABLE pay ADD {name}FOREIGN KEY (uid) REFERENCES gods (uid) {words}")
            assert (check.trust, check.holds) == (trust, True)


def test_the_engines_own_foreign_keys_are_enforced_and_not_looked_at() -> None:
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql("CREATE TABLE gods (uid INT PRIMARY KEY, name TEXT)")
        keeper.sql("CREATE TABLE pay (pid INT, uid INT REFERENCES gods (uid), x INT)")
        keeper.declare_foreign_key(*KEY)  # says what the engine says
        create(keeper)
        assert keeper.explain("v", graph="text") == f"2 tables, branches 2 → 1:\n  pay\n  └─ {LABEL} (enforced)"


def test_trust_is_one_of_two_words(keeper: viewkeep.Keeper) -> None:
    with pytest.raises(CatalogError, match="trust cannot be 'enforce'") as error:
        keeper.declare_foreign_key(*KEY, trust="enforce")
    assert "enforced" in str(error.value)


def test_trust_outlives_the_process(tmp_path: Path) -> None:
    url = f"duckdb:///{tmp_path / 'keys.duckdb'}"
    with viewkeep.connect(url) as keeper:
        keeper.sql("CREATE TABLE gods (uid INT, name TEXT); CREATE TABLE pay (pid INT, uid INT, x INT)")
        keeper.declare_foreign_key(*KEY)
        keeper.declare_foreign_key(*KEY, trust="enforced")
        create(keeper)
    with viewkeep.connect(url) as keeper:
        assert keeper.explain("v", graph="text").count("(enforced)") == 1


# ---------------------------------------------------------------------- drawing
SNOWFLAKE = """SELECT s.n, c.name, a.city, d.year, b.year AS born, i.label FROM sales s
    JOIN customers c ON s.customer = c.id JOIN places a ON c.place = a.id JOIN days d ON s.day = d.id
    JOIN days b ON c.birthday = b.id JOIN items i ON s.item = i.id"""


@pytest.fixture
def shop() -> Iterator[viewkeep.Keeper]:
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql("""CREATE TABLE sales (n INT, customer INT, day INT, item INT);
            CREATE TABLE customers (id INT, name TEXT, place INT, birthday INT);
            CREATE TABLE places (id INT, city TEXT); CREATE TABLE days (id INT, year INT);
            CREATE TABLE items (id INT, label TEXT);""")
        for child, column, parent in [
            ("sales", "customer", "customers"), ("sales", "day", "days"), ("sales", "item", "items"),
            ("customers", "place", "places"), ("customers", "birthday", "days"),
        ]:  # fmt: skip
            keeper.declare_foreign_key(child, [column], parent, ["id"])
        create(keeper, SNOWFLAKE)
        yield keeper


def test_explain_draws_the_graph_as_text(shop: viewkeep.Keeper) -> None:
    expected = """\
6 tables, branches 6 → 1:
  sales
  └─ sales(customer) → customers(id)
      └─ customers(place) → places(id)
      └─ customers(birthday) → days(id)
  └─ sales(day) → days(id)
  └─ sales(item) → items(id)"""
    assert shop.explain("v", graph="text") == expected
    assert expected.replace("\n", "\n  ") in shop.explain("v")


def test_explain_tells_which_edges_were_not_relied_on(shop: viewkeep.Keeper) -> None:
    shop.sql("INSERT INTO sales VALUES (1, 1, 1, 1)")
    shop.refresh("v")
    shop.sql("INSERT INTO items VALUES (1, 'late')")
    shop.refresh("v")
    text = "without sales(item) → items(id): rows that sales had before point at what items gained"
    assert text in shop.explain("v")
    dot, mermaid = shop.explain("v", graph="dot"), shop.explain("v", graph="mermaid")
    assert [line for line in dot.splitlines() if "dashed" in line] == [
        '  n1_0 -> n1_5 [label="item" style=dashed '
        'tooltip="rows that sales had before point at what items gained"];'
    ]  # fmt: skip
    assert dot.count("->") == mermaid.count("->") == 5
    assert [line for line in mermaid.splitlines() if "-.->" in line] == ['  n1_0 -.->|"item"| n1_5']
    assert 'n1_4["days (2)"]' in mermaid
    assert dot.startswith("digraph")
    assert dot.endswith("}")
    assert mermaid.startswith("flowchart LR")


def test_a_graph_of_another_form_is_refused(shop: viewkeep.Keeper) -> None:
    with pytest.raises(SqlError, match="cannot be drawn as 'svg'"):
        shop.explain("v", graph="svg")
    shop.sql("CREATE MATERIALIZED VIEW w AS SELECT n FROM sales")
    assert shop.explain("w", graph="text") == "no join of this view follows a foreign key"


# ---------------------------------------------------------------------- trusted keys that do hold
class Kept:
    """Rows whose foreign keys somebody enforces: what is pointed at comes first and goes last."""

    def __init__(self, keeper: viewkeep.Keeper, seed: int) -> None:
        self.keeper, self.rng, self.next = keeper, random.Random(seed), 0
        keeper.sql("""CREATE TABLE places (id INT, city TEXT, note INT);
            CREATE TABLE customers (id INT, place INT, name TEXT);
            CREATE TABLE sales (id INT, customer INT, place INT, amount INT)""")
        keeper.declare_foreign_key("customers", ["place"], "places", ["id"], trust="enforced")
        keeper.declare_foreign_key("sales", ["customer"], "customers", ["id"], trust="enforced")
        keeper.declare_foreign_key("sales", ["place"], "places", ["id"], trust="enforced")
        for _ in range(3):
            self.come()

    def ids(self, table: str) -> list[int]:
        return sorted(self.keeper.query(f"SELECT id FROM {table}").column(0).to_pylist())

    def come(self) -> None:
        for _ in range(3):
            self.next += 1
            place = self.rng.choice([self.next, *self.ids("places")])
            if place == self.next:
                self.keeper.sql(f"INSERT INTO places VALUES ({place}, 'c{self.rng.randint(1, 3)}', 0)")
            if self.rng.random() < 0.7:
                self.keeper.sql(f"INSERT INTO customers VALUES ({self.next}, {place}, 'n{self.next % 3}')")
            customers = self.ids("customers")
            for _ in range(2 if customers else 0):
                customer, other = self.rng.choice(customers), self.rng.choice(["NULL", *self.ids("places")])
                self.keeper.sql(f"INSERT INTO sales VALUES ({self.next}, {customer}, {other}, {self.next % 7})")

    def go(self, again: bool) -> None:
        """A place or a customer goes with all that points at it; perhaps it comes again."""
        table = self.rng.choice(["places", "customers"])
        if not (ids := self.ids(table)):
            return
        id_ = self.rng.choice(ids)
        if table == "places":
            self.keeper.sql(f"""DELETE FROM sales WHERE place = {id_} OR customer IN
                (SELECT id FROM customers WHERE place = {id_}); DELETE FROM customers WHERE place = {id_}""")
        else:
            self.keeper.sql(f"DELETE FROM sales WHERE customer = {id_}")
        self.keeper.sql(f"DELETE FROM {table} WHERE id = {id_}")
        if again and table == "places":
            self.next += 1
            self.keeper.sql(f"INSERT INTO places VALUES ({id_}, 'again', 0)")
            self.keeper.sql(f"INSERT INTO customers VALUES ({1000 + self.next}, {id_}, 'new')")
            self.keeper.sql(f"INSERT INTO sales VALUES ({1000 + self.next}, {1000 + self.next}, {id_}, 1)")

    def update(self) -> None:
        column = self.rng.choice(["note = note + 1", "city = 'moved'"])
        self.keeper.sql(f"UPDATE places SET {column} WHERE id % 3 = {self.rng.randint(0, 2)}")
        self.keeper.sql("UPDATE sales SET amount = amount + 1 WHERE id % 4 = 1")


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(s, marks=pytest.mark.slow) for s in range(3, 9))])
def test_trusted_keys_that_hold_give_the_right_rows(seed: int) -> None:
    views = {
        "flake": """SELECT s.id, s.amount, c.name, p.city, q.city AS other FROM sales s JOIN customers c
            ON s.customer = c.id JOIN places p ON c.place = p.id JOIN places q ON s.place = q.id""",
        "sums": """SELECT p.city, SUM(s.amount) AS total, COUNT(*) AS n FROM sales s JOIN customers c
            ON s.customer = c.id JOIN places p ON c.place = p.id GROUP BY p.city""",
    }
    with viewkeep.connect("duckdb://") as keeper:
        kept = Kept(keeper, seed)
        for name, query in views.items():
            keeper.sql(
                f"CREATE MATERIALIZED VIEW {name} WITH (strategy = 'foreign-key', policy = 'incremental') AS {query}"
            )
        used = set()
        for _ in range(12):
            for step in kept.rng.sample([kept.come, lambda: kept.go(False), lambda: kept.go(True), kept.update], 2):
                step()
            used |= {r.strategy for r in keeper.refresh()}
            for name, query in views.items():
                assert_view_equals_query(keeper, name, query)
        assert "foreign-key" in used
        assert keeper.verify("flake").keys == ()
