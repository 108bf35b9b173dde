"""Tables that other programs write: what changed is found in their logs, without their cooperation."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewkeep
from support import assert_view_equals_query

pytest.importorskip("pyspark", reason="Spark is not installed")
deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")
pytestmark = [pytest.mark.spark, pytest.mark.slow]

QUERIES = {
    "totals": "SELECT customer, COUNT(*) AS n, SUM(amount) AS total, MAX(id) AS last FROM orders GROUP BY customer",
    "named": "SELECT o.id, o.amount, c.name FROM orders AS o JOIN customers AS c ON o.customer = c.id",
}


def orders(first: int, last: int, **columns: Any) -> pa.Table:
    ids = list(range(first, last))
    return pa.table(
        {
            "id": pa.array(ids, pa.int32()),
            "customer": pa.array([i % 5 if i % 11 else None for i in ids], pa.int32()),
            "amount": pa.array([i * 10 for i in ids], pa.int64()),
            "day": pa.array([date(2024, 1, 1) + timedelta(i % 3) if i % 7 else None for i in ids], pa.date32()),
            **columns,
        }
    )


def write(folder: Path, data: pa.Table, mode: str = "append", **options: Any) -> None:
    deltalake.write_deltalake(str(folder), data, mode=mode, **options)


def table(folder: Path) -> Any:
    return deltalake.DeltaTable(str(folder))


class Lake:
    """A warehouse whose tables are made by delta-rs, with views on them."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder, self.orders, self.customers = folder, folder / "orders", folder / "customers"
        write(self.orders, orders(0, 60), **options)
        write(self.orders, orders(60, 100))
        write(self.customers, pa.table({"id": pa.array(range(5), pa.int32()), "name": list("abcde")}))
        self.keeper = viewkeep.connect(f"spark:///{folder}")
        for name, query in QUERIES.items():
            self.keeper.sql(f"CREATE MATERIALIZED VIEW {name} WITH (policy = 'incremental') AS {query}")

    def check(self, strategy: str = "classical", reason: str = "") -> list[viewkeep.RefreshReport]:
        reports = self.keeper.refresh()
        for report in reports:
            assert (report.strategy, report.view) == (strategy, report.view), report
            assert reason in report.reason
            assert_view_equals_query(self.keeper, report.view, QUERIES[report.view])
        return reports


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    lake = Lake(tmp_path / "lake")
    yield lake
    lake.keeper.close()


# ---------------------------------------------------------------------- rows
def append(lake: Lake) -> None:
    write(lake.orders, orders(100, 110))


def overwrite(lake: Lake) -> None:
    write(lake.orders, orders(40, 130), mode="overwrite")


def overwrite_some(lake: Lake) -> None:
    write(lake.orders, orders(90, 100), mode="overwrite", predicate="id >= 90")


def delete_some(lake: Lake) -> None:
    table(lake.orders).delete("id % 10 = 3 OR customer IS NULL")


def delete_all(lake: Lake) -> None:
    table(lake.orders).delete()


def update(lake: Lake) -> None:
    table(lake.orders).update(updates={"amount": "amount + 1", "customer": "4"}, predicate="id < 5")


def merge(lake: Lake) -> None:
    source = orders(95, 105, amount=pa.array([7] * 10, pa.int64()))
    merging = table(lake.orders).merge(source, "t.id = s.id", source_alias="s", target_alias="t")
    merging.when_matched_update_all().when_not_matched_insert_all().when_not_matched_by_source_delete(
        "t.id < 3"
    ).execute()


def several(lake: Lake) -> None:
    """A row that comes and goes again, files that are written and rewritten, both tables."""
    for change in (append, delete_some, update, merge, append):
        change(lake)
    table(lake.orders).delete("id = 101")
    table(lake.customers).update(new_values={"name": "z"}, predicate="id = 2")
    table(lake.orders).optimize.compact()
    table(lake.orders).update(updates={"amount": "0"}, predicate="id = 50")


def ours_and_theirs(lake: Lake) -> None:
    append(lake)
    lake.keeper.sql("UPDATE orders SET amount = 1 WHERE id = 105; DELETE FROM orders WHERE id < 4")
    update(lake)
    lake.keeper.sql("INSERT INTO orders VALUES (500, 1, 5, NULL)")
    table(lake.orders).delete("id = 105")


def restore(lake: Lake) -> None:
    append(lake)
    delete_some(lake)
    table(lake.orders).restore(0)


