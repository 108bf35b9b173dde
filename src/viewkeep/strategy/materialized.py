"""Sub-trees of the graph of foreign keys, kept as views of their own: the strategy `foreign-key-materialized`.

    sales → customers → places            sub = customers ⋈ places        view = sales ⋈ sub

A sub-tree is a table that is pointed at and points at others, with all it reaches; one inside another is
made first. Its view has the joins along the foreign keys and nothing else: filters, and conditions that
are no foreign key, stay where they were. A refresh of the view then joins fewer tables, at the price of
keeping the others joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewkeep.catalog import TableName
from viewkeep.incremental.foreign_keys import components, inner_joins, node_name, scan_numbers
from viewkeep.incremental.weighted import Edge, keep
from viewkeep.plan.nodes import Field, Join, JoinKind, Node, Project, Scan, inputs_of, with_inputs
from viewkeep.plan.rewrite import flatten_join, join_all, prune
from viewkeep.plan.scalars import Scalar

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A view that stands for some tables of another view's join."""

    view: TableName
    members: tuple[str, ...]
    """The scans it stands for, each named by its first column, as edges name them."""
    pairs: Pairs
    """Columns that are equal in it."""


@dataclass(frozen=True, slots=True, eq=False)
class SubTree:
    top: Scan
    below: tuple[tuple[Scan | SubTree, Pairs], ...]
    """What the top points at, and by which columns."""

    @property
    def scans(self) -> tuple[Scan, ...]:
        found = [self.top]
        for child, _ in self.below:
            found += child.scans if isinstance(child, SubTree) else [child]
        return tuple(found)

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(f for scan in self.scans for f in scan.fields)

    @property
    def pairs(self) -> Pairs:
        deeper = [child.pairs for child, _ in self.below if isinstance(child, SubTree)]
        return tuple(pair for pairs in (*deeper, *(p for _, p in self.below)) for pair in pairs)

    def part(self, view: TableName) -> Part:
        return Part(view, tuple(node_name(s) for s in self.scans), self.pairs)


def sub_trees(root: Node, edges: Sequence[Edge]) -> list[SubTree]:
    """The largest sub-trees of each join of a plan; smaller ones are inside them."""
    found: list[SubTree] = []
    for relations, _ in inner_joins(root):
        number = scan_numbers(relations)
        points = [(number[e.child], number[e.parent], e.pairs) for e in edges if {e.child, e.parent} <= number.keys()]
        for component in components(relations, frozenset(edges)):
            tree = _tree(component.root, relations, points, set(component.members))
            if isinstance(tree, SubTree):  # the root itself is the view's
                found += [child for child, _ in tree.below if isinstance(child, SubTree)]
    return found


def _tree(
    at: int, relations: Sequence[Node], points: Sequence[tuple[int, int, Pairs]], left: set[int]
) -> Node | SubTree:
    """A relation with what it reaches; each relation once, however many ways lead to it."""
    left.discard(at)
    here, below = relations[at], []
    for child, parent, pairs in points:
        if child == at and parent in left:
            reached = _tree(parent, relations, points, left)
            assert isinstance(reached, Scan | SubTree)
            below.append((reached, pairs))
    return SubTree(here, tuple(below)) if below and isinstance(here, Scan) else here


def sub_tree_query(top: Scan, below: Sequence[tuple[Scan, Pairs]]) -> exp.Select:
    """The query of a sub-tree's view: every column under the name by which the plan knows it."""
    scans = [top, *(scan for scan, _ in below)]
    columns: dict[str, exp.Column] = {}
    for number, scan in enumerate(scans):
        for field, name in scan.columns:
            columns[field.id] = exp.column(exp.to_identifier(name, quoted=True), _alias(number))
    wanted = [exp.alias_(c.copy(), exp.to_identifier(i, quoted=True)) for i, c in columns.items()]
    query = exp.select(*wanted).from_(_aliased(top, 0))
    for number, (scan, pairs) in enumerate(below, start=1):
        equal = [exp.EQ(this=columns[a].copy(), expression=columns[b].copy()) for a, b in pairs]
        query = query.join(_aliased(scan, number), on=exp.and_(*equal))
    return query


def _alias(number: int) -> str:
    return f"t{number}"


def _aliased(scan: Scan, number: int) -> exp.Expr:
    schema = exp.to_identifier(scan.table.schema, quoted=True) if scan.table.schema else None
    table = exp.Table(this=exp.to_identifier(scan.table.name, quoted=True), db=schema)
    return exp.alias_(table, _alias(number), table=True)


# ---------------------------------------------------------------------- in the plan of the view
def with_parts(root: Node, parts: Sequence[Part]) -> Node:
    """A plan that reads views in place of the tables that they stand for."""
    return prune(_with_parts(root, parts)) if parts else root


def part_scan(view: TableName, fields: Sequence[Field]) -> Scan:
    return Scan(view, tuple((f, f.id) for f in fields))


def _with_parts(node: Node, parts: Sequence[Part]) -> Node:
    if not (isinstance(node, Join) and node.kind is JoinKind.INNER):
        return with_inputs(node, tuple(_with_parts(child, parts) for child in inputs_of(node)))
    relations, predicates = flatten_join(node)
    here = {node_name(r): r for r in relations if isinstance(r, Scan)}
    scans: list[Node] = []
    taken: set[str] = set()
    for part in parts:
        if here.keys() >= set(part.members):
            taken |= set(part.members)
            scans.append(part_scan(part.view, [f for m in part.members for f in here[m].fields]))
            predicates = [p for p in predicates if not _inside(p, part)]
    rest = [_with_parts(r, parts) for r in relations if not (isinstance(r, Scan) and node_name(r) in taken)]
    return Project(join_all([*rest, *scans], predicates), keep(node.fields))


def _inside(predicate: Scalar, part: Part) -> bool:
    """Whether a part has only rows for which this holds."""
    sides = (predicate.this, predicate.expression) if isinstance(predicate, exp.EQ) else ()
    if len(sides) != 2 or not all(isinstance(side, exp.Column) for side in sides):
        return False
    return frozenset(side.name for side in sides) in {frozenset(pair) for pair in part.pairs}
