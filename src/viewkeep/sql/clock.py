"""The current time in a query: which functions ask for it, and where that may be followed.

A comparison of a value with a bound that moves with time may be part of WHERE, HAVING, QUALIFY or ON.
Rows cross the bound at a refresh; see incremental/time_filter.py. Anywhere else the time is refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from viewkeep.plan.clock import moment, time_tests
from viewkeep.plan.scalars import Scalar

_INSTANT = frozenset({"now", "get_current_timestamp", "transaction_timestamp"})
_BARE = frozenset({"localtimestamp"})


def at_time(tree: exp.Expr, now: Scalar | None = None) -> exp.Expr:
    """The same query at a given time; without one, at the time that a refresh gives it."""
    instant = moment() if now is None else now

    def swap(node: exp.Expr) -> exp.Expr:
        found = _type(node)
        return node if found is None else instant.copy() if found == "TIMESTAMPTZ" else exp.cast(instant.copy(), found)

    return tree.transform(swap)


def asks_time(node: exp.Expr) -> bool:
    return _type(node) is not None


def _type(node: exp.Expr) -> str | None:
    """The type of a function that tells the time; None of any other node."""
    match node:
        case exp.CurrentTimestamp() if not node.args.get("this"):
            return "TIMESTAMPTZ"
        case exp.Anonymous() if node.name.lower() in _INSTANT and not node.expressions:
            return "TIMESTAMPTZ"
        case exp.CurrentDate() if not node.args.get("this"):
            return "DATE"
        case exp.Localtimestamp() if not node.args.get("this"):
            return "TIMESTAMPNTZ"
        case exp.Column() if not node.table and node.name.lower() in _BARE and not node.this.quoted:
            return "TIMESTAMPNTZ"
        case _:
            return None


def followed(query: exp.Expr) -> set[int]:
    """The functions that tell the time where it can be followed, by the id of their node."""
    found: set[int] = set()
    for part in _conjuncts(query):
        if time_tests(part, asks_time) is not None:
            found |= {id(n) for n in part.walk() if asks_time(n)}
    return found


def _conjuncts(query: exp.Expr) -> Iterator[exp.Expr]:
    """What must be true of each row or pair of rows, anywhere in a query."""
    for clause in query.find_all(exp.Where, exp.Having, exp.Qualify, exp.Join):
        if not isinstance(clause.parent, exp.Filter):
            asked = clause.args.get("on") if isinstance(clause, exp.Join) else clause.this
            yield from _parts(asked)


def _parts(scalar: exp.Expr | None) -> Iterator[exp.Expr]:
    if isinstance(scalar, exp.And):
        yield from _parts(scalar.left)
        yield from _parts(scalar.right)
    elif isinstance(scalar, exp.Paren):
        yield from _parts(scalar.this)
    elif scalar is not None:
        yield scalar
