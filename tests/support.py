"""Random tables, change batches that conflict with themselves, and a comparison that owes nothing to viewkeep.

A `World` mirrors the rows of the tables in memory. A batch is a function that changes the mirror and
records each change; the record is then played back as SQL statements or as weighted Arrow batches.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewkeep

Row = tuple[Any, ...]
Clock = Callable[[], datetime]
TOLERANCE = 1e-9


# ---------------------------------------------------------------------- engines
class InDuckDBsWords(viewkeep.Keeper):
    """A keeper that is spoken to in DuckDB's SQL, whatever it runs on."""

    def __init__(self, keeper: viewkeep.Keeper) -> None:
        super().__init__(keeper._db)

    def sql(self, text: str, dialect: str | None = "duckdb") -> Any:
        return super().sql(text, dialect)

    def query(self, text: str, dialect: str | None = "duckdb") -> pa.Table:
        return super().query(text, dialect)


@dataclass
class Engine:
    """One of the engines under test, and where its databases are made."""

    name: str
    folder: Path
    made: int = 0

    @property
    def is_spark(self) -> bool:
        return self.name == "spark"

    def url(self) -> str:
        """Of a new, empty database."""
        self.made += 1
        return f"spark:///{self.folder / f'lake-{self.made}'}" if self.is_spark else "duckdb://"

    def connect(self, url: str | None = None, clock: Clock | None = None) -> viewkeep.Keeper:
        return InDuckDBsWords(viewkeep.connect(url or self.url(), clock=clock))


# ---------------------------------------------------------------------- tables
@dataclass(frozen=True)
class Col:
    name: str
    type: str
    make: Callable[[random.Random], Any]
    nullable: bool = True

    @property
    def arrow(self) -> pa.DataType:
        if self.type.startswith("DECIMAL"):
            return pa.decimal128(*map(int, self.type.removeprefix("DECIMAL(").removesuffix(")").split(",")))
        return {
            "INTEGER": pa.int32(),
            "TEXT": pa.string(),
            "DOUBLE": pa.float64(),
            "DATE": pa.date32(),
            "TIMESTAMP": pa.timestamp("us"),
            "BOOLEAN": pa.bool_(),
        }[self.type]


@dataclass(frozen=True)
class Tab:
    """One table: `sql` is its name as it is written in SQL; a key is always its first column."""

    sql: str
    columns: tuple[Col, ...]
    rows: int
    keyed: bool = False
    key_range: int = 60

    @property
    def api(self) -> str:
        """Its name as the Python interface takes it."""
        return self.sql.replace('"', "")

    @property
    def ddl(self) -> str:
        listed = [f"{quote(c.name)} {c.type}" for c in self.columns]
        if self.keyed:
            listed[0] += " PRIMARY KEY"
        return f"CREATE TABLE {self.sql} ({', '.join(listed)})"


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def one_of(*values: Any) -> Callable[[random.Random], Any]:
    return lambda rng: rng.choice(values)


def whole(low: int, high: int, nulls: float = 0.1) -> Callable[[random.Random], Any]:
    return lambda rng: None if rng.random() < nulls else rng.randint(low, high)


def money(nulls: float = 0.1) -> Callable[[random.Random], Any]:
    return lambda rng: None if rng.random() < nulls else Decimal(rng.randint(-500, 5000)).scaleb(-2)


def some_day(nulls: float = 0.1) -> Callable[[random.Random], Any]:
    return lambda rng: None if rng.random() < nulls else date(2023, 12, 25) + timedelta(days=rng.randint(0, 15))


def some_time(nulls: float = 0.1) -> Callable[[random.Random], Any]:
    def make(rng: random.Random) -> datetime | None:
        return None if rng.random() < nulls else datetime(2024, 2, 28, 22) + timedelta(minutes=30 * rng.randint(0, 9))

    return make


