"""The results for eyes (rich), for scripts (JSON) and for the repository (Markdown)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from bench.tables import TEXT, Result, Table

RESULTS = Path(__file__).parent / "results"
_STYLES = {"met": "[green]met[/]", "missed": "[red]missed[/]"}


def print_machine(console: Console, facts: Mapping[str, str], command: str) -> None:
    console.print(f"[bold]{command}[/]")
    console.print(", ".join(f"{name} {value}" for name, value in facts.items()), highlight=False)


def print_result(console: Console, result: Result) -> None:
    console.rule(f"[bold]{result.name}[/]: {result.about}", align="left")
    if result.warning:
        console.print(f"[yellow]{result.warning}[/]", highlight=False)
    for table in result.tables:
        shown = RichTable(title=table.title, title_justify="left", title_style="", box=box.SIMPLE_HEAD)
        for column in table.columns:
            shown.add_column(column.name, justify="left" if column.kind == TEXT else "right")
        for row in table.shown():
            shown.add_row(*(_STYLES.get(cell, cell) for cell in row))
        console.print(shown)
        for note in table.notes:
            console.print(f"  {note}", style="dim")


def save_json(results: Iterable[Result], facts: Mapping[str, str], command: str, path: Path) -> None:
    found = {
        r.name: {"about": r.about, "warning": r.warning, "tables": [t.as_json() for t in r.tables]} for r in results
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"command": command, "machine": dict(facts), "results": found}, indent=2, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def save_markdown(result: Result, facts: Mapping[str, str], command: str, path: Path) -> None:
    lines = [f"# {result.name}: {result.about}", ""]
    lines += [f"Made by `{command}` on: {', '.join(f'{n} {v}' for n, v in facts.items())}.", ""]
    lines += ["What the columns mean: [bench/README.md](../README.md).", ""]
    lines += [f"**{result.warning}**", ""] if result.warning else []
    for table in result.tables:
        lines += [*_markdown(table), ""]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def _markdown(table: Table) -> list[str]:
    lines = [f"**{table.title}**", "", "| " + " | ".join(c.name for c in table.columns) + " |"]
    lines.append("|" + "|".join("---" if c.kind == TEXT else "---:" for c in table.columns) + "|")
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table.shown()]
    return lines + [line for note in table.notes for line in ("", f"_{note}_")]
