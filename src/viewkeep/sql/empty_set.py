"""The row that an empty grouping set has where there are no rows, for an engine that leaves it out.

    SELECT a, COUNT(*) AS n FROM t GROUP BY ROLLUP (a)
    is short for   SELECT a, COUNT(*) AS n FROM t GROUP BY ROLLUP (a)
                   UNION ALL SELECT NULL AS a, COUNT(*) AS n FROM t HAVING COUNT(*) = 0

Spark has to be told so. Whoever plans the longer text finds the shorter one in it, as it is kept by deltas.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from viewkeep.plan.scalars import integer
from viewkeep.sql.grouping_sets import listed_sets
from viewkeep.sql.meanings import meaning
from viewkeep.sql.ordering import output_index


def total_of(query: exp.Expr) -> exp.Select | None:
    """The row of the empty set, if there are no rows; None where there is no such set, or where the row cannot be told
    from the groups: a window would see it.

    >>> import sqlglot
    >>> total_of(sqlglot.parse_one("SELECT a + 1 AS b, SUM(c), GROUPING(a) AS g FROM t GROUP BY ROLLUP (a)")).sql()
    'SELECT NULL + 1 AS b, SUM(c), CAST(1 AS TINYINT) AS g FROM t HAVING COUNT(*) = 0'
    """
    if not isinstance(query, exp.Select) or (group := query.args.get("group")) is None:
        return None
    sets = listed_sets(group)
    if sets is None or sets.count([]) != 1 or sets == [[]]:  # the empty set alone is no grouping: it has its row
        return None
    having = query.args.get("having")
    parts = [*query.expressions, *([having.this] if having else [])]
    if query.args.get("qualify") or any(p.find(exp.Window, exp.Star) and _sees_rows(p) for p in parts):
        return None
    keys = {key for keys in sets for item in keys for key in _meant(item, query)}
    total = query.copy()
    for clause in ("with_", "distinct", "group", "order", "limit", "offset"):
        total.set(clause, None)
    total.set("expressions", [_named(_without_keys(item, keys), item) for item in query.expressions])
    nothing = exp.EQ(this=exp.Count(this=exp.Star()), expression=integer(0))
    kept = exp.and_(_without_keys(having.this, keys), nothing) if having else nothing
    total.set("having", exp.Having(this=kept))
    return total


def with_total(tree: exp.SetOperation, dialect: str) -> exp.Select | None:
    """The shorter text, where this is the longer one."""
    groups = tree.left
    if not isinstance(groups, exp.Select) or not isinstance(tree, exp.Union) or tree.args.get("distinct"):
        return None
    if meaning(dialect).empty_set_has_row or (total := total_of(groups)) is None:
        return None
    return groups if total.sql(dialect=dialect) == tree.right.sql(dialect=dialect) else None


def _sees_rows(item: exp.Expr) -> bool:
    """A window, or a star that stands for columns."""
    return item.find(exp.Window) is not None or item.is_star


def _meant(item: exp.Expr, query: exp.Select) -> Iterator[exp.Expr]:
    """What a key is called in the query: a number or an alias stands for an output column."""
    at = output_index(item, query.named_selects)
    yield item
    if at is not None:
        yield query.selects[at].unalias()


def _named(value: exp.Expr, item: exp.Expr) -> exp.Expr:
    """Under the name of the column, where it has one."""
    return exp.alias_(value, item.name) if isinstance(item, exp.Column) else value


def _without_keys(item: exp.Expr, keys: set[exp.Expr]) -> exp.Expr:
    """The keys are NULL and GROUPING has all its bits; what aggregates read does not matter."""
    copy = exp.paren(item.copy())  # so that the whole can be replaced, too
    for node in list(copy.walk(prune=lambda n: n in keys or isinstance(n, exp.AggFunc))):
        if isinstance(node, exp.Grouping | exp.GroupingId):
            bits, kind = len(node.expressions) or len(keys), "TINYINT" if isinstance(node, exp.Grouping) else "BIGINT"
            node.replace(exp.cast(integer(2**bits - 1), kind))
        elif node in keys:
            node.replace(exp.Null())
    found = copy.this
    assert isinstance(found, exp.Expr)
    return found
