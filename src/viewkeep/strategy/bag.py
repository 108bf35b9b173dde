"""Programs of a view without an aggregate on top: its rows are stored as they are."""

from __future__ import annotations

from viewkeep.incremental.delta import delta
from viewkeep.incremental.weighted import Context, Weighted, keep, to_units
from viewkeep.plan.nodes import Field, Named, Project, State, scans
from viewkeep.strategy import names
from viewkeep.strategy.layout import BagLayout, Layout
from viewkeep.strategy.logged import logged_now
from viewkeep.strategy.program import Append, DeleteMatching, Program, Step


def refresh_bag(layout: BagLayout, context: Context, append_only: bool) -> Program:
    """ΔV into the log, then from the log into the view.

    `append_only`: no source lost a row and the plan cannot turn an insert into a delete, so nothing
    leaves the view. With one delta there is nothing to cancel either; with more, the old state that
    one branch reads (new minus changes) takes back what another has counted.
    """
    change = delta(layout.contents, context)
    assert change is not None
    deltas = sum(scan.state is State.DELTA for scan in scans(change.node))
    if append_only and deltas == 1:
        return Program("classical", (log_rows(layout, change, "all rows are new"), append_new(layout)))
    logged = log_rows(layout, to_units(change, context.fresh), "a row inserted and deleted is no change")
    applied = (append_new(layout),) if append_only else apply_rows(layout)
    return Program("classical", (logged, *applied))


def log_rows(layout: Layout, change: Weighted, why: str) -> Step:
    weight = Named(Field(names.WEIGHT, "INTEGER"), change.weight_scalar)
    source = Project(change.node, (weight, *keep(layout.stored)))
    return Append(names.log(layout.view), (names.WEIGHT, *layout.columns), source, why, stamped=True)


def apply_rows(layout: BagLayout) -> tuple[Step, ...]:
    return (
        DeleteMatching(
            names.backing(layout.view),
            layout.key or layout.columns,
            logged_now(layout, "<", layout.key),
            unique=layout.key is not None,
            why=layout.key_reason + ("" if layout.key else ": one copy goes for each deleted row, others stay"),
        ),
        append_new(layout),
    )


def append_new(layout: Layout) -> Step:
    return Append(names.backing(layout.view), layout.columns, logged_now(layout, ">"), "the new rows")
