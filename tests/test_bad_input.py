"""Mistakes of users: each gets an error that says what is wrong, and nothing has changed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewkeep


@pytest.fixture
def keeper() -> Iterator[viewkeep.Keeper]:
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount DECIMAL(12,2), label TEXT)")
        keeper.sql("INSERT INTO orders VALUES (1, 1, 1.5, 'a'), (2, 1, NULL, 'b'), (3, 2, 3, NULL)")
        keeper.sql("CREATE TABLE customers (id INTEGER, name TEXT); INSERT INTO customers VALUES (1, 'x'), (1, 'x')")
        keeper.sql("CREATE TEMP TABLE scratch (a INTEGER); CREATE VIEW plain AS SELECT id FROM orders")
        keeper.sql("CREATE SEQUENCE numbers")
        keeper.sql("CREATE MATERIALIZED VIEW known AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer")
        yield keeper


def state(keeper: viewkeep.Keeper) -> dict[str, Any]:
    """Everything that is stored: objects with their text, and the rows of all tables, viewkeep's own too."""
    con = keeper.engine.connection.cursor()

    def rows(sql: str) -> list[Any]:
        return sorted(con.execute(sql).fetchall(), key=repr)

    found = {
        "tables": rows("SELECT schema_name, table_name, sql FROM duckdb_tables() WHERE NOT temporary"),
        "views": rows("SELECT schema_name, view_name, sql FROM duckdb_views() WHERE NOT internal AND NOT temporary"),
        "triggers": rows("SELECT trigger_name FROM duckdb_triggers()"),
    }
    for schema, table, _ in found["tables"]:
        found[f"{schema}.{table}"] = rows(f'SELECT * FROM {schema}."{table}"')
    return found


def refused(keeper: viewkeep.Keeper, statement: str, *words: str) -> viewkeep.ViewkeepError:
    before = state(keeper)
    with pytest.raises(viewkeep.ViewkeepError) as caught:
        keeper.sql(statement)
    assert type(caught.value) is not viewkeep.ViewkeepError
    for word in words:
        assert word.lower() in str(caught.value).lower(), str(caught.value)
    assert state(keeper) == before
    keeper.sql("INSERT INTO orders SELECT MAX(id) + 1, 1, 1, 'z' FROM orders")
    keeper.refresh("known")
    assert keeper.verify("known").equal
    return caught.value


