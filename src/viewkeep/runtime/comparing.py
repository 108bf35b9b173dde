"""What a proof compares: rows as bags, doubles with a stated tolerance."""

from __future__ import annotations

import collections
import math
from typing import Any

import pyarrow as pa

TOLERANCE = 1e-9
"""Doubles may differ by this much, relative to their size: addition in another order is not exact."""
SHOWN = 10
"""Rows that a report shows of what is missing or too much."""


def without_rounding(missing: pa.Table, extra: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Drop pairs of rows that differ only by rounding in their DOUBLE columns."""
    floats = [i for i, f in enumerate(missing.schema) if pa.types.is_floating(f.type)]
    floats = floats or [i for i, f in enumerate(extra.schema) if pa.types.is_floating(f.type)]
    if not floats or not missing.num_rows or not extra.num_rows:
        return missing, extra
    waiting: dict[Any, list[tuple[int, list[Any]]]] = collections.defaultdict(list)
    for at, row in enumerate(zip(*(c.to_pylist() for c in extra.columns), strict=True)):
        waiting[_rest(row, floats)].append((at, [row[i] for i in floats]))
    lost, matched = [], set()
    for at, row in enumerate(zip(*(c.to_pylist() for c in missing.columns), strict=True)):
        candidates = waiting[_rest(row, floats)]
        values = [row[i] for i in floats]
        found = next((c for c in candidates if all(map(_close, values, c[1]))), None)
        if found is None:
            lost.append(at)
        else:
            candidates.remove(found)
            matched.add(found[0])
    left = [i for i in range(extra.num_rows) if i not in matched]
    return missing.take(pa.array(lost, pa.int64())), extra.take(pa.array(left, pa.int64()))


def _rest(row: tuple[Any, ...], floats: list[int]) -> str:
    return repr([v for i, v in enumerate(row) if i not in floats])


def _close(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
