"""One place that turns every viewkeep error into a message and an exit status."""

from __future__ import annotations

from typing import Any

import typer
from rich.text import Text
from typer.core import TyperGroup

from viewkeep.cli.console import err
from viewkeep.errors import ViewkeepError


class Commands(TyperGroup):
    """The group of all commands: none of them has to catch anything itself."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ViewkeepError as error:
            show(error)
            raise typer.Exit(1) from None


def show(error: ViewkeepError) -> None:
    """The fact, where it is, and what to do about it, each on a line of its own."""
    console = err()
    lines = [("error", error.fact, "bold red")]
    if error.position:
        lines.append(("at", str(error.position), "bold"))
    if error.hint:
        lines.append(("hint", error.hint, "bold cyan"))
    for label, text, style in lines:
        console.print(Text.assemble((f"{label:>5}: ", style), text), soft_wrap=True)
