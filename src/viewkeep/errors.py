"""Every error a user can see: the fact, where it is, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

DOES_NOT_FIT = "a value has more digits than can be computed with"
"""What SQL of viewkeep's own says when it fails for a value, as an engine does for one that overflows."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a SQL text, counted from 1.

    >>> str(Position(2, 7))
    'line 2, column 7'
    """

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class ViewkeepError(Exception):
    """Base of all errors that viewkeep raises on purpose.

    >>> print(ViewkeepError("table 'ordrs' does not exist", Position(1, 15), "did you mean 'orders'?"))
    table 'ordrs' does not exist (line 1, column 15); did you mean 'orders'?
    """

    def __init__(self, fact: str, position: Position | None = None, hint: str | None = None) -> None:
        self.fact, self.position, self.hint = fact, position, hint
        where = f" ({position})" if position else ""
        super().__init__(f"{fact}{where}" + (f"; {hint}" if hint else ""))

    def hinting(self, hint: str) -> Self:
        """The same error with a hint, if it has none."""
        return self if self.hint else type(self)(self.fact, self.position, hint)


class SqlError(ViewkeepError):
    """The text is not SQL, or names something that does not exist or is ambiguous."""


class UnsupportedError(ViewkeepError):
    """Valid SQL for which viewkeep knows no incremental way: recomputed or refused, by policy."""


class NondeterministicError(ViewkeepError):
    """The query would give another answer on the same tables, so no view of it can be proven right."""


class PlanError(ViewkeepError):
    """A plan node was built wrongly: a bug of viewkeep, not of the user."""


class CatalogError(ViewkeepError):
    """A name exists already, is missing, or is in use by a view."""


class ChangeError(ViewkeepError):
    """A batch of changes does not fit its table; nothing of it was applied."""


class RefreshError(ViewkeepError):
    """A view could not be refreshed; it is as it was after its last refresh."""


class PolicyError(ViewkeepError):
    """The view's policy forbids what would have to be done."""


class ConnectError(ViewkeepError):
    """The database could not be opened."""


class EngineError(ViewkeepError):
    """The engine refused a statement of the user; its own words are in the fact."""


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """A hint that names the most similar candidate, if one is near.

    >>> nearest("amout", ["uid", "amount"])
    "did you mean 'amount'?"
    >>> nearest("x", ["uid", "amount"]) is None
    True
    """
    by_lower = {c.lower(): c for c in candidates}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"did you mean {by_lower[found[0]]!r}?" if found else None
