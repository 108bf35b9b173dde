"""Where output goes: a terminal gets its own width, a pipe gets whole lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console

_NEVER_WRAP = 1_000_000


def out() -> Console:
    """Made for each use, because a caller may have replaced sys.stdout since."""
    return _console(sys.stdout)


def err() -> Console:
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    # markup off: a "[red]" in the data is data.
    width = None if stream.isatty() else _NEVER_WRAP
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


@contextmanager
def working(message: str) -> Iterator[None]:
    """Show that something is under way; on stderr, and only where somebody watches."""
    if not sys.stderr.isatty():
        yield
        return
    with err().status(message):
        yield
