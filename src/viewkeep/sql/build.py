"""A parsed query → plan, with every name resolved and every column given its own id.

What has no node in the algebra raises UnsupportedError with its reason: the caller recomputes
such a view or refuses it, by policy. What is wrong in itself raises SqlError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from viewkeep.catalog import TYPE_SPELLING, Catalog
from viewkeep.errors import SqlError, UnsupportedError
from viewkeep.plan.clock import lift_time_filters
from viewkeep.plan.keys import has_one_row, keys_of
from viewkeep.plan.nodes import Aggregate, Field, Fresh, Join, Named, Node, Order, Project, Query, Values, scans
from viewkeep.plan.rewrite import normalise, prune
from viewkeep.plan.scalars import Scalar, column, columns_of, is_exact, operand, substitute
from viewkeep.plan.ties import break_ties
from viewkeep.sql.aggregates import AggregateCollector, columns_in_aggregates, contains_aggregate
from viewkeep.sql.built import Built, as_rows
from viewkeep.sql.clock import at_time
from viewkeep.sql.determinism import check_deterministic
from viewkeep.sql.empty_set import with_total
from viewkeep.sql.grouping_sets import GroupingSets, listed_sets, refuse_two_spellings
from viewkeep.sql.meanings import meaning
from viewkeep.sql.ordering import (
    Cut,
    arrange,
    by_all,
    cut_of,
    first_of_each,
    order_of,
    output_index,
    refuse_arbitrary,
    without_limit,
)
from viewkeep.sql.parse import parse_one, position_of
from viewkeep.sql.pivot import expand
from viewkeep.sql.scope import Relation, Scope
from viewkeep.sql.series import NOT_YET, SEVERAL_ROWS, SeriesCollector
from viewkeep.sql.set_operations import distinct, set_operation
from viewkeep.sql.source import Env, Source, constant_rows
from viewkeep.sql.subquery import Domain, Equated, Nested, correlating, equated, zero_counts
from viewkeep.sql.windows import WindowCollector, without_names


def build_query(text: str, catalog: Catalog, dialect: str) -> Query:
    """The plan of a query text.

    >>> from viewkeep.sql.schema import read_schema
    >>> catalog = read_schema("CREATE TABLE gods (uid INT, user_name TEXT)", "duckdb")
    >>> build_query("SELECT user_name FROM gods WHERE uid > 3", catalog, "duckdb").names
    ('user_name',)
    """
    tree = parse_one(text, dialect)
    if not isinstance(tree, exp.Query):
        raise SqlError(f"a view needs a query, not {tree.key.upper()}", position_of(tree), "write SELECT …")
    check_deterministic(tree)
    built = _query(at_time(tree), Env(_query, _nested, catalog, dialect, Fresh()), outer=None, top=True)
    seen: set[str] = set()
    for name in built.names:
        if name.lower() in seen:
            raise SqlError(f"two output columns are named {name!r}", hint="give one of them an alias with AS")
        seen.add(name.lower())
    found = prune(normalise(built.node))
    _refuse_collations(tree, found, catalog)
    return Query(break_ties(lift_time_filters(found), catalog), built.names)


def _refuse_collations(tree: exp.Expr, root: Node, catalog: Catalog) -> None:
    """Rows are found again by what is stored of them, and keys are compared that come from two places: under a
    collation that may be other rows than the query means."""
    if (named := tree.find(exp.Collate)) is not None:
        raise UnsupportedError("COLLATE makes texts equal that are stored differently", position_of(named))
    for scan in scans(root):
        table = catalog.find(scan.table)
        for _, name in scan.columns:
            if table is not None and table.column(name).collated:
                raise UnsupportedError(
                    f"column {name!r} of {str(scan.table)!r} has a collation, which makes texts equal that are stored "
                    "differently"
                )


def _query(tree: exp.Expr, env: Env, outer: Scope | None, top: bool = False) -> Built:
    env = env.with_ctes(tree, outer)
    match tree:
        case exp.Select():
            return _Select(tree, env, outer, top).build()
        case exp.SetOperation() if (groups := with_total(tree, env.dialect)) is not None:
            return _arranged(tree, _Select(groups, env, outer, top=False, with_total=True).build(), env, top)
        case exp.SetOperation():
            left, right = _query(tree.left, env, outer), _query(tree.right, env, outer)
            return _arranged(tree, set_operation(tree, left, right, env.fresh), env, top)
        case exp.Subquery():
            ordered = tree.args.get("order") or tree.args.get("limit") or tree.args.get("offset")
            inner = _query(tree.this, env, outer, top and not ordered)
            return _arranged(tree, inner, env, top) if ordered else inner
        case exp.Values():
            return constant_rows(tree, env)
        case exp.Pivot():
            names = _query(exp.select("*").from_(tree.this.copy()), env, outer).names
            return _query(expand(tree, tree.this, list(names), env.dialect), env, outer)
        case _:
            raise UnsupportedError(f"{tree.key.upper()} has no incremental form yet", position_of(tree))


def _nested(tree: exp.Expr, env: Env, outer: Scope, theta: bool, values: bool) -> Nested:
    """`theta`: any predicate may link the subquery, not only equalities. `values`: its select list matters."""
    if isinstance(tree, exp.Select):
        found = tree if values else without_limit(tree)
        return _Select(found, env.with_ctes(tree, outer), outer, top=False).nested(theta, values)
    return _query(tree, env, outer).nested


def _arranged(tree: exp.Expr, built: Built, env: Env, top: bool) -> Built:
    """ORDER BY and LIMIT after a set operation or a query in parentheses: they see the output columns."""
    order, cut, names = tree.args.get("order"), cut_of(tree), list(built.names)
    refuse_arbitrary(tree, not built.links and has_one_row(built.node))
    if not order or (cut.keeps_all and not top):
        return built
    scope = Scope([Relation("", tuple((n, f.id) for n, f in zip(names, built.fields, strict=True)))])

    def bind(scalar: exp.Expr) -> Scalar:
        at = output_index(scalar, names)
        if at is not None:
            return column(built.fields[at].id)
        return scalar.copy().transform(lambda e: column(scope.resolve(e)) if isinstance(e, exp.Column) else e)

    orders: list[Order] = []
    for item in order.expressions:
        scalars = [column(f.id) for f in built.fields] if by_all(item) else [bind(item.this)]
        orders += [order_of(item, s) for s in scalars]
    keys = tuple(column(k.id) for k in built.keys)
    return replace(built, node=arrange(built.node, orders, cut, built.fields, env.fresh, keys))


class _Select:
    """Builds one SELECT, clause by clause in the order in which SQL evaluates them."""

    def __init__(self, tree: exp.Select, env: Env, outer: Scope | None, top: bool, with_total: bool = False) -> None:
        self.tree, self.env, self.top, self.with_total = without_names(tree), env, top, with_total
        self.source = Source(env, outer)
        self.shown: dict[exp.Expr, Scalar] = {}
        """Of the select list, what has subqueries: bound once more, as a key, it would be joined to others."""
        self.sets: GroupingSets | None = None

    # ------------------------------------------------------------------ the clauses
    def build(self) -> Built:
        self._bind()
        if not self.source.scope.captured:
            return self._finish()
        return as_rows(self._correlated(theta=False, values=True), self.env.fresh)

    def _bind(self) -> None:
        """FROM, and every scalar of the other clauses with its names resolved."""
        self._refuse()
        self.source.read(self.tree)
        if where := self.tree.args.get("where"):
            if contains_aggregate(where):
                if self.source.scope.outer is not None:
                    raise UnsupportedError("WHERE with an aggregate of the query around", position_of(where))
                raise SqlError("WHERE cannot contain an aggregate", position_of(where), "use HAVING")
            self.source.where(where.this)
        items = self._select_items()
        self.names = [name for name, _ in items]
        self.parts = self._bind_parts([scalar for _, scalar in items])

    def _bind_parts(self, scalars: list[Scalar]) -> _Parts:
        def bound(clause: str) -> Scalar | None:
            found = self.tree.args.get(clause)
            return self.source.bind(self._unalias(found.this, self.names, scalars)) if found else None

        once = self.tree.args.get("distinct")
        on = once.args.get("on") if once is not None else None
        by = [self._unalias(e, self.names, scalars) for e in on.expressions] if on else []
        return _Parts(
            scalars,
            bound("having"),
            bound("qualify"),
            self._order_items(self.names, scalars, bool(on)),
            self._group_keys(self.tree.args.get("group"), self.names, scalars),
            [self.source.bind(e) for e in by],
        )

    @property
    def _grouped(self) -> bool:
        parts = self.parts
        return (
            bool(self.tree.args.get("group")) or parts.having is not None or any(map(contains_aggregate, parts.all()))
        )

    def _finish(self) -> Built:
        """What was bound, as a plan."""
        names, parts = self.names, self.parts
        self.source.settle()
        if self._grouped:
            self._aggregate(parts)
        self.source.attach()
        if parts.having is not None:
            self.source.filter(parts.having)
        self._windows(parts, [])
        series = SeriesCollector(self.env.fresh, self.source.node)
        parts.map(series.take)
        self.source.node = series.over(self.source.node)
        node = self._project(names, parts.select)
        once = self.tree.args.get("distinct") is not None and not parts.on
        if once:
            node = distinct(node, self.env.fresh)
        return Built(self._top_k(node, parts, once), tuple(names))

    def _refuse(self) -> None:
        """Clauses that have no node yet."""
        for clause, what in (
            ("pivots", "PIVOT"),
            ("sample", "TABLESAMPLE"),
            ("connect", "CONNECT BY"),
        ):
            if found := self.tree.args.get(clause):
                where = found[0] if isinstance(found, list) else found
                raise UnsupportedError(f"{what} has no incremental form yet", position_of(where))
        for node in self.tree.find_all(*NOT_YET):
            if node.find_ancestor(exp.Query) is self.tree:
                raise UnsupportedError(f"{node.key.upper()} has no incremental form yet", position_of(node))

    # ------------------------------------------------------------------ the select list
    def _select_items(self) -> list[tuple[str, Scalar]]:
        items: list[tuple[str, Scalar]] = []
        for item in self.tree.expressions:
            scalar = item.unalias()
            if isinstance(scalar, exp.Star):
                items += self._star(scalar, "")
            elif isinstance(scalar, exp.Column) and isinstance(scalar.this, exp.Star):
                items += self._star(scalar.this, scalar.table)
            elif isinstance(scalar, exp.Columns):
                raise UnsupportedError("COLUMNS(…)", position_of(scalar))
            else:
                name = item.alias or scalar.output_name or scalar.sql(dialect=self.env.dialect).lower()
                bound = self.source.bind(self._lateral_alias(scalar, items))
                items.append((name, bound))
                if scalar.find(exp.Query):
                    self.shown[scalar] = bound
        return items

    def _lateral_alias(self, scalar: exp.Expr, items: list[tuple[str, Scalar]]) -> exp.Expr:
        """Let an item use the alias of an earlier one, where no column has that name."""
        return self._unalias(scalar, [n for n, _ in items], [s for _, s in items])

    def _unalias(self, scalar: exp.Expr, names: list[str], scalars: list[Scalar]) -> exp.Expr:
        """Replace select aliases by what they stand for; real columns win over aliases."""

        def swap(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Column) and not node.table and not self.source.scope.can_resolve(node):
                matches = [i for i, n in enumerate(names) if n.lower() == node.name.lower()]
                if len(matches) == 1:
                    bound = scalars[matches[0]].copy()
                    for inner in bound.find_all(exp.Column):
                        inner.meta["bound"] = True
                    return bound if isinstance(bound, exp.Column) else exp.paren(bound, copy=False)
            return node

        return scalar.copy().transform(swap)

    def _star(self, star: exp.Star, table: str) -> list[tuple[str, Scalar]]:
        excluded = {e.name.lower() for e in star.args.get("except_") or ()}
        replaced = {e.alias.lower(): e.unalias() for e in star.args.get("replace") or ()}
        if star.args.get("rename"):
            raise UnsupportedError("* RENAME", position_of(star))
        columns = list(self.source.scope.star(table, star))
        if unknown := sorted((excluded | set(replaced)) - {n.lower() for n, _ in columns}):
            raise SqlError(f"* has no column {unknown[0]!r} to exclude or replace", position_of(star))
        return [
            (n, self.source.bind(replaced[n.lower()]) if n.lower() in replaced else column(i))
            for n, i in columns
            if n.lower() not in excluded
        ]

    # ------------------------------------------------------------------ grouping
    def _aggregate(self, parts: _Parts) -> None:
        # A subquery inside an aggregate or a key is an input of the grouping, any other comes after it.
        self.source.attach(frozenset().union(*map(columns_of, parts.keys), *map(columns_in_aggregates, parts.all())))
        keys, expanded = parts.keys, None
        if self.sets is not None:
            expanded = self.sets.expand(self.source.node, self.env.fresh)
            self.source.node, keys = expanded.rows, [*keys, column(expanded.number.id)]
            parts.map(expanded.rewrite)
        collector = AggregateCollector(self.env.fresh, keys, self.source.node, self.source.waiting)
        parts.map(collector.rewrite)
        self.source.rewrite_waiting(collector.rewrite)
        grouped, calls = collector.finish()
        if expanded is not None:
            grouped = tuple(Named(k.field, expanded.keys.get(k.scalar, k.scalar)) for k in grouped)
        self.source.node = Aggregate(self.source.node, grouped, calls)

    def _windows(self, parts: _Parts, by: list[Scalar]) -> None:
        """Window calls see the groups, QUALIFY the window calls, DISTINCT ON what is left; for each value of `by`."""
        collector = WindowCollector(self.env.fresh, self.source.node, by)
        parts.map(collector.take)
        self.source.rewrite_waiting(collector.take)
        self.source.node = collector.over(self.source.node)
        self.source.attach()
        if parts.qualify is not None:
            self.source.filter(parts.qualify)
        if parts.on:
            orders = [order_of(item, scalar) for item, scalar in parts.order]
            first = Cut(limit=1)
            self.source.node = first_of_each(self.source.node, (*by, *parts.on), orders, first, self.env.fresh)

    # ------------------------------------------------------------------ as a subquery
    def nested(self, theta: bool, values: bool) -> Nested:
        self._bind()
        if not values and cut_of(self.tree).keeps_all:
            self.parts.order = []
        if not self.source.scope.captured and not self._one_row:
            return self._finish().nested
        return self._correlated(theta, values)

    @property
    def _one_row(self) -> bool:
        return self._grouped and not self.tree.args.get("group")

    def _correlated(self, theta: bool, values: bool) -> Nested:
        source, captured, one_row = self.source, self.source.scope.captured, self._one_row
        if self.sets is not None:
            raise UnsupportedError("GROUPING SETS in a correlated subquery", position_of(self.tree))
        if any(s.find(*SEVERAL_ROWS) for s in self.parts.all()):
            raise UnsupportedError("a series in a correlated subquery or beside an aggregate", position_of(self.tree))
        if one_row and (self._ranked or not cut_of(self.tree).keeps_one_of_one):
            what = "a window, OFFSET or LIMIT 0 beside an aggregate in a correlated subquery"
            raise UnsupportedError(what, position_of(self.tree))
        self._check_aggregates_are_own(captured)
        links = correlating(source.tests, captured)
        each = not self._grouped and not self._ranked and cut_of(self.tree).keeps_all
        if theta and each and not captured & (self._read(values) | source.links):
            source.tests = [t for t in source.tests if not any(t is link for link in links)]
            source.settle()
            source.attach()
            domains = tuple(source.domains)
            return Nested(source.node, tuple(self.parts.select), tuple(self.names), tuple(links), domains)
        return self._by_keys(links, one_row)

    @property
    def _ranked(self) -> bool:
        """Whether what a row gives depends on the rows beside it."""
        parts = self.parts
        return bool(parts.on) or parts.qualify is not None or any(s.find(exp.Window) for s in parts.all())

    def _by_keys(self, links: list[Scalar], one_row: bool) -> Nested:
        """Computed for every value that the columns of the query around may have, with those values as keys."""
        source, parts, captured = self.source, self.parts, self.source.scope.captured
        pairs = [pair for link in links if (pair := equated(link, captured)) is not None]
        known = {p.outer.name: p.inner for p in pairs if isinstance(p.outer, exp.Column)}
        domains = source.domains
        if len(pairs) == len(links) and not captured & self._read(True) and captured & source.links <= known.keys():
            source.tests = [t for t in source.tests if not any(t is link for link in links)]
            self._let(known)
        else:
            fields = tuple(Field(self.env.fresh("outer")) for _ in captured)
            ids = sorted(captured)
            domain = Domain(Values((), fields), tuple(map(column, ids)))
            domains = [*domains, domain]
            self._let({i: column(f.id) for i, f in zip(ids, fields, strict=True)})
            source.node = Join(domain.stand_in, source.node)
            pairs = [Equated(exp.NullSafeEQ, column(i), column(f.id)) for i, f in zip(ids, fields, strict=True)]
        keys = [p.inner for p in pairs]
        source.settle()
        if self._grouped:
            parts.keys += keys
            self._aggregate(parts)
            keys = parts.keys[len(parts.keys) - len(pairs) :]
        if one_row and pairs and source.waiting:
            raise UnsupportedError("a subquery over a correlated aggregate", position_of(self.tree))
        source.attach()
        if one_row:
            parts.map(lambda s: substitute(s, zero_counts(source.node, self.env.dialect)) if pairs else s)
            outputs = parts.select
        else:
            if parts.having is not None:
                source.filter(parts.having)
            self._windows(parts, keys)
            outputs, keys = self._first_by_keys(keys)
        links = [p.kind(this=p.outer.copy(), expression=operand(key)) for p, key in zip(pairs, keys, strict=True)]
        present = parts.having if one_row else None
        single = one_row or cut_of(self.tree).keeps_one
        return Nested(
            source.node, tuple(outputs), tuple(self.names), tuple(links), tuple(domains), one_row, present, single
        )

    def _first_by_keys(self, keys: list[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
        """DISTINCT and LIMIT for each value of the keys; the outputs and the keys that come out."""
        source, parts, cut = self.source, self.parts, cut_of(self.tree)
        outputs, once = parts.select, self.tree.args.get("distinct") is not None and not parts.on
        if once:
            named = [Named(Field(self.env.fresh("value")), s) for s in (*outputs, *keys)]
            source.node = distinct(Project(source.node, tuple(named)), self.env.fresh)
            columns: list[Scalar] = [column(f.id) for f in source.node.fields]
            outputs, keys = columns[: len(outputs)], columns[len(outputs) :]
        if not cut.keeps_all:
            ids = {key.name for key in keys if isinstance(key, exp.Column)}
            refuse_arbitrary(self.tree, any(key <= ids for key in keys_of(source.node, self.env.catalog)))
            orders = [order_of(item, self._output(scalar, item, outputs, once)) for item, scalar in parts.order]
            orders += [] if cut.with_ties else map(Order, outputs)
            source.node = first_of_each(source.node, tuple(keys), orders, cut, self.env.fresh)
        return outputs, keys

    def _output(self, scalar: Scalar, item: exp.Expr, outputs: Sequence[Scalar], once: bool) -> Scalar:
        """What an item of ORDER BY is above the select list: an output, or a scalar of its own."""
        at = next((i for i, s in enumerate(self.parts.select) if s == scalar), None)
        if at is not None:
            return outputs[at]
        if once:
            raise SqlError("with DISTINCT, ORDER BY can only use columns of the select list", position_of(item))
        return scalar

    def _read(self, values: bool) -> frozenset[str]:
        """Columns that the clauses after WHERE read."""
        scalars = self.parts.all() if values or self._grouped else []
        return frozenset().union(*map(columns_of, (*scalars, *self.parts.keys)))

    def _let(self, mapping: Mapping[str, Scalar]) -> None:
        """Give the columns of the query around their values."""

        def rewrite(scalar: Scalar) -> Scalar:
            return substitute(scalar, mapping)

        self.parts.map(rewrite)
        self.source.rewrite_tests(rewrite)
        self.source.rewrite_waiting(rewrite)

    def _check_aggregates_are_own(self, captured: set[str]) -> None:
        for scalar in self.parts.all():
            for call in scalar.find_all(exp.AggFunc):
                if columns_of(call) and columns_of(call) <= captured:
                    raise UnsupportedError(
                        "an aggregate of the query around, inside a subquery", position_of(self.tree)
                    )

    def _group_keys(self, group: exp.Expr | None, names: list[str], scalars: list[Scalar]) -> list[Scalar]:
        if group is None:
            return []
        if group.args.get("totals"):
            raise UnsupportedError("GROUP BY WITH TOTALS has no incremental form", position_of(group))
        if group.args.get("all"):
            return [s for s in scalars if not contains_aggregate(s) and not s.find(exp.Window)]
        if (listed := listed_sets(group)) is None:
            return [self._group_key(item, names, scalars) for item in group.expressions]
        sets = [{self._group_key(item, names, scalars): item for item in keys} for keys in listed]
        if meaning(self.env.dialect).spelling_tells_keys:
            refuse_two_spellings((key, item) for keys in sets for key, item in keys.items())
        self.sets = GroupingSets(tuple(tuple(keys) for keys in sets), self.env.dialect, self.with_total)
        return list(dict.fromkeys(key for keys in sets for key in keys))

    def _group_key(self, item: exp.Expr, names: list[str], scalars: list[Scalar]) -> Scalar:
        at = output_index(item, names)
        named = isinstance(item, exp.Column) and self.source.scope.can_resolve(item)
        if item in self.shown:
            key = self.shown[item]
        else:
            key = scalars[at] if at is not None and not named else self.source.bind(item)
        if contains_aggregate(key):
            raise SqlError("GROUP BY cannot contain an aggregate", position_of(item))
        if key.find(*SEVERAL_ROWS):
            raise UnsupportedError("GROUP BY the elements of a list has no incremental form yet", position_of(item))
        return key

    # ------------------------------------------------------------------ output
    def _project(self, names: list[str], scalars: list[Scalar]) -> Node:
        types = {f.id: f.type for f in self.source.node.fields}
        return Project(
            self.source.node,
            tuple(
                Named(Field(self.env.fresh(n), scalar_type(s, types)), s) for n, s in zip(names, scalars, strict=True)
            ),
        )

    def _order_items(self, names: list[str], scalars: list[Scalar], needed: bool) -> list[tuple[exp.Expr, Scalar]]:
        """ORDER BY of a query that is not the outermost says nothing, unless it decides which rows stay."""
        order = self.tree.args.get("order")
        if not order or (cut_of(self.tree).keeps_all and not self.top and not needed):
            return []
        items: list[tuple[exp.Expr, Scalar]] = []
        for item in order.expressions:
            if by_all(item):
                items += [(item, s) for s in scalars]
                continue
            at = output_index(item.this, names)
            scalar = scalars[at] if at is not None else self.source.bind(self._unalias(item.this, names, scalars))
            items.append((item, scalar))
        return items

    def _top_k(self, node: Node, parts: _Parts, once: bool) -> Node:
        cut = cut_of(self.tree)
        refuse_arbitrary(self.tree, has_one_row(node))
        if not parts.order or (cut.keeps_all and not self.top):
            return node
        shown = [column(f.id) for f in node.fields]
        orders: list[Order] = []
        extra: list[Named] = []
        for item, scalar in parts.order:
            output = self._output(scalar, item, shown, once)
            if output is scalar:
                extra.append(Named(Field(self.env.fresh("sort")), scalar))
                output = column(extra[-1].field.id)
            orders.append(order_of(item, output))
        if not extra:
            return arrange(node, orders, cut, node.fields, self.env.fresh)
        assert isinstance(node, Project)
        wide = Project(node.input, (*node.outputs, *extra))
        top = arrange(wide, orders, cut, node.fields, self.env.fresh)
        return Project(top, tuple(Named(f, column(f.id)) for f in node.fields))


@dataclass(slots=True)
class _Parts:
    """The scalars of a SELECT that are computed after FROM and WHERE."""

    select: list[Scalar]
    having: Scalar | None
    qualify: Scalar | None
    order: list[tuple[exp.Expr, Scalar]]
    keys: list[Scalar]
    """Of GROUP BY."""
    on: list[Scalar]
    """Of DISTINCT ON."""

    def all(self) -> list[Scalar]:
        single = [s for s in (self.having, self.qualify) if s is not None]
        return [*self.select, *single, *(s for _, s in self.order), *self.on]

    def map(self, rewrite: Callable[[Scalar], Scalar]) -> None:
        self.select = [rewrite(s) for s in self.select]
        self.having = rewrite(self.having) if self.having is not None else None
        self.qualify = rewrite(self.qualify) if self.qualify is not None else None
        self.order = [(item, rewrite(s)) for item, s in self.order]
        self.keys = [rewrite(s) for s in self.keys]
        self.on = [rewrite(s) for s in self.on]


def scalar_type(scalar: Scalar, types: dict[str, str]) -> str:
    """A type where it is certain, else UNKNOWN; exact numbers are told apart from the rest."""
    match scalar:
        case exp.Column():
            return types.get(scalar.name, "UNKNOWN")
        case exp.Cast():
            return scalar.to.sql(dialect=TYPE_SPELLING)
        case exp.Paren():
            return scalar_type(scalar.this, types)
        case _:
            return "DECIMAL" if is_exact(scalar, types) else "UNKNOWN"
