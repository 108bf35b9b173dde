"""A query over a few rows in the driver, answered by DuckDB: in milliseconds, where a Spark job takes a hundred."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import pyarrow as pa

from viewkeep.errors import EngineError


class Local:
    """A database in memory that holds nothing of its own."""

    def __init__(self) -> None:
        self._connection: duckdb.DuckDBPyConnection | None = None

    def query(self, text: str, relations: Mapping[str, pa.Table]) -> pa.Table:
        if self._connection is None:
            self._connection = duckdb.connect()
        for name, rows in relations.items():
            self._connection.register(name, rows)
        try:
            return self._connection.sql(text).to_arrow_table()
        except duckdb.Error as error:
            raise EngineError(" ".join(str(error).split())) from error
        finally:
            for name in relations:
                self._connection.unregister(name)


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
