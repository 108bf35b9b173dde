"""Scalar expressions: sqlglot trees whose column references are plan-wide unique ids.

A bound column is `exp.Column` with one quoted identifier and no table part. Trees are copied on
the way in and out, so that no two plan nodes share a mutable tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from viewkeep.catalog import TYPE_SPELLING

Scalar = exp.Expr

EXACT_TYPES = frozenset(
    {"TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "HUGEINT", "INT128", "DECIMAL", "NUMERIC", "BOOLEAN"}
    | {"UTINYINT", "USMALLINT", "UINT", "UINTEGER", "UBIGINT"}
)
"""Types whose SUM is exact. UHUGEINT is not among them: DuckDB sums it as DOUBLE."""
NARROW_TYPES = frozenset({"TINYINT", "SMALLINT", "INT", "INTEGER", "UTINYINT", "USMALLINT", "UINT", "UINTEGER"})
"""Types whose values, and their negatives, all fit into a BIGINT."""
_WHOLE_PARTS = frozenset(("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "DOY", "HOUR", "MINUTE"))
"""Parts of a date that are whole numbers; EPOCH and JULIAN are not."""


def column(column_id: str) -> exp.Column:
    return exp.Column(this=exp.Identifier(this=column_id, quoted=True))


def integer(value: int) -> Scalar:
    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))


def columns_of(scalar: Scalar) -> frozenset[str]:
    """The ids that a scalar reads.

    >>> sorted(columns_of(exp.and_(exp.EQ(this=column("a_1"), expression=column("b_2")))))
    ['a_1', 'b_2']
    """
    nodes = scalar.walk(prune=lambda n: isinstance(n, exp.Query))  # a nested query reads its own tables
    return frozenset(n.name for n in nodes if isinstance(n, exp.Column))


def substitute(scalar: Scalar, mapping: Mapping[str, Scalar]) -> Scalar:
    """Replace column references.

    >>> substitute(exp.Neg(this=column("a_1")), {"a_1": column("b_2")}).sql()
    '-"b_2"'
    """
    if isinstance(scalar, exp.Column) and scalar.name in mapping:
        return mapping[scalar.name].copy()

    def swap(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and node.name in mapping:
            replacement = mapping[node.name].copy()
            return replacement if isinstance(replacement, exp.Column) else exp.paren(replacement)
        return node

    return scalar.copy().transform(swap)


def conjuncts(scalar: Scalar | None) -> list[Scalar]:
    """The parts of a predicate that must all be true."""
    return [part.copy() for part in parts_of(scalar)]


def parts_of(scalar: Scalar | None) -> list[Scalar]:
    """The same, to look at only: they still belong to the predicate."""
    if scalar is None:
        return []
    inner = scalar.unnest() if isinstance(scalar, exp.Paren) else scalar
    if isinstance(inner, exp.And):
        return [*parts_of(inner.left), *parts_of(inner.right)]
    return [inner]


def conjoin(parts: Iterable[Scalar]) -> Scalar | None:
    copies = [p.copy() for p in parts]
    return exp.and_(*copies) if copies else None


def null_safe_equal(left: Scalar, right: Scalar) -> Scalar:
    """Equality where SQL groups: NULL equals NULL."""
    return exp.NullSafeEQ(this=operand(left), expression=operand(right))


def window_function(window: exp.Expr) -> exp.Expr:
    """The function of a `f(…) OVER (…)`, without what is said about NULLs and filters."""
    found = window.this
    while isinstance(found, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        found = found.this
    assert isinstance(found, exp.Expr)
    return found


def of_one_value(call: exp.Expr) -> bool:
    """Not COUNT(a, b) or MAX(a, 3), which are other functions of the same name."""
    return not call.expressions and not call.args.get("count")


def operand(scalar: Scalar) -> Scalar:
    """A copy that can stand beside an operator.

    >>> exp.Is(this=operand(exp.EQ(this=column("a"), expression=column("b"))), expression=exp.Null()).sql()
    '("a" = "b") IS NULL'
    """
    simple = isinstance(scalar, exp.Column | exp.Literal | exp.Func | exp.Paren | exp.Null | exp.Boolean | exp.Tuple)
    return scalar.copy() if simple and not isinstance(scalar, exp.Binary) else exp.paren(scalar)


ERROR = "error"
"""The function that fails with its argument as the message; engines spell it differently."""


def raise_error(message: str) -> Scalar:
    return exp.Anonymous(this=ERROR, expressions=[exp.Literal.string(message)])


NEGATED = "negated"
"""The function that negates a decimal exactly, or fails; not every engine's minus does."""


def negated(scalar: Scalar) -> Scalar:
    return exp.Anonymous(this=NEGATED, expressions=[scalar.copy()])


_DOUBLES = ("DOUBLE", "FLOAT", "REAL")


