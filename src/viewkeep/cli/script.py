"""Run a script statement by statement, so that every result is shown and not only the last."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from rich.text import Text

from viewkeep import Keeper, RefreshReport
from viewkeep.cli import render
from viewkeep.cli.console import err, out, working
from viewkeep.errors import ViewkeepError
from viewkeep.sql.parse import split


def run_script(keeper: Keeper, script: str, dialect: str | None, limit: int | None) -> None:
    statements = list(split(script, dialect or keeper.dialect))
    silent = True
    for number, statement in enumerate(statements, start=1):
        try:
            with working(f"statement {number} of {len(statements)}"):
                result = keeper.sql(_in_place(script, statement.tokens[0].start, statement.text), dialect)
        except ViewkeepError:
            if len(statements) > 1:
                err().print(Text(f"statement {number} of {len(statements)} failed", "dim"))
            raise
        silent = _print(result, limit) and silent
    if silent:
        plural = "" if len(statements) == 1 else "s"
        out().print(Text(f"ok, {len(statements)} statement{plural}", "dim"))


def _in_place(script: str, start: int, statement: str) -> str:
    """The statement behind as many lines and columns as in the script: positions in errors are the script's.

    >>> _in_place("SELECT 1;\\n  SELECT 2", 12, "SELECT 2")
    '\\n  SELECT 2'
    """
    before = script[:start]
    column = start - (before.rfind("\n") + 1)
    return "\n" * before.count("\n") + " " * column + statement


def _print(result: Any, limit: int | None) -> bool:
    """Whether there was nothing to print."""
    match result:
        case None:
            return True
        case pa.Table():
            if not result.column_names:
                return True
            render.print_rows(result, limit)
        case RefreshReport():
            render.print_refreshes([result])
        case _:
            print(result)
    return False
