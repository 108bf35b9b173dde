"""A Parquet file copied without some of its rows.

Texts that the file numbers in a dictionary stay numbers on the way: they are neither made again nor looked up again,
which is most of what copying them would cost. For the same reason their bounds are taken from the dictionary, and
returned: they are not in the new file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Rows = np.ndarray[tuple[int], np.dtype[np.int64]]
"""Numbers of rows, from 0."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of a column of texts. Without a value there is no lowest and no highest."""

    low: str | None = None
    high: str | None = None
    nulls: int = 0

    def __or__(self, other: Bounds) -> Bounds:
        low = [text for text in (self.low, other.low) if text is not None]
        high = [text for text in (self.high, other.high) if text is not None]
        return Bounds(min(low, default=None), max(high, default=None), self.nulls + other.nulls)


def copy_without(source: str, gone: Rows, target: str) -> Mapping[str, Bounds]:
    """The other rows stay in their order and in their row groups."""
    numbered = _numbered(pq.read_metadata(source))
    texts = [f.name for f in pq.read_schema(source) if f.name in numbered and pa.types.is_string(f.type)]
    bounds = dict.fromkeys(texts, Bounds())
    with pq.ParquetFile(source, read_dictionary=texts) as file:
        stays, schema, start = staying(file.metadata.num_rows, gone), file.schema_arrow, 0
        with pq.ParquetWriter(
            target,
            schema,
            use_dictionary=sorted(numbered),
            write_statistics=[name for name in schema.names if name not in bounds],
            store_decimal_as_integer=True,
            store_schema=False,  # it would say that texts are numbers
        ) as writer:
            for group in range(file.num_row_groups):
                rows = file.read_row_group(group, use_threads=False)
                mask, start = stays.slice(start, rows.num_rows), start + rows.num_rows
                rows = rows.filter(mask)
                if rows.num_rows:
                    writer.write_table(rows, row_group_size=rows.num_rows)
                    bounds |= {name: bounds[name] | _bounds(rows.column(name)) for name in texts}
    return bounds


def staying(rows: int, gone: Rows) -> pa.Array:
    """Which of so many rows are left, as a mask."""
    stays = np.ones(rows, dtype=bool)
    stays[gone] = False
    return pa.array(stays)


def _numbered(file: pq.FileMetaData) -> set[str]:
    """Columns with a dictionary."""
    if not file.num_row_groups:
        return set()
    columns = (file.row_group(0).column(i) for i in range(file.num_columns))
    return {column.path_in_schema for column in columns if column.has_dictionary_page}


def _bounds(texts: pa.ChunkedArray) -> Bounds:
    found = Bounds()
    for chunk in texts.chunks:
        numbers = chunk.indices
        used = np.bincount(numbers.drop_null().to_numpy(), minlength=len(chunk.dictionary)) > 0
        ends = pc.min_max(chunk.dictionary.filter(pa.array(used)))
        found |= Bounds(ends["min"].as_py(), ends["max"].as_py(), numbers.null_count)
    return found