TABLES = {
    t.api: t
    for t in (
        Tab(
            "customers",
            (
                Col("id", "INTEGER", whole(1, 12, 0), nullable=False),
                Col("name", "TEXT", one_of("Ada", "Bob", "ada", "Ünal", "", "o'Hara", None)),
                Col("region", "TEXT", one_of("north", "south", "east", None)),
                Col("score", "DOUBLE", one_of(0.1, 0.2, 0.3, 1e9, -2.5, 0.0, None)),
                Col("active", "BOOLEAN", one_of(True, False, None)),
                Col("since", "DATE", some_day()),
            ),
            rows=8,
            keyed=True,
            key_range=12,
        ),
        Tab(
            "orders",
            (
                Col("id", "INTEGER", whole(1, 60, 0), nullable=False),
                Col("customer", "INTEGER", whole(1, 12)),
                Col("product", "INTEGER", whole(1, 6)),
                Col("amount", "DECIMAL(12,2)", money()),
                Col("qty", "INTEGER", whole(-3, 9, 0.15)),
                Col("day", "DATE", some_day()),
                Col("moment", "TIMESTAMP", some_time()),
            ),
            rows=24,
            keyed=True,
        ),
        Tab(
            "products",
            (
                Col("id", "INTEGER", whole(1, 6, 0), nullable=False),
                Col("label", "TEXT", one_of("pen", "ink", "Paper", None)),
                Col("price", "DECIMAL(12,2)", money()),
            ),
            rows=5,
            keyed=True,
            key_range=6,
        ),
        Tab(
            "events",
            (
                Col("kind", "TEXT", one_of("a", "b", "c", None)),
                Col("customer", "INTEGER", whole(1, 12)),
                Col("value", "INTEGER", whole(0, 4, 0.2)),
                Col("weight", "DOUBLE", one_of(0.1, 0.7, 1e6, -3.3, None)),
                Col("ok", "BOOLEAN", one_of(True, False, None)),
                Col("moment", "TIMESTAMP", some_time()),
            ),
            rows=24,
        ),
        Tab(
            "tags",
            (Col("customer", "INTEGER", whole(1, 12)), Col("tag", "TEXT", one_of("x", "y", "z", None))),
            rows=14,
        ),
        Tab(
            "readings",
            (
                Col("sensor", "TEXT", one_of("s", "t", None)),
                Col("reading", "DOUBLE", one_of(1.5, -2.25, 0.1, math.nan, math.inf, -math.inf, 0.0, None)),
            ),
            rows=16,
        ),
        Tab(
            '"Mixed Case"',
            (
                Col("Group", "TEXT", one_of("g1", "G1", "g2", None)),
                Col("select", "INTEGER", whole(0, 5)),
                Col("Order By", "INTEGER", whole(0, 3)),
                Col('quo"te', "TEXT", one_of("p", "q", None)),
            ),
            rows=14,
        ),
        Tab(
            '"Odd-Names"',
            (
                Col("Group", "TEXT", one_of("g1", "G1", "g2", None)),
                Col("select", "INTEGER", whole(0, 5)),
                Col("order-by", "INTEGER", whole(0, 3)),
                Col('quo"te', "TEXT", one_of("p", "q", None)),
            ),
            rows=14,
        ),
        Tab(
            "shop.stock",
            (Col("product", "INTEGER", whole(1, 6)), Col("count", "INTEGER", whole(0, 9))),
            rows=10,
        ),
    )
}


def open_keeper(
    *tables: str, seed: int = 0, engine: Engine | None = None, clock: Clock | None = None
) -> tuple[viewkeep.Keeper, World]:
    """A database with some of the tables above, filled at random."""
    keeper = viewkeep.connect("duckdb://", clock=clock) if engine is None else engine.connect(clock=clock)
    world = World(random.Random(seed), {t: TABLES[t] for t in tables})
    for table in world.tables.values():
        if table.sql.startswith("shop."):
            keeper.sql("CREATE SCHEMA IF NOT EXISTS shop")
        keeper.sql(table.ddl)
        world.insert(table.api, world.new_rows(table.api, table.rows))
    world.play(keeper, "sql" if keeper.dialect == "duckdb" else "apply")
    return keeper, world


# ---------------------------------------------------------------------- changes
@dataclass(frozen=True)
class Change:
    """Rows that leave and rows that come. `kind` says as which statement: insert, delete, update or truncate."""

    kind: str
    table: str
    old: tuple[Row, ...] = ()
    new: tuple[Row, ...] = ()


