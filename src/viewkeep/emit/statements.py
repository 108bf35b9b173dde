"""Program steps → SQL statements, for an engine that changes its tables in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from sqlglot import exp

from viewkeep.catalog import TableName
from viewkeep.emit.select import Sizes, by_name, identifier, select, table, unbounded, user_query
from viewkeep.plan.nodes import Node
from viewkeep.plan.scalars import null_safe_equal
from viewkeep.strategy import names, ranks
from viewkeep.strategy.form import ON_A_LAKE
from viewkeep.strategy.logged import this_version
from viewkeep.strategy.program import (
    Append,
    Clear,
    DeleteMatching,
    DropEmpty,
    MergeAdd,
    Program,
    Replace,
    Stage,
    Step,
    TakeOut,
)

AVERAGE_DECIMALS = frozenset({"spark"})
"""Dialects in which AVG of decimals is a decimal."""
VARIABLE = "_vk_bound"
"""The session's variable for the bound of a view."""
FORMS = {"spark": ON_A_LAKE}
"""How programs in a dialect store a view, if not plainly."""


@dataclass(frozen=True, slots=True)
class Search:
    """Rows that leave a view, before they are looked for."""

    count: str
    """How many they are; and how many keys they have, where they are found by their key."""
    statistics: str
    """What DuckDB knows of each key column of the stored rows: about how many values it has, and whether a NULL."""
    by: Mapping[str, str]
    """For each key column the search that first leaves out rows with other values of it, and rows with NULL.

    DuckDB compares stored rows with the values of one column while it reads them; with several at once only in the
    join above. Where few rows are looked for in a large view, that takes half the time."""


@dataclass(frozen=True, slots=True)
class ByValue:
    """Another statement to the same end, where a column has few values."""

    sql: str
    values: str
    """A query for about how many it has."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement of a program, the step it came from, and why it is there."""

    sql: str
    step: Step
    why: str
    counts_removed: bool = False
    """Whether its count is that of the rows that leave the view."""
    parameters: frozenset[str] = frozenset()
    """Names of the values that it needs: the run's version, the time now and at the last refresh."""
    search: Search | None = None
    """Where it looks for rows of which each must be there."""
    by_value: ByValue | None = None


def program_sql(program: Program, dialect: str, alone: bool = False) -> list[Statement]:
    """`alone`: for a program that is run without viewkeep, which has nobody to give it its parameter."""
    found = []
    for step in program.steps:
        build = take_out_by_key if isinstance(step, TakeOut) and step.by_key and not alone else take_out
        match step:
            case TakeOut():
                trees = build(step, dialect)
            case Replace():
                trees = replace_sql(step, dialect, alone)
            case _:
                trees = [step_sql(step, dialect)]
        for number, tree in enumerate(map(with_clock if alone else with_variables, trees)):
            sql, needed = tree.sql(dialect=dialect, pretty=True), parameters_of(tree)
            search = None
            if isinstance(step, TakeOut) and step.exact and not alone and (number == 0 or build is take_out_by_key):
                search = _search(step, build, number, dialect)
            by_value = None
            if isinstance(step, Replace) and step.by_value is not None and not alone:
                by_value = _by_value(step, step.by_value, dialect)
            counts_removed = isinstance(step, TakeOut) and number == 1
            found.append(Statement(sql, step, step.why, counts_removed, needed, search, by_value))
    return found


def _by_value(step: Replace, way: ranks.ByValue, dialect: str) -> ByValue:
    (tree,) = map(with_variables, replace_sql(replace(step, source=way.source), dialect, False))
    known = exp.alias_(table(way.table), "stored", table=True)
    asked = exp.select(_statistic(way.column, "approx_unique")).from_(known).limit(1)
    return ByValue(tree.sql(dialect=dialect, pretty=True), asked.sql(dialect=dialect))


def parameters_of(tree: exp.Expr) -> frozenset[str]:
    return frozenset(p.name for p in tree.find_all(exp.Placeholder))


def with_clock(tree: exp.Expr) -> exp.Expr:
    """Read version and times from the clock instead: for a program that is run without viewkeep."""
    for parameter in list(tree.find_all(exp.Placeholder)):
        value = exp.select(exp.column(identifier(parameter.name))).from_(table(names.CLOCK))
        parameter.replace(value.subquery())
    return tree


def with_variables(tree: exp.Expr) -> exp.Expr:
    """Read a bound from the session: it has the type of what it is compared with, and is planned as a constant."""
    return with_values(tree, {names.BOUND: exp.func("getvariable", exp.Literal.string(VARIABLE))})


