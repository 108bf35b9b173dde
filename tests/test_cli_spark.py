"""The shell on a warehouse of Delta tables, the demonstration on Spark, and that `compile` prints what runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from typer.testing import CliRunner, Result

import viewkeep
from viewkeep.cli.main import app
from viewkeep.cli.shop import SPARK_VIEWS as VIEWS

pytestmark = pytest.mark.spark
SHOP = """
CREATE TABLE gods (uid INT PRIMARY KEY, user_name TEXT);
CREATE TABLE payments (to_uid INT, amount INT);
INSERT INTO gods VALUES (1, 'Zeus'), (2, 'Hera');
INSERT INTO payments SELECT i % 2 + 1, i FROM range(100) r(i);
CREATE MATERIALIZED VIEW income AS
  SELECT g.user_name, SUM(p.amount) AS total FROM gods g JOIN payments p ON p.to_uid = g.uid GROUP BY g.user_name;
CREATE MATERIALIZED VIEW rich AS SELECT user_name, total FROM income WHERE total > 10;
"""


@pytest.fixture(autouse=True, scope="module")
def _session() -> None:
    os.environ.setdefault("VIEWKEEP_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
    os.environ.setdefault("VIEWKEEP_DRIVER_MEMORY", "2g")
    try:
        from viewkeep.engine.spark_session import local_session

        local_session()
    except (ImportError, viewkeep.ViewkeepError) as error:
        pytest.skip(f"Spark cannot start: {error}")


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("VIEWKEEP_DB", raising=False)
    done = run("sql", SHOP, db=f"spark:///{tmp_path / 'shop'}")
    assert done.exit_code == 0, done.output
    return str(tmp_path / "shop")


def run(*arguments: str, db: str | None = None) -> Result:
    return CliRunner().invoke(app, [*arguments, *(["--db", db] if db else [])])


def run_json(*arguments: str, db: str) -> Any:
    result = run(*arguments, "--json", db=db)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def fails(result: Result, *expected: str) -> None:
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.stderr
    for text in expected:
        assert text in result.stderr


def test_every_command_on_a_warehouse(warehouse: str) -> None:
    # A plain path that is a warehouse needs no URL.
    assert [s["pending"] for s in run_json("status", db=warehouse)] == [0, 0]
    assert run("sql", "INSERT INTO payments VALUES (1, 50); DELETE FROM payments WHERE amount = 7", db=warehouse)
    assert [s["pending"] for s in run_json("status", db=warehouse)] == [2, 0]
    income, rich = run_json("refresh", db=warehouse)
    assert (income["strategy"], income["rows_inserted"], income["rows_deleted"]) == ("classical", 2, 2)
    assert income["jobs"] > 0
    assert income["rows_read"] > 0
    assert income["bytes_read"] > 0
    assert rich["strategy"] in ("classical", "recompute")
    assert [r["strategy"] for r in run_json("refresh", db=warehouse)] == ["unchanged", "unchanged"]
    shown = run("history", "income", db=warehouse).stdout
    for word in ("created", "classical", "read", "jobs"):
        assert word in shown
    rows = run_json("changes", "income", "--since", "0", db=warehouse)
    assert sorted((r["_w"], r["user_name"], r["total"]) for r in rows) == [
        (-1, "Hera", 2500),
        (-1, "Zeus", 2450),
        (1, "Hera", 2493),
        (1, "Zeus", 2500),
    ]
    assert run("verify", db=warehouse).stdout.count("equal to its query") == 2
    assert "Aggregate" in run("explain", "income", db=warehouse).stdout
    assert "_vk_income_delta_payments" in run("compile", "income", db=warehouse).stdout
    assert run_json("sql", "SELECT total FROM rich ORDER BY total", db=warehouse) == [{"total": 2493}, {"total": 2500}]


def test_errors_have_no_traceback(warehouse: str, tmp_path: Path) -> None:
    fails(run("explain", "incom", db=warehouse), "hint: did you mean 'income'?")
    fails(run("sql", "SELECT * FROM paymnts", db=warehouse), "paymnts")
    fails(run("sql", "SELEKT 1", db=warehouse), "error: ")
    fails(run("sql", "BEGIN", db=warehouse), "no transactions")
    fails(run("status", db=f"spark:///{tmp_path / 'none'}"), "does not exist")
    fails(run("status", db=f"spark:///{warehouse}/gods"), "is a Delta table", f"hint: give {warehouse!r}")
    (tmp_path / "empty").mkdir()
    fails(run("status", db=f"spark:///{tmp_path / 'empty'}"), "no Delta tables")
    fails(run("status", db=str(tmp_path / "empty")), "is a folder")
    assert list((tmp_path / "empty").iterdir()) == []


def test_what_is_in_the_logs_needs_no_spark(warehouse: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("viewkeep.engine.spark.local_session", refuse)
    for command in ("status", "refresh", "explain income", "history income", "compile income"):
        result = run(*command.split(), db=warehouse)
        assert result.exit_code == 0, (command, result.exception)


def test_compile_prints_what_runs(warehouse: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewkeep.runtime.lake.rewriting.IN_DRIVER", -1)  # where the merge is DuckDB's instead
    printed = {_shape(s) for s in run_json("compile", "income", db=warehouse) if "refresh" in s.split("\n")[0]}
    with viewkeep.connect(f"spark:///{warehouse}") as keeper:
        keeper.sql("INSERT INTO gods VALUES (3, 'Ares'); INSERT INTO payments VALUES (3, 5)")
        ran, sql = [], keeper.engine.sql
        monkeypatch.setattr(keeper.engine, "sql", lambda text, *values: (ran.append(text), sql(text, *values))[1])
        assert keeper.refresh("income").strategy == "classical"
        found = {_shape(text.replace(keeper.engine.prefix, "_vk_")) for text in ran}
    assert len(printed) == 2
    assert printed <= found


def _shape(text: str) -> str:
    """A query without comments, and with generated numbers that do not depend on what was compiled before."""
    tree = sqlglot.parse_one(text, dialect="spark")
    numbers: dict[str, str] = {}
    for node in tree.find_all(sqlglot.exp.Identifier):
        word, _, number = node.name.rpartition("_")
        if number.isdigit() and int(number) > 1000:
            node.set("this", f"{word}_{numbers.setdefault(number, str(len(numbers)))}")
    return tree.sql(dialect="spark", comments=False)


def test_demo_on_spark() -> None:
    result = run("demo", "--rows", "300")
    assert result.exit_code == 0, result.output
    parts = result.stdout.split("\nbatch ")[1:]
    assert [part.count(" equal\n") + part.count("nothing to do") for part in parts] == [len(VIEWS)] * 4
    assert "rows read" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines()) <= 100
