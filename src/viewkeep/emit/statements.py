"""Program steps → SQL statements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from sqlglot import exp

from viewkeep.catalog import TableName
from viewkeep.emit.select import by_name, identifier, select, table, user_query
from viewkeep.plan.nodes import Node
from viewkeep.plan.scalars import null_safe_equal
from viewkeep.strategy import names
from viewkeep.strategy.logged import this_version
from viewkeep.strategy.program import Append, Clear, DeleteMatching, MergeAdd, Program, Stage, Step


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement of a program, the step it came from, and why it is there."""

    sql: str
    step: Step
    why: str


def program_sql(program: Program, dialect: str) -> list[Statement]:
    return [
        Statement(step_sql(s, dialect).sql(dialect=dialect, pretty=True, copy=False), s, s.why) for s in program.steps
    ]


def step_sql(step: Step, dialect: str) -> exp.Expr:
    match step:
        case Stage():
            return _stage(step, dialect)
        case Append():
            return _append(step, dialect)
        case MergeAdd():
            return _merge(step, dialect)
        case DeleteMatching():
            return _delete(step, dialect)
        case Clear():
            return exp.Delete(this=table(step.target))
        case _:
            assert_never(step)


def query_sql(plan: Node, columns: tuple[str, ...], dialect: str) -> exp.Select:
    return select(plan, by_name(plan, columns), dialect)


def _stage(step: Stage, dialect: str) -> exp.Expr:
    if isinstance(step.source, str):
        query: exp.Expr = user_query(step.source, step.columns, dialect)
    else:
        query = query_sql(step.source, step.columns, dialect)
    # Spark has no temporary tables: a view there, which its cache may hold.
    return exp.Create(
        this=table(step.name),
        kind="VIEW" if dialect == "spark" else "TABLE",
        replace=dialect != "postgres",
        expression=query,
        properties=exp.Properties(expressions=[exp.TemporaryProperty()]),
    )


def _append(step: Append, dialect: str) -> exp.Expr:
    outputs = by_name(step.source, step.columns)
    columns = list(step.columns)
    if step.stamped:
        outputs = [(this_version(), names.VERSION), *outputs]
        columns = [names.VERSION, *columns]
    query = select(step.source, outputs, dialect)
    target = exp.Schema(this=table(step.target), expressions=[identifier(c) for c in columns])
    return exp.Insert(this=target, expression=query)


def _merge(step: MergeAdd, dialect: str) -> exp.Expr:
    source = query_sql(step.source, (*step.keys, *step.counters), dialect).subquery("change", copy=False)

    def old(name: str) -> exp.Column:
        return exp.column(identifier(name), table="stored")

    def new(name: str) -> exp.Column:
        return exp.column(identifier(name), table="change")

    on = exp.and_(*(null_safe_equal(old(k), new(k)) for k in step.keys)) if step.keys else exp.true()
    total = exp.Add(this=old(step.rows), expression=new(step.rows))
    update = exp.Update(
        expressions=[
            exp.EQ(this=exp.column(identifier(c)), expression=exp.Add(this=old(c), expression=new(c)))
            for c in step.counters
        ]
    )
    whens = [exp.When(matched=True, then=update)]
    if step.keys:
        dead = exp.EQ(this=total, expression=exp.Literal.number(0))
        every = (*step.keys, *step.counters)
        insert = exp.Insert(
            this=exp.Tuple(expressions=[exp.column(identifier(c)) for c in every]),
            expression=exp.Tuple(expressions=[new(c) for c in every]),
        )
        whens = [
            exp.When(matched=True, condition=dead, then=exp.var("DELETE")),
            *whens,
            exp.When(matched=False, then=insert),
        ]
    merge = exp.Merge(
        this=exp.alias_(table(step.target), "stored", table=True),
        using=source,
        on=on,
        whens=exp.Whens(expressions=whens),
    )
    if dialect == "duckdb":
        # What happened to each group, for the report: DuckDB counts only the total otherwise.
        merge.set("returning", exp.Returning(expressions=[exp.column("merge_action")]))
    return merge


def _delete(step: DeleteMatching, dialect: str) -> exp.Expr:
    source, stored = query_sql(step.source, step.columns, dialect), exp.alias_(table(step.target), "stored", table=True)
    matches = exp.and_(*(null_safe_equal(_of("stored", c), _of("gone", c)) for c in step.columns))
    match dialect, step.unique:
        case "spark", True:
            gone = exp.When(matched=True, then=exp.var("DELETE"))
            return exp.Merge(
                this=stored, using=source.subquery("gone", copy=False), on=matches, whens=exp.Whens(expressions=[gone])
            )
        case "spark", False:
            # Rows have no address there; the difference of bags keeps the right number of copies.
            columns = [exp.column(identifier(c)) for c in step.columns]
            kept = exp.except_(exp.select(*columns).from_(table(step.target)), source, distinct=False)
            return exp.Insert(this=table(step.target), expression=kept, overwrite=True)
        case _, True:
            return exp.Delete(this=stored, using=[source.subquery("gone", copy=False)], where=exp.Where(this=matches))
        case _:
            return _delete_copies(step, source, dialect)


def _delete_copies(step: DeleteMatching, source: exp.Select, dialect: str) -> exp.Expr:
    """By value, one stored copy for each row to go: copies are numbered and the first n are taken."""
    address = exp.column("ctid" if dialect == "postgres" else "rowid", table="stored")
    counted = (
        exp.select(
            *(exp.column(identifier(c)) for c in step.columns), exp.alias_(exp.Count(this=exp.Star()), "_vk_gone")
        )
        .from_(source.subquery("gone", copy=False))
        .group_by(*(exp.column(identifier(c)) for c in step.columns))
    )
    number = exp.Window(
        this=exp.RowNumber(),
        partition_by=[_of("stored", c) for c in step.columns],
        order=exp.Order(expressions=[address.copy()]),
    )
    numbered = (
        exp.select(
            exp.alias_(address.copy(), "_vk_address"),
            exp.alias_(number, "_vk_number"),
            exp.column("_vk_gone", table="counted"),
        )
        .from_(exp.alias_(table(step.target), "stored", table=True))
        .join(
            counted.subquery("counted"),
            on=exp.and_(*(null_safe_equal(_of("stored", c), _of("counted", c)) for c in step.columns)),
        )
    )
    chosen = exp.select("_vk_address").from_(numbered.subquery("numbered")).where("_vk_number <= _vk_gone")
    return exp.Delete(
        this=exp.alias_(table(step.target), "stored", table=True),
        where=exp.Where(this=exp.In(this=address, query=chosen.subquery())),
    )


def _of(alias: str, name: str) -> exp.Column:
    return exp.column(identifier(name), table=alias)


def table_as(name: TableName, query: exp.Expr) -> exp.Create:
    return exp.Create(this=table(name), kind="TABLE", expression=query)


def view_as(name: TableName, query: exp.Expr) -> exp.Create:
    return exp.Create(this=table(name), kind="VIEW", expression=query)
