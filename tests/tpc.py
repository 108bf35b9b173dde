"""The queries of TPC-H and TPC-DS, and tables for each: small, random, and such that its filters find rows.

A query is run over tables of its own. What a column holds is read from the query: most of its values are
those that the query compares it with (`d_year = 2000`, `between 62 and 62 + 30`), some lie around them, some
are anything, some are NULL. Joins meet because keys come from short ranges.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

import viewkeep
from support import Col, Row, Tab, World
from viewkeep.catalog import Catalog, Table
from viewkeep.sql.schema import read_schema

HERE = Path(__file__).parent
ANYTHING = object()
"""Stands for values that a query does not name: what it excludes must not be most of a column."""
Maker = Callable[[random.Random], Any]


# ---------------------------------------------------------------------- the benchmarks
@dataclass(frozen=True)
class Benchmark:
    name: str
    folder: Path
    first_day: date
    days: int
    few: frozenset[str]
    """Tables that have few rows."""
    usual: dict[str, tuple[Any, ...]]
    """Values of columns for which anything would be too much."""

    @cached_property
    def schema(self) -> str:
        return (self.folder / "schema.sql").read_text()

    @cached_property
    def catalog(self) -> Catalog:
        return read_schema(self.schema, "duckdb")

    @cached_property
    def queries(self) -> dict[str, str]:
        return {p.stem: p.read_text() for p in sorted(self.folder.glob("q*.sql"))}

    def __hash__(self) -> int:
        return hash(self.name)


DISCOUNTS = tuple(Decimal(n).scaleb(-2) for n in (0, 2, 5, 10))
TPCH = Benchmark(
    "TPC-H",
    HERE / "tpch",
    date(1992, 1, 1),
    2500,
    frozenset({"region", "nation"}),
    {"ps_availqty": (1, 1000), "l_discount": DISCOUNTS},
)
TPCDS = Benchmark(
    "TPC-DS",
    HERE / "tpcds",
    date(1998, 1, 1),
    1800,
    frozenset({"store", "warehouse", "reason", "ship_mode", "income_band", "call_center", "web_site", "web_page"}),
    {},
)


# ---------------------------------------------------------------------- what a query compares a column with
@cache
def compared_with(benchmark: Benchmark, query: str) -> dict[str, list[Any]]:
    """Column → constants, worked out by DuckDB, in the order of the text."""
    tree = sqlglot.parse_one(benchmark.queries[query], dialect="duckdb")
    known = {c.name for t in benchmark.catalog.tables.values() for c in t.columns}
    renamed = {a.alias: a.this.name for a in tree.find_all(exp.Alias) if isinstance(a.this, exp.Column)}
    found: dict[str, list[Any]] = defaultdict(list)
    with duckdb.connect() as engine:
        for test in tree.find_all(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Between, exp.Like):
            if test.find(exp.Select):
                continue
            names = {renamed.get(c.name, c.name) for c in test.find_all(exp.Column)} & known
            values = [_value(engine, c) for c in _constants(test)]
            if len(numbers := [v for v in values if isinstance(v, int | float | Decimal)]) == 2 and isinstance(
                test, exp.Between
            ):
                values.append((numbers[0] + numbers[1]) / 2)
            if isinstance(test, exp.GT | exp.GTE | exp.LT | exp.LTE):
                values += [v + d for v in values if isinstance(v, int) for d in (-1, 1)]
            if isinstance(test, exp.NEQ) or isinstance(test.parent, exp.Not):
                values += [ANYTHING] * 4
            for name in names:
                found[name] += values
    return found


@cache
def asked_for_null(benchmark: Benchmark, query: str) -> frozenset[str]:
    """Columns of which the query asks whether they are NULL."""
    tree = sqlglot.parse_one(benchmark.queries[query], dialect="duckdb")
    tests = [t for t in tree.find_all(exp.Is) if isinstance(t.expression, exp.Null)]
    return frozenset(t.this.name for t in tests)


def _constants(test: exp.Expr) -> Iterator[exp.Expr]:
    """The largest parts of a comparison that read no column."""
    for part in test.iter_expressions():
        if not part.find(exp.Column, exp.Star, exp.AggFunc):
            if not isinstance(part, exp.DataType):
                yield part
        elif not isinstance(part, exp.Column | exp.Substring):
            yield from _constants(part)


def _value(engine: duckdb.DuckDBPyConnection, constant: exp.Expr) -> Any:
    [[value]] = engine.execute(f"SELECT {constant.sql(dialect='duckdb')}").fetchall()
    if isinstance(value, datetime):
        return value.date()
    return " ".join(value.split("%")).strip() if isinstance(value, str) else value


# ---------------------------------------------------------------------- tables for one query
@dataclass
class Rows(World):
    """The tables that one query reads. Where `keyed`, no two rows of a table share its primary key."""

    catalog: Catalog = field(default_factory=Catalog)
    used: frozenset[str] = frozenset()
    keyed: bool = True
    days: Callable[[random.Random, list[date]], date] | None = None
    """Makes days of the calendar."""

    def key_of(self, table: str) -> list[int]:
        return [i for i, c in enumerate(self.tables[table].columns) if c.name in self._key(table)]

    def _key(self, table: str) -> tuple[str, ...]:
        return self.catalog.tables[table].keys[0].columns

    def new_row(self, table: str, taken: Sequence[Row] = ()) -> Row | None:  # type: ignore[override]
        at, there = self.key_of(table), [*self.rows[table], *taken]
        used = {tuple(r[i] for i in at) for r in there} if self.has_key(table) else set()
        for _ in range(20):
            row = self.pointing(table, self.new_values(table))
            if table == "date_dim":
                row = self.on_a_day(row, there)
            if tuple(row[i] for i in at) not in used:
                return row
        return None

    def has_key(self, table: str) -> bool:
        """Queries take it for granted that a day is there once."""
        return self.keyed or table == "date_dim"

    def on_a_day(self, row: Row, there: Sequence[Row]) -> Row:
        """A row of the calendar, about a day that no other row is about."""
        assert self.days is not None
        names = [c.name for c in self.tables["date_dim"].columns]
        taken = {r[names.index("d_date")] for r in there}
        while (day := self.days(self.rng, sorted(d for d in taken if d))) in taken:
            pass
        told = about(day)
        return tuple(told.get(n, v) if n in self.used or n == "d_date" else v for n, v in zip(names, row, strict=True))

    def new_rows(self, table: str, count: int) -> list[Row]:
        made: list[Row] = []
        for _ in range(count):
            if (row := self.new_row(table, made)) is not None:
                made.append(row)
        return made

    def pointing(self, table: str, row: Row) -> Row:
        """A row that refers to another by several columns, as a return to a sale, mostly finds one, and is like it."""
        for key in self.catalog.tables[table].foreign_keys:
            parents = self.rows.get(str(key.parent), [])
            if len(key.columns) == 1 or not parents or self.rng.random() < 0.1:
                continue
            names = [c.name for c in self.tables[str(key.parent)].columns]
            parent = dict(zip(names, self.rng.choice(parents), strict=True))
            alike = {n.partition("_")[2]: v for n, v in parent.items() if n.endswith("_sk")}
            points = {c: parent[p] for c, p in zip(key.columns, key.parent_columns, strict=True)}
            row = tuple(
                points.get(c.name, alike.get(c.name.partition("_")[2], v))
                for c, v in zip(self.tables[table].columns, row, strict=True)
            )
        return row

    # ------------------------------------------------------------------ changes
    def shake(self, table: str) -> None:
        """Rows come, go, change, move to other keys, go and come back, all in one batch."""
        self.insert(table, self.new_rows(table, 3))
        self.delete(table, self.some(table, 2))
        for row in self.some(table, 3):
            self.update(table, row, self.altered(table, row, 2))
        for row in self.some(table, 1):  # another key
            if (other := self.new_row(table)) is not None:
                at = self.key_of(table)
                self.update(table, row, tuple(other[i] if i in at else v for i, v in enumerate(row)))
        for row in self.some(table, 1):  # the same key says something else
            self.delete(table, [row])
            self.insert(table, [self.altered(table, row, 4)])
        gone = self.some(table, 1)  # there and back again
        self.delete(table, gone)
        self.insert(table, gone)
        for row in self.some(table, 1):
            other = self.altered(table, row, 1)
            self.update(table, row, other)
            self.update(table, other, row)
        for row in self.some(table, 1):
            self.update(table, row, self.altered(table, row, 1, null=True))
        if not self.has_key(table):
            copies = self.some(table, 1) * 2
            self.insert(table, copies)
            self.delete(table, copies[:1])

    def altered(self, table: str, row: Row, count: int, null: bool = False) -> Row:
        """The row with other values in some columns that the query reads."""
        if table == "date_dim":
            moved = self.on_a_day(row, self.rows[table])
            names = [c.name for c in self.tables[table].columns]
            return tuple(None if null and n in NOT_EVERY_DAY else v for n, v in zip(names, moved, strict=True))
        key, columns = self.key_of(table), self.tables[table].columns
        free = [i for i, c in enumerate(columns) if i not in key and c.name in self.used]
        chosen = self.rng.sample(free, min(count, len(free)))
        return tuple((None if null else columns[i].make(self.rng)) if i in chosen else v for i, v in enumerate(row))


def rows_for(benchmark: Benchmark, query: str, seed: int, keyed: bool = True, scale: float = 1.0) -> Rows:
    tree = sqlglot.parse_one(benchmark.queries[query], dialect="duckdb")
    read = {t.name for t in tree.find_all(exp.Table)}
    used = frozenset(c.name for c in tree.find_all(exp.Column))
    tables = {}
    # Referenced tables stand before those that refer to them.
    for name, table in benchmark.catalog.tables.items():
        if name in read:
            columns = tuple(_column(benchmark, query, table, c.name, used) for c in table.columns)
            rows = _count(benchmark, table)
            tables[name] = Tab(name, columns, int(rows * scale) if rows > 20 else rows)
    days = _calendar(compared_with(benchmark, query), "d_week_seq" in used)
    return Rows(random.Random(f"{query} {seed}"), tables, catalog=benchmark.catalog, used=used, keyed=keyed, days=days)


def open_tables(keeper: viewkeep.Keeper, world: Rows) -> None:
    """Keys are the engine's where they hold; foreign keys are declared: nobody enforces them, and rows come
    before what they point at."""
    for name, table in world.tables.items():
        key = f", PRIMARY KEY ({', '.join(world._key(name))})" if world.has_key(name) else ""
        columns = ", ".join(f"{c.name} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in table.columns)
        keeper.sql(f"CREATE TABLE {name} ({columns}{key})")
    for name in world.tables:
        for key in world.catalog.tables[name].foreign_keys:
            if world.keyed and str(key.parent) in world.tables:
                keeper.declare_foreign_key(name, list(key.columns), str(key.parent), list(key.parent_columns))
    for name, table in world.tables.items():
        world.insert(name, world.new_rows(name, table.rows))
    world.play(keeper, "apply")


def _count(benchmark: Benchmark, table: Table) -> int:
    """Of rows at the start."""
    if str(table.name) in benchmark.few:
        return 4
    return 150 if len(table.keys[0].columns) > 1 else 14


def _top_key(benchmark: Benchmark, table: Table) -> int:
    """Keys are numbers from 1 to this. There are more of them than rows: some point at nothing."""
    return _count(benchmark, table) * 8 // 7


def _column(benchmark: Benchmark, query: str, table: Table, name: str, used: frozenset[str]) -> Col:
    column = table.column(name)
    kind = {"INT": "INTEGER"}.get(column.type, column.type)
    key = name in table.keys[0].columns
    make = _plain(benchmark, query, name, kind, _pointer(benchmark, table, name))
    if key:
        make = make if _points(table, name) else _number(1, _top_number(benchmark, table))
    elif name not in used:
        make = _constant(kind)
    else:
        make = _or_null(make, 0.3 if name in asked_for_null(benchmark, query) else 0.04)
    return Col(name, kind, make, nullable=not key)


def _top_number(benchmark: Benchmark, table: Table) -> int:
    return 16 if len(table.keys[0].columns) > 1 else _top_key(benchmark, table)


def _points(table: Table, name: str) -> bool:
    return any(key.columns == (name,) for key in table.foreign_keys)


def _pointer(benchmark: Benchmark, table: Table, name: str) -> Maker | None:
    for key in table.foreign_keys:
        if key.columns == (name,):
            return _mostly_low(_top_key(benchmark, benchmark.catalog.get(key.parent)))
    return None


def _number(low: int, high: int) -> Maker:
    return lambda rng: rng.randint(low, high)


def _mostly_low(high: int) -> Maker:
    """Small numbers more often than large ones: some customers buy a lot."""
    return lambda rng: rng.randint(1, rng.randint(1, high))


def _constant(kind: str) -> Maker:
    """Of a column that the query does not read."""
    return lambda rng: rng.choice(["x", "y"]) if kind in ("TEXT", "VARCHAR") else None


def _or_null(make: Maker, share: float) -> Maker:
    return lambda rng: None if rng.random() < share else make(rng)


def _plain(benchmark: Benchmark, query: str, name: str, kind: str, pointer: Maker | None) -> Maker:
    """A value that the query compares the column with, or anything; of a foreign key, mostly a key."""
    listed = [v for c in compared_with(benchmark, query).get(name, ()) if (v := _as(kind, c)) is not None]
    listed += benchmark.usual.get(name, ())
    anything, seldom = pointer or _anything(benchmark, kind), 0.7 if pointer else 0.15

    def make(rng: random.Random) -> Any:
        if not listed or rng.random() < seldom:
            return anything(rng)
        if (value := rng.choice(listed)) is ANYTHING:
            return anything(rng)
        return _between(value, max(v for v in listed if v is not ANYTHING), rng)

    return make


def _between(value: Any, top: Any, rng: random.Random) -> Any:
    """The value itself; or, of days and amounts, one between it and the last that the query names, or around it."""
    if rng.random() < 0.4:
        return value
    match value:
        case date():
            return value + timedelta(days=rng.randint(0, (top - value).days) if value < top else rng.randint(-20, 20))
        case Decimal():
            return value + Decimal(rng.randint(-100, 100)).scaleb(-2)
        case _:
            return value


def _as(kind: str, value: Any) -> Any:
    """A constant as a value of the column's type; None if it is none."""
    if value is ANYTHING:
        return value
    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    match kind.partition("(")[0]:
        case "INTEGER" if number and value == int(value):
            return int(value)
        case "DECIMAL" if number and abs(value) < 90000:
            return Decimal(value).quantize(Decimal("0.01"))
        case "DATE" if isinstance(value, date):
            return value
        case "TEXT" | "VARCHAR" if isinstance(value, str):
            return value
        case _:
            return None


