"""A parsed query → plan, with every name resolved and every column given its own id.

What has no node in the algebra raises UnsupportedError with its reason: the caller recomputes
such a view or refuses it, by policy. What is wrong in itself raises SqlError.
"""

from __future__ import annotations

from sqlglot import exp

from viewkeep.catalog import TYPE_SPELLING, Catalog
from viewkeep.errors import NondeterministicError, SqlError, UnsupportedError
from viewkeep.plan.nodes import Aggregate, Field, Fresh, Named, Node, Order, Project, Query, TopK, Union
from viewkeep.plan.rewrite import normalise, prune
from viewkeep.plan.scalars import Scalar, column, columns_of, is_exact
from viewkeep.sql.aggregates import AggregateCollector, columns_in_aggregates, contains_aggregate
from viewkeep.sql.determinism import check_deterministic
from viewkeep.sql.parse import parse_one, position_of
from viewkeep.sql.scope import Scope
from viewkeep.sql.source import Built, Env, Source, constant_rows


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
    node, names = _query(tree, Env(_query, catalog, dialect, Fresh()), outer=None, top=True)
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
        self._refuse()
        self.source.read(self.tree)
        if where := self.tree.args.get("where"):
            if contains_aggregate(where):
                raise SqlError("WHERE cannot contain an aggregate", position_of(where), "use HAVING")
            self.source.filter(self.source.bind(where.this))
        items = self._select_items()
        names = [name for name, _ in items]
        scalars = [scalar for _, scalar in items]
        having = self.tree.args.get("having")
        having_scalar = self.source.bind(self._unalias(having.this, names, scalars)) if having else None
        order_items = self._order_items(names, scalars)
        if self.tree.args.get("group") or having or any(contains_aggregate(s) for s in scalars):
            scalars, having_scalar, order_items = self._aggregate(names, scalars, having_scalar, order_items)
        self.source.attach()
        if having_scalar is not None:
            self.source.filter(having_scalar)
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
    def _aggregate(
        self, names: list[str], scalars: list[Scalar], having: Scalar | None, order: list[tuple[exp.Expr, Scalar]]
    ) -> tuple[list[Scalar], Scalar | None, list[tuple[exp.Expr, Scalar]]]:
        keys = self._group_keys(self.tree.args.get("group"), names, scalars)
        everything = [*scalars, *(s for _, s in order), *([having] if having is not None else [])]
        # A scalar subquery inside an aggregate or a key is an input of the grouping, any other comes after it.
        self.source.attach(frozenset().union(*(columns_of(k) for k in keys), *map(columns_in_aggregates, everything)))
        collector = AggregateCollector(self.env.fresh, keys, self.source.node, self.source.waiting)
        scalars = [collector.rewrite(s) for s in scalars]
        having = collector.rewrite(having) if having is not None else None
        order = [(item, collector.rewrite(scalar)) for item, scalar in order]
        self.source.node = Aggregate(self.source.node, *collector.finish())
        return scalars, having, order

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
