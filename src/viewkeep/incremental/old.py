"""The old state of a plan: its result before the changes.

An engine with time travel reads it. Without, a table's old rows are its new rows plus its negated
changes, and the weights travel up through the linear operators; an operator that is not
linear turns them back into plain rows first. Where nothing below changed, old is new.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import assert_never

from sqlglot import exp

from viewkeep.incremental.affected import affected_keys, restrict
from viewkeep.incremental.project import delta_project
from viewkeep.incremental.scan import delta_scan
from viewkeep.incremental.time_filter import old_time_filter
from viewkeep.incremental.unnest import delta_unnest
from viewkeep.incremental.weighted import WEIGHT_TYPE, Context, Weighted, add, consolidate, keep, negate, to_rows
from viewkeep.incremental.weighted_groups import aggregate_weighted
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
    State,
    TimeFilter,
    TopK,
    Union,
    Unnest,
    Values,
    Window,
)
from viewkeep.plan.rewrite import flatten_join, join_all
from viewkeep.plan.scalars import Scalar, column


def old(node: Node, context: Context) -> Weighted:
    if not context.touches(node):
        return Weighted(node)
    match node:
        case Scan():
            if context.time_travel:
                return Weighted(replace(node, state=State.OLD))
            changes = negate(delta_scan(node, context), context.fresh)
            return add([Weighted(node), changes], node.fields, context.fresh)
        case Filter():
            below = old(node.input, context)
            return Weighted(Filter(below.node, node.predicate), below.weight)
        case TimeFilter():
            return old_time_filter(node, old(node.input, context), context)
        case Project():
            return delta_project(node, old(node.input, context))
        case Join(kind=JoinKind.INNER):
            relations, predicates = flatten_join(node)
            return join_weighted([old(r, context) for r in relations], predicates, context)
        case Union():
            return add([old(child, context) for child in node.inputs], node.fields, context.fresh)
        case Aggregate():
            return Weighted(aggregate_weighted(node, old(node.input, context), context.fresh))
        case Window() | TopK():
            return Weighted(replace(node, input=old_rows(node.input, context)))
        case Unnest():
            return delta_unnest(node, old(node.input, context))
        case Repeat():
            below = old(node.input, context)
            return Weighted(Repeat(below.node, node.times), below.weight)
        case Values():
            return Weighted(node)
        case Join():
            return _old_join(node, context)
        case _:
            assert_never(node)


def old_rows(node: Node, context: Context) -> Node:
    """The old state as plain rows, for an operator that reads all of them.

        R[old]  =  R ▷ ΔR  +  rows((R ⋉ ΔR) − ΔR)        compared by the whole row

    Rows that no change equals are as they were; only the few others have to be counted.
    """
    if not context.touches(node):
        return node
    match node:
        case Scan() if not context.time_travel:
            change, whole = delta_scan(node, context), tuple(column(f.id) for f in node.fields)
            values = affected_keys(change, whole, context.fresh)
            touched = restrict(node, whole, values)
            assert isinstance(touched, Join)
            counted = add([Weighted(touched), negate(change, context.fresh)], node.fields, context.fresh)
            untouched = replace(touched, kind=JoinKind.ANTI)
            return Union((untouched, to_rows(counted, context.fresh)), node.fields)
        case Filter() | Project():
            return replace(node, input=old_rows(node.input, context))
        case TimeFilter():
            return old_time_filter(node, Weighted(old_rows(node.input, context)), context).node
        case _:
            return to_rows(old(node, context), context.fresh)


def _old_join(node: Join, context: Context) -> Weighted:
    """Weights of the left side pass, as each of its rows counts by itself; elsewhere they become rows."""
    left, right = old(node.left, context), old(node.right, context)
    if node.kind is JoinKind.FULL:
        left = Weighted(to_rows(left, context.fresh))
    if node.kind.keeps_right or right.weight is None:
        other = to_rows(right, context.fresh)
    else:
        other = consolidate(right, context.fresh).node  # how many partners there are does not matter
    return Weighted(replace(node, left=left.node, right=other), left.weight)


def join_weighted(relations: list[Weighted], predicates: list[Scalar], context: Context) -> Weighted:
    """Join weighted relations; the weight of a combination is the product of its weights."""
    joined = join_all([r.node for r in relations], predicates)
    weights = [r.weight for r in relations if r.weight is not None]
    if len(weights) < 2:
        return Weighted(joined, weights[0] if weights else None)
    factors: list[Scalar] = [column(w) for w in weights]
    product = reduce(lambda a, b: exp.Mul(this=a, expression=b), factors)
    payload = tuple(f for f in joined.fields if f.id not in weights)
    weight = Field(context.fresh("w"), WEIGHT_TYPE)
    return Weighted(Project(joined, (*keep(payload), Named(weight, product))), weight.id)
