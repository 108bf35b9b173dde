"""Delta of a stored table: its recorded changes."""

from __future__ import annotations

from dataclasses import replace

from viewkeep.incremental.weighted import WEIGHT_TYPE, Context, Weighted
from viewkeep.plan.nodes import Field, Scan, State


def delta_scan(scan: Scan, context: Context) -> Weighted:
    weight = Field(context.fresh("w"), WEIGHT_TYPE)
    return Weighted(replace(scan, state=State.DELTA, weight=weight), weight.id)