# ---------------------------------------------------------------------- the text of a view
BAD_QUERIES = [
    ("SELECT FROM WHERE", ("syntax",)),
    ("SELECT id FROM orders WHERE", ("syntax", "line 1")),
    ("SELECT (id FROM orders", ("syntax",)),
    ("SELECT id FROM orders GROUP customer", ("syntax",)),
    ("SELECT 'open FROM orders", ()),
    ("SELECT id FROM ordrs", ("'ordrs'", "did you mean 'orders'?")),
    ("SELECT id FROM nosuch.orders", ("nosuch.orders",)),
    ("SELECT o.amout FROM orders o", ("amout", "did you mean 'amount'?")),
    ("SELECT amout FROM orders", ("amout", "did you mean 'amount'?")),
    ("SELECT x.id FROM orders o", ("x",)),
    ("SELECT id FROM orders LIMIT 3", ("LIMIT without ORDER BY", "add ORDER BY")),
    ("SELECT customer, SUM(amount) AS s FROM orders GROUP BY customer LIMIT 1", ("LIMIT without ORDER BY",)),
    ("SELECT SUM(amount) AS s FROM orders LIMIT 1 OFFSET 1", ("LIMIT without ORDER BY",)),
    ("SELECT id FROM orders o JOIN customers c ON o.customer = c.id", ("id", "ambiguous")),
    ("SELECT o.id FROM orders o JOIN customers c USING (nothing)", ("nothing",)),
    ("SELECT o.id, c.id FROM orders o JOIN customers c ON o.customer = c.id", ("id", "alias")),
    ("SELECT id, label AS ID FROM orders", ("id", "alias")),
    ("SELECT customer, amount, COUNT(*) AS n FROM orders GROUP BY customer", ("amount", "GROUP BY")),
    ("SELECT customer FROM orders WHERE COUNT(*) > 1", ("where", "aggregate", "having")),
    ("SELECT SUM(COUNT(*)) AS n FROM orders", ("aggregate",)),
    ("SELECT customer, COUNT(*) AS n FROM orders GROUP BY 7", ("7",)),
    ("SELECT id FROM orders UNION ALL SELECT id, name FROM customers", ("union", "1", "2")),
    ("SELECT SUM(label) AS s FROM orders", ("sum",)),
    ("SELECT id + DATE '2024-01-01' + TIME '10:00' * 3 AS x FROM orders", ()),
    ("SELECT id FROM orders WHERE label = 5 + DATE '2024-01-01'", ()),
    ("SELECT NO_SUCH_FUNCTION(id) AS f FROM orders", ("no_such_function",)),
    ("SELECT UPPER(label, 1, 2) AS f FROM orders", ("argument",)),
    ("SELECT CAST(id AS NO_SUCH_TYPE) AS f FROM orders", ("no_such_type",)),
    ("SELECT a FROM scratch", ("scratch", "temporary")),
    ("SELECT * FROM (PIVOT orders ON label USING SUM(amount))", ("PIVOT", "label IN")),
    ("SELECT * FROM orders UNPIVOT (x FOR y IN (nothing))", ("nothing",)),
    ("SELECT id FROM orders LIMIT 2", ("LIMIT", "ORDER BY")),
    ("SELECT id AS _vk_id FROM orders", ("_vk_id", "reserved")),
    ("INSERT INTO orders VALUES (7, 7, 7, 'x')", ("query",)),
    ("DELETE FROM orders", ("query",)),
    ("SELECT v FROM v", ("v",)),
    ("WITH w AS (SELECT * FROM v) SELECT 1 AS one FROM w", ("v",)),
    ("", ("query",)),
]


@pytest.mark.parametrize(("query", "words"), BAD_QUERIES)
def test_a_bad_query(keeper: viewkeep.Keeper, query: str, words: tuple[str, ...]) -> None:
    refused(keeper, f"CREATE MATERIALIZED VIEW v AS {query}", *words)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("random()", "random"),
        ("now()", "now"),
        ("current_date", "current_date"),
        ("current_timestamp", "current_timestamp"),
        ("current_time", "current_time"),
        ("localtimestamp", "localtimestamp"),
        ("today()", "current_date"),
        ("uuid()", "uuid"),
        ("gen_random_uuid()", "uuid"),
        ("uuidv7()", "uuidv7"),
        ("nextval('numbers')", "nextval"),
        ("currval('numbers')", "currval"),
        ("transaction_timestamp()", "transaction_timestamp"),
        ("get_current_timestamp()", "get_current_timestamp"),
        ("setseed(0.5)", "setseed"),
        ("current_setting('threads')", "current_setting"),
        ("txid_current()", "txid_current"),
        ("age(TIMESTAMP '2024-01-01')", "age"),
        ("current_localtimestamp()", "localtimestamp"),
    ],
)
@pytest.mark.parametrize("place", ["select", "where", "cte", "group"])
def test_a_function_that_gives_another_answer_each_time(
    keeper: viewkeep.Keeper, call: str, name: str, place: str
) -> None:
    query = {
        "select": f"SELECT id, {call} AS f FROM orders",
        "where": f"SELECT id FROM orders WHERE {call} IS NOT NULL",
        "cte": f"WITH c AS (SELECT id, {call} AS f FROM orders) SELECT id FROM c",
        "group": f"SELECT customer, MAX({call}) AS m FROM orders GROUP BY customer",
    }[place]
    before = state(keeper)
    with pytest.raises(viewkeep.ViewkeepError) as caught:
        keeper.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert name in str(caught.value).lower()
    assert state(keeper) == before


