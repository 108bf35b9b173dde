"""Recompute: the new contents from scratch, and what they differ in, so that readers of the view's
changes (views on views, subscribers) go on without a gap."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from viewkeep.incremental.weighted import Weighted, add, keep, negate, to_units
from viewkeep.plan.nodes import Aggregate, Field, Fresh, Named, Node, Project, Scan, Union
from viewkeep.plan.scalars import column
from viewkeep.strategy import names
from viewkeep.strategy.bounded import COLUMN, Bound
from viewkeep.strategy.grouped import nonzero
from viewkeep.strategy.layout import BagLayout, GroupLayout
from viewkeep.strategy.logged import append_rows, stage_change, staged
from viewkeep.strategy.program import Append, Clear, Program, Stage, Step, TakeOut
from viewkeep.strategy.replaced import replace_rows


def recompute(layout: BagLayout | GroupLayout, fresh: Fresh, text: str | None = None, logged: bool = True) -> Program:
    """`text`: the user's own query, where the view has no plan. Without the difference being logged,
    whoever reads the view's changes has to start anew."""
    contents = names.stage(layout.view, "contents")
    source: Node | str = text if text is not None else layout.contents
    stage = Stage(contents, layout.columns, source, "the view's query over the tables as they are now")
    new, old = layout.scan(contents), layout.scan()
    stamp = names.BORN if layout.dated else None
    replaced = (
        Clear(names.backing(layout.view)),
        Append(names.backing(layout.view), layout.columns, new, "the new contents", stamp),
    )
    if isinstance(layout, BagLayout) and layout.bound is not None:
        return Program((*_bound_anew(layout.bound), *recompute(replace(layout, bound=None), fresh, text, logged).steps))
    if not logged or layout.replaced:  # nothing is compared, so nothing has to be kept beside
        return Program((replace_rows(layout, source, fresh, stage.why, logged),))
    if isinstance(layout, GroupLayout) and layout.state.additive:
        return Program((stage, _state_difference(layout, new, old), *replaced))
    change = to_units(add([Weighted(new), negate(Weighted(old), fresh)], layout.stored, fresh), fresh)
    # By value where rows are no groups: a recompute may be due to a declared key that does not hold.
    match = layout.keys if isinstance(layout, GroupLayout) else ()
    return Program(
        (
            stage,
            stage_change(layout, change, "what the new contents differ in"),
            TakeOut(
                layout.view,
                layout.columns,
                match or layout.columns,
                staged(layout, "<", match or None),
                unique=bool(match),
                why="what is not in the new contents",
            ),
            append_rows(layout, staged(layout, ">"), "what is new in them"),
        ),
    )


def _bound_anew(bound: Bound) -> tuple[Step, ...]:
    why = "up to where rows are stored"
    return Clear(bound.table, why), Append(bound.table, (COLUMN,), bound.value, why)


def _state_difference(layout: GroupLayout, new: Scan, old: Scan) -> Step:
    keys, counters = layout.key_fields, layout.counters
    minus = Project(old, (*keep(keys), *(Named(f, exp.Neg(this=column(f.id))) for f in counters)))
    plus = Project(new, keep((*keys, *counters)))
    both = Union((plus, minus), (*keys, *counters))
    totals = tuple(Named(Field(f.id, f.type), exp.Sum(this=column(f.id))) for f in counters)
    summed = Project(Aggregate(both, keep(keys), totals), keep(layout.stored))
    moved = nonzero(summed, tuple(f.id for f in counters))
    return Append(names.log(layout.view), layout.columns, moved, "what each group gained or lost", names.VERSION)
