"""The first few values of a group: they stay a beginning of its values in order, and spare reading the table."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

import viewkeep
from conftest import make_engine
from support import Engine, assert_view_equals_query
from viewkeep.emit.lists import spell_lists
from viewkeep.plan.nodes import Field
from viewkeep.plan.scalars import column
from viewkeep.strategy.runners_up import GATHERED, Ranked, without

pytestmark = pytest.mark.timeout(900)

EXTREMES = "SELECT g, MIN(x) AS lo, MAX(x) AS hi, MIN(d) AS first, MAX(s) AS last, MAX(m) AS latest FROM t GROUP BY g"
ONE_GROUP = "SELECT MIN(x) AS lo, MAX(d) AS hi FROM t"


class Group:
    """The values of a group before and after a change, and how many of them were known."""

    def __init__(self, chance: random.Random, largest: bool) -> None:
        self.largest = largest
        # Few different values, so that there are copies; sometimes one change is large.
        self.values = [chance.randrange(9) for _ in range(chance.randrange(12))]
        self.came = [chance.randrange(-2, 11) for _ in range(chance.choice((0, 1, 2, 5, 14)))]
        candidates = self.values + self.came  # what came may go in the same change
        self.went = chance.sample(candidates, min(len(candidates), chance.choice((0, 1, 2, 4, 12))))
        self.known = self.in_order(self.values)[: chance.randrange(1, 5)]

    def in_order(self, values: list[int]) -> list[int]:
        return sorted(values, reverse=self.largest)

    @property
    def after(self) -> list[int]:
        return self.in_order(list((Counter(self.values + self.came) - Counter(self.went)).elements()))

    def row(self) -> dict[str, Any]:
        came, went = (self.in_order(v)[:GATHERED] for v in (self.came, self.went))
        whole = len(self.known) == len(self.values)
        return {"known": self.known, "whole": whole, "came": came, "went": went}


NAMES = ("known", "whole", "came", "went")


def merged_by(dialect: str, largest: bool) -> str:
    """Two queries over the columns of a row, as the merge is written."""
    ranked = Ranked((), column("x"), largest, Field("n", "BIGINT"))
    inner = exp.select("id", "went", exp.alias_(ranked.candidates(*map(column, NAMES)), "candidates")).from_("t")
    query = exp.select("id", exp.alias_(without(column("candidates"), column("went")), "merged")).from_(
        inner.subquery("found")
    )
    spell_lists(query, dialect)
    return query.sql(dialect=dialect)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("engine_name", ["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def test_what_is_known_is_a_beginning(tmp_path: Path, engine_name: str, largest: bool) -> None:
    chance = random.Random(5)
    groups = [Group(chance, largest) for _ in range(4_000)]
    kinds = [pa.list_(pa.int32()), pa.bool_(), pa.list_(pa.int32()), pa.list_(pa.int32())]
    schema = pa.schema([("id", pa.int32()), *zip(NAMES, kinds, strict=True)])
    rows = pa.Table.from_pylist([{"id": i, **g.row()} for i, g in enumerate(groups)], schema)
    ints = "ARRAY<INT>" if engine_name == "spark" else "INT[]"
    with viewkeep.connect(make_engine(engine_name, tmp_path).url()) as keeper:
        keeper.sql(f"CREATE TABLE t (id INT, known {ints}, whole BOOLEAN, came {ints}, went {ints})")
        keeper.load("t", rows)
        found = keeper.sql(merged_by(engine_name, largest)).to_pylist()
    assert len(found) == len(groups)
    useful = 0
    for row in found:
        group = groups[row["id"]]
        assert row["merged"] == group.after[: len(row["merged"])], vars(group)
        useful += bool(row["merged"]) or not group.after
    assert useful > 0.7 * len(groups), "mostly the table need not be read"


@pytest.fixture
def keeper(spark: Engine) -> Any:
    with viewkeep.connect(spark.url()) as keeper:
        keeper.sql("CREATE TABLE t (g INT, x INT, d DATE, s STRING, m TIMESTAMP)")
        keeper.sql(
            "INSERT INTO t SELECT CAST(id % 5 AS INT), CAST(id AS INT), DATE_ADD(DATE'2024-01-01', CAST(id AS INT)), "
            "CAST(1000 + id AS STRING), TIMESTAMP_SECONDS(id) FROM range(200)"
        )
        keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'incremental') AS {EXTREMES}")
        keeper.sql(f"CREATE MATERIALIZED VIEW w WITH (policy = 'incremental') AS {ONE_GROUP}")
        yield keeper


def check(keeper: viewkeep.Keeper) -> int:
    """Both views are right; how many rows their refreshes read."""
    reports = keeper.refresh()
    assert {r.strategy for r in reports} == {"classical"}
    assert_view_equals_query(keeper, "v", EXTREMES)
    assert_view_equals_query(keeper, "w", ONE_GROUP)
    return sum(r.rows_read for r in reports)


@pytest.mark.spark
def test_a_deleted_extreme_has_a_successor(keeper: viewkeep.Keeper) -> None:
    keeper.sql("DELETE FROM t WHERE x IN (0, 1, 198, 199)")
    assert check(keeper) < 100, "the change and the stored groups, not the table"
    keeper.sql("DELETE FROM t WHERE x IN (5, 10, 2)")
    keeper.sql(
        "INSERT INTO t VALUES (0, 3, DATE'2023-12-31', 'z', NULL), (9, 1, NULL, NULL, NULL), "
        "(NULL, -4, NULL, 'a', TIMESTAMP'2024-01-01 00:00:00')"
    )
    assert check(keeper) < 100
    keeper.sql("DELETE FROM t WHERE x = 1 OR x = -4")
    assert check(keeper) < 100


@pytest.mark.spark
def test_a_group_that_runs_out_is_computed_anew(keeper: viewkeep.Keeper) -> None:
    keeper.sql("DELETE FROM t WHERE x < 60")
    assert check(keeper) > 140, "all that is left of the table"
    keeper.sql("UPDATE t SET x = x + 1000, d = NULL WHERE g = 2")
    check(keeper)
    keeper.sql("DELETE FROM t WHERE g = 2 OR g = 3")
    check(keeper)
    keeper.sql("DELETE FROM t")
    check(keeper)
    keeper.sql("INSERT INTO t VALUES (1, NULL, NULL, NULL, NULL), (1, 5, NULL, 'x', NULL)")
    check(keeper)
