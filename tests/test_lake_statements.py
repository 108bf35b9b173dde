"""Statements that change Delta tables: what becomes of the rows, and that views on them stay right."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewkeep
from support import Row, rows_of

pytest.importorskip("pyspark", reason="Spark is not installed")
pytest.importorskip("deltalake", reason="deltalake is not installed")
pytestmark = [pytest.mark.spark, pytest.mark.slow]


ROWS = "VALUES (1, 10, 'a'), (2, 20, 'b'), (2, 20, 'b'), (3, NULL, NULL), (4, 40, 'a')"


def make(folder: Path) -> viewkeep.Keeper:
    keeper = viewkeep.connect(f"spark:///{folder}")
    keeper.sql(f"CREATE TABLE items (id INT, amount INT, label STRING); INSERT INTO items {ROWS}")
    keeper.sql("CREATE TABLE news (id INT, amount INT, note STRING)")
    keeper.sql(
        "CREATE MATERIALIZED VIEW totals WITH (policy = 'strict') AS "
        "SELECT label, COUNT(*) AS n, SUM(amount) AS total FROM items GROUP BY label"
    )
    return keeper


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[viewkeep.Keeper]:
    with make(tmp_path / "lake") as keeper:
        yield keeper


@pytest.fixture(scope="module")
def module_keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[viewkeep.Keeper]:
    with make(tmp_path_factory.mktemp("shared") / "lake") as keeper:
        keeper.sql(
            "CREATE MATERIALIZED VIEW large WITH (policy = 'strict') AS SELECT id, amount FROM items WHERE amount > 15"
        )
        yield keeper


@pytest.fixture
def shared(module_keeper: viewkeep.Keeper) -> viewkeep.Keeper:
    """The same tables and views for many tests, each of which begins with the same rows."""
    module_keeper.sql(f"INSERT OVERWRITE items {ROWS}; TRUNCATE TABLE news")
    module_keeper.refresh()
    return module_keeper


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[viewkeep.Keeper]:
    """For statements that must change nothing: one for all of them."""
    with make(tmp_path_factory.mktemp("settled") / "lake") as keeper:
        keeper.sql("INSERT INTO news VALUES (1, 1, 'x'), (1, 2, 'y')")
        keeper.sql("CREATE TABLE strict_ones (id INT NOT NULL, a INT); INSERT INTO strict_ones VALUES (1, 1)")
        keeper.sql("CREATE TABLE t (a INT); CREATE VIEW p AS SELECT a FROM t")
        keeper.sql("CREATE SCHEMA sub; CREATE TABLE sub.x (a INT)")
        yield keeper


def items(keeper: viewkeep.Keeper, table: str = "items") -> list[Row]:
    return sorted(rows_of(keeper.query(f"SELECT * FROM {table}")), key=repr)


def recorded(keeper: viewkeep.Keeper) -> set[str]:
    """The folders of recorded changes."""
    return {p.name for p in (_folder(keeper) / "items" / "_viewkeep_changes").glob("*")}


def check(keeper: viewkeep.Keeper) -> None:
    for report in keeper.refresh():
        assert report.strategy in ("classical", "unchanged"), report
        assert keeper.verify(report.view).equal


def files(folder: Path) -> set[str]:
    """Everything under a warehouse but its views, and Spark's checksums."""
    return {str(p) for p in folder.rglob("*") if p.is_file() and not p.name.endswith(".crc")}


def refused(keeper: viewkeep.Keeper, statement: str, *words: str) -> viewkeep.ViewkeepError:
    folder = _folder(keeper)
    before = files(folder)
    with pytest.raises(viewkeep.ViewkeepError) as caught:
        keeper.sql(statement)
    for word in words:
        assert word.lower() in str(caught.value).lower(), str(caught.value)
    assert files(folder) == before
    assert caught.value.hint
    return caught.value


def _folder(keeper: viewkeep.Keeper) -> Path:
    return Path(keeper._db.warehouse.folder)  # type: ignore[attr-defined]