@dataclass
class World:
    rng: random.Random
    tables: dict[str, Tab]
    rows: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    changes: list[Change] = field(default_factory=list)

    # ------------------------------------------------------------------ making rows
    def new_row(self, table: str, taken: Iterable[Any] = ()) -> Row | None:
        """A random row; None where every key is in use."""
        found = self.tables[table]
        row = self.new_values(table)
        if found.keyed:
            used = {r[0] for r in self.rows[table]} | set(taken)
            free = [k for k in range(1, found.key_range + 1) if k not in used]
            if not free:
                return None
            row = (self.rng.choice(free), *row[1:])
        return row

    def new_rows(self, table: str, count: int) -> list[Row]:
        made: list[Row] = []
        for _ in range(count):
            if (row := self.new_row(table, [r[0] for r in made])) is not None:
                made.append(row)
        return made

    def new_values(self, table: str) -> Row:
        """A random row, whatever its key."""
        return tuple(c.make(self.rng) for c in self.tables[table].columns)

    def some(self, table: str, count: int) -> list[Row]:
        """Up to `count` present rows, each copy at most once."""
        rows = self.rows[table]
        return self.rng.sample(rows, min(count, len(rows)))

    def changed(self, row: Row, table: str, columns: Sequence[int] | None = None) -> Row:
        """The row with new random values in some columns other than its key."""
        found = self.tables[table]
        first = 1 if found.keyed else 0
        columns = columns or [self.rng.randrange(first, len(found.columns))]
        return tuple(
            c.make(self.rng) if i in columns else v for i, (c, v) in enumerate(zip(found.columns, row, strict=True))
        )

    # ------------------------------------------------------------------ changing
    def insert(self, table: str, rows: Iterable[Row]) -> None:
        if rows := tuple(rows):
            self.rows[table].extend(rows)
            self.changes.append(Change("insert", table, new=rows))

    def delete(self, table: str, rows: Iterable[Row]) -> None:
        if rows := tuple(rows):
            for row in rows:
                self._remove(table, row)
            self.changes.append(Change("delete", table, old=rows))

    def update(self, table: str, old: Row, new: Row) -> None:
        self._remove(table, old)
        self.rows[table].append(new)
        self.changes.append(Change("update", table, (old,), (new,)))

    def truncate(self, table: str) -> None:
        self.changes.append(Change("truncate", table, old=tuple(self.rows[table])))
        self.rows[table].clear()

    def _remove(self, table: str, row: Row) -> None:
        wanted = identity(row)
        at = next(i for i, r in enumerate(self.rows[table]) if identity(r) == wanted)
        del self.rows[table][at]

    # ------------------------------------------------------------------ playing back
    def play(self, keeper: viewkeep.Keeper, way: str) -> None:
        """Bring the recorded changes into the database: `sql`, `transaction` or `apply`."""
        changes, self.changes = self.changes, []
        if way == "apply":
            for table in dict.fromkeys(c.table for c in changes):
                keeper.apply(table, self._weighted(table, [c for c in changes if c.table == table]))
            return
        if way == "transaction":
            keeper.sql("BEGIN")
        for change in changes:
            for statement in self._statements(change):
                keeper.sql(statement)
        if way == "transaction":
            keeper.sql("COMMIT")

    def _weighted(self, table: str, changes: list[Change]) -> pa.Table:
        return weighted(
            self.tables[table], [(r, -1) for c in changes for r in c.old], [(r, 1) for c in changes for r in c.new]
        )

    def _statements(self, change: Change) -> Iterable[str]:
        table = self.tables[change.table]
        if change.kind == "insert":
            yield f"INSERT INTO {table.sql} VALUES {', '.join(literal_row(r) for r in change.new)}"
        elif change.kind == "truncate":
            yield f"TRUNCATE {table.sql}" if self.rng.random() < 0.5 else f"DELETE FROM {table.sql}"
        elif change.kind == "delete":
            for row in change.old:
                yield f"DELETE FROM {table.sql} WHERE {one_copy(table, row)}"
        else:
            pairs = zip(table.columns, change.old[0], change.new[0], strict=True)
            sets = [
                f"{quote(c.name)} = {literal(new)}" for c, old, new in pairs if identity((old,)) != identity((new,))
            ]
            if sets:
                yield f"UPDATE {table.sql} SET {', '.join(sets)} WHERE {one_copy(table, change.old[0])}"


def weighted(table: Tab, *parts: Sequence[tuple[Row, int]]) -> pa.Table:
    """An Arrow batch for keeper.apply."""
    entries = [e for part in parts for e in part]
    columns = {c.name: pa.array([r[i] for r, _ in entries], c.arrow) for i, c in enumerate(table.columns)}
    return pa.table({**columns, "_w": pa.array([w for _, w in entries], pa.int64())})


def one_copy(table: Tab, row: Row) -> str:
    """A condition that holds for one of the equal copies of a row."""
    same = " AND ".join(
        f"{quote(c.name)} IS NOT DISTINCT FROM {literal(v)}" for c, v in zip(table.columns, row, strict=True)
    )
    return f"rowid = (SELECT MIN(rowid) FROM {table.sql} WHERE {same})"


def literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case float():
            return f"'{value!r}'::DOUBLE"
        case datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case _:
            return str(value)