def with_values(tree: exp.Expr, values: Mapping[str, exp.Expr]) -> exp.Expr:
    """Give parameters their values where a statement takes none."""
    return tree.transform(lambda n: values[n.name].copy() if isinstance(n, exp.Placeholder) and n.name in values else n)


def step_sql(step: Stage | Append | MergeAdd | DropEmpty | DeleteMatching | Clear, dialect: str) -> exp.Expr:
    match step:
        case Stage():
            return _stage(step, dialect)
        case Append():
            return _append(step, dialect)
        case MergeAdd():
            return _merge(step, dialect)
        case DeleteMatching():
            return _delete(step, dialect)
        case DropEmpty():
            empty = exp.EQ(this=exp.column(identifier(step.rows)), expression=exp.Literal.number(0))
            return exp.Delete(this=table(step.target), where=exp.Where(this=empty))
        case Clear():
            return exp.Delete(this=table(step.target))
        case _:
            assert_never(step)


def query_sql(plan: Node, columns: tuple[str, ...], dialect: str, sizes: Sizes | None = None) -> exp.Select:
    return select(plan, by_name(plan, columns), dialect, sizes)


def contents_query(source: Node | str, columns: tuple[str, ...], dialect: str) -> exp.Select:
    """A text is a query of the user that has no plan."""
    if isinstance(source, str):
        return user_query(source, columns, dialect)
    return query_sql(source, columns, dialect)


def stamped(rows: exp.Select, columns: tuple[str, ...], stamp: str | None) -> exp.Select:
    """Rows with the run's version before their columns, in a column that is to be made: hence its type."""
    if stamp is None:
        return rows
    version = exp.alias_(exp.cast(this_version(), "BIGINT"), identifier(stamp))
    named = [exp.column(identifier(c)) for c in columns]
    return exp.select(version, *named).from_(rows.subquery("contents", copy=False))


def _stage(step: Stage, dialect: str) -> exp.Expr:
    return temporary(step.name, contents_query(step.source, step.columns, dialect), dialect)


def temporary(name: TableName, query: exp.Expr, dialect: str) -> exp.Expr:
    """A table for the rest of the refresh."""
    return exp.Create(
        this=table(name),
        kind="TABLE",
        replace=dialect != "postgres",
        expression=query,
        properties=exp.Properties(expressions=[exp.TemporaryProperty()]),
    )


def _append(step: Append, dialect: str) -> exp.Expr:
    outputs = by_name(step.source, step.columns)
    columns = list(step.columns)
    if step.stamp:
        outputs = [(this_version(), step.stamp), *outputs]
        columns = [step.stamp, *columns]
    query = select(step.source, outputs, dialect)
    return exp.Insert(this=_columns_of(step.target, columns), expression=query)


def _merge(step: MergeAdd, dialect: str) -> exp.Expr:
    source = query_sql(step.source, (*step.keys, *step.counters), dialect).subquery("change", copy=False)

    def old(name: str) -> exp.Column:
        return exp.column(identifier(name), table="stored")

    def new(name: str) -> exp.Column:
        return exp.column(identifier(name), table="change")

    on = exp.and_(*(null_safe_equal(old(k), new(k)) for k in step.keys)) if step.keys else exp.true()
    update = exp.Update(
        expressions=[
            exp.EQ(this=exp.column(identifier(c)), expression=exp.Add(this=old(c), expression=new(c)))
            for c in step.counters
        ]
    )
    whens = [exp.When(matched=True, then=update)]
    if step.keys:  # the one row of a global aggregate is always there
        every = (*step.keys, *step.counters)
        insert = exp.Insert(
            this=exp.Tuple(expressions=[exp.column(identifier(c)) for c in every]),
            expression=exp.Tuple(expressions=[new(c) for c in every]),
        )
        whens.append(exp.When(matched=False, then=insert))
    return exp.Merge(
        this=exp.alias_(table(step.target), "stored", table=True),
        using=source,
        on=on,
        whens=exp.Whens(expressions=whens),
    )


def _delete(step: DeleteMatching, dialect: str) -> exp.Expr:
    source = query_sql(step.source, step.columns, dialect)
    chosen = _numbered(step.target, step.columns, (), source, _address(dialect))
    picked = exp.select("_vk_address").from_(chosen.subquery("numbered", copy=False)).where("_vk_number <= _vk_gone")
    return exp.Delete(
        this=exp.alias_(table(step.target), "stored", table=True),
        where=exp.Where(this=exp.In(this=_address(dialect), query=picked.subquery())),
    )