# ---------------------------------------------------------------------- MERGE
MERGES: list[tuple[str, str, list[Row]]] = [
    (
        "the first clause that applies wins",
        "MERGE INTO items AS i USING news AS n ON i.id = n.id "
        "WHEN MATCHED AND n.amount > 50 THEN UPDATE SET amount = n.amount, i.label = 'up' "
        "WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED AND n.id = 7 THEN INSERT (id, label) VALUES (n.id, n.note) "
        "WHEN NOT MATCHED BY TARGET THEN INSERT VALUES (n.id, n.amount, 'new') "
        "WHEN NOT MATCHED BY SOURCE AND i.amount IS NULL THEN DELETE "
        "WHEN NOT MATCHED BY SOURCE AND i.id = 4 THEN UPDATE SET amount = i.amount + 1",
        [(1, 100, "up"), (4, 41, "a"), (7, None, "x"), (8, 8, "new")],
    ),
    (
        "only rows that match",
        "MERGE INTO items USING news ON items.id = news.id WHEN MATCHED THEN UPDATE SET items.amount = news.amount",
        [(1, 100, "a"), (2, 5, "b"), (2, 5, "b"), (3, None, None), (4, 40, "a")],
    ),
    (
        "only rows that do not match",
        "MERGE INTO items USING news ON items.id = news.id "
        "WHEN NOT MATCHED THEN INSERT (label, ID) VALUES (note, news.id)",
        [(1, 10, "a"), (2, 20, "b"), (2, 20, "b"), (3, None, None), (4, 40, "a"), (7, None, "x"), (8, None, None)],
    ),
    (
        "all columns by name",
        "MERGE INTO items USING (SELECT note AS LABEL, id, amount FROM news) AS s ON items.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        [(1, 100, None), (2, 5, "y"), (2, 5, "y"), (3, None, None), (4, 40, "a"), (7, 70, "x"), (8, 8, None)],
    ),
    (
        "a condition that is no equality, and a value that would fail elsewhere",
        "MERGE INTO items AS i USING (SELECT 15 AS bound) AS b ON i.amount > b.bound "
        "WHEN MATCHED AND i.amount <> 20 THEN UPDATE SET amount = 1000 DIV (i.amount - 20) "
        "WHEN NOT MATCHED BY SOURCE THEN DELETE",
        [(2, 20, "b"), (2, 20, "b"), (4, 50, "a")],
    ),
    (
        "the source is the table itself, and a CTE",
        "WITH tops AS (SELECT label, MAX(amount) AS top FROM items GROUP BY label) "
        "MERGE INTO items USING tops ON items.label = tops.label AND items.amount = tops.top "
        "WHEN MATCHED THEN DELETE",
        [(1, 10, "a"), (3, None, None)],
    ),
    (
        "a row may be deleted by several",
        "MERGE INTO items USING (SELECT * FROM VALUES (1), (1), (2) AS v(id)) AS s ON items.id = s.id "
        "WHEN MATCHED THEN DELETE",
        [(3, None, None), (4, 40, "a")],
    ),
]


@pytest.mark.parametrize(("merge", "expected"), [m[1:] for m in MERGES], ids=[m[0] for m in MERGES])
def test_merge(shared: viewkeep.Keeper, merge: str, expected: list[Row]) -> None:
    shared.sql("INSERT INTO news VALUES (1, 100, NULL), (2, 5, 'y'), (7, 70, 'x'), (8, 8, NULL)")
    shared.sql(merge)
    assert items(shared) == sorted(expected, key=repr)
    check(shared)


def test_merge_with_an_empty_source_or_target(shared: viewkeep.Keeper) -> None:
    merge = (
        "MERGE INTO items USING news ON items.id = news.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (news.id)"
    )
    before = items(shared)
    shared.sql(merge)
    assert items(shared) == before
    assert [r.strategy for r in shared.refresh()] == ["unchanged", "unchanged"]
    shared.sql("TRUNCATE TABLE items; INSERT INTO news (id) VALUES (5)")
    shared.sql(merge)
    assert items(shared) == [(5, None, None)]
    check(shared)


