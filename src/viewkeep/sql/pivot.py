"""PIVOT and UNPIVOT with listed columns, as the queries they stand for.

    PIVOT (SUM(x) FOR m IN ('a', 'b') GROUP BY k)     SELECT k, SUM(x) FILTER (WHERE m = 'a') AS a, … GROUP BY k
    UNPIVOT (x FOR m IN (a, b))                       SELECT k, 'a' AS m, a AS x … WHERE a IS NOT NULL UNION ALL …

DuckDB compares the pivoted value as text: 1.50 is not 1.5. Spark compares values, and where there is no
row at all it gives NULL, of a COUNT too. Columns that follow from the data have no incremental form.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewkeep.errors import SqlError, UnsupportedError
from viewkeep.sql.meanings import meaning
from viewkeep.sql.parse import position_of

_ZERO_OF_NOTHING = (exp.Count, exp.CountIf, exp.ApproxDistinct)
_TELLING_TYPES = (exp.Sum, exp.Avg, *_ZERO_OF_NOTHING)
"""Aggregates whose type is a number for sure: Spark goes another way where one is not."""


@dataclass(frozen=True, slots=True)
class _Value:
    """One of the listed values, or combinations of values, of what is pivoted."""

    name: str
    test: exp.Expr


def expand(pivot: exp.Pivot, source: exp.Expr, columns: Sequence[str], dialect: str) -> exp.Query:
    """The query of a PIVOT or UNPIVOT over a relation with these columns."""
    if pivot.args.get("unpivot"):
        return _unpivoted(pivot, source, columns)
    if pivot.args.get("default_on_null"):
        raise UnsupportedError("PIVOT with DEFAULT ON NULL has no incremental form yet", position_of(pivot))
    as_statement = bool(pivot.args.get("using"))
    calls = pivot.args["using"] if as_statement else pivot.expressions
    fields = pivot.expressions if as_statement else pivot.args.get("fields") or []
    values = _combined([_listed(field, dialect) for field in fields])
    keys = _keys(pivot, [*calls, *(f.this for f in fields)], columns)
    outputs: list[exp.Expr] = [_column(k) for k in keys]
    for value in values:
        outputs += [
            exp.alias_(_filtered(c, value, calls, dialect), _named(value, c, calls, dialect), quoted=True)
            for c in calls
        ]
    query = exp.select(*outputs).from_(source.copy())
    return query.group_by(*(_column(k) for k in keys)) if keys else query


def check_listed(query: exp.Expr) -> None:
    """Refuse a PIVOT whose columns follow from the rows: a view has the columns it was made with."""
    for pivot in query.find_all(exp.Pivot):
        unlisted = [e for e in pivot.expressions if not isinstance(e, exp.In)]
        if pivot.args.get("using") and not pivot.args.get("unpivot") and unlisted:
            raise SqlError(
                "PIVOT without a list of values has the columns that its rows give it, so no view of it can be kept",
                position_of(unlisted[0]),
                f"list the values: ON {unlisted[0].sql(dialect='duckdb')} IN (…)",
            )


# ---------------------------------------------------------------------- PIVOT
def _listed(field: exp.Expr, dialect: str) -> list[_Value]:
    if not isinstance(field, exp.In) or not field.expressions:
        raise UnsupportedError(
            "PIVOT without a list of values: which columns it has follows from the rows", position_of(field)
        )
    return [_value(field.this, item, dialect) for item in field.expressions]


def _value(pivoted: exp.Expr, item: exp.Expr, dialect: str) -> _Value:
    alias = item.args["alias"] if isinstance(item, exp.PivotAlias) else None
    literal = item.this if isinstance(item, exp.PivotAlias) else item
    pivoted = pivoted.unnest()
    if isinstance(literal, exp.Tuple) and isinstance(pivoted, exp.Tuple):
        parts = [_value(p, v, dialect) for p, v in zip(pivoted.expressions, literal.expressions, strict=True)]
        name, test = "_".join(p.name for p in parts), exp.and_(*(p.test for p in parts))
    else:
        name = _text(literal)
        # NULL is a value like any other here.
        value, other = (pivoted.copy(), literal.copy())
        if meaning(dialect).pivots_texts:
            value = exp.cast(value, "TEXT")
            other = other if isinstance(other, exp.Null) else exp.Literal.string(name)
        test = exp.NullSafeEQ(this=value, expression=other)
    return _Value(alias.name if alias is not None else name, test)


def _text(literal: exp.Expr) -> str:
    """A constant as the engine shows it."""
    match literal:
        case exp.Literal():
            return literal.name
        case exp.Neg(this=exp.Literal()):
            return f"-{literal.name}"
        case exp.Null():
            return "NULL"
        case exp.Boolean():
            return "true" if literal.this else "false"
        case exp.Cast(this=exp.Literal()) if literal.to.is_type("date"):
            return literal.name
        case _:
            raise UnsupportedError("PIVOT for a value that is no plain constant", position_of(literal))


def _combined(lists: list[list[_Value]]) -> list[_Value]:
    """Every combination of the values of several columns, the last one changing first."""
    return [
        _Value("_".join(v.name for v in values), exp.and_(*(v.test for v in values)))
        for values in itertools.product(*lists)
    ]


def _named(value: _Value, call: exp.Expr, calls: list[exp.Expr], dialect: str) -> str:
    if len(calls) == 1 and not (call.alias and meaning(dialect).pivot_names_lone_call):
        return value.name
    if not call.alias:
        raise UnsupportedError("PIVOT with several aggregates, one of them without a name", position_of(call))
    return f"{value.name}_{call.alias}"


def _filtered(call: exp.Expr, value: _Value, calls: list[exp.Expr], dialect: str) -> exp.Expr:
    aggregate = call.unalias()
    if not isinstance(aggregate, exp.AggFunc):
        raise UnsupportedError("PIVOT of something that is not an aggregate alone", position_of(call))
    found = _where(aggregate, value)
    if meaning(dialect).pivot_counts_nothing or not any(isinstance(c.unalias(), _ZERO_OF_NOTHING) for c in calls):
        return found
    if not all(isinstance(c.unalias(), _TELLING_TYPES) for c in calls):
        raise UnsupportedError("PIVOT of a count beside another aggregate", position_of(call))
    there = exp.GT(this=_where(exp.Count(this=exp.Star()), value), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=there, true=found)])


def _where(aggregate: exp.Expr, value: _Value) -> exp.Expr:
    return exp.Filter(this=aggregate.copy(), expression=exp.Where(this=value.test.copy()))


def _keys(pivot: exp.Pivot, used: Sequence[exp.Expr], columns: Sequence[str]) -> list[str]:
    """What rows are grouped by: the columns of GROUP BY, or all that nothing else uses."""
    group = pivot.args.get("group")
    if group is not None:
        if not all(isinstance(e, exp.Column) for e in group.expressions):
            raise UnsupportedError("PIVOT with GROUP BY anything but columns", position_of(group))
        return [_known(e, columns) for e in group.expressions]
    read = {c.name.lower() for scalar in used for c in scalar.find_all(exp.Column)}
    return [c for c in columns if c.lower() not in read]


# ---------------------------------------------------------------------- UNPIVOT
def _unpivoted(pivot: exp.Pivot, source: exp.Expr, columns: Sequence[str]) -> exp.Query:
    into, fields = pivot.args.get("into"), pivot.args.get("fields") or []
    if fields:
        name, values, items = fields[0].this, pivot.expressions, fields[0].expressions
    elif into is not None:
        name, values, items = into.this, into.expressions, pivot.expressions
    else:
        name, values, items = exp.to_identifier("name"), [exp.to_identifier("value")], pivot.expressions
    if len(values) != 1 or isinstance(values[0], exp.Tuple) or len(fields) > 1:
        raise UnsupportedError("UNPIVOT into several columns has no incremental form yet", position_of(pivot))
    taken = [_item(item, columns) for item in items]
    rest = [c for c in columns if c not in {column for column, _ in taken}]
    parts: list[exp.Select] = []
    for column, label in taken:
        outputs = [*map(_column, rest), exp.alias_(exp.Literal.string(label), name.name, quoted=True)]
        part = exp.select(*outputs, exp.alias_(_column(column), values[0].name, quoted=True)).from_(source.copy())
        if not pivot.args.get("include_nulls"):
            part = part.where(exp.Not(this=exp.Is(this=_column(column), expression=exp.Null())))
        parts.append(part)
    whole: exp.Query = parts[0]
    for part in parts[1:]:
        whole = exp.Union(this=whole, expression=part, distinct=False)
    return whole


def _item(item: exp.Expr, columns: Sequence[str]) -> tuple[str, str]:
    """A column that becomes rows, and what it is called in them."""
    aliased = isinstance(item, exp.PivotAlias | exp.Alias)
    column = item.this if aliased else item
    if not isinstance(column, exp.Column) or isinstance(column.this, exp.Star):
        raise UnsupportedError("UNPIVOT of anything but listed columns has no incremental form yet", position_of(item))
    known = _known(column, columns)
    return known, item.args["alias"].name if aliased else known


def _known(column: exp.Column, columns: Sequence[str]) -> str:
    found = next((c for c in columns if c.lower() == column.name.lower()), None)
    if found is None:
        raise SqlError(f"column {column.name!r} does not exist", position_of(column), f"columns: {', '.join(columns)}")
    return found


def _column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))
