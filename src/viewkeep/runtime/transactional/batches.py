"""Bulk changes from Arrow: checked against the table first, then applied whole or not at all."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from viewkeep.catalog import Table, TableName
from viewkeep.emit.setup import drop_temporary
from viewkeep.emit.statements import program_sql
from viewkeep.engine.protocol import Engine
from viewkeep.errors import ChangeError, EngineError, nearest
from viewkeep.incremental.weighted import Weighted, to_units
from viewkeep.plan.nodes import Field, Filter, Fresh, Named, Node, Project, Scan
from viewkeep.plan.scalars import column, integer
from viewkeep.strategy.program import Append, DeleteMatching, Program, Stage

WEIGHT = "_w"
_BATCH = TableName("_vk_batch")
_UNITS = TableName("_vk_units")


def load_batch(engine: Engine, table: Table, data: pa.Table) -> int:
    """Append all rows; how many."""
    _check_columns(table, [n for n in data.column_names if n != WEIGHT])
    if WEIGHT in data.column_names:
        raise ChangeError(f"load() takes rows without a {WEIGHT!r} column", hint="use apply() for weighted changes")
    columns = tuple(c.name for c in table.columns)
    source = Scan(_BATCH, tuple((Field(f"c_{i}"), n) for i, n in enumerate(columns)))
    step = Append(table.name, columns, source, "the loaded rows")
    with engine.bound(_BATCH.name, _named_as(table, data)), engine.transaction():
        _run(engine, table, Program("load", (step,)))
    return int(data.num_rows)


def apply_batch(engine: Engine, table: Table, data: pa.Table) -> tuple[int, int]:
    """Net the batch, remove what it removes, add what it adds; how many of each."""
    if WEIGHT not in data.column_names:
        raise ChangeError(
            f"the batch for {str(table.name)!r} has no weight column {WEIGHT!r}", hint="+n inserts, -n deletes"
        )
    if not pa.types.is_integer(data.schema.field(WEIGHT).type) or data.column(WEIGHT).null_count:
        raise ChangeError(f"weights must be whole numbers, none of them NULL; column {WEIGHT!r} is not")
    payload = data.drop_columns([WEIGHT])
    _check_columns(table, payload.column_names)
    renamed = _named_as(table, payload).append_column(WEIGHT, data.column(WEIGHT))
    columns = tuple(c.name for c in table.columns)
    steps = _apply_steps(table, columns)
    with engine.bound(_BATCH.name, renamed), engine.transaction():
        counts = _run(engine, table, Program("apply", steps))
        wanted = int(engine.execute(f'SELECT COUNT(*) FROM "{_UNITS.name}" WHERE "{WEIGHT}" < 0')[0][0])
        if counts[1] != wanted:
            raise ChangeError(
                f"the batch deletes {wanted} rows of {str(table.name)!r}; {wanted - counts[1]} of them are not there",
                hint="nothing was changed; all columns must match, NULLs included",
            )
        engine.execute(drop_temporary(_UNITS, engine.facts.dialect))
        return counts[2], counts[1]


def _apply_steps(table: Table, columns: tuple[str, ...]) -> tuple[Stage, DeleteMatching, Append]:
    fresh = Fresh()
    fields = tuple(Field(fresh(c), d.type) for c, d in zip(columns, table.columns, strict=True))
    weight = Field(fresh("w"), "INTEGER")
    batch = Weighted(Scan(_BATCH, (*zip(fields, columns, strict=True), (weight, WEIGHT))), weight.id)
    units = to_units(batch, fresh)
    ordered = Project(units.node, (*(Named(f, column(f.id)) for f in fields), Named(weight, units.weight_scalar)))
    staged = Scan(_UNITS, (*zip(fields, columns, strict=True), (weight, WEIGHT)))

    def signed(compare: type[exp.Expr]) -> Node:
        some = Filter(staged, compare(this=column(weight.id), expression=integer(0)))
        return Project(some, tuple(Named(f, column(f.id)) for f in fields))

    return (
        Stage(_UNITS, (*columns, WEIGHT), ordered, "the net change, one row a unit"),
        DeleteMatching(table.name, columns, signed(exp.LT), "one copy goes for each deleted row"),
        Append(table.name, columns, signed(exp.GT), "the new rows"),
    )


def _run(engine: Engine, table: Table, program: Program) -> list[int]:
    counts = []
    for statement in program_sql(program, engine.facts.dialect):
        try:
            found = engine.execute(statement.sql)
        except EngineError as error:
            raise ChangeError(
                f"the batch does not fit table {str(table.name)!r}: {error.fact}",
                hint=error.hint or "nothing was changed",
            ) from error
        counts.append(int(found[0][0]) if found and isinstance(found[0][0], int) else 0)
    return counts


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


def _named_as(table: Table, data: pa.Table) -> pa.Table:
    """The batch's columns in the table's order, spelled as the table spells them."""
    at = {n.lower(): i for i, n in enumerate(data.column_names)}
    return pa.table([data.column(at[c.name.lower()]) for c in table.columns], names=[c.name for c in table.columns])