@pytest.mark.parametrize(
    ("merge", "words"),
    [
        ("USING news AS n ON items.id = n.id WHEN MATCHED THEN UPDATE SET amount = n.amount", ("several rows", "'n'")),
        ("USING news AS n ON items.id = n.id WHEN MATCHED AND n.amount > 0 THEN DELETE", ("several rows",)),
        ("USING news AS n ON items.id = n.id WHEN MATCHED THEN UPDATE SET amont = 1", ("did you mean 'amount'",)),
        ("USING news AS n ON items.id = n.id WHEN MATCHED THEN UPDATE SET amount = 1, AMOUNT = 2", ("twice",)),
        ("USING news AS n ON items.id = n.id WHEN NOT MATCHED THEN INSERT (id, id) VALUES (1, 2)", ("twice",)),
        ("USING news AS n ON items.id = n.id WHEN NOT MATCHED THEN INSERT (id) VALUES (1, 2)", ("2 values",)),
        ("USING news AS n ON items.id = n.id WHEN NOT MATCHED THEN INSERT *", ("no column 'label'",)),
        ("USING news AS n ON items.id = n.id WHEN NOT MATCHED THEN DELETE", ("cannot delete",)),
        ("USING nothing AS n ON items.id = n.id WHEN MATCHED THEN DELETE", ("nothing",)),
        ("USING items ON items.id = items.id WHEN MATCHED THEN DELETE", ("both named",)),
        ("USING news AS n ON items.id = n.idd WHEN MATCHED THEN DELETE", ("idd",)),
        ("USING news AS n ON id = n.id WHEN MATCHED THEN DELETE", ("ambiguous",)),
        ("USING news AS n ON items.id = n.id WHEN MATCHED THEN UPDATE SET amount = 1 DIV (n.id - 1)", ("zero",)),
    ],
)
def test_a_merge_that_is_refused(settled: viewkeep.Keeper, merge: str, words: tuple[str, ...]) -> None:
    refused(settled, f"MERGE INTO items {merge}", *words)


# ---------------------------------------------------------------------- INSERT, UPDATE, DELETE
STATEMENTS: list[tuple[str, list[Row]]] = [
    ("INSERT INTO items (label, ID) VALUES ('z', 9), (NULL, 9)", [(9, None, "z"), (9, None, None)]),
    ("INSERT INTO items BY NAME SELECT 'z' AS Label, 9 AS id", [(9, None, "z")]),
    ("WITH w AS (SELECT 9 AS a, 9 AS b, 'z' AS c) INSERT INTO items SELECT * FROM w", [(9, 9, "z")]),
    ("INSERT INTO items SELECT id + 5, amount, label FROM items WHERE id = 4", [(9, 40, "a")]),
    ("INSERT INTO default.ITEMS VALUES (9, 9, 'it''s; --')", [(9, 9, "it's; --")]),
    ("INSERT INTO items TABLE news", []),
]


@pytest.mark.parametrize(("statement", "expected"), STATEMENTS)
def test_insert(shared: viewkeep.Keeper, statement: str, expected: list[Row]) -> None:
    before = items(shared)
    shared.sql(statement)
    assert items(shared) == sorted([*before, *expected], key=repr)
    check(shared)


