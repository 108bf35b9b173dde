"""Shape-preserving rewrites that every later step relies on: flat joins and no unused columns."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from sqlglot import exp

from viewkeep.plan.conditions import ids_of, rejects_null
from viewkeep.plan.nodes import (
    Aggregate,
    Filter,
    Join,
    JoinKind,
    Named,
    Node,
    Project,
    Repeat,
    Scan,
    TimeFilter,
    TopK,
    Union,
    Unnest,
    Values,
    Window,
    inputs_of,
    with_inputs,
)
from viewkeep.plan.scalars import Scalar, column, columns_of, conjoin, conjuncts


def flatten_join(node: Node) -> tuple[list[Node], list[Scalar]]:
    """The relations that a tree of inner joins and filters combines, and all of its predicates."""
    match node:
        case Join(kind=JoinKind.INNER):
            left, left_predicates = flatten_join(node.left)
            right, right_predicates = flatten_join(node.right)
            return [*left, *right], [*left_predicates, *right_predicates, *conjuncts(node.condition)]
        case Filter(input=Join(kind=JoinKind.INNER) | Filter()):
            relations, predicates = flatten_join(node.input)
            return relations, [*predicates, *conjuncts(node.predicate)]
        case Filter():
            return [node.input], conjuncts(node.predicate)
        case _:
            return [node], []


def join_all(relations: list[Node], predicates: list[Scalar]) -> Node:
    """Join relations in an order that follows the predicates from the first one on.

    Each predicate is applied as soon as its columns are there: on one relation as a filter, on
    more as a join condition. The first relation should be the smallest (a delta).
    """
    pending = list(predicates)

    def take(available: frozenset[str]) -> list[Scalar]:
        ready = [p for p in pending if columns_of(p) and columns_of(p) <= available]
        pending[:] = [p for p in pending if not any(p is r for r in ready)]
        return ready

    filtered = [_filter(relation, take(ids_of(relation))) for relation in relations]
    joined, rest = filtered[0], filtered[1:]
    while rest:
        here = ids_of(joined)
        connected = [r for r in rest if any(columns_of(p) & here and columns_of(p) & ids_of(r) for p in pending)]
        chosen = (connected or rest)[0]
        rest = [r for r in rest if r is not chosen]
        joined = Join(joined, chosen, conjoin(take(here | ids_of(chosen))))
    # What is left reads no column at all (WHERE FALSE): it still has to hold.
    leftover = conjoin(pending)
    return joined if leftover is None else Filter(joined, leftover)


def _filter(node: Node, predicates: list[Scalar]) -> Node:
    """The rows of a relation for which predicates hold, tested as far down as they may be.

    Through an outer, semi or anti join only what reads its left side goes down. A predicate that is
    never true of the NULLs beside an unmatched row makes that side of an outer join an inner one.
    """
    if not predicates:
        return node
    match node:
        case Join(kind=JoinKind.INNER):
            relations, own = flatten_join(node)
            return join_all(relations, [*own, *predicates])
        case Join(kind=JoinKind.LEFT) if _rejected(predicates, node.right):
            return _filter(replace(node, kind=JoinKind.INNER), predicates)
        case Join(kind=JoinKind.FULL) if _rejected(predicates, node.left) and _rejected(predicates, node.right):
            return _filter(replace(node, kind=JoinKind.INNER), predicates)
        case Join(kind=JoinKind.FULL) if _rejected(predicates, node.right):
            # No row without a right partner: what is left is the right side with or without a left one.
            swapped = Join(node.right, node.left, node.condition, JoinKind.LEFT)
            return Project(_filter(swapped, predicates), tuple(Named(f, column(f.id)) for f in node.fields))
        case Join(kind=JoinKind.FULL) if _rejected(predicates, node.left):
            return _filter(replace(node, kind=JoinKind.LEFT), predicates)
        case Join() if node.kind.linear_in_left:
            below = [p for p in predicates if columns_of(p) <= ids_of(node.left)]
            above = conjoin(p for p in predicates if not columns_of(p) <= ids_of(node.left))
            pushed = replace(node, left=_filter(node.left, below))
            return pushed if above is None else Filter(pushed, above)
        case _:
            return Filter(node, conjoin(predicates) or exp.true())


def _rejected(predicates: list[Scalar], side: Node) -> bool:
    return any(rejects_null(p, ids_of(side)) for p in predicates)


def normalise(node: Node) -> Node:
    """Push predicates into joins, everywhere."""
    match node:
        case Filter() | Join(kind=JoinKind.INNER):
            relations, predicates = flatten_join(node)
            return join_all([normalise(r) for r in relations], predicates)
        case Join():
            return _narrow_sides(replace(node, left=normalise(node.left), right=normalise(node.right)))
        case _:
            return with_inputs(node, tuple(normalise(child) for child in inputs_of(node)))


def _narrow_sides(join: Join) -> Node:
    """Test what a condition says of one side alone on that side, where no unmatched row depends on it."""
    left, right = ids_of(join.left), ids_of(join.right)
    narrows_left, narrows_right = join.kind is JoinKind.SEMI, join.kind is not JoinKind.FULL
    of_left, of_right, of_both = [], [], []
    for part in conjuncts(join.condition):
        if narrows_left and columns_of(part) and columns_of(part) <= left:
            of_left.append(part)
        elif narrows_right and columns_of(part) and columns_of(part) <= right:
            of_right.append(part)
        else:
            of_both.append(part)
    return Join(_filter(join.left, of_left), _filter(join.right, of_right), conjoin(of_both), join.kind)


def prune(node: Node, needed: frozenset[str] | None = None) -> Node:
    """Drop columns that nothing above reads, so that scans, deltas and stored state stay narrow."""
    wanted = frozenset(f.id for f in node.fields) if needed is None else needed
    match node:
        case Scan():
            kept = tuple(c for c in node.columns if c[0].id in wanted)
            return replace(node, columns=kept or node.columns[:1])
        case Filter():
            return replace(node, input=prune(node.input, wanted | columns_of(node.predicate)))
        case TimeFilter():
            return replace(node, input=prune(node.input, wanted | columns_of(node.test)))
        case Project():
            outputs = tuple(o for o in node.outputs if o.field.id in wanted) or node.outputs[:1]
            return Project(prune(node.input, _read_by(outputs)), outputs)
        case Join():
            below = wanted | (columns_of(node.condition) if node.condition is not None else frozenset())
            return replace(node, left=prune(node.left, below), right=prune(node.right, below))
        case Aggregate():
            calls = tuple(c for c in node.calls if c.field.id in wanted)
            if not node.keys and not calls:
                calls = node.calls[:1]
            return Aggregate(prune(node.input, _read_by((*node.keys, *calls))), node.keys, calls)
        case Window():
            calls = tuple(c for c in node.calls if c.field.id in wanted)
            own = frozenset(c.field.id for c in calls)
            if not calls:
                return prune(node.input, wanted)
            by = frozenset().union(*(columns_of(s) for s in node.partition))
            return Window(prune(node.input, (wanted - own) | by | _read_by(calls)), node.partition, calls)
        case Union():
            kept_at = [i for i, f in enumerate(node.fields) if f.id in wanted] or [0]
            inputs = []
            for child in node.inputs:
                narrow = [child.fields[i] for i in kept_at]
                pruned = prune(child, frozenset(f.id for f in narrow))
                if tuple(f.id for f in pruned.fields) != tuple(f.id for f in narrow):
                    pruned = Project(pruned, tuple(Named(f, column(f.id)) for f in narrow))
                inputs.append(pruned)
            return Union(tuple(inputs), tuple(node.fields[i] for i in kept_at))
        case TopK():
            ordering = frozenset().union(*(columns_of(o.scalar) for o in node.order))
            return replace(node, input=prune(node.input, wanted | ordering))
        case Unnest():
            # How many rows there are follows from every list, wanted or not.
            return replace(node, input=prune(node.input, wanted | _read_by(node.calls)))
        case Repeat():
            return replace(node, input=prune(node.input, wanted | {node.times}))
        case Values():
            return node
        case _:
            assert_never(node)


def _read_by(outputs: tuple[Named, ...]) -> frozenset[str]:
    return frozenset().union(*(columns_of(o.scalar) for o in outputs))
