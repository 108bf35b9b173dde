"""Mistakes and mishaps on Spark: each gets an error that says what is wrong, and nothing has changed."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewkeep
from support import rows_of
from test_bad_input import BAD_BATCHES, BAD_CALLS, BAD_LOADS, BAD_QUERIES, BAD_STATEMENTS

pytest.importorskip("pyspark", reason="Spark is not installed")
pytest.importorskip("deltalake", reason="deltalake is not installed")
pytestmark = pytest.mark.spark


def make(folder: Path) -> viewkeep.Keeper:
    keeper = viewkeep.connect(f"spark:///{folder}")
    keeper.sql("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount DECIMAL(12,2), label STRING)")
    keeper.sql("INSERT INTO orders VALUES (1, 1, 1.5, 'a'), (2, 1, NULL, 'b'), (3, 2, 3, NULL)")
    keeper.sql("CREATE TABLE customers (id INTEGER, name STRING); INSERT INTO customers VALUES (1, 'x'), (1, 'x')")
    keeper.sql("CREATE VIEW plain AS SELECT id FROM orders")
    keeper.sql("CREATE MATERIALIZED VIEW known AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer")
    return keeper


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[viewkeep.Keeper]:
    """For mistakes that must change nothing: one for all of them."""
    with make(tmp_path_factory.mktemp("settled") / "lake") as keeper:
        yield keeper
        keeper.sql("INSERT INTO orders VALUES (4, 2, 1, 'z')")
        assert keeper.refresh("known").strategy != "unchanged"
        assert keeper.verify("known").equal


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[viewkeep.Keeper]:
    with make(tmp_path / "lake") as keeper:
        yield keeper


def folder_of(keeper: viewkeep.Keeper) -> Path:
    return Path(keeper._db.warehouse.folder)  # type: ignore[attr-defined]


def state(keeper: viewkeep.Keeper) -> dict[str, bytes]:
    """Every file of the warehouse; Spark's checksums apart."""
    folder = folder_of(keeper)
    found = (p for p in folder.rglob("*") if p.is_file() and not p.name.endswith(".crc"))
    return {str(p.relative_to(folder)): p.read_bytes() for p in found}


def refused(keeper: viewkeep.Keeper, call: Callable[[], Any], *words: str) -> viewkeep.ViewkeepError:
    before = state(keeper)
    with pytest.raises(viewkeep.ViewkeepError) as caught:
        call()
    assert type(caught.value) is not viewkeep.ViewkeepError
    for word in words:
        assert word.lower() in str(caught.value).lower(), str(caught.value)
    for trace in ("Traceback", "\tat ", "org.apache", "_vk"):
        assert trace not in str(caught.value).replace("_vk_id", "")
    assert state(keeper) == before
    return caught.value


# ---------------------------------------------------------------------- the same mistakes as on DuckDB
OTHER_WORDS = {
    "SELECT a FROM scratch": ("scratch",),
    "SELECT SUM(label) AS s FROM orders": ("'b'",),
    "SELECT id + DATE '2024-01-01' + TIME '10:00' * 3 AS x FROM orders": (),
}
"""What is wrong on Spark, too, but for another reason."""


@pytest.mark.parametrize(("query", "words"), [(q, OTHER_WORDS.get(q, w)) for q, w in BAD_QUERIES])
def test_a_bad_query(settled: viewkeep.Keeper, query: str, words: tuple[str, ...]) -> None:
    refused(settled, lambda: settled.sql(f"CREATE MATERIALIZED VIEW v AS {query}"), *words)


SPARK_FUNCTIONS = [
    ("rand()", "rand"),
    ("randn()", "randn"),
    ("now()", "now"),
    ("current_date()", "current_date"),
    ("current_timestamp()", "current_timestamp"),
    ("localtimestamp()", "localtimestamp"),
    ("uuid()", "uuid"),
    ("unix_timestamp()", "timestamp"),
    ("monotonically_increasing_id()", "monotonically_increasing_id"),
    ("spark_partition_id()", "spark_partition_id"),
    ("input_file_name()", "input_file_name"),
    ("current_user()", "current_user"),
    ("shuffle(array(1, 2))", "shuffle"),
]


