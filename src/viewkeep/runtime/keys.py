"""Keys that users declare: checked for sense, kept, never enforced."""

from __future__ import annotations

from collections.abc import Sequence

from viewkeep.catalog import ForeignKey, Key
from viewkeep.errors import CatalogError
from viewkeep.runtime.database import Database


def declare_key(db: Database, table: str, columns: Sequence[str]) -> None:
    found = db.base_table(table)
    if not columns:
        raise CatalogError(f"a key of {table!r} needs at least one column")
    key = Key(tuple(found.column(c).name for c in columns), enforced=False)
    db.declare(found.name, [key], [])
    db.forget_schema()


def declare_foreign_key(
    db: Database, table: str, columns: Sequence[str], parent: str, parent_columns: Sequence[str]
) -> None:
    child, target = db.base_table(table), db.base_table(parent)
    if not parent_columns:
        if not target.keys:
            raise CatalogError(f"table {parent!r} has no key to refer to", hint="name the columns, or declare a key")
        parent_columns = target.keys[0].columns
    if len(parent_columns) != len(columns):
        raise CatalogError(f"{len(columns)} columns cannot refer to {len(parent_columns)}")
    key = ForeignKey(
        tuple(child.column(c).name for c in columns),
        target.name,
        tuple(target.column(c).name for c in parent_columns),
        enforced=False,
    )
    db.declare(child.name, [], [key])
    db.forget_schema()