def is_exact(scalar: Scalar, types: Mapping[str, str]) -> bool:
    """Whether arithmetic on this value is exact, so that what was added can be taken away again.

    Conservative: only what is known to stay within integers and decimals counts. Division and
    unknown functions may give a DOUBLE.

    >>> is_exact(exp.Mul(this=column("a"), expression=exp.Literal.number("0.5")), {"a": "DECIMAL(12, 2)"})
    True
    >>> is_exact(column("a"), {"a": "DOUBLE"})
    False
    """
    match scalar:
        case exp.Column():
            return types.get(scalar.name, "UNKNOWN").split("(")[0].upper() in EXACT_TYPES
        case exp.Literal():
            return not scalar.is_string and "e" not in scalar.name.lower()
        case exp.Null() | exp.Boolean():
            return True
        case exp.Cast():
            return scalar.to.sql(dialect=TYPE_SPELLING).split("(")[0].upper() in EXACT_TYPES
        case exp.Paren() | exp.Neg() | exp.Abs():
            return is_exact(scalar.this, types)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Mod():
            return is_exact(scalar.left, types) and is_exact(scalar.right, types)
        case exp.Case() | exp.If() | exp.Coalesce() | exp.Greatest() | exp.Least():
            return all(is_exact(value, types) for value in _one_of(scalar))
        case exp.Nullif():
            return is_exact(scalar.this, types)
        case exp.Length():
            return True
        case exp.Extract():
            return scalar.name.upper() in _WHOLE_PARTS
        case _:
            return False


def _one_of(scalar: Scalar) -> list[Scalar]:
    """The values of which an expression gives one."""
    match scalar:
        case exp.Case():
            values = [*(i.args["true"] for i in scalar.args["ifs"]), scalar.args.get("default")]
        case exp.If():
            values = [scalar.args["true"], scalar.args.get("false")]
        case _:
            values = [scalar.this, *scalar.expressions]
    return [v for v in values if v is not None]


def is_whole(scalar: Scalar, types: Mapping[str, str]) -> bool:
    """Whether a value is certainly an integer.

    >>> is_whole(column("a"), {"a": "BIGINT"}), is_whole(column("a"), {"a": "DECIMAL(9, 2)"})
    (True, False)
    """
    fractions = any(not n.is_int for n in scalar.find_all(exp.Literal) if not n.is_string)
    decimals = any(n.to.is_type("decimal") for n in scalar.find_all(exp.Cast))
    wholes = {i: "UNKNOWN" if t.upper().startswith(("DECIMAL", "NUMERIC")) else t for i, t in types.items()}
    return not fractions and not decimals and is_exact(scalar, wholes)


def is_decimal(scalar: Scalar, types: Mapping[str, str]) -> bool:
    """Whether a value that is exact is a DECIMAL, which is negated without overflow.

    >>> is_decimal(exp.Mul(this=column("a"), expression=column("b")), {"a": "DECIMAL(12, 2)", "b": "INTEGER"})
    True
    >>> is_decimal(exp.Coalesce(this=column("a"), expressions=[integer(0)]), {"a": "DECIMAL(12, 2)"})
    True
    """
    if not is_exact(scalar, types):
        return False
    match scalar:
        case exp.Column():
            return types[scalar.name].upper().startswith(("DECIMAL", "NUMERIC"))
        case exp.Literal():
            return not scalar.is_int
        case exp.Cast():
            return scalar.to.is_type("decimal")
        case exp.Paren() | exp.Neg() | exp.Abs() | exp.Nullif():
            return is_decimal(scalar.this, types)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Mod():
            return is_decimal(scalar.left, types) or is_decimal(scalar.right, types)
        case exp.Case() | exp.If() | exp.Coalesce() | exp.Greatest() | exp.Least():
            return any(is_decimal(value, types) for value in _one_of(scalar))
        case _:
            return False


def is_double(scalar: Scalar, types: Mapping[str, str]) -> bool:
    """Whether a value is certainly a DOUBLE or FLOAT.

    >>> is_double(exp.Div(this=column("a"), expression=column("b")), {"a": "INTEGER", "b": "INTEGER"})
    True
    >>> is_double(exp.Div(this=column("a"), expression=column("b")), {"a": "DECIMAL(9, 2)", "b": "INTEGER"})
    False
    """
    match scalar:
        case exp.Column():
            return types.get(scalar.name, "UNKNOWN").split("(")[0].upper() in _DOUBLES
        case exp.Cast():
            return scalar.to.is_type("double", "float")
        case exp.Sqrt() | exp.Ln() | exp.Log() | exp.Exp() | exp.Pow():
            return True
        case exp.Paren() | exp.Neg() | exp.Abs() | exp.Nullif():
            return is_double(scalar.this, types)
        case exp.Div() if is_whole(scalar.left, types) and is_whole(scalar.right, types):
            return True
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            return is_double(scalar.left, types) or is_double(scalar.right, types)
        case exp.Case() | exp.If() | exp.Coalesce() | exp.Greatest() | exp.Least():
            return any(is_double(value, types) for value in _one_of(scalar))
        case _:
            return False


def is_narrow(scalar: Scalar, types: Mapping[str, str]) -> bool:
    """Whether this is a column whose values can be negated as BIGINT without overflow.

    >>> is_narrow(column("a"), {"a": "INTEGER"}), is_narrow(column("a"), {"a": "BIGINT"})
    (True, False)
    """
    return isinstance(scalar, exp.Column) and types.get(scalar.name, "UNKNOWN").upper() in NARROW_TYPES
