"""What a SELECT reads: its FROM clause as a plan, the names it makes visible, and scalars bound to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from viewkeep.catalog import Catalog, Kind, Table
from viewkeep.errors import CatalogError, SqlError, UnsupportedError
from viewkeep.plan.conditions import ids_of
from viewkeep.plan.nodes import Field, Filter, Fresh, Join, JoinKind, Named, Node, Project, Scan, Values, types_of
from viewkeep.plan.scalars import Scalar, column, columns_of, conjoin, conjuncts, operand, substitute
from viewkeep.sql.arrays import as_list, query_of
from viewkeep.sql.built import Built
from viewkeep.sql.clock import at_time
from viewkeep.sql.compared import compared, null_rows
from viewkeep.sql.determinism import check_deterministic
from viewkeep.sql.meanings import meaning
from viewkeep.sql.parse import position_of
from viewkeep.sql.pivot import expand
from viewkeep.sql.quantified import is_quantified
from viewkeep.sql.references import definition_of
from viewkeep.sql.scope import Relation, Scope
from viewkeep.sql.series import Series, explode, series_of
from viewkeep.sql.statements import table_name
from viewkeep.sql.subquery import (
    Domain,
    Joined,
    Nested,
    Pending,
    exists_as_value,
    linked,
    presence,
    rows_of,
    value_of,
)


@dataclass(frozen=True, slots=True)
class Cte:
    query: exp.Expr
    columns: tuple[str, ...]
    env: Env
    outer: Scope | None
    """The query around that one that has it in WITH."""


@dataclass(frozen=True, slots=True)
class Env:
    """What is the same for a query and its subqueries."""

    build: Callable[[exp.Expr, Env, Scope | None], Built]
    """Plans a query in FROM."""
    nest: Callable[[exp.Expr, Env, Scope, bool, bool], Nested]
    """Plans a subquery; the flags say whether any predicate may link it, and whether its values matter."""
    catalog: Catalog
    dialect: str
    fresh: Fresh
    ctes: dict[str, Cte] = field(default_factory=dict)
    expanding: tuple[str, ...] = ()
    """Plain views being expanded, to notice a cycle."""

    def with_ctes(self, tree: exp.Expr, outer: Scope | None) -> Env:
        """The same with the CTEs of a query added; each sees those before it."""
        env, with_ = self, tree.args.get("with_")
        if with_ is None:
            return env
        if with_.args.get("recursive"):
            raise UnsupportedError(
                "WITH RECURSIVE has no incremental form: a change may reach any round", position_of(with_)
            )
        for cte in with_.expressions:
            columns = tuple(c.name for c in cte.args["alias"].args.get("columns") or ())
            env = replace(env, ctes={**env.ctes, cte.alias.lower(): Cte(cte.this, columns, env, outer)})
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
        self.env, self.scope = env, Scope(outer=outer, shared_first=meaning(env.dialect).shared_first)
        self.node: Node = Values(((exp.Literal.number(1),),), (Field("one", "INTEGER"),))  # SELECT without FROM
        self.tests: list[Scalar | Pending] = []
        """What WHERE and inner joins ask, not applied yet."""
        self.domains: list[Domain] = []
        """Of queries in FROM."""
        self._waiting: list[Pending] = []

    def read(self, tree: exp.Select) -> None:
        """FROM and its joins."""
        if from_ := tree.args.get("from_"):
            self.node = self._joined(from_.this)
        for join in tree.args.get("joins") or ():
            self._join(join)
        for lateral in tree.args.get("laterals") or ():
            self.node = self._series(self.node, lateral, series_of(lateral))

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
        if tree.args.get("sample"):
            raise UnsupportedError("TABLESAMPLE has no incremental form yet", position_of(tree))
        if pivots := tree.args.get("pivots"):
            tree = self._pivoted(tree, pivots)
        if series := series_of(tree):
            one = Values(((exp.Literal.number(1),),), (Field(self.env.fresh("one"), "INTEGER"),))
            return self._series(one, tree, series)
        match tree:
            case exp.Table() if isinstance(tree.this, exp.Identifier):
                built = self._table(tree)
                alias = tree.alias or tree.name
            case exp.Subquery():
                outer = self.scope.outer
                built = self.env.build(tree.this, self.env.with_ctes(tree, outer), outer)
                alias = tree.alias or self.env.fresh("subquery")
            case exp.Values():
                built = constant_rows(tree, self.env)
                alias = tree.alias or self.env.fresh("values")
            case _:
                what = "table function" if isinstance(tree, exp.Table) else tree.key.upper()
                raise UnsupportedError(f"{what} in FROM has no incremental form yet", position_of(tree))
        table_alias = tree.args.get("alias")
        renamed = [c.name for c in (table_alias.args.get("columns") or ())] if table_alias else []
        if len(renamed) > len(built.names):
            raise SqlError(f"{alias!r} has {len(built.names)} columns, not {len(renamed)}", position_of(tree))
        names = (*renamed, *built.names[len(renamed) :])
        self.scope.add(Relation(alias, tuple((n, f.id) for n, f in zip(names, built.fields, strict=True))), tree)
        self.scope.capture(built.outside)
        self.tests += built.links
        self.domains += built.domains
        return built.node

    def _pivoted(self, tree: exp.Expr, pivots: list[exp.Pivot]) -> exp.Subquery:
        """A relation behind PIVOT or UNPIVOT, as a subquery that gives the same rows."""
        inner = tree.copy()
        inner.set("pivots", None)
        inner.set("joins", None)
        for pivot in pivots:
            outer = self.scope.outer
            names = self.env.build(exp.select("*").from_(inner), self.env.with_ctes(tree, outer), outer).names
            alias = pivot.args.get("alias")
            inner = exp.Subquery(this=expand(pivot, inner, list(names), self.env.dialect), alias=alias)
        assert isinstance(inner, exp.Subquery)
        return inner

    def _joined_series(self, join: exp.Join, how: JoinKind) -> Series | None:
        """What an entry of FROM makes of the rows before it; in a left join those stay of which it makes none."""
        series = series_of(join.this)
        if series is None or how is JoinKind.INNER:
            return series
        asks = join.args.get("side") != "LEFT" or join.args.get("on") != exp.true()
        if how is JoinKind.LEFT and not asks and isinstance(series.call, exp.Explode):
            return replace(series, outer=True)
        return None

    def _series(self, node: Node, tree: exp.Expr, series: Series | None) -> Node:
        """Rows made of the rows so far; their column joins the scope."""
        if series is None:
            raise UnsupportedError(f"{tree.this.key.upper()} in FROM has no incremental form yet", position_of(tree))
        call = self.bind(series.call)
        alias = tree.args.get("alias")
        given = [c.name for c in alias.args.get("columns") or ()] if alias else []
        if len(given) > 1 or columns_of(call) & (self.scope.captured | self.waiting):
            raise UnsupportedError("a series of several columns or of a subquery", position_of(tree))
        if columns_of(call) - types_of(node).keys():
            raise UnsupportedError(f"{series.name.upper()} in FROM beside an outer join", position_of(tree))
        exploded = explode(node, call, series, self.env.fresh)
        named = alias.name if alias and alias.name else series.name
        # The engine names the column after the alias where the function gives but one.
        self.scope.add(Relation(named, ((given[0] if given else named, exploded.fields[-1].id),)), tree)
        return exploded

    def _table(self, tree: exp.Table) -> Built:
        name = table_name(tree)
        if not name.schema and (cte := self.env.ctes.get(name.name.lower())):
            # Built anew for each use: every use has its own column ids, as a self join needs.
            built = self.env.build(cte.query, replace(cte.env, expanding=self.env.expanding), cte.outer)
            return replace(built, names=(*cte.columns, *built.names[len(cte.columns) :]))
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
        return Built(Scan(table.name, columns), tuple(c.name for c in table.columns))

    def _plain_view(self, view: Table) -> Built:
        if view.name.folded in self.env.expanding:
            raise SqlError(f"view {str(view.name)!r} is defined over itself")
        tree = definition_of(view, self.env.dialect)
        check_deterministic(tree)
        inner = replace(self.env, ctes={}, expanding=(*self.env.expanding, view.name.folded))
        return replace(self.env.build(at_time(tree), inner, None), names=tuple(c.name for c in view.columns))

    def _join(self, join: exp.Join) -> None:
        side, kind, method = (str(join.args.get(a) or "").upper() for a in ("side", "kind", "method"))
        how = _KINDS.get((side, "" if kind == "OUTER" else kind))
        if how is None or method not in ("", "NATURAL"):
            words = " ".join(w for w in (method, side, kind) if w)
            raise UnsupportedError(f"{words} JOIN has no incremental form yet", position_of(join))
        if not method and (series := self._joined_series(join, how)):
            self.node = self._series(self.node, join.this, series)
            if how is JoinKind.INNER and (on := join.args.get("on")):
                self._ask([self.bind(on)])
            return
        if isinstance(join.this, exp.Lateral) and isinstance(join.this.this, exp.Subquery):
            self._lateral(join, how)
            return
        known, left, asked = len(self.scope.relations), self.node, len(self.tests)
        right = self._joined(join.this)
        shared = [i.name for i in join.args.get("using") or ()]
        if method == "NATURAL":
            shared = self._common_names(known)
        merging = [self._merging(name, known, join) for name in shared]
        condition: list[Scalar] = [exp.EQ(this=column(a), expression=column(b)) for _, a, b in merging]
        waiting = len(self._waiting)
        if on := join.args.get("on"):
            condition.append(self.bind(on))
        if how is JoinKind.INNER:
            self.node = Join(left, right)
            self._ask(condition)
        else:
            self._refuse_above_nulls(join, condition, len(self.tests) - asked)
            self._waiting, nested = self._waiting[:waiting], self._waiting[waiting:]
            left, right = _beside(nested, left, right, join)
            if side == "RIGHT":
                left, right = right, left
            self.node = Join(left, right, conjoin(condition), how)
        if not how.keeps_right:
            del self.scope.relations[known:]  # its columns are not in the result
            self.scope.merged.update({name.lower(): a for name, a, _ in merging})
            self.scope.lead(shared)
            return
        for name, a, b in merging:
            self._merge(name, a, b, side)
        self.scope.lead(shared)

    def _refuse_above_nulls(self, join: exp.Join, condition: list[Scalar], asked_on_right: int) -> None:
        """What is asked above an outer join would also drop rows that stand beside NULLs."""
        if self.scope.captured & frozenset().union(*map(columns_of, condition)):
            raise UnsupportedError("a column of the query around in the condition of an outer join", position_of(join))
        both = str(join.args.get("side")).upper() in ("RIGHT", "FULL")
        if len(self.tests) if both else asked_on_right:
            raise UnsupportedError("a subquery or an outer reference in a join below an outer join", position_of(join))

    def _lateral(self, join: exp.Join, kind: JoinKind) -> None:
        """A query in FROM that uses columns of what stands before it."""
        tree, on = join.this, join.args.get("on")
        if kind not in (JoinKind.INNER, JoinKind.LEFT) or join.args.get("side") == "RIGHT" or join.args.get("using"):
            raise UnsupportedError("LATERAL other than CROSS, INNER and LEFT JOIN", position_of(join))
        # Pulled predicates leave all rows as they are: too many where they have to be distinct.
        nested = self._nested(tree.this, theta=not tree.this.unnest().args.get("distinct"))
        pending, columns, above = rows_of(nested, kind, self.env.fresh)
        if pending.reads & self.scope.captured:
            raise UnsupportedError("LATERAL with a column of a query further out", position_of(join))
        alias = tree.args["alias"]
        renamed = [c.name for c in alias.args.get("columns") or ()]
        names = [*renamed, *nested.names[len(renamed) :]]
        self.scope.add(Relation(alias.name, tuple((n, c.field.id) for n, c in zip(names, columns, strict=True))), tree)
        waiting = self.waiting
        condition = [self.bind(on)] if on is not None and on != exp.true() else []
        if (
            kind is JoinKind.LEFT
            and condition
            and (self.waiting != waiting or columns_of(condition[0]) & self.scope.captured)
        ):
            raise UnsupportedError("LEFT JOIN LATERAL on a subquery or an outer reference", position_of(join))
        if not above:
            inside = condition if kind is JoinKind.LEFT else []
            self.node = replace(pending, condition=(*pending.condition, *inside)).joined_to(self.node)
        else:
            self._beside_one_row(
                pending, columns, kind, [nested.present] if nested.present is not None else [], condition
            )
        if kind is JoinKind.INNER:
            self._ask(condition)

    def _beside_one_row(
        self,
        pending: Pending,
        columns: tuple[Named, ...],
        kind: JoinKind,
        present: list[Scalar],
        condition: list[Scalar],
    ) -> None:
        """An aggregate without GROUP BY has its row for every row before it, unless its HAVING or, in a left join,
        the condition takes that away."""
        self.node = pending.joined_to(self.node)
        if kind is JoinKind.LEFT:
            values = {c.field.id: c.scalar for c in columns}
            there = conjoin([*present, *(substitute(c, values) for c in condition)])
            if there is not None:
                columns = tuple(
                    Named(c.field, exp.Case(ifs=[exp.If(this=there.copy(), true=c.scalar)])) for c in columns
                )
        elif present:
            self.node = Filter(self.node, present[0])
        passed = tuple(Named(f, column(f.id)) for f in self.node.fields)
        self.node = Project(self.node, (*passed, *columns))

    def _common_names(self, known: int) -> list[str]:
        left, right = (
            {n.lower(): n for r in side for n, i in r.columns if i not in self.scope.hidden}
            for side in (self.scope.relations[:known], self.scope.relations[known:])
        )
        return [n for folded, n in left.items() if folded in right]

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

    # ------------------------------------------------------------------ predicates
    def where(self, tree: exp.Expr) -> None:
        """Remember what a WHERE clause asks; subqueries that it asks directly become semi and anti joins."""
        for part in conjuncts(tree):
            self.tests += self._tests(part)

    def _ask(self, predicates: list[Scalar]) -> None:
        """Apply what can be applied at once."""
        for predicate in predicates:
            if columns_of(predicate) & (self.waiting | self.scope.captured):
                self.tests.append(predicate)
            else:
                self.node = Filter(self.node, predicate)

    def settle(self) -> None:
        """Apply what was asked so far: plain predicates first, which make the rest smaller."""
        tests, self.tests = self.tests, []
        later: list[Scalar] = []
        joins: list[Pending] = []
        for test in tests:
            if isinstance(test, Pending):
                joins.append(test)
            elif columns_of(test) & self.waiting:
                later.append(test)
            else:
                self.node = Filter(self.node, test)
        self.attach(frozenset().union(*map(columns_of, later)), JoinKind.INNER)
        for join in joins:
            self.node = join.joined_to(self.node)
        for test in later:
            self.filter(test)

    def filter(self, predicate: Scalar) -> None:
        self.attach(columns_of(predicate))
        self.node = Filter(self.node, predicate)

    def attach(self, used: frozenset[str] | None = None, kind: JoinKind | None = None) -> None:
        """Join the subqueries bound so far, or those of them whose columns are used, but for those that are linked to
        a window call: they come above the window.

        One row for all comes first: a change of it meets every row, and nothing else should have to be
        computed for that.
        """
        for pending in sorted(self._waiting, key=lambda p: p.kind is not JoinKind.INNER):
            wanted = (used is None or pending.ids & used) and (kind is None or pending.kind is kind)
            if wanted and not pending.above_windows:
                self.node = pending.joined_to(self.node)
                self._waiting.remove(pending)

    @property
    def waiting(self) -> frozenset[str]:
        """Columns of subqueries that are not attached yet."""
        return frozenset().union(*(p.ids for p in self._waiting))

    @property
    def links(self) -> frozenset[str]:
        """Columns that subqueries wait for."""
        pending = [*self._waiting, *(t for t in self.tests if isinstance(t, Pending))]
        return frozenset().union(*(p.reads for p in pending))

    def rewrite_waiting(self, rewrite: Callable[[Scalar], Scalar]) -> None:
        """Let subqueries that are not attached yet refer to other columns."""
        self._waiting = [p.rewritten(rewrite) for p in self._waiting]

    def rewrite_tests(self, rewrite: Callable[[Scalar], Scalar]) -> None:
        self.tests = [t.rewritten(rewrite) if isinstance(t, Pending) else rewrite(t) for t in self.tests]

    # ------------------------------------------------------------------ scalars
    def bind(self, scalar: exp.Expr) -> Scalar:
        """Names → ids; a subquery → a scalar over the columns of a join that waits to be attached."""

        def swap(node: exp.Expr) -> exp.Expr:
            match node:
                case exp.Column() if not node.meta.get("bound"):
                    return self._column(node)
                case exp.Exists():
                    return self._wait(exists_as_value(self._nested(node.this, values=False), self.env.fresh))
                case exp.In() if node.args.get("query"):
                    return self._compared(node.this, node.args["query"])
                case exp.NEQ(expression=exp.All(this=exp.Query() as query)):
                    return exp.Not(this=self._compared(node.this, query))
                case exp.Binary() if is_quantified(node):
                    every = isinstance(node.expression, exp.All)
                    return self._compared(node.this, node.expression.this, type(node), every)
                case exp.Array() if (listed := query_of(node)) is not None:
                    return self.bind(as_list(listed))
                case exp.Subquery() | exp.Select():
                    nested = self._nested(node)
                    self._one_column(nested, node)
                    return self._wait(value_of(nested, self.env.fresh))
            return node

        bound = scalar.copy().transform(swap)
        for node in bound.walk():
            node.meta.pop("bound", None)
        return bound

    def _column(self, named: exp.Column) -> Scalar:
        """The id of a column; fields of a struct are taken out of it by name."""
        owner, fields = self.scope.with_fields(named)
        found: Scalar = column(self.scope.resolve(owner))
        found.meta["bound"] = True
        for part in fields:
            found = exp.Bracket(this=found, expressions=[exp.Literal.string(part.name)])
        return found

    def _wait(self, joined: Joined) -> Scalar:
        pending, scalar = joined
        self._waiting += pending
        return operand(scalar)

    def _compared(
        self, wanted: exp.Expr, query: exp.Expr, comparison: type[exp.Binary] = exp.EQ, every: bool = False
    ) -> Scalar:
        nested = self._nested(query)
        values = [self.bind(w) for w in (wanted.expressions if isinstance(wanted, exp.Tuple) else [wanted])]
        self._as_many(values, nested, query)
        if len(values) > 1 and comparison is not exp.EQ:
            raise UnsupportedError("ANY and ALL over several columns, but for = and <> ALL", position_of(wanted))
        return self._wait(compared(values, nested, self.env.fresh, comparison, every))

    def _as_many(self, values: list[Scalar], nested: Nested, tree: exp.Expr) -> None:
        if len(values) != len(nested.outputs):
            raise SqlError(f"a row of {len(values)} is compared with one of {len(nested.outputs)}", position_of(tree))

    def _one_column(self, nested: Nested, tree: exp.Expr) -> None:
        if len(nested.outputs) != 1:
            raise SqlError(f"a subquery here gives one column, not {len(nested.outputs)}", position_of(tree))

    def _nested(self, tree: exp.Expr, theta: bool = False, values: bool = True) -> Nested:
        query = tree.unnest() if isinstance(tree, exp.Subquery) else tree
        return self.env.nest(query, self.env.with_ctes(tree, self.scope), self.scope, theta, values)

    # ------------------------------------------------------------------ subqueries that a WHERE clause asks directly
    def _tests(self, part: Scalar) -> list[Scalar | Pending]:
        inner, negated = part, False
        while isinstance(inner, exp.Not | exp.Paren):
            negated ^= isinstance(inner, exp.Not)
            inner = inner.this
        match inner:
            case exp.Exists():
                return self._exists_tests(inner.this, negated)
            case exp.In() if inner.args.get("query"):
                return self._in_tests(inner.this, inner.args["query"], negated)
            case exp.EQ(expression=exp.Any(this=exp.Query() as query)):
                return self._in_tests(inner.this, query, negated)
            case exp.NEQ(expression=exp.All(this=exp.Query() as query)):
                return self._in_tests(inner.this, query, not negated)
            case exp.Binary() if is_quantified(inner) and not isinstance(inner.this, exp.Tuple):
                return self._comparing_tests(inner, negated)
            case _:
                return [self.bind(part)]

    def _exists_tests(self, query: exp.Expr, negated: bool) -> list[Scalar | Pending]:
        nested = self._nested(query, theta=True, values=False)
        if nested.one_row:
            there = self._wait(presence(nested))
            return [exp.Not(this=there) if negated else there]
        return [linked(nested, JoinKind.ANTI if negated else JoinKind.SEMI)]

    def _in_tests(self, wanted: exp.Expr, query: exp.Expr, negated: bool) -> list[Scalar | Pending]:
        nested = self._nested(query, theta=not negated)
        parts = [self.bind(w) for w in (wanted.expressions if isinstance(wanted, exp.Tuple) else [wanted])]
        self._as_many(parts, nested, query)
        if nested.one_row:
            same = self._wait(compared(parts, nested, self.env.fresh))
            return [exp.Not(this=same) if negated else same]
        equal = [exp.EQ(this=operand(w), expression=operand(o)) for w, o in zip(parts, nested.outputs, strict=True)]
        if not negated:
            return [linked(nested, JoinKind.SEMI, *equal)]
        if len(parts) > 1:
            # Not certainly different from any row: what compares as NULL is not.
            return [linked(nested, JoinKind.ANTI, _unless_false(exp.and_(*equal)))]
        nulls, some, has_null = null_rows(nested, self.env.fresh)
        self._waiting.append(nulls)
        known = exp.Not(this=exp.Is(this=operand(parts[0]), expression=exp.Null()))
        fits = exp.or_(exp.Not(this=some), exp.and_(known, exp.Not(this=has_null)))
        return [linked(nested, JoinKind.ANTI, *equal), fits]

    def _comparing_tests(self, comparison: exp.Binary, negated: bool) -> list[Scalar | Pending]:
        """x > ANY (…): some row for which it is true. x > ALL (…): no row for which it is not."""
        quantified = comparison.expression
        nested = self._nested(quantified.this, theta=True)
        wanted, every = self.bind(comparison.this), isinstance(quantified, exp.All)
        self._as_many([wanted], nested, quantified.this)
        if nested.one_row:
            value = self._wait(compared([wanted], nested, self.env.fresh, type(comparison), every))
            return [exp.Not(this=value) if negated else value]
        holds = type(comparison)(this=operand(wanted), expression=operand(nested.outputs[0]))
        if every:
            fails = exp.Not(this=exp.paren(holds))
            kind, asked = (JoinKind.SEMI, fails) if negated else (JoinKind.ANTI, _unless_false(fails))
        else:
            kind, asked = (JoinKind.ANTI, _unless_false(holds)) if negated else (JoinKind.SEMI, holds)
        return [linked(nested, kind, asked)]


def _beside(nested: list[Pending], left: Node, right: Node, join: exp.Join) -> tuple[Node, Node]:
    """The sides of an outer join with what its condition asks of subqueries, as values: no row comes or goes by it."""
    for pending in nested:
        if pending.reads <= ids_of(right):
            right = pending.joined_to(right)
        elif pending.reads <= ids_of(left):
            left = pending.joined_to(left)
        else:
            what = "a subquery over columns of both sides, or of a query around, in the condition of an outer join"
            raise UnsupportedError(what, position_of(join))
    return left, right


def _unless_false(predicate: Scalar) -> Scalar:
    """True also where the predicate is NULL."""
    return exp.Coalesce(this=predicate, expressions=[exp.true()])


def constant_rows(tree: exp.Values, env: Env) -> Built:
    rows = tuple(tuple(cell.copy() for cell in row.expressions) for row in tree.expressions)
    if any(cell.find(exp.Column, exp.Query) for row in rows for cell in row):
        raise UnsupportedError("VALUES with anything but constants", position_of(tree))
    names = tuple(f"col{i}" for i in range(len(rows[0])))
    return Built(Values(rows, tuple(Field(env.fresh(n)) for n in names)), names)