@pytest.mark.parametrize(("call", "name"), SPARK_FUNCTIONS)
def test_a_function_that_gives_another_answer_each_time(settled: viewkeep.Keeper, call: str, name: str) -> None:
    refused(settled, lambda: settled.sql(f"CREATE MATERIALIZED VIEW v AS SELECT id, {call} AS f FROM orders"), name)


ALLOWED = (
    # Keys are declared on a lake and not enforced by it; verify tells where one does not hold.
    "INSERT INTO orders VALUES (1, 1, 1, 'duplicate key')",
    # There are no temporary tables, so the name is free.
    "CREATE MATERIALIZED VIEW scratch AS SELECT id FROM orders",
)


@pytest.mark.parametrize(("statement", "words"), [(s, w) for s, w in BAD_STATEMENTS if s not in ALLOWED])
def test_a_bad_statement(settled: viewkeep.Keeper, statement: str, words: tuple[str, ...]) -> None:
    refused(settled, lambda: settled.sql(statement), *words)


@pytest.mark.parametrize(("call", "word"), BAD_CALLS)
def test_bad_arguments_of_methods(
    settled: viewkeep.Keeper, call: Callable[[viewkeep.Keeper], object], word: str
) -> None:
    refused(settled, lambda: call(settled), word)


@pytest.mark.parametrize(("table", "changes", "words"), [(t, c, w) for t, c, w in BAD_BATCHES if "constraint" not in w])
def test_a_bad_batch(settled: viewkeep.Keeper, table: str, changes: pa.Table, words: tuple[str, ...]) -> None:
    refused(settled, lambda: settled.apply(table, changes), *words)


@pytest.mark.parametrize(("changes", "word"), [(c, w) for c, w in BAD_LOADS if w != "onstraint"])
def test_a_bad_load(settled: viewkeep.Keeper, changes: pa.Table, word: str) -> None:
    refused(settled, lambda: settled.load("orders", changes), word)


