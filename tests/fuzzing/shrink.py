"""A failing case made small: whatever can be left out is left out, as long as it fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import sqlglot
from sqlglot import exp

from .cases import Case, Failure, Outcome


def shrink(case: Case, failure: Failure, seconds: float, run: Callable[[Case], Outcome]) -> Case:
    until = time.monotonic() + seconds

    def fails(candidate: Case) -> bool:
        if time.monotonic() > until:
            return False
        found = run(candidate).failure
        return found is not None and found.kind == failure.kind

    size = -1
    while size != len(case.script) and time.monotonic() < until:
        size = len(case.script)
        case = _views(case, fails)
        case = _items(case, lambda c: c.batches, lambda c, b: replace(c, batches=tuple(b)), fails)
        for at in range(len(case.batches)):
            case = _items(
                case,
                lambda c, at=at: c.batches[at],
                lambda c, s, at=at: replace(c, batches=(*c.batches[:at], tuple(s), *c.batches[at + 1 :])),
                fails,
            )
        case = _items(case, lambda c: c.setup, lambda c, s: replace(c, setup=tuple(s)), fails)
        for at in range(len(case.views)):
            case = _query(case, at, fails)
    return case


Fails = Callable[[Case], bool]


def _views(case: Case, fails: Fails) -> Case:
    return _items(case, lambda c: c.views, lambda c, v: replace(c, views=tuple(v)), fails)


def _items(
    case: Case, get: Callable[[Case], tuple[Any, ...]], put: Callable[[Case, list[Any]], Case], fails: Fails
) -> Case:
    """Leave out runs of items, long ones first."""
    length = max(1, len(get(case)) // 2)
    while length:
        at = 0
        while at < len(get(case)):
            items = list(get(case))
            candidate = put(case, items[:at] + items[at + length :])
            if fails(candidate):
                case = candidate
            else:
                at += length
        length //= 2
    return case


def _query(case: Case, at: int, fails: Fails) -> Case:
    """Smaller queries: without a clause, a part of a condition, a column; or with a part in place of the whole."""
    again = True
    while again:
        again = False
        for text in _smaller(case.views[at].query):
            views = list(case.views)
            views[at] = replace(views[at], query=text)
            candidate = replace(case, views=tuple(views))
            if fails(candidate):
                case, again = candidate, True
                break
    return case


def _smaller(text: str) -> Iterator[str]:
    tree = sqlglot.parse_one(text, dialect="duckdb")
    seen = {text}
    for number, node in enumerate(list(tree.walk())):
        for make in (_dropped, *(_child(i) for i in range(3))):
            copy = tree.copy()
            target = list(copy.walk())[number]
            if target.key != node.key:
                continue
            made = make(target, copy)
            if made is None:
                continue
            try:
                candidate = made.sql(dialect="duckdb")
            except Exception:
                continue
            if len(candidate) < len(text) and candidate not in seen:
                seen.add(candidate)
                yield candidate


def _dropped(node: exp.Expression, root: exp.Expression) -> exp.Expression | None:
    """Without a clause or an item of a list."""
    if node is root or not isinstance(node.parent, exp.Expression):
        return None
    optional = isinstance(node, exp.Where | exp.Having | exp.Join | exp.Order | exp.Limit | exp.Offset | exp.Qualify)
    optional = optional or isinstance(node, exp.Distinct | exp.Group | exp.CTE)
    if not optional and node.arg_key != "expressions":
        return None
    if node.arg_key == "expressions" and len(node.parent.expressions) < 2:
        return None
    node.pop()
    return root


def _child(number: int) -> Callable[[exp.Expression, exp.Expression], exp.Expression | None]:
    """A child in the place of its parent."""

    def make(node: exp.Expression, root: exp.Expression) -> exp.Expression | None:
        inside = list(node.iter_expressions())
        if node.key in ("subquery", "exists", "in") and number == 0:
            return None
        if number >= len(inside) or isinstance(node, exp.Table | exp.TableAlias | exp.Identifier | exp.Join | exp.From):
            return None
        inner = inside[number]
        if isinstance(inner, exp.Identifier | exp.TableAlias | exp.DataType):
            return None
        if node is root:
            return inner.copy() if isinstance(inner, exp.Query) else None
        node.replace(inner.copy())
        return root

    return make
