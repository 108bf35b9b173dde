"""A program: the ordered steps that bring a stored view from its last refresh to now.

Steps say what happens to which stored relation; emit/ says it in SQL.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewkeep.catalog import TableName
from viewkeep.plan.nodes import Node


@dataclass(frozen=True, slots=True)
class Stage:
    """Keep a result for the rest of the refresh. A text is a query of the user that has no plan."""

    name: TableName
    columns: tuple[str, ...]
    source: Node | str
    why: str = "computed once, read several times"


@dataclass(frozen=True, slots=True)
class Append:
    """Add rows. `stamped`: the run's version is put before the columns."""

    target: TableName
    columns: tuple[str, ...]
    source: Node
    why: str
    stamped: bool = False


@dataclass(frozen=True, slots=True)
class MergeAdd:
    """Add each source row to the stored row of its key; a row whose count reaches zero dies."""

    target: TableName
    keys: tuple[str, ...]
    counters: tuple[str, ...]
    rows: str
    source: Node
    why: str = "groups are found by key; NULL is a key like any other"


@dataclass(frozen=True, slots=True)
class DeleteMatching:
    """Remove one stored row for each source row; `unique`: no two stored rows match the same one."""

    target: TableName
    columns: tuple[str, ...]
    source: Node
    unique: bool
    why: str
    exact: bool = True
    """Whether every source row is known to be stored, so that the count can be checked."""


@dataclass(frozen=True, slots=True)
class Clear:
    target: TableName
    why: str = "the new contents replace the old"


Step = Stage | Append | MergeAdd | DeleteMatching | Clear


@dataclass(frozen=True, slots=True)
class Program:
    """The steps of one refresh and how they came about."""

    strategy: str
    steps: tuple[Step, ...]
