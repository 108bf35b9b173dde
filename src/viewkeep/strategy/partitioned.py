"""Programs of a view whose top is a window: its rows are stored, and found by their partition.

    K = partitions in ΔR        ΔV = π(ω(R[new] ⋉ K)) − V ⋉ K

Without PARTITION BY there is one partition: ΔV = π(ω(R[new])) − V.
The old rows of an affected partition are those that are stored, so only the new ones are computed.
And whatever the query may choose (ties, the last digit of a sum of doubles), it is what was chosen
that leaves. The columns of the partition are stored beside the rows, hidden where the user has
left them out.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewkeep.incremental.affected import affected_keys, restrict
from viewkeep.incremental.delta import delta
from viewkeep.incremental.reproducible import reproducible
from viewkeep.incremental.weighted import Context, Weighted, add, negate, to_units
from viewkeep.incremental.window import window_chain
from viewkeep.plan.nodes import Field, Filter, Named, Node, Project, Window, graft
from viewkeep.plan.scalars import Scalar, column
from viewkeep.strategy import names


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """What the rows of a view are found by."""

    base: Node
    """What the windows read; a node of the view's contents."""
    scalars: tuple[Scalar, ...]
    """The partition, over the columns of `base`."""
    fields: tuple[Field, ...]
    """The same among the stored columns."""


def partition_of(core: Node) -> tuple[Node, Partition | None]:
    """A window below nothing but projections and filters: the plan with its partition among the columns."""
    between: list[Project | Filter] = []
    node = core
    while isinstance(node, Project | Filter):
        between.append(node)
        node = node.input
    if not isinstance(node, Window) or not any(isinstance(n, Project) for n in between):
        return core, None
    base, scalars = window_chain(node)
    passed: list[Named] = [Named(Field(f"{names.PARTITION}{i}"), s) for i, s in enumerate(scalars, 1)]
    stable = reproducible(base)
    rows = graft(node, base, stable)
    for step in reversed(between):
        if isinstance(step, Filter):
            rows = Filter(rows, step.predicate)
            continue
        seen = {o.scalar: o.field for o in reversed(step.outputs)}
        hidden = [p for p in passed if p.scalar not in seen]
        rows = Project(rows, (*step.outputs, *hidden))
        passed = [Named(p.field, column(seen.get(p.scalar, p.field).id)) for p in passed]
    by_id = {f.id: f for f in rows.fields}
    return rows, Partition(stable, scalars, tuple(by_id[p.scalar.name] for p in passed))


def partition_change(contents: Node, partition: Partition, stored: Node, context: Context) -> Weighted | None:
    """What the stored rows gain and lose."""
    now, then = contents, stored
    if partition.scalars:
        change = delta(partition.base, context)
        if change is None:
            return None
        keys = affected_keys(change, partition.scalars, context.fresh)
        now = graft(contents, partition.base, restrict(partition.base, partition.scalars, keys))
        then = restrict(stored, tuple(column(f.id) for f in partition.fields), keys)
    rows = add([Weighted(now), negate(Weighted(then), context.fresh)], contents.fields, context.fresh)
    return to_units(rows, context.fresh)
