"""What time it is, for views whose rows depend on it.

A view stores the time of its last refresh beside its positions, in the same commit as its rows: as
whole microseconds, which is as fine as both engines are.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from sqlglot import exp

Clock = Callable[[], datetime]
_START = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def wall_clock() -> datetime:
    return datetime.now(UTC)


def to_micros(time: datetime) -> int:
    """A time without a zone is one in the zone of this machine, as everywhere in Python."""
    return (time.astimezone(UTC) - _START) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    return _START + micros * _MICROSECOND


def time_literal(time: datetime) -> exp.Expr:
    """As a value in SQL, whatever the session's zone is."""
    return exp.cast(exp.Literal.string(time.astimezone(UTC).isoformat(sep=" ")), "TIMESTAMPTZ")
