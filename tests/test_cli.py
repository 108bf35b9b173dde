"""The shell: what it prints, its JSON, its exit status, and that no error shows a traceback."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import viewkeep
from viewkeep.cli import demo as demo_module
from viewkeep.cli.main import app
from viewkeep.cli.shop import DUCKDB_VIEWS as VIEWS

SHOP = """
CREATE TABLE gods (uid INT PRIMARY KEY, user_name TEXT);
CREATE TABLE payments (to_uid INT, amount DECIMAL(10, 2), day DATE);
INSERT INTO gods VALUES (1, 'Zeus'), (2, 'Hera'), (3, 'Ares');
INSERT INTO payments SELECT i % 3 + 1, i + 0.25, DATE '2025-01-01' + i::INT FROM range(100) r(i);
CREATE MATERIALIZED VIEW income AS
  SELECT g.user_name, COUNT(*) AS n, SUM(p.amount) AS total, MAX(p.day) AS last
  FROM gods g JOIN payments p ON p.to_uid = g.uid GROUP BY g.user_name;
CREATE MATERIALIZED VIEW rich AS SELECT user_name, total FROM income WHERE total > 10;
"""
ONE_MORE = "INSERT INTO payments VALUES (2, 1000.50, '2026-02-03')"


@pytest.fixture(autouse=True)
def _nothing_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VIEWKEEP_DB", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def db(tmp_path: Path) -> str:
    path = tmp_path / "shop.duckdb"
    done = run("sql", SHOP, db=str(path))
    assert done.exit_code == 0, done.output
    return str(path)


def run(*arguments: str, db: str | None = None, stdin: str | None = None) -> Result:
    extra = ["--db", db] if db else []
    return CliRunner().invoke(app, [*arguments, *extra], input=stdin)


def run_json(*arguments: str, db: str) -> Any:
    result = run(*arguments, "--json", db=db)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def shell(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """As a user's shell does it: another process, output into a pipe."""
    command = [sys.executable, "-m", "viewkeep.cli", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, encoding="utf-8", timeout=120, check=False)


def fails(result: Result, *expected: str, code: int = 1) -> None:
    """A message on stderr with all of `expected`, nothing on stdout, and no traceback."""
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    shown = without_colour(result.stderr)
    for text in expected:
        assert text in shown


