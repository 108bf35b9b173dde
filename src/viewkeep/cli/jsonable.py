"""Reports and rows as plain JSON values."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections import Counter
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa


def print_json(value: Any) -> None:
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    print(json.dumps(plain(value), indent=2, ensure_ascii=not unicode, allow_nan=False))


def plain(value: Any) -> Any:
    """What json.dumps takes: dates as ISO text, whole numbers as numbers, fractions of a DECIMAL as text.

    >>> plain({"day": date(2025, 3, 1), "n": Decimal("43"), "paid": Decimal("2.50"), "x": float("nan")})
    {'day': '2025-03-01', 'n': 43, 'paid': '2.50', 'x': 'nan'}
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Decimal():
            # By scale, not by value: a column must not be text in one row and a number in the next.
            return int(value) if value.is_finite() and value.as_tuple().exponent == 0 else str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return str(value)
        case bytes():
            return value.hex()
        case pa.Table():
            return [plain(row) for row in records(value)]
        case dict():
            return {str(k): plain(v) for k, v in value.items()}
        case list() | tuple():
            return [plain(v) for v in value]
        case _ if dataclasses.is_dataclass(value):
            return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        case _:
            return str(value)


def records(table: pa.Table) -> list[dict[str, Any]]:
    """Rows by column name; a repeated name gets a number, so that no column is lost.

    >>> records(pa.table([[1], [2]], names=["a", "a"]))
    [{'a': 1, 'a_2': 2}]
    """
    seen: Counter[str] = Counter()
    names = []
    for name in table.column_names:
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return [dict(zip(names, row, strict=True)) for row in rows(table)]


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(_values(column) for column in table.columns), strict=True))


def _values(column: pa.ChunkedArray) -> list[Any]:
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except (ValueError, OverflowError):
        # Nanoseconds, and years that Python's datetime does not have.
        return column.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]
