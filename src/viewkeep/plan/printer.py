"""A plan as text, one node a line."""

from __future__ import annotations

from collections.abc import Callable

from viewkeep.plan.clock import NOW, THEN, moment, predicate_of
from viewkeep.plan.nodes import (
    Aggregate,
    Filter,
    Join,
    Named,
    Node,
    Project,
    Repeat,
    Scan,
    State,
    TimeFilter,
    TopK,
    Union,
    Unnest,
    Values,
    Window,
    inputs_of,
)
from viewkeep.plan.scalars import Scalar


def show(node: Node, note: Callable[[Node], str] | None = None) -> str:
    """The tree; `note` may add a word to each line. A part that stands in several places is written out at the first
    of them, with a number by which the others name it."""
    lines: list[str] = []
    shared, numbers = _shared(node), dict[int, int]()

    def visit(node: Node, depth: int) -> None:
        words = note(node) if note else ""
        told = headline(node) + (f"   -- {words}" if words else "")
        if id(node) in numbers:
            lines.append("  " * depth + f"(as #{numbers[id(node)]}) {told}")
            return
        if id(node) in shared:
            numbers[id(node)] = len(numbers) + 1
            told = f"#{numbers[id(node)]} {told}"
        lines.append("  " * depth + told)
        for child in inputs_of(node):
            visit(child, depth + 1)

    visit(node, 0)
    return "\n".join(lines)


def _shared(root: Node) -> set[int]:
    """The nodes that have inputs and are an input of several others."""
    seen, shared, open_ = set[int](), set[int](), [root]
    while open_:
        node = open_.pop()
        if id(node) in seen:
            shared.add(id(node))
        else:
            seen.add(id(node))
            open_ += [child for child in inputs_of(node) if inputs_of(child)]
    return shared


def headline(node: Node) -> str:
    match node:
        case Scan():
            state = "" if node.state is State.NEW else f" [{node.state.value}]"
            return f"Scan {node.table}{state} ({', '.join(f.id for f in node.fields)})"
        case Filter():
            return f"Filter {_sql(node.predicate)}"
        case TimeFilter():
            return f"Filter by time {_sql(predicate_of(node))}"
        case Project():
            return f"Project {_named(node.outputs)}"
        case Join():
            on = f" on {_sql(node.condition)}" if node.condition is not None else ""
            return f"Join {node.kind.value}{on}"
        case Aggregate(calls=()):
            return f"Distinct {_named(node.keys)}"
        case Aggregate():
            by = f" by {_named(node.keys)}" if node.keys else ""
            return f"Aggregate {_named(node.calls)}{by}"
        case Window():
            by = f" by {', '.join(_sql(s) for s in node.partition)}" if node.partition else ""
            return f"Window {_named(node.calls)}{by}"
        case Union():
            return f"Union all ({', '.join(f.id for f in node.fields)})"
        case Values():
            return f"Values ({len(node.rows)} rows)"
        case Repeat():
            return f"Repeat by {node.times}"
        case Unnest():
            return f"Unnest {_named(node.calls)}"
        case TopK():
            order = ", ".join(_sql(o.scalar) + (" desc" if o.descending else "") for o in node.order)
            limit = f" limit {node.limit}" if node.limit is not None else ""
            return f"Order by {order}{limit}" + (f" offset {node.offset}" if node.offset else "")


def _named(outputs: tuple[Named, ...]) -> str:
    return ", ".join(
        o.field.id if _sql(o.scalar) == o.field.id else f"{o.field.id} = {_sql(o.scalar)}" for o in outputs
    )


def _sql(scalar: Scalar) -> str:
    text = scalar.sql(identify=False).replace('"', "")
    for name in (NOW, THEN):
        text = text.replace(moment(name).sql(), f"<{name}>")
    return text
