"""A stored view, compiled: its layout, and its programs by what changed.

Programs depend only on which sources changed and whether rows were only added, so each shape is
compiled once for as long as the database is open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from viewkeep.catalog import Catalog, TableName
from viewkeep.emit.guard import guard_query
from viewkeep.emit.statements import AVERAGE_DECIMALS, Statement, program_sql
from viewkeep.errors import UnsupportedError
from viewkeep.incremental.foreign_keys import Doubts, doubts, edges_of
from viewkeep.incremental.weighted import Edge
from viewkeep.plan.clock import is_timed
from viewkeep.plan.nodes import (
    Aggregate,
    Field,
    Fresh,
    Join,
    JoinKind,
    Node,
    Query,
    Scan,
    TopK,
    Window,
    sources,
    walk,
)
from viewkeep.sql.build import build_query
from viewkeep.strategy import names
from viewkeep.strategy.bag import refresh_bag
from viewkeep.strategy.choose import FOREIGN_KEY, MATERIALIZED
from viewkeep.strategy.form import PLAIN, Form
from viewkeep.strategy.grouped import refresh_groups
from viewkeep.strategy.layout import BagLayout, GroupLayout, layout_of
from viewkeep.strategy.materialized import Part, with_parts
from viewkeep.strategy.methods import anew
from viewkeep.strategy.program import Program
from viewkeep.strategy.recompute import recompute
from viewkeep.strategy.shape import Shape
from viewkeep.strategy.simplify import simplify, simplify_program

UNASKED = "asking whether it holds reads what its branch reads"
FIRST_GENERATED = 1001
"""Ids made after planning start here, so that they read apart from the user's columns."""


@dataclass(slots=True)
class CompiledView:
    view: TableName
    text: str
    layout: BagLayout | GroupLayout
    query: Query | None
    """None where the view has no plan and can only be recomputed."""
    not_incremental: str | None
    sources: tuple[TableName, ...]
    fresh: Fresh
    time_travel: bool = False
    keeps_changes: bool = True
    """Whether views above and subscribers can ask what changed."""
    edges: tuple[Edge, ...] = ()
    """Joins along foreign keys."""
    key_values: dict[str, int] | None = None
    """About how many different values the key columns of the stored rows have, those without NULL; None: not asked."""
    _programs: dict[Shape, Program] = field(default_factory=dict)
    _full: Program | None = None
    _doubts: dict[tuple[Edge, Shape], Doubts | None] = field(default_factory=dict)
    _guards: dict[tuple[tuple[Edge, ...], Shape, str], str | None] = field(default_factory=dict)
    _statements: dict[tuple[int, str], list[Statement]] = field(default_factory=dict)
    _by_value: CompiledView | None = None

    def forget_programs(self) -> None:
        """What was compiled before `time_travel` or `keeps_changes` were set."""
        self._programs.clear()
        self._statements.clear()
        self._doubts.clear()
        self._guards.clear()
        self._full = self._by_value = None

    def by_value(self) -> CompiledView:
        """The same view with its rows found by all their values: for when its key turns out not to be one."""
        if self._by_value is None:
            assert isinstance(self.layout, BagLayout)
            layout = replace(self.layout, key=None, key_reason="a declared key does not hold")
            self._by_value = replace(self, layout=layout, _programs={}, _full=None, _statements={})
        return self._by_value

    @property
    def may_be_held_for_empty(self) -> bool:
        """Whether DuckDB 2.0 may wrongly conclude from statistics that a join in its programs is empty: an outer join,
        or one with an aggregate that has no groups."""
        nodes = () if self.query is None else walk(self.core)
        return any(
            (isinstance(n, Join) and n.kind not in (JoinKind.INNER, JoinKind.SEMI, JoinKind.ANTI))
            or (isinstance(n, Aggregate) and not n.keys)
            for n in nodes
        )

    @property
    def monotone(self) -> bool:
        """Whether inserts below can only ever insert above: then an append-only change appends."""
        return self.query is not None and all(map(_inserts_stay_inserts, walk(self.core)))

    @property
    def core(self) -> Node:
        """The plan whose delta a refresh computes."""
        return self.layout.aggregate.input if isinstance(self.layout, GroupLayout) else self.layout.contents

    @property
    def timed(self) -> bool:
        """Whether the view changes with time, though no source does."""
        return self.query is not None and is_timed(self.query.root)

    @property
    def anew(self) -> str | None:
        """The operator that a refresh has to compute whole where a recompute would be cheaper, if there is one."""
        return None if self.query is None else anew(self.query.root, self.layout, self.keeps_changes)

    def every_change(self) -> Shape:
        """The shape of a change in which every source gained and lost rows, and time has passed."""
        every = frozenset(s.folded for s in self.sources)
        return Shape(every, every, time_moved=self.timed)

    def every_change_guarded(self) -> Shape:
        """The same for a program that asks itself whether foreign keys can be relied on."""
        every = self.every_change()
        return replace(every, edges=frozenset(self.edges), guard=names.stage(self.view, "guard"))

    def program(self, shape: Shape) -> Program:
        if shape not in self._programs:
            context, appended = shape.context(self.fresh, self.time_travel), shape.append_only and self.monotone
            if isinstance(self.layout, GroupLayout):
                made = refresh_groups(self.layout, context, appended, self.keeps_changes)
            else:
                made = refresh_bag(self.layout, context, appended, self.keeps_changes)
            self._programs[shape] = simplify_program(made)
        return self._programs[shape]

    def shape(
        self,
        strategy: str,
        changed: frozenset[str],
        lost_rows: frozenset[str],
        violated: Callable[[tuple[Edge, ...], Shape], Iterable[tuple[int, int]]],
        asking_is_cheap: bool = True,
    ) -> tuple[Shape, dict[str, str]]:
        """The shape of a change, and the foreign keys that are not relied on for it, with the reason.

        `violated` asks the engine which of some edges are in doubt, and why: by their number and that of the reason.
        `asking_is_cheap`: whether that costs less than a branch."""
        relied = self.edges if strategy in ("auto", FOREIGN_KEY, MATERIALIZED) else ()
        asked = tuple(e for e in relied if e.parent_table in changed)
        alone = None if asking_is_cheap or strategy != "auto" else self._alone_in_doubt(asked)
        asked = tuple(e for e in asked if e is not alone)
        every = Shape(changed, lost_rows, frozenset(asked), self.timed)
        found = sorted(violated(asked, every)) if asked else []
        broken = {edge: self._why(asked[edge], reason, every) for edge, reason in found}
        kept = [e for i, e in enumerate(asked) if i not in broken]
        if strategy in (FOREIGN_KEY, MATERIALIZED):  # what points at an unchanged table holds anyway
            kept += [e for e in self.edges if e.parent_table not in changed]
        dropped = {asked[i].label: why for i, why in broken.items()} | ({alone.label: UNASKED} if alone else {})
        return Shape.of(changed, lost_rows, frozenset(kept), self.timed), dropped

    def _alone_in_doubt(self, asked: tuple[Edge, ...]) -> Edge | None:
        """The one key of which tables have to be asked, if it is a fact's: the question reads all of the fact for a few
        keys, and so does the branch that it could save, and no other table of size."""
        doubtful = [e for e in asked if not e.enforced]
        if len(doubtful) != 1 or any(e.parent == doubtful[0].child for e in self.edges):
            return None
        return doubtful[0]

    def doubts(self, edge: Edge, shape: Shape) -> Doubts | None:
        """What speaks against relying on an edge for a change."""
        if (edge, shape) not in self._doubts:
            found = doubts(self.core, edge, shape.context(self.fresh, self.time_travel))
            self._doubts[edge, shape] = found and Doubts(simplify(found.plan), found.reasons)
        return self._doubts[edge, shape]

    def _why(self, edge: Edge, reason: int, shape: Shape) -> str:
        found = self.doubts(edge, shape)
        assert found is not None
        return found.reasons[reason][1]

    def guard(self, edges: tuple[Edge, ...], shape: Shape, dialect: str) -> str | None:
        """The query for the numbers of the edges in doubt and of the reasons, if there is anything to doubt."""
        key = (edges, shape, dialect)
        if key not in self._guards:
            query = guard_query([self.doubts(e, shape) for e in edges], dialect)
            self._guards[key] = None if query is None else query.sql(dialect=dialect)
        return self._guards[key]

    def full_program(self, logged: bool = True) -> Program:
        text = None if self.query else self.text
        return simplify_program(recompute(self.layout, self.fresh, text, logged and self.keeps_changes))

    def statements(self, shape: Shape, dialect: str) -> list[Statement]:
        """The SQL of `program`."""
        return self._sql(self.program(shape), dialect)

    def full_statements(self, dialect: str) -> list[Statement]:
        if self._full is None:
            self._full = self.full_program()
        return self._sql(self._full, dialect)

    def _sql(self, program: Program, dialect: str) -> list[Statement]:
        key = (id(program), dialect)
        if key not in self._statements:
            self._statements[key] = program_sql(program, dialect)
        return self._statements[key]