def without_colour(text: str) -> str:
    """typer colours its own messages where it believes to be on a build server."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


# ------------------------------------------------------------------ the command itself
def test_version_and_help_name_every_command() -> None:
    assert run("--version").stdout.strip() == f"viewkeep {viewkeep.__version__}"
    shown = without_colour(run("--help").stdout)
    for command in ("demo", "sql", "refresh", "status", "explain", "compile", "verify", "history", "changes"):
        assert f" {command} " in shown
        own = run(command, "--help")
        assert own.exit_code == 0
        _, examples = without_colour(own.stdout).split("Examples:")
        assert f"viewkeep {command}" in examples


def test_usage_errors_are_2() -> None:
    fails(run("nope"), "nope", code=2)
    fails(run("status"), "--db", "VIEWKEEP_DB", code=2)
    fails(run("compile"), "--schema", code=2)
    fails(run("compile", "income"), "income", "VIEWKEEP_DB", code=2)


def test_database_from_the_environment_and_from_urls(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWKEEP_DB", db)
    assert "income" in run("status").stdout
    monkeypatch.delenv("VIEWKEEP_DB")
    assert "income" in run("status", db=f"duckdb:///{db}").stdout
    monkeypatch.chdir(Path(db).parent)
    assert "income" in run("status", db="shop.duckdb").stdout


# ------------------------------------------------------------------ sql
def test_sql_prints_every_result(db: str) -> None:
    result = run("sql", "SELECT 41 + 1 AS answer; SELECT user_name FROM gods ORDER BY 1; SELECT NULL AS nothing", db=db)
    assert result.exit_code == 0
    for text in ("answer", "42", "Ares", "3 rows", "NULL", "1 row\n"):
        assert text in result.stdout


def test_sql_from_a_file_and_from_stdin(db: str, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text(f"{ONE_MORE};\nREFRESH MATERIALIZED VIEW income;\n", encoding="utf-8")
    refreshed = run("sql", "--file", str(script), db=db)
    assert "classical" in refreshed.stdout
    assert "+1" in refreshed.stdout
    assert "−1" in refreshed.stdout
    assert "1000.50" in run("sql", db=db, stdin="SELECT MAX(amount) AS m FROM payments").stdout
    fails(run("sql", "SELECT 1", "--file", str(script), db=db), "not both", code=2)
    fails(run("sql", "--file", "none.sql", db=db), "none.sql", code=2)


def test_sql_says_ok_where_there_is_nothing_to_print(db: str) -> None:
    assert run("sql", f"{ONE_MORE}; {ONE_MORE}", db=db).stdout == "ok, 2 statements\n"


def test_sql_json_is_the_last_result(db: str) -> None:
    rows = run_json("sql", "SELECT 1; SELECT user_name, n, total, last FROM income ORDER BY user_name", db=db)
    assert [r["user_name"] for r in rows] == ["Ares", "Hera", "Zeus"]
    assert rows[2]["n"] == 34
    assert Decimal(rows[2]["total"]) == sum((Decimal(i) + Decimal("0.25") for i in range(0, 100, 3)), Decimal(0))
    assert rows[2]["last"] == "2025-04-10"
    assert run_json("sql", f"{ONE_MORE}; REFRESH MATERIALIZED VIEW income", db=db)["strategy"] == "classical"
    assert run_json("sql", ONE_MORE, db=db) is None


def test_sql_json_of_unusual_values(db: str) -> None:
    [row] = run_json(
        "sql",
        "SELECT 1 AS a, 2 AS a, 'nan'::DOUBLE AS f, encode('é') AS b, 'é' AS t, "
        "[1.5, NULL] AS l, {'x': DATE '2025-01-02'} AS s, "
        "TIMESTAMP_NS '2025-01-01 00:00:00.123456789' AS ns, 170141183460469231731687303715884105727::HUGEINT AS h",
        db=db,
    )
    assert (row["a"], row["a_2"], row["f"], row["b"], row["t"]) == (1, 2, "nan", "c3a9", "é")
    assert row["l"] == ["1.5", None]
    assert row["s"] == {"x": "2025-01-02"}
    assert row["ns"].endswith("00.123456789")
    assert row["h"] == 2**127 - 1


def test_sql_shows_data_that_looks_like_markup(db: str) -> None:
    assert "[red]x[/red]" in run("sql", "SELECT '[red]x[/red]' AS \"[bold]\"", db=db).stdout


def test_sql_makes_the_database(tmp_path: Path) -> None:
    path = tmp_path / "new.duckdb"
    assert run("sql", "CREATE TABLE t (a INT)", db=str(path)).exit_code == 0
    assert path.is_file()


def test_sql_explains(db: str) -> None:
    assert "reads" in run("sql", "EXPLAIN MATERIALIZED VIEW income", db=db).stdout


# ------------------------------------------------------------------ errors
def test_an_unknown_view_is_named_with_a_suggestion(db: str) -> None:
    for command in (("explain", "incom"), ("history", "incom"), ("changes", "incom"), ("compile", "incom")):
        fails(run(*command, db=db), "error: ", "'incom'", "hint: did you mean 'income'?")
    fails(run("refresh", "rich", "incom", db=db), "'incom'")
    fails(run("verify", "rich", "incom", db=db), "'incom'")


def test_an_unknown_name_is_found_before_any_work(db: str) -> None:
    run("sql", ONE_MORE, db=db)
    run("refresh", "income", "incom", db=db)
    assert {s["view"]: s["pending"] for s in run_json("status", db=db)}["income"] == 1


def test_a_missing_file_is_an_error_and_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "none.duckdb"
    for command in ("refresh", "status", "explain v", "compile v", "verify", "history v", "changes v"):
        fails(run(*command.split(), db=str(path)), "none.duckdb", "does not exist")
        fails(run(*command.split(), db=f"duckdb://{path}"), "none.duckdb", "does not exist")
        assert not path.exists()
    (tmp_path / "nine.duckdb").touch()
    fails(run("status", db=str(path)), "did you mean 'nine.duckdb'?")
    fails(run("status", db=str(tmp_path)), "is a folder")
    fails(run("status", db="oracle://x"), "'oracle'", "hint: ")


def test_an_unknown_table_has_position_and_suggestion(db: str) -> None:
    result = run("sql", "CREATE MATERIALIZED VIEW v AS SELECT * FROM paymnts", db=db)
    fails(result, "error: table 'paymnts' does not exist", "at: line 1, column ", "hint: did you mean 'payments'?")


def test_the_failing_statement_of_a_script_is_named(db: str) -> None:
    result = run("sql", "SELECT 'before' AS x;\nSELEKT 1;\nSELECT 'after' AS x", db=db)
    assert result.exit_code == 1
    assert "before" in result.stdout
    assert "after" not in result.stdout
    assert "statement 2 of 3 failed" in result.stderr


def test_a_position_is_that_of_the_script(db: str) -> None:
    result = run("sql", "SELECT 1 AS x;\n\n  REFRESH MATERIALIZED VIEW income income", db=db)
    assert result.exit_code == 1
    assert "line 3, column " in result.stderr


def test_syntax_errors_in_another_process(tmp_path: Path) -> None:
    for text in ("SELECT FROM WHERE", "CREATE MATERIALIZED VIEW v AS SELECT 1 +", "SELECT 'open"):
        result = shell("sql", "--db", "new.duckdb", text, cwd=tmp_path)
        assert result.returncode == 1
        assert result.stderr.startswith("error: ")
        assert "Traceback" not in result.stderr
        assert result.stdout == ""


def test_a_pipe_gets_whole_lines(tmp_path: Path) -> None:
    long = "x" * 5000
    result = shell("sql", "--db", "new.duckdb", f"SELECT '{long}' AS a, '{long}' AS b FROM range(300)", cwd=tmp_path)
    assert result.returncode == 0
    assert sum(line.count(long) == 2 for line in result.stdout.splitlines()) == 300
    assert "\x1b" not in result.stdout


# ------------------------------------------------------------------ refresh, status, history, changes
def test_refresh_tells_strategy_rows_and_reason(db: str) -> None:
    run("sql", ONE_MORE, db=db)
    result = run("refresh", db=db)
    assert result.exit_code == 0
    income = next(line for line in result.stdout.splitlines() if line.split()[:1] == ["income"])
    assert income.split()[1:4] == ["classical", "+1", "−1"]
    assert "1 of 104 source rows changed" in income
    assert "rich" in result.stdout
    assert [r["strategy"] for r in run_json("refresh", db=db)] == ["unchanged", "unchanged"]


def test_refresh_of_named_views(db: str) -> None:
    run("sql", ONE_MORE, db=db)
    [report] = run_json("refresh", "income", "income", db=db)
    assert (report["view"], report["rows_inserted"], report["rows_deleted"]) == ("income", 1, 1)
    assert set(report["versions"]) == {"gods", "payments"}
    [full] = run_json("refresh", "income", "--full", db=db)
    assert full["strategy"] == "recompute"


def test_refresh_is_1_if_a_view_is_invalid(db: str) -> None:
    run("sql", "CREATE TABLE other (a INT); CREATE MATERIALIZED VIEW sums AS SELECT SUM(a) AS s FROM other", db=db)
    with viewkeep.connect(f"duckdb:///{db}") as keeper:
        # Behind viewkeep's back: its own DROP TABLE would be refused.
        keeper.engine.execute("DROP TABLE other")
    result = run("refresh", db=db)
    assert result.exit_code == 1
    assert {line.split()[0]: line.split()[1] for line in result.stdout.splitlines() if len(line.split()) > 3}[
        "sums"
    ] == "invalid"
    assert "income" in result.stdout
    assert "invalid" in run("status", db=db).stdout
    fails(run("refresh", "sums", db=db), "'sums' is invalid")


def test_no_views_yet(tmp_path: Path) -> None:
    path = str(tmp_path / "empty.duckdb")
    run("sql", "CREATE TABLE t (a INT)", db=path)
    for command in ("status", "refresh", "verify"):
        assert "no materialized views" in run(command, db=path).stdout
        assert run_json(command, db=path) == []


def test_status_counts_what_waits(db: str) -> None:
    assert {s["view"]: s["pending"] for s in run_json("status", db=db)} == {"income": 0, "rich": 0}
    run("sql", ONE_MORE, db=db)
    statuses = {s["view"]: s for s in run_json("status", db=db)}
    assert statuses["income"]["pending"] == 1
    assert statuses["rich"]["sources"] == ["income"]
    line = next(line for line in run("status", db=db).stdout.splitlines() if line.split()[:1] == ["income"])
    assert line.split()[1] == "1"
    assert "gods, payments" in line


def test_history_and_changes(db: str) -> None:
    run("sql", ONE_MORE, db=db)
    run("refresh", db=db)
    first, last = run_json("history", "income", db=db)
    assert (first["reason"], last["strategy"], last["changed_rows"]) == ("created", "classical", 1)
    shown = run("history", "income", db=db).stdout
    assert "created" in shown
    assert "classical" in shown
    rows = run_json("changes", "income", "--since", str(first["version"]), db=db)
    assert sorted((r["_w"], r["user_name"], r["last"]) for r in rows) == [
        (-1, "Hera", "2025-04-08"),
        (1, "Hera", "2026-02-03"),
    ]
    assert run_json("changes", "income", "--since", str(last["version"]), db=db) == []
    assert "2026-02-03" in run("changes", "income", db=db).stdout
    assert "first 1 shown" in run("changes", "income", "--limit", "1", db=db).stdout
    fails(run("changes", "income", "--since", "999", db=db), "999")


# ------------------------------------------------------------------ explain, compile, verify
def test_explain(db: str) -> None:
    shown = run("explain", "income", db=db)
    assert shown.exit_code == 0
    assert "Aggregate" in shown.stdout
    assert "Scan payments" in shown.stdout
    fails(run("explain", "income", "--graph", "svg", db=db), "svg", "mermaid")
    run("sql", "ALTER TABLE payments ADD FOREIGN KEY (to_uid) REFERENCES gods (uid)", db=db)
    assert "payments(to_uid) → gods(uid)" in run("explain", "income", "--graph", "text", db=db).stdout
    assert run("explain", "income", "--graph", "mermaid", db=db).stdout.startswith("flowchart")


def test_compile_of_a_view_in_a_database(db: str) -> None:
    spark, duck = (run("compile", "income", "--dialect", d, db=db).stdout for d in ("spark", "duckdb"))
    assert "`_vk_income_delta_payments`" in spark
    assert '"payments"' in duck
    assert spark.rstrip().endswith(";")
    statements = run_json("compile", "income", "--dialect", "spark", db=db)
    assert spark == "\n\n".join(f"{s};" for s in statements) + "\n"
    fails(run("compile", "income", "--dialect", "oracle", db=db), "'oracle'", "hint: known dialects")


def test_compile_without_an_engine(tmp_path: Path) -> None:
    (tmp_path / "schema.sql").write_text("CREATE TABLE t (a INT, b INT)")
    (tmp_path / "view.sql").write_text("CREATE MATERIALIZED VIEW v AS SELECT a, SUM(b) AS s FROM t GROUP BY a")
    arguments = ("compile", "--schema", "schema.sql", "--view", "view.sql", "--dialect", "spark")
    result = shell(*arguments, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "SUM(" in result.stdout
    assert "`_vk_v_delta_t`" in result.stdout
    assert result.stdout.rstrip().endswith(";")
    assert {p.name for p in tmp_path.iterdir()} == {"schema.sql", "view.sql"}
    (tmp_path / "view.sql").write_text("SELECT a FROM tt")
    wrong = shell(*arguments, cwd=tmp_path)
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("error: table 'tt' does not exist")


def test_verify_of_views_that_are_right(db: str) -> None:
    result = run("verify", db=db)
    assert result.exit_code == 0
    assert "income: equal to its query" in result.stdout
    assert "rich: equal to its query" in result.stdout
    assert [(r["view"], r["equal"]) for r in run_json("verify", "rich", db=db)] == [("rich", True)]


def test_verify_shows_the_rows_that_differ(db: str) -> None:
    with viewkeep.connect(f"duckdb:///{db}") as keeper:
        # A damaged view: nothing but verify can notice.
        keeper.engine.execute(
            "DELETE FROM _viewkeep.data_income WHERE rowid = (SELECT MIN(rowid) FROM _viewkeep.data_income)"
        )
    result = run("verify", "income", db=db)
    assert result.exit_code == 1
    assert "1 rows missing, 0 rows too many" in result.stdout
    assert "first 1 of 1 rows" in result.stdout
    assert "user_name" in result.stdout
    damaged = run("verify", "--json", db=db)
    assert damaged.exit_code == 1
    income = next(r for r in json.loads(damaged.stdout) if r["view"] == "income")
    assert (income["equal"], income["missing_count"], income["extra_count"]) == (False, 1, 0)
    assert income["missing"][0]["user_name"] in ("Zeus", "Hera", "Ares")
    assert shell("verify", "--db", db, cwd=Path(db).parent).returncode == 1


# ------------------------------------------------------------------ demo
def test_demo_refreshes_and_proves_every_view() -> None:
    result = run("demo", "--engine", "duckdb", "--rows", "4000")
    assert result.exit_code == 0, result.output
    parts = result.stdout.split("\nbatch ")[1:]
    assert [part.count(" equal\n") + part.count("nothing to do") for part in parts] == [len(VIEWS)] * 4
    for part in parts[:3]:
        assert part.count(" equal\n") >= 3, part
    assert parts[3].count("nothing to do") == len(VIEWS)
    proofs = result.stdout.count(" equal\n")
    assert f"{proofs} of {proofs} times" in result.stdout
    assert "classical" in result.stdout
    assert "source rows changed" in result.stdout
    assert "Try next" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines()) <= 100


def test_demo_is_1_if_a_view_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    refresh = viewkeep.Keeper.refresh

    def damage(keeper: viewkeep.Keeper, *arguments: Any, **named: Any) -> Any:
        reports = refresh(keeper, *arguments, **named)
        keeper.engine.execute("DELETE FROM _viewkeep.data_price_range")
        return reports

    monkeypatch.setattr(demo_module.viewkeep.Keeper, "refresh", damage)
    result = run("demo", "--engine", "duckdb", "--rows", "200")
    assert result.exit_code == 1
    assert "NOT EQUAL" in result.stdout
