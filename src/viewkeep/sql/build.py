"""A parsed query → plan, with every name resolved and every column given its own id.

What has no node in the algebra raises UnsupportedError with its reason: the caller recomputes
such a view or refuses it, by policy. What is wrong in itself raises SqlError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from viewkeep.catalog import TYPE_SPELLING, Catalog
from viewkeep.errors import NondeterministicError, SqlError, UnsupportedError
from viewkeep.plan.nodes import Aggregate, Field, Fresh, Join, Named, Node, Order, Project, Query, TopK, Union, Values
from viewkeep.plan.rewrite import normalise, prune
from viewkeep.plan.scalars import Scalar, column, columns_of, is_exact, operand, substitute
from viewkeep.sql.aggregates import AggregateCollector, columns_in_aggregates, contains_aggregate
from viewkeep.sql.determinism import check_deterministic
from viewkeep.sql.parse import parse_one, position_of
from viewkeep.sql.scope import Scope
from viewkeep.sql.source import Built, Env, Source, constant_rows
from viewkeep.sql.subquery import Domain, Equated, Nested, correlating, equated, zero_counts


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
    node, names = _query(tree, Env(_query, _nested, catalog, dialect, Fresh()), outer=None, top=True)
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise SqlError(f"two output columns are named {name!r}", hint="give one of them an alias with AS")
        seen.add(name.lower())
    return Query(prune(normalise(node)), tuple(names))


def _query(tree: exp.Expr, env: Env, outer: Scope | None, top: bool = False) -> Built:
    env = env.with_ctes(tree)
    match tree:
        case exp.Select():
            return _Select(tree, env, outer, top).build()
        case exp.Union():
            return _set_operation(tree, env, outer, top)
        case exp.Subquery():
            if tree.args.get("order") or tree.args.get("limit"):
                raise UnsupportedError("ORDER BY or LIMIT after a parenthesised query", position_of(tree))
            return _query(tree.this, env, outer, top)
        case exp.Values():
            return constant_rows(tree, env)
        case _:
            raise UnsupportedError(f"{tree.key.upper()} has no incremental form yet", position_of(tree))


def _nested(tree: exp.Expr, env: Env, outer: Scope, theta: bool, values: bool) -> Nested:
    """`theta`: any predicate may link the subquery, not only equalities. `values`: its select list matters."""
    if isinstance(tree, exp.Select):
        return _Select(tree, env.with_ctes(tree), outer, top=False).nested(theta, values)
    node, _ = _query(tree, env, outer)
    return Nested(node, tuple(column(f.id) for f in node.fields))


def _set_operation(tree: exp.Union, env: Env, outer: Scope | None, top: bool) -> Built:
    if tree.args.get("by_name"):
        raise UnsupportedError("UNION BY NAME", position_of(tree))
    if tree.args.get("limit") or tree.args.get("offset"):
        raise UnsupportedError("LIMIT after a set operation", position_of(tree))
    left, names = _query(tree.left, env, outer)
    right, right_names = _query(tree.right, env, outer)
    if len(names) != len(right_names):
        raise SqlError(f"UNION of {len(names)} with {len(right_names)} columns", position_of(tree))
    fields = tuple(
        Field(env.fresh(n), a.type if a.type == b.type else "UNKNOWN")
        for n, a, b in zip(names, left.fields, right.fields, strict=True)
    )
    node: Node = Union((left, right), fields)
    if tree.args.get("distinct"):
        node = _distinct(node, env)
    if top and (order := tree.args.get("order")):
        orders = []
        for item in order.expressions:
            at = _output_index(item.this, names)
            if at is None:
                raise UnsupportedError("ORDER BY an expression after a set operation", position_of(item))
            orders.append(_order(item, column(node.fields[at].id)))
        node = TopK(node, tuple(orders))
    return node, names


def _distinct(node: Node, env: Env) -> Node:
    return Aggregate(node, tuple(Named(Field(env.fresh(f.id), f.type), column(f.id)) for f in node.fields))


def _output_index(scalar: exp.Expr, names: list[str]) -> int | None:
    """The output column that an ordinal or a bare name means."""
    if isinstance(scalar, exp.Literal) and not scalar.is_string:
        ordinal = int(scalar.name)
        if not 1 <= ordinal <= len(names):
            raise SqlError(f"position {ordinal} is not in the select list", hint=f"it has {len(names)} columns")
        return ordinal - 1
    if isinstance(scalar, exp.Column) and not scalar.table:
        matches = [i for i, n in enumerate(names) if n.lower() == scalar.name.lower()]
        return matches[0] if matches else None
    return None


def _order(item: exp.Expr, scalar: Scalar) -> Order:
    return Order(scalar, bool(item.args.get("desc")), bool(item.args.get("nulls_first")))


_SEVERAL_ROWS = (exp.Unnest, exp.Explode, exp.ExplodeOuter, exp.Posexplode, exp.Inline, exp.GenerateSeries)
"""Functions that turn one row into several, which is no projection."""


class _Select:
    """Builds one SELECT, clause by clause in the order in which SQL evaluates them."""

    def __init__(self, tree: exp.Select, env: Env, outer: Scope | None, top: bool) -> None:
        self.tree, self.env, self.top = tree, env, top
        self.source = Source(env, outer)

    # ------------------------------------------------------------------ the clauses
    def build(self) -> Built:
        self._bind()
        if self.source.scope.captured:
            raise UnsupportedError("a column of the query around, inside a query in FROM", position_of(self.tree))
        return self._finish()

    def _bind(self) -> None:
        """FROM, and every scalar of the other clauses with its names resolved."""
        self._refuse()
        self.source.read(self.tree)
        if where := self.tree.args.get("where"):
            if contains_aggregate(where):
                raise SqlError("WHERE cannot contain an aggregate", position_of(where), "use HAVING")
            self.source.where(where.this)
        items = self._select_items()
        self.names = [name for name, _ in items]
        scalars = [scalar for _, scalar in items]
        having = self.tree.args.get("having")
        self.parts = _Parts(
            scalars,
            self.source.bind(self._unalias(having.this, self.names, scalars)) if having else None,
            self._order_items(self.names, scalars),
            self._group_keys(self.tree.args.get("group"), self.names, scalars),
        )

    @property
    def _grouped(self) -> bool:
        select, having = self.parts.select, self.parts.having
        return bool(self.tree.args.get("group")) or having is not None or any(map(contains_aggregate, select))

    def _finish(self) -> Built:
        """What was bound, as a plan."""
        names, parts = self.names, self.parts
        self.source.settle()
        if self._grouped:
            self._aggregate(parts)
        self.source.attach()
        if parts.having is not None:
            self.source.filter(parts.having)
        scalars, order_items = parts.select, parts.order
        node = self._project(names, scalars)
        distinct = self.tree.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise UnsupportedError("DISTINCT ON", position_of(distinct))
        if distinct is not None:
            node = _distinct(node, self.env)
        return self._top_k(node, scalars, order_items, distinct is not None), names

    def _refuse(self) -> None:
        """Clauses that have no node yet."""
        for clause, what in (
            ("qualify", "QUALIFY"),
            ("windows", "WINDOW"),
            ("pivots", "PIVOT"),
            ("sample", "TABLESAMPLE"),
            ("laterals", "LATERAL"),
            ("connect", "CONNECT BY"),
            ("fetch", "FETCH"),
        ):
            if found := self.tree.args.get(clause):
                where = found[0] if isinstance(found, list) else found
                raise UnsupportedError(f"{what} has no incremental form yet", position_of(where))
        for node in self.tree.find_all(exp.Window, *_SEVERAL_ROWS):
            if node.find_ancestor(exp.Query) is self.tree:
                what = "window functions have" if isinstance(node, exp.Window) else f"{node.key.upper()} has"
                raise UnsupportedError(f"{what} no incremental form yet", position_of(node))

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
                items.append((name, self.source.bind(self._lateral_alias(scalar, items))))
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
        collector = AggregateCollector(self.env.fresh, parts.keys, self.source.node, self.source.waiting)
        parts.map(collector.rewrite)
        self.source.rewrite_waiting(collector.rewrite)
        self.source.node = Aggregate(self.source.node, *collector.finish())

    # ------------------------------------------------------------------ as a subquery
    def nested(self, theta: bool, values: bool) -> Nested:
        self._bind()
        if not values:
            self.parts.order = []
        source, captured = self.source, self.source.scope.captured
        one_row = self._grouped and not self.tree.args.get("group")
        if not captured and not one_row:
            node, _ = self._finish()
            return Nested(node, tuple(column(f.id) for f in node.fields))
        if limit := self.tree.args.get("limit") or self.tree.args.get("offset"):
            raise UnsupportedError("LIMIT in a correlated subquery or beside an aggregate", position_of(limit))
        self._check_aggregates_are_own(captured)
        links = correlating(source.tests, captured)
        if theta and not self._grouped and not captured & (self._read(values) | source.links):
            source.tests = [t for t in source.tests if not any(t is link for link in links)]
            source.settle()
            source.attach()
            return Nested(source.node, tuple(self.parts.select), tuple(links))
        return self._by_keys(links, one_row)

    def _by_keys(self, links: list[Scalar], one_row: bool) -> Nested:
        """Computed for every value that the columns of the query around may have, with those values as keys."""
        source, parts, captured = self.source, self.parts, self.source.scope.captured
        pairs = [pair for link in links if (pair := equated(link, captured)) is not None]
        known = {p.outer.name: p.inner for p in pairs if isinstance(p.outer, exp.Column)}
        domain = None
        if len(pairs) == len(links) and not captured & self._read(True) and captured & source.links <= known.keys():
            source.tests = [t for t in source.tests if not any(t is link for link in links)]
            self._let(known)
        else:
            fields = tuple(Field(self.env.fresh("outer")) for _ in captured)
            ids = sorted(captured)
            domain = Domain(Values((), fields), tuple(map(column, ids)))
            self._let({i: column(f.id) for i, f in zip(ids, fields, strict=True)})
            source.node = Join(domain.stand_in, source.node)
            pairs = [Equated(exp.NullSafeEQ, column(i), column(f.id)) for i, f in zip(ids, fields, strict=True)]
        parts.keys += [p.inner for p in pairs]
        source.settle()
        keys = [p.inner for p in pairs]
        if self._grouped:
            self._aggregate(parts)
            keys = parts.keys[len(parts.keys) - len(pairs) :]
        if one_row and pairs and source.waiting:
            raise UnsupportedError("a subquery over a correlated aggregate", position_of(self.tree))
        source.attach()
        if one_row:
            parts.map(lambda s: substitute(s, zero_counts(source.node)) if pairs else s)
        elif parts.having is not None:
            source.filter(parts.having)
        outputs = parts.select
        if self.tree.args.get("distinct") is not None and not one_row:
            named = [Named(Field(self.env.fresh("value")), s) for s in (*outputs, *keys)]
            source.node = _distinct(Project(source.node, tuple(named)), self.env)
            columns: list[Scalar] = [column(f.id) for f in source.node.fields]
            outputs, keys = columns[: len(outputs)], columns[len(outputs) :]
        links = [p.kind(this=p.outer.copy(), expression=operand(key)) for p, key in zip(pairs, keys, strict=True)]
        return Nested(source.node, tuple(outputs), tuple(links), domain, one_row, parts.having if one_row else None)

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
        if several := group.find(exp.GroupingSets, exp.Rollup, exp.Cube):
            raise UnsupportedError(f"GROUP BY {several.key.upper()} has no incremental form yet", position_of(several))
        if group.args.get("totals"):
            raise UnsupportedError("GROUP BY WITH TOTALS has no incremental form", position_of(group))
        if group.args.get("all"):
            return [s for s in scalars if not contains_aggregate(s)]
        keys: list[Scalar] = []
        for item in group.expressions:
            at = _output_index(item, names)
            if at is not None and (isinstance(item, exp.Literal) or not self.source.scope.can_resolve(item)):
                key = scalars[at]
            else:
                key = self.source.bind(item)
            if contains_aggregate(key):
                raise SqlError("GROUP BY cannot contain an aggregate", position_of(item))
            keys.append(key)
        return keys

    # ------------------------------------------------------------------ output
    def _project(self, names: list[str], scalars: list[Scalar]) -> Node:
        types = {f.id: f.type for f in self.source.node.fields}
        return Project(
            self.source.node,
            tuple(
                Named(Field(self.env.fresh(n), scalar_type(s, types)), s) for n, s in zip(names, scalars, strict=True)
            ),
        )

    def _order_items(self, names: list[str], scalars: list[Scalar]) -> list[tuple[exp.Expr, Scalar]]:
        """ORDER BY of a query that is not the outermost says nothing, unless a LIMIT follows."""
        order = self.tree.args.get("order")
        if limit := self.tree.args.get("limit") or self.tree.args.get("offset"):
            if not self.top:
                raise UnsupportedError("LIMIT inside a query has no incremental form yet", position_of(limit))
            if not order:
                raise NondeterministicError(
                    "LIMIT without ORDER BY picks arbitrary rows", position_of(limit), "add ORDER BY"
                )
        if not order or not self.top:
            return []
        items: list[tuple[exp.Expr, Scalar]] = []
        for item in order.expressions:
            if isinstance(item.this, exp.Column) and item.this.name.upper() == "ALL" and not item.this.table:
                items += [(item, s) for s in scalars]
                continue
            at = _output_index(item.this, names)
            scalar = scalars[at] if at is not None else self.source.bind(self._unalias(item.this, names, scalars))
            items.append((item, scalar))
        return items

    def _top_k(self, node: Node, scalars: list[Scalar], order: list[tuple[exp.Expr, Scalar]], distinct: bool) -> Node:
        if not order:
            return node
        orders: list[Order] = []
        extra: list[Named] = []
        for item, scalar in order:
            at = next((i for i, s in enumerate(scalars) if s == scalar), None)
            if at is not None:
                orders.append(_order(item, column(node.fields[at].id)))
            elif distinct:
                raise SqlError("with DISTINCT, ORDER BY can only use columns of the select list", position_of(item))
            else:
                hidden = Named(Field(self.env.fresh("sort")), scalar)
                extra.append(hidden)
                orders.append(_order(item, column(hidden.field.id)))
        limit, offset = (_count(self.tree.args.get(a)) for a in ("limit", "offset"))
        # Ties: the remaining columns decide, so that equal inputs give equal rows.
        ties = tuple(Order(column(f.id)) for f in node.fields) if limit is not None or offset else ()
        if not extra:
            return TopK(node, (*orders, *ties), limit, offset or 0)
        assert isinstance(node, Project)
        wide = Project(node.input, (*node.outputs, *extra))
        top = TopK(wide, (*orders, *ties), limit, offset or 0)
        return Project(top, tuple(Named(f, column(f.id)) for f in node.fields))


@dataclass(slots=True)
class _Parts:
    """The scalars of a SELECT that are computed after FROM and WHERE."""

    select: list[Scalar]
    having: Scalar | None
    order: list[tuple[exp.Expr, Scalar]]
    keys: list[Scalar]
    """Of GROUP BY."""

    def all(self) -> list[Scalar]:
        having = [self.having] if self.having is not None else []
        return [*self.select, *having, *(s for _, s in self.order)]

    def map(self, rewrite: Callable[[Scalar], Scalar]) -> None:
        self.select = [rewrite(s) for s in self.select]
        self.having = rewrite(self.having) if self.having is not None else None
        self.order = [(item, rewrite(s)) for item, s in self.order]
        self.keys = [rewrite(s) for s in self.keys]


def _count(clause: exp.Expr | None) -> int | None:
    if clause is None:
        return None
    value = clause.expression
    plain = all(not v for k, v in clause.args.items() if k != "expression")  # no PERCENT, no WITH TIES
    if not plain or not isinstance(value, exp.Literal) or value.is_string or not value.name.isdigit():
        raise UnsupportedError(
            "LIMIT and OFFSET other than whole numbers have no incremental form yet", position_of(clause)
        )
    return int(value.name)


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
