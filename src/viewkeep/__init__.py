"""viewkeep: materialized views kept fresh by computing only what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viewkeep.catalog import TableName
from viewkeep.emit.program import strategy_of, whole_program
from viewkeep.emit.statements import FORMS
from viewkeep.engine.duckdb import DuckDBEngine
from viewkeep.errors import ConnectError, ViewkeepError
from viewkeep.runtime.clock import Clock
from viewkeep.runtime.compiled import compile_view
from viewkeep.runtime.keeper import Keeper
from viewkeep.runtime.reports import KeyCheck, RefreshReport, VerifyReport, ViewStatus
from viewkeep.runtime.transactional.database import TransactionalDatabase
from viewkeep.sql.parse import split
from viewkeep.sql.schema import read_schema
from viewkeep.sql.statements import CreateView, recognise
from viewkeep.strategy.form import PLAIN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__version__ = "0.1.0.dev0"
__all__ = ["Keeper", "KeyCheck", "RefreshReport", "VerifyReport", "ViewStatus", "ViewkeepError", "compile", "connect"]


def connect(
    url: str | None = None,
    *,
    spark: SparkSession | None = None,
    warehouse: str | None = None,
    clock: Clock | None = None,
) -> Keeper:
    """Open a database: `duckdb:///file.duckdb`, `duckdb://` for one in memory, `spark:///folder` for a
    warehouse of Delta tables with a Spark session of its own; or `spark=session, warehouse=folder` with yours.
    `clock` tells views that follow the current time what time it is, if not that of the machine.

    >>> keeper = connect("duckdb://")
    >>> keeper.sql("CREATE TABLE t (a INT); INSERT INTO t SELECT * FROM range(10)")
    >>> keeper.sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(a) AS total FROM t")
    >>> keeper.sql("INSERT INTO t VALUES (-2)")
    >>> keeper.refresh("v").strategy
    'classical'
    >>> keeper.query("SELECT total FROM v").to_pylist()
    [{'total': Decimal('43')}]
    """
    if spark is not None or warehouse is not None:
        if spark is None or warehouse is None or url is not None:
            raise ConnectError("a session of yours needs spark= and warehouse=, and no URL")
        return _connect_lake(spark, warehouse, clock=clock)
    scheme, separator, rest = (url or "").partition("://")
    if not separator:
        raise ConnectError(
            f"{url!r} is not a connection",
            hint="write duckdb:///file.duckdb, duckdb:// for memory, or spark:///folder",
        )
    if scheme == "duckdb":
        # duckdb:///x is the relative file x, duckdb:////x the absolute file /x, as in SQLAlchemy.
        return Keeper(TransactionalDatabase(DuckDBEngine(rest.removeprefix("/"))), clock)
    if scheme == "spark":
        folder = rest.removeprefix("/")
        if not folder:
            raise ConnectError("spark:// needs a folder", hint="spark:///folder is relative, spark:////folder absolute")
        return _connect_lake(None, folder, clock=clock)
    raise ConnectError(f"engine {scheme!r} is not available", hint="available: duckdb, spark")


def _connect_lake(
    session: SparkSession | None, folder: str, lazily: bool = False, clock: Clock | None = None
) -> Keeper:
    """Spark is a large import, and not everybody has it: only who asks for it pays.

    `lazily`: the session is started when something must be computed, and not before."""
    try:
        from viewkeep.engine.spark_session import local_session
        from viewkeep.runtime.lake.database import LakeDatabase
    except ImportError as missing:
        raise ConnectError(f"Spark is not installed ({missing.name})", hint="pip install 'viewkeep[spark]'") from None
    return Keeper(LakeDatabase(session if session or lazily else local_session(), folder), clock)


def compile(schema_sql: str, view_sql: str, dialect: str = "duckdb", strategy: str | None = None) -> list[str]:
    """The maintenance program of a view, with no engine running.

    `strategy`: 'classical', or 'foreign-key' for a program that leaves out branches of joins wherever it finds,
    at each refresh, that foreign keys can be relied on. Without it, as the view's WITH (strategy = …) says.

    >>> schema = "CREATE TABLE t (a INT, b INT)"
    >>> program = compile(schema, "CREATE MATERIALIZED VIEW v AS SELECT a, SUM(b) AS s FROM t GROUP BY a")
    >>> sorted({statement.split()[1] for statement in program})
    ['capture:', 'refresh:', 'setup:']
    """
    catalog = read_schema(schema_sql, dialect)
    statement = next(iter(split(view_sql, dialect)), None)
    own = recognise(statement, dialect) if statement else None
    create = own if isinstance(own, CreateView) else CreateView(TableName("view"), view_sql)
    form = FORMS.get(dialect, PLAIN)
    compiled = compile_view(create.name, create.query, catalog, dialect, form=form)
    wanted = strategy_of(compiled, strategy, create.options.get("strategy"))
    return whole_program(compiled, [catalog.get(s) for s in compiled.sources], dialect, wanted)
