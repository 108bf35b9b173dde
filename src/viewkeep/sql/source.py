"""What a SELECT reads: its FROM clause as a plan, the names it makes visible, and scalars bound to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from viewkeep.catalog import Catalog, Kind, Table
from viewkeep.errors import CatalogError, SqlError, UnsupportedError
from viewkeep.plan.nodes import Field, Filter, Fresh, Join, JoinKind, Named, Node, Project, Scan, Values, types_of
from viewkeep.plan.scalars import Scalar, column, conjoin
from viewkeep.sql.aggregates import contains_aggregate
from viewkeep.sql.determinism import check_deterministic
from viewkeep.sql.parse import position_of
from viewkeep.sql.references import definition_of
from viewkeep.sql.scope import Relation, Scope
from viewkeep.sql.statements import table_name

Built = tuple[Node, list[str]]
"""A plan and the user-visible names of its columns."""


@dataclass(frozen=True, slots=True)
class Env:
    """What is the same for a query and its subqueries."""

    build: Callable[[exp.Expr, Env, Scope | None], Built]
    """Plans a nested query."""
    catalog: Catalog
    dialect: str
    fresh: Fresh
    ctes: dict[str, tuple[exp.Expr, tuple[str, ...], Env]] = field(default_factory=dict)
    expanding: tuple[str, ...] = ()
    """Plain views being expanded, to notice a cycle."""

    def with_ctes(self, tree: exp.Expr) -> Env:
        """The same with the CTEs of a query added; each sees those before it."""
        env, with_ = self, tree.args.get("with_")
        if with_ is None:
            return env
        if with_.args.get("recursive"):
            raise UnsupportedError("WITH RECURSIVE has no incremental form", position_of(with_))
        for cte in with_.expressions:
            columns = tuple(c.name for c in cte.args["alias"].args.get("columns") or ())
            env = replace(env, ctes={**env.ctes, cte.alias.lower(): (cte.this, columns, env)})
        return env


_KINDS = {
    ("", ""): JoinKind.INNER,
    ("", "INNER"): JoinKind.INNER,
    ("", "CROSS"): JoinKind.INNER,
    ("LEFT", ""): JoinKind.LEFT,
    ("RIGHT", ""): JoinKind.LEFT,
    ("FULL", ""): JoinKind.FULL,
    ("", "SEMI"): JoinKind.SEMI,
    ("", "ANTI"): JoinKind.ANTI,
    ("LEFT", "SEMI"): JoinKind.SEMI,
    ("LEFT", "ANTI"): JoinKind.ANTI,
}
"""By side and kind as they are written; a right join is a left join with its sides swapped."""


class Source:
    """Grows as the clauses of a SELECT are read: `node` holds all rows so far, `scope` their names."""

    def __init__(self, env: Env, outer: Scope | None) -> None:
        self.env, self.scope = env, Scope(outer=outer)
        self.node: Node = Values(((exp.Literal.number(1),),), (Field("one", "INTEGER"),))  # SELECT without FROM
        self._one_row: list[Node] = []

    def read(self, tree: exp.Select) -> None:
        """FROM and its joins."""
        if from_ := tree.args.get("from_"):
            self.node = self._joined(from_.this)
        for join in tree.args.get("joins") or ():
            self._join(join)

    def _joined(self, tree: exp.Expr) -> Node:
        """A relation with the joins that are written inside its parentheses."""
        in_parentheses = isinstance(tree, exp.Subquery) and isinstance(tree.unnest(), exp.Table)
        if in_parentheses and tree.alias:
            raise UnsupportedError("an alias for a join in parentheses", position_of(tree))
        outside = self.node
        self.node = self._joined(tree.this) if in_parentheses else self._relation(tree)
        for join in tree.args.get("joins") or ():
            self._join(join)
        found, self.node = self.node, outside
        return found

    def _relation(self, tree: exp.Expr) -> Node:
        """One entry of FROM: a table, a CTE, a plain view or a subquery; its columns join the scope."""
        if tree.args.get("pivots") or tree.args.get("sample"):
            raise UnsupportedError("PIVOT and TABLESAMPLE have no incremental form yet", position_of(tree))
        match tree:
            case exp.Table() if isinstance(tree.this, exp.Identifier):
                node, names = self._table(tree)
                alias = tree.alias or tree.name
            case exp.Subquery():
                node, names = self.env.build(tree.this, self.env.with_ctes(tree), self.scope.outer)
                alias = tree.alias or self.env.fresh("subquery")
            case exp.Values():
                node, names = constant_rows(tree, self.env)
                alias = tree.alias or self.env.fresh("values")
            case _:
                what = "table function" if isinstance(tree, exp.Table) else tree.key.upper()
                raise UnsupportedError(f"{what} in FROM has no incremental form yet", position_of(tree))
        table_alias = tree.args.get("alias")
        renamed = [c.name for c in (table_alias.args.get("columns") or ())] if table_alias else []
        if len(renamed) > len(names):
            raise SqlError(f"{alias!r} has {len(names)} columns, not {len(renamed)}", position_of(tree))
        names = [*renamed, *names[len(renamed) :]]
        ids = [f.id for f in node.fields]
        self.scope.add(Relation(alias, tuple(zip(names, ids, strict=True))), tree)
        return node

    def _table(self, tree: exp.Table) -> Built:
        name = table_name(tree)
        if not name.schema and (cte := self.env.ctes.get(name.name.lower())):
            query, renamed, env = cte
            # Built anew for each use: every use has its own column ids, as a self join needs.
            node, names = self.env.build(query, replace(env, expanding=self.env.expanding), None)
            return node, [*renamed, *names[len(renamed) :]]
        try:
            table = self.env.catalog.get(name, position_of(tree))
        except CatalogError as error:
            raise SqlError(error.fact, error.position, error.hint) from None
        if table.kind is Kind.TEMPORARY:
            raise SqlError(
                f"{str(name)!r} is a temporary table, which is gone after this connection",
                position_of(tree),
                "make it a permanent table",
            )
        if table.kind is Kind.PLAIN_VIEW:
            return self._plain_view(table)
        columns = tuple((Field(self.env.fresh(c.name), c.type), c.name) for c in table.columns)
        return Scan(table.name, columns), [c.name for c in table.columns]

    def _plain_view(self, view: Table) -> Built:
        if view.name.folded in self.env.expanding:
            raise SqlError(f"view {str(view.name)!r} is defined over itself")
        tree = definition_of(view, self.env.dialect)
        check_deterministic(tree)
        inner = replace(self.env, ctes={}, expanding=(*self.env.expanding, view.name.folded))
        node, _ = self.env.build(tree, inner, None)
        return node, [c.name for c in view.columns]

    def _join(self, join: exp.Join) -> None:
        side, kind, method = (str(join.args.get(a) or "").upper() for a in ("side", "kind", "method"))
        how = _KINDS.get((side, "" if kind == "OUTER" else kind))
        if how is None or method not in ("", "NATURAL"):
            words = " ".join(w for w in (method, side, kind) if w)
            raise UnsupportedError(f"{words} JOIN has no incremental form yet", position_of(join))
        known, left = len(self.scope.relations), self.node
        right = self._joined(join.this)
        shared = [i.name for i in join.args.get("using") or ()]
        if method == "NATURAL":
            shared = self._common_names(known)
        merging = [self._merging(name, known, join) for name in shared]
        condition: list[Scalar] = [exp.EQ(this=column(a), expression=column(b)) for _, a, b in merging]
        if on := join.args.get("on"):
            condition.append(self.bind(on))
        if how is JoinKind.INNER:
            self.node = Join(left, right)
            for predicate in condition:
                self.filter(predicate)
        elif self._one_row:
            raise UnsupportedError("a subquery in the condition of an outer join", position_of(join))
        elif side == "RIGHT":
            self.node = Join(right, left, conjoin(condition), JoinKind.LEFT)
        else:
            self.node = Join(left, right, conjoin(condition), how)
        if not how.keeps_right:
            del self.scope.relations[known:]  # its columns are not in the result
            return
        for name, a, b in merging:
            self._merge(name, a, b, side)

    def _common_names(self, known: int) -> list[str]:
        left = {n.lower() for r in self.scope.relations[:known] for n, _ in r.columns}
        right = (n for r in self.scope.relations[known:] for n, i in r.columns if i not in self.scope.hidden)
        return [n for n in right if n.lower() in left]

    def _merging(self, name: str, known: int, join: exp.Join) -> tuple[str, str, str]:
        """The two columns that a USING column stands for."""
        scope = self.scope
        lefts, rights = (
            list(dict.fromkeys(scope.shown_as(i) for r in side for i in r.find(name) if i not in scope.hidden))
            for side in (scope.relations[:known], scope.relations[known:])
        )
        if len(lefts) > 1 or len(rights) > 1:
            raise SqlError(f"column {name!r} in USING is ambiguous on one side", position_of(join))
        if not lefts or not rights:
            raise SqlError(f"column {name!r} in USING is not on both sides", position_of(join))
        return name, lefts[0], rights[0]

    def _merge(self, name: str, left: str, right: str, side: str) -> None:
        """One column for both sides: that of the side whose rows are all there, or what either has."""
        merged = {"RIGHT": right}.get(side, left)
        if side == "FULL":
            types = types_of(self.node)
            same = types[left] if types[left] == types[right] else "UNKNOWN"
            either = exp.Coalesce(this=column(left), expressions=[column(right)])
            field = Field(self.env.fresh(name), same)
            passed = tuple(Named(f, column(f.id)) for f in self.node.fields)
            self.node, merged = Project(self.node, (*passed, Named(field, either))), field.id
        self.scope.merge(name, left, right, merged)

    def filter(self, predicate: Scalar) -> None:
        self.attach()
        self.node = Filter(self.node, predicate)

    def attach(self, used: frozenset[str] | None = None) -> None:
        """Pair with the scalar subqueries bound so far, or those of them whose column is used.

        A global aggregate has exactly one row: pairing with it neither drops nor repeats anything.
        """
        for node in list(self._one_row):
            if used is None or node.fields[0].id in used:
                self.node = Join(self.node, node)
                self._one_row.remove(node)

    @property
    def waiting(self) -> frozenset[str]:
        """Columns of scalar subqueries that are not attached yet."""
        return frozenset(node.fields[0].id for node in self._one_row)

    def bind(self, scalar: exp.Expr) -> Scalar:
        """Names → ids; an uncorrelated scalar aggregate subquery → a column of a one-row join."""

        def swap(node: exp.Expr) -> exp.Expr:
            match node:
                case exp.Column() if not node.meta.get("bound"):
                    bound = column(self.scope.resolve(node))
                    bound.meta["bound"] = True
                    return bound
                case exp.Exists():
                    raise UnsupportedError("EXISTS has no incremental form yet", position_of(node))
                case exp.In() if node.args.get("query"):
                    raise UnsupportedError("IN (subquery) has no incremental form yet", position_of(node))
                case exp.Any() | exp.All() if isinstance(node.this, exp.Query):
                    raise UnsupportedError(
                        "ANY and ALL over a subquery have no incremental form yet", position_of(node)
                    )
                case exp.Subquery() | exp.Select():
                    return self._scalar_subquery(node)
            return node

        bound = scalar.copy().transform(swap)
        for node in bound.walk():
            node.meta.pop("bound", None)
        return bound

    def _scalar_subquery(self, tree: exp.Expr) -> Scalar:
        query = tree.unnest() if isinstance(tree, exp.Subquery) else tree
        plain = isinstance(query, exp.Select) and not any(
            query.args.get(a) for a in ("group", "having", "limit", "distinct")
        )
        if not plain or not any(contains_aggregate(e) for e in query.expressions):
            raise UnsupportedError("a scalar subquery that may give no row or several", position_of(query))
        node, names = self.env.build(query, self.env, self.scope)
        if len(names) != 1:
            raise SqlError(f"a scalar subquery gives one column, not {len(names)}", position_of(query))
        self._one_row.append(node)
        bound = column(node.fields[0].id)
        bound.meta["bound"] = True
        return bound


def constant_rows(tree: exp.Values, env: Env) -> Built:
    rows = tuple(tuple(cell.copy() for cell in row.expressions) for row in tree.expressions)
    if any(cell.find(exp.Column, exp.Query) for row in rows for cell in row):
        raise UnsupportedError("VALUES with anything but constants", position_of(tree))
    names = [f"col{i}" for i in range(len(rows[0]))]
    return Values(rows, tuple(Field(env.fresh(n)) for n in names)), names
