"""Which files of a table can hold one of a few values, by the statistics in its log."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf

from viewkeep.engine.table_format import DataFile

if TYPE_CHECKING:
    from pyspark.sql import Column

_LISTED = 300
"""Values that are told to the scan one by one; more are told as a range."""
_EVERYWHERE = 0.8
"""The part of the values, in each large file, from which on they are taken to be in every row group as well."""


@dataclass(frozen=True, slots=True)
class Values:
    """The distinct values of a column of a change, sorted, and whether NULL is one of them."""

    sorted: Sequence[Any]
    null: bool

    def may_be_in(self, file: DataFile, column: str) -> bool:
        if self.null and file.nulls.get(column, 1):
            return True
        if not self.sorted:
            return False
        low, high = file.low.get(column), file.high.get(column)
        if low is None or high is None:
            return file.nulls.get(column) != file.rows  # nothing is known, unless that all of it is NULL
        try:
            at = bisect.bisect_left(self.sorted, low)
            return at < len(self.sorted) and bool(self.sorted[at] <= high)
        except TypeError:  # the log has it in another type
            return True

    def share_in(self, file: DataFile, column: str) -> float:
        """Which part of the values lies between the smallest and the largest one of a file; 0 where that is unknown."""
        low, high = file.low.get(column), file.high.get(column)
        if low is None or high is None or not self.sorted:
            return 0.0
        try:
            return (bisect.bisect_right(self.sorted, high) - bisect.bisect_left(self.sorted, low)) / len(self.sorted)
        except TypeError:  # the log has it in another type
            return 0.0

    def condition(self, column: Column) -> Column:
        """What the scan is told, so that it can skip row groups."""
        found = sf.lit(False)
        if self.sorted:
            few = len(self.sorted) <= _LISTED
            found = column.isin(*self.sorted) if few else column.between(self.sorted[0], self.sorted[-1])
        return found | column.isNull() if self.null else found


def distinct(values: pa.ChunkedArray) -> Values | None:
    """None where values of this type cannot be compared with what a log says."""
    kind = values.type
    comparable = pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_date(kind)
    if not comparable and not pa.types.is_decimal(kind):
        return None
    found = pc.unique(values)
    return Values(sorted(found.drop_null().to_pylist()), bool(found.null_count))


def prune(files: Sequence[DataFile], wanted: Sequence[tuple[str, Values]]) -> tuple[DataFile, ...]:
    return tuple(f for f in files if all(values.may_be_in(f, column) for column, values in wanted))


def scattered(files: Sequence[DataFile], column: str, values: Values) -> bool:
    """Whether the values may be anywhere in a table. Then a scan that is told them compares every row with a list
    and skips nothing: decision 019."""
    largest = max((f.rows for f in files), default=0)
    large = [f for f in files if f.rows * 10 >= largest]
    # One large file alone says nothing about the order of the rows inside.
    return len(large) > 1 and all(values.share_in(f, column) >= _EVERYWHERE for f in large)
