"""Random tables, and statements that fill and change them.

Domains are small, so that rows meet, repeat and conflict. Changes are plain SQL by predicate: any of
them can be left out of a failing case without making the others meaningless.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

SQL_TYPES = {
    "int": "INTEGER",
    "dec": "DECIMAL(10,2)",
    "dbl": "DOUBLE",
    "text": "TEXT",
    "date": "DATE",
    "bool": "BOOLEAN",
}
VALUES = {
    "int": ("0", "1", "2", "3", "4", "-1", "7"),
    "dec": ("0.00", "1.50", "2.00", "-3.25", "10.10", "0.01"),
    "dbl": ("CAST(0.25 AS DOUBLE)", "CAST(1.5 AS DOUBLE)", "CAST(-2 AS DOUBLE)", "CAST(3 AS DOUBLE)"),
    "text": ("'a'", "'b'", "'B'", "'ab'", "''", "'o''x'"),
    "date": ("DATE '2024-01-31'", "DATE '2024-02-01'", "DATE '2024-02-29'", "DATE '2023-12-31'"),
    "bool": ("TRUE", "FALSE"),
}
"""Literals of each type. Sums of these doubles are exact, so comparing them is no matter of luck."""


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple[Column, ...]
    keyed: bool = False
    """Whether the first column is an enforced key."""

    @property
    def ddl(self) -> str:
        listed = [f"{c.name} {SQL_TYPES[c.type]}" for c in self.columns]
        if self.keyed:
            listed[0] += " PRIMARY KEY"
        return f"CREATE TABLE {self.name} ({', '.join(listed)})"


def literal(rng: random.Random, kind: str, nulls: float = 0.0) -> str:
    return "NULL" if rng.random() < nulls else rng.choice(VALUES[kind])


def random_tables(rng: random.Random) -> list[Table]:
    """Two to four tables that share some column names, so that USING and NATURAL have something to do."""
    tables = []
    for number in range(rng.randint(2, 4)):
        keyed = rng.random() < 0.35
        columns = [Column("k", "int", not keyed)]
        for at in range(rng.randint(1, 4)):
            kind = rng.choice(("int", "int", "text", "dec", "dbl", "date", "bool"))
            # A column has a type by its place: tables with equal columns in equal places can be combined.
            columns.append(Column(f"{kind[0] if kind != 'date' else 't'}{at}", kind, rng.random() < 0.8))
        tables.append(Table(f"t{number}", tuple(columns), keyed))
    return tables


def declarations(rng: random.Random, tables: list[Table]) -> list[str]:
    """Foreign keys that are only declared, so that they may be broken, and keys that nobody enforces."""
    found = []
    for child in tables:
        for parent in tables:
            if child is not parent and parent.keyed and rng.random() < 0.4:
                pointing = rng.choice([c.name for c in child.columns if c.type == "int"])
                found.append(
                    f"ALTER TABLE {child.name} ADD CONSTRAINT f_{child.name}_{parent.name} "
                    f"FOREIGN KEY ({pointing}) REFERENCES {parent.name} (k) RELY"
                )
    return found


def row(rng: random.Random, table: Table) -> str:
    values = [literal(rng, c.type, 0.15 if c.nullable else 0.0) for c in table.columns]
    if table.keyed:
        values[0] = str(rng.randint(0, 14))
    return f"({', '.join(values)})"


def insert(rng: random.Random, table: Table) -> str:
    return f"INSERT INTO {table.name} VALUES {row(rng, table)}"


def fill(rng: random.Random, table: Table) -> list[str]:
    return [insert(rng, table) for _ in range(rng.choice((0, 3, 6, 9, 9)))]


# ---------------------------------------------------------------------- changes
def where(rng: random.Random, table: Table) -> str:
    column = rng.choice(table.columns)
    roll = rng.random()
    if roll < 0.1:
        return f"{column.name} IS NULL"
    if roll < 0.2 and column.type != "bool":
        return f"{column.name} > {literal(rng, column.type)}"
    if column.name == "k" and table.keyed:
        return f"k IN ({rng.randint(0, 14)}, {rng.randint(0, 14)}, {rng.randint(0, 14)})"
    return f"{column.name} = {literal(rng, column.type)}"


def change(rng: random.Random, table: Table) -> list[str]:
    """One step of a batch: one or a few statements that belong together."""
    name, roll = table.name, rng.random()
    columns = ", ".join(c.name for c in table.columns)
    match roll:
        case _ if roll < 0.35:
            return [insert(rng, table) for _ in range(rng.randint(1, 3))]
        case _ if roll < 0.5:
            return [f"DELETE FROM {name} WHERE {where(rng, table)}"]
        case _ if roll < 0.7:
            moved = rng.choice(table.columns)
            value = literal(rng, moved.type, 0.25 if moved.nullable else 0.0)
            if moved.type == "int" and rng.random() < 0.5:
                value = f"{moved.name} + 1"
            return [f"UPDATE {name} SET {moved.name} = {value} WHERE {where(rng, table)}"]
        case _ if roll < 0.77:
            return [f"INSERT INTO {name} SELECT {columns} FROM {name} WHERE {where(rng, table)}"]
        case _ if roll < 0.84:
            return [f"DELETE FROM {name} WHERE rowid = (SELECT MIN(rowid) FROM {name} WHERE {where(rng, table)})"]
        case _ if roll < 0.9:
            made = row(rng, table)
            last = table.columns[-1]
            gone = f"DELETE FROM {name} WHERE k = {made[1:].split(',')[0]} AND {last.name} IS NOT NULL"
            return [gone, f"INSERT INTO {name} VALUES {made}"]
        case _ if roll < 0.94:
            column = rng.choice([c for c in table.columns if c.type == "int"])
            up, down = (f"UPDATE {name} SET {column.name} = {column.name} {sign} 1" for sign in "+-")
            return [up, down]
        case _ if roll < 0.97:
            return [f"DELETE FROM {name}"]
        case _:
            return [f"DELETE FROM {name}", *fill(rng, table)]


def batch(rng: random.Random, tables: list[Table]) -> list[str]:
    """A few changes of some tables, in any order."""
    some = rng.sample(tables, rng.choice((1, 2, len(tables), len(tables))))
    steps = [change(rng, t) for t in some for _ in range(rng.randint(1, 3))]
    rng.shuffle(steps)
    found = [s for step in steps for s in step]
    return ["BEGIN", *found, "COMMIT"] if rng.random() < 0.15 and not any(t.keyed for t in tables) else found
