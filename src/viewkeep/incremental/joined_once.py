"""Which relations of a join are joined to the sum of its branches, not in each of them.

    Δ(R ⋈ S ⋈ U) = Δ(R ⋈ S) ⋈ U          where U did not change

U is read once, however many of the others changed. Two things speak against it:

- Without U the others do not hang together: R ⋈ S would be a product. (R and S may be two dimensions, U the facts.)
- Every change tells by its own columns which rows of U it needs. Then each branch reads only those few of U; of
  the sum they would not be known any more.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewkeep.incremental.foreign_keys import Component
from viewkeep.incremental.weighted import Context, Weighted
from viewkeep.plan.conditions import equates_columns, ids_of
from viewkeep.plan.nodes import Node
from viewkeep.plan.scalars import Scalar, columns_of


def joined_once(
    parts: list[Component],
    relations: list[Node],
    predicates: list[Scalar],
    changes: list[Weighted | None],
    context: Context,
) -> list[int]:
    """By their number, in the order in which they were written."""
    roots = [p.root for p in parts if changes[p.root] is not None]
    if len(roots) < 2:
        return []
    own = [ids_of(r) for r in relations]
    equal = _merged([columns_of(p) for p in predicates if equates_columns(p)])

    def told(u: int) -> bool:
        """Whether each change has a column that equals one of `u`."""
        return all(any(own[u] & columns and own[root] & columns for columns in equal) for root in roots)

    links = [columns_of(p) for p in predicates if isinstance(p, exp.EQ | exp.NullSafeEQ)]

    def pieces(members: list[int]) -> int:
        """Into how many parts the join of some relations falls, if only equalities hold it together."""
        here = frozenset().union(*(own[m] for m in members))
        return len(_merged([*(own[m] for m in members), *(link for link in links if link <= here)]))

    inside, found = list(range(len(relations))), list[int]()
    asked = [p.root for p in parts if not p.others and not context.touches(relations[p.root]) and not told(p.root)]
    removed = True
    while removed:  # what hangs on another one can go only after that one
        removed = False
        for u in asked:
            without = [m for m in inside if m != u]
            if u in inside and pieces(without) <= pieces(inside):
                inside, removed = without, True
                found.append(u)
    return sorted(found)


def _merged(sets: Sequence[frozenset[str]]) -> list[frozenset[str]]:
    """Sets that overlap, put together.

    >>> sorted(sorted(s) for s in _merged([frozenset("ab"), frozenset("cd"), frozenset("bc"), frozenset("e")]))
    [['a', 'b', 'c', 'd'], ['e']]
    """
    found: list[frozenset[str]] = []
    for one in sets:
        meeting = [f for f in found if f & one]
        found = [*(f for f in found if not f & one), one.union(*meeting)]
    return found
