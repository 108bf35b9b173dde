"""UNION, INTERSECT and EXCEPT as plans of bags and counts.

Each row of the left side is marked, then both sides are grouped by the whole row. For a row that
stands l times on the left and r times on the right:

    UNION          once                    UNION ALL        l + r times (no grouping)
    INTERSECT      once, if l > 0 and r > 0    INTERSECT ALL    min(l, r) times
    EXCEPT         once, if l > 0 and r = 0    EXCEPT ALL       max(l − r, 0) times

Grouping treats NULLs as equal, as set operations do. So there is nothing new to maintain: counts
are additive, and a repetition is linear.
"""

from __future__ import annotations

from sqlglot import exp

from viewkeep.errors import SqlError, UnsupportedError
from viewkeep.plan.nodes import Aggregate, Field, Filter, Fresh, Named, Node, Project, Repeat, Union
from viewkeep.plan.scalars import Scalar, column, integer
from viewkeep.sql.built import Built, for_each
from viewkeep.sql.parse import position_of


def set_operation(tree: exp.SetOperation, left: Built, right: Built, fresh: Fresh) -> Built:
    if tree.args.get("by_name"):
        left, right = _by_name(tree, left, right, fresh)
    if len(left.names) != len(right.names):
        word = tree.key.upper()
        raise SqlError(f"{word} of {len(left.names)} with {len(right.names)} columns", position_of(tree))
    left, right = _linked_alike(left, right, fresh)
    left_node, right_node = left.node, right.node
    fields = tuple(
        Field(fresh(n), a.type if a.type == b.type else "UNKNOWN")
        for n, a, b in zip(
            (*left.names, *("link" for _ in left.links)), left_node.fields, right_node.fields, strict=True
        )
    )
    once = bool(tree.args.get("distinct"))
    if not isinstance(tree, exp.Union):
        return left.linked_to(_counted(tree, left_node, right_node, fields, once, fresh), right)
    if once:
        left_node, right_node = _without_distinct(left_node), _without_distinct(right_node)
    both = Union((left_node, right_node), fields)
    return left.linked_to(distinct(both, fresh) if once else both, right)


def _linked_alike(left: Built, right: Built, fresh: Fresh) -> tuple[Built, Built]:
    """Both sides with the same links: rows for different values of the query around are different rows."""

    def outer(built: Built) -> list[tuple[type[exp.Expr], Scalar]]:
        return [(type(link), link.this) for link in built.links]

    if outer(left) == outer(right):
        return left, right
    columns = sorted(left.outside | right.outside)
    return for_each(left, columns, fresh), for_each(right, columns, fresh)


def distinct(node: Node, fresh: Fresh) -> Node:
    return Aggregate(node, tuple(Named(Field(fresh(f.id), f.type), column(f.id)) for f in node.fields))


def _without_distinct(node: Node) -> Node:
    """What is made distinct later need not be made so before."""
    if not (isinstance(node, Aggregate) and not node.calls):
        return node
    return Project(node.input, node.keys)


def _by_name(tree: exp.Expr, left: Built, right: Built, fresh: Fresh) -> tuple[Built, Built]:
    """Both sides with all columns that either has, NULL where one has none."""
    if left.links or right.links:
        raise UnsupportedError("BY NAME in a correlated subquery", position_of(tree))
    lowered = {n.lower() for n in left.names}
    names = (*left.names, *(n for n in right.names if n.lower() not in lowered))

    def widen(built: Built) -> Built:
        at = {n.lower(): f for n, f in zip(built.names, built.fields, strict=True)}
        outputs = []
        for name in names:
            found = at.get(name.lower())
            scalar: Scalar = exp.Null() if found is None else column(found.id)
            outputs.append(Named(Field(fresh(name), "UNKNOWN" if found is None else found.type), scalar))
        return Built(Project(built.node, tuple(outputs)), names)

    return widen(left), widen(right)


def _counted(
    tree: exp.SetOperation, left: Node, right: Node, fields: tuple[Field, ...], once: bool, fresh: Fresh
) -> Node:
    mark = Field(fresh("left"), "INTEGER")
    here, absent = integer(1), exp.cast(exp.Null(), "INT")
    both = Union((_marked(left, here, fresh), _marked(right, absent, fresh)), (*fields, mark))
    keys = tuple(Named(Field(fresh(f.id.rsplit("_", 1)[0]), f.type), column(f.id)) for f in fields)
    total = Named(Field(fresh("both"), "BIGINT"), exp.Count(this=exp.Star()))
    lefts = Named(Field(fresh("left"), "BIGINT"), exp.Count(this=column(mark.id)))
    counted = Aggregate(both, keys, (total, lefts))
    on_left = column(lefts.field.id)
    on_right = exp.Sub(this=column(total.field.id), expression=column(lefts.field.id))
    passed = tuple(Named(k.field, column(k.field.id)) for k in keys)
    except_ = isinstance(tree, exp.Except)
    if once:
        other = exp.EQ if except_ else exp.GT
        return Project(Filter(counted, exp.and_(_compare(exp.GT, on_left), _compare(other, on_right))), passed)
    if except_:
        copies: Scalar = exp.Sub(this=on_left, expression=exp.paren(on_right))
    else:
        copies = exp.Least(this=on_left, expressions=[on_right])
    times = Field(fresh("times"), "BIGINT")
    some = Filter(counted, _compare(exp.GT, exp.paren(copies.copy())))
    return Repeat(Project(some, (*passed, Named(times, copies))), times.id)


def _marked(node: Node, mark: Scalar, fresh: Fresh) -> Node:
    passed = tuple(Named(f, column(f.id)) for f in node.fields)
    return Project(node, (*passed, Named(Field(fresh("mark"), "INTEGER"), mark)))


def _compare(operator: type[exp.Expr], scalar: Scalar) -> Scalar:
    return operator(this=scalar, expression=integer(0))
