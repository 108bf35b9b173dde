"""The current time in a plan: a parameter that every refresh gives a value.

    ts > now() - INTERVAL '1 day'        TimeFilter(ts > $now - INTERVAL '1 day')

A program has two times: `now` is that of the refresh under way, `then` that of the last one. A bound
is any function of the time alone. It need not be monotone, and one with months in it is not: a
month before March 30, 23:00 is February 28, 23:00, and a month before March 31, 01:00 is earlier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from viewkeep.errors import NondeterministicError
from viewkeep.plan.conditions import ids_of
from viewkeep.plan.nodes import (
    Aggregate,
    Filter,
    Join,
    JoinKind,
    Node,
    Project,
    State,
    TimeFilter,
    TopK,
    Unnest,
    Values,
    Window,
    inputs_of,
    walk,
    with_inputs,
)
from viewkeep.plan.scalars import Scalar, columns_of, conjoin, conjuncts, substitute

NOW, THEN = "now", "then"
IsTime = Callable[[exp.Expr], bool]

_MIRRORED = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE}
_OF_THE_TIME: tuple[type[exp.Expr], ...] = (
    exp.Paren,
    exp.Cast,
    exp.TryCast,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Neg,
    exp.Trunc,
)
_OF_THE_TIME += (
    exp.Interval,
    exp.MakeInterval,
    exp.ToDays,
    exp.Literal,
    exp.Var,
    exp.DataType,
    exp.DateAdd,
    exp.DateSub,
    exp.TsOrDsAdd,
    exp.TimestampAdd,
)
_OF_THE_TIME += (exp.TimestampSub, exp.AddMonths, exp.TimestampTrunc, exp.DateTrunc, exp.AtTimeZone)
"""What a bound may be made of, beside the time: never NULL, and the same whenever it is asked."""
_UNITS = ("years", "quarters", "months", "weeks", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds")
_FUNCTIONS = frozenset(("timezone", *(f"to_{unit}" for unit in _UNITS)))
"""As DuckDB writes intervals and zones in the text of a view."""


def moment(name: str = NOW) -> Scalar:
    """One of a program's two times."""
    return exp.cast(exp.Placeholder(this=name), "TIMESTAMPTZ")


def reads_clock(scalar: Scalar) -> bool:
    return any(map(_is_moment, scalar.find_all(exp.Placeholder)))


def is_timed(node: Node) -> bool:
    """Whether a plan gives other rows at another time."""
    return any(isinstance(n, TimeFilter) for n in walk(node))


def at(scalar: Scalar, state: State) -> Scalar:
    """The same at the time of this refresh or of the last one."""
    if state is State.NEW:
        return scalar.copy()
    return scalar.copy().transform(lambda n: exp.Placeholder(this=THEN) if _is_moment(n) else n)


def predicate_of(node: TimeFilter) -> Scalar:
    return at(node.test, node.state)


def _is_moment(node: exp.Expr) -> bool:
    return isinstance(node, exp.Placeholder) and node.name in (NOW, THEN)


# ---------------------------------------------------------------------- the form that is accepted
def time_tests(part: Scalar, is_time: IsTime = _is_moment) -> list[Scalar] | None:
    """A conjunct about the time as comparisons of a value with a bound, the bound on the right.

    `x BETWEEN a AND b` and `x = a` are two comparisons; one of them may not be about the time.
    None where it has another form.
    """
    match part:
        case exp.Paren():
            return time_tests(part.this, is_time)
        case exp.Between() if not part.args.get("symmetric"):
            low = exp.GTE(this=part.this.copy(), expression=part.args["low"].copy())
            high = exp.LTE(this=part.this.copy(), expression=part.args["high"].copy())
            return _all([low, high], is_time)
        case exp.EQ():
            both = (exp.GTE, exp.LTE)
            return _all([c(this=part.left.copy(), expression=part.right.copy()) for c in both], is_time)
        case _ if type(part) in _MIRRORED:
            assert isinstance(part, exp.Binary)
            if _is_bound(part.right, is_time) and _is_value(part.left, is_time):
                return [part.copy()]
            if _is_bound(part.left, is_time) and _is_value(part.right, is_time):
                return [_MIRRORED[type(part)](this=part.right.copy(), expression=part.left.copy())]
    return None


