"""What is left for Spark where a change is few rows: their values, as the user's expressions give them.

    FETCHED = π(weight, keys, arguments) (ΔR)        computed by Spark
    CHANGE  = the same change of state, over FETCHED   computed in the driver

Grouping a few thousand rows is no work for a cluster: a shuffle and the code for it cost more than the rest of a
refresh.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from viewkeep.catalog import TableName
from viewkeep.incremental.weighted import Weighted, keep
from viewkeep.plan.nodes import Aggregate, Field, Fresh, Named, Node, Project, Scan, types_of
from viewkeep.plan.scalars import Scalar, column
from viewkeep.strategy import names
from viewkeep.strategy.components import Component, Rule, State
from viewkeep.strategy.layout import BagLayout, GroupLayout

FETCHED = TableName("_vk_fetched")
_WEIGHT = Field(names.WEIGHT, "INTEGER")


def fetch_rows(layout: BagLayout, change: Weighted) -> tuple[Node, Weighted]:
    """The changed rows, and how they are read in the driver."""
    node = Project(change.node, (Named(_WEIGHT, change.weight_scalar), *keep(layout.stored)))
    return node, _scan(node)


def fetch_groups(layout: GroupLayout, change: Weighted, fresh: Fresh) -> tuple[Node, Weighted, GroupLayout] | None:
    """What the groups are made of, how that is read, and the layout over it; None where a group is made of more
    than it stores."""
    if any(c.rule in (Rule.RECOMPUTE, Rule.EXTEND_SUM) for c in layout.state.components):
        return None
    types = types_of(change.node)
    taken: dict[Scalar, Named] = {}

    def column_of(scalar: Scalar, label: str) -> Scalar:
        """An equal expression is computed once."""
        if scalar not in taken:
            known = types.get(scalar.name, "UNKNOWN") if scalar.key == "column" else "UNKNOWN"
            taken[scalar] = Named(Field(fresh(label), known), scalar)
        return column(taken[scalar].field.id)

    def component(found: Component) -> Component:
        if found.rule is Rule.RANKED:  # only ever computed from rows
            return found
        return replace(found, call=type(found.call)(this=column_of(found.argument, "value")))

    keys = tuple(Named(k.field, column_of(k.scalar, "key")) for k in layout.aggregate.keys)
    components = tuple(map(component, layout.state.components))
    ranked = tuple(replace(r, argument=column_of(r.argument, "value")) for r in layout.state.ranked)
    node = Project(change.node, (Named(_WEIGHT, change.weight_scalar), *taken.values()))
    read = _scan(node)
    state = State(components, layout.state.finals, ranked)
    # Only its keys are asked for: what it computes is told by the state.
    rows = Named(Field(names.ROWS, "BIGINT"), exp.Count(this=exp.Star()))
    aggregate = Aggregate(read.node, keys, (rows,))
    return node, read, replace(layout, aggregate=aggregate, state=state)


def _scan(node: Project) -> Weighted:
    return Weighted(Scan(FETCHED, tuple((f, f.id) for f in node.fields)), names.WEIGHT)
