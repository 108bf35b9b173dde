"""A large view is stored in the order of its key, each file with a range of its own: then a change of a
few keys is about few files, and only those are read and written again."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from itertools import pairwise

from pyspark.sql.types import (
    ByteType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
)

from viewkeep.engine.spark import Spark, col, discard
from viewkeep.engine.table_format import DataFile, NewFile

LARGE = 1_000_000
"""Rows from which a view is worth the second writing that its order costs. It is paid once: when the view
is filled, not when it is refreshed."""
ROWS_A_FILE = 250_000
_COMPARABLE = (ByteType, ShortType, IntegerType, LongType, DateType, DecimalType, StringType)


def clustered(
    spark: Spark, location: str, files: Sequence[NewFile], schema: StructType, key: Sequence[str]
) -> list[NewFile]:
    """The rows of files just written, in files that are ordered by a key. The old ones are gone then."""
    rows = sum(f.rows for f in files)
    order = [name for name in key if _comparable(schema[name].dataType)]
    if rows <= LARGE or not order or _apart(files, order[0]):
        return list(files)
    written = [DataFile(os.path.join(location, f.path), f.rows, f.size) for f in files]
    columns = [col(name) for name in order]
    frame = spark.files(written, schema).repartitionByRange(-(-rows // ROWS_A_FILE), *columns)
    try:
        return spark.write(frame.sortWithinPartitions(*columns), location)
    finally:
        discard(location, files)


def _comparable(kind: DataType) -> bool:
    """Whether a log keeps the lowest and highest value of such a column, in a form that can be compared."""
    return isinstance(kind, _COMPARABLE)


def _apart(files: Sequence[NewFile], column: str) -> bool:
    """Whether each file has a range of its own already, as rows have that come from an ordered table."""
    known = [json.loads(f.statistics) for f in files]
    ranges = [(s.get("minValues", {}).get(column), s.get("maxValues", {}).get(column)) for s in known]
    if len(files) * ROWS_A_FILE * 4 < sum(f.rows for f in files) or any(None in r for r in ranges):
        return False
    ranges.sort()
    return all(before[1] <= after[0] for before, after in pairwise(ranges))
