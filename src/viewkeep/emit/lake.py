"""The maintenance program of a view on a lake as text: the queries that run there, in order, each under a
comment that says what its relations stand for and what becomes of its rows.

There is no statement that changes a table: rows are written as files, and a commit to the log of the
view's own table puts them in place of others. Where few rows changed, Spark runs the change query only as far
as its last grouping, and the driver does the rest.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Protocol

from viewkeep.catalog import TableName
from viewkeep.emit.files import DIALECT, Compiled, Program, Programs, Text
from viewkeep.emit.select import table_text
from viewkeep.incremental.weighted import Edge
from viewkeep.plan.nodes import State
from viewkeep.strategy import names
from viewkeep.strategy.files import CHANGE, TOUCHED
from viewkeep.strategy.layout import BagLayout
from viewkeep.strategy.pruning import Origin, Relation
from viewkeep.strategy.shape import Shape

PREFIX = "_vk_"
_WIDTH = 110
_STATES = {
    State.NEW: "{} now",
    State.OLD: "{} as it was at the last refresh",
    State.DELTA: "what {} gained (_vk_weight 1) and lost (-1) since the last refresh",
}
_COMMITTED = "one commit adds them, removes {}, and says how far the view now is in its sources"


class CompiledOnLake(Compiled, Protocol):
    edges: tuple[Edge, ...]

    def every_change(self) -> Shape: ...

    def every_change_guarded(self) -> Shape: ...


def lake_program(compiled: CompiledOnLake, guarded: bool) -> list[str]:
    """`guarded`: foreign keys are relied on where a query finds that they can be."""
    programs = Programs(compiled, PREFIX, pretty=True)
    contents = programs.contents()
    if compiled.query is None:
        return [_statement(compiled, "setup and every refresh: all rows, in place of the files before", contents)]
    found = [
        _statement(
            compiled, "setup: the stored rows, as the first version of a Delta table; also each recompute", contents
        ),
        _statement(compiled, "read: what users see of the stored rows", programs.shown()),
    ]
    if guarded:
        every = compiled.every_change_guarded()
        assert every.guard is not None
        guard = programs.guard(compiled.edges, every)
        assert guard is not None
        why = f"refresh: foreign keys that must not be relied on this time; its rows are {every.guard} below"
        return [*found, _statement(compiled, why, guard), *refresh_texts(compiled, programs.refresh(every))]
    every = compiled.every_change()
    if isinstance(compiled.layout, BagLayout) and compiled.monotone:
        found += refresh_texts(compiled, programs.refresh(Shape.of(every.changed, frozenset())))
    return found + refresh_texts(compiled, programs.refresh(every))


def refresh_texts(compiled: Compiled, program: Program) -> list[str]:
    return [_statement(compiled, why, text) for why, text in _steps(program)]


def _steps(program: Program) -> Iterator[tuple[str, Text]]:
    plan, change, rows, anew = program.plan, program.change, program.rows, program.anew
    if change is None:
        assert rows is not None  # foreign keys can prove that there is nothing; here none is relied on
        yield f"refresh, if rows only came: the new rows; {_COMMITTED.format('nothing')}", rows
        return
    if plan.counted:
        yield (
            "refresh: what each affected group gains or loses; one job with the next query if the view is small",
            change,
        )
        why = "refresh: stored groups and their changes, added up; those with _vk_rows > 0 are written"
    elif plan.recorded:
        yield "refresh: the change of the view; written beside it, for views above and for `changes`", change
        why = "refresh: touched rows that stay, and rows that come"
    else:
        yield "refresh: affected groups, their state before and what is added to it", change
        why = "refresh: touched groups that stay, and those that follow from the change"
    committed = _COMMITTED.format("the touched files")
    if rows is not None:
        yield f"{why}; {committed}" if anew is None else why, rows
    if anew is not None:
        which = f"refresh: groups that must be computed from the tables, if there are any ({plan.hit})"
        yield f"{which}; written with the rows above; {committed}", anew


def _statement(compiled: Compiled, why: str, text: Text) -> str:
    lines = textwrap.wrap(why, _WIDTH, initial_indent="-- ", subsequent_indent="-- ")
    for name, relation in text.relations.items():
        meaning = f"{name}: {_meaning(compiled.view, relation)}"
        lines += textwrap.wrap(meaning, _WIDTH, initial_indent="--   ", subsequent_indent="--     ")
    first = [f"CACHE TABLE {table_text(TableName(name), DIALECT)} AS\n{sql};" for name, sql in text.steps.items()]
    return "\n".join([*lines, *first, text.sql])


def _meaning(view: TableName, relation: Relation) -> str:
    if relation.table == CHANGE:
        return "the change, computed once"
    if relation.table == TOUCHED:
        return "the stored rows of those files that can hold a row of the change"
    if relation.table == names.backing(view):
        return "the stored rows"
    found = _STATES[relation.state].format(relation.table)
    if relation.keys:
        wanted = " and ".join(f"{column} is {_values(origin)}" for column, origin in relation.keys)
        found += f", only where {wanted}, if there are few of those"
    return found


def _values(origin: Origin) -> str:
    return f"some {origin.column} of {'the change' if origin.table == CHANGE else f'the changes of {origin.table}'}"
