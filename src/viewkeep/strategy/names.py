"""Names of what viewkeep stores beside the user's tables. Users' columns may not start with `_vk_`."""

from __future__ import annotations

from viewkeep.catalog import TableName

SCHEMA = "_viewkeep"
VERSION = "_vk_version"
WEIGHT = "_vk_weight"
UPDATED = "_vk_updated"
"""Of a change in a table's log: that it is half of an update."""
ROWS = "_vk_rows"
BORN = "_vk_born"
"""The version in which a stored row came; the log has it beside the version in which the row left."""
PARTITION = "_vk_part_"
"""Columns by which the stored rows of a window's partition are found."""
KEY = "_vk_key_"
"""Columns of a key that the user has left out."""
RESERVED = "_vk_"
RUN = "version"
"""The parameter that stands for the version of the run under way."""
OLDEST = "oldest"
"""The parameter that stands for the oldest version since which somebody may ask for a view's changes."""
BOUND = "bound"
"""The parameter that stands for the bound of a view of which the first rows are stored."""
CLOCK = TableName("clock", SCHEMA)
"""One row, one column `version`: the run that is under way."""


def backing(view: TableName) -> TableName:
    """Where a view's rows and hidden state live."""
    return TableName(f"data_{view}", SCHEMA)


def bound(view: TableName) -> TableName:
    """Up to where rows are stored, of a view that shows the first ones."""
    return TableName(f"bound_{view}", SCHEMA)


def log(table: TableName) -> TableName:
    """Changes, by version. Of a table: with weights, and without a version until a refresh seals them.
    Of a view: the rows that left, or what its groups gained and lost."""
    return TableName(f"log_{table}", SCHEMA)


def left(view: TableName, version: int) -> TableName:
    """All rows of a view that left it in one version, where they were set aside and not logged."""
    return TableName(f"left_{version}_{view}", SCHEMA)


def delta(table: TableName) -> TableName:
    """The changes that the refresh under way has to consume; bound anew for each refresh."""
    return TableName(f"_vk_delta_{table}")


def stage(view: TableName, what: str) -> TableName:
    """A table that lives for one refresh."""
    return TableName(f"_vk_{what}_{view}")