def test_a_random_function_inside_a_plain_view(keeper: viewkeep.Keeper) -> None:
    keeper.sql("CREATE VIEW dice AS SELECT id, random() AS r FROM orders")
    refused(keeper, "CREATE MATERIALIZED VIEW v AS SELECT id, r FROM dice", "random")


def test_a_view_over_itself_through_others(keeper: viewkeep.Keeper) -> None:
    keeper.sql("CREATE MATERIALIZED VIEW a AS SELECT id FROM orders")
    keeper.sql("CREATE MATERIALIZED VIEW b AS SELECT id FROM a")
    keeper.sql("CREATE VIEW c AS SELECT id FROM b")
    refused(keeper, "CREATE OR REPLACE MATERIALIZED VIEW a AS SELECT id FROM b", "a")
    refused(keeper, "CREATE OR REPLACE MATERIALIZED VIEW a AS SELECT id FROM c", "a")
    refused(keeper, "CREATE OR REPLACE MATERIALIZED VIEW b AS SELECT id FROM b", "b", "itself")


# ---------------------------------------------------------------------- statements
BAD_STATEMENTS = [
    ("CREATE MATERIALIZED VIEW known AS SELECT id FROM orders", ("'known' exists already", "OR REPLACE")),
    ("CREATE MATERIALIZED VIEW KNOWN AS SELECT id FROM orders", ("exists already",)),
    ("CREATE MATERIALIZED VIEW orders AS SELECT id FROM customers", ("table 'orders' exists already",)),
    ("CREATE OR REPLACE MATERIALIZED VIEW orders AS SELECT id FROM customers", ("'orders' exists already",)),
    ("CREATE MATERIALIZED VIEW plain AS SELECT id FROM orders", ("view 'plain' exists already",)),
    ("CREATE MATERIALIZED VIEW scratch AS SELECT id FROM orders", ("scratch",)),
    ("CREATE MATERIALIZED VIEW nosuch.v AS SELECT id FROM orders", ("nosuch",)),
    ("CREATE MATERIALIZED VIEW v", ("AS",)),
    ("CREATE MATERIALIZED VIEW AS SELECT 1 AS one", ()),
    (
        "CREATE MATERIALIZED VIEW v WITH (polcy = 'auto') AS SELECT id FROM orders",
        ("polcy", "did you mean 'policy'?"),
    ),
    ("CREATE MATERIALIZED VIEW v WITH (policy = 'fast') AS SELECT id FROM orders", ("fast", "strict")),
    ("CREATE MATERIALIZED VIEW v WITH (refresh = 'sometimes') AS SELECT id FROM orders", ("sometimes",)),
    ("CREATE MATERIALIZED VIEW v WITH (policy) AS SELECT id FROM orders", ("=",)),
    ("CREATE OR REPLACE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT id FROM orders", ("exclude",)),
    ("REFRESH MATERIALIZED VIEW knwon", ("'knwon'", "did you mean 'known'?")),
    ("REFRESH MATERIALIZED VIEW known SLOWLY", ("slowly",)),
    ("DROP MATERIALIZED VIEW knwon", ("'knwon'", "did you mean 'known'?")),
    ("DROP MATERIALIZED VIEW orders", ("'orders'",)),
    ("DROP VIEW known", ("DROP MATERIALIZED VIEW known",)),
    ("DROP TABLE orders", ("known", "orders")),
    ("EXPLAIN MATERIALIZED VIEW knwon", ("'knwon'",)),
    ("INSERT INTO known VALUES (1, 1)", ()),
    ("SELEC 1", ()),
    ("SELECT * FROM nowhere", ("nowhere",)),
    ("INSERT INTO orders VALUES (1, 1, 1, 'duplicate key')", ("constraint",)),
    ("INSERT INTO orders VALUES ('not a number', 1, 1, 'x')", ("not a number",)),
    ("ALTER TABLE orders ADD CONSTRAINT c FOREIGN KEY (custmer) REFERENCES customers (id) RELY", ("custmer",)),
]


