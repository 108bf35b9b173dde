"""Affected keys: the general way for an operator that is partitioned by a key.

    K  = the keys that occur in the input's delta
    Δ  = operator(input[new] ⋉ K) − operator(input[old] ⋉ K)

Only the groups in K are computed. `restrict` pushes ⋉ K down to the scans where it can, so that
the engine reads few rows; a predicate on keys commutes with σ, π, ⋈ and +.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from viewkeep.incremental.weighted import Weighted
from viewkeep.plan.nodes import Aggregate, Field, Filter, Fresh, Join, JoinKind, Named, Node, Project, Union
from viewkeep.plan.scalars import Scalar, column, columns_of, conjoin, null_safe_equal


def affected_keys(change: Weighted, keys: tuple[Named, ...], fresh: Fresh) -> Node:
    """The distinct keys of a delta, under ids of their own."""
    return Aggregate(change.node, tuple(Named(Field(fresh("k"), k.field.type), k.scalar) for k in keys))


def restrict(node: Node, scalars: tuple[Scalar, ...], keys: Node) -> Node:
    """The rows of `node` whose key is in `keys`; NULL keys match NULL keys, as groups do.

    `node` may be weighted: a semi join keeps weights as they are.
    """
    used = frozenset().union(*(columns_of(s) for s in scalars)) if scalars else frozenset()
    match node:
        case Filter():
            return replace(node, input=restrict(node.input, scalars, keys))
        case Project():
            by_id = {o.field.id: o.scalar for o in node.outputs}
            if all(isinstance(by_id[i], exp.Column) for i in used):
                renamed = tuple(s.copy().transform(lambda e: _rename(e, by_id)) for s in scalars)
                return replace(node, input=restrict(node.input, renamed, keys))
        case Join(kind=JoinKind.INNER) if used:
            if used <= {f.id for f in node.left.fields}:
                return replace(node, left=restrict(node.left, scalars, keys))
            if used <= {f.id for f in node.right.fields}:
                return replace(node, right=restrict(node.right, scalars, keys))
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


def _rename(scalar: exp.Expr, mapping: dict[str, Scalar]) -> exp.Expr:
    if isinstance(scalar, exp.Column) and scalar.name in mapping:
        return mapping[scalar.name].copy()
    return scalar
