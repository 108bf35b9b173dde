"""Batches of changes from Arrow: checked against their table before anything is done with them."""

from __future__ import annotations

import pyarrow as pa

from viewkeep.catalog import Table
from viewkeep.errors import ChangeError, nearest

WEIGHT = "_w"


def check_load(table: Table, data: pa.Table) -> None:
    _check_columns(table, [n for n in data.column_names if n != WEIGHT])
    if WEIGHT in data.column_names:
        raise ChangeError(f"load() takes rows without a {WEIGHT!r} column", hint="use apply() for weighted changes")


def check_batch(table: Table, data: pa.Table) -> pa.Table:
    """The rows of a weighted batch, without their weights."""
    if WEIGHT not in data.column_names:
        raise ChangeError(
            f"the batch for {str(table.name)!r} has no weight column {WEIGHT!r}", hint="+n inserts, -n deletes"
        )
    if not pa.types.is_integer(data.schema.field(WEIGHT).type) or data.column(WEIGHT).null_count:
        raise ChangeError(f"weights must be whole numbers, none of them NULL; column {WEIGHT!r} is not")
    payload = data.drop_columns([WEIGHT])
    _check_columns(table, payload.column_names)
    return payload


def _check_columns(table: Table, given: list[str]) -> None:
    known = {c.name.lower(): c.name for c in table.columns}
    folded = [g.lower() for g in given]
    for name in given:
        if name.lower() not in known:
            raise ChangeError(f"table {str(table.name)!r} has no column {name!r}", hint=nearest(name, known.values()))
        if folded.count(name.lower()) > 1:
            raise ChangeError(f"the batch has column {name!r} twice")
    if missing := [n for f, n in known.items() if f not in folded]:
        raise ChangeError(
            f"the batch for {str(table.name)!r} lacks column {', '.join(map(repr, missing))}",
            hint="give all columns of the table; NULL where there is no value",
        )


def named_as(table: Table, data: pa.Table) -> pa.Table:
    """The batch's columns in the table's order, spelled as the table spells them."""
    at = {n.lower(): i for i, n in enumerate(data.column_names)}
    return pa.table([data.column(at[c.name.lower()]) for c in table.columns], names=[c.name for c in table.columns])
