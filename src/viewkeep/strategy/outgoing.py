"""A view's own delta, as its user and the views above it see it, read back from what is stored.

A view of rows: those that came after the version, and those that left after it and had been there.
The finalising query is linear, so it is applied to them.
A view of additive state: for each group in the log, the state now and the state before (now minus
what was logged) are both finalised.
A view that is stored anew at each refresh: its rows now, and the table that held them then.
A finalising query with LIMIT is not linear: then all stored rows are finalised, before and after.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewkeep.catalog import TableName
from viewkeep.incremental.weighted import Weighted, add, keep, negate, to_rows, to_units
from viewkeep.plan.nodes import (
    Aggregate,
    Field,
    Filter,
    Fresh,
    Join,
    JoinKind,
    Named,
    Node,
    Project,
    Repeat,
    Scan,
    TopK,
    Union,
)
from viewkeep.plan.scalars import Scalar, column, conjoin, integer, null_safe_equal
from viewkeep.strategy import names
from viewkeep.strategy.layout import BagLayout, GroupLayout
from viewkeep.strategy.logged import came_since, left_since, state_log


def outgoing(layout: BagLayout | GroupLayout, since: int, fresh: Fresh, aside: Sequence[int] = ()) -> Weighted:
    """What the view gained and lost after a version, in units. `aside`: versions in which all rows left."""
    now: Node
    before: Node
    if layout.replaced:
        then = min((v for v in aside if v > since), default=None)
        now, before = layout.scan(), layout.scan(None if then is None else names.left(layout.view, then))
    elif isinstance(layout, GroupLayout) and layout.state.additive:
        now, before = _state_now(layout, since, fresh), _state_before(layout, since, fresh)
    elif layout.ordered:
        now, before = layout.scan(), _rows_before(layout, since, fresh)
    else:
        came, left = Weighted(came_since(layout, since)), Weighted(left_since(layout, since))
        rows = add([came, negate(left, fresh)], layout.stored, fresh)
        return to_units(_through(layout, rows), fresh)
    new, old = Weighted(_output(layout, now, fresh)), Weighted(_output(layout, before, fresh))
    return to_units(add([new, negate(old, fresh)], new.payload, fresh), fresh)


def _output(layout: BagLayout | GroupLayout, stored: Node, fresh: Fresh) -> Node:
    """Finalised rows under ids of their own: new and old stand in one plan."""
    final = layout.finalise(stored)
    return Project(final, tuple(Named(Field(fresh("out"), f.type), column(f.id)) for f in final.fields))


def _through(layout: BagLayout | GroupLayout, rows: Weighted) -> Weighted:
    """The finalising projections and filters, with the weight carried beside."""
    weight = tuple(f for f in rows.node.fields if f.id == rows.weight)

    def carry(node: Node) -> Node:
        match node:
            case Project():
                below = carry(node.input)
                return Project(below, (*node.outputs, *keep(weight)))
            case Filter():
                return Filter(carry(node.input), node.predicate)
            case Repeat():
                return Repeat(carry(node.input), node.times)
            case TopK():
                return carry(node.input)
            case _:
                return rows.node

    return Weighted(carry(layout.above), rows.weight)


def _rows_before(layout: BagLayout | GroupLayout, since: int, fresh: Fresh) -> Node:
    """The stored rows without those that came, with those that left."""
    came, left = came_since(layout, since), left_since(layout, since)
    terms = [Weighted(layout.scan()), negate(Weighted(came), fresh), Weighted(left)]
    return to_rows(add(terms, layout.stored, fresh), fresh)


def _state_now(layout: GroupLayout, since: int, fresh: Fresh) -> Node:
    if layout.ordered or not layout.keys:
        return layout.scan()
    return _in_log(layout, layout.scan(), since, fresh)


def _state_before(layout: GroupLayout, since: int, fresh: Fresh) -> Node:
    """State now minus all that was logged since; groups that were not there yet have no rows."""
    keys, counters = layout.key_fields, layout.counters
    logged = _state_since(layout, since)
    minus = Project(logged, (*keep(keys), *(Named(f, exp.Neg(this=column(f.id))) for f in counters)))
    plus = Project(_state_now(layout, since, fresh), keep((*keys, *counters)))
    totals = tuple(Named(f, exp.Sum(this=column(f.id))) for f in counters)
    summed = Aggregate(Union((plus, minus), (*keys, *counters)), keep(keys), totals)
    rows: Node = Project(summed, (*keep(keys), *(Named(f, _narrow(f)) for f in counters)))
    alive = exp.GT(this=column(names.ROWS), expression=integer(0))
    return Filter(rows, alive) if layout.keys else rows


def _state_since(layout: GroupLayout, since: int) -> Node:
    return Filter(state_log(layout), exp.GT(this=column(names.VERSION), expression=integer(since)))


def _narrow(counter: Field) -> Scalar:
    """A counter in its own type: a sum of counts would be wider."""
    return exp.cast(column(counter.id), "BIGINT") if counter.type == "BIGINT" else column(counter.id)


def _in_log(layout: GroupLayout, node: Node, since: int, fresh: Fresh) -> Node:
    keys = layout.key_fields
    renamed = tuple(Field(fresh("k"), f.type) for f in keys)
    logged = _state_since(layout, since)
    touched = Aggregate(logged, tuple(Named(n, column(f.id)) for n, f in zip(renamed, keys, strict=True)))
    pairs: list[Scalar] = [null_safe_equal(column(f.id), column(n.id)) for f, n in zip(keys, renamed, strict=True)]
    return Join(node, touched, conjoin(pairs), JoinKind.SEMI)


# ---------------------------------------------------------------------- where stored rows are read by version
def of_weighted(layout: BagLayout | GroupLayout, changed: TableName, fresh: Fresh) -> Node:
    """The view's delta from weighted changes of its stored rows: a weight, then its columns."""
    weight = Field(names.WEIGHT, "INTEGER")
    scan = Scan(changed, ((weight, names.WEIGHT), *zip(layout.stored, layout.columns, strict=True)))
    return _weight_first(to_units(_through(layout, Weighted(scan, weight.id)), fresh))


def of_limited(layout: BagLayout | GroupLayout, now: TableName, before: TableName, fresh: Fresh) -> Node:
    """The same of a view with a LIMIT: all of its rows, before and after."""
    new, old = (Weighted(_output(layout, layout.scan(t), fresh)) for t in (now, before))
    return _weight_first(to_units(add([new, negate(old, fresh)], new.payload, fresh), fresh))


def _weight_first(change: Weighted) -> Node:
    weight = Named(Field(names.WEIGHT, "INTEGER"), change.weight_scalar)
    return Project(change.node, (weight, *keep(change.payload)))
