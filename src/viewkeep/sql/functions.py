"""Functions that two dialects have by one name, with another value: said so that the value stays.

    MIN_BY(x, y)              MIN_BY(x, CASE WHEN NOT x IS NULL THEN y END)     DuckDB passes over a row whose x is NULL
    COUNT_IF(c)               SUM(CAST(c AS INT))                               and its count of nothing is NULL
    LOG(x)                    LOG10(x)
    CONCAT(x, 'a')            CONCAT(COALESCE(x || '', ''), 'a')                it takes a NULL, of any type, for ''
    EXTRACT(DOW FROM d)       DAYOFWEEK(d) - 1                                  Sunday is 0
    DATE_DIFF('month', a, b)  DATEDIFF(MONTH, first of a's month, first of b's) it counts bounds that are passed

Nothing is known here of types, so what depends on them stays as it is: casts to whole numbers, which DuckDB rounds,
and divisions of decimals.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from viewkeep.plan.scalars import integer, operand

Rule = Callable[[exp.Expr], exp.Expr | None]


def respelled(tree: exp.Expr, written: str, wanted: str) -> exp.Expr:
    """The statement, changed in place, with functions that mean in the wanted dialect what they mean as it is written.

    >>> import sqlglot
    >>> said = lambda text: respelled(sqlglot.parse_one(text, read="duckdb"), "duckdb", "spark").sql("spark")
    >>> said("SELECT COUNT_IF(a > 1) FILTER (WHERE b), EXTRACT(ISODOW FROM d) FROM t")
    'SELECT SUM(CAST(a > 1 AS INT)) FILTER(WHERE b), (WEEKDAY(d) + 1) FROM t'
    """
    rules = _RULES.get((written, wanted), ())
    for node in reversed(list(tree.walk()) if rules else []):  # what is inside a call before the call
        found = next((changed for rule in rules if (changed := rule(node)) is not None), None)
        if found is not None:
            node.replace(found)
    return tree


def extreme_of_known(node: exp.Expr) -> exp.Expr | None:
    if not isinstance(node, exp.ArgMin | exp.ArgMax) or node.args.get("count"):
        return None
    return type(node)(this=node.this.copy(), expression=_if_known(node.this, node.expression))


def count_if_as_sum(node: exp.Expr) -> exp.Expr | None:
    return exp.Sum(this=exp.cast(node.this.copy(), "INT")) if isinstance(node, exp.CountIf) else None


def log_to_ten(node: exp.Expr) -> exp.Expr | None:
    return _call("LOG10", node.this) if isinstance(node, exp.Log) and node.expression is None else None


def concat_of_texts(node: exp.Expr) -> exp.Expr | None:
    """What is no text becomes one by ||; a list does not, and is refused."""
    if not isinstance(node, exp.Concat) or isinstance(node, exp.ConcatWs):
        return None
    nothing = exp.Literal.string("")

    def text(part: exp.Expr) -> exp.Expr:
        known = exp.DPipe(this=operand(part), expression=nothing)
        return part.copy() if isinstance(part, exp.Literal) else exp.func("COALESCE", known, nothing)

    return exp.Concat(expressions=[text(part) for part in node.expressions], safe=True, coalesce=False)


def day_of_week(node: exp.Expr) -> exp.Expr | None:
    match _part(node):
        case "DOW" | "DAYOFWEEK" | "WEEKDAY", day:
            return exp.paren(exp.Sub(this=_call("DAYOFWEEK", day), expression=integer(1)))
        case "ISODOW", day:
            return exp.paren(exp.Add(this=_call("WEEKDAY", day), expression=integer(1)))
        case _:
            return None


def _part(node: exp.Expr) -> tuple[str, exp.Expr]:
    """The part of a date that is asked for, in whichever way, and the date."""
    match node:
        case exp.Extract():
            return node.name.upper(), node.expression
        case exp.Anonymous(expressions=[exp.Literal() as part, date]) if node.name.upper() == "DATE_PART":
            return part.name.upper(), date
        case exp.DayOfWeek():
            return "DOW", node.this
        case exp.DayOfWeekIso():
            return "ISODOW", node.this
        case _:
            return "", node


def week_of_year(node: exp.Expr) -> exp.Expr | None:
    return _call("WEEKOFYEAR", node.this) if isinstance(node, exp.Week) else None


def whole_names(node: exp.Expr) -> exp.Expr | None:
    """Spark's own functions give the first three letters."""
    if not isinstance(node, exp.Monthname | exp.Dayname):
        return None
    return _call("DATE_FORMAT", node.this, exp.Literal.string("MMMM" if isinstance(node, exp.Monthname) else "EEEE"))


_BOUNDED = ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")


def bounds_passed(node: exp.Expr) -> exp.Expr | None:
    """Between the beginnings of two months whole months lie. (Weeks are seven days, to both.)"""
    unit = node.args.get("unit")
    if not isinstance(node, exp.DateDiff) or unit is None or unit.name.upper() not in _BOUNDED:
        return None
    start, end = (exp.TimestampTrunc(this=day.copy(), unit=unit.copy()) for day in (node.expression, node.this))
    return exp.DateDiff(this=end, expression=start, unit=unit.copy())


def interval_added(node: exp.Expr) -> exp.Expr | None:
    if isinstance(node, exp.DateAdd) and isinstance(node.expression, exp.Interval):
        return exp.paren(exp.Add(this=operand(node.this), expression=node.expression.copy()))
    return None


def nan_if_known(node: exp.Expr) -> exp.Expr | None:
    return _if_known(node.this, _call("ISNAN", node.this)) if isinstance(node, exp.IsNan) else None


def _if_known(value: exp.Expr, then: exp.Expr) -> exp.Case:
    known = exp.Not(this=exp.Is(this=operand(value), expression=exp.Null()))
    return exp.Case(ifs=[exp.If(this=known, true=then.copy())])


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[a.copy() for a in arguments])


_RULES: dict[tuple[str, str], tuple[Rule, ...]] = {
    ("duckdb", "spark"): (
        extreme_of_known,
        count_if_as_sum,
        log_to_ten,
        concat_of_texts,
        day_of_week,
        week_of_year,
        whole_names,
        bounds_passed,
        interval_added,
        nan_if_known,
    ),
}