def literal_row(row: Row) -> str:
    return f"({', '.join(literal(v) for v in row)})"


def identity(row: Row) -> Row:
    """A form in which NaN equals NaN and True is not 1."""
    return tuple("NaN" if isinstance(v, float) and math.isnan(v) else (type(v).__name__, hashable(v)) for v in row)


def hashable(value: Any) -> Any:
    """Lists and structs by their contents."""
    if isinstance(value, list | tuple):
        return identity(tuple(value))
    return tuple((k, identity((v,))) for k, v in value.items()) if isinstance(value, dict) else value


# ---------------------------------------------------------------------- batches
def insert_one(world: World, table: str) -> None:
    world.insert(table, world.new_rows(table, 1))


def delete_one(world: World, table: str) -> None:
    world.delete(table, world.some(table, 1))


def update_one(world: World, table: str) -> None:
    for row in world.some(table, 1):
        world.update(table, row, world.changed(row, table))


def move_keys(world: World, table: str) -> None:
    """Rows change the columns that joins and groups go by; a keyed row gets another key, too."""
    for row in world.some(table, 3):
        world.update(table, row, world.changed(row, table, [1 if world.tables[table].keyed else 0]))
    if world.tables[table].keyed:
        for row in world.some(table, 2):
            if (other := world.new_row(table)) is not None:
                world.update(table, row, (other[0], *row[1:]))


def nulls(world: World, table: str) -> None:
    columns = world.tables[table].columns
    for row in world.some(table, 3):
        at = world.rng.randrange(len(columns))
        if columns[at].nullable:
            world.update(table, row, (*row[:at], None, *row[at + 1 :]))
    if (row := world.new_row(table)) is not None:
        world.insert(table, [tuple(None if c.nullable else v for c, v in zip(columns, row, strict=True))])


def duplicates(world: World, table: str) -> None:
    """Three more copies of a row, then one copy less."""
    if world.tables[table].keyed:
        for row in world.some(table, 1):
            fresh = [(r[0], *row[1:]) for r in world.new_rows(table, 3)]
            world.insert(table, fresh)
            world.delete(table, fresh[:1])
        return
    for row in world.some(table, 1):
        world.insert(table, [row] * 3)
        world.delete(table, [row])


def delete_and_reinsert(world: World, table: str) -> None:
    rows = world.some(table, 2)
    world.delete(table, rows)
    world.insert(table, rows)


def replace_by_key(world: World, table: str) -> None:
    """The same key comes back with other values."""
    rows = world.some(table, 2)
    world.delete(table, rows)
    first = 1 if world.tables[table].keyed else 0
    world.insert(table, [(*r[:first], *world.new_values(table)[first:]) for r in rows])


def insert_and_delete(world: World, table: str) -> None:
    rows = world.new_rows(table, 2)
    world.insert(table, rows)
    world.delete(table, rows)


def net_zero(world: World, table: str) -> None:
    """There and back again."""
    for row in world.some(table, 2):
        other = world.changed(row, table)
        world.update(table, row, other)
        world.update(table, other, row)
    insert_and_delete(world, table)


def delete_extremes(world: World, table: str) -> None:
    """The rows with the smallest and the largest value of each column that has an order."""
    for at in range(len(world.tables[table].columns)):
        present = [r for r in world.rows[table] if r[at] is not None and r[at] == r[at]]
        if len(present) > 4:
            world.delete(table, [min(present, key=lambda r: r[at])])
            present = [r for r in world.rows[table] if r[at] is not None and r[at] == r[at]]
            world.delete(table, [max(present, key=lambda r: r[at])])


def delete_group(world: World, table: str) -> None:
    for row in world.some(table, 1):
        at = world.rng.randrange(1 if world.tables[table].keyed else 0, len(row))
        world.delete(table, [r for r in world.rows[table] if identity((r[at],)) == identity((row[at],))])


def heavy_mix(world: World, table: str) -> None:
    steps = (insert_one, delete_one, update_one, move_keys, nulls, duplicates, delete_and_reinsert, replace_by_key)
    for step in world.rng.sample(steps, 6):
        step(world, table)


def empty(world: World, table: str) -> None:
    world.truncate(table)


def refill(world: World, table: str) -> None:
    world.insert(table, world.new_rows(table, world.tables[table].rows))


Batch = Callable[[World, str], None]


def small_changes(world: World, table: str) -> None:
    for step in (insert_one, delete_one, update_one, insert_and_delete, net_zero):
        step(world, table)


