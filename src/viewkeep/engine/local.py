"""A query over rows in the driver, or in a few files, answered by DuckDB: in milliseconds, where a Spark job takes a
hundred."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from viewkeep.errors import EngineError

_PATTERN = re.compile(r"[*?\[\]{}]")
_PLACE = ("file_index", "file_row_number")
"""What DuckDB knows of each row of a file, unless the file has columns of these names."""


@dataclass(frozen=True, slots=True)
class Files:
    """Parquet files with the same columns; at least one."""

    paths: Sequence[str]
    place: tuple[str, str] | None = None
    """Names for two more columns: the number of a row's file among these, and its own in there."""


class Local:
    """A database in memory that holds nothing of its own. Threads may ask at the same time."""

    def __init__(self) -> None:
        self._connection: duckdb.DuckDBPyConnection | None = None

    def query(self, text: str, relations: Mapping[str, pa.Table | Files], most: int | None = None) -> pa.Table:
        """The answer, or some rows of it if there are more than `most`: one more than that."""
        with self._knowing(relations) as session:
            rows = session.sql(text)
            return (rows if most is None else rows.limit(most + 1)).to_arrow_table()

    @contextmanager
    def _knowing(self, relations: Mapping[str, pa.Table | Files]) -> Iterator[duckdb.DuckDBPyConnection]:
        """A session in which the relations have their names."""
        if self._connection is None:
            self._connection = duckdb.connect()
        with self._connection.cursor() as session:
            try:
                for name, rows in relations.items():
                    session.register(name, _scan(session, rows) if isinstance(rows, Files) else rows)
                yield session
            except duckdb.Error as error:
                raise EngineError(" ".join(str(error).split())) from error


def can_be_named(path: str) -> bool:
    """Whether a path means one file: some signs in it would be taken for a pattern."""
    return not _PATTERN.search(path)


def can_be_told_apart(columns: Iterable[str]) -> bool:
    """Whether of rows with these columns it can be asked where they are."""
    return not {name.lower() for name in columns}.intersection(_PLACE)


def _scan(session: duckdb.DuckDBPyConnection, files: Files) -> duckdb.DuckDBPyRelation:
    # Folders may have names like a=1, from which DuckDB would make columns.
    rows = session.read_parquet(list(files.paths), hive_partitioning=False)
    if files.place is None:
        return rows
    place = (duckdb.ColumnExpression(own).alias(name) for own, name in zip(_PLACE, files.place, strict=True))
    return rows.select(duckdb.StarExpression(), *place)


def is_simple(kind: pa.DataType) -> bool:
    """Whether values of a type are compared, grouped and added alike by DuckDB and Spark.

    Left out: floating point, whose NaN and −0.0 engines treat in ways of their own, and nested values.
    """
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_string(kind)
        or pa.types.is_date(kind)
        or pa.types.is_decimal128(kind)
        or pa.types.is_timestamp(kind)
    )
