"""Rows before and after a change, side by side, turned into weighted rows in one pass over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from sqlglot import exp

from viewkeep.catalog import Table
from viewkeep.emit.select import identifier
from viewkeep.errors import SqlError
from viewkeep.sql.parse import position_of
from viewkeep.strategy import names

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def before(position: int) -> str:
    return f"_vk_before_{position}"


def after(position: int) -> str:
    return f"_vk_after_{position}"


def old_row(table: Table, alias: str | None = None) -> list[exp.Expr]:
    """The columns of a row as it was."""
    return [
        exp.alias_(exp.column(identifier(c.name), table=identifier(alias) if alias else None), before(i))
        for i, c in enumerate(table.columns)
    ]


def assignments(table: Table, expressions: Sequence[exp.Expr]) -> dict[str, exp.Expr]:
    """SET column = value, …: the values by the table's own names of its columns."""
    found: dict[str, exp.Expr] = {}
    for assignment in expressions:
        if not isinstance(assignment, exp.EQ) or not isinstance(assignment.left, exp.Column):
            raise SqlError("SET takes column = value", position_of(assignment), "write SET column = value, …")
        name = table.column(assignment.left.name).name
        if name in found:
            raise SqlError(f"column {name!r} is set twice", position_of(assignment), "set each column once")
        found[name] = assignment.right
    return found


def weighted(frame: DataFrame, table: Table, goes: Column, comes: Column) -> DataFrame:
    """One row with weight −1 for each row that goes, one with +1 for each that comes in its place.

    The frame has the columns `before(i)` and `after(i)`; the latter get the types of the former."""
    types = {f.name: f.dataType for f in frame.schema.fields}
    columns = dict(enumerate(c.name for c in table.columns))
    old = [sf.col(before(i)).alias(c) for i, c in columns.items()]
    new = [sf.col(after(i)).cast(types[before(i)]).alias(c) for i, c in columns.items()]
    images = sf.array(
        sf.when(goes, sf.struct(sf.lit(-1).alias(names.WEIGHT), *old)),
        sf.when(comes, sf.struct(sf.lit(1).alias(names.WEIGHT), *new)),
    )
    return frame.select(sf.inline(sf.filter(images, lambda image: image.isNotNull())))
