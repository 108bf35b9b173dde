"""Bulk changes from Arrow: checked against the table first, then applied whole or not at all."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from viewkeep.catalog import Table, TableName
from viewkeep.emit.setup import drop_temporary
from viewkeep.emit.statements import program_sql
from viewkeep.engine.protocol import Engine
from viewkeep.errors import ChangeError, EngineError
from viewkeep.incremental.weighted import Weighted, to_units
from viewkeep.plan.nodes import Field, Filter, Fresh, Named, Node, Project, Scan
from viewkeep.plan.scalars import column, integer
from viewkeep.runtime.batches import WEIGHT, check_batch, check_load, named_as
from viewkeep.strategy.program import Append, DeleteMatching, Program, Stage

_BATCH = TableName("_vk_batch")
_UNITS = TableName("_vk_units")


def load_batch(engine: Engine, table: Table, data: pa.Table) -> int:
    """Append all rows; how many."""
    check_load(table, data)
    columns = tuple(c.name for c in table.columns)
    source = Scan(_BATCH, tuple((Field(f"c_{i}"), n) for i, n in enumerate(columns)))
    step = Append(table.name, columns, source, "the loaded rows")
    with engine.bound(_BATCH.name, named_as(table, data)), engine.transaction():
        _run(engine, table, Program((step,)))
    return int(data.num_rows)


def apply_batch(engine: Engine, table: Table, data: pa.Table) -> tuple[int, int]:
    """Net the batch, remove what it removes, add what it adds; how many of each."""
    payload = check_batch(table, data)
    renamed = named_as(table, payload).append_column(WEIGHT, data.column(WEIGHT))
    columns = tuple(c.name for c in table.columns)
    steps = _apply_steps(table, columns)
    with engine.bound(_BATCH.name, renamed), engine.transaction():
        counts = _run(engine, table, Program(steps))
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