@pytest.mark.parametrize(("statement", "words"), BAD_STATEMENTS)
def test_a_bad_statement(keeper: viewkeep.Keeper, statement: str, words: tuple[str, ...]) -> None:
    refused(keeper, statement, *words)


def test_an_error_says_where(keeper: viewkeep.Keeper) -> None:
    error = refused(keeper, "CREATE MATERIALIZED VIEW v AS\nSELECT id,\n       amout\nFROM orders", "amout")
    assert error.position is not None
    assert (error.position.line, error.position.column) == (3, 8)


BAD_CALLS = [
    (lambda keeper: keeper.refresh("knwon"), "did you mean 'known'"),
    (lambda keeper: keeper.explain("knwon"), "known"),
    (lambda keeper: keeper.verify("knwon"), "known"),
    (lambda keeper: keeper.history("knwon"), "known"),
    (lambda keeper: keeper.compile("known", dialect="klingon"), "klingon"),
    (lambda keeper: keeper.changes("known", since=99), "99"),
    (lambda keeper: keeper.changes("known", since={"orders": 99}), "versions"),
    (lambda keeper: keeper.sql("SELECT 1", dialect="klingon"), "klingon"),
    (lambda keeper: keeper.query("SELECT 1; SELECT 2"), "one statement"),
    (lambda keeper: keeper.declare_key("ordrs", ["id"]), "did you mean 'orders'"),
    (lambda keeper: keeper.declare_key("orders", ["idd"]), "idd"),
    (lambda keeper: keeper.declare_key("orders", []), "column"),
    (lambda keeper: keeper.declare_foreign_key("orders", ["customer"], "customers", ["id", "name"]), "1 columns"),
    (lambda keeper: keeper.declare_foreign_key("orders", ["customer"], "customers"), "no key"),
]


@pytest.mark.parametrize(("call", "word"), BAD_CALLS)
def test_bad_arguments_of_methods(
    keeper: viewkeep.Keeper, call: Callable[[viewkeep.Keeper], object], word: str
) -> None:
    before = state(keeper)
    with pytest.raises(viewkeep.ViewkeepError, match=word):
        call(keeper)
    assert state(keeper) == before


# ---------------------------------------------------------------------- batches
def batch(**columns: Any) -> pa.Table:
    return pa.table({"id": [50], "customer": [1], "amount": [1], "label": ["x"], "_w": [1], **columns})


BAD_BATCHES = [
    ("orders", batch().drop_columns(["label"]), ("label",)),
    ("orders", batch().drop_columns(["label", "amount"]), ("label", "amount")),
    ("orders", batch(extra=[1]), ("extra",)),
    ("orders", batch(lable=["y"]), ("did you mean 'label'?",)),
    ("orders", batch(ID=[1]), ("twice",)),
    ("orders", batch().drop_columns(["_w"]), ("_w",)),
    ("orders", batch(_w=[1.5]), ("_w",)),
    ("orders", batch(_w=pa.array([None], pa.int64())), ("_w",)),
    ("orders", batch(_w=["one"]), ("_w",)),
    ("orders", batch(id=["word"]), ("orders", "word")),
    ("orders", batch(id=[2**40]), ("orders",)),
    ("orders", batch(amount=[1e20]), ("orders",)),
    ("orders", batch(id=[1]), ("orders", "constraint")),
    ("orders", batch(_w=[2]), ("orders", "constraint")),
    ("orders", batch(_w=[-1]), ("1", "not there")),
    ("orders", batch(id=[1], _w=[-1]), ("not there",)),
    ("customers", pa.table({"id": [1], "name": ["x"], "_w": [-3]}), ("3 rows", "1 of them")),
    ("customers", pa.table({"id": [1, 2], "name": ["x", "y"], "_w": [-1, -1]}), ("1 of them",)),
    ("customers", pa.table({"id": [1], "name": pa.array([None], pa.string()), "_w": [-1]}), ("not there",)),
    ("known", pa.table({"customer": [1], "n": [1], "_w": [1]}), ("materialized view", "known")),
    ("plain", pa.table({"id": [1], "_w": [1]}), ("view", "plain")),
    ("ordrs", batch(), ("did you mean 'orders'?",)),
]


