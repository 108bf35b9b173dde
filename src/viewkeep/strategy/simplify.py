"""Small rules that tidy a plan after it was made incremental. None means "not my case".

Each rule sees a node whose inputs are done; the driver recurses, keeps shared subplans shared, and
checks that no rule changes the columns of what it rewrites.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from viewkeep.errors import PlanError
from viewkeep.plan.nodes import Aggregate, Filter, Named, Node, Project, inputs_of, with_inputs
from viewkeep.plan.scalars import Scalar, substitute
from viewkeep.strategy.program import Clear, DropEmpty, Program, Replace, Step

Shared = Callable[[Node], bool]


def merge_projections(node: Node, shared: Shared) -> Node | None:
    """Project over Project: one, where nothing is computed twice by it."""
    if not (isinstance(node, Project) and isinstance(node.input, Project)) or shared(node.input):
        return None
    inner = {o.field.id: o.scalar for o in node.input.outputs}
    uses = Counter(c.name for o in node.outputs for c in o.scalar.find_all(exp.Column))
    if any(uses[i] > 1 and not _cheap(s) for i, s in inner.items()):
        return None
    return Project(node.input.input, tuple(Named(o.field, substitute(o.scalar, inner)) for o in node.outputs))


def drop_idle_projection(node: Node, shared: Shared) -> Node | None:
    """A projection that passes everything on as it is."""
    if not isinstance(node, Project) or node.fields != node.input.fields or not _passes(node):
        return None
    return node.input


def drop_renaming_below_aggregate(node: Node, shared: Shared) -> Node | None:
    """An aggregate names what it reads: a projection that only leaves columns out or renames them is not needed."""
    if not (isinstance(node, Aggregate) and isinstance(node.input, Project)) or shared(node.input):
        return None
    if not all(isinstance(o.scalar, exp.Column) for o in node.input.outputs):
        return None
    names = {o.field.id: o.scalar for o in node.input.outputs}

    def below(named: Named) -> Named:
        return Named(named.field, substitute(named.scalar, names))

    return replace(node, input=node.input.input, keys=tuple(map(below, node.keys)), calls=tuple(map(below, node.calls)))


def merge_filters(node: Node, shared: Shared) -> Node | None:
    if not (isinstance(node, Filter) and isinstance(node.input, Filter)) or shared(node.input):
        return None
    return Filter(node.input.input, exp.and_(node.input.predicate.copy(), node.predicate.copy()))


RULES = (
    merge_projections,  # first: it leaves idle projections behind
    drop_idle_projection,
    drop_renaming_below_aggregate,
    merge_filters,
)


def simplify(root: Node) -> Node:
    uses: Counter[int] = Counter()

    def count(node: Node) -> None:
        uses[id(node)] += 1
        if uses[id(node)] == 1:
            for child in inputs_of(node):
                count(child)

    count(root)
    done: dict[int, Node] = {}
    made_from: dict[int, int] = {}

    def shared(node: Node) -> bool:
        return uses[made_from.get(id(node), id(node))] > 1

    def visit(node: Node) -> Node:
        if id(node) not in done:
            current = with_inputs(node, tuple(visit(child) for child in inputs_of(node)))
            changed = True
            while changed:
                changed = False
                for rule in RULES:
                    if (better := rule(current, shared)) is not None:
                        if better.fields != current.fields:
                            raise PlanError(f"rule {rule.__name__} changed the columns of {type(current).__name__}")
                        current, changed = better, True
            made_from.setdefault(id(current), id(node))
            done[id(node)] = current
        return done[id(node)]

    return visit(root)


def simplify_program(program: Program) -> Program:
    """The same steps over tidier plans."""
    steps: list[Step] = []
    for step in program.steps:
        if isinstance(step, Clear | DropEmpty) or isinstance(step.source, str):
            steps.append(step)
        else:
            step = replace(step, source=simplify(step.source))
            if isinstance(step, Replace) and step.by_value is not None:
                step = replace(step, by_value=replace(step.by_value, source=simplify(step.by_value.source)))
            steps.append(step)
    return replace(program, steps=tuple(steps))


def _passes(node: Project) -> bool:
    return all(isinstance(o.scalar, exp.Column) and o.scalar.name == o.field.id for o in node.outputs)


def _cheap(scalar: Scalar) -> bool:
    """Whether computing it twice costs nothing to speak of."""
    inner = scalar.this if isinstance(scalar, exp.Neg | exp.Paren) else scalar
    return isinstance(inner, exp.Column | exp.Literal | exp.Null | exp.Boolean)
