"""The graph of foreign keys of a view, drawn: as text, for Graphviz, for Mermaid.

Nodes are the tables of one join, each use of a table by itself; an edge is a foreign key that the join
follows. A component is a root and what it reaches: it has one branch in the delta.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from viewkeep.incremental.foreign_keys import Component, components, inner_joins, scan_numbers
from viewkeep.incremental.weighted import Edge
from viewkeep.plan.nodes import Node, Scan

FORMATS = ("text", "dot", "mermaid")


@dataclass(frozen=True, slots=True)
class Graph:
    """Of one join."""

    nodes: tuple[str, ...]
    edges: tuple[tuple[int, int, Edge], ...]
    components: tuple[Component, ...]

    @property
    def title(self) -> str:
        return f"{len(self.nodes)} tables, branches {len(self.nodes)} → {len(self.components)}"


def graphs_of(root: Node, edges: Sequence[Edge]) -> list[Graph]:
    """One graph for each join of a plan that follows some foreign key."""
    found = []
    for relations, _ in inner_joins(root):
        number = scan_numbers(relations)
        here = [(number[e.child], number[e.parent], e) for e in edges if e.child in number and e.parent in number]
        if here:
            parts = components(relations, frozenset(edges))
            found.append(Graph(tuple(_labels(relations)), tuple(here), tuple(parts)))
    return found


def _labels(relations: Sequence[Node]) -> list[str]:
    """Names of tables; the second use of one has a number."""
    seen, found = Counter[str](), []
    for relation in relations:
        name = str(relation.table) if isinstance(relation, Scan) else "subquery"
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


# ---------------------------------------------------------------------- text
def as_text(graph: Graph) -> list[str]:
    lines = [f"{graph.title}:"]
    for part in graph.components:
        lines += _tree(graph, part.root, set(part.members), "  ")
    return lines


def _tree(graph: Graph, at: int, inside: set[int], margin: str) -> list[str]:
    """A table, and below it what it points at; each of the component once."""
    inside.discard(at)
    lines = [f"{margin}{graph.nodes[at]}"]
    for child, parent, edge in graph.edges:
        if child == at and parent in inside:
            below = _tree(graph, parent, inside, margin + "    ")
            lines += [f"{margin}└─ {edge.label}{' (enforced)' if edge.enforced else ''}", *below[1:]]
    return lines


# ---------------------------------------------------------------------- pictures
def as_dot(graphs: Sequence[Graph], removed: Mapping[str, str]) -> str:
    """For Graphviz: `dot -Tsvg`. Edges that the last refresh did not rely on are dashed."""
    lines = ["digraph foreign_keys {", "  rankdir=LR; node [shape=box];"]
    for g, graph in enumerate(graphs, 1):
        for c, part in enumerate(graph.components, 1):
            lines.append(f"  subgraph cluster_{g}_{c} {{")
            lines.append(f"    label={_quoted(f'branch {c} of {len(graph.components)}')};")
            for n in part.members:
                bold = " style=bold" if n == part.root else ""
                lines.append(f"    n{g}_{n} [label={_quoted(graph.nodes[n])}{bold}];")
            lines.append("  }")
        for child, parent, edge in graph.edges:
            why = removed.get(edge.label)
            style = f" style=dashed tooltip={_quoted(why)}" if why else ""
            lines.append(f"  n{g}_{child} -> n{g}_{parent} [label={_quoted(_columns(edge))}{style}];")
    return "\n".join([*lines, "}"])


def as_mermaid(graphs: Sequence[Graph], removed: Mapping[str, str]) -> str:
    """For Markdown that draws ```mermaid blocks. Edges that the last refresh did not rely on are dotted."""
    lines = ["flowchart LR"]
    for g, graph in enumerate(graphs, 1):
        for c, part in enumerate(graph.components, 1):
            lines.append(f'  subgraph c{g}_{c} ["branch {c} of {len(graph.components)}"]')
            lines += [f'    n{g}_{n}["{_entity(graph.nodes[n])}"]' for n in part.members]
            lines.append("  end")
        for child, parent, edge in graph.edges:
            arrow = "-.->" if edge.label in removed else "-->"
            lines.append(f'  n{g}_{child} {arrow}|"{_entity(_columns(edge))}"| n{g}_{parent}')
    return "\n".join(lines)


def _columns(edge: Edge) -> str:
    return edge.label.partition(" → ")[0].partition("(")[2].removesuffix(")")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _entity(text: str) -> str:
    return text.replace('"', "#quot;")