def awkward_changes(world: World, table: str) -> None:
    for step in (nulls, duplicates, delete_and_reinsert, replace_by_key):
        step(world, table)


def large_deletes(world: World, table: str) -> None:
    delete_extremes(world, table)
    delete_group(world, table)


BATCHES: tuple[Batch, ...] = (
    insert_one,
    delete_one,
    update_one,
    move_keys,
    nulls,
    duplicates,
    delete_and_reinsert,
    replace_by_key,
    insert_and_delete,
    net_zero,
    delete_extremes,
    delete_group,
    heavy_mix,
    empty,
    refill,
    heavy_mix,
)
"""In this order: tables grow and move first, are emptied late, and are used again after that."""
SHORT_BATCHES: tuple[Batch, ...] = (
    small_changes,
    move_keys,
    awkward_changes,
    large_deletes,
    heavy_mix,
    empty,
    refill,
)
"""The same kinds of change, several at a time."""


def everything(world: World, table: str) -> None:
    """All kinds of change at once, for engines on which a refresh takes long."""
    for step in (move_keys, small_changes, awkward_changes, large_deletes):
        step(world, table)


def refill_and_change(world: World, table: str) -> None:
    refill(world, table)
    heavy_mix(world, table)


DENSE_BATCHES: tuple[Batch, ...] = (everything, empty, refill_and_change)
WAYS = ("sql", "apply", "transaction")


# ---------------------------------------------------------------------- comparing
def rows_of(found: pa.Table) -> list[Row]:
    return list(zip(*(c.to_pylist() for c in found.columns), strict=True)) if found.num_columns else []


def bag(rows: Iterable[Row]) -> Counter[Row]:
    return Counter(identity(r) for r in rows)


def bag_difference(left: list[Row], right: list[Row], absolute: float = 0.0) -> tuple[list[Row], list[Row]]:
    """What each of two bags has more than the other; floats are equal within a relative 1e-9, or `absolute`."""
    a, b = bag(left), bag(right)
    missing, extra = list((a - b).elements()), list((b - a).elements())
    unmatched = []
    for row in missing:
        at = next(
            (
                i
                for i, other in enumerate(extra)
                if all(_close(a, b, absolute) for a, b in zip(row, other, strict=True))
            ),
            None,
        )
        if at is None:
            unmatched.append(row)
        else:
            del extra[at]
    return unmatched, extra


def _close(a: Any, b: Any, absolute: float) -> bool:
    if a == b:
        return True
    if a == "NaN" or b == "NaN" or a[0] != "float" or b[0] != "float":
        return False
    return math.isclose(a[1], b[1], rel_tol=TOLERANCE, abs_tol=absolute)


def assert_same_bag(found: list[Row], expected: list[Row], what: str = "") -> None:
    missing, extra = bag_difference(expected, found)
    assert (missing[:5], extra[:5]) == ([], []), what


def assert_view_equals_query(keeper: viewkeep.Keeper, view: str, query: str, what: str = "") -> None:
    """The rows, names and types of a view are those of its query, run now by the engine."""
    found, expected = keeper.query(f"SELECT * FROM {view}"), keeper.query(query)
    assert found.column_names == expected.column_names, what
    for got, wanted in zip(found.schema, expected.schema, strict=True):
        # That no value in a list is NULL holds for the query of now; a view has room for one.
        told, same = (str(f.type).replace(" not null", "") for f in (got, wanted))
        assert told == same or pa.types.is_null(wanted.type), f"{what}: {got.name} is {told}, not {same}"
    assert_same_bag(rows_of(found), rows_of(expected), what)


def run_batches(
    keeper: viewkeep.Keeper,
    world: World,
    check: Callable[[str], None],
    batches: Sequence[Batch] = BATCHES,
) -> None:
    """Every batch on all tables at once, by another way each time; `check` is called after each."""
    for number, batch in enumerate(batches):
        for table in world.tables:
            batch(world, table)
        # A lake has no transactions, and a statement for each row would take it minutes.
        way = WAYS[(number + world.rng.randrange(3)) % 3] if keeper.dialect == "duckdb" else "apply"
        world.play(keeper, way)
        check(f"batch {number} {batch.__name__} by {way}")


def as_if_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are pruned by keys, views of sums are changed file by file and by Spark, however small they are."""
    from viewkeep.runtime.lake import maintenance

    monkeypatch.setattr(maintenance, "FEW", 0)
    monkeypatch.setattr(maintenance, "SMALL", 0)
    monkeypatch.setattr(maintenance.Maintenance, "_little", lambda self: False)
