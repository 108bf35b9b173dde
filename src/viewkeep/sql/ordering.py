"""ORDER BY, LIMIT, OFFSET and FETCH: which rows of a finished result stay, and in which order."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from viewkeep.errors import NondeterministicError, SqlError, UnsupportedError
from viewkeep.plan.nodes import Field, Filter, Fresh, Named, Node, Order, Project, TopK, Window
from viewkeep.plan.scalars import Scalar, column, conjoin, integer
from viewkeep.sql.parse import position_of


@dataclass(frozen=True, slots=True)
class Cut:
    """How many rows stay."""

    limit: int | None = None
    offset: int = 0
    with_ties: bool = False

    @property
    def keeps_all(self) -> bool:
        return self.limit is None and not self.offset

    @property
    def keeps_one(self) -> bool:
        return self.limit == 1 and not self.with_ties

    @property
    def keeps_one_of_one(self) -> bool:
        return self.limit != 0 and not self.offset


def cut_of(tree: exp.Expr) -> Cut:
    limit, offset = tree.args.get("limit"), tree.args.get("offset")
    if not isinstance(limit, exp.Fetch):
        return Cut(_number(limit, "expression"), _number(offset, "expression") or 0)
    options = limit.args.get("limit_options")
    with_ties = options is not None and bool(options.args.get("with_ties"))
    return Cut(_number(limit, "count"), _number(offset, "expression") or 0, with_ties)


def refuse_arbitrary(tree: exp.Expr, one_row: bool) -> None:
    """LIMIT without ORDER BY, unless it cuts nothing: a first row or more of a result that has but one."""
    found = tree.args.get("limit") or tree.args.get("offset")
    if found is None or tree.args.get("order"):
        return
    if not (one_row and cut_of(tree).keeps_one_of_one):
        raise NondeterministicError("LIMIT without ORDER BY picks arbitrary rows", position_of(found), "add ORDER BY")


def _number(clause: exp.Expr | None, where: str) -> int | None:
    if clause is None:
        return None
    value, options = clause.args.get(where), clause.args.get("limit_options")
    percent = options is not None and options.args.get("percent")
    if percent or not isinstance(value, exp.Literal) or value.is_string or not value.name.isdigit():
        raise UnsupportedError(
            "LIMIT and OFFSET other than whole numbers have no incremental form yet", position_of(clause)
        )
    return int(value.name)


def without_limit(tree: exp.Select) -> exp.Select:
    """A query that is only asked whether it has a row: a limit of one or more says nothing."""
    limit = tree.args.get("limit")
    value = limit.args.get("expression") if limit is not None else None
    if tree.args.get("offset") or not isinstance(value, exp.Literal) or value.name == "0":
        return tree
    tree = tree.copy()
    tree.set("limit", None)
    return tree


def order_of(item: exp.Expr, scalar: Scalar) -> Order:
    return Order(scalar, bool(item.args.get("desc")), bool(item.args.get("nulls_first")))


def by_all(item: exp.Expr) -> bool:
    """ORDER BY ALL: every output column, from left to right."""
    return isinstance(item.this, exp.Var) and item.this.name.upper() == "ALL"


def output_index(scalar: exp.Expr, names: list[str]) -> int | None:
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


def arrange(
    node: Node, orders: list[Order], cut: Cut, visible: tuple[Field, ...], fresh: Fresh, by: tuple[Scalar, ...] = ()
) -> Node:
    """The rows in order, cut for each value of `by`. Ties: the visible columns decide, so that equal inputs give
    equal rows."""
    ties = () if cut.keeps_all or cut.with_ties else tuple(Order(column(f.id)) for f in visible)
    if by:
        return first_of_each(node, by, [*orders, *ties], cut, fresh)
    if cut.with_ties:
        return TopK(first_of_each(node, (), orders, cut, fresh), tuple(orders))
    return TopK(node, (*orders, *ties), cut.limit, cut.offset)


def first_of_each(node: Node, by: tuple[Scalar, ...], orders: list[Order], cut: Cut, fresh: Fresh) -> Node:
    """The rows that a cut leaves for each value of `by`: by their numbers, and WITH TIES by their ranks."""
    calls: list[Named] = []

    def numbered(name: str, function: Scalar) -> Scalar:
        calls.append(Named(Field(fresh(name), "BIGINT"), over(function, by, orders)))
        return column(calls[-1].field.id)

    kept: list[Scalar] = []
    if cut.limit is not None:
        at = numbered("rank", exp.Rank()) if cut.with_ties else numbered("row_number", exp.RowNumber())
        kept.append(exp.LTE(this=at, expression=integer(cut.offset + cut.limit)))
    if cut.offset:
        at = numbered("row_number", exp.RowNumber()) if cut.with_ties or not calls else column(calls[0].field.id)
        kept.append(exp.GT(this=at, expression=integer(cut.offset)))
    predicate = conjoin(kept)
    assert predicate is not None
    return Project(
        Filter(Window(node, by, tuple(calls)), predicate), tuple(Named(f, column(f.id)) for f in node.fields)
    )


def over(function: Scalar, partition: tuple[Scalar, ...], orders: list[Order]) -> Scalar:
    """`function OVER (PARTITION BY … ORDER BY …)`"""
    ordered = [exp.Ordered(this=o.scalar.copy(), desc=o.descending, nulls_first=o.nulls_first) for o in orders]
    return exp.Window(
        this=function,
        partition_by=[p.copy() for p in partition],
        order=exp.Order(expressions=ordered) if ordered else None,
    )
