"""The whole maintenance program of a view as text: setup, capture, refresh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from viewkeep.catalog import Table, TableName
from viewkeep.emit.capture import capture_sql
from viewkeep.emit.setup import setup_sql
from viewkeep.emit.statements import program_sql
from viewkeep.plan.nodes import Query
from viewkeep.strategy.layout import BagLayout, GroupLayout
from viewkeep.strategy.program import Program


class Compiled(Protocol):
    """What is needed of a compiled view here."""

    view: TableName
    text: str
    layout: BagLayout | GroupLayout
    query: Query | None
    sources: tuple[TableName, ...]

    def program(self, changed: frozenset[str], append_only: bool) -> Program: ...

    def full_program(self) -> Program: ...


def whole_program(compiled: Compiled, sources: Sequence[Table], dialect: str) -> list[str]:
    """All statements, each under a comment that says what it is for.

    In the refresh part `_vk_delta_<table>` is the source's changes since the last refresh: rows
    with a weight `_vk_weight`, +1 inserted and −1 deleted.
    """
    text = None if compiled.query else compiled.text
    found = [f"-- setup\n{s}" for s in setup_sql(compiled.layout, dialect, text)]
    for source in sources:
        found += [f"-- capture the changes of {source.name}\n{s}" for s in capture_sql(source, dialect)]
    if compiled.query is None:
        program = compiled.full_program()
    else:
        program = compiled.program(frozenset(s.folded for s in compiled.sources), append_only=False)
    found += [f"-- refresh: {s.why}\n{s.sql}" for s in program_sql(program, dialect)]
    return found