def _anything(benchmark: Benchmark, kind: str) -> Maker:
    match kind.partition("(")[0]:
        case "INTEGER":
            return lambda rng: rng.choice((0, 1, 2, 3, 4, 5, 40))
        case "DECIMAL":
            return lambda rng: Decimal(rng.randint(-2000, 30000)).scaleb(-2)
        case "DATE":
            return lambda rng: benchmark.first_day + timedelta(days=rng.randrange(benchmark.days))
        case _:
            return lambda rng: rng.choice(["a", "b", "c d"])


# ---------------------------------------------------------------------- the calendar of TPC-DS
NOT_EVERY_DAY = frozenset({"d_day_name", "d_qoy", "d_dow", "d_quarter_name", "d_dom"})
"""Columns of the calendar that may be NULL; the others follow from each other, and queries rely on it."""


def about(day: date) -> dict[str, Any]:
    """What the calendar says of a day."""
    quarter, weeks = (day.month + 2) // 3, (day - date(1900, 1, 1)).days // 7
    return {
        "d_date": day,
        "d_year": day.year,
        "d_moy": day.month,
        "d_dom": day.day,
        "d_qoy": quarter,
        "d_dow": day.isoweekday() % 7,
        "d_month_seq": (day.year - 1900) * 12 + day.month - 1,
        "d_week_seq": weeks + 1,
        "d_day_name": f"{day:%A}",
        "d_quarter_name": f"{day.year}Q{quarter}",
    }