def _all(tests: list[Scalar], is_time: IsTime) -> list[Scalar] | None:
    found: list[Scalar] = []
    for test in tests:
        timed = any(map(is_time, test.walk()))
        split = time_tests(test, is_time) if timed else [test]
        if split is None:
            return None
        found += split
    return found


def _is_bound(scalar: Scalar, is_time: IsTime) -> bool:
    nodes = list(scalar.walk(prune=is_time))
    return any(map(is_time, nodes)) and all(is_time(n) or _keeps_time(n) for n in nodes)


def _keeps_time(node: exp.Expr) -> bool:
    return isinstance(node, _OF_THE_TIME) or (isinstance(node, exp.Anonymous) and node.name.lower() in _FUNCTIONS)


def _is_value(scalar: Scalar, is_time: IsTime) -> bool:
    nodes = list(scalar.walk())
    other = any(is_time(n) or isinstance(n, exp.Query) for n in nodes)
    return not other and any(isinstance(n, exp.Column) for n in nodes)


# ---------------------------------------------------------------------- from predicates to nodes
def lift_time_filters(node: Node) -> Node:
    """The plan with a node of its own for each comparison with the time, as far down as it may be."""
    below = with_inputs(node, tuple(map(lift_time_filters, inputs_of(node))))
    match below:
        case Filter():
            plain, timed = _parted(conjuncts(below.predicate))
            rest = conjoin(plain)
            made = below.input if rest is None else Filter(below.input, rest)
        case Join(kind=JoinKind.INNER):
            plain, timed = _parted(conjuncts(below.condition))
            made = replace(below, condition=conjoin(plain))
        case _:
            if any(map(reads_clock, _scalars(below))):
                raise _elsewhere()
            return below
    if not timed:
        return below
    for test in timed:
        made = _sink(made, test)
    return made


def _parted(parts: list[Scalar]) -> tuple[list[Scalar], list[exp.Binary]]:
    """Predicates that do not read the time, and those that do."""
    plain: list[Scalar] = []
    timed: list[exp.Binary] = []
    for part in parts:
        if not reads_clock(part):
            plain.append(part)
            continue
        tests = time_tests(part)
        if tests is None:
            raise _elsewhere()
        for test in tests:
            if reads_clock(test):
                assert isinstance(test, exp.Binary)
                timed.append(test)
            else:
                plain.append(test)
    return plain, timed


def _elsewhere() -> NondeterministicError:
    return NondeterministicError(
        "the current time is compared where no row leaves by it alone, so the view cannot be kept as time passes",
        hint="compare with it in WHERE, or in the ON clause of an inner join",
    )


def _sink(node: Node, test: exp.Binary) -> Node:
    """A test of rows, below what it commutes with: groups are then made of the rows that pass."""
    used = columns_of(test)
    match node:
        case Filter():
            return replace(node, input=_sink(node.input, test))
        case Project():
            return replace(node, input=_sink(node.input, _over(test, {o.field.id: o.scalar for o in node.outputs})))
        case Aggregate() if used and used <= {k.field.id for k in node.keys}:
            return replace(node, input=_sink(node.input, _over(test, {k.field.id: k.scalar for k in node.keys})))
        case Join() if node.kind.linear_in_left and used <= ids_of(node.left):
            return replace(node, left=_sink(node.left, test))
        case Join(kind=JoinKind.INNER) if used <= ids_of(node.right):
            return replace(node, right=_sink(node.right, test))
        case _:
            return TimeFilter(node, test)


def _over(test: exp.Binary, mapping: dict[str, Scalar]) -> exp.Binary:
    found = substitute(test, mapping)
    assert isinstance(found, exp.Binary)
    return found


def _scalars(node: Node) -> list[Scalar]:
    match node:
        case Project():
            return [o.scalar for o in node.outputs]
        case Aggregate():
            return [o.scalar for o in (*node.keys, *node.calls)]
        case Window():
            return [*node.partition, *(c.scalar for c in node.calls)]
        case Unnest():
            return [c.scalar for c in node.calls]
        case Values():
            return [s for row in node.rows for s in row]
        case TopK():
            return [o.scalar for o in node.order]
        case Join():
            return [] if node.condition is None else [node.condition]
        case _:
            return []