def test_insert_overwrite(shared: viewkeep.Keeper) -> None:
    shared.sql("INSERT OVERWRITE items SELECT id, amount + 1, label FROM items WHERE id < 3")
    assert items(shared) == [(1, 11, "a"), (2, 21, "b"), (2, 21, "b")]
    check(shared)
    shared.sql("INSERT OVERWRITE TABLE items SELECT * FROM items WHERE FALSE")
    assert items(shared) == []
    check(shared)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "UPDATE items AS i SET i.amount = i.amount * 2, LABEL = 'u' WHERE i.id IN (SELECT id FROM news)",
            [(1, 20, "u"), (2, 20, "b"), (2, 20, "b"), (3, None, None), (4, 40, "a")],
        ),
        (
            "UPDATE items SET amount = (SELECT MAX(amount) FROM news), id = amount WHERE label = 'b'",
            [(1, 10, "a"), (20, 7, "b"), (20, 7, "b"), (3, None, None), (4, 40, "a")],
        ),
        (
            "UPDATE items SET label = NULL",
            [(1, 10, None), (2, 20, None), (2, 20, None), (3, None, None), (4, 40, None)],
        ),
        ("UPDATE items SET label = 'q' WHERE id = 99", None),
        (
            "DELETE FROM items AS i WHERE EXISTS (SELECT 1 FROM news AS n WHERE n.id = i.id) OR label IS NULL",
            [(2, 20, "b"), (2, 20, "b"), (4, 40, "a")],
        ),
        ("DELETE FROM items WHERE id NOT IN (SELECT id FROM news)", [(1, 10, "a")]),
        (
            "DELETE FROM items WHERE amount > (SELECT AVG(amount) FROM items)",
            [(1, 10, "a"), (2, 20, "b"), (2, 20, "b"), (3, None, None)],
        ),
        ("DELETE FROM items WHERE label = 'nothing has it'", None),
        ("DELETE FROM items", []),
        ("TRUNCATE TABLE items", []),
    ],
)
def test_update_and_delete(shared: viewkeep.Keeper, statement: str, expected: list[Row] | None) -> None:
    shared.sql("INSERT INTO news VALUES (1, 7, 'n')")
    before, known = items(shared), recorded(shared)
    shared.sql(statement)
    assert items(shared) == sorted(before if expected is None else expected, key=repr)
    check(shared)
    if expected is None:
        assert recorded(shared) == known


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("INSERT INTO items VALUES (1, 2)", ("3 columns", "2 values")),
        ("INSERT INTO items (id, idd) VALUES (1, 2)", ("idd", "did you mean 'id'")),
        ("INSERT INTO items (id, ID) VALUES (1, 2)", ("twice",)),
        ("INSERT INTO items BY NAME SELECT 1 AS idd", ("idd", "did you mean 'id'")),
        ("INSERT INTO items PARTITION (id = 1) SELECT 1, 'x'", ("PARTITION",)),
        ("INSERT INTO items REPLACE WHERE id = 1 SELECT 1, 1, 'x'", ("REPLACE WHERE",)),
        ("INSERT INTO itms VALUES (1, 2, 'x')", ("did you mean 'items'",)),
        ("INSERT INTO totals VALUES ('x', 1, 1)", ("materialized view", "totals")),
        ("INSERT INTO items SELECT id, amount, label FROM itemz", ("itemz", "did you mean 'items'")),
        ("INSERT INTO items VALUES (1, 'word', 'x')", ("word",)),
        ("INSERT INTO items VALUES (3000000000, 1, 'x')", ("3000000000",)),
        ("INSERT INTO strict_ones VALUES (NULL, 1)", ("'id' must not be NULL",)),
        ("UPDATE strict_ones SET id = NULL", ("'id' must not be NULL",)),
        ("UPDATE items SET amount = 1 DIV (id - 1)", ("zero",)),
        ("UPDATE items SET amont = 1", ("did you mean 'amount'",)),
        ("UPDATE items SET amount = 1, Amount = 2", ("twice",)),
        ("UPDATE items SET amount = nope WHERE id = 1", ("nope",)),
        ("UPDATE items SET amount = n.amount FROM news AS n WHERE n.id = items.id", ("MERGE INTO",)),
        ("UPDATE totals SET n = 1", ("materialized view",)),
        ("DELETE FROM items WHERE idd = 1", ("idd",)),
        ("DELETE FROM items USING news WHERE news.id = items.id", ("MERGE INTO",)),
        ("DELETE FROM totals", ("materialized view",)),
        ("TRUNCATE TABLE totals", ("materialized view",)),
    ],
)
def test_a_failed_statement_changes_nothing(settled: viewkeep.Keeper, statement: str, words: tuple[str, ...]) -> None:
    refused(settled, statement, *words)


