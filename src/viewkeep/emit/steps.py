"""Parts of a query that Spark had better compute once, before the rest.

    WITH a AS (…), b AS (a ⋈ a), c AS (b ⋈ b), d AS (c ⋈ c) SELECT … FROM d ⋈ d

Spark writes a CTE out at each place that reads it: here `a` would stand there sixteen times, and in the change of
a subquery that is correlated in two ways a hundred thousand times. Where a query gets long by that, each part
that several places read is therefore a query of its own, whose result the others read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from sqlglot import exp

LONG, PART = 100, 10
"""Relations that a query reads, written out, from which on it is taken apart; and those that a part has to read."""


def steps_of(
    query: exp.Select, name: Callable[[str], str], long: int = LONG, part: int = PART
) -> tuple[dict[str, exp.Select], exp.Select]:
    """The parts to be computed first, in order, each by the name that it gets; and the rest of the query.

    >>> import sqlglot
    >>> text = "WITH a AS (SELECT * FROM t, t AS u), b AS (SELECT * FROM a, a AS c) SELECT * FROM b, b AS d"
    >>> first, rest = steps_of(sqlglot.parse_one(text), "_vk_{}".format, long=8, part=4)
    >>> [f"{name}: {part.sql()}" for name, part in first.items()]
    ['_vk_b: WITH a AS (SELECT * FROM t, t AS u) SELECT * FROM a, a AS c']
    >>> rest.sql()
    'SELECT * FROM _vk_b AS b, _vk_b AS d'
    """
    apart = _apart(query, part) if _written_out(query) >= long else set()
    if not apart:
        return {}, query
    for read in query.find_all(exp.Table):
        if read.name in apart:
            read.set("alias", exp.TableAlias(this=exp.to_identifier(read.alias or read.name)))
            read.set("this", exp.to_identifier(name(read.name), quoted=read.this.quoted))
    parts = {cte.alias: cte for cte in query.ctes}
    query.set("with_", None)
    first = {name(alias): _complete(parts[alias].this, parts) for alias in parts if alias in apart}
    return first, _complete(query, parts)


def _written_out(query: exp.Select) -> int:
    """How many relations a query reads where each CTE stands at every place that names it."""
    lengths = dict[str, int]()
    for cte in query.ctes:
        lengths[cte.alias] = _length(cte.this, lengths)
    inside = sum(_length(cte.this, lengths) for cte in query.ctes)
    return _length(query, lengths) - inside


def _length(query: exp.Expr, lengths: dict[str, int]) -> int:
    return sum(lengths.get(read.name, 1) for read in query.find_all(exp.Table))


def _apart(query: exp.Select, part: int) -> set[str]:
    readers = Counter(read.name for read in query.find_all(exp.Table))
    lengths, apart = dict[str, int](), set[str]()
    for cte in query.ctes:
        length = _length(cte.this, lengths)
        if length >= part and readers[cte.alias] > 1:
            apart.add(cte.alias)
            length = 1
        lengths[cte.alias] = length
    return apart


def _complete(body: exp.Select, parts: dict[str, exp.CTE]) -> exp.Select:
    """A query with those parts before it that it reads."""
    needed, open_ = set[str](), [body]
    while open_:
        for read in open_.pop().find_all(exp.Table):
            if read.name in parts and read.name not in needed:
                needed.add(read.name)
                open_.append(parts[read.name].this)
    found = body.copy()
    if needed:
        found.set("with_", exp.With(expressions=[cte.copy() for alias, cte in parts.items() if alias in needed]))
    return found
