"""Ranks over all rows of a table, computed for each value that sorts them and looked up for each row.

    R with RANK() OVER (ORDER BY v)   =   R ⋈ π(v, 1 + rows before v) (γ v, COUNT(*) (R))      on the same v

One new row changes the rank of every row behind it, so such a view is computed anew. Where few values sort many rows,
sorting the values and looking them up takes a third of the time that sorting the rows takes.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from viewkeep.catalog import TableName
from viewkeep.incremental.weighted import keep
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
    Scan,
    Window,
    with_inputs,
)
from viewkeep.plan.scalars import Scalar, column, integer, null_safe_equal


@dataclass(frozen=True, slots=True)
class ByValue:
    """Another way to the same rows, of use where a column has few values."""

    source: Node
    table: TableName
    column: str


def ranks_by_value(root: Node, fresh: Fresh) -> ByValue | None:
    """None where the view is no ranks over all rows of a table, in the order of one column of it."""
    above: list[Node] = []
    node = root
    while isinstance(node, Project | Filter):
        above.append(node)
        node = node.input
    if not isinstance(node, Window) or node.partition or (order := _order(node)) is None:
        return None
    if (origin := _origin(node.input, order.this.name)) is None:
        return None
    found: Node = _looked_up(node, order, fresh)
    for each in reversed(above):
        found = with_inputs(each, (found,))
    return ByValue(found, *origin)


def _order(node: Window) -> exp.Ordered | None:
    """The one column by which all calls rank."""
    orders = []
    for call in node.calls:
        window = call.scalar
        if not isinstance(window, exp.Window) or not isinstance(window.this, exp.Rank | exp.DenseRank):
            return None
        if window.args.get("partition_by") or window.args.get("spec") or not window.args.get("order"):
            return None
        orders.append(window.args["order"])
    if any(order != orders[0] for order in orders) or len(orders[0].expressions) != 1:
        return None
    (ordered,) = orders[0].expressions
    return ordered if isinstance(ordered, exp.Ordered) and isinstance(ordered.this, exp.Column) else None


def _origin(node: Node, name: str) -> tuple[TableName, str] | None:
    """The column of a table that a column is, where the plan below reads nothing else."""
    match node:
        case Scan():
            return next(((node.table, label) for field, label in node.columns if field.id == name), None)
        case Filter():
            return _origin(node.input, name)
        case Project():
            scalar = next(o.scalar for o in node.outputs if o.field.id == name)
            return _origin(node.input, scalar.name) if isinstance(scalar, exp.Column) else None
    return None


def _looked_up(node: Window, order: exp.Ordered, fresh: Fresh) -> Node:
    sorting = next(f for f in node.input.fields if f.id == order.this.name)
    value, rows = Field(fresh("value"), sorting.type), Field(fresh("rows"), "BIGINT")
    counted = Aggregate(node.input, (Named(value, column(sorting.id)),), (Named(rows, exp.Count(this=exp.Star())),))
    by_value = exp.Order(expressions=[order.copy()])
    by_value.expressions[0].set("this", column(value.id))
    ranks = Window(counted, (), tuple(Named(c.field, _rank(c.scalar, rows, by_value)) for c in node.calls))
    same = null_safe_equal(column(sorting.id), column(value.id))
    return Project(Join(node.input, ranks, same, JoinKind.INNER), keep(node.fields))


def _rank(call: Scalar, rows: Field, order: exp.Order) -> Scalar:
    if isinstance(call.this, exp.DenseRank):
        return exp.Window(this=exp.DenseRank(), order=order.copy())
    spec = exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end=integer(1), end_side="PRECEDING")
    before = exp.Window(this=exp.Sum(this=column(rows.id)), order=order.copy(), spec=spec)
    return exp.cast(exp.Add(this=integer(1), expression=exp.Coalesce(this=before, expressions=[integer(0)])), "BIGINT")