# ---------------------------------------------------------------------- tables
def test_create_or_replace_reads_the_table_it_replaces(keeper: viewkeep.Keeper) -> None:
    keeper.sql("CREATE TABLE t (id INT PRIMARY KEY, a STRING); INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    keeper.sql("CREATE OR REPLACE TABLE T AS SELECT id * 10 AS ten, a, id FROM t")
    assert items(keeper, "t") == [(10, "x", 1), (20, "y", 2)]
    keeper.sql("INSERT INTO t VALUES (10, 'z', 1)")
    keeper.sql("CREATE MATERIALIZED VIEW v AS SELECT id, COUNT(*) AS n FROM t GROUP BY id")
    assert keeper.verify("v").equal  # the key of the first table is not one of the second
    refused(keeper, "CREATE OR REPLACE TABLE t (a INT)", "'v'")
    keeper.sql("DROP MATERIALIZED VIEW v; CREATE OR REPLACE TABLE t (a INT)")
    assert items(keeper, "t") == []
    refused(keeper, "CREATE OR REPLACE TABLE t AS SELECT 1 DIV 0 AS x", "zero")
    assert items(keeper, "t") == []


def test_columns_can_be_added(keeper: viewkeep.Keeper) -> None:
    keeper.sql("CREATE TABLE t (a INT); INSERT INTO t VALUES (1); ALTER TABLE t ADD COLUMN b STRING")
    keeper.sql("INSERT INTO t VALUES (2, 'x'); ALTER TABLE T ADD COLUMNS (c DECIMAL(10, 2), `d``d` INT)")
    keeper.sql("ALTER TABLE t ADD COLUMN IF NOT EXISTS B STRING; UPDATE t SET c = 1.5, `d``d` = a WHERE a = 1")
    found = keeper.query("SELECT a, b, CAST(c AS STRING) AS c, `d``d` FROM t ORDER BY a")
    assert rows_of(found) == [(1, None, "1.50", 1), (2, "x", None, None)]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("ALTER TABLE t ADD COLUMN A INT", ("already",)),
        ("ALTER TABLE t ADD COLUMN c INT NOT NULL", ("NOT NULL",)),
        ("ALTER TABLE t ADD COLUMN c INT DEFAULT 3", ("DEFAULT",)),
        ("ALTER TABLE t ADD COLUMN c INT FIRST", ("at the end",)),
        ("ALTER TABLE t ADD COLUMN c NO_SUCH_TYPE", ("ALTER",)),
        ("OPTIMIZE t", ("OPTIMIZE",)),
        ("VACUUM t", ("VACUUM",)),
        ("ALTER TABLE t RENAME COLUMN a TO b", ("RENAME COLUMN",)),
        ("ALTER TABLE t RENAME TO b", ("RENAME TO",)),
        ("ALTER TABLE t DROP COLUMN a", ("DROP COLUMN",)),
        ("ALTER TABLE t ALTER COLUMN a TYPE BIGINT", ("BIGINT",)),
        ("ALTER TABLE t ALTER COLUMN a COMMENT 'x'", ("COMMENT",)),
        ("ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')", ("TBLPROPERTIES",)),
        ("ALTER TABLE nothing ADD COLUMN c INT", ("nothing",)),
        ("ALTER TABLE items ADD COLUMN c INT", ("totals",)),
        ("CREATE TABLE u (a INT, A INT)", ("two columns",)),
        ("CREATE TABLE u (a INT DEFAULT 1)", ("DEFAULT",)),
        ("CREATE TABLE u (a STRING COLLATE UTF8_LCASE)", ("COLLATE",)),
        ("CREATE TABLE u (a INT CHECK (a > 1))", ("CHECK",)),
        ("CREATE TABLE u (`a b` INT)", ("a b",)),
        ("CREATE TABLE u (a NO_SUCH_TYPE)", ("no_such_type",)),
        ("CREATE TABLE u (a INT) USING parquet", ("parquet",)),
        ("CREATE TABLE u (a INT) LOCATION '/x'", ("/x",)),
        ("CREATE TABLE u LIKE items", ("LIKE",)),
        ("CREATE TEMP TABLE u (a INT)", ("TEMPORARY",)),
        ("CREATE TABLE u (a INT) PARTITIONED BY (b)", ("'b'",)),
        ("CREATE TABLE u (a INT) PARTITIONED BY (a)", ("all of its columns",)),
        ("CREATE TABLE u", ("columns or a query",)),
        ("CREATE TABLE u AS SELECT id, amount AS ID FROM items", ("two columns",)),
        ("CREATE TABLE items (a INT)", ("exists already",)),
        ("CREATE TABLE totals (a INT)", ("exists already",)),
        ("CREATE TABLE nothing.u (a INT)", ("schema 'nothing'",)),
        ("CREATE TABLE sub (a INT)", ("something else",)),
        ("CREATE SCHEMA items", ("exists already",)),
        ("CREATE SCHEMA `../up`", ("../up",)),
        ("CREATE TABLE `../up` (a INT)", ("../up",)),
        ("CREATE TABLE `a/b` (a INT)", ("'/'",)),
        ("CREATE TABLE `a*` (a INT)", ("'*'",)),
        ("CREATE TABLE `_hidden` (a INT)", ("_hidden",)),
        ("CREATE TABLE `a.b` (a INT)", ("'.'",)),
        ("CREATE VIEW plain (a, b) AS SELECT id FROM items", ("2 names for 1",)),
        ("CREATE TEMP VIEW plain AS SELECT id FROM items", ("temporary",)),
        ("DROP VIEW t", ("DROP TABLE",)),
        ("DROP TABLE p", ("DROP VIEW",)),
        ("DROP TABLE nothing", ("nothing",)),
        ("DROP TABLE items", ("totals",)),
        ("DROP SCHEMA sub", ("CASCADE",)),
        ("DROP SCHEMA nothing", ("nothing",)),
    ],
)
def test_a_definition_that_is_refused(settled: viewkeep.Keeper, statement: str, words: tuple[str, ...]) -> None:
    refused(settled, statement, *words)


