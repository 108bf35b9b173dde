"""Joins with a small delta: the delta goes to the large table, and small tables are left to the engine."""

from __future__ import annotations

import pytest
from sqlglot import exp

from viewkeep.catalog import TableName
from viewkeep.emit.select import Sizes
from viewkeep.emit.statements import query_sql
from viewkeep.plan.nodes import Field, Join, JoinKind, Node, Scan, Union
from viewkeep.plan.scalars import column

CHANGED, LARGE, OTHER = TableName("changed"), TableName("large"), TableName("other")


def scan(table: TableName, id_: str) -> Scan:
    return Scan(table, ((Field(id_, "INTEGER"), "k"),))


def joined(left: Node, right: Node, kind: JoinKind = JoinKind.INNER) -> Join:
    return Join(left, right, exp.EQ(this=column(left.fields[0].id), expression=column(right.fields[0].id)), kind)


DELTA, BIG, SMALL = scan(CHANGED, "a"), scan(LARGE, "b"), scan(OTHER, "c")


@pytest.mark.parametrize(
    ("plan", "hints"),
    [
        (joined(DELTA, BIG), ["scan_1"]),
        (joined(BIG, DELTA), ["scan_2"]),
        (joined(DELTA, SMALL), []),
        (joined(joined(DELTA, SMALL), BIG), ["join_3"]),
        (joined(joined(DELTA, BIG), scan(LARGE, "d")), ["scan_1", "join_3"]),
        (joined(SMALL, BIG), []),
        (joined(BIG, DELTA, JoinKind.LEFT), []),
        (joined(Union((DELTA, SMALL), (Field("u", "INTEGER"),)), BIG), []),
    ],
)
def test_what_a_delta_found_is_sent(plan: Node, hints: list[str]) -> None:
    sizes = Sizes(few=frozenset({CHANGED}), many=frozenset({LARGE}))
    query = query_sql(plan, tuple(f.id for f in plan.fields), "spark", sizes)
    assert [h.find(exp.Identifier).name for h in query.find_all(exp.Hint)] == hints
    assert query_sql(plan, tuple(f.id for f in plan.fields), "spark").find(exp.Hint) is None
