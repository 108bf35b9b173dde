"""A change that has been computed: in files, in the driver, or in both where it is small."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from viewkeep.engine.table_format import DataFile, NewFile
from viewkeep.runtime.lake.pruning import Values, distinct

MOST_ROWS = 200_000
"""Of a change that is looked at in the driver."""


@dataclass(slots=True)
class Staged:
    location: str
    folder: str
    """Relative to the location."""
    files: tuple[DataFile, ...]
    known: pa.Table | None
    """Its rows, where they are few."""

    @staticmethod
    def of(location: str, written: Sequence[NewFile]) -> Staged:
        files = tuple(DataFile(os.path.join(location, f.path), f.rows, f.size) for f in written)
        return Staged(location, os.path.dirname(written[0].path), files, read_small(files))

    @property
    def rows(self) -> int:
        return sum(f.rows for f in self.files)

    def values(self, column: str, keep: Callable[[pa.Table], pa.Array] | None = None) -> Values | None:
        """The values of a column, of the rows to keep; None where they are not known."""
        if self.known is None:
            return None
        rows = self.known if keep is None else self.known.filter(keep(self.known))
        return distinct(rows.column(column))

    def count(self, condition: Callable[[pa.Table], pa.Array]) -> int | None:
        if self.known is None:
            return None
        return int(pc.sum(condition(self.known).cast(pa.int64())).as_py() or 0)

    def discard(self) -> None:
        if not self.files:
            return  # it was only ever in the driver
        shutil.rmtree(os.path.join(self.location, self.folder), ignore_errors=True)


def read_small(files: Sequence[DataFile], columns: list[str] | None = None) -> pa.Table | None:
    """The rows of a few small files; None where they are too many."""
    if sum(f.rows for f in files) > MOST_ROWS:
        return None
    parts = [pq.ParquetFile(f.path).read(columns) for f in files]
    # Files of one table may differ in what they say of NULLs, or in the width of a type.
    return pa.concat_tables(parts, promote_options="permissive") if parts else None
