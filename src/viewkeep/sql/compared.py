"""Values compared with the rows of a subquery, as values of their own: IN, ANY and ALL.

    x > ANY (q)       TRUE where there is a row of q for which it holds; else NULL where there is one of
                      which it is not known; else FALSE
    x > ALL (q)       FALSE where there is a row for which it does not hold; else NULL …; else TRUE
    (x, y) IN (q)     as (x, y) = ANY (q)

Both questions are left joins with a flag. What is equal is found by its value; for anything else the distinct
values of x are compared with the rows of q.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewkeep.plan.nodes import Aggregate, Field, Filter, Fresh, Join, JoinKind, Named, Node, Project, Values
from viewkeep.plan.scalars import Scalar, column, integer, operand
from viewkeep.sql.subquery import (
    Domain,
    Joined,
    Nested,
    Pending,
    by_link,
    case_of,
    flagged,
    is_null,
    linked,
    not_null,
)

Comparison = type[exp.Binary]


def compared(
    wanted: Sequence[Scalar], nested: Nested, fresh: Fresh, comparison: Comparison = exp.EQ, every: bool = False
) -> Joined:
    """Values of the query around compared with ANY row of a subquery, or with `every` row."""
    if nested.one_row:
        return _with_one_row(wanted, nested, comparison, every)
    if comparison is exp.EQ and not every:
        found, is_found = _equal(wanted, nested, fresh)
    else:
        found, is_found = _met(wanted, nested, fresh, comparison, negated=every)
    nulls, is_unknown = _unknown(wanted, nested, fresh)
    value = case_of(
        (is_found, exp.false() if every else exp.true()),
        (is_unknown, exp.null()),
        default=exp.true() if every else exp.false(),
    )
    return [found, *nulls], value


def _with_one_row(wanted: Sequence[Scalar], nested: Nested, comparison: Comparison, every: bool) -> Joined:
    same = _pairs(wanted, nested.outputs, comparison)
    row = linked(nested, JoinKind.LEFT if nested.correlated else JoinKind.INNER)
    if nested.present is None:
        return [row], same
    return [row], case_of((nested.present, same), default=exp.true() if every else exp.false())


def _pairs(wanted: Sequence[Scalar], values: Sequence[Scalar], comparison: Comparison = exp.EQ) -> Scalar:
    return exp.and_(*(comparison(this=operand(w), expression=operand(v)) for w, v in zip(wanted, values, strict=True)))


def _equal(wanted: Sequence[Scalar], nested: Nested, fresh: Fresh) -> tuple[Pending, Scalar]:
    flag, keys, links = Field(fresh("found"), "BOOLEAN"), *by_link(nested, fresh)
    outputs = tuple(Named(Field(fresh("value")), o.copy()) for o in nested.outputs)
    met = _pairs(wanted, [column(o.field.id) for o in outputs])
    node = flagged(Aggregate(nested.node, (*keys, *outputs)), flag)
    return Pending(node, JoinKind.LEFT, (*links, met), nested.domains), not_null(column(flag.id))


def _met(
    wanted: Sequence[Scalar], nested: Nested, fresh: Fresh, comparison: Comparison, negated: bool
) -> tuple[Pending, Scalar]:
    """Whether there is a row for which a comparison holds, or certainly does not."""
    domain, asked = _domain(wanted, fresh)
    holds = _pairs(asked, nested.outputs, comparison)
    predicate = exp.Not(this=exp.paren(holds)) if negated else holds
    return _flag(wanted, nested, domain, Filter(Join(domain.stand_in, nested.node), predicate), fresh)


def _domain(wanted: Sequence[Scalar], fresh: Fresh) -> tuple[Domain, list[Scalar]]:
    fields = tuple(Field(fresh("asked")) for _ in wanted)
    return Domain(Values((), fields), tuple(wanted)), [column(f.id) for f in fields]


def _flag(wanted: Sequence[Scalar], nested: Nested, domain: Domain, rows: Node, fresh: Fresh) -> tuple[Pending, Scalar]:
    """Whether there are rows, for each link and each of the wanted values that stand beside them."""
    flag, keys, links = Field(fresh("found"), "BOOLEAN"), *by_link(nested, fresh)
    asked = tuple(Named(Field(fresh("asked")), column(f.id)) for f in domain.stand_in.fields)
    same = (exp.NullSafeEQ(this=operand(w), expression=column(a.field.id)) for w, a in zip(wanted, asked, strict=True))
    node = flagged(Aggregate(rows, (*asked, *keys)), flag)
    return Pending(node, JoinKind.LEFT, (*links, *same), (*nested.domains, domain)), not_null(column(flag.id))


# ---------------------------------------------------------------------- of which rows it is not known
def _unknown(wanted: Sequence[Scalar], nested: Nested, fresh: Fresh) -> tuple[list[Pending], Scalar]:
    if len(wanted) > 1:
        return _unknown_rows(wanted, nested, fresh)
    nulls, some, has_null = null_rows(nested, fresh)
    return [nulls], exp.or_(exp.and_(is_null(wanted[0]), some), has_null)


def null_rows(nested: Nested, fresh: Fresh) -> tuple[Pending, Scalar, Scalar]:
    """For each link: whether the subquery has rows at all, and whether one of them is NULL."""
    total, known = Field(fresh("rows"), "BIGINT"), Field(fresh("known"), "BIGINT")
    calls = (
        Named(total, exp.Count(this=exp.Star())),
        Named(known, exp.Count(this=nested.outputs[0].copy())),
    )
    keys, links = by_link(nested, fresh)
    some, has_null = Field(fresh("some"), "BOOLEAN"), Field(fresh("has_null"), "BOOLEAN")
    flags = (
        Named(some, exp.GT(this=column(total.id), expression=integer(0))),
        Named(has_null, exp.GT(this=column(total.id), expression=column(known.id))),
    )
    passed = tuple(Named(k.field, column(k.field.id)) for k in keys)
    node = Project(Aggregate(nested.node, keys, calls), (*passed, *flags))
    kind = JoinKind.LEFT if nested.correlated else JoinKind.INNER
    there, null = (exp.Coalesce(this=column(f.id), expressions=[exp.false()]) for f in (some, has_null))
    return Pending(node, kind, links, nested.domains), there, null


def _unknown_rows(wanted: Sequence[Scalar], nested: Nested, fresh: Fresh) -> tuple[list[Pending], Scalar]:
    """Of several columns: rows with a NULL meet all values, and values with a NULL meet the other rows.

    Where there are few NULLs, few rows are compared.
    """
    null_inside = exp.or_(*map(is_null, nested.outputs))
    parts: list[tuple[Pending, Scalar]] = []
    for inside in (True, False):
        domain, asked = _domain(wanted, fresh)
        around: Node = domain.stand_in if inside else Filter(domain.stand_in, exp.or_(*map(is_null, asked)))
        kept = null_inside.copy() if inside else exp.Not(this=exp.paren(null_inside))
        unknown = is_null(_pairs(asked, nested.outputs))
        rows = Filter(Join(around, Filter(nested.node, kept)), unknown)
        parts.append(_flag(wanted, nested, domain, rows, fresh))
    return [pending for pending, _ in parts], exp.or_(*(found for _, found in parts))
