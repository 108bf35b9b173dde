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
from viewkeep.plan.conditions import equalities_of, ids_of
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
    Union,
    Window,
    types_of,
    walk,
)
from viewkeep.plan.scalars import Scalar, column, columns_of, conjoin, null_safe_equal, substitute


def affected_keys(change: Weighted, keys: tuple[Scalar, ...], fresh: Fresh) -> Node:
    """The distinct keys of a delta, under ids of their own."""
    types = types_of(change.node)
    return Aggregate(
        change.node,
        tuple(
            Named(Field(fresh("k"), types[k.name] if isinstance(k, exp.Column) else "UNKNOWN"), k.copy()) for k in keys
        ),
    )


def restrict(node: Node, scalars: tuple[Scalar, ...], keys: Node) -> Node:
    """The rows of `node` whose key is in `keys`; NULL keys match NULL keys, as groups do.

    `node` may be weighted: a semi join keeps weights as they are.
    """
    used = frozenset().union(*(columns_of(s) for s in scalars)) if scalars else frozenset()
    match node:
        case Filter() | Repeat():
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
