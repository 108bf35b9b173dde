"""From what the user typed after --db to an open Keeper."""

from __future__ import annotations

import os
from pathlib import Path

import viewkeep
from viewkeep.errors import ConnectError, nearest

_MEMORY = (":memory:", "duckdb://")
_OWN, _LOG = "_viewkeep", "_delta_log"


def url_of(db: str) -> str:
    """A connection URL; a plain path means a DuckDB file, unless it is a folder of Delta tables.

    >>> url_of("duckdb:///data/shop.duckdb"), url_of(":memory:")
    ('duckdb:///data/shop.duckdb', 'duckdb://')
    >>> url_of("shop.duckdb").endswith("/shop.duckdb")
    True
    """
    if db in _MEMORY:
        return "duckdb://"
    if "://" in db:
        return db
    path = Path(db).expanduser().absolute()
    # Absolute, behind a full "duckdb:///": the same file however the URL's slashes are counted.
    return f"{'spark' if is_warehouse(path) else 'duckdb'}:///{path.as_posix()}"


def open_database(db: str, create: bool = False) -> viewkeep.Keeper:
    """Open `db`; unless `create`, a database that is not there is an error and stays not there."""
    url = url_of(db)
    path = _path_of(url)
    if url.startswith("spark://"):
        if path is None:
            return viewkeep.connect(url)
        if not create or path.exists():
            _check_warehouse(path, create)
        # Status, history, plans and unchanged views are in the logs: Spark starts if there is more to do.
        return viewkeep._connect_lake(None, str(path), lazily=True)
    if path is not None and path.is_dir():
        raise ConnectError(
            f"{str(path)!r} is a folder, not a database file",
            hint=f"give the file in it; spark:///{path} makes it a warehouse of Delta tables",
        )
    if not create and path is not None and not path.is_file():
        raise ConnectError(f"database file {str(path)!r} does not exist", hint=_hint(path))
    return viewkeep.connect(url)


def is_warehouse(folder: Path) -> bool:
    """Whether viewkeep has been in a folder, or Delta tables are."""
    return folder.is_dir() and ((folder / _OWN).is_dir() or _has_tables(folder))


def _has_tables(folder: Path) -> bool:
    if not os.access(folder, os.R_OK | os.X_OK):
        return False
    return any((inner / _LOG).is_dir() or any(inner.glob(f"*/{_LOG}")) for inner in folder.iterdir() if inner.is_dir())


def _check_warehouse(folder: Path, create: bool) -> None:
    if not folder.exists():
        raise ConnectError(f"warehouse {str(folder)!r} does not exist", hint=_hint(folder))
    if not folder.is_dir():
        raise ConnectError(f"{str(folder)!r} is a file, not a warehouse folder", hint="a DuckDB file needs no spark://")
    if (folder / _LOG).is_dir():
        raise ConnectError(f"{str(folder)!r} is a Delta table, not a warehouse", hint=f"give {str(folder.parent)!r}")
    if not create and not is_warehouse(folder):
        raise ConnectError(f"there are no Delta tables in {str(folder)!r}", hint=_NEW)


def _path_of(url: str) -> Path | None:
    """The file or folder that would be opened; None for memory and for other engines.

    >>> str(_path_of("duckdb:///shop.duckdb")), str(_path_of("spark:////data")), _path_of("duckdb://")
    ('shop.duckdb', '/data', None)
    """
    scheme, _, rest = url.partition("://")
    # As viewkeep.connect reads it: three slashes and a relative path, four and an absolute one.
    inner = rest.removeprefix("/")
    return Path(inner).expanduser() if inner and scheme in ("duckdb", "spark") else None


_NEW = "check --db and VIEWKEEP_DB; 'viewkeep sql' makes a new database"


def _hint(missing: Path) -> str:
    if not missing.parent.is_dir():
        return f"folder {str(missing.parent)!r} does not exist either"
    near = nearest(missing.name, (p.name for p in missing.parent.iterdir() if not p.name.startswith(".")))
    return near or _NEW
