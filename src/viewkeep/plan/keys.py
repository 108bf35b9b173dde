"""Which columns of a result no two rows share.

    Scan        the table's keys whose columns are all there and not nullable
    Filter      keys survive
    Project     keys survive whose columns are passed through
    Join        a key of each side together; one side's alone where the other is met by its whole key,
                unless that side is filled up with NULLs; none of a full join
    Semi, anti  keys of the left side
    Aggregate   the group's keys
    Window      keys survive: every row stays one row

Only keys the engine enforces, or that grouping makes, or that were declared and are checked when
they are used: a delete by key counts what it removed.
"""

from __future__ import annotations

from typing import assert_never

from sqlglot import exp

from viewkeep.catalog import Catalog
from viewkeep.plan.nodes import (
    Aggregate,
    Filter,
    Join,
    JoinKind,
    Node,
    Project,
    Repeat,
    Scan,
    State,
    TimeFilter,
    TopK,
    Union,
    Unnest,
    Values,
    Window,
)
from viewkeep.plan.scalars import conjuncts

Keys = frozenset[frozenset[str]]


def keys_of(node: Node, catalog: Catalog) -> Keys:
    match node:
        case Scan():
            return _scan_keys(node, catalog)
        case Filter() | TimeFilter() | TopK() | Window():
            return keys_of(node.input, catalog)
        case Project():
            passed: dict[str, str] = {}
            for output in node.outputs:
                if isinstance(output.scalar, exp.Column):
                    passed.setdefault(output.scalar.name, output.field.id)
            below = keys_of(node.input, catalog)
            return frozenset(frozenset(passed[i] for i in key) for key in below if key <= passed.keys())
        case Join(kind=JoinKind.SEMI | JoinKind.ANTI):
            return keys_of(node.left, catalog)
        case Join(kind=JoinKind.FULL):
            return frozenset()  # a NULL key on either side looks like the NULLs beside the other
        case Join():
            return _join_keys(node, catalog)
        case Aggregate():
            return frozenset({frozenset(k.field.id for k in node.keys)}) if node.keys else frozenset()
        case Union() | Values() | Repeat() | Unnest():
            return frozenset()
        case _:
            assert_never(node)


def has_one_row(node: Node) -> bool:
    """Whether a result can never have a second row: an aggregate without keys, or several of them side by side."""
    match node:
        case Aggregate():
            return not node.keys
        case Filter() | TimeFilter() | Project() | TopK() | Window():
            return has_one_row(node.input)
        case Join(kind=JoinKind.SEMI | JoinKind.ANTI):
            return has_one_row(node.left)
        case Join(kind=JoinKind.INNER | JoinKind.LEFT):
            return has_one_row(node.left) and has_one_row(node.right)
        case _:
            return False


def _scan_keys(scan: Scan, catalog: Catalog) -> Keys:
    table = catalog.find(scan.table)
    if table is None or scan.state is State.DELTA:
        return frozenset()
    ids = {name.lower(): field.id for field, name in scan.columns}
    required = {c.name.lower() for c in table.columns if not c.nullable}
    found = set()
    for key in table.keys:
        lowered = [c.lower() for c in key.columns]
        # NULLs are distinct to UNIQUE, so a nullable key addresses no row. A declared key is taken
        # at its word: NULL or not, it was said to be unique.
        if all(c in ids for c in lowered) and (not key.enforced or required.issuperset(lowered)):
            found.add(frozenset(ids[c] for c in lowered))
    return frozenset(found)


def _join_keys(join: Join, catalog: Catalog) -> Keys:
    left, right = keys_of(join.left, catalog), keys_of(join.right, catalog)
    found = {a | b for a in left for b in right}
    equal = _equalities(join)
    left_ids, right_ids = {f.id for f in join.left.fields}, {f.id for f in join.right.fields}
    met_right = {b if a in left_ids else a for a, b in equal if {a, b} & left_ids and {a, b} & right_ids}
    met_left = {a if a in left_ids else b for a, b in equal if {a, b} & left_ids and {a, b} & right_ids}
    if any(key <= met_right for key in right):
        found |= left
    if join.kind is JoinKind.INNER and any(key <= met_left for key in left):
        found |= right
    return frozenset(found)


def _equalities(join: Join) -> list[tuple[str, str]]:
    return [
        (p.left.name, p.right.name)
        for p in conjuncts(join.condition)
        if isinstance(p, exp.EQ) and isinstance(p.left, exp.Column) and isinstance(p.right, exp.Column)
    ]
