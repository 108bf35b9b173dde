"""Every benchmark runs at tiny sizes and hands back whole tables. Times are never judged here."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))  # bench is a folder of the repository, not of the package

from bench import fk_data, measure
from bench.__main__ import BENCHMARKS, main
from bench.crossover import crossing
from bench.data import JOIN_QUERY, JOIN_SCHEMA, IncomeRows, JoinRows
from bench.database import create_view, database
from bench.spark import benchmarks
from bench.tables import Result

from viewkeep.errors import ConnectError

LONG = ("foreign-keys",)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in BENCHMARKS])
def test_runs_quickly(name: str) -> None:
    if name == "foreign-keys":
        try:
            fk_data.generator()
        except measure.BenchmarkError as error:
            pytest.skip(str(error))
    check_result(BENCHMARKS[name](True), name)


def check_result(result: Result, name: str) -> None:
    assert result.name == name
    assert result.tables
    for table in result.tables:
        assert table.rows, table.title
        for row, shown in zip(table.rows, table.shown(), strict=True):
            assert len(row) == len(shown) == len(table.columns)
            assert all(v is None or isinstance(v, str) or v >= 0 for v in row)
        assert "met" not in {cell for row in table.shown() for cell in row}, "tiny sizes are not judged"


@pytest.mark.parametrize(
    "name", ["w2", "tpch", "growth", pytest.param("foreign-keys", marks=pytest.mark.slow), "profile"]
)
def test_runs_quickly_on_spark(name: str) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed")
    from bench.spark.tpch_data import generator

    from viewkeep.engine.java import find_java

    try:
        find_java()
    except ConnectError as error:
        pytest.skip(str(error))
    if name in ("tpch", "growth", "foreign-keys"):
        try:
            fk_data.generator() if name == "foreign-keys" else generator()
        except measure.BenchmarkError as error:
            pytest.skip(str(error))
    check_result(benchmarks()[name](True), f"spark-{name}")


def test_command_line_keeps_the_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["w1", "growth", "--quick", "--into", str(tmp_path)]) == 0
    kept = json.loads((tmp_path / "latest.json").read_text())
    assert list(kept["results"]) == ["w1", "growth"]
    assert {"cores", "memory", "python", "duckdb"} <= set(kept["machine"])
    assert {p.name for p in tmp_path.iterdir()} == {"latest.json", "growth.png", "growth.svg"}
    assert "refresh ms" in capsys.readouterr().out


def test_a_quick_run_is_not_published() -> None:
    with pytest.raises(SystemExit):
        main(["w1", "--quick", "--write"])
    with pytest.raises(SystemExit):
        main(["nothing"])


def test_a_refresh_that_was_not_incremental_is_an_error() -> None:
    rows = JoinRows(keys=10)
    with database("memory") as keeper:
        keeper.sql(JOIN_SCHEMA)
        keeper.load("right_side", rows.right(10))
        create_view(keeper, JOIN_QUERY, policy="full")
        keeper.load("left_side", rows.left(10))
        with pytest.raises(measure.BenchmarkError, match="recompute"):
            measure.timed_refresh(keeper)


def test_rows_are_the_same_in_every_run() -> None:
    assert JoinRows(keys=7).left(50).equals(JoinRows(keys=7).left(50))
    one, other = IncomeRows(9), IncomeRows(9)
    for rows in (one, other):
        rows.payments(100)
    assert one.batch(10, 3) == other.batch(10, 3)


def test_each_right_key_occurs_once_and_deleted_payments_exist() -> None:
    assert sorted(JoinRows(keys=50).right(50).column("tid_right").to_pylist()) == list(range(50))
    rows = IncomeRows(9)
    rows.payments(100)
    gone = [i for _ in range(4) for i in rows.batch(5, 20).deleted.column("pid").to_pylist()]
    assert len(gone) == len(set(gone)) == 80
    assert max(gone) < 100


def test_crossing_is_found_between_the_measured_shares() -> None:
    assert crossing([0.1, 0.2, 0.4], [0.5, 0.9, 1.2]) == pytest.approx(0.2577, abs=0.01)
    assert crossing([0.1, 0.2], [0.5, 0.9]) is None
    assert crossing([0.1, 0.2, 0.4], [0.5, 1.3, 0.9]) is None, "one slow batch is not a crossing"
    assert crossing([0.1, 0.2], [1.5, 1.9]) == 0.1


def test_batches_along_foreign_keys_are_about_different_rows() -> None:
    """A key is never there twice, every row that goes is there, and no row points at nothing."""
    try:
        fk_data.generator()
    except measure.BenchmarkError as error:
        pytest.skip(str(error))
    tables = ("web_sales", "customer", "customer_address", "item", "date_dim")
    keys = [k for k in fk_data.TPCDS if k.child in tables and k.parent in tables]
    found = fk_data.changing("tpcds", 0.01, tables, keys, 0.02, "ws_sales_price", 3)
    with duckdb.connect() as db:
        for table, rows in found.items():
            key = ", ".join(fk_data.key_of("tpcds", table))
            db.register("start", rows.start)
            db.execute(f"CREATE TABLE {table} AS FROM start; CREATE UNIQUE INDEX {table}_key ON {table} ({key})")
        for number in range(3):
            for table, rows in found.items():
                key = ", ".join(fk_data.key_of("tpcds", table))
                come, go = rows.batches[number]
                assert come.num_rows
                db.register("come", come).execute(f"INSERT INTO {table} FROM come")
                gone = db.register("go", go).execute(f"DELETE FROM {table} WHERE ({key}) IN (SELECT ({key}) FROM go)")
                assert gone.fetchall() == [(go.num_rows,)]
            for k in keys:
                child, parent = ", ".join(k.columns), ", ".join(k.parent_columns)
                lost = f"FROM {k.child} WHERE ({child}) NOT IN (SELECT ({parent}) FROM {k.parent})"
                known = " AND ".join(f"{c} IS NOT NULL" for c in k.columns)
                assert db.execute(f"SELECT COUNT(*) {lost} AND {known}").fetchall() == [(0,)]
