"""Programs of a view without an aggregate on top: its rows are stored as they are."""

from __future__ import annotations

from viewkeep.incremental.delta import delta
from viewkeep.incremental.netting import net_units
from viewkeep.incremental.weighted import Context, Weighted, keep, to_units
from viewkeep.plan.nodes import Project, Scan, State, count_uses
from viewkeep.strategy.layout import BagLayout
from viewkeep.strategy.logged import append_rows, stage_change, staged
from viewkeep.strategy.partitioned import partition_change
from viewkeep.strategy.program import Program, Step, TakeOut
from viewkeep.strategy.replaced import replace_rows


def refresh_bag(layout: BagLayout, context: Context, append_only: bool, keeps_changes: bool) -> Program:
    """ΔV applied to the stored rows.

    `append_only`: no source lost a row and the plan cannot turn an insert into a delete, so nothing
    leaves the view. With one delta there is nothing to cancel either; with more, the old state that
    one branch reads (new minus changes) takes back what another has counted.
    """
    if layout.replaced:
        why = "a window over all rows: all of them leave, and come anew"
        return Program((replace_rows(layout, layout.contents, context.fresh, why, keeps_changes),))
    if layout.partition is not None:
        found = partition_change(layout.contents, layout.partition, layout.scan(), context)
        return Program(() if found is None else apply_rows(layout, found))
    change = delta(layout.contents, context)
    if change is None:
        return Program(())
    if append_only:
        deltas = count_uses(change.node, lambda n: isinstance(n, Scan) and n.state is State.DELTA)
        rows = change if deltas == 1 else to_units(change, context.fresh)
        return Program((append_rows(layout, Project(rows.node, keep(layout.stored)), "all rows are new"),))
    return Program(apply_rows(layout, net_units(change, layout.key_ids, context.fresh)))


def apply_rows(layout: BagLayout, change: Weighted) -> tuple[Step, ...]:
    """Take out what goes, add what comes."""
    copies = "" if layout.key else ": one copy goes for each deleted row, others stay"
    return (
        stage_change(layout, change, "a row inserted and deleted is no change"),
        TakeOut(
            layout.view,
            layout.columns,
            layout.key or layout.columns,
            staged(layout, "<"),
            unique=layout.key is not None,
            why=layout.key_reason + copies,
            whole=layout.key is not None,
        ),
        append_rows(layout, staged(layout, ">"), "the new rows"),
    )
