"""Joins along foreign keys: the tables that are pointed at need no branch of their own.

    Δ(R ⋈ S) = ΔR ⋈ S[all]          S[all] = S[new] + what S lost        (R.f points at S.p)

For any R and S at all, whoever enforces what:

    ΔR ⋈ S[all] − Δ(R ⋈ S)  =  R[new] ⋈ lost(S) − R[old] ⋈ gained(S)

so the left side is right exactly where no row of R points at a row that S lost, and none that was
there before points at a row that S gained. A foreign key that is enforced makes both true unless a
key was lost and gained again. One that was only declared is looked at: see `doubts`.

A rooted component is a table and all those it reaches along foreign keys; by induction over the
paths its delta is the root's delta joined with everything else in state *all*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewkeep.catalog import Catalog, Trust
from viewkeep.incremental.scan import delta_scan
from viewkeep.incremental.weighted import Context, Edge, Weighted, consolidate, keep
from viewkeep.plan.conditions import equates_columns
from viewkeep.plan.nodes import (
    Aggregate,
    Field,
    Filter,
    Join,
    JoinKind,
    Named,
    Node,
    Project,
    Repeat,
    Scan,
    Union,
    walk,
)
from viewkeep.plan.rewrite import flatten_join, join_all
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
        equal = {frozenset((p.this.name, p.expression.name)) for p in predicates if equates_columns(p)}
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
    return Weighted(Union((relation, _lost(relation, context)), relation.fields))


def _lost(scan: Scan, context: Context) -> Node:
    """The rows that a table lost, net: in the columns that the plan reads."""
    total, summed = _net(scan, context)
    gone = Filter(summed, exp.LT(this=column(total.id), expression=integer(0)))
    if any(e.enforced and e.parent == node_name(scan) for e in context.edges):
        return Project(gone, keep(scan.fields))  # it has a key, so each was there once
    times = Field(context.fresh("times"), "BIGINT")
    counted = Project(gone, (*keep(scan.fields), Named(times, exp.Neg(this=column(total.id)))))
    return Repeat(counted, times.id)


def _net(scan: Scan, context: Context) -> tuple[Field, Node]:
    """The changes of a table with the weights of equal rows summed up; also those whose weights come to 0."""
    change, total = delta_scan(scan, context), Field(context.fresh("w"), "BIGINT")
    return total, Aggregate(change.node, keep(change.payload), (Named(total, exp.Sum(this=change.weight_scalar)),))


@dataclass(frozen=True, slots=True, eq=False)
class Doubts:
    """A plan that has a row if an edge must not be relied on for these changes; and why, by its columns: the
    first that is not 0 tells."""

    plan: Node
    reasons: tuple[tuple[str, str], ...]


def doubts(root: Node, edge: Edge, context: Context) -> Doubts | None:
    """What speaks against relying on an edge for these changes; None if nothing can."""
    for relations, predicates in inner_joins(root):
        by_name = {node_name(r): r for r in relations if isinstance(r, Scan)}
        if edge.child in by_name and edge.parent in by_name:
            child, parent = by_name[edge.child], by_name[edge.parent]
            if not edge.enforced:
                here = {f.id for f in (*child.fields, *parent.fields)}
                between = [p for p in predicates if columns_of(p) and columns_of(p) <= here]
                return _pointing(child, parent, between, context)
            return _again(edge, parent, context) if parent.table.folded in context.lost_rows else None
    return None


def _pointing(child: Scan, parent: Scan, between: list[Scalar], context: Context) -> Doubts:
    """How many rows point at what was lost; and how many of before at what was gained:

        | R[old] ⋈ gained |  =  | R[new] ⋈ gained |  −  Σ weights of ΔR ⋈ gained

    so a large R is read once, for a few keys, and nothing has to be subtracted row by row."""
    moved = consolidate(delta_scan(parent, context), context.fresh)

    def counted(rows: Weighted) -> Node:
        weight, sign = column(moved.weight or ""), rows.weight
        taken: Scalar = exp.Mul(this=column(sign), expression=exp.Neg(this=weight)) if sign else weight
        gained = exp.Case().when(exp.GT(this=weight.copy(), expression=integer(0)), taken).else_(integer(0))
        lost = exp.Case().when(exp.LT(this=weight.copy(), expression=integer(0)), integer(1)).else_(integer(0))
        left, waited = (Field(context.fresh(name), "BIGINT") for name in ("left", "waited"))
        joined = join_all([moved.node, rows.node], between)
        return Project(joined, (Named(left, integer(0) if sign else lost), Named(waited, gained)))

    parts = [counted(Weighted(child))]
    if child.table.folded in context.changed:
        parts.append(counted(delta_scan(child, context)))
    left, waited = (Field(context.fresh(name), "BIGINT") for name in ("left", "waited"))
    totals = tuple(Named(Field(context.fresh("total"), "BIGINT"), exp.Sum(this=column(f.id))) for f in (left, waited))
    known = [exp.func("COALESCE", column(t.field.id), integer(0)) for t in totals]
    some = exp.or_(*(exp.NEQ(this=k, expression=integer(0)) for k in known))
    plan = Filter(Aggregate(Union(tuple(parts), (left, waited)), (), totals), some)
    lost = f"rows of {child.table} point at what {parent.table} lost"
    gained = f"rows that {child.table} had before point at what {parent.table} gained"
    return Doubts(plan, ((totals[0].field.id, lost), (totals[1].field.id, gained)))


def _again(edge: Edge, parent: Scan, context: Context) -> Doubts:
    """Keys that were lost and gained again."""
    total, summed = _net(parent, context)
    keys = tuple(f for f in parent.fields if f.id in {p for _, p in edge.pairs})
    low, high = (Field(context.fresh(name), "BIGINT") for name in ("low", "high"))
    calls = (Named(low, exp.Min(this=column(total.id))), Named(high, exp.Max(this=column(total.id))))
    both = exp.and_(
        exp.LT(this=column(low.id), expression=integer(0)), exp.GT(this=column(high.id), expression=integer(0))
    )
    why = f"keys of {parent.table} went and came again"
    return Doubts(Filter(Aggregate(summed, keep(keys), calls), both), ((high.id, why),))