def replace_sql(step: Replace, dialect: str, alone: bool) -> list[exp.Expr]:
    query = stamped(contents_query(step.source, step.columns, dialect), step.columns, step.stamp)
    if dialect != "postgres":
        stored: list[exp.Expr] = [exp.Create(this=table(step.target), kind="TABLE", replace=True, expression=query)]
    else:  # which does not drop a table that a view reads
        columns = (step.stamp, *step.columns) if step.stamp else step.columns
        stored = [
            exp.Delete(this=table(step.target)),
            exp.Insert(this=_columns_of(step.target, columns), expression=query),
        ]
    if step.kept_of is None or not alone:
        return stored
    columns = (names.VERSION, *step.columns)
    rows = exp.select(this_version(), *(exp.column(identifier(c)) for c in step.columns)).from_(table(step.target))
    return [exp.Insert(this=_columns_of(names.log(step.kept_of), columns), expression=rows), *stored]


def _columns_of(name: TableName, columns: Sequence[str]) -> exp.Schema:
    return exp.Schema(this=table(name), expressions=[identifier(c) for c in columns])


def rename_sql(name: TableName, new: TableName, dialect: str) -> str:
    """`new` in the same schema."""
    renamed = exp.AlterRename(this=exp.Table(this=identifier(new.name)))
    return exp.Alter(this=table(name), kind="TABLE", actions=[renamed]).sql(dialect=dialect)


def take_out(step: TakeOut, dialect: str, first: str | None = None) -> list[exp.Expr]:
    """Choose the stored rows that go, write them to the log, remove them. `first`: see Search."""
    backing, chosen = names.backing(step.view), out_of(step.view)
    every = (names.BORN, *step.columns)
    source, address = query_sql(step.source, step.asked, dialect), _address(dialect)
    if step.unique:
        values = [_of("gone" if step.whole else "stored", c) for c in step.columns]
        wanted = exp.select(exp.alias_(address, "_vk_address"), _of("stored", names.BORN), *values)
        query = wanted.from_(exp.alias_(table(backing), "stored", table=True))
        query = query.join(source.subquery("gone", copy=False), on=_same(step))
        query = query.where(*_among(step, first, dialect))
    else:
        numbered = _numbered(backing, step.match, every, source, address).subquery("numbered", copy=False)
        query = exp.select("_vk_address", *(exp.column(identifier(c)) for c in every)).from_(numbered)
        query = query.where("_vk_number <= _vk_gone")
    columns = [exp.column(identifier(c)) for c in every]
    log = exp.Insert(
        this=_columns_of(names.log(step.view), (names.VERSION, *every)),
        expression=exp.select(exp.alias_(this_version(), identifier(names.VERSION)), *columns).from_(table(chosen)),
    )
    addresses = exp.select("_vk_address").from_(table(chosen))
    remove = exp.Delete(
        this=exp.alias_(table(backing), "stored", table=True),
        where=exp.Where(this=exp.In(this=address.copy(), query=addresses.subquery())),
    )
    return [temporary(chosen, query, dialect), log, remove]


def take_out_by_key(step: TakeOut, dialect: str, first: str | None = None) -> list[exp.Expr]:
    """The same where the source has all columns and finds each row by its key: write the source to the log, remove what
    it matches.

    The log also wants to know when a row came, if that was after the oldest version that somebody may ask for. Such
    rows were added last, so DuckDB skips all blocks before them: looking all rows up first, to remove them by their
    addresses, takes twice as long."""
    stored = exp.alias_(table(names.backing(step.view)), "stored", table=True)
    gone = query_sql(step.source, step.asked, dialect).subquery("gone", copy=False)
    young = exp.select(*(_of("stored", c) for c in (names.BORN, *step.match))).from_(stored)
    recent = exp.GT(this=_of("stored", names.BORN), expression=exp.Placeholder(this=names.OLDEST))
    young = young.where(recent, *_among(step, first, dialect))
    born = exp.Coalesce(this=_of("stored", names.BORN), expressions=[exp.Literal.number(0)])
    rows = exp.select(
        exp.alias_(this_version(), identifier(names.VERSION)),
        exp.alias_(born, identifier(names.BORN)),
        *(_of("gone", c) for c in step.columns),
    )
    rows = rows.from_(gone).join(young.subquery("stored", copy=False), on=_same(step), join_type="left")
    columns = (names.VERSION, names.BORN, *step.columns)
    # EXISTS, not USING: a semi join passes on nothing but addresses.
    keys = gone.copy() if first is None else _unbounded(step, step.match, dialect).subquery("gone", copy=False)
    goes = exp.Exists(this=exp.select("1").from_(keys).where(_same(step)))
    matched = exp.and_(goes, *_among(step, first, dialect))
    return [
        exp.Insert(this=_columns_of(names.log(step.view), columns), expression=rows),
        exp.Delete(this=stored.copy(), where=exp.Where(this=matched)),
    ]