def test_schemas(keeper: viewkeep.Keeper) -> None:
    keeper.sql("CREATE SCHEMA Sales; CREATE SCHEMA IF NOT EXISTS sales; CREATE TABLE sales.T (a INT, b INT)")
    keeper.sql("INSERT INTO SALES.t VALUES (1, 1), (2, 2); CREATE VIEW sales.p AS SELECT b FROM sales.t")
    keeper.sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(a) AS s FROM Sales.t WHERE sales.t.b > 1")
    keeper.sql("UPDATE sales.t SET b = sales.t.b + 1; DELETE FROM sales.t WHERE t.a = 2")
    keeper.sql(
        "MERGE INTO sales.t USING items ON sales.t.a = items.id WHEN NOT MATCHED AND id = 4 THEN INSERT VALUES (id, id)"
    )
    keeper.refresh("v")
    assert keeper.verify("v").equal
    assert items(keeper, "sales.p") == [(2,), (4,)]
    refused(keeper, "DROP SCHEMA sales CASCADE", "'v'")
    keeper.sql("DROP MATERIALIZED VIEW v; DROP SCHEMA SALES CASCADE")
    assert not (_folder(keeper) / "Sales").exists()


# ---------------------------------------------------------------------- partitions
def test_a_partitioned_table(keeper: viewkeep.Keeper) -> None:
    keeper.sql("CREATE TABLE p (id INT, part STRING, day DATE, v INT) PARTITIONED BY (Part, day)")
    keeper.sql(
        "CREATE MATERIALIZED VIEW parts WITH (policy = 'strict') AS "
        "SELECT part, day, COUNT(*) AS n, SUM(v) AS s FROM p GROUP BY part, day"
    )
    keeper.sql(
        "CREATE MATERIALIZED VIEW met WITH (policy = 'strict') AS "
        "SELECT p.id, p.part, i.label FROM p JOIN items AS i ON p.part = i.label"
    )
    for change in (
        "INSERT INTO p VALUES (1, 'a', DATE '2024-01-01', 1), (2, NULL, NULL, 2), (3, '', DATE '2024-01-02', 3)",
        "INSERT INTO p VALUES (4, 'x/y=[1]*?{}%20 +`\"', NULL, 4), (5, 'b', DATE '2024-01-02', 5)",
        "INSERT INTO p VALUES (6, 'Ünïcödé', NULL, 6)",
        "UPDATE p SET part = 'a', v = v + 1 WHERE id IN (3, 5)",
        "MERGE INTO p USING items AS i ON p.id = i.id AND i.id <> 2 WHEN MATCHED THEN UPDATE SET part = i.label "
        "WHEN NOT MATCHED AND i.id = 2 THEN INSERT (id, part) VALUES (i.id, i.label)",
        "DELETE FROM p WHERE part IS NULL",
        "DELETE FROM p WHERE day = DATE '2024-01-01'",
        "INSERT OVERWRITE p SELECT id, label, DATE '2024-05-05', amount FROM items",
    ):
        keeper.sql(change)
        check(keeper)
    columns = {"id": [50], "part": [""], "day": pa.array([None], pa.date32()), "v": [1]}
    assert keeper.load("p", pa.table(columns)) == 1
    check(keeper)
    assert keeper.apply("p", pa.table({**columns, "part": [None], "_w": [-1]})) == (0, 1)
    check(keeper)
    assert (_folder(keeper) / "p" / "Part=a").is_dir() or (_folder(keeper) / "p" / "part=a").is_dir()