def many_commits(lake: Lake) -> None:
    """Enough for checkpoints, by them and by us."""
    for i in range(12):
        write(lake.orders, orders(200 + i, 201 + i))
    table(lake.orders).create_checkpoint()
    lake.keeper.sql("INSERT INTO orders VALUES (600, 1, 5, NULL); DELETE FROM orders WHERE id = 205")


CHANGES: list[Callable[[Lake], None]] = [
    append,
    delete_some,
    update,
    merge,
    overwrite_some,
    several,
    ours_and_theirs,
    restore,
    many_commits,
    overwrite,
    delete_all,
    append,
]


@pytest.mark.parametrize("by", [[], ["day", "customer"]], ids=str)
def test_changes_by_another_program(tmp_path: Path, by: list[str]) -> None:
    """One after the other: the files that one change leaves are those that the next one meets."""
    lake = Lake(tmp_path / "lake", partition_by=by)
    with lake.keeper:
        for change in CHANGES:
            change(lake)
            lake.check()
        assert [r.strategy for r in lake.keeper.refresh()] == ["unchanged", "unchanged"]
        assert all(lake.keeper.verify(view).equal for view in QUERIES)


@pytest.mark.parametrize("by", [[], ["customer"]], ids=str)
def test_tables_with_a_change_feed(tmp_path: Path, by: list[str]) -> None:
    lake = Lake(tmp_path / "lake", partition_by=by, configuration={"delta.enableChangeDataFeed": "true"})
    with lake.keeper:
        for change in (update, delete_some, merge, several, ours_and_theirs, restore):
            change(lake)
            lake.check()
        assert all(lake.keeper.verify(view).equal for view in QUERIES)


def test_the_change_feed_is_used_where_it_is_smaller(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake", configuration={"delta.enableChangeDataFeed": "true"})
    with lake.keeper:
        write(lake.orders, orders(1000, 9000))
        lake.check()
        table(lake.orders).delete("id = 5000")
        reports = lake.check()
        assert max(r.changed_rows for r in reports) < 10
        assert lake.keeper.query("SELECT COUNT(*) AS n FROM orders").to_pylist() == [{"n": 8099}]


def test_partition_values_of_all_kinds(tmp_path: Path) -> None:
    texts = ["a b", "x/y", "q[1]*?{}", "%20", "é'`\"", "", None, "=", "+", "__x", "2024"]
    data = pa.table(
        {
            "id": range(len(texts)),
            "text": texts,
            "flag": [True, False, None] * 3 + [True, True],
            "number": pa.array([None, -1, *range(len(texts) - 2)], pa.int16()),
        }
    )
    folder = tmp_path / "lake" / "kinds"
    write(folder, data, partition_by=["text", "flag", "number"])
    with viewkeep.connect(f"spark:///{tmp_path / 'lake'}") as keeper:
        query = "SELECT text, flag, number, COUNT(*) AS n, SUM(id) AS s FROM kinds GROUP BY text, flag, number"
        keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'strict') AS {query}")
        for step in range(4):
            if step == 0:
                write(folder, data)
            elif step == 1:
                table(folder).delete("id > 8 OR id = 3")
            elif step == 2:
                keeper.sql("UPDATE kinds SET text = concat(text, '!'), flag = NOT flag WHERE id < 6")
            else:
                keeper.sql("DELETE FROM kinds WHERE text IS NULL OR number = 1")
            assert keeper.refresh("v").strategy == "classical"
            assert keeper.verify("v").equal
            expected = table(folder).to_pyarrow_table().sort_by("id").to_pylist()
            found = keeper.query("SELECT * FROM kinds").sort_by("id").to_pylist()
            assert sorted(found, key=repr) == sorted(expected, key=repr)


# ---------------------------------------------------------------------- commits that move no data
@pytest.mark.parametrize("vacuumed", [False, True])
def test_files_that_are_only_put_together(lake: Lake, vacuumed: bool) -> None:
    table(lake.orders).optimize.compact()
    table(lake.customers).optimize.z_order(["id"])
    assert table(lake.orders).version() == 2
    if vacuumed:
        table(lake.orders).vacuum(0, dry_run=False, enforce_retention_duration=False)
    for report in lake.check("unchanged"):
        assert report.jobs == 0
    append(lake)
    lake.check()


# ---------------------------------------------------------------------- history that is lost
def vacuum(lake: Lake) -> None:
    delete_some(lake)
    table(lake.orders).vacuum(0, dry_run=False, enforce_retention_duration=False)


