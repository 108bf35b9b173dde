"""Window functions whose answer depends on the order of equal rows, made to have one answer.

    before:  ROW_NUMBER() OVER (PARTITION BY p ORDER BY a)
    after:   ROW_NUMBER() OVER (PARTITION BY p ORDER BY a, b, c)        (b, c: all other columns)

Rows that are equal in all columns may change places: the result is the same bag. The answer is one
that the query may give, and the same one for the same rows. Ranks, and sums over RANGE and GROUPS
frames, see peers and not positions: their order must stay as it is, and needs nothing.
Calls that follow different orders go into windows on top of one another, each of which sees the
columns of those below: otherwise two copies of a row could swap one column and not the other.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from viewkeep.catalog import Catalog
from viewkeep.errors import UnsupportedError
from viewkeep.plan.keys import keys_of
from viewkeep.plan.nodes import Field, Named, Node, TopK, Window, inputs_of, walk, with_inputs
from viewkeep.plan.scalars import Scalar, column, columns_of, window_function

BY_POSITION = (exp.RowNumber, exp.Ntile, exp.Lag, exp.Lead)
BY_PEERS = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)
ONE_OF_THE_ROWS = (exp.FirstValue, exp.LastValue, exp.NthValue)
_NUMBERS: tuple[type[exp.Expr], ...] = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Median, exp.Quantile)
_NUMBERS += (exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop)
_NUMBERS += (exp.Corr, exp.CovarPop, exp.CovarSamp, exp.PercentileCont, exp.PercentileDisc)
_NUMBERS += (exp.LogicalAnd, exp.LogicalOr, exp.BitwiseAndAgg, exp.BitwiseOrAgg, exp.BitwiseXorAgg)
"""Aggregates that do not ask in which order their rows come."""
_NOT_SORTABLE = ("MAP", "JSON", "VARIANT")
"""Types that some engine cannot sort by."""
_FIRST, _HERE, _LAST = "UNBOUNDED PRECEDING", "CURRENT ROW", "UNBOUNDED FOLLOWING"


def break_ties(node: Node, catalog: Catalog) -> Node:
    """The same plan; every window in it gives one answer."""
    below = with_inputs(node, tuple(break_ties(child, catalog) for child in inputs_of(node)))
    return _stack(below, catalog) if isinstance(below, Window) else below


def chooses(node: Node) -> bool:
    """Whether the query may have had another answer than its plan: it follows an order that may have ties."""
    return any(isinstance(n, Window) or (isinstance(n, TopK) and (n.limit is not None or n.offset)) for n in walk(node))


def _stack(node: Window, catalog: Catalog) -> Node:
    keys = keys_of(node.input, catalog)
    plain: list[Named] = []
    tied: dict[tuple[str, ...], list[Named]] = {}
    for call in node.calls:
        frame = _Frame(call.scalar)
        if frame.has_one_answer or any(key <= frame.given for key in keys):
            plain.append(call)
        else:
            tied.setdefault(frame.sequence, []).append(call)
    result: Node = Window(node.input, node.partition, tuple(plain)) if plain else node.input
    for calls in tied.values():
        fields = result.fields
        ordered = tuple(Named(c.field, _Frame(c.scalar).with_ties(fields)) for c in calls)
        result = Window(result, node.partition, ordered)
    return result


@dataclass(frozen=True, slots=True, eq=False)
class _Frame:
    """One `f(…) OVER (…)`, and what its answer depends on."""

    window: Scalar

    @property
    def function(self) -> Scalar:
        return window_function(self.window)

    @property
    def partition(self) -> list[Scalar]:
        return self.window.args.get("partition_by") or []

    @property
    def order(self) -> list[exp.Ordered]:
        order = self.window.args.get("order")
        return order.expressions if order else []

    @property
    def sequence(self) -> tuple[str, ...]:
        """In which order it walks through which rows."""
        return (*(s.sql() for s in self.partition), "ordered by", *(o.sql() for o in self.order))

    @property
    def given(self) -> set[str]:
        """The columns that rows of one place share."""
        scalars = (*self.partition, *(o.this for o in self.order))
        return {s.name for s in scalars if isinstance(s, exp.Column)}

    @property
    def by_rows(self) -> bool:
        spec = self.window.args.get("spec")
        return spec is not None and str(spec.args.get("kind")).upper() == "ROWS"

    @property
    def ends(self) -> tuple[str, str]:
        spec = self.window.args.get("spec")
        if spec is None:
            return (_FIRST, _HERE if self.order else _LAST)
        start, end = (f"{spec.args.get(a) or _HERE} {spec.args.get(a + '_side') or ''}" for a in ("start", "end"))
        return (start.strip().upper(), end.strip().upper())

    @property
    def is_whole(self) -> bool:
        """Whether every row sees its whole partition."""
        spec = self.window.args.get("spec")
        return self.ends == (_FIRST, _LAST) and not (spec and spec.args.get("exclude"))

    @property
    def has_one_answer(self) -> bool:
        if isinstance(self.function, BY_PEERS):
            return True
        if isinstance(self.function, BY_POSITION) or (self.by_rows and not self.is_whole):
            return False
        if isinstance(self.function, _NUMBERS):
            return True
        return isinstance(self.function, ONE_OF_THE_ROWS) and columns_of(self.function) <= self.given

    def with_ties(self, fields: tuple[Field, ...]) -> Scalar:
        """The same call with the remaining columns at the end of its order."""
        ties = [f for f in fields if f.id not in self.given and not f.type.upper().startswith(_NOT_SORTABLE)]
        spec = self.window.args.get("spec")
        if spec is not None and "ROW" not in str(spec.args.get("exclude") or "ROW").upper() and self.by_rows:
            raise UnsupportedError("EXCLUDE GROUP and EXCLUDE TIES in a frame of rows, where rows may be equal")
        if isinstance(self.function, BY_POSITION) or self.by_rows:
            return self._ordered(ties, spec)
        if self.is_whole:
            return self._ordered(ties, _rows(_FIRST, _LAST))
        skips_nulls = isinstance(self.window.this, exp.IgnoreNulls)
        match self.function, self.ends:
            case exp.FirstValue(), (start, end) if start == _FIRST and end == _HERE and not skips_nulls:
                return self._ordered(ties, _rows(_FIRST, _HERE))
            case exp.LastValue(), (start, end) if start == _HERE and end == _LAST and not skips_nulls:
                return self._ordered(ties, _rows(_HERE, _LAST))
            case exp.FirstValue(), (start, _) if start == _HERE and not skips_nulls:
                return self._among_peers(ties)
            case exp.LastValue(), (_, end) if end == _HERE and not skips_nulls:
                return self._among_peers(ties)
            case _:
                raise UnsupportedError(
                    f"{self.function.key.upper()} may choose among rows that are equal in ORDER BY",
                    hint="use a frame of ROWS, or order by a key",
                )

    def _ordered(self, ties: list[Field], spec: exp.Expr | None) -> Scalar:
        order = [o.copy() for o in self.order] + [exp.Ordered(this=column(f.id), nulls_first=False) for f in ties]
        made = self.window.copy()
        made.set("order", exp.Order(expressions=order) if order else None)
        made.set("spec", spec.copy() if spec is not None else None)
        return made

    def _among_peers(self, ties: list[Field]) -> Scalar:
        """A frame that begins or ends with the current row's peers: its first or last row is one of them."""
        made = self.window.copy()
        made.set("partition_by", [*made.args.get("partition_by", []), *(o.this.copy() for o in self.order)])
        order = [exp.Ordered(this=column(f.id), nulls_first=False) for f in ties]
        made.set("order", exp.Order(expressions=order) if order else None)
        made.set("spec", _rows(_FIRST, _LAST))
        return made


def _rows(start: str, end: str) -> exp.WindowSpec:
    ends = {}
    for name, bound in (("start", start), ("end", end)):
        if bound == _HERE:
            ends[name] = _HERE
        else:
            ends[name], ends[f"{name}_side"] = bound.split()
    return exp.WindowSpec(kind="ROWS", **ends)
