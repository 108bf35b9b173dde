"""A case: tables, views over them and over each other, and batches of changes. It is all text.

A case is run by `run`: after each batch the views are refreshed and compared with their queries, as bags.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import viewkeep
from support import bag_difference, rows_of
from viewkeep.errors import ViewkeepError

from .queries import Generator, Out, Relation
from .tables import batch, declarations, fill, random_tables

DIALECT = "duckdb"
"""What cases are written in; other engines get a translation."""
LARGEST = 2000
"""Rows a view may have: more would only be slow."""
LONGEST = 800
"""Characters of a query, for the same reason."""
BATCHES = (3, 4, 5) * 4 + (24,)
"""Refreshes of a case; now and then so many that old changes are dropped."""
OPTIONS = ("policy = 'incremental'",) * 8 + ("policy = 'incremental', changes = 'none'", "policy = 'auto'")


@dataclass(frozen=True)
class View:
    name: str
    query: str
    options: str = "policy = 'incremental'"

    @property
    def ddl(self) -> str:
        return f"CREATE MATERIALIZED VIEW {self.name} WITH ({self.options}) AS {self.query}"


@dataclass(frozen=True)
class Case:
    seed: int
    setup: tuple[str, ...]
    """Tables, what is declared of them, and their first rows."""
    views: tuple[View, ...]
    batches: tuple[tuple[str, ...], ...]
    features: frozenset[str] = frozenset()

    @property
    def script(self) -> str:
        lines = [f"-- seed {self.seed}", *self.setup, *(v.ddl for v in self.views)]
        for changes in self.batches:
            lines += [*changes, "-- refresh"]
        return "\n".join(line if line.startswith("--") else f"{line};" for line in lines)


def parse_script(text: str) -> Case:
    """A case from its script, as it was printed."""
    seed, setup, views, batches, changes = 0, list[str](), list[View](), list[tuple[str, ...]](), list[str]()
    for line in filter(None, (x.strip() for x in text.splitlines())):
        statement = line.removesuffix(";")
        if found := re.fullmatch(r"-- seed (\d+)", line):
            seed = int(found[1])
        elif line == "-- refresh":
            batches.append(tuple(changes))
            changes = []
        elif line.startswith("--"):
            continue
        elif found := re.fullmatch(r"CREATE MATERIALIZED VIEW (\w+) WITH \((.*?)\) AS (.*)", statement):
            views.append(View(found[1], found[3], found[2]))
        else:
            (changes if views else setup).append(statement)
    return Case(seed, tuple(setup), tuple(views), tuple(batches))


@dataclass(frozen=True)
class Failure:
    """What went wrong: `kind` is what shrinking keeps."""

    kind: str
    what: str
    view: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.view} {self.what}"


@dataclass
class Outcome:
    failure: Failure | None = None
    strategies: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    left_out: int = 0
    """Views that the engine refuses, or that are too large."""


def random_case(seed: int) -> Case:
    rng = random.Random(seed)
    tables = random_tables(rng)
    setup = [t.ddl for t in tables]
    relations = [Relation(t.name, tuple(Out(c.name, c.type) for c in t.columns)) for t in tables]
    for table in tables:
        setup += fill(rng, table)
    setup += declarations(rng, tables)
    views: list[View] = []
    features: set[str] = set()
    generator = Generator(rng, relations, features)
    for number in range(rng.choice((1, 1, 2, 3))):
        text, columns = generator.query(rng.choice((0, 1, 1, 1, 1, 1, 1, 2)))
        while len(text) > LONGEST:
            text, columns = generator.query(1)
        views.append(View(f"v{number}", text, rng.choice(OPTIONS)))
        # Views above: what was just made is read with a good chance.
        if "none" in views[-1].options:
            continue
        made = Relation(f"v{number}", tuple(columns))
        generator.relations = [*generator.relations, made, made]
    batches = tuple(tuple(batch(rng, tables)) for _ in range(rng.choice(BATCHES)))
    return Case(seed, tuple(setup), tuple(views), batches, frozenset(features))


def run(case: Case, url: str = "duckdb://") -> Outcome:
    outcome = Outcome()
    with viewkeep.connect(url) as keeper:
        if keeper.dialect == "duckdb":
            keeper.sql("SET threads = 1")
        _change_all(keeper, case.setup)
        made = _create(keeper, case, outcome)
        rng = random.Random(case.seed)
        for number, changes in enumerate(case.batches):
            if outcome.failure:
                break
            _change_all(keeper, changes)
            lag = rng.random() < 0.2 and number + 1 < len(case.batches)
            asked = [v for v in made if rng.random() < 0.5] if lag else made
            _refresh(keeper, asked, outcome, f"batch {number}", alone=lag)
    return outcome


def _create(keeper: viewkeep.Keeper, case: Case, outcome: Outcome) -> list[View]:
    made: list[View] = []
    for view in case.views:
        if outcome.failure:
            break
        try:
            rows = keeper.query(f"SELECT COUNT(*) AS n FROM ({view.query}) AS q", DIALECT).to_pylist()[0]["n"]
            keeper.query(view.query, DIALECT)
        except ViewkeepError:
            outcome.left_out += 1
            continue
        if rows > LARGEST:
            outcome.left_out += 1
            continue
        try:
            keeper.sql(view.ddl, DIALECT)
        except Exception as error:
            outcome.failure = Failure(_kind(error, "create"), str(error), view.name)
        else:
            made.append(view)
            outcome.failure = _compare(keeper, view, "at creation")
    return made


def _change_all(keeper: viewkeep.Keeper, statements: Sequence[str]) -> None:
    """One after the other; on a lake, where each is a commit, rows of one table that follow each other at once."""
    together: list[str] = []
    for statement in statements:
        start, values, row = statement.partition(" VALUES ")
        if keeper.dialect == "duckdb" or not values or not together or not together[-1].startswith(start + values):
            together.append(statement)
        else:
            together[-1] += f", {row}"
    for statement in together:
        _change(keeper, statement)


def _change(keeper: viewkeep.Keeper, statement: str) -> None:
    """A statement that breaks a key changes nothing, and that is fine."""
    with contextlib.suppress(ViewkeepError):
        keeper.sql(statement, DIALECT)


def _refresh(keeper: viewkeep.Keeper, views: list[View], outcome: Outcome, what: str, alone: bool) -> None:
    try:
        reports = [r for v in views for r in _reports(keeper.refresh(v.name))] if alone else keeper.refresh()
    except Exception as error:
        outcome.failure = Failure(_kind(error, "refresh"), f"{what}: {error}")
        return
    for report in reports:
        outcome.strategies[report.strategy] += 1
        if report.strategy == "recompute":
            outcome.reasons[report.reason] += 1
    for view in views:
        outcome.failure = outcome.failure or _compare(keeper, view, what)


def _reports(found: object) -> list[viewkeep.RefreshReport]:
    return found if isinstance(found, list) else [found]  # type: ignore[list-item]


def _compare(keeper: viewkeep.Keeper, view: View, what: str) -> Failure | None:
    try:
        expected = keeper.query(view.query, DIALECT)
    except ViewkeepError:
        return None  # the query itself fails on these rows
    try:
        found = keeper.query(f"SELECT * FROM {view.name}")
    except Exception as error:
        return Failure(_kind(error, "read"), f"{what}: {error}", view.name)
    if found.schema.types != expected.schema.types or found.column_names != expected.column_names:
        return Failure("other columns", f"{what}: {found.schema.types} for {expected.schema.types}", view.name)
    missing, extra = bag_difference(rows_of(expected), rows_of(found), absolute=1e-9)
    if missing or extra:
        return Failure("wrong rows", f"{what}: missing {missing[:3]}, extra {extra[:3]}", view.name)
    return None


def _kind(error: Exception, where: str) -> str:
    return f"{type(error).__name__} in {where}"