def lose_an_entry(lake: Lake) -> None:
    append(lake)
    append(lake)
    table(lake.orders).create_checkpoint()
    os.remove(lake.orders / "_delta_log" / f"{2:020}.json")


def recreate(lake: Lake) -> None:
    shutil.rmtree(lake.orders)
    write(lake.orders, orders(0, 10))


def change_columns_and_back(lake: Lake) -> None:
    plain = orders(0, 30)
    write(lake.orders, plain.drop_columns(["day"]), mode="overwrite", schema_mode="overwrite")
    write(lake.orders, plain, mode="overwrite", schema_mode="overwrite")


def go_back(lake: Lake) -> None:
    """A backup of the folder is put in its place."""
    log = lake.orders / "_delta_log"
    os.remove(log / f"{1:020}.json")


def lose_recorded_changes(lake: Lake) -> None:
    lake.keeper.sql("DELETE FROM orders WHERE id = 7")
    shutil.rmtree(lake.orders / "_viewkeep_changes")


LOSSES: list[tuple[Callable[[Lake], None], str]] = [
    (vacuum, "vacuumed"),
    (lose_an_entry, "log entry of its version 2 is gone"),
    (recreate, "made anew"),
    (change_columns_and_back, "its columns changed"),
    (go_back, "went back to version 0"),
    (lose_recorded_changes, "recorded changes"),
]


@pytest.mark.parametrize(("loss", "reason"), LOSSES)
def test_history_that_is_lost(lake: Lake, loss: Callable[[Lake], None], reason: str) -> None:
    lake.keeper.sql(
        "CREATE MATERIALIZED VIEW strict WITH (policy = 'strict') AS SELECT id FROM orders WHERE amount > 50"
    )
    loss(lake)
    with pytest.raises(viewkeep.ViewkeepError, match=reason) as caught:
        lake.keeper.refresh("strict")
    assert "'strict'" in str(caught.value)
    assert caught.value.hint
    lake.keeper.refresh("strict", full=True)
    assert lake.keeper.verify("strict").equal
    lake.keeper.sql("DROP MATERIALIZED VIEW strict")
    lake.check("recompute", reason)
    append(lake)
    lake.check()


def test_old_rows_that_a_join_needs_are_gone(lake: Lake) -> None:
    """Only appends since the last refresh, yet the files of back then are gone: both sides changed."""
    table(lake.orders).optimize.compact()
    table(lake.customers).optimize.compact()
    append(lake)
    write(lake.customers, pa.table({"id": pa.array([0], pa.int32()), "name": ["again"]}))
    table(lake.orders).vacuum(0, dry_run=False, enforce_retention_duration=False)
    reports = {r.view: r for r in lake.keeper.refresh()}
    assert reports["totals"].strategy == "classical"
    assert reports["named"].strategy == "recompute"
    assert "vacuumed" in reports["named"].reason
    for view, query in QUERIES.items():
        assert lake.keeper.verify(view).equal
        assert_view_equals_query(lake.keeper, view, query)


