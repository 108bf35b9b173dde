"""Spark: relations made of files, queries over them, results written as files. SQL is never built here."""

from __future__ import annotations

import itertools
import json
import math
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from viewkeep.engine.spark_session import local_session
from viewkeep.engine.table_format import DataFile, NewFile
from viewkeep.errors import EngineError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

DIALECT = "spark"
_KEEPERS = itertools.count(1)
_GROUPS = itertools.count(1)
FEW = 200_000
"""Rows that are read in one piece."""
_DATA_ERRORS = (
    "ARITHMETIC_OVERFLOW",
    "BINARY_ARITHMETIC_OVERFLOW",
    "CAST_INVALID_INPUT",
    "CAST_OVERFLOW",
    "DIVIDE_BY_ZERO",
    "INVALID_ARRAY_INDEX",
    "NUMERIC_VALUE_OUT_OF_RANGE",
)


class Spark:
    """One session; the temporary relations of this keeper have a prefix of their own."""

    def __init__(self, session: SparkSession | None) -> None:
        """Without a session, the local one is started when it is first needed: much is in the logs alone."""
        self._given = session
        self.prefix = f"_vk{next(_KEEPERS)}_"
        self.jobs = 0
        """Spark jobs launched so far, where the session can tell."""
        self._relations: set[str] = set()

    @cached_property
    def session(self) -> SparkSession:
        return self._given or local_session()

    @cached_property
    def _context(self) -> SparkContext | None:
        return None if _is_connect(self.session) else self.session.sparkContext

    # ------------------------------------------------------------------ reading
    def files(self, files: Sequence[DataFile], schema: StructType, root: str | None = None) -> DataFrame:
        """The rows of some Parquet files. The schema is always given: finding it out would start a job.

        `root`: of a table whose partition columns stand in the paths of its files."""
        if not files:
            return self.session.createDataFrame([], schema)
        reader = self.session.read.schema(schema)
        if root is not None:
            reader = reader.option("basePath", root)
        frame = reader.parquet(*(f.path for f in files))
        # In one partition, a few rows are grouped and joined without a shuffle, each of which is a job.
        return frame.coalesce(1) if sum(f.rows for f in files) <= FEW else frame

    def name(self, frame: DataFrame, label: str) -> str:
        """Make a result readable in SQL; the name it got."""
        return self.register(frame, self.prefix + label)

    def register(self, frame: DataFrame, name: str) -> str:
        frame.createOrReplaceTempView(name)
        self._relations.add(name)
        return name

    def sql(self, text: str) -> DataFrame:
        try:
            return self.session.sql(text)
        except PySparkException as error:
            raise translate(error) from error

    def collect(self, frame: DataFrame) -> pa.Table:
        try:
            with self.counted():
                return frame.toArrow()
        except PySparkException as error:
            raise translate(error) from error

    def is_data_error(self, error: BaseException) -> bool:
        cause = error.__cause__
        condition = cause.getCondition() if isinstance(cause, PySparkException) else None
        return any(known in (condition or str(error)) for known in _DATA_ERRORS)

    # ------------------------------------------------------------------ writing
    def write(self, frame: DataFrame, location: str, folder: str = "") -> list[NewFile]:
        """Write rows as files under a table's folder; they belong to no table until they are committed."""
        relative = os.path.join(folder, f"vk-{uuid.uuid4().hex}") if folder else f"vk-{uuid.uuid4().hex}"
        target = os.path.join(location, relative)
        try:
            with self.counted():
                frame.write.parquet(target)
        except PySparkException as error:
            shutil.rmtree(target, ignore_errors=True)
            raise translate(error) from error
        return written_files(location, relative)

    def write_arrow(self, data: pa.Table, location: str, folder: str = "") -> list[NewFile]:
        """The same for a few rows that are in the driver already."""
        if not data.num_rows:
            return []
        relative = os.path.join(folder, f"vk-{uuid.uuid4().hex}") if folder else f"vk-{uuid.uuid4().hex}"
        target = os.path.join(location, relative)
        try:
            os.makedirs(target)
            pq.write_table(data, os.path.join(target, "part-0.parquet"))
        except OSError as error:
            shutil.rmtree(target, ignore_errors=True)
            raise EngineError(f"{target!r} cannot be written: {error}") from error
        return written_files(location, relative)

    # ------------------------------------------------------------------ counting
    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count the Spark jobs that are launched inside."""
        if self._context is None:
            yield
            return
        group = f"viewkeep-{next(_GROUPS)}"
        self._context.setJobGroup(group, "viewkeep")
        try:
            yield
        finally:
            self.jobs += len(self._context.statusTracker().getJobIdsForGroup(group))

    def close(self) -> None:
        for name in self._relations:
            self.session.catalog.dropTempView(name)
        self._relations.clear()


def written_files(location: str, relative: str) -> list[NewFile]:
    """The files of a folder that has just been written, with the statistics that go into the log."""
    found = []
    folder = os.path.join(location, relative)
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".parquet"):
            continue
        path = os.path.join(folder, name)
        metadata = pq.read_metadata(path)
        if metadata.num_rows:
            size = os.path.getsize(path)
            found.append(NewFile(f"{relative}/{name}", metadata.num_rows, size, _statistics(metadata)))
    return found


def _statistics(metadata: pq.FileMetaData) -> str:
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    unknown: set[str] = set()
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            name, found = column.path_in_schema, column.statistics
            if "." in name or found is None:
                unknown.add(name)
                continue
            if found.has_null_count:
                nulls[name] = nulls.get(name, 0) + found.null_count
            if found.has_min_max:
                low[name] = min(low[name], found.min) if name in low else found.min
                high[name] = max(high[name], found.max) if name in high else found.max
            elif found.null_count != column.num_values:
                unknown.add(name)  # values without bounds: NaN among them, perhaps
    bounds = {n for n in low if n not in unknown and _loggable(low[n]) and _loggable(high[n])}
    return json.dumps(
        {
            "numRecords": metadata.num_rows,
            "minValues": {n: _logged(low[n]) for n in bounds},
            "maxValues": {n: _logged(high[n]) for n in bounds},
            "nullCount": {n: c for n, c in nulls.items() if n not in unknown},
        }
    )


def _loggable(value: Any) -> bool:
    match value:
        case bool():
            return False
        case float():
            return math.isfinite(value)
        case Decimal():  # a log entry is JSON, whose numbers may lose a fraction's last digits
            return value == value.to_integral_value()
        case str():  # a long text would have to be cut, and a cut maximum is no maximum
            return len(value) <= 64
        case _:
            return isinstance(value, int | date | datetime)


def _logged(value: Any) -> Any:
    match value:
        case datetime():
            return value.strftime("%Y-%m-%dT%H:%M:%S.%f") + ("Z" if value.tzinfo else "")
        case date():
            return value.isoformat()
        case Decimal():
            return int(value)
        case _:
            return value


def _is_connect(session: SparkSession) -> bool:
    return "connect" in type(session).__module__


def translate(error: PySparkException) -> EngineError:
    """Spark's message without its Java trace."""
    text = str(error).split("\n\nJVM stacktrace")[0].split("\n\tat ")[0].split("== SQL")[0].strip()
    return EngineError(" ".join(text.split()))
