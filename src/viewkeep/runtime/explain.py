"""What viewkeep will do with a view, in words and trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from viewkeep.errors import SqlError
from viewkeep.plan.printer import show
from viewkeep.runtime.compiled import CompiledView
from viewkeep.runtime.reports import RefreshReport
from viewkeep.strategy.components import Rule
from viewkeep.strategy.graph import FORMATS, as_dot, as_mermaid, as_text, graphs_of
from viewkeep.strategy.layout import BagLayout, GroupLayout
from viewkeep.strategy.methods import method_of
from viewkeep.strategy.program import Append, MergeAdd, Program, Replace, Stage


def explain_compiled(
    compiled: CompiledView,
    options: dict[str, str],
    last: RefreshReport | None,
    parts: Sequence[CompiledView] = (),
) -> str:
    chosen = {"policy": "auto", "refresh": "manual", **options}
    lines = [f"view {compiled.view} ({', '.join(f'{option} {value}' for option, value in chosen.items())})"]
    lines.append(f"reads {', '.join(str(s) for s in compiled.sources) or 'no table'}")
    if compiled.query is None:
        lines += ["", "NOT INCREMENTAL: every refresh recomputes the view.", f"reason: {compiled.not_incremental}"]
    else:
        layout = compiled.layout
        lines += ["", "plan, and how each operator is maintained:"]
        lines.append(_indent(show(compiled.query.root, lambda n: method_of(n, layout))))
        lines += ["", _storage(compiled)]
        program = compiled.program(compiled.every_change())
        if compiled.edges:
            lines += ["", "foreign keys, each relied on where the changes allow it:"]
            for graph in graphs_of(compiled.core, compiled.edges):
                lines += [f"  {line}" for line in as_text(graph)]
        if parts:
            lines += ["", "sub-trees of foreign keys that are kept as views of their own, refreshed before this one:"]
            lines += [f"  {part.view} = {' ⋈ '.join(map(str, part.sources))}" for part in parts]
        lines += ["", "delta plan, if every source changed:", _indent(_delta(program))]
    if last is not None:
        lines += ["", f"last refresh: {last.strategy}; {last.reason}"]
        lines.append(f"  expected to read {last.predicted_rows:,} source rows, consumed {last.changed_rows:,} changes")
        for key, why in last.dropped.items():
            lines.append(f"  without {key}: {why}")
        lines.append(f"  +{last.rows_inserted:,} −{last.rows_deleted:,} rows in {last.seconds * 1000:.1f} ms")
    return "\n".join(lines)


def draw_graph(compiled: CompiledView, last: RefreshReport | None, form: str) -> str:
    """The foreign keys of a view as a picture: for Graphviz or Mermaid, or as text."""
    graphs, removed = graphs_of(compiled.core, compiled.edges), last.dropped if last else {}
    match form:
        case "dot":
            return as_dot(graphs, removed)
        case "mermaid":
            return as_mermaid(graphs, removed)
        case "text":
            lines = [line for graph in graphs for line in as_text(graph)]
            return "\n".join(lines or ["no join of this view follows a foreign key"])
        case _:
            raise SqlError(f"a graph cannot be drawn as {form!r}", hint=f"use one of: {', '.join(FORMATS)}")


def _storage(compiled: CompiledView) -> str:
    layout = compiled.layout
    if isinstance(layout, BagLayout):
        how = f"rows found by key ({', '.join(layout.key)})" if layout.key else "rows found by value, copies counted"
        first = (
            f"; the first {layout.bound.reserve:,} or so, as {layout.bound.shown:,} are shown" if layout.bound else ""
        )
        return f"stored as rows: {', '.join(layout.columns)}; {how}{first}"
    kind = "state is added to" if layout.state.additive else "state is combined or computed anew"
    rules = ", ".join(_rules(layout))
    return f"stored as groups by ({', '.join(layout.keys)}): _vk_rows{', ' + rules if rules else ''}; {kind}"


def _rules(layout: GroupLayout) -> Iterator[str]:
    """What each stored column of a group is, and how it follows changes."""
    ranked = {r.fields[0].id: r for r in layout.state.ranked}
    for name, component in zip(layout.columns[len(layout.keys) + 1 :], layout.state.components, strict=True):
        call: exp.Expr = component.call
        rule = component.rule.value
        if component.rule is Rule.RANKED:
            if (found := ranked.get(component.field.id)) is None:
                continue  # told with the first one
            call = (exp.Max if found.largest else exp.Min)(this=found.argument.copy())
            rule = f"and the next {len(found.fields) - 1}, which take its place when it is deleted"
        yield f"{name} = {call.sql().replace(chr(34), '')} ({rule})"


def _delta(program: Program) -> str:
    for step in program.steps:
        if isinstance(step, Append | Stage | MergeAdd | Replace) and not isinstance(step.source, str):
            return show(step.source)
    return "none"


def _indent(text: str) -> str:
    return "\n".join("  " + line for line in text.splitlines())
