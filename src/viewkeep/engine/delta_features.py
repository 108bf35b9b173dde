"""Delta tables that cannot be read or written through their log alone, each refused with its reason."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from deltalake import DeltaTable

from viewkeep.engine.delta_entries import LOG, actions
from viewkeep.errors import EngineError

_READABLE = frozenset({"timestampNtz"})


def refused(location: str, table: DeltaTable) -> EngineError | None:
    """Why a table cannot be read through its log alone."""
    protocol = table.protocol()
    return _unreadable(
        location, protocol.min_reader_version, protocol.reader_features or (), table.metadata().configuration
    )


def _unreadable(
    location: str, reader: int, listed: Iterable[str], configuration: Mapping[str, str | None]
) -> EngineError | None:
    features = set(listed)
    features.discard("columnMapping")  # it may be listed and not be used
    if (configuration.get("delta.columnMapping.mode") or "none") != "none":
        features.add("columnMapping")
    if unknown := sorted(features - _READABLE):
        named = ", ".join(map(repr, unknown))
    elif reader > 3:
        named = f"reader version {reader}"
    else:
        return None
    return EngineError(
        f"table {location!r} uses the Delta feature {named}, which cannot be read through its log alone",
        hint="use a Spark session with Delta Lake's extension, or turn the feature off for this table",
    )


def rules_of(table: DeltaTable) -> list[str]:
    """Rules of a table that its writers must keep, and that files written by Spark may break."""
    configuration, schema = table.metadata().configuration, table.schema().to_json()
    rules = [f"the check constraint {c.split('.', 2)[2]!r}" for c in configuration if c.startswith(_CHECK)]
    return rules + [what for key, what in _COLUMN_RULES.items() if f'"{key}"' in schema]


def refuse_writing(location: str, table: DeltaTable) -> None:
    if rules := rules_of(table):
        raise EngineError(
            f"table {location!r} has {' and '.join(rules)}, which viewkeep cannot keep when it writes",
            hint="change this table with the program that made it; its views follow",
        )


_CHECK = "delta.constraints."
_COLUMN_RULES = {
    "delta.generationExpression": "a generated column",
    "delta.invariants": "a column invariant",
    "delta.identity.start": "an identity column",
}


def diagnosis(location: str, error: Exception) -> EngineError:
    """Why a log cannot be read, in fewer words than the reader of logs has for it."""
    reader = 0
    features: list[str] = []
    configuration: dict[str, str] = {}
    try:
        for action in _all_actions(location):
            if "protocol" in action:
                reader = action["protocol"]["minReaderVersion"]
                features = action["protocol"].get("readerFeatures") or []
            if "metaData" in action:
                configuration = action["metaData"].get("configuration") or {}
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as broken:
        what = str(broken)
    else:
        if (refused := _unreadable(location, reader, features, configuration)) is not None:
            return refused
        what = brief(error)
    return EngineError(
        f"the log of table {location!r} cannot be read: {what}",
        hint="restore the log from a backup, or drop the table; views on it still show their last refresh",
    )


def _all_actions(location: str) -> Iterator[dict[str, Any]]:
    """Of the entries that are there; an error says which one is missing or is none."""
    names = (n for n in os.listdir(os.path.join(location, LOG)) if n.endswith(".json") and n[:20].isdigit())
    expected = None
    for version in sorted(int(n[:20]) for n in names):
        if version != (expected or version):
            raise ValueError(f"entry {expected} is missing")
        try:
            yield from list(actions(location, version))
        except (OSError, ValueError):
            raise ValueError(f"entry {version} is not what a log entry looks like") from None
        expected = version + 1


def brief(error: Exception) -> str:
    """The first line: what follows it is a trace."""
    return next(iter(str(error).splitlines()), type(error).__name__)[:300]