@pytest.mark.parametrize(("table", "changes", "words"), BAD_BATCHES)
def test_a_bad_batch(keeper: viewkeep.Keeper, table: str, changes: pa.Table, words: tuple[str, ...]) -> None:
    before = state(keeper)
    with pytest.raises(viewkeep.ViewkeepError) as caught:
        keeper.apply(table, changes)
    for word in words:
        assert word.lower() in str(caught.value).lower(), str(caught.value)
    assert state(keeper) == before


BAD_LOADS = [
    (batch(), "_w"),
    (batch().drop_columns(["_w", "label"]), "label"),
    (batch(id=["word"]).drop_columns(["_w"]), "word"),
    (batch(id=[1]).drop_columns(["_w"]), "onstraint"),
]


@pytest.mark.parametrize(("changes", "word"), BAD_LOADS)
def test_a_bad_load(keeper: viewkeep.Keeper, changes: pa.Table, word: str) -> None:
    before = state(keeper)
    with pytest.raises(viewkeep.ViewkeepError, match=word):
        keeper.load("orders", changes)
    assert state(keeper) == before


def test_an_empty_batch_is_no_change(keeper: viewkeep.Keeper) -> None:
    assert keeper.apply("orders", batch().slice(0, 0)) == (0, 0)
    assert keeper.apply("orders", batch(_w=[0])) == (0, 0)
    assert keeper.refresh("known").strategy == "unchanged"


# ---------------------------------------------------------------------- connecting
def test_a_database_that_is_open_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "busy.duckdb"
    script = (
        f"import sys, viewkeep; k = viewkeep.connect('duckdb:///{path}'); print('open', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "open\n"
    try:
        with pytest.raises(viewkeep.ViewkeepError, match="another process"):
            viewkeep.connect(f"duckdb:///{path}")
    finally:
        other.communicate("")
    viewkeep.connect(f"duckdb:///{path}").close()


def test_bad_connections(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("this is not a database, and it is long enough to be looked at closely\n" * 200)
    contents = text.read_bytes()
    for url, word in (
        (f"duckdb:///{tmp_path}/no/such/folder/x.duckdb", "folder"),
        (f"duckdb:///{text}", "notes.txt"),
        (f"duckdb:///{tmp_path}", str(tmp_path.name)),
        ("mysql://localhost/x", "mysql"),
        ("shop.duckdb", "shop.duckdb"),
        ("", "connection"),
    ):
        with pytest.raises(viewkeep.ViewkeepError, match=word):
            viewkeep.connect(url)
    assert text.read_bytes() == contents
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_a_database_of_a_newer_viewkeep(tmp_path: Path) -> None:
    url = f"duckdb:///{tmp_path / 'new.duckdb'}"
    with viewkeep.connect(url) as keeper:
        keeper.engine.execute("UPDATE _viewkeep.format SET version = 999")
    with pytest.raises(viewkeep.ViewkeepError, match="newer viewkeep"):
        viewkeep.connect(url)


@pytest.mark.parametrize("text", ["", "   ", ";;", "-- only a comment", "/* nothing */;"])
def test_nothing_to_do(keeper: viewkeep.Keeper, text: str) -> None:
    before = state(keeper)
    assert keeper.sql(text) is None
    assert state(keeper) == before


def test_compile_without_an_engine_reports_the_same_mistakes() -> None:
    schema = "CREATE TABLE orders (id INT, amount INT)"
    for view, word in (
        ("SELECT amout FROM orders", "did you mean 'amount'"),
        ("SELECT id FROM ordrs", "did you mean 'orders'"),
        ("SELECT random() AS r FROM orders", "rand"),
        ("SELECT FROM", "syntax"),
    ):
        with pytest.raises(viewkeep.ViewkeepError, match=word):
            viewkeep.compile(schema, view)
