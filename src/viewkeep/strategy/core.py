"""The core of a view: what of its plan is stored. The rest is computed when the view is read.

The core is the topmost aggregate, if only what is cheap is above it: projections, filters, windows over all groups,
an order. Without one it is all that is below ORDER BY … LIMIT.

Where a view shows no more than the first rows of something, whatever is above that can wait too, aggregates among it:

    γ(τ[n](R))        σ(rank ≤ n)(ω(R))        τ[n]: ORDER BY … LIMIT n        ω: ranks over all rows

Of R, then, only the first rows are stored: see bounded.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from viewkeep.errors import UnsupportedError
from viewkeep.incremental.reproducible import reproducible_calls
from viewkeep.plan.nodes import Aggregate, Filter, Node, Order, Project, Repeat, TopK, Window, inputs_of
from viewkeep.plan.scalars import Scalar, conjuncts, window_function
from viewkeep.plan.ties import BY_PEERS, BY_POSITION, ONE_OF_THE_ROWS
from viewkeep.strategy.form import Form

FEW = 10_000
"""So many rows are ranked, grouped, … in no time."""

_REPEATABLE = (*BY_PEERS, *BY_POSITION, *ONE_OF_THE_ROWS, exp.Count, exp.Min, exp.Max)
_RANKS = (exp.RowNumber, exp.Rank)
"""Of these at most n rows (and their peers) are in the first n."""
_OF_WHAT_COMES_BEFORE = (*_RANKS, exp.DenseRank)
"""They say the same of a row, whether the rows after it are there or not."""


ABOVE = Project | Filter | Repeat | TopK | Window | Aggregate
"""What can be above a core."""


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """A place in a plan above which only the first rows of `below` matter."""

    below: Node
    order: tuple[Order, ...]
    shown: int
    """Rows up to the last one that matters; its peers may matter too."""


@dataclass(frozen=True, slots=True, eq=False)
class Core:
    node: Node
    cut: Cut | None = None
    """Why only the first of its rows matter, if so."""


def core_of(root: Node, form: Form) -> Core:
    cut = _lowest_cut(root, form.ranked) if form.bounded else None
    node = below_order = root if cut is None else cut.below
    while isinstance(node, Project | Filter | Repeat | TopK) or _over_all(node):
        if isinstance(node, TopK):
            below_order = node.input
        (node,) = inputs_of(node)
    if isinstance(node, Aggregate):
        return Core(node)
    return Core(below_order, cut if cut is not None and cut.below is below_order else None)


def cuts(root: Node, core: Node) -> bool:
    """Whether one row more in the core can change or push out others that are read."""
    if root is core:
        return False
    limited = isinstance(root, TopK) and (root.limit is not None or root.offset > 0)
    return limited or isinstance(root, Window | Aggregate) or cuts(inputs_of(root)[0], core)


def _over_all(node: Node) -> bool:
    """Whether it is a window in which every row may depend on every other, and which says the same of the same
    rows whenever it is asked: a sum of doubles may differ in its last digit."""
    if not isinstance(node, Window) or node.partition:
        return False
    return all(isinstance(window_function(c.scalar), _REPEATABLE) for c in node.calls)


# ---------------------------------------------------------------------- the first rows
def _lowest_cut(root: Node, ranked: bool) -> Cut | None:
    """`ranked`: by ranks and below groups too."""
    node, found = root, None
    grouped = False
    most: dict[str, int] = {}
    """Columns of which only rows with at most this value pass all that was met since they were made."""
    while True:
        match node:
            case Filter():
                most |= {name: min(n, most.get(name, n)) for name, n in _most(node.predicate).items()}
            case Project():
                passed = {o.field.id: o.scalar.name for o in node.outputs if isinstance(o.scalar, exp.Column)}
                most = {passed[name]: n for name, n in most.items() if name in passed}
            case TopK():
                most = {}
                if node.limit is not None and node.order and (not grouped or node.limit + node.offset <= FEW):
                    found = Cut(node.input, node.order, node.limit + node.offset)
            case Window() if _over_all(node):
                found = (_by_rank(node, most) if ranked else None) or found
                most = {}
            case Aggregate() if ranked and _repeatable(node):
                grouped, most = True, {}
            case _:
                return found
        (node,) = inputs_of(node)


def _repeatable(node: Aggregate) -> bool:
    try:
        reproducible_calls(node)
    except UnsupportedError:
        return False
    return True


def _most(predicate: Scalar) -> dict[str, int]:
    """The columns that a filter holds below a number."""
    found: dict[str, int] = {}
    for part in conjuncts(predicate):
        match part:
            case exp.LTE() | exp.LT() | exp.EQ():
                name, number = part.this, part.expression
            case exp.GTE() | exp.GT():
                name, number = part.expression, part.this
            case exp.Between():
                name, number = part.this, part.args["high"]
            case _:
                continue
        name, number = name.unnest(), number.unnest()
        if isinstance(name, exp.Column) and isinstance(number, exp.Literal) and number.is_int:
            found[name.name] = min(int(number.name), found.get(name.name, int(number.name)))
    return found


def _by_rank(node: Window, most: dict[str, int]) -> Cut | None:
    """Ranks in one and the same order, of which a filter wants the first few."""
    functions = {c.field.id: window_function(c.scalar) for c in node.calls}
    if isinstance(node.input, Window) or not all(isinstance(f, _OF_WHAT_COMES_BEFORE) for f in functions.values()):
        return None
    orders = [c.scalar.args.get("order") for c in node.calls]
    if orders[0] is None or any(o != orders[0] for o in orders):
        return None
    shown = min((most[name] for name, f in functions.items() if name in most and isinstance(f, _RANKS)), default=0)
    if not 0 < shown <= FEW:
        return None
    return Cut(node.input, tuple(_order(o) for o in orders[0].expressions), shown)


def _order(item: exp.Expr) -> Order:
    return Order(item.this, bool(item.args.get("desc")), bool(item.args.get("nulls_first")))
