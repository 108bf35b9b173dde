"""Spark: relations made of files, queries over them, results written as files. SQL is never built here."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    CalendarIntervalType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
    YearMonthIntervalType,
)

from viewkeep.engine.parquet_copy import Bounds
from viewkeep.engine.spark_session import local_session
from viewkeep.engine.table_format import DataFile, NewFile
from viewkeep.errors import DOES_NOT_FIT, EngineError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import Column, DataFrame, SparkSession

DIALECT = "spark"
SPARK_ERRORS = (PySparkException, Py4JJavaError)
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_WRITTEN = "vk-"
_KEEPERS = itertools.count(1)
_GROUPS = itertools.count(1)
_KEPT_RELATIONS = 200
_SETTINGS = Lock()
"""Held while a setting of a session, which threads share, is another one for a while."""
_EXCLUDED, _MERGING = "spark.sql.optimizer.excludedRules", "org.apache.spark.sql.catalyst.optimizer.MergeSubplans"
_TOO_LARGE = "spark.driver.maxResultSize"
_NOT_FETCHED = (
    ArrayType, MapType, StructType, VariantType, CalendarIntervalType, DayTimeIntervalType, YearMonthIntervalType,
)  # fmt: skip
"""Types whose files are left to Spark."""
SIMPLE = (
    BooleanType, ByteType, ShortType, IntegerType, LongType, DecimalType, StringType, DateType, TimestampType,
    TimestampNTZType,
)  # fmt: skip
"""Types whose values the driver may group and compare: the same as `is_simple` of Arrow's."""
FEW = 200_000
"""Rows that are read in one piece."""
_PART = 500_000
"""Rows of a file, at least, that the driver writes beside others: each core one."""
_DATA_ERRORS = (
    "ARITHMETIC_OVERFLOW",
    "BINARY_ARITHMETIC_OVERFLOW",
    "CAST_INVALID_INPUT",
    "CAST_OVERFLOW",
    "DIVIDE_BY_ZERO",
    "INVALID_ARRAY_INDEX",
    "NUMERIC_VALUE_OUT_OF_RANGE",
    DOES_NOT_FIT,
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
        self._read_before: dict[Any, DataFrame] = {}

    @cached_property
    def session(self) -> SparkSession:
        return self._given or local_session()

    @cached_property
    def _context(self) -> SparkContext | None:
        return None if _is_connect(self.session) else self.session.sparkContext

    @property
    def zone(self) -> str:
        return str(self.session.conf.get("spark.sql.session.timeZone"))

    # ------------------------------------------------------------------ reading
    def files(self, files: Sequence[DataFile], schema: StructType, root: str | None = None) -> DataFrame:
        """The rows of some Parquet files. The schema is always given: finding it out would start a job.

        `root`: of a partitioned table, whose files lack the columns that it is partitioned by."""
        if not files:
            return self._empty(schema)
        # Making a relation costs some ten milliseconds, and many tables do not change between two refreshes.
        key = (schema.json(), root, *((f.path, *f.partition.items()) for f in files))
        frame = self._read_before.pop(key, None)
        if frame is None or not all(os.path.exists(f.path) for f in files):
            try:
                frame = self._read(files, schema, root)
            except SPARK_ERRORS as error:  # a file that is not there any more
                raise translate(error).hinting("the files of the table are not what its log says") from error
        self._read_before[key] = frame  # the last of all to be forgotten
        if len(self._read_before) > _KEPT_RELATIONS:
            del self._read_before[next(iter(self._read_before))]
        # In one partition, a few rows are grouped and joined without a shuffle, each of which is a job.
        return frame.coalesce(1) if sum(f.rows for f in files) <= FEW else frame

    def _empty(self, schema: StructType) -> DataFrame:
        """No rows, and known to be none when it is planned; a list of Python rows would start a Python worker."""
        key = schema.json()
        if key not in self._read_before:
            try:
                none = to_arrow_schema(schema, timezone=self.zone).empty_table()
                self._read_before[key] = self.session.createDataFrame(none, schema)
            except PySparkException:  # a type that Arrow does not have
                # Only then: Spark fails at some correlated subqueries over columns that it knows to be NULL.
                nulls = [sf.lit(None).cast(f.dataType).alias(f.name) for f in schema.fields]
                self._read_before[key] = self.session.range(0).select(*nulls)
        return self._read_before[key]

    def _read(self, files: Sequence[DataFile], schema: StructType, root: str | None) -> DataFrame:
        if root is None:
            return self.session.read.schema(schema).parquet(*map(_literally, files))
        if all(_told_by_path(f, root) for f in files):
            return self.session.read.schema(schema).option("basePath", root).parquet(*map(_literally, files))
        return self._partitions(files, schema)

    def _partitions(self, files: Sequence[DataFile], schema: StructType) -> DataFrame:
        """Values of partition columns as the log has them, where the paths of the files say something else."""
        groups: dict[tuple[tuple[str, str | None], ...], list[DataFile]] = {}
        for file in files:
            groups.setdefault(tuple(sorted(file.partition.items())), []).append(file)
        parts = []
        for values, members in groups.items():
            known = dict(values)
            inside = StructType([f for f in schema.fields if f.name not in known])
            frame = self.session.read.schema(inside).parquet(*map(_literally, members))
            columns = [
                (sf.lit(known[f.name]).cast(f.dataType) if f.name in known else col(f.name)).alias(f.name)
                for f in schema.fields
            ]
            parts.append(frame.select(*columns))
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.unionAll(part)
        return whole

    def name(self, frame: DataFrame, label: str) -> str:
        """Make a result readable in SQL; the name it got."""
        return self.register(frame, self.prefix + label)

    def register(self, frame: DataFrame, name: str) -> str:
        # Quoted: a table's name may have a schema in it, or a space.
        frame.createOrReplaceTempView("`" + name.replace("`", "``") + "`")
        self._relations.add(name)
        return name

    def sql(
        self, text: str, values: Mapping[str, Any] | None = None, steps: Mapping[str, str] = MappingProxyType({})
    ) -> DataFrame:
        """`values`: of the parameters (:name) in the text. `steps`: queries that it reads by name, computed once."""
        args = dict(values) if values else None
        try:
            for name, step in steps.items():
                # A checkpoint has no history that its readers would plan again, each of them.
                with self.counted(), self._subqueries_apart():
                    self.register(self.session.sql(step, args=args).localCheckpoint(eager=False), name)
            return self.session.sql(text, args=args)
        except SPARK_ERRORS as error:
            raise translate(error) from error

    def collect(self, frame: DataFrame) -> pa.Table:
        try:
            with self.counted():
                return frame.toArrow()
        except SPARK_ERRORS as error:
            raise translate(error) from error

    def is_data_error(self, error: BaseException) -> bool:
        cause = error.__cause__
        condition = cause.getCondition() if isinstance(cause, PySparkException) else None
        told = str(error) if condition in (None, "USER_RAISED_EXCEPTION") else condition
        return any(known in told for known in _DATA_ERRORS)

    # ------------------------------------------------------------------ writing
    def write(
        self, frame: DataFrame, location: str, folder: str = "", partitioned_by: Sequence[str] = ()
    ) -> list[NewFile]:
        """Write rows as files under a table's folder; they belong to no table until they are committed."""
        relative = os.path.join(folder, f"{_WRITTEN}{uuid.uuid4().hex}")
        target = os.path.join(location, relative)
        try:
            with self.counted():
                frame.write.partitionBy(*partitioned_by).parquet(target)
            if partitioned_by:
                return _in_partitions(location, relative)
            return written_files(location, relative)
        except SPARK_ERRORS as error:
            shutil.rmtree(target, ignore_errors=True)
            raise translate(error) from error
        except OSError as error:
            shutil.rmtree(target, ignore_errors=True)
            raise cannot_write(location, error) from error

    def write_few(self, frame: DataFrame, location: str, folder: str = "") -> list[NewFile]:
        """The same for what is expected to be few rows: the driver fetches and writes them, in half of the time."""
        if any(isinstance(f.dataType, _NOT_FETCHED) for f in frame.schema.fields):
            return self.write(frame, location, folder)
        try:
            return self.write_arrow(self.collect(frame), location, folder)
        except EngineError as error:
            if _TOO_LARGE not in str(error.__cause__):
                raise
            return self.write(frame, location, folder)

    def write_arrow(self, data: pa.Table, location: str, folder: str = "") -> list[NewFile]:
        """The same for rows that are in the driver already."""
        if not data.num_rows:
            return []
        rows = max(_PART, -(-data.num_rows // (os.cpu_count() or 1)))
        with new_folder(location, folder) as made, ThreadPoolExecutor() as cores:
            starts = range(0, data.num_rows, rows)
            paths = [made.path(number) for number, _ in enumerate(starts)]
            list(cores.map(lambda start, path: pq.write_table(data.slice(start, rows), path), starts, paths))
        return made.files

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

    @contextmanager
    def _subqueries_apart(self) -> Iterator[None]:
        """A checkpoint asks its plan for constraints. Spark 4.2 fails there, with an internal error, where it has put
        several scalar subqueries together."""
        with _SETTINGS:
            before = self.session.conf.get(_EXCLUDED, None)
            self.session.conf.set(_EXCLUDED, f"{before},{_MERGING}" if before else _MERGING)
            try:
                yield
            finally:
                if before:
                    self.session.conf.set(_EXCLUDED, before)
                else:
                    self.session.conf.unset(_EXCLUDED)

    def close(self) -> None:
        for name in self._relations:
            self.session.catalog.dropTempView(name)
        self._relations.clear()


def col(name: str) -> Column:
    """A column by its name, whatever signs are in it."""
    return sf.col("`" + name.replace("`", "``") + "`")


def _literally(file: DataFile) -> str:
    """A path for Spark, which would take some signs in it for a pattern."""
    return re.sub(r"([{}\[\]*?\\])", r"\\\1", file.path)


def _told_by_path(file: DataFile, root: str) -> bool:
    """Whether the folders of a file say what the log says of its partition, in the way that Spark reads them."""
    return _partition_of(os.path.dirname(os.path.relpath(file.path, root))) == dict(file.partition)


def _partition_of(folder: str) -> Mapping[str, str | None]:
    found: dict[str, str | None] = {}
    for part in folder.split(os.sep):
        name, _, value = part.partition("=")
        found[unquote(name)] = None if value == _NULL_PARTITION else unquote(value)
    return found


class NewFolder:
    """Files that the driver writes; they belong to no table until they are committed."""

    def __init__(self, location: str, relative: str) -> None:
        self.folder = os.path.join(location, relative)
        self.files: list[NewFile] = []
        """Known when all are written."""
        self.bounds: dict[str, Mapping[str, Bounds]] = {}
        """Of columns about which a file does not say it itself, by the file's path."""

    def path(self, number: int) -> str:
        return os.path.join(self.folder, f"part-{number}.parquet")


@contextmanager
def new_folder(location: str, folder: str = "") -> Iterator[NewFolder]:
    """A folder for the files of a table, or in one beside them; gone if anything fails."""
    relative = os.path.join(folder, f"{_WRITTEN}{uuid.uuid4().hex}")
    made = NewFolder(location, relative)
    try:
        os.makedirs(made.folder)
        yield made
        made.files += written_files(location, relative, made.bounds)
    except BaseException as error:
        shutil.rmtree(made.folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise cannot_write(location, error) from error
        raise


def written_files(
    location: str, relative: str, bounds: Mapping[str, Mapping[str, Bounds]] = MappingProxyType({})
) -> list[NewFile]:
    """The files of a folder that has just been written, with the statistics that go into the log."""
    found = []
    folder = os.path.join(location, relative)
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".parquet"):
            continue
        path = os.path.join(folder, name)
        metadata = pq.read_metadata(path)
        if metadata.num_rows:
            size, statistics = os.path.getsize(path), _statistics(metadata, bounds.get(path, {}))
            found.append(NewFile(f"{relative}/{name}", metadata.num_rows, size, statistics))
    if not found:
        shutil.rmtree(folder)
    return found


def _in_partitions(location: str, relative: str) -> list[NewFile]:
    """Files that were written by partition, moved to where everybody looks for those of a partition."""
    found, folder = [], os.path.join(location, relative)
    for inside, _, files in os.walk(folder):
        for name in sorted(n for n in files if n.endswith(".parquet")):
            path = os.path.join(inside, name)
            metadata, size = pq.read_metadata(path), os.path.getsize(path)
            if metadata.num_rows:
                partition = os.path.relpath(inside, folder)
                os.makedirs(os.path.join(location, partition), exist_ok=True)
                os.replace(path, os.path.join(location, partition, name))
                new = NewFile(f"{partition}/{name}", metadata.num_rows, size, _statistics(metadata))
                found.append(replace(new, partition=_partition_of(partition)))
    shutil.rmtree(folder)
    return found


def discard(location: str, written: Sequence[NewFile]) -> None:
    """Files that were not committed after all."""
    for file in written:
        path = os.path.join(location, file.path)
        folder = os.path.dirname(path)
        if os.path.basename(folder).startswith(_WRITTEN):
            shutil.rmtree(folder, ignore_errors=True)
        elif os.path.exists(path):
            os.remove(path)


def _statistics(metadata: pq.FileMetaData, known: Mapping[str, Bounds] = MappingProxyType({})) -> str:
    low: dict[str, Any] = {n: b.low for n, b in known.items() if b.low is not None}
    high: dict[str, Any] = {n: b.high for n, b in known.items() if b.high is not None}
    nulls = {n: b.nulls for n, b in known.items()}
    unknown: set[str] = set()
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            name, found = column.path_in_schema, column.statistics
            if "." in name or (found is None and name not in known):
                unknown.add(name)
                continue
            if found is None:
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


def nullable(schema: StructType) -> StructType:
    """The same with room for NULL at every depth: what a query says of its values holds for that query alone."""
    return StructType([StructField(f.name, _with_room(f.dataType), True) for f in schema.fields])


def _with_room(kind: DataType) -> DataType:
    match kind:
        case StructType():
            return nullable(kind)
        case ArrayType():
            return ArrayType(_with_room(kind.elementType), True)
        case MapType():
            return MapType(_with_room(kind.keyType), _with_room(kind.valueType), True)
        case _:
            return kind


def _is_connect(session: SparkSession) -> bool:
    return "connect" in type(session).__module__


def translate(error: PySparkException | Py4JJavaError) -> EngineError:
    """Spark's message without its Java trace, and without the place in viewkeep that asked."""
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        said = str(cause.getMessage() or cause.toString()).split("\n\tat ")[0]
        about_files = cause.getClass().getName().startswith(("java.io.", "java.nio."))
        return EngineError(f"Spark failed: {' '.join(said.split())}", hint=_ROOM if about_files else "")
    if error.getCondition() == "USER_RAISED_EXCEPTION":
        return EngineError((error.getMessageParameters() or {}).get("errorMessage") or str(error))
    text = str(error)
    for end in ("\n\nJVM stacktrace", "\n\tat ", "== SQL", "== DataFrame"):
        text = text.split(end)[0]
    text = _IN_OUR_TEXT.split(text)[0]
    return EngineError(" ".join(text.split()))


_IN_OUR_TEXT = re.compile(r";? line \d+ pos \d+|\n'\w|\n\+- ")
"""Where Spark goes on to the place in the text that it was given, which is not the user's, and to its plan."""
_ROOM = "is there room on the disk, and may the folder be written?"


def cannot_write(location: str, error: OSError) -> EngineError:
    return EngineError(f"files cannot be written under {location!r}: {error.strerror or error}", hint=_ROOM)
