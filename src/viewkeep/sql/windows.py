"""The window calls of one SELECT: named windows written out, calls taken out of the scalars that hold them.

    SELECT a, SUM(x) OVER w AS s … WINDOW w AS (PARTITION BY a)
    becomes   a window with   sum_7 = SUM(x) OVER (PARTITION BY a)   below a projection of   a, sum_7

Calls share a window where the partition of one is part of the other's: see incremental/window.py.
"""

from __future__ import annotations

from sqlglot import exp

from viewkeep.errors import SqlError
from viewkeep.plan.nodes import Field, Fresh, Named, Node, Window, types_of
from viewkeep.plan.scalars import Scalar, column, is_exact, window_function
from viewkeep.sql.aggregates import uniform_call
from viewkeep.sql.parse import position_of

_COUNTING = (exp.Count, exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile)
_PASSING = (exp.Min, exp.Max, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue)


def without_names(tree: exp.Select) -> exp.Select:
    """The query with each named window written out where it is used.

    >>> import sqlglot
    >>> query = "SELECT SUM(x) OVER (w ROWS 1 PRECEDING) FROM t WINDOW w AS (PARTITION BY a ORDER BY b)"
    >>> without_names(sqlglot.parse_one(query)).sql()
    'SELECT SUM(x) OVER (PARTITION BY a ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t'
    """
    if not tree.args.get("windows"):
        return tree
    tree = tree.copy()
    named: dict[str, exp.Window] = {}
    for definition in tree.args["windows"]:
        _write_out(definition, named)
        named[definition.name.lower()] = definition
    tree.set("windows", None)
    for window in list(tree.find_all(exp.Window)):
        if window.find_ancestor(exp.Query) is tree:
            _write_out(window, named)
    return tree


def _write_out(window: exp.Window, named: dict[str, exp.Window]) -> None:
    name = window.args.get("alias")
    if name is None:
        return
    if (base := named.get(name.name.lower())) is None:
        raise SqlError(f"there is no window {name.name!r}", position_of(name))
    window.set("alias", None)
    for part in ("partition_by", "order", "spec"):
        inherited = base.args.get(part)
        if not window.args.get(part) and inherited:
            window.set(part, [p.copy() for p in inherited] if isinstance(inherited, list) else inherited.copy())


class WindowCollector:
    """Turns bound scalars with window calls into scalars over the output of windows."""

    def __init__(self, fresh: Fresh, node: Node, by: list[Scalar]) -> None:
        """`by`: what every partition is divided by, too."""
        self._fresh, self._types, self._by, self._calls = fresh, types_of(node), by, list[Named]()

    def take(self, scalar: Scalar) -> Scalar:
        if isinstance(scalar, exp.Window):
            return column(self._call(scalar))
        copy = scalar.copy()
        for window in list(copy.find_all(exp.Window)):
            window.replace(column(self._call(window)))
        return copy

    def over(self, node: Node) -> Node:
        """The windows on top of the rows they read."""
        groups: list[tuple[tuple[Scalar, ...], list[Named]]] = []
        # Fine partitions last: each finds a coarser one to be maintained with.
        for call in sorted(self._calls, key=lambda c: len(_partition(c))):
            for partition, calls in groups:
                if set(partition) <= set(_partition(call)):
                    calls.append(call)
                    break
            else:
                groups.append((_partition(call), [call]))
        for partition, calls in groups:
            node = Window(node, partition, tuple(calls))
        return node

    def _call(self, window: exp.Window) -> str:
        made = window.copy()
        made.set("partition_by", [*(s.copy() for s in self._by), *(made.args.get("partition_by") or ())])
        function = window_function(made)
        if isinstance(made.this, exp.Filter):
            made.set("this", uniform_call(made.this))
        for known in self._calls:
            if known.scalar == made:
                return known.field.id
        field = Field(self._fresh(function.key), self._type(function))
        self._calls.append(Named(field, made))
        return field.id

    def _type(self, function: Scalar) -> str:
        if isinstance(function, _COUNTING):
            return "BIGINT"
        if isinstance(function, _PASSING) and isinstance(function.this, exp.Column) and not function.args.get("count"):
            return self._types.get(function.this.name, "UNKNOWN")
        if isinstance(function, exp.Sum) and is_exact(function.this, self._types):
            return "DECIMAL"
        return "UNKNOWN"


def _partition(call: Named) -> tuple[Scalar, ...]:
    return tuple(s.copy() for s in call.scalar.args.get("partition_by") or ())
