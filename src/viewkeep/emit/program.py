"""The whole maintenance program of a view as text: setup, capture, refresh.

It is what viewkeep itself runs, for the case that this view is the only reader of its tables. On a lake
there is no table to change in place: there it is the queries of lake.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlglot import exp

from viewkeep.catalog import Kind, Table, TableName
from viewkeep.emit.capture import capture_sql
from viewkeep.emit.files import DIALECT as ON_LAKE
from viewkeep.emit.guard import guard_query
from viewkeep.emit.lake import CompiledOnLake, lake_program
from viewkeep.emit.select import identifier, table
from viewkeep.emit.setup import setup_sql
from viewkeep.emit.statements import out_of, program_sql, temporary
from viewkeep.errors import SqlError
from viewkeep.plan.clock import NOW, THEN
from viewkeep.strategy import names
from viewkeep.strategy.program import Program, Stage, TakeOut
from viewkeep.strategy.shape import Shape

CLASSICAL, FOREIGN_KEY = STRATEGIES = ("classical", "foreign-key")


class Compiled(CompiledOnLake, Protocol):
    """What is needed of a compiled view here."""

    def program(self, shape: Shape) -> Program: ...

    def full_program(self) -> Program: ...

    @property
    def timed(self) -> bool: ...


def whole_program(compiled: Compiled, sources: Sequence[Table], dialect: str, strategy: str = CLASSICAL) -> list[str]:
    """All statements, each under a comment that says what it is for.

    With strategy 'foreign-key' the program has both ways in it and decides at each refresh: branches are left
    out where a query over the changes finds that the foreign keys can be relied on."""
    guarded = _relies(compiled, strategy)
    if dialect == ON_LAKE:
        return lake_program(compiled, guarded)
    text = None if compiled.query else compiled.text
    found = [f"-- setup: viewkeep's own schema and clock\n{s}" for s in _clock(dialect, compiled.timed)]
    setup = setup_sql(compiled.layout, dialect, text)
    whys = ("the stored rows", "the view's own change log", "what the user reads")
    found += [f"-- setup: {why}\n{s}" for why, s in zip(whys, setup, strict=True)]
    tables = [s for s in sources if s.kind is not Kind.MATERIALIZED]
    for source in tables:
        found += [f"-- capture: changes of {source.name}\n{s}" for s in capture_sql(source, dialect)]
    clock = table(names.CLOCK).sql(dialect=dialect)
    later = f", {_column(THEN, dialect)} = {_column(NOW, dialect)}, {_column(NOW, dialect)} = CURRENT_TIMESTAMP"
    moved = f"version = version + 1{later if compiled.timed else ''}"
    found.append(f"-- refresh: a new version\nUPDATE {clock} SET {moved}")
    if compiled.query is None:
        program = compiled.full_program()
    else:
        program = compiled.program(compiled.every_change_guarded() if guarded else compiled.every_change())
        found += [_delta(source, dialect) for source in sources]
        found += [_guard(compiled, dialect)] if guarded else []
    found += [f"-- refresh: {s.why}\n{s.sql}" for s in program_sql(program, dialect, alone=True)]
    if dialect == "postgres":
        found += [_drop(step.name) for step in program.steps if isinstance(step, Stage)]
        found += [_drop(out_of(step.view)) for step in program.steps if isinstance(step, TakeOut)]
        found += [_drop(names.stage(compiled.view, "guard"))] if guarded else []
    logs = [table(names.log(s.name)).sql(dialect=dialect) for s in tables]
    return found + [f"-- refresh: the changes are consumed\nDELETE FROM {log}" for log in logs]


def strategy_of(compiled: Compiled, asked: str | None, option: str | None) -> str:
    """What the caller asks for, else what the view was made with, as far as it makes a difference."""
    return asked or (FOREIGN_KEY if option == FOREIGN_KEY and compiled.edges else CLASSICAL)


def _relies(compiled: Compiled, strategy: str) -> bool:
    """Whether the program asks for foreign keys."""
    if strategy not in STRATEGIES:
        raise SqlError(
            f"a program cannot be compiled with strategy {strategy!r}", hint=f"use one of: {', '.join(STRATEGIES)}"
        )
    if strategy == FOREIGN_KEY and not compiled.edges:
        raise SqlError(
            f"no join of view {str(compiled.view)!r} follows a foreign key",
            hint="declare foreign keys: REFERENCES, or ALTER TABLE … ADD FOREIGN KEY …",
        )
    return strategy == FOREIGN_KEY


def _guard(compiled: Compiled, dialect: str) -> str:
    """A table with a row for each doubt about a foreign key that has come true."""
    shape = compiled.every_change_guarded()
    query = guard_query([compiled.doubts(edge, shape) for edge in compiled.edges], dialect)
    assert query is not None
    assert shape.guard is not None
    lines = ["-- refresh: foreign keys that must not be relied on this time, by edge:"]
    for number, edge in enumerate(compiled.edges):
        lines.append(f"--   {number}  {edge.label}")
        about = compiled.doubts(edge, shape)
        lines += [f"--      reason {n}: {why}" for n, (_, why) in enumerate(about.reasons if about else ())]
    return "\n".join([*lines, temporary(shape.guard, query, dialect).sql(dialect=dialect, pretty=True)])


def _clock(dialect: str, timed: bool) -> list[str]:
    clock = table(names.CLOCK).sql(dialect=dialect)
    schema = identifier(names.SCHEMA).sql(dialect=dialect)
    times = "".join(f", {_column(name, dialect)} TIMESTAMPTZ" for name in (THEN, NOW)) if timed else ""
    values = ", CURRENT_TIMESTAMP, CURRENT_TIMESTAMP" if timed else ""
    return [
        f"CREATE SCHEMA IF NOT EXISTS {schema}",
        f"CREATE TABLE {clock} (version BIGINT{times})",
        f"INSERT INTO {clock} VALUES (0{values})",
    ]


def _column(name: str, dialect: str) -> str:
    return identifier(name).sql(dialect=dialect)


def _delta(source: Table, dialect: str) -> str:
    """The relation that the refresh reads as the changes of a source."""
    name, log = names.delta(source.name), names.log(source.name)
    if source.kind is Kind.MATERIALIZED:
        return f"-- refresh: {name.name} is a table of the changes of view {source.name}, made from that view's own log"
    columns = [exp.column(identifier(c)) for c in (names.WEIGHT, *(c.name for c in source.columns))]
    view = exp.Create(
        this=table(name),
        kind="VIEW",
        replace=True,
        expression=exp.select(*columns).from_(table(log)),
        properties=exp.Properties(expressions=[exp.TemporaryProperty()]),
    )
    return f"-- refresh: the changes of {source.name} since the last refresh\n{view.sql(dialect=dialect, pretty=True)}"


def _drop(name: TableName) -> str:
    return f"-- refresh: staged for this refresh only\nDROP TABLE {table(name).sql(dialect='postgres')}"
