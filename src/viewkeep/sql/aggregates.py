"""The aggregate calls of one SELECT: found, made uniform, counted once.

AGG(x) FILTER (WHERE c)   becomes   AGG(CASE WHEN c THEN x END)
COUNT(1)                  becomes   COUNT(*)
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from viewkeep.errors import SqlError, UnsupportedError
from viewkeep.plan.nodes import Field, Fresh, Named, Node, types_of
from viewkeep.plan.scalars import Scalar, column, columns_of, is_exact, of_one_value, window_function
from viewkeep.sql.parse import position_of

_NULL_SKIPPING = (exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Count)


def aggregate_calls(scalar: exp.Expr) -> Iterator[exp.Expr]:
    """The aggregates that belong to this query, not to one nested in it, and not to a window."""
    stack = [scalar]
    while stack:
        node = stack.pop()
        if isinstance(node, exp.Window):
            # SUM(SUM(x)) OVER (…): the outer one is a window function, the inner one an aggregate.
            function = window_function(node)
            stack.extend(function.iter_expressions())
            stack.extend(n for n in node.iter_expressions() if n is not node.this)
            if isinstance(node.this, exp.Filter):
                stack.append(node.this.expression)
        elif isinstance(node, exp.AggFunc):
            yield node
        elif not isinstance(node, exp.Query) or node is scalar:
            stack.extend(node.iter_expressions())


def contains_aggregate(scalar: exp.Expr) -> bool:
    return next(aggregate_calls(scalar), None) is not None


def columns_in_aggregates(scalar: exp.Expr) -> frozenset[str]:
    """The columns that are read inside an aggregate call, or by the FILTER and WITHIN GROUP around it."""
    return frozenset().union(*(columns_of(whole_call(call)) for call in aggregate_calls(scalar)))


def whole_call(call: exp.Expr) -> exp.Expr:
    """The call with the FILTER and WITHIN GROUP around it."""
    while isinstance(call.parent, exp.Filter | exp.WithinGroup) and call.parent.this is call:
        call = call.parent
    return call


class AggregateCollector:
    """Turns bound scalars over the input of a GROUP BY into scalars over its output."""

    def __init__(self, fresh: Fresh, keys: list[Scalar], node: Node, later: frozenset[str]) -> None:
        """`later`: columns that join after the grouping and may stand anywhere."""
        self._fresh, self._types, self._later = fresh, types_of(node), later
        self._keys: list[Named] = []
        self._calls: list[Named] = []
        for key in keys:
            if not any(k.scalar == key for k in self._keys):
                name = key.name.rsplit("_", 1)[0] if isinstance(key, exp.Column) else "key"
                kind = self._types.get(key.name, "UNKNOWN") if isinstance(key, exp.Column) else "UNKNOWN"
                self._keys.append(Named(Field(fresh(name), kind), key))

    def rewrite(self, scalar: Scalar) -> Scalar:
        for key in self._keys:
            if key.scalar == scalar:
                return column(key.field.id)
        if isinstance(scalar, exp.Window):
            return self._window(scalar)
        if isinstance(scalar, exp.AggFunc | exp.WithinGroup) or (
            isinstance(scalar, exp.Filter) and isinstance(scalar.this, exp.AggFunc | exp.WithinGroup)
        ):
            return column(self._call(uniform_call(scalar)))
        if isinstance(scalar, exp.Column) and scalar.name in self._later:
            return scalar
        if isinstance(scalar, exp.Column):
            raise SqlError(
                f"column {scalar.name.rsplit('_', 1)[0]!r} must appear in GROUP BY or in an aggregate",
                hint="add it to GROUP BY, or wrap it in MIN or MAX",
            )
        if isinstance(scalar, exp.Anonymous) and scalar.find(exp.Column):
            raise UnsupportedError(f"function {scalar.name} in a query with GROUP BY", position_of(scalar))
        copy = scalar.copy()
        for child in list(copy.iter_expressions()):
            child.replace(self.rewrite(child))
        return copy

    def _window(self, window: Scalar) -> Scalar:
        """What a window call reads; its own function is no aggregate of this grouping."""
        copy = window.copy()
        read = [*window_function(copy).iter_expressions(), *(n for n in copy.iter_expressions() if n is not copy.this)]
        if isinstance(copy.this, exp.Filter):
            read.append(copy.this.expression)
        for child in read:
            child.replace(self.rewrite(child))
        return copy

    def _call(self, call: Scalar) -> str:
        for known in self._calls:
            if known.scalar == call:
                return known.field.id
        function = call
        while isinstance(function, exp.Filter | exp.WithinGroup):
            function = function.this
        if any(map(contains_aggregate, function.iter_expressions())):
            raise SqlError("an aggregate cannot contain an aggregate", position_of(call))
        field = Field(self._fresh(call.key), self._type(call))
        self._calls.append(Named(field, call))
        return field.id

    def _type(self, call: Scalar) -> str:
        match call:
            case exp.Count():
                return "BIGINT"
            case exp.Min() | exp.Max() if isinstance(call.this, exp.Column) and of_one_value(call):
                return self._types.get(call.this.name, "UNKNOWN")
            case exp.Sum() if is_exact(call.this, self._types):
                return "DECIMAL"
            case _:
                return "UNKNOWN"

    def finish(self) -> tuple[tuple[Named, ...], tuple[Named, ...]]:
        return tuple(self._keys), tuple(self._calls)


def uniform_call(call: exp.Expr) -> exp.Expr:
    """One spelling for calls that mean the same.

    >>> import sqlglot
    >>> uniform_call(sqlglot.parse_one("SUM(x) FILTER (WHERE y > 1)")).sql()
    'SUM(CASE WHEN y > 1 THEN x END)'
    """
    if isinstance(call, exp.Filter) and isinstance(call.this, _NULL_SKIPPING) and of_one_value(call.this):
        inner, condition = uniform_call(call.this), call.expression.this
        argument = inner.this
        if isinstance(argument, exp.Distinct):
            if len(argument.expressions) != 1:
                return call.copy()
            folded: exp.Expr = exp.Distinct(expressions=[_when(condition, argument.expressions[0])])
        else:
            folded = _when(condition, exp.Literal.number(1) if isinstance(argument, exp.Star) else argument)
        return type(inner)(this=folded)
    if isinstance(call, exp.Count) and isinstance(call.this, exp.Literal):
        return exp.Count(this=exp.Star())
    if isinstance(call, exp.Count) and call.this is None:
        return exp.Count(this=exp.Star())
    return call.copy()


def _when(condition: exp.Expr, value: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
