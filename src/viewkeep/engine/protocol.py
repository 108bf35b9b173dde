"""What viewkeep asks of an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from viewkeep.catalog import Catalog

Parameters = Sequence[Any] | Mapping[str, Any]
"""By position (?) or by name ($name)."""


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What is true of an engine, whatever database it has open."""

    dialect: str
    time_travel: bool


class Engine(Protocol):
    facts: EngineFacts

    def execute(self, sql: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """Run one statement; its rows, or the count of rows it changed, as tuples."""
        ...

    def arrow(self, sql: str) -> pa.Table:
        """Run one query."""
        ...

    def transaction(self) -> AbstractContextManager[bool]:
        """All statements inside happen or none does. Inside an open transaction it joins that one and
        gives False: then nothing can be tried again from here."""
        ...

    @property
    def users_transaction(self) -> bool:
        """Whether the user has a transaction open: what is seen in it may never come true."""
        ...

    def using_all_cores(self, rows: int, largest: int) -> AbstractContextManager[None]:
        """Work through a change of this many rows on all cores, where the engine would not by itself.

        `largest`: rows of the largest table that is read beside it."""
        ...

    def without_statistics(self) -> AbstractContextManager[None]:
        """Plan without conclusions from statistics, of which some are wrong."""
        ...

    def without_optimizer(self) -> AbstractContextManager[None]:
        """Run statements as they are written: slower, but past the faults of the engine's optimizer.
        Not to be used inside a transaction that may fail."""
        ...

    def bound(self, name: str, data: pa.Table) -> AbstractContextManager[None]:
        """Make an Arrow table readable under a name."""
        ...

    def is_conflict(self, error: BaseException) -> bool:
        """Whether a transaction lost against another one and may simply be tried again."""
        ...

    def is_own_fault(self, error: BaseException) -> bool:
        """Whether the engine says that it is itself wrong, not the statement."""
        ...

    def is_too_deep(self, error: BaseException) -> bool:
        """Whether a statement was refused because it is nested too deeply, however right it is."""
        ...

    def is_data_error(self, error: BaseException) -> bool:
        """Whether a value did not fit. A delta may meet one where the result does not: a row that came
        and went, a sum whose change is larger than itself."""
        ...

    def catalog(self) -> Catalog: ...

    def close(self) -> None: ...
