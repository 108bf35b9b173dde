"""Affected keys: the general way for an operator that is partitioned by a key.

    K  = the keys that occur in the input's delta
    Δ  = operator(input[new] ⋉ K) − operator(input[old] ⋉ K)

Only the groups in K are computed. `restrict` pushes ⋉ K down to the scans where it can, so that
the engine reads few rows; a predicate on keys commutes with σ, π, ⋈ and +, with γ and ω where it
reads nothing but their keys, and with the left side of a semi, anti or outer join.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from viewkeep.incremental.weighted import Weighted
from viewkeep.plan.conditions import Equality, equalities, equalities_of, ids_of
from viewkeep.plan.nodes import (
    Aggregate,
    Field,
    Filter,
    Fresh,
    Join,
    JoinKind,
    Named,
    Node,
    Project,
    Repeat,
    TimeFilter,
    Union,
    Unnest,
    Window,
    types_of,
    walk,
)
from viewkeep.plan.scalars import Scalar, column, columns_of, conjoin, null_safe_equal, operand, substitute


def affected_keys(change: Weighted, keys: tuple[Scalar, ...], fresh: Fresh) -> Node:
    """The distinct keys of a delta, under ids of their own."""
    types = types_of(change.node)
    return Aggregate(
        change.node,
        tuple(
            Named(Field(fresh("k"), types[k.name] if isinstance(k, exp.Column) else "UNKNOWN"), k.copy()) for k in keys
        ),
    )


def join_keys(change: Weighted, pairs: list[Equality], scalars: list[Scalar], fresh: Fresh) -> Node:
    """The join keys in a delta; a NULL is one only where the join compares NULL-safe."""
    present = conjoin(
        exp.Not(this=exp.Is(this=operand(s), expression=exp.Null()))
        for p, s in zip(pairs, scalars, strict=True)
        if not p.null_safe
    )
    rows = change if present is None else Weighted(Filter(change.node, present), change.weight)
    return affected_keys(rows, tuple(scalars), fresh)


def narrowed(node: Node, condition: Scalar | None, change: Weighted, fresh: Fresh) -> Node:
    """A side of a join as far as a change of the other side can meet it.

    Where it is computed in groups, only those groups need be; plain rows are left to the engine.
    """
    pairs = equalities(condition, ids_of(change.node), ids_of(node))
    if not pairs or not any(isinstance(n, Aggregate | Window) for n in walk(node)):
        return node
    keys = join_keys(change, pairs, [p.left for p in pairs], fresh)
    return restrict(node, tuple(p.right for p in pairs), keys)


def restrict(node: Node, scalars: tuple[Scalar, ...], keys: Node) -> Node:
    """The rows of `node` whose key is in `keys`; NULL keys match NULL keys, as groups do.

    `node` may be weighted: a semi join keeps weights as they are.
    """
    used = frozenset().union(*(columns_of(s) for s in scalars)) if scalars else frozenset()
    match node:
        case Filter() | TimeFilter() | Repeat():
            return replace(node, input=restrict(node.input, scalars, keys))
        case Project():
            by_id = {o.field.id: o.scalar for o in node.outputs}
            if all(isinstance(by_id[i], exp.Column) for i in used):
                renamed = tuple(s.copy().transform(lambda e: _rename(e, by_id)) for s in scalars)
                return replace(node, input=restrict(node.input, renamed, keys))
        case Join() if used and used <= ids_of(node.left) and node.kind.linear_in_left:
            partner = _equal_on_right(node, scalars)
            right = restrict(node.right, partner, keys) if partner else node.right
            return replace(node, left=restrict(node.left, scalars, keys), right=right)
        case Join(kind=JoinKind.INNER) if used and used <= ids_of(node.right):
            return replace(node, right=restrict(node.right, scalars, keys))
        case Aggregate() if used and used <= {k.field.id for k in node.keys}:
            of_input: dict[str, Scalar] = {k.field.id: k.scalar for k in node.keys}
            return replace(node, input=restrict(node.input, tuple(substitute(s, of_input) for s in scalars), keys))
        case Unnest() if used <= ids_of(node.input):
            return replace(node, input=restrict(node.input, scalars, keys))
        case Window() if used <= ids_of(node.input):
            if used <= {s.name for s in node.partition if isinstance(s, exp.Column)}:
                return replace(node, input=restrict(node.input, scalars, keys))
            if node.partition:
                # Partitions are kept whole: those that have a row with one of the keys.
                name = keys.fields[0].id
                met = Aggregate(
                    restrict(node.input, scalars, keys),
                    tuple(Named(Field(f"{name}_met_{i}"), s) for i, s in enumerate(node.partition)),
                )
                node = replace(node, input=restrict(node.input, node.partition, met))
        case Union():
            positions = {f.id: i for i, f in enumerate(node.fields)}
            inputs = []
            for child in node.inputs:
                mapping: dict[str, Scalar] = {i: column(child.fields[positions[i]].id) for i in used}
                renamed = tuple(s.copy().transform(lambda e, m=mapping: _rename(e, m)) for s in scalars)
                inputs.append(restrict(child, renamed, keys))
            return replace(node, inputs=tuple(inputs))
        case _:
            pass
    condition = conjoin(null_safe_equal(s, column(f.id)) for s, f in zip(scalars, keys.fields, strict=True))
    return Join(node, keys, condition, JoinKind.SEMI)


def _equal_on_right(join: Join, scalars: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    """What every partner has where the left row has these values; nothing if that is not known of all.

    Plain tables are not worth it: the engine skips what cannot match by itself.
    """
    if not any(isinstance(n, Aggregate | Window | Repeat) for n in walk(join.right)):
        return ()
    known = {p.left: p.right for p in equalities_of(join)}
    return tuple(known[s] for s in scalars) if all(s in known for s in scalars) else ()


def _rename(scalar: exp.Expr, mapping: dict[str, Scalar]) -> exp.Expr:
    if isinstance(scalar, exp.Column) and scalar.name in mapping:
        return mapping[scalar.name].copy()
    return scalar
