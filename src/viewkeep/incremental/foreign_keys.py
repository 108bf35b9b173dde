"""Joins along foreign keys: the tables that are pointed at need no branch of their own.

    Δ(R ⋈ S) = ΔR ⋈ S[all]          S[all] = S[new] + what S lost        (R.f points at S.p)

For any R and S at all, whoever enforces what:

    ΔR ⋈ S[all] − Δ(R ⋈ S)  =  R[new] ⋈ lost(S) − R[old] ⋈ gained(S)

so the left side is right exactly where no row of R points at a row that S lost, and none that was
there before points at a row that S gained. A foreign key that is enforced makes both true unless a
key was lost and gained again. One that was only declared is looked at: see `violations`.

A rooted component is a table and all those it reaches along foreign keys; by induction over the
paths its delta is the root's delta joined with everything else in state *all*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewkeep.catalog import Catalog, Trust
from viewkeep.incremental.old import join_weighted, old
from viewkeep.incremental.scan import delta_scan
from viewkeep.incremental.weighted import Context, Edge, Weighted, consolidate, keep, to_units
from viewkeep.plan.nodes import Field, Filter, Join, JoinKind, Named, Node, Project, Scan, Union, walk
from viewkeep.plan.rewrite import flatten_join
from viewkeep.plan.scalars import Scalar, column, columns_of, integer


@dataclass(frozen=True, slots=True)
class Component:
    """Relations of a join, by their number: a root, and what it reaches along foreign keys."""

    root: int
    others: tuple[int, ...] = ()

    @property
    def members(self) -> tuple[int, ...]:
        return (self.root, *self.others)


# ---------------------------------------------------------------------- the graph
def edges_of(root: Node, catalog: Catalog) -> tuple[Edge, ...]:
    """All edges of a plan, join by join."""
    found: list[Edge] = []
    for relations, predicates in inner_joins(root):
        scans = [r for r in relations if isinstance(r, Scan)]
        equal = {frozenset((p.this.name, p.expression.name)) for p in predicates if _is_equality(p)}
        for child in scans:
            for parent in scans:
                if child is not parent:
                    found += _between(child, parent, equal, catalog)
    return tuple(found)


def inner_joins(node: Node) -> list[tuple[list[Node], list[Scalar]]]:
    """The maximal inner joins of a plan, flattened."""
    found, inside = [], set[int]()
    for current in walk(node):
        if isinstance(current, Join) and current.kind is JoinKind.INNER and id(current) not in inside:
            relations, predicates = flatten_join(current)
            found.append((relations, predicates))
            inside |= {id(n) for n in walk(current) if isinstance(n, Join)} - {
                id(n) for r in relations for n in walk(r) if isinstance(n, Join)
            }
    return found


def _is_equality(predicate: Scalar) -> bool:
    return (
        isinstance(predicate, exp.EQ)
        and isinstance(predicate.this, exp.Column)
        and isinstance(predicate.expression, exp.Column)
    )


def _between(child: Scan, parent: Scan, equal: set[frozenset[str]], catalog: Catalog) -> list[Edge]:
    table, target = catalog.find(child.table), catalog.find(parent.table)
    if table is None or target is None:
        return []
    ids = {n.lower(): f.id for f, n in child.columns}
    parent_ids = {n.lower(): f.id for f, n in parent.columns}
    found = []
    for key in table.foreign_keys:
        if key.parent.folded != parent.table.folded:
            continue
        pointed = key.parent_columns or (target.keys[0].columns if target.keys else ())
        pairs = [(ids.get(c.lower()), parent_ids.get(p.lower())) for c, p in zip(key.columns, pointed, strict=False)]
        joined = [(c, p) for c, p in pairs if c is not None and p is not None and frozenset((c, p)) in equal]
        if pairs and len(joined) == len(pairs):
            label = f"{child.table}({', '.join(key.columns)}) → {parent.table}({', '.join(pointed)})"
            enforced = key.trust is not Trust.CHECKED
            edge = Edge(node_name(child), node_name(parent), tuple(joined), parent.table.folded, enforced, label)
            found.append(edge)
    return found


def node_name(scan: Scan) -> str:
    return scan.columns[0][0].id


def components(relations: Sequence[Node], edges: frozenset[Edge]) -> list[Component]:
    """The largest rooted component first, then the largest of what is left."""
    number = scan_numbers(relations)
    points: dict[int, set[int]] = {}
    for edge in edges:
        if edge.child in number and edge.parent in number:
            points.setdefault(number[edge.child], set()).add(number[edge.parent])
    left, found = list(range(len(relations))), []
    while left:
        reached = [_reach(root, points, set(left)) for root in left]
        best = max(reached, key=len)
        found.append(Component(best[0], tuple(best[1:])))
        left = [i for i in left if i not in best]
    return found


def _reach(root: int, points: dict[int, set[int]], left: set[int]) -> list[int]:
    found = [root]
    for current in found:
        found += [p for p in sorted(points.get(current, ())) if p in left and p not in found]
    return found


def scan_numbers(relations: Sequence[Node]) -> dict[str, int]:
    return {node_name(r): i for i, r in enumerate(relations) if isinstance(r, Scan)}


# ---------------------------------------------------------------------- states and conditions
def all_rows(relation: Node, context: Context) -> Weighted:
    """What a table has and what it lost since: S[new] + lost(S)."""
    if not isinstance(relation, Scan) or relation.table.folded not in context.lost_rows:
        return Weighted(relation)
    return Weighted(Union((relation, _moved(relation, context, exp.LT)), relation.fields))


def _moved(scan: Scan, context: Context, sign: type[exp.Expr]) -> Node:
    """The rows that a table lost (<) or gained (>), net: in the columns that the plan reads."""
    units = to_units(delta_scan(scan, context), context.fresh)
    some = Filter(units.node, sign(this=units.weight_scalar, expression=integer(0)))
    return Project(some, keep(scan.fields))


@dataclass(frozen=True, slots=True, eq=False)
class Doubt:
    """A plan that has a row if an edge must not be relied on for these changes, and why then."""

    plan: Node
    why: str


def violations(root: Node, edge: Edge, context: Context) -> list[Doubt]:
    """All that speaks against relying on an edge for these changes."""
    for relations, predicates in inner_joins(root):
        by_name = {node_name(r): r for r in relations if isinstance(r, Scan)}
        if edge.child in by_name and edge.parent in by_name:
            child, parent = by_name[edge.child], by_name[edge.parent]
            lost, gained = (_moved(parent, context, sign) for sign in (exp.LT, exp.GT))
            if edge.enforced:
                again = Doubt(_both(edge, lost, gained, context), f"keys of {parent.table} went and came again")
                return [again] if parent.table.folded in context.lost_rows else []
            here = {f.id for f in (*child.fields, *parent.fields)}
            between = [p for p in predicates if columns_of(p) and columns_of(p) <= here]
            found: list[Doubt] = []
            if parent.table.folded in context.lost_rows:
                left = join_weighted([Weighted(lost), Weighted(child)], between, context).node
                found.append(Doubt(left, f"rows of {child.table} point at what {parent.table} lost"))
            met = join_weighted([Weighted(gained), old(child, context)], between, context)
            waited = met.node if met.weight is None else consolidate(met, context.fresh).node
            why = f"rows that {child.table} had before point at what {parent.table} gained"
            found.append(Doubt(waited, why))
            return found
    return []


def _both(edge: Edge, lost: Node, gained: Node, context: Context) -> Node:
    """Keys that were lost and gained again."""
    keys = [p for _, p in edge.pairs]
    again = {f.id: context.fresh("again") for f in gained.fields}
    other = Project(gained, tuple(Named(Field(again[f.id], f.type), column(f.id)) for f in gained.fields))
    equal = exp.and_(*(exp.EQ(this=column(k), expression=column(again[k])) for k in keys))
    return Join(lost, other, equal, JoinKind.SEMI)
