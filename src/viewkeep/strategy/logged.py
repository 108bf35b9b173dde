"""Reading what a run has changed, and what a view's log remembers, as plans.

A view of rows: every stored row has the version it came in; the log has the rows that left, with
the versions they came and left in. So a row is written once when it comes and once when it goes.
A view that is stored anew at each refresh: see replaced.py.
A view of additive state: the log has what each group gained and lost, by version.
"""

from __future__ import annotations

from sqlglot import exp

from viewkeep.incremental.weighted import Weighted, keep
from viewkeep.plan.nodes import Field, Filter, Named, Node, Project, Scan
from viewkeep.plan.scalars import Scalar, column, integer
from viewkeep.strategy import names
from viewkeep.strategy.layout import Layout
from viewkeep.strategy.program import Append, Stage

_VERSION = (Field(names.VERSION, "BIGINT"), names.VERSION)
_BORN = (Field(names.BORN, "BIGINT"), names.BORN)
_WEIGHT = Field(names.WEIGHT, "INTEGER")


def this_version() -> Scalar:
    """The version of the run under way: a parameter of the program."""
    return exp.Placeholder(this=names.RUN)


def append_rows(layout: Layout, rows: Node, why: str) -> Append:
    return Append(names.backing(layout.view), layout.columns, rows, why, stamp=names.BORN)


def stage_change(layout: Layout, change: Weighted, why: str) -> Stage:
    """Keep a weighted change of the stored rows for the steps that apply it."""
    weight = Named(_WEIGHT, change.weight_scalar)
    source = Project(change.node, (weight, *keep(layout.stored)))
    return Stage(names.stage(layout.view, "change"), (names.WEIGHT, *layout.columns), source, why)


def staged(layout: Layout, sign: str, columns: tuple[str, ...] | None = None) -> Node:
    """The staged rows that come (`>`) or go (`<`), or only some columns of them."""
    fields = ((_WEIGHT, names.WEIGHT), *zip(layout.stored, layout.columns, strict=True))
    compare = exp.GT if sign == ">" else exp.LT
    some = Filter(
        Scan(names.stage(layout.view, "change"), fields), compare(this=column(names.WEIGHT), expression=integer(0))
    )
    by_name = dict(zip(layout.columns, layout.stored, strict=True))
    return Project(some, tuple(Named(by_name[c], column(by_name[c].id)) for c in columns or layout.columns))


def state_log(layout: Layout) -> Scan:
    """The log of a view of additive state."""
    return Scan(names.log(layout.view), (_VERSION, *zip(layout.stored, layout.columns, strict=True)))


def state_logged_now(layout: Layout) -> Node:
    """What this run logged of each group."""
    some = Filter(state_log(layout), exp.EQ(this=column(names.VERSION), expression=this_version()))
    return Project(some, keep(layout.stored))


def came_since(layout: Layout, since: int) -> Node:
    """Stored rows that were not there at a version."""
    rows = Scan(names.backing(layout.view), (_BORN, *zip(layout.stored, layout.columns, strict=True)))
    return Project(Filter(rows, _later(names.BORN, since)), keep(layout.stored))


def left_since(layout: Layout, since: int) -> Node:
    """Rows that were there at a version and left after it."""
    rows = Scan(names.log(layout.view), (_VERSION, _BORN, *zip(layout.stored, layout.columns, strict=True)))
    there = exp.Not(this=exp.paren(_later(names.BORN, since)))
    return Project(Filter(rows, exp.and_(_later(names.VERSION, since), there)), keep(layout.stored))


def _later(version: str, since: int) -> Scalar:
    return exp.GT(this=column(version), expression=integer(since))
