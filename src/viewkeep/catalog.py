"""What viewkeep knows of a database: tables, columns, types, keys, foreign keys.

Names compare without case, as DuckDB and Spark do. A catalog is immutable: engines and the
parser of CREATE TABLE texts make one, everybody else reads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

from viewkeep.errors import CatalogError, Position, nearest


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table's name: `schema` is None for the engine's default schema.

    >>> str(TableName("orders")), str(TableName("orders", "sales"))
    ('orders', 'sales.orders')
    """

    name: str
    schema: str | None = None

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name

    @property
    def folded(self) -> str:
        """The form in which two names are equal."""
        return str(self).lower()

    @staticmethod
    def parse(text: str) -> TableName:
        """The inverse of `str`: at most one dot.

        >>> TableName.parse("sales.orders")
        TableName(name='orders', schema='sales')
        """
        schema, _, name = text.rpartition(".")
        return TableName(name, schema or None)


TYPE_SPELLING = "duckdb"
"""The dialect in which types are spelled in catalogs and plans, whatever engine they came from."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    nullable: bool = True
    collated: bool = False
    """Whether texts that look different may be equal in it."""


@dataclass(frozen=True, slots=True)
class Key:
    """Columns no two rows share. `enforced`: the engine guarantees it; otherwise somebody declared it."""

    columns: tuple[str, ...]
    enforced: bool = True


class Trust(Enum):
    """Who makes sure that a foreign key holds."""

    ENGINE = "engine"
    """The database itself refuses rows that would break it."""
    ENFORCED = "enforced"
    """Somebody else does, says the one who declared it: nothing but the changes is looked at."""
    CHECKED = "checked"
    """Nobody: each refresh asks whether it can be relied on."""


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Rows of the table that holds this point, by `columns`, at one row of `parent`."""

    columns: tuple[str, ...]
    parent: TableName
    parent_columns: tuple[str, ...]
    trust: Trust = Trust.ENGINE

    def same_as(self, other: ForeignKey) -> bool:
        """Whether both say the same, whatever they are worth."""
        return self._said == other._said

    @property
    def _said(self) -> tuple[object, ...]:
        return tuple(c.lower() for c in self.columns), self.parent.folded, tuple(c.lower() for c in self.parent_columns)


class Kind(Enum):
    BASE = "table"
    PLAIN_VIEW = "view"
    MATERIALIZED = "materialized view"
    TEMPORARY = "temporary table"


@dataclass(frozen=True, slots=True)
class Table:
    name: TableName
    columns: tuple[Column, ...]
    kind: Kind = Kind.BASE
    keys: tuple[Key, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    definition: str | None = None
    """The query of a plain view, in the engine's dialect."""

    def column(self, name: str) -> Column:
        for column in self.columns:
            if column.name.lower() == name.lower():
                return column
        raise CatalogError(
            f"table {str(self.name)!r} has no column {name!r}",
            hint=nearest(name, (c.name for c in self.columns))
            or f"its columns: {', '.join(c.name for c in self.columns)}",
        )


@dataclass(frozen=True, slots=True)
class Catalog:
    tables: dict[str, Table] = field(default_factory=dict)
    default_schema: str | None = None
    """What users may write for the schema whose tables have none here."""

    @staticmethod
    def of(tables: Iterable[Table], default_schema: str | None = None) -> Catalog:
        return Catalog({t.name.folded: t for t in tables}, default_schema)

    def find(self, name: TableName) -> Table | None:
        if name.schema and self.default_schema and name.schema.lower() == self.default_schema.lower():
            name = TableName(name.name)
        return self.tables.get(name.folded)

    def get(self, name: TableName, position: Position | None = None) -> Table:
        if (table := self.find(name)) is None:
            raise CatalogError(
                f"table {str(name)!r} does not exist",
                position,
                nearest(str(name), (str(t.name) for t in self.tables.values()))
                or f"known tables: {', '.join(sorted(str(t.name) for t in self.tables.values())) or 'none'}",
            )
        return table

    def with_table(self, table: Table) -> Catalog:
        return replace(self, tables={**self.tables, table.name.folded: table})

    def with_constraints(self, name: TableName, keys: Iterable[Key], foreign_keys: Iterable[ForeignKey]) -> Catalog:
        table = self.get(name)
        return self.with_table(
            replace(table, keys=(*table.keys, *keys), foreign_keys=(*table.foreign_keys, *foreign_keys))
        )
