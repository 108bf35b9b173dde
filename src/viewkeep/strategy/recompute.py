"""Recompute: the new contents from scratch, and what they differ in, so that readers of the view's
changes (views on views, subscribers) go on without a gap."""

from __future__ import annotations

from sqlglot import exp

from viewkeep.catalog import TableName
from viewkeep.incremental.weighted import Weighted, add, keep, negate, to_units
from viewkeep.plan.nodes import Aggregate, Field, Fresh, Named, Node, Project, Scan, Union
from viewkeep.plan.scalars import column
from viewkeep.strategy import names
from viewkeep.strategy.bag import log_rows
from viewkeep.strategy.grouped import nonzero
from viewkeep.strategy.layout import BagLayout, GroupLayout
from viewkeep.strategy.program import Append, Clear, Program, Stage, Step


def recompute(layout: BagLayout | GroupLayout, fresh: Fresh, text: str | None = None, logged: bool = True) -> Program:
    """`text`: the user's own query, where the view has no plan. Without the difference being logged,
    whoever reads the view's changes has to start anew."""
    staged = names.stage(layout.view, "contents")
    source: Node | str = text if text is not None else layout.contents
    return Program(
        "recompute",
        (
            Stage(staged, layout.columns, source, "the view's query over the tables as they are now"),
            *([_difference(layout, staged, fresh)] if logged else []),
            Clear(names.backing(layout.view)),
            Append(names.backing(layout.view), layout.columns, layout.scan(staged), "the new contents"),
        ),
    )


def _difference(layout: BagLayout | GroupLayout, staged: TableName, fresh: Fresh) -> Step:
    new, old = layout.scan(staged), layout.scan()
    if isinstance(layout, GroupLayout) and layout.state.additive:
        return _state_difference(layout, new, old)
    change = add([Weighted(new), negate(Weighted(old), fresh)], layout.stored, fresh)
    return log_rows(layout, to_units(change, fresh), "what the new contents differ in")


def _state_difference(layout: GroupLayout, new: Scan, old: Scan) -> Step:
    keys, counters = layout.key_fields, layout.counters
    minus = Project(old, (*keep(keys), *(Named(f, exp.Neg(this=column(f.id))) for f in counters)))
    plus = Project(new, keep((*keys, *counters)))
    both = Union((plus, minus), (*keys, *counters))
    totals = tuple(Named(Field(f.id, f.type), exp.Sum(this=column(f.id))) for f in counters)
    summed = Project(Aggregate(both, keep(keys), totals), keep(layout.stored))
    moved = nonzero(summed, tuple(f.id for f in counters))
    return Append(names.log(layout.view), layout.columns, moved, "what each group gained or lost", stamped=True)
