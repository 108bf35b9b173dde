"""What a view keeps of the keys and foreign keys of what it reads.

    V = sales ⋈ customers        sales.item → items      hence  V.item → items
    W = σ(items)                 sales.item → items      hence  sales.item → W.item

Rows of a join point at what the rows point at that it was made of. And a view that has one row at most
for each row of a table can be pointed at in its stead; what it left out is then not there to point at,
which is no different from any other row that is not there.

A column is traced to the scan it comes from; what is computed, or mixed by a UNION, comes from nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from sqlglot import exp

from viewkeep.catalog import Catalog, ForeignKey, Table, TableName, Trust
from viewkeep.plan.keys import keys_of
from viewkeep.plan.nodes import (
    Aggregate,
    Filter,
    Join,
    JoinKind,
    Named,
    Node,
    Project,
    Query,
    Repeat,
    Scan,
    TimeFilter,
    TopK,
    Union,
    Unnest,
    Values,
    Window,
)


@dataclass(frozen=True, slots=True)
class Copy:
    """A view has at most one row for each of these columns' values of a table."""

    table: TableName
    columns: Mapping[str, str]
    """The view's name for each column of the table, folded."""


@dataclass(frozen=True, slots=True)
class Carried:
    keys: tuple[tuple[str, ...], ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    copies: tuple[Copy, ...] = ()


NOTHING = Carried()


def carried(query: Query, catalog: Catalog, below: Mapping[str, Carried]) -> Carried:
    """`catalog` has the tables that a query reads, with keys and foreign keys; `below` what its views carry."""
    traced, names = _trace(query.root), dict[str, str]()
    for name, field in zip(query.names, query.root.fields, strict=True):
        names.setdefault(field.id, name)
    from_scan: dict[int, tuple[Scan, dict[str, str]]] = {}
    for id_, name in names.items():
        if id_ in traced:
            scan, column = traced[id_]
            from_scan.setdefault(id(scan), (scan, {}))[1].setdefault(column.lower(), name)
    keys = sorted(sorted(names[i] for i in key) for key in keys_of(query.root, catalog) if key <= names.keys())
    foreign: list[ForeignKey] = []
    copies: list[Copy] = []
    for scan, columns in from_scan.values():
        table = catalog.find(scan.table)
        for key in table.foreign_keys if table else ():
            if all(c.lower() in columns for c in key.columns):
                here = tuple(columns[c.lower()] for c in key.columns)
                foreign.append(replace(key, columns=here, trust=Trust.CHECKED))
        known = set(columns.values())
        for found in keys:
            if not known.issuperset(found):
                continue
            of_table = {c: n for c, n in columns.items() if n in found}
            copies.append(Copy(scan.table, of_table))
            for copy in below.get(scan.table.folded, NOTHING).copies:
                through = {c: of_table[n.lower()] for c, n in copy.columns.items() if n.lower() in of_table}
                if len(through) == len(copy.columns):
                    copies.append(Copy(copy.table, through))
    return Carried(tuple(map(tuple, keys)), tuple(dict.fromkeys(foreign)), tuple(copies))


def _trace(node: Node) -> dict[str, tuple[Scan, str]]:
    """For each column that is a column of some scan: which."""
    match node:
        case Scan():
            return {field.id: (node, name) for field, name in node.columns}
        case Filter() | TimeFilter() | TopK() | Window() | Repeat() | Unnest():
            return _trace(node.input)
        case Project():
            return _renamed(node.outputs, _trace(node.input))
        case Aggregate():
            return _renamed(node.keys, _trace(node.input))
        case Join(kind=JoinKind.SEMI | JoinKind.ANTI):
            return _trace(node.left)
        case Join():
            return {**_trace(node.left), **_trace(node.right)}
        case Union() | Values():
            return {}
        case _:
            assert_never(node)


def _renamed(outputs: Iterable[Named], below: dict[str, tuple[Scan, str]]) -> dict[str, tuple[Scan, str]]:
    passed = ((o.field.id, o.scalar.name) for o in outputs if isinstance(o.scalar, exp.Column))
    return {new: below[old] for new, old in passed if old in below}


def point_at_copies(tables: Iterable[Table], views: Mapping[str, Carried]) -> list[Table]:
    """Tables whose foreign keys also point at the views that stand for what they point at."""
    found, listed = [], list(tables)
    copies = [(t.name, copy) for t in listed for copy in views.get(t.name.folded, NOTHING).copies]
    for table in listed:
        more = []
        for key in table.foreign_keys:
            pointed = [c.lower() for c in key.parent_columns]
            for view, copy in copies:
                if copy.table.folded == key.parent.folded and copy.columns.keys() == set(pointed):
                    more.append(ForeignKey(key.columns, view, tuple(copy.columns[c] for c in pointed), Trust.CHECKED))
        found.append(replace(table, foreign_keys=tuple(dict.fromkeys((*table.foreign_keys, *more)))))
    return found