def _calendar(named: dict[str, list[Any]], by_week: bool) -> Callable[[random.Random, list[date]], date]:
    """Days of which the query names something; a week that it compares with others also a year later."""

    def listed(name: str) -> list[Any]:
        kind = "DATE" if name == "d_date" else "VARCHAR" if name == "d_quarter_name" else "INTEGER"
        return [v for c in named.get(name, ()) if c is not ANYTHING and (v := _as(kind, c)) is not None]

    def day_of(rng: random.Random) -> date:
        if (days := listed("d_date")) and rng.random() < 0.3:
            return rng.choice(days)
        if days and rng.random() < 0.7:
            return min(days) + timedelta(days=rng.randint(-5, (max(days) - min(days)).days + 5))
        year = rng.choice(listed("d_year") or range(1998, 2003))
        month = rng.choice(listed("d_moy") or [q * 3 for q in listed("d_qoy")] or range(1, 13))
        if months := listed("d_month_seq"):
            year, month = divmod(rng.randint(int(min(months)), int(max(months))) + 1900 * 12, 12)
            month += 1
        elif (names := listed("d_quarter_name")) and rng.random() < 0.9:
            name = rng.choice(names)
            year, month = int(name[:4]), int(name[-1]) * 3
        found = date(int(year), min(12, int(month)), int(rng.choice([*listed("d_dom"), rng.randint(1, 28)])))
        while (wanted := listed("d_dow")) and found.isoweekday() % 7 not in wanted and rng.random() < 0.9:
            found += timedelta(days=1)
        return found

    def make(rng: random.Random, there: list[date]) -> date:
        if by_week and there and rng.random() < 0.5:
            return rng.choice(there) + timedelta(days=rng.choice((0, 364, 371)) + rng.randint(-3, 3))
        if there and rng.random() < 0.15:
            return rng.choice(there) + timedelta(days=rng.randint(1, 60))
        if rng.random() < 0.1:
            return date(1998, 1, 1) + timedelta(days=rng.randrange(1800))
        return day_of(rng)

    return make


# ---------------------------------------------------------------------- the query to compare with
def with_limit(query: str, limit: int) -> str:
    """The query with a smaller LIMIT, where it has one: tables are so small that 100 rows are all."""
    tree = sqlglot.parse_one(query, dialect="duckdb")
    assert isinstance(tree, exp.Select)
    return tree.limit(limit).sql(dialect="duckdb") if tree.args.get("limit") and tree.args.get("order") else query


def decided(query: str, columns: int) -> str:
    """The query to compare a view with.

    Among rows that are equal in ORDER BY, LIMIT leaves a choice. The view makes it by the remaining columns,
    from left to right; so does this query."""
    tree = sqlglot.parse_one(query, dialect="duckdb")
    order = tree.args.get("order")
    if order is None or tree.args.get("limit") is None:
        return query
    ties = [exp.Ordered(this=exp.Literal.number(i + 1)) for i in range(columns)]
    order.set("expressions", [*order.expressions, *ties])
    return tree.sql(dialect="duckdb")
