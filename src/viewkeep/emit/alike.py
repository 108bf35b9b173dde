"""Plans that mean the same to every engine: rows are matched, moved and counted, and no value is computed.

    Δsales ⋈ items ⋈ days, netted        whole numbers are equal or not, and a price is passed on

What the user wrote an expression for is left to the engine that the user knows: engines round, parse and compare in
ways of their own. Which types are compared alike is the business of whoever reads them.
"""

from __future__ import annotations

from sqlglot import exp

from viewkeep.plan.conditions import equates_columns
from viewkeep.plan.nodes import Aggregate, Filter, Join, Node, Project, Repeat, Scan, Union, inputs_of
from viewkeep.plan.scalars import Scalar, columns_of, conjuncts

_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT"})
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def compares_alike(join: Join) -> bool:
    """Whether all it does is compare columns of one type: no engine converts a value, each in its own way."""
    types = {f.id: "INTEGER" if f.type in _INTEGERS else f.type for f in (*join.left.fields, *join.right.fields)}
    return all(equates_columns(p) and len({types[i] for i in columns_of(p)}) == 1 for p in conjuncts(join.condition))


def means_the_same(plan: Node) -> bool:
    return _counts(plan, {}) is not None


def _counts(node: Node, known: dict[int, frozenset[str] | None]) -> frozenset[str] | None:
    """Columns that hold weights and what is made of them; None where anything else is computed."""
    if id(node) not in known:
        below = [_counts(child, known) for child in inputs_of(node)]
        inside = None if None in below else [b for b in below if b is not None]
        known[id(node)] = None if inside is None else _of(node, inside)
    return known[id(node)]


def _of(node: Node, below: list[frozenset[str]]) -> frozenset[str] | None:
    match node:
        case Scan():
            return frozenset({node.weight.id} if node.weight else ())
        case Project():
            return _passed([(o.field.id, o.scalar) for o in node.outputs], below[0])
        case Filter():
            types = {f.id: f.type for f in node.fields}
            alike = (_of_weights(p, below[0]) or _compares_integers(p, types) for p in conjuncts(node.predicate))
            return below[0] if all(alike) else None
        case Join():
            # A product of small tables may be large.
            return below[0] | below[-1] if node.condition is not None and compares_alike(node) else None
        case Aggregate():
            keys = all(isinstance(k.scalar, exp.Column) for k in node.keys)
            counts = all(_of_weights(c.scalar, below[0]) for c in node.calls)
            return (
                _passed([(o.field.id, o.scalar) for o in (*node.keys, *node.calls)], below[0])
                if keys and counts
                else None
            )
        case Union():
            at = [
                frozenset(i for i, f in enumerate(c.fields) if f.id in b)
                for c, b in zip(node.inputs, below, strict=True)
            ]
            return frozenset(f.id for i, f in enumerate(node.fields) if all(i in a for a in at))
        case Repeat():
            return below[0] if node.times in below[0] else None
        case _:
            return None


def _passed(outputs: list[tuple[str, Scalar]], counts: frozenset[str]) -> frozenset[str] | None:
    """Those of a list of outputs that are made of weights alone, or of nothing; others must be passed as they are."""
    made = [(id_, s) for id_, s in outputs if not isinstance(s, exp.Column)]
    if not all(_is_whole_number(s) or _of_weights(s, counts) for _, s in made):
        return None
    passed = {id_ for id_, s in outputs if isinstance(s, exp.Column) and s.name in counts}
    return frozenset(passed | {id_ for id_, _ in made})


def _of_weights(scalar: Scalar, counts: frozenset[str]) -> bool:
    used = columns_of(scalar)
    return bool(used) and used <= counts


def _compares_integers(predicate: Scalar, types: dict[str, str]) -> bool:
    def whole(side: Scalar) -> bool:
        return types.get(side.name) in _INTEGERS if isinstance(side, exp.Column) else _is_whole_number(side)

    return isinstance(predicate, _COMPARISONS) and whole(predicate.left) and whole(predicate.right)


def _is_whole_number(scalar: Scalar) -> bool:
    return isinstance(scalar, exp.Literal) and scalar.is_int
