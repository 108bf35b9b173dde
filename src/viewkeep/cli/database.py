"""From what the user typed after --db to an open Keeper."""

from __future__ import annotations

from pathlib import Path

import viewkeep
from viewkeep.errors import ConnectError, nearest

_MEMORY = (":memory:", "duckdb://")


def url_of(db: str) -> str:
    """A connection URL; a plain path means a DuckDB file.

    >>> url_of("duckdb:///data/shop.duckdb"), url_of(":memory:")
    ('duckdb:///data/shop.duckdb', 'duckdb://')
    >>> url_of("shop.duckdb").endswith("/shop.duckdb")
    True
    """
    if db in _MEMORY:
        return "duckdb://"
    if "://" in db:
        return db
    # Absolute, behind a full "duckdb:///": the same file however the URL's slashes are counted.
    return f"duckdb:///{Path(db).expanduser().absolute().as_posix()}"


def open_database(db: str, create: bool = False) -> viewkeep.Keeper:
    """Open `db`; unless `create`, a file that is not there is an error and stays not there."""
    file = _file_of(db)
    if not create and file is not None and not file.is_file():
        if file.is_dir():
            raise ConnectError(f"{str(file)!r} is a folder, not a database file", hint="give the file in it")
        raise ConnectError(f"database file {str(file)!r} does not exist", hint=_hint(file))
    return viewkeep.connect(url_of(db))


def _file_of(db: str) -> Path | None:
    """The file that would be opened; None for memory and for other engines.

    >>> str(_file_of("shop.duckdb")), _file_of(":memory:"), _file_of("spark:///data")
    ('shop.duckdb', None, None)
    """
    if url_of(db) == "duckdb://":
        return None
    scheme, separator, rest = db.partition("://")
    if not separator:
        return Path(db).expanduser()
    # As viewkeep.connect reads it: three slashes and a relative path, four and an absolute one.
    return Path(rest.removeprefix("/")).expanduser() if scheme == "duckdb" else None


def _hint(missing: Path) -> str:
    if not missing.parent.is_dir():
        return f"folder {str(missing.parent)!r} does not exist either"
    near = nearest(missing.name, (p.name for p in missing.parent.iterdir() if p.is_file()))
    return near or "check --db and VIEWKEEP_DB; 'viewkeep sql' makes a new database"
