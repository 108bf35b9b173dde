"""Small changes on a lake are merged by the driver, with the same outcome as by Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewkeep
from viewkeep.engine.local import Local, is_simple
from viewkeep.errors import ConnectError, EngineError

pytest.importorskip("pyspark", reason="Spark is not installed")

from viewkeep.engine.java import find_java
from viewkeep.runtime.lake import maintenance, rewriting

VIEWS = {
    "sums": "SELECT k, SUM(amount) AS total, COUNT(*) AS n FROM t GROUP BY k",
    "whole": "SELECT SUM(amount) AS total FROM t",
    "kinds": "SELECT DISTINCT k, day FROM t",
    "items": "SELECT id, k, amount FROM t WHERE amount > 1",
    "extremes": "SELECT k, MIN(amount) AS low, MAX(day) AS last FROM t GROUP BY k",
}
CHANGES = (
    "INSERT INTO t VALUES (5, NULL, 7.25, DATE '2024-05-01'), (6, 'c', 1.50, DATE '2024-06-01')",
    "DELETE FROM t WHERE k = 'a'",
    "UPDATE t SET amount = amount + 1 WHERE k IS NULL",
    "DELETE FROM t",
)


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[viewkeep.Keeper]:
    try:
        find_java()
    except ConnectError as error:
        pytest.skip(str(error))
    found = viewkeep.connect(f"spark:///{tmp_path / 'lake'}")
    yield found
    found.close()


def test_the_driver_merges_what_is_small(keeper: viewkeep.Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper.sql("CREATE TABLE t (id INT, k STRING, amount DECIMAL(10, 2), day DATE)")
    keeper.sql("INSERT INTO t VALUES (1, 'a', 1.00, DATE '2024-01-01'), (2, 'a', 2.00, NULL), (3, 'b', 3.00, NULL)")
    keeper.sql("INSERT INTO t VALUES (4, NULL, NULL, DATE '2024-04-01')")
    for name, query in VIEWS.items():
        keeper.sql(f"CREATE MATERIALIZED VIEW {name} WITH (policy = 'incremental') AS {query}")
    monkeypatch.setattr(rewriting, "LARGE", 2)  # some files are written apart, some together
    ways: list[str] = []
    for way in ("_in_driver", "_in_spark"):
        monkeypatch.setattr(maintenance.Maintenance, way, _noted(getattr(maintenance.Maintenance, way), way, ways))
    for change in CHANGES:
        keeper.sql(change)
        for name in VIEWS:
            ways.clear()
            keeper.refresh(name)
            assert keeper.verify(name).equal, f"{name} after {change}"
            # Only groups that lost their extreme have to be looked up in the tables.
            assert "_in_spark" not in ways or name == "extremes"


def test_an_update_of_columns_that_a_view_does_not_read_starts_no_job(keeper: viewkeep.Keeper) -> None:
    keeper.sql("CREATE TABLE t (id INT, k STRING, amount DECIMAL(10, 2), day DATE)")
    keeper.sql("INSERT INTO t VALUES (1, 'a', 1.00, NULL), (2, NULL, NULL, NULL)")
    keeper.sql(f"CREATE MATERIALIZED VIEW sums WITH (policy = 'incremental') AS {VIEWS['sums']}")
    keeper.sql("CREATE MATERIALIZED VIEW counted WITH (policy = 'incremental') AS SELECT COUNT(*) AS n FROM t")
    keeper.sql("UPDATE t SET day = DATE '2024-01-01'")
    for view in ("sums", "counted"):
        report = keeper.refresh(view)
        assert (report.jobs, report.rows_inserted, report.rows_deleted) == (0, 0, 0)
        assert keeper.refresh(view).strategy == "unchanged"
        assert keeper.verify(view).equal


def _noted(run: Any, way: str, ways: list[str]) -> Any:
    def noted(*given: Any) -> Any:
        ways.append(way)
        return run(*given)

    return noted


def test_types_on_which_engines_differ_are_left_to_spark() -> None:
    assert all(map(is_simple, (pa.int32(), pa.string(), pa.date32(), pa.decimal128(38, 4), pa.timestamp("us", "UTC"))))
    assert not any(map(is_simple, (pa.float64(), pa.list_(pa.int32()), pa.struct([("a", pa.int32())]), pa.binary())))


def test_a_sum_that_does_not_fit_is_an_error_and_nothing_stays_behind() -> None:
    local, rows = Local(), pa.table({"a": pa.array([2**62, 2**62])})
    assert local.query("SELECT SUM(a) AS s FROM r", {"r": rows}).schema.field("s").type == pa.decimal128(38, 0)
    with pytest.raises(EngineError):
        local.query("SELECT CAST(SUM(a) AS BIGINT) FROM r", {"r": rows})
    with pytest.raises(EngineError, match="r does not exist"):
        local.query("SELECT * FROM r", {})


def test_of_an_answer_that_is_too_large_some_rows_are_enough_to_know() -> None:
    rows = {"t": pa.table({"x": [1, 2, 3]})}
    assert Local().query("SELECT x FROM t", rows, 1).num_rows == 2
    assert Local().query("SELECT x FROM t", rows, 3).num_rows == 3