def _inserts_stay_inserts(node: Node) -> bool:
    """A new row changes its group or partition; and it can be the partner whose absence another row stood for."""
    match node:
        case Aggregate() | Window() | TopK():
            return False
        case Join():
            return node.kind in (JoinKind.INNER, JoinKind.SEMI)
        case _:
            return True


def compile_view(
    view: TableName,
    text: str,
    catalog: Catalog,
    dialect: str,
    output: tuple[str, ...] = (),
    parts: Sequence[Part] = (),
    form: Form = PLAIN,
) -> CompiledView:
    """Compile a view that has an incremental form; UnsupportedError says why another has none.

    `output`: the column names as the engine gives them, where it was asked. `parts`: views that it reads in
    place of some of its tables. `form`: how it is stored.
    """
    query = build_query(text, catalog, dialect)
    query = Query(with_parts(query.root, parts), query.names)
    if output and len(output) != len(query.names):
        raise UnsupportedError(f"the engine gives {len(output)} columns where {len(query.names)} were understood")
    if output:
        query = Query(query.root, output)
    fresh = Fresh(FIRST_GENERATED)
    layout = layout_of(view, query, catalog, fresh, dialect in AVERAGE_DECIMALS, form)
    compiled = CompiledView(view, text, layout, query, None, sources(query.root), fresh)
    if not compiled.sources:
        raise UnsupportedError("the query reads no table")
    # Every delta rule is asked now, so that what has none is known before the view is created.
    compiled.program(compiled.every_change())
    compiled.edges = edges_of(compiled.core, catalog)
    return compiled


def opaque_view(
    view: TableName, text: str, output: tuple[str, ...], reads: tuple[TableName, ...], reason: str
) -> CompiledView:
    """A view that is only ever recomputed."""
    fields = tuple(Field(f"c_{i}") for i, _ in enumerate(output, 1))
    stored = Scan(names.backing(view), tuple(zip(fields, output, strict=True)))
    layout = BagLayout(view, output, fields, output, stored, stored, True, None, "no key of the result is known")
    return CompiledView(view, text, layout, None, reason, reads, Fresh(FIRST_GENERATED))
