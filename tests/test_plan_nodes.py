"""Plans share nodes: in a delta there are many ways to each."""

from __future__ import annotations

from sqlglot import exp

from viewkeep.catalog import TableName
from viewkeep.plan.keys import has_one_row
from viewkeep.plan.nodes import Aggregate, Field, Filter, Join, Named, Node, Scan, Union, count_uses, scans, walk


def doubled(times: int) -> Node:
    """A scan, and `times` unions of the one before with itself."""
    node: Node = Scan(TableName("t"), ((Field("a_1", "INTEGER"), "a"),))
    for i in range(times):
        node = Union((node, node), (Field(f"a_{i + 2}", "INTEGER"),))
    return node


def test_a_shared_node_is_walked_once() -> None:
    assert sum(1 for _ in walk(doubled(200))) == 201
    assert [str(s.table) for s in scans(doubled(200))] == ["t"]


def test_parents_come_first() -> None:
    assert [type(n).__name__ for n in walk(Filter(doubled(1), exp.true()))] == ["Filter", "Union", "Scan"]


def test_every_use_counts() -> None:
    assert count_uses(doubled(10), lambda n: isinstance(n, Scan)) == 1024


def test_what_has_but_one_row() -> None:
    total = Aggregate(doubled(0), (), (Named(Field("n_9", "BIGINT"), exp.Count(this=exp.Star())),))
    other = Aggregate(doubled(0), (), (Named(Field("n_10", "BIGINT"), exp.Count(this=exp.Star())),))
    grouped = Aggregate(doubled(0), (Named(Field("k_3", "INTEGER"), exp.column("a_1")),), ())
    assert has_one_row(total)
    assert has_one_row(Filter(Join(total, other), exp.true()))
    assert not has_one_row(grouped)
    assert not has_one_row(Join(total, grouped))
    assert not has_one_row(doubled(0))
