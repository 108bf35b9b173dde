"""What a dialect cannot say, in words that it has. A rule answers None for "not my case"; `RULES` lists them all.

    SELECT a FROM t ORDER BY b FETCH FIRST 3 ROWS WITH TIES
    becomes   SELECT a FROM t QUALIFY RANK() OVER (ORDER BY b) <= 3 ORDER BY b

    SELECT DISTINCT ON (k) k, a FROM t ORDER BY k, b LIMIT 3
    becomes   SELECT k, a FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY k, b) = 1 ORDER BY k, b LIMIT 3

    SELECT * FROM t QUALIFY RANK() OVER (ORDER BY b) = 1 ORDER BY a LIMIT 3
    becomes   SELECT * EXCEPT (kept) FROM (SELECT *, RANK() OVER (ORDER BY b) = 1 AS kept FROM t) WHERE kept
              ORDER BY a LIMIT 3

    SELECT a FROM t WHERE a > ANY (SELECT b FROM u)
    becomes   SELECT a FROM t WHERE EXISTS (SELECT 1 FROM (SELECT b FROM u) AS rows(value) WHERE a > rows.value)

    SELECT (SELECT a FROM t WHERE t.k = u.k ORDER BY b LIMIT 1) AS x FROM u
    becomes   SELECT (SELECT * EXCEPT (seen) FROM (SELECT a, b AS seen FROM t WHERE t.k = u.k ORDER BY seen LIMIT 1)) …

Whatever a user wrote goes through here before it is text again, see docs/decisions/028.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator

from sqlglot import exp
from sqlglot.errors import ErrorLevel
from sqlglot.errors import UnsupportedError as UnsupportedInDialect

from viewkeep.errors import SqlError
from viewkeep.plan.scalars import integer
from viewkeep.sql.empty_set import total_of
from viewkeep.sql.functions import respelled
from viewkeep.sql.meanings import Meaning, meaning
from viewkeep.sql.ordering import by_all, cut_of, output_index
from viewkeep.sql.parse import parse_one, position_of
from viewkeep.sql.quantified import as_test, as_value, is_quantified
from viewkeep.sql.spark_aggregates import spell_aggregates

Rule = Callable[[exp.Query], exp.Query | None]
_WITH_TIES = re.compile(r"\bWITH\s+TIES\b", re.IGNORECASE)


def to_dialect(text: str, written: str, wanted: str) -> str:
    """A statement in another dialect; left to the letter where it is already in words that it has.

    >>> to_dialect("SELECT SUM(a) OVER (ORDER BY a RANGE CURRENT ROW EXCLUDE TIES) FROM t", "duckdb", "spark")
    Traceback (most recent call last):
    viewkeep.errors.SqlError: spark has no words for this: exclude clause is not supported in the window clause...
    """
    if written == wanted and (meaning(wanted).has_with_ties or not _WITH_TIES.search(text)):
        return text
    tree = reworded(parse_one(text, written), wanted)
    if meaning(written).empty_set_has_row and not meaning(wanted).empty_set_has_row:
        tree = _each_query(tree, empty_set_with_row)
    tree = respelled(tree, written, wanted)
    try:
        return tree.sql(dialect=wanted, unsupported_level=ErrorLevel.RAISE, copy=False)
    except UnsupportedInDialect as error:
        said = str(error).splitlines()[0].lower()
        raise SqlError(f"{wanted} has no words for this: {said}", hint=f"write it in the dialect {wanted!r}") from None


def text_of(tree: exp.Expr, dialect: str) -> str:
    """A statement of a user, as text."""
    return reworded(tree, dialect).sql(dialect=dialect, copy=False)


def reworded(tree: exp.Expr, dialect: str) -> exp.Expr:
    """A copy of a statement of a user, all its queries in words of the dialect."""
    tree = tree.copy()
    for has_words, rule in RULES:
        if not has_words(meaning(dialect)):
            tree = _each_query(tree, rule)
    if not meaning(dialect).orders_aggregates:
        spell_aggregates(tree, exact=True)
    return tree


def _each_query(tree: exp.Expr, rule: Rule) -> exp.Expr:
    """The innermost first: they are parts of those around them."""
    for query in reversed(list(tree.find_all(exp.Query))):
        if (found := rule(query)) is not None:
            tree = found if query is tree else tree
            query.replace(found)
    return tree


def ties_as_ranks(query: exp.Query) -> exp.Query | None:
    limit, order = query.args.get("limit"), query.args.get("order")
    if not isinstance(limit, exp.Fetch) or not (cut := cut_of(query)).with_ties:
        return None
    if order is None:
        raise SqlError("WITH TIES needs ORDER BY", position_of(limit), "say which rows are the first")
    if isinstance(query, exp.Select) and not query.args.get("distinct") and not query.args.get("qualify"):
        changed = query.copy()
        by = list(_sorted(query, order.expressions, lambda at: query.selects[at].unalias()))
    else:  # what is cut is the result as a whole
        rows, last = _apart(query, ("with_", "order", "limit", "offset"))
        changed = _around(rows, "cut", last)
        by = list(_sorted(query, order.expressions, lambda at: exp.column(query.named_selects[at])))
    changed.set("limit", None)
    changed.set("offset", None)
    kept: exp.Expr = exp.LTE(this=_numbered(exp.Rank(), by), expression=integer(cut.offset + (cut.limit or 0)))
    if cut.offset:
        kept = exp.and_(kept, exp.GT(this=_numbered(exp.RowNumber(), by), expression=integer(cut.offset)))
    changed.set("qualify", exp.Qualify(this=kept))
    return changed


def distinct_on_as_number(query: exp.Query) -> exp.Query | None:
    distinct = query.args.get("distinct")
    if not isinstance(query, exp.Select) or not isinstance(distinct, exp.Distinct) or not distinct.args.get("on"):
        return None
    on, order, changed = distinct.args["on"], query.args.get("order"), query.copy()
    keys = on.expressions if isinstance(on, exp.Tuple) else [on.unnest()]
    by = list(_sorted(query, order.expressions if order else (), lambda at: query.selects[at].unalias()))
    number = _numbered(exp.RowNumber(), by or [exp.Ordered(this=k.copy()) for k in keys], keys)
    first = exp.EQ(this=number, expression=integer(1))
    if qualify := query.args.get("qualify"):
        raise SqlError("DISTINCT ON cannot be reworded beside QUALIFY", position_of(qualify), "use a subquery for one")
    changed.set("distinct", None)
    changed.set("qualify", exp.Qualify(this=first))
    return changed


def qualify_as_filter(query: exp.Query) -> exp.Query | None:
    """Whether a row stays is a column of it. What sqlglot makes of QUALIFY is cut by LIMIT before it is filtered."""
    qualify = query.args.get("qualify")
    if qualify is None or not isinstance(query, exp.Select):
        return None
    rows, last = _apart(query)
    rows.set("qualify", None)
    hidden = [exp.alias_(_without_windows_by_name(qualify.this, query), _KEPT), *_hidden_order(last, query)]
    return _around(_beside(rows, hidden), "kept", last, _all_but(hidden)).where(exp.column(_KEPT), copy=False)


_KEPT = "_vk_kept"


def hidden_order_shown(query: exp.Query) -> exp.Query | None:
    """The first rows by what is not shown. Spark forgets that order where the query is correlated."""
    cut = query.args.get("limit") or query.args.get("offset")
    if not isinstance(query, exp.Select) or query.parent is None or cut is None:
        return None
    rows, last = _apart(query, ("with_", "order", "limit", "offset"))
    if not (hidden := _hidden_order(last, query)):
        return None
    for clause in ("order", "limit", "offset"):
        rows.set(clause, last.pop(clause, None))
    return _around(_beside(rows, hidden), "cut", last, _all_but(hidden))


def _hidden_order(last: dict[str, exp.Expr], query: exp.Select) -> list[exp.Expr]:
    """What a query is ordered by and does not show, as columns of it; in ORDER BY stand their names, or those shown."""
    hidden: list[exp.Expr] = []
    for number, item in enumerate(last["order"].expressions if "order" in last else ()):
        if (name := _output_name(item, query)) is not None:
            item.set("this", name)
        elif not isinstance(item.this, exp.Literal) and not by_all(item):
            hidden.append(exp.alias_(item.this.copy(), f"_vk_by_{number}"))
            item.set("this", exp.column(f"_vk_by_{number}"))
    return hidden


def _beside(rows: exp.Query, columns: Iterable[exp.Expr]) -> exp.Query:
    for column in columns:
        rows.append("expressions", column)
    return rows


def _all_but(columns: Iterable[exp.Expr]) -> exp.Star:
    return exp.Star(except_=[exp.to_identifier(c.alias) for c in columns])


def _output_name(item: exp.Expr, query: exp.Select) -> exp.Expr | None:
    """The output column that an item of ORDER BY is, by its name or by what it computes."""
    for output in query.selects:
        if output.alias_or_name != "*" and item.this in (output.unalias(), exp.column(output.alias_or_name)):
            return exp.column(exp.to_identifier(output.alias_or_name))
    return None


def _without_windows_by_name(predicate: exp.Expr, query: exp.Select) -> exp.Expr:
    """Windows that are named as output columns, written out: Spark lets no column use them beside groups."""
    windows = {o.alias.lower(): o.unalias() for o in query.selects if o.alias and o.find(exp.Window)}

    def written_out(node: exp.Expr) -> exp.Expr:
        known = windows.get(node.name.lower()) if isinstance(node, exp.Column) and not node.table else None
        return node if known is None else exp.paren(known)

    return predicate.transform(written_out)


def grouping_of_each(query: exp.Query) -> exp.Query | None:
    """GROUPING of several keys is one bit for each, the first one highest."""
    changed = query.copy()
    calls = [c for c in changed.find_all(exp.Grouping) if len(c.expressions) > 1]
    for call in calls:
        bits = [exp.cast(exp.Grouping(expressions=[key.copy()]), "BIGINT") for key in reversed(call.expressions)]
        told: list[exp.Expr] = [
            exp.Mul(this=bit, expression=integer(2**at)) if at else bit for at, bit in enumerate(bits)
        ]
        call.replace(exp.paren(functools.reduce(lambda a, b: exp.Add(this=a, expression=b), reversed(told))))
    return changed if calls else None


def quantified_as_exists(query: exp.Query) -> exp.Query | None:
    """x > ANY (…), x > ALL (…): whether there is a row for which it holds, or does not."""
    changed = query.copy()
    comparisons = [c for c in changed.find_all(exp.Binary) if is_quantified(c)]
    for comparison in comparisons:
        if comparison.this.find(exp.AggFunc, exp.Window):
            said, hint = "ANY and ALL over an aggregate or a window function", "compute its value in a query in FROM"
            raise SqlError(f"{said} cannot be said in this dialect", position_of(comparison), hint)
        asked = _asked_by_where(comparison)
        comparison.replace(as_test(comparison) if asked else exp.paren(as_value(comparison), copy=False))
    return changed if comparisons else None


def _asked_by_where(node: exp.Expr) -> bool:
    """Whether rows stay where it holds, and go where it is NULL or false."""
    around = node.parent
    while isinstance(around, exp.And | exp.Paren):
        around = around.parent
    return isinstance(around, exp.Where)


def empty_set_with_row(query: exp.Query) -> exp.Query | None:
    """For a text of a dialect in which an empty grouping set has a row even where there are no rows."""
    if not isinstance(query, exp.Select) or (total := total_of(query)) is None:
        return None
    rows, last = _apart(query)
    if _hidden_order(last, query):
        return None
    return _around(exp.Union(this=rows, expression=total, distinct=False), "grouped", last)


RULES: tuple[tuple[Callable[[Meaning], bool], Rule], ...] = (
    (lambda m: m.has_with_ties, ties_as_ranks),
    (lambda m: m.has_distinct_on, distinct_on_as_number),
    (lambda m: m.groups_several, grouping_of_each),
    (lambda m: m.has_quantifiers, quantified_as_exists),
    (lambda m: m.has_qualify, qualify_as_filter),  # after those that write QUALIFY
    (lambda m: m.keeps_hidden_order, hidden_order_shown),
)


_LAST = ("with_", "distinct", "order", "limit", "offset")
"""What a query does with the rows that are left."""


def _apart(query: exp.Query, clauses: Iterable[str] = _LAST) -> tuple[exp.Query, dict[str, exp.Expr]]:
    """A query without its last clauses, and these."""
    rows = query.copy()
    last = {clause: rows.args[clause] for clause in clauses if rows.args.get(clause)}
    for clause in last:
        rows.set(clause, None)
    return rows, last


def _around(rows: exp.Query, name: str, last: dict[str, exp.Expr], seen: exp.Expr | None = None) -> exp.Select:
    """A query that does nothing but what is done last."""
    inner = rows.unnest()
    assert isinstance(inner, exp.Query)
    whole = exp.select(seen or exp.Star()).from_(inner.subquery(name, copy=False))
    for clause, what in last.items():
        whole.set(clause, what)
    return whole


def _sorted(query: exp.Query, items: Iterable[exp.Expr], output: Callable[[int], exp.Expr]) -> Iterator[exp.Expr]:
    """What a window is ordered by: in it, numbers and aliases do not stand for output columns."""
    names = query.named_selects
    for item in items:
        if "*" in names and (by_all(item) or isinstance(item.this, exp.Literal)):
            raise SqlError("ORDER BY means a column of * by its number", position_of(item), "name it")
        for at in range(len(names)) if by_all(item) else [output_index(item.this, names)]:
            sorted_by = item.copy()
            if at is not None:
                sorted_by.set("this", output(at).copy())
            yield sorted_by


def _numbered(function: exp.Expr, by: Iterable[exp.Expr], of: Iterable[exp.Expr] = ()) -> exp.Expr:
    """`function OVER (PARTITION BY of ORDER BY by)`"""
    order = exp.Order(expressions=[item.copy() for item in by])
    return exp.Window(this=function, partition_by=[key.copy() for key in of], order=order)