def test_a_partitioned_table_made_of_a_query(keeper: viewkeep.Keeper) -> None:
    keeper.sql("CREATE TABLE p PARTITIONED BY (label) AS SELECT * FROM items")
    assert items(keeper, "p") == items(keeper)
    keeper.sql("CREATE OR REPLACE TABLE p AS SELECT id, label FROM p WHERE label = 'a'")
    assert items(keeper, "p") == [(1, "a"), (4, "a")]
    keeper.sql("INSERT INTO p VALUES (9, 'z')")
    assert items(keeper, "p") == [(1, "a"), (4, "a"), (9, "z")]


# ---------------------------------------------------------------------- names and values that are no friends
NASTY = "x'; DROP TABLE items; --"


def test_names_and_values_are_never_taken_for_sql(keeper: viewkeep.Keeper) -> None:
    name = "we'ird\";`name"
    quoted = "`" + name.replace("`", "``") + "`"
    keeper.sql(f"CREATE TABLE {quoted} (`co``l'\"` STRING, `Größe` INT)")
    value = NASTY.replace("'", "\\'")
    keeper.sql(f"INSERT INTO {quoted} VALUES ('{value}', 1), ('`; \"', 2), ('\\\\', 3)")
    keeper.sql(
        f"CREATE MATERIALIZED VIEW v WITH (policy = 'strict') AS "
        f"SELECT `co``l'\"`, SUM(`größe`) AS s FROM {quoted} GROUP BY `co``l'\"`"
    )
    keeper.sql(f"UPDATE {quoted} AS `a``b` SET `a``b`.`co``l'\"` = '{value}' WHERE `a``b`.`größe` = 2")
    keeper.sql(f"DELETE FROM {quoted} WHERE `co``l'\"` = '\\\\'")
    keeper.sql(
        f"MERGE INTO {quoted} AS `t;` USING (SELECT '{value}' AS `s``c`, 7 AS n) AS `s'` ON `t;`.`größe` = `s'`.n "
        f"WHEN NOT MATCHED THEN INSERT (`co``l'\"`, `größe`) VALUES (`s'`.`s``c`, `s'`.n)"
    )
    check(keeper)
    assert rows_of(keeper.query("SELECT * FROM v")) == [(NASTY, 10)]
    batch: dict[str, Any] = {"co`l'\"": [NASTY], "Größe": pa.array([1], pa.int32())}
    assert keeper.apply(name, pa.table({**batch, "_w": [-1]})) == (0, 1)
    keeper.declare_key(name, ["co`l'\""])
    assert keeper.refresh("v").strategy == "classical"
    assert keeper.verify("v").equal
    assert rows_of(keeper.query("SELECT * FROM v")) == [(NASTY, 9)]
    assert len(items(keeper)) == 5


# ---------------------------------------------------------------------- at the same time
def test_changes_at_the_same_time(keeper: viewkeep.Keeper, tmp_path: Path) -> None:
    """Each of two writers computes its change again when the other was first: no change is lost."""
    keeper.sql("CREATE TABLE counters (id INT, n INT); INSERT INTO counters VALUES (1, 0), (2, 0)")
    keeper.sql("CREATE MATERIALIZED VIEW c AS SELECT id, SUM(n) AS n FROM counters GROUP BY id")
    errors: list[BaseException] = []

    def work(other: viewkeep.Keeper, id_: int) -> None:
        try:
            for _ in range(4):
                other.sql(f"UPDATE counters SET n = n + 1 WHERE id = {id_}")
        except BaseException as error:
            errors.append(error)

    others = [viewkeep.connect(f"spark:///{_folder(keeper)}") for _ in range(2)]
    threads = [threading.Thread(target=work, args=(k, i)) for i, k in enumerate(others, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert items(keeper, "counters") == [(1, 4), (2, 4)]
    keeper.refresh("c")
    assert keeper.verify("c").equal
    changes = _folder(keeper) / "counters" / "_viewkeep_changes"
    assert len(os.listdir(changes)) == 8  # one of each commit, none of the attempts that came too late
