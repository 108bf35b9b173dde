"""A program: the ordered steps that bring a stored view from its last refresh to now.

Steps say what happens to which stored relation; emit/ says it in SQL.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewkeep.catalog import TableName
from viewkeep.plan.nodes import Node
from viewkeep.strategy.ranks import ByValue


@dataclass(frozen=True, slots=True)
class Stage:
    """Keep a result for the rest of the refresh. A text is a query of the user that has no plan."""

    name: TableName
    columns: tuple[str, ...]
    source: Node | str
    why: str = "computed once, read several times"


@dataclass(frozen=True, slots=True)
class Append:
    """Add rows. `stamp`: a column, before the others, that gets the run's version."""

    target: TableName
    columns: tuple[str, ...]
    source: Node
    why: str
    stamp: str | None = None


@dataclass(frozen=True, slots=True)
class MergeAdd:
    """Add each source row to the stored row of its key, or store it where there is none."""

    target: TableName
    keys: tuple[str, ...]
    counters: tuple[str, ...]
    source: Node
    why: str = "groups are found by key; NULL is a key like any other"


@dataclass(frozen=True, slots=True)
class DropEmpty:
    """Remove the groups whose row count has become zero."""

    target: TableName
    rows: str
    why: str = "a group dies when it has no rows, whatever its sums are"


@dataclass(frozen=True, slots=True)
class DeleteMatching:
    """Remove one row of a table for each source row, found by value."""

    target: TableName
    columns: tuple[str, ...]
    source: Node
    why: str


@dataclass(frozen=True, slots=True)
class TakeOut:
    """Move one stored row into the log for each source row: it left in this run.

    The source has the columns `match`, by which stored rows are found; `unique`: no two stored rows
    match the same source row. `exact`: every source row is known to be stored, so the count must fit.
    `whole`: the source has all columns, so that those of the stored rows need not be read.
    """

    view: TableName
    columns: tuple[str, ...]
    match: tuple[str, ...]
    source: Node
    unique: bool
    why: str
    exact: bool = True
    whole: bool = False

    @property
    def by_key(self) -> bool:
        """Whether the source says all there is to know of a row but when it came."""
        return self.unique and self.whole

    @property
    def asked(self) -> tuple[str, ...]:
        """The columns of the source. The one group of a global aggregate has no key: there the source says only
        that there is a change."""
        return self.columns if self.whole else self.match or tuple(f.id for f in self.source.fields)


@dataclass(frozen=True, slots=True)
class Clear:
    target: TableName
    why: str = "the new contents replace the old"


@dataclass(frozen=True, slots=True)
class Replace:
    """Make a stored table anew: what it had is dropped, not deleted row by row.

    `kept_of`: the view whose old rows are kept nevertheless, as the table that they are in, under another name
    (names.left). A program that is run without viewkeep copies them to the log.
    """

    target: TableName
    columns: tuple[str, ...]
    source: Node | str
    why: str
    stamp: str | None = None
    by_value: ByValue | None = None
    kept_of: TableName | None = None


Step = Stage | Append | MergeAdd | DropEmpty | DeleteMatching | TakeOut | Clear | Replace


@dataclass(frozen=True, slots=True)
class Program:
    """The steps of one refresh."""

    steps: tuple[Step, ...]