def _same(step: TakeOut) -> exp.Expr:
    """That a stored row is one that goes."""
    return (
        exp.and_(*(null_safe_equal(_of("stored", c), _of("gone", c)) for c in step.match)) if step.match else exp.true()
    )


def _among(step: TakeOut, first: str | None, dialect: str) -> list[exp.Expr]:
    """That a stored row has a value, in one column, of a row that goes: no condition where no column is named."""
    if first is None:
        return []
    return [exp.In(this=_of("stored", first), query=_unbounded(step, [first], dialect).subquery())]


def _unbounded(step: TakeOut, columns: Sequence[str], dialect: str) -> exp.Select:
    """Columns of the rows that go, of which DuckDB knows no bounds."""
    types = {name: f.type for name, f in zip(step.asked, step.source.fields, strict=True)}
    gone = query_sql(step.source, step.asked, dialect).subquery("gone", copy=False)
    return exp.select(*(exp.alias_(unbounded(_of("gone", c), types[c]), identifier(c)) for c in columns)).from_(gone)


def _search(step: TakeOut, build: Callable[[TakeOut, str, str], list[exp.Expr]], number: int, dialect: str) -> Search:
    """`build` makes the statements of a step, of which the one with this number is looked at."""
    by = {}
    for name in step.match if step.unique else ():
        narrowed = with_variables(build(step, dialect, name)[number])
        by[name] = narrowed.sql(dialect=dialect, pretty=True, copy=False)
    gone = query_sql(step.source, step.asked, dialect).subquery("gone", copy=False)
    known = [_statistic(c, asked) for c in by for asked in ("approx_unique", "has_null")]
    statistics = exp.select(*known).from_(exp.alias_(table(names.backing(step.view)), "stored", table=True)).limit(1)
    count = exp.select(exp.Count(this=exp.Star())).from_(gone)
    if step.by_key:
        keys = exp.select(exp.alias_(exp.Count(this=exp.Star()), "rows")).from_(gone)
        keys = keys.group_by(*(_of("gone", c) for c in step.match))
        rows = exp.Coalesce(this=exp.Sum(this=exp.column("rows")), expressions=[exp.Literal.number(0)])
        count = exp.select(exp.cast(rows, "BIGINT"), exp.Count(this=exp.Star())).from_(keys.subquery("keys"))
    return Search(count.sql(dialect=dialect), statistics.sql(dialect=dialect), by)


def _statistic(column: str, asked: str) -> exp.Expr:
    known = exp.Anonymous(this="stats", expressions=[_of("stored", column)])
    return exp.Bracket(this=known, expressions=[exp.Literal.string(asked)])


def out_of(view: TableName) -> TableName:
    """The staged rows that leave a view."""
    return names.stage(view, "out")


def _address(dialect: str) -> exp.Column:
    return exp.column("ctid" if dialect == "postgres" else "rowid", table="stored")


def _numbered(
    target: TableName, match: tuple[str, ...], more: tuple[str, ...], source: exp.Select, address: exp.Column
) -> exp.Select:
    """Stored rows that equal some row to go, with a number among their copies and how many go."""
    counted = (
        exp.select(*(exp.column(identifier(c)) for c in match), exp.alias_(exp.Count(this=exp.Star()), "_vk_gone"))
        .from_(source.subquery("gone", copy=False))
        .group_by(*(exp.column(identifier(c)) for c in match))
    )
    number = exp.Window(
        this=exp.RowNumber(),
        partition_by=[_of("stored", c) for c in match],
        order=exp.Order(expressions=[address.copy()]),
    )
    return (
        exp.select(
            exp.alias_(address.copy(), "_vk_address"),
            *(_of("stored", c) for c in more),
            exp.alias_(number, "_vk_number"),
            exp.column("_vk_gone", table="counted"),
        )
        .from_(exp.alias_(table(target), "stored", table=True))
        .join(
            counted.subquery("counted"),
            on=exp.and_(*(null_safe_equal(_of("stored", c), _of("counted", c)) for c in match)),
        )
    )


def _of(alias: str, name: str) -> exp.Column:
    return exp.column(identifier(name), table=alias)


def table_as(name: TableName, query: exp.Expr) -> exp.Create:
    return exp.Create(this=table(name), kind="TABLE", expression=query)


def view_as(name: TableName, query: exp.Expr) -> exp.Create:
    return exp.Create(this=table(name), kind="VIEW", expression=query)
