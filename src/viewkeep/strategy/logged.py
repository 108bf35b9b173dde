"""Reading a view's own change log back, as plans."""

from __future__ import annotations

from sqlglot import exp

from viewkeep.incremental.weighted import WEIGHT_TYPE
from viewkeep.plan.nodes import Field, Filter, Named, Node, Project, Scan
from viewkeep.plan.scalars import Scalar, column, integer
from viewkeep.strategy import names
from viewkeep.strategy.layout import Layout

_VERSION = Field(names.VERSION, "BIGINT")
_WEIGHT = Field(names.WEIGHT, WEIGHT_TYPE)


def log_scan(layout: Layout, weighted: bool = True) -> Scan:
    """The whole log; a log of additive state has no weight column."""
    head = ((_VERSION, names.VERSION), (_WEIGHT, names.WEIGHT)) if weighted else ((_VERSION, names.VERSION),)
    return Scan(names.log(layout.view), (*head, *zip(layout.stored, layout.columns, strict=True)))


def this_version() -> Scalar:
    """The version of the run under way, read where it is needed, so that programs have no parameters."""
    return exp.select(exp.column("version")).from_(exp.table_(names.CLOCK.name, db=names.CLOCK.schema)).subquery()


def logged_now(layout: Layout, sign: str | None, columns: tuple[str, ...] | None = None) -> Node:
    """What this run logged, inserted (`>`) or deleted (`<`) rows, as rows of the backing table."""
    node: Node = log_scan(layout, weighted=sign is not None)
    node = Filter(node, exp.EQ(this=column(names.VERSION), expression=this_version()))
    if sign is not None:
        compare = exp.GT if sign == ">" else exp.LT
        node = Filter(node, compare(this=column(names.WEIGHT), expression=integer(0)))
    by_name = dict(zip(layout.columns, layout.stored, strict=True))
    return Project(node, tuple(Named(by_name[c], column(by_name[c].id)) for c in columns or layout.columns))


def logged_since(layout: Layout, since: int, weighted: bool) -> Node:
    """What was logged after a version."""
    node = log_scan(layout, weighted)
    return Filter(node, exp.GT(this=column(names.VERSION), expression=integer(since)))