# ---------------------------------------------------------------------- schemas
def test_a_column_is_added(lake: Lake) -> None:
    write(lake.orders, orders(100, 110, extra=["x"] * 10), schema_mode="merge")
    lake.check()
    assert "extra" in lake.keeper.query("SELECT * FROM orders").column_names
    lake.keeper.sql("UPDATE orders SET extra = 'y', amount = amount + 1 WHERE id IN (5, 105)")
    lake.check()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (orders(0, 10).drop_columns(["amount"]), "column 'amount' of table 'orders' is gone"),
        (orders(0, 10, amount=["x"] * 10), "column 'amount' of table 'orders' changed from BIGINT"),
    ],
)
def test_a_column_that_views_read_is_dropped_or_changed(lake: Lake, data: pa.Table, reason: str) -> None:
    before = lake.keeper.query("SELECT * FROM totals")
    write(lake.orders, data, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(viewkeep.ViewkeepError, match=reason):
        lake.keeper.refresh("totals")
    assert {r.strategy for r in lake.keeper.refresh()} == {"invalid"}
    assert lake.keeper.query("SELECT * FROM totals") == before
    write(lake.orders, orders(0, 20), mode="overwrite", schema_mode="overwrite")
    lake.check("recompute", "its columns changed")


def test_a_table_that_is_gone_and_comes_again(lake: Lake) -> None:
    shutil.rmtree(lake.orders)
    with pytest.raises(viewkeep.ViewkeepError, match="table 'orders' is gone"):
        lake.keeper.refresh("totals")
    assert lake.keeper.query("SELECT COUNT(*) AS n FROM totals").to_pylist() == [{"n": 6}]
    write(lake.orders, orders(0, 9))
    lake.check("recompute", "made anew")


def test_two_tables_with_one_id(lake: Lake) -> None:
    """A folder that was copied is a table of its own, whatever its log says."""
    shutil.copytree(lake.orders, lake.folder / "copies")
    lake.keeper.sql("SELECT * FROM orders; CREATE MATERIALIZED VIEW c AS SELECT COUNT(*) AS n FROM copies")
    write(lake.folder / "copies", orders(100, 101))
    write(lake.orders, orders(100, 103))
    lake.keeper.refresh()
    assert lake.keeper.query("SELECT n FROM c").to_pylist() == [{"n": 101}]
    assert lake.keeper.query("SELECT COUNT(*) AS n FROM orders").to_pylist() == [{"n": 103}]


# ---------------------------------------------------------------------- features
def forge(folder: Path, protocol: dict[str, Any], configuration: dict[str, str]) -> None:
    """Let the first entry of a log ask for something."""
    path = folder / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            action["protocol"] = protocol
        if "metaData" in action:
            action["metaData"]["configuration"] = configuration
    path.write_text("\n".join(map(json.dumps, actions)))


FEATURES = [
    ("deletionVectors", {"minReaderVersion": 3, "minWriterVersion": 7}, {}),
    ("columnMapping", {"minReaderVersion": 2, "minWriterVersion": 5}, {"delta.columnMapping.mode": "name"}),
    ("typeWidening", {"minReaderVersion": 3, "minWriterVersion": 7}, {}),
    ("holograms", {"minReaderVersion": 3, "minWriterVersion": 7}, {}),
    ("reader version 9", {"minReaderVersion": 9, "minWriterVersion": 9}, {}),
]


def test_a_feature_that_the_log_alone_does_not_show(lake: Lake) -> None:
    for number, (feature, protocol, configuration) in enumerate(FEATURES):
        listed = {"readerFeatures": [feature], "writerFeatures": [feature]} if protocol["minReaderVersion"] == 3 else {}
        name = f"modern_{number}"
        write(lake.folder / name, orders(0, 3))
        forge(lake.folder / name, protocol | listed, configuration)
        for statement in (
            f"SELECT * FROM {name}",
            f"CREATE MATERIALIZED VIEW m AS SELECT id FROM {name}",
            f"INSERT INTO {name} VALUES (1, 1, 1, NULL)",
            f"CREATE TABLE {name} (a INT)",
        ):
            with pytest.raises(viewkeep.ViewkeepError, match=feature) as caught:
                lake.keeper.sql(statement)
            assert caught.value.hint
        lake.keeper.sql(f"DROP TABLE {name}")
    # A table that starts to use one makes its views invalid; they still show their rows.
    before = lake.keeper.query("SELECT * FROM totals")
    forge(lake.orders, {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}, {})
    with viewkeep.connect(f"spark:///{lake.folder}") as keeper:
        with pytest.raises(viewkeep.ViewkeepError, match="deletionVectors"):
            keeper.refresh("totals")
        assert keeper.query("SELECT * FROM totals") == before


def test_column_mapping_that_is_turned_off_is_none(lake: Lake) -> None:
    other = lake.folder / "plain"
    write(other, orders(0, 3))
    forge(other, {"minReaderVersion": 2, "minWriterVersion": 5}, {"delta.columnMapping.mode": "none"})
    assert lake.keeper.query("SELECT COUNT(*) AS n FROM plain").to_pylist() == [{"n": 3}]


def test_rules_of_a_table_that_its_writers_must_keep(lake: Lake) -> None:
    table(lake.orders).alter.add_constraint({"positive": "amount >= 0"})
    with pytest.raises(viewkeep.ViewkeepError, match="check constraint 'positive'") as caught:
        lake.keeper.sql("INSERT INTO orders VALUES (1, 1, -5, NULL)")
    assert caught.value.hint
    append(lake)
    lake.check()
    only = lake.folder / "only"
    write(only, orders(0, 3), configuration={"delta.appendOnly": "true"})
    lake.keeper.sql("INSERT INTO only VALUES (9, 9, 9, NULL)")
    with pytest.raises(viewkeep.ViewkeepError, match="append-only"):
        lake.keeper.sql("DELETE FROM only WHERE id = 1")
    assert not list((only / "_viewkeep_changes").glob("*"))
    assert lake.keeper.query("SELECT COUNT(*) AS n FROM only").to_pylist() == [{"n": 4}]
