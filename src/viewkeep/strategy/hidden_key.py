"""A key for rows whose user left it out: its columns are stored beside the others, hidden.

    SELECT d.month, f.price FROM f JOIN d ON f.day = d.day        stored: month, price, f's key

Without a key a row that leaves is looked for by all its values, and copies are counted. The key is mostly shorter,
and there are no copies.
"""

from __future__ import annotations

from dataclasses import replace

from viewkeep.catalog import Catalog
from viewkeep.incremental.weighted import keep
from viewkeep.plan.keys import keys_of
from viewkeep.plan.nodes import Field, Filter, Fresh, Join, JoinKind, Named, Node, Project, Scan, State, TimeFilter
from viewkeep.plan.rewrite import prune
from viewkeep.plan.scalars import column
from viewkeep.strategy import names

MOST = 3
"""Columns that may be stored for the sake of a key."""


def with_key(rows: Node, catalog: Catalog, fresh: Fresh) -> tuple[Node, tuple[str, ...]] | None:
    """The same rows with hidden columns, and the columns of a key; None where none can be had."""
    wide, seen = _widened(rows, catalog, fresh), {f.id for f in rows.fields}
    keys = sorted(keys_of(wide, catalog), key=lambda k: (len(k - seen), len(k), sorted(k)))
    if not keys or len(keys[0] - seen) > MOST:
        return None
    hidden = [f for f in wide.fields if f.id in keys[0] - seen]
    stored = tuple(Named(Field(f"{names.KEY}{i}", f.type), column(f.id)) for i, f in enumerate(hidden, 1))
    key = (*sorted(keys[0] & seen), *(s.field.id for s in stored))
    return prune(Project(wide, (*keep(rows.fields), *stored))), key


def _widened(node: Node, catalog: Catalog, fresh: Fresh) -> Node:
    """With all columns that are there below, and the keys of the tables, after its own columns."""
    match node:
        case Scan(state=State.NEW):
            table, there = catalog.find(node.table), {name.lower() for _, name in node.columns}
            keys = {c.lower() for key in table.keys for c in key.columns} if table else set()
            columns = [c for c in table.columns if c.name.lower() in keys - there] if table else []
            return replace(node, columns=(*node.columns, *((Field(fresh(c.name), c.type), c.name) for c in columns)))
        case Filter() | TimeFilter():
            return replace(node, input=_widened(node.input, catalog, fresh))
        case Project():
            below, own = _widened(node.input, catalog, fresh), {f.id for f in node.fields}
            return Project(below, (*node.outputs, *keep(tuple(f for f in below.fields if f.id not in own))))
        case Join(kind=JoinKind.INNER | JoinKind.LEFT):
            left, right = (_widened(side, catalog, fresh) for side in (node.left, node.right))
            return replace(node, left=left, right=right)
        case Join(kind=JoinKind.SEMI | JoinKind.ANTI):
            return replace(node, left=_widened(node.left, catalog, fresh))
        case _:
            return node
