"""ROLLUP, CUBE and GROUPING SETS: one grouping by the keys of all sets, and the number of the set.

    SELECT a, SUM(x) … GROUP BY ROLLUP (a)
    becomes   SELECT k, SUM(x) FROM (every row twice: set 0 with k = a, set 1 with k = NULL) GROUP BY k, set

The copies are a join with constant rows, which is linear, so nothing new has to be maintained.
The empty set has a row even over no rows. One more row sees to it, which no aggregate counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from viewkeep.catalog import TYPE_SPELLING
from viewkeep.errors import SqlError, UnsupportedError
from viewkeep.plan.nodes import Field, Fresh, Join, Named, Node, Project, Union, Values
from viewkeep.plan.scalars import Scalar, column, integer
from viewkeep.sql.aggregates import aggregate_calls, whole_call
from viewkeep.sql.meanings import meaning
from viewkeep.sql.parse import position_of

_SEVERAL = (exp.GroupingSets, exp.Rollup, exp.Cube)


def listed_sets(group: exp.Expr) -> list[list[exp.Expr]] | None:
    """The keys of each set; None where there is but one.

    >>> import sqlglot
    >>> group = sqlglot.parse_one("SELECT 1 FROM t GROUP BY a, ROLLUP (b, c)").args["group"]
    >>> [[key.sql() for key in keys] for keys in listed_sets(group)]
    [['a', 'b', 'c'], ['a', 'b'], ['a']]
    """
    items = list(group.expressions)
    for clause in ("grouping_sets", "rollup", "cube"):
        items += [i for i in group.args.get(clause) or () if isinstance(i, exp.Expr)]
    if not any(isinstance(i, _SEVERAL) for i in items):
        return None
    if items and isinstance(items[-1], exp.Rollup | exp.Cube) and not items[-1].expressions:
        # GROUP BY a, b WITH ROLLUP
        items = [type(items[-1])(expressions=[i.copy() for i in items[:-1]])]
    return [list(itertools.chain(*chosen)) for chosen in itertools.product(*(_sets(i) for i in items))]


def _sets(item: exp.Expr) -> list[list[exp.Expr]]:
    parts = [_keys(e) for e in item.expressions] if isinstance(item, _SEVERAL) else []
    match item:
        case exp.Rollup():
            return [list(itertools.chain(*parts[:n])) for n in range(len(parts), -1, -1)]
        case exp.Cube():
            sizes = range(len(parts), -1, -1)
            return [list(itertools.chain(*c)) for n in sizes for c in itertools.combinations(parts, n)]
        case exp.GroupingSets():
            return [keys for e in item.expressions for keys in (_sets(e) if isinstance(e, _SEVERAL) else [_keys(e)])]
        case _:
            return [_keys(item)]


def _keys(item: exp.Expr) -> list[exp.Expr]:
    whole = item.unnest()  # (a) is the same key as a, also beside it
    return [key.unnest() for key in whole.expressions] if isinstance(whole, exp.Tuple) else [whole]


def refuse_two_spellings(keys: Iterable[tuple[Scalar, exp.Expr]]) -> None:
    """For an engine to which they are two keys, and which is right for its own queries."""
    spelled: dict[Scalar, exp.Expr] = {}
    for key, item in keys:
        known = spelled.setdefault(key, item)
        if known.sql().lower() != item.sql().lower():
            raise UnsupportedError(
                f"{known.sql()!r} and {item.sql()!r} are one grouping key, and two to the engine",
                position_of(item),
                hint="write it the same way in all grouping sets",
            )


@dataclass(frozen=True, slots=True, eq=False)
class GroupingSets:
    """Bound: which keys each set has."""

    sets: tuple[tuple[Scalar, ...], ...]
    dialect: str
    with_total: bool = False
    """Whether the empty set has a row in any case, whatever the dialect says."""

    @property
    def has_total(self) -> bool:
        """Whether there is an empty set that has a row in any case."""
        # The empty set alone is no grouping at all, to every engine.
        certain = self.with_total or meaning(self.dialect).empty_set_has_row or len(self.sets) == 1
        return () in self.sets and certain

    def expand(self, node: Node, fresh: Fresh) -> Expanded:
        """Each row once for each set."""
        number = Field(fresh("set"), "INTEGER")
        here = Field(fresh("here"), "INTEGER")
        copies = Join(node, Values(tuple((integer(i),) for i, _ in enumerate(self.sets)), (number,)))
        keys: dict[Scalar, Named] = {}
        for key in itertools.chain(*self.sets):
            if key not in keys:
                kind = next(
                    (f.type for f in node.fields if isinstance(key, exp.Column) and f.id == key.name), "UNKNOWN"
                )
                keys[key] = Named(Field(fresh("key"), kind), self._where_grouped(key, number))
        passed = tuple(Named(f, column(f.id)) for f in node.fields)
        outputs = (*passed, Named(number, column(number.id)), *keys.values())
        rows: Node = Project(copies, outputs)
        guard = None
        if self.has_total:
            guard = here
            rows = Project(copies, (*outputs, Named(here, integer(1))))
            nothing = [_null(f.type) for f in rows.fields]
            totals = [i for i, keys in enumerate(self.sets) if not keys]
            there = tuple((*nothing[: len(passed)], integer(i), *nothing[len(passed) + 1 :]) for i in totals)
            fields = tuple(Field(fresh(f.id.rsplit("_", 1)[0]), f.type) for f in rows.fields)
            rows = Union((rows, Values(there, fields)), rows.fields)
        return Expanded(self, rows, number, {k: column(n.field.id) for k, n in keys.items()}, guard)

    def _where_grouped(self, key: Scalar, number: Field) -> Scalar:
        """The key in the sets that have it, NULL in others."""
        having = [i for i, keys in enumerate(self.sets) if key in keys]
        if len(having) == len(self.sets):
            return key
        chosen = exp.In(this=column(number.id), expressions=[integer(i) for i in having])
        return exp.Case(ifs=[exp.If(this=chosen, true=key.copy())])


@dataclass(frozen=True, slots=True, eq=False)
class Expanded:
    """The rows that are grouped, and what the scalars of the query mean over them."""

    of: GroupingSets
    rows: Node
    number: Field
    keys: dict[Scalar, Scalar]
    """The key as the user wrote it → the column that has it, or NULL."""
    guard: Field | None
    """A column that is NULL in the row that is there for the empty set alone."""

    def rewrite(self, scalar: Scalar) -> Scalar:
        """GROUPING(…) as a question for the number of the set; aggregates without the row that is none."""
        copy = exp.paren(scalar)  # so that the whole can be replaced, too
        for call in list(aggregate_calls(copy)):
            if isinstance(call, exp.Grouping | exp.GroupingId):
                call.replace(self._grouping(call))
            elif self.guard is not None:
                whole_call(call).replace(self._guarded(whole_call(call), self.guard))
        found = copy.this
        assert isinstance(found, exp.Expr)
        return found

    def _grouping(self, call: exp.Expr) -> Scalar:
        """One bit for each argument, the first one highest: 1 where the set does not group by it."""
        arguments = call.expressions or list(self.keys)
        for argument in arguments:
            if argument not in self.keys:
                raise SqlError("an argument of GROUPING is not in GROUP BY", position_of(call))
        bits = [sum((a not in keys) << i for i, a in enumerate(reversed(arguments))) for keys in self.of.sets]
        cases = [
            exp.If(this=exp.EQ(this=column(self.number.id), expression=integer(i)), true=integer(b))
            for i, b in enumerate(bits)
        ]
        told = meaning(self.of.dialect)
        kind = told.grouping_id_type if isinstance(call, exp.GroupingId) else told.grouping_type
        return exp.cast(exp.Case(ifs=cases), kind)

    def _guarded(self, call: exp.Expr, guard: Field) -> exp.Expr:
        real = exp.Not(this=exp.Is(this=column(guard.id), expression=exp.Null()))
        if isinstance(call, exp.Filter):
            both = exp.and_(call.expression.this.copy(), real)
            return exp.Filter(this=call.this.copy(), expression=exp.Where(this=both))
        return exp.Filter(this=call.copy(), expression=exp.Where(this=real))


def _null(type_: str) -> Scalar:
    """Of the column's type: PostgreSQL takes a bare one for text. A bare DECIMAL says exact, not how wide."""
    return exp.Null() if type_ in ("UNKNOWN", "DECIMAL") else exp.cast(exp.Null(), type_, dialect=TYPE_SPELLING)