# ---------------------------------------------------------------------- connecting
def test_bad_connections(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("this is not a folder")
    newer = tmp_path / "newer"
    viewkeep.connect(f"spark:///{newer}").close()
    (newer / "_viewkeep" / "format.json").write_text('{"format": 999}')
    broken = tmp_path / "broken"
    viewkeep.connect(f"spark:///{broken}").close()
    (broken / "_viewkeep" / "format.json").write_text("{")
    for url, word in (
        (f"spark:///{text}", "notes.txt"),
        (f"spark:///{text}/below", "notes.txt"),
        ("spark://", "folder"),
        (f"spark:///{newer}", "newer viewkeep"),
        (f"spark:///{broken}", "format.json"),
    ):
        with pytest.raises(viewkeep.ViewkeepError, match=word) as caught:
            viewkeep.connect(url)
        assert caught.value.hint
    assert text.read_text() == "this is not a folder"
    with pytest.raises(viewkeep.ViewkeepError, match="warehouse"):
        viewkeep.connect(warehouse=str(tmp_path))


# ---------------------------------------------------------------------- tables that are none
def test_a_folder_that_is_no_table(keeper: viewkeep.Keeper) -> None:
    folder = folder_of(keeper) / "notes"
    folder.mkdir()
    (folder / "rows.csv").write_text("a,b\n1,2\n")
    refused(keeper, lambda: keeper.sql("SELECT * FROM notes"), "notes")
    refused(keeper, lambda: keeper.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM notes"), "'notes' does not exist")
    refused(keeper, lambda: keeper.sql("INSERT INTO notes VALUES (1)"), "'notes' does not exist")
    refused(keeper, lambda: keeper.sql("CREATE TABLE notes (a INT)"), "something else")
    (folder / "_delta_log").mkdir()
    refused(keeper, lambda: keeper.sql("SELECT * FROM notes"), "not a Delta table")
    refused(keeper, lambda: keeper.sql("INSERT INTO notes VALUES (1)"), "not a Delta table")
    assert len(rows_of(keeper.query("SELECT * FROM orders"))) == 3


def log_entry(keeper: viewkeep.Keeper, version: int, table: str = "orders") -> Path:
    return folder_of(keeper) / table / "_delta_log" / f"{version:020}.json"


def remove_first(keeper: viewkeep.Keeper) -> None:
    log_entry(keeper, 0).unlink()


def remove_middle(keeper: viewkeep.Keeper) -> None:
    log_entry(keeper, 1).unlink()


def garble(keeper: viewkeep.Keeper) -> None:
    log_entry(keeper, 1).write_text("{garbage")


def garble_bytes(keeper: viewkeep.Keeper) -> None:
    log_entry(keeper, 1).write_bytes(bytes(range(256)))


def cut_off(keeper: viewkeep.Keeper) -> None:
    """As a writer leaves it that crashed on a file system that does not write entries at once."""
    entry = log_entry(keeper, 2)
    entry.write_bytes(entry.read_bytes()[:-40])


def remove_log(keeper: viewkeep.Keeper) -> None:
    shutil.rmtree(folder_of(keeper) / "orders" / "_delta_log")


@pytest.mark.parametrize(
    ("break_log", "words"),
    [
        (remove_first, ("log",)),
        (remove_middle, ("entry 1 is missing",)),
        (garble, ("entry 1 is not",)),
        (garble_bytes, ("entry 1 is not",)),
        (cut_off, ("entry 2 is not",)),
        (remove_log, ("orders",)),
    ],
)
def test_a_log_that_cannot_be_read(
    keeper: viewkeep.Keeper, break_log: Callable[[viewkeep.Keeper], None], words: tuple[str, ...]
) -> None:
    keeper.sql("INSERT INTO orders VALUES (4, 2, 1, 'z')")
    before = rows_of(keeper.query("SELECT * FROM known"))
    break_log(keeper)
    with viewkeep.connect(f"spark:///{folder_of(keeper)}") as other:
        for one in (keeper, other):
            for call in (
                lambda k=one: k.refresh("known"),
                lambda k=one: k.sql("INSERT INTO orders VALUES (5, 2, 1, 'z')"),
                lambda k=one: k.query("SELECT * FROM orders"),
            ):
                assert refused(one, call, *words).hint
            assert rows_of(one.query("SELECT * FROM known")) == before
            assert [r.strategy for r in one.refresh()] == ["invalid"]
            one.status()
        other.sql("CREATE TABLE fine (a INT); INSERT INTO fine VALUES (1)")


def test_a_file_of_a_table_is_gone(keeper: viewkeep.Keeper) -> None:
    before = rows_of(keeper.query("SELECT * FROM known"))
    keeper.sql("INSERT INTO orders VALUES (4, 2, 1, 'z')")
    for file in (folder_of(keeper) / "orders").rglob("*.parquet"):
        file.unlink()
    assert refused(keeper, lambda: keeper.query("SELECT * FROM orders"), "orders").hint
    assert refused(keeper, lambda: keeper.refresh("known", full=True), "as it was").hint
    assert rows_of(keeper.query("SELECT * FROM known")) == before


# ---------------------------------------------------------------------- no room, no right to write
def full(*_: object, **__: object) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def forbidden(*_: object, **__: object) -> Any:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


PLACES = [
    "viewkeep.engine.spark.Spark.write",
    "viewkeep.engine.spark.written_files",
    "viewkeep.engine.delta_log.DeltaTable.create_write_transaction",
    "viewkeep.engine.delta_log.DeltaLog.commit",
]


@pytest.mark.parametrize(("failure", "word"), [(full, "No space left"), (forbidden, "Permission denied")])
@pytest.mark.parametrize("place", PLACES)
def test_writing_fails_during_a_refresh(
    keeper: viewkeep.Keeper, monkeypatch: pytest.MonkeyPatch, place: str, failure: Any, word: str
) -> None:
    keeper.sql("CREATE MATERIALIZED VIEW picked AS SELECT id, label FROM orders WHERE customer = 1")
    before = {v: rows_of(keeper.query(f"SELECT * FROM {v}")) for v in ("known", "picked")}
    keeper.sql("UPDATE orders SET customer = 2 WHERE id = 2")
    for full_refresh in (False, True):
        for view, rows in before.items():
            with monkeypatch.context() as patch:
                patch.setattr(place, failure)
                call = partial(keeper.refresh, view, full=full_refresh)
                error = refused(keeper, call, word, view, "as it was")
            assert error.hint
            assert rows_of(keeper.query(f"SELECT * FROM {view}")) == rows
    for view in before:
        assert keeper.refresh(view).strategy != "unchanged"
        assert keeper.verify(view).equal


CHANGE_PLACES = [*PLACES[:3], "viewkeep.engine.spark.pq.write_table", "viewkeep.engine.delta_log.DeltaLog.create"]


@pytest.mark.parametrize("place", CHANGE_PLACES)
def test_writing_fails_during_a_change(keeper: viewkeep.Keeper, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    batch = pa.table({"id": [1], "name": ["x"]})
    calls: list[Callable[[], Any]] = [
        lambda: keeper.sql("INSERT INTO orders VALUES (4, 2, 1, 'z')"),
        lambda: keeper.sql("UPDATE orders SET customer = 2 WHERE id = 2"),
        lambda: keeper.sql("DELETE FROM orders WHERE id = 2"),
        lambda: keeper.sql("TRUNCATE TABLE orders"),
        lambda: keeper.sql("CREATE TABLE more AS SELECT * FROM orders"),
        lambda: keeper.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM orders"),
        lambda: keeper.sql("CREATE OR REPLACE MATERIALIZED VIEW known AS SELECT id FROM orders"),
        lambda: keeper.load("customers", batch),
        lambda: keeper.apply("customers", batch.append_column("_w", pa.array([-1]))),
    ]
    failed = 0
    for call in calls:
        before, error = state(keeper), None
        with monkeypatch.context() as patch:
            patch.setattr(place, full)
            try:
                call()
            except viewkeep.ViewkeepError as caught:
                error = caught
        if error is not None:  # not every change writes everywhere
            assert "No space left" in str(error)
            assert error.hint
            assert state(keeper) == before
            failed += 1
    assert failed >= 2
    keeper.refresh()
    assert keeper.verify("known").equal


def test_what_comes_after_a_commit_fails(keeper: viewkeep.Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that happened is one, whatever is said of its checkpoint: its files must stay."""
    from deltalake import DeltaTable

    commit = DeltaTable.create_write_transaction

    def committed(*args: Any, **options: Any) -> None:
        commit(*args, **options)
        full()

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "create_write_transaction", committed)
        keeper.sql("INSERT INTO orders VALUES (4, 2, 1, 'z'); DELETE FROM orders WHERE id = 1")
        keeper.refresh("known")
    assert len(rows_of(keeper.query("SELECT * FROM orders"))) == 3
    assert keeper.verify("known").equal
    assert keeper.refresh("known").strategy == "unchanged"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folders_that_may_not_be_written(keeper: viewkeep.Keeper) -> None:
    keeper.sql("INSERT INTO orders VALUES (4, 2, 1, 'z')")
    folder = folder_of(keeper)
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            path.chmod(0o555)
    try:
        for call in (
            lambda: keeper.sql("INSERT INTO orders VALUES (5, 2, 1, 'z')"),
            lambda: keeper.refresh("known"),
            lambda: keeper.sql("CREATE TABLE t (a INT)"),
            lambda: keeper.sql("DROP TABLE customers"),
        ):
            assert refused(keeper, call).hint
        keeper.query("SELECT * FROM known")
    finally:
        for path in [folder, *folder.rglob("*")]:
            if path.is_dir():
                path.chmod(0o755)
    keeper.refresh("known")
    assert keeper.verify("known").equal


def test_spark_itself_cannot_write(keeper: viewkeep.Keeper) -> None:
    """Not simulated: the folder of recorded changes is a file."""
    keeper.sql("INSERT INTO orders VALUES (4, 2, 1, 'z')")
    changes = folder_of(keeper) / "orders" / "_viewkeep_changes"
    changes.write_text("not a folder")
    assert refused(keeper, lambda: keeper.sql("UPDATE orders SET customer = 3 WHERE id = 4")).hint
    changes.unlink()
    keeper.sql("UPDATE orders SET customer = 3 WHERE id = 4")
    keeper.refresh("known")
    assert keeper.verify("known").equal


@pytest.mark.parametrize("text", ["", "   ", ";;", "-- only a comment", "/* nothing */;"])
def test_nothing_to_do(settled: viewkeep.Keeper, text: str) -> None:
    before = state(settled)
    assert settled.sql(text) is None
    assert state(settled) == before
