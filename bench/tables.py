"""What a benchmark hands back: raw numbers in tables, so that one place formats them for every reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

TEXT, COUNT, MS, RATIO, PERCENT = "text", "count", "ms", "ratio", "percent"
"""How a column's raw values are shown. Times are seconds in the data and milliseconds on paper."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: str = TEXT


@dataclass(slots=True)
class Table:
    """Columns, rows of raw values, and the notes that a reader needs to judge them."""

    title: str
    columns: tuple[Column, ...]
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    notes: tuple[str, ...] = ()

    def add(self, *values: Any) -> None:
        if len(values) != len(self.columns):
            raise ValueError(f"table {self.title!r} has {len(self.columns)} columns, not {len(values)}")
        self.rows.append(values)

    def column(self, name: str) -> list[Any]:
        at = [c.name for c in self.columns].index(name)
        return [row[at] for row in self.rows]

    def shown(self) -> list[list[str]]:
        return [[show(v, c.kind) for v, c in zip(row, self.columns, strict=True)] for row in self.rows]

    def as_json(self) -> dict[str, Any]:
        names = [c.name for c in self.columns]
        return {
            "title": self.title,
            "rows": [dict(zip(names, row, strict=True)) for row in self.rows],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class Result:
    """All tables of one benchmark."""

    name: str
    about: str
    tables: Sequence[Table]
    warning: str | None = None
    """Why its times cannot be trusted, if they cannot."""


def show(value: Any, kind: str) -> str:
    """A raw value as text.

    >>> show(0.0312, MS), show(1000, COUNT), show(None, RATIO), show(0.005, PERCENT)
    ('31.2', '1,000', '–', '0.5 %')
    """
    if value is None:
        return "–"
    match kind:
        case "ms":
            return f"{value * 1000:,.1f}" if value < 0.1 else f"{value * 1000:,.0f}"
        case "count":
            return f"{value:,}"
        case "ratio":
            return f"{value:.2f}"
        case "percent":
            return f"{value * 100:.3g} %"
    return str(value)


def verdict(value: float, limit: float, quick: bool) -> str:
    """Whether a target is met; tiny sizes measure fixed costs only and are not judged."""
    if quick:
        return "not judged"
    return "met" if value <= limit else "missed"
