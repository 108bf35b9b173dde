"""Text → sqlglot trees, with errors that say where."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from viewkeep.errors import Position, SqlError

DIALECTS = ("duckdb", "spark", "postgres")


def check_dialect(dialect: str) -> str:
    if dialect not in DIALECTS:
        raise SqlError(f"unknown dialect {dialect!r}", hint=f"known dialects: {', '.join(DIALECTS)}")
    return dialect


def position_of(node: exp.Expr) -> Position | None:
    """Where a node stands in its text; sqlglot keeps it on identifiers and function names."""
    for candidate in node.walk():
        meta = candidate.meta
        if "line" in meta and "col" in meta:
            width = meta.get("end", 0) - meta.get("start", 0)
            return Position(meta["line"], max(1, meta["col"] - width))
    return None


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a script: its tokens, and the script, so that positions are the user's."""

    script: str
    tokens: tuple[Token, ...]

    @property
    def text(self) -> str:
        return self.script[self.tokens[0].start : self.tokens[-1].end + 1]

    def text_from(self, token: Token) -> str:
        """The statement from a token on, behind blanks that keep it at its place in the script."""
        blank = re.sub(r"[^\n]", " ", self.script[: token.start])
        return blank + self.script[token.start : self.tokens[-1].end + 1]

    def word(self, index: int) -> str:
        return self.tokens[index].text.upper() if index < len(self.tokens) else ""


def split(text: str, dialect: str) -> Iterator[Statement]:
    """The statements of a script; semicolons in strings and comments do not separate.

    >>> [s.text for s in split("SELECT ';'; -- one; two\\nSELECT 2;", "duckdb")]
    ["SELECT ';'", 'SELECT 2']
    """
    try:
        tokens = _tokenizer(check_dialect(dialect)).tokenize(text)
    except TokenError:
        raise SqlError("a string, comment or quoted name is not closed", hint="look for an odd quote") from None
    current: list[Token] = []
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            if current:
                yield Statement(text, tuple(current))
            current = []
        else:
            current.append(token)
    if current:
        yield Statement(text, tuple(current))


class _SparkText(Spark):
    """Since Spark 4, two quotes inside a text are one: to sqlglot they are the end of one text and the next."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = [*Spark.Tokenizer.STRING_ESCAPES, "'", '"']


@functools.cache
def _written_in(dialect: str) -> Dialect:
    return _SparkText() if check_dialect(dialect) == "spark" else Dialect.get_or_raise(dialect)


@functools.cache
def _tokenizer(dialect: str) -> Tokenizer:
    """A tokenizer that also looks inside EXPLAIN and its like, which sqlglot takes for one word and a text."""
    found = _written_in(dialect)
    return type("StatementTokenizer", (found.tokenizer_class,), {"COMMANDS": set()})(dialect=found)  # type: ignore[no-any-return]


def parse_one(text: str, dialect: str) -> exp.Expr:
    """One statement as a tree.

    >>> parse_one("SELECT 1 +", "duckdb")
    Traceback (most recent call last):
    viewkeep.errors.SqlError: syntax error near '+' (line 1, column 10)...
    >>> parse_one("SELECT 'it''s'", "spark").expressions[0].this
    "it's"
    """
    try:
        trees = sqlglot.parse(text, dialect=_written_in(dialect))
    except (ParseError, TokenError) as error:
        details = getattr(error, "errors", None) or [{}]
        first = details[0]
        near = first.get("highlight") or ""
        where = Position(first["line"], max(1, first["col"] - max(0, len(near) - 1))) if first.get("line") else None
        what = f"syntax error near {near!r}" if near else f"syntax error: {str(error).splitlines()[0]}"
        said = (first.get("description") or "").rstrip(".").lower()
        # Which of its classes lacks which argument is sqlglot's matter, not the user's.
        raise SqlError(what, where, "something is missing here" if "<class" in said else said or None) from None
    found = [t for t in trees if t is not None]
    if len(found) != 1:
        raise SqlError(f"expected one statement, found {len(found)}")
    return found[0].transform(_respell)


_AGGREGATES = """
arbitrary arg_max_null arg_max_nulls_last arg_min_null arg_min_nulls_last bitstring_agg combine_aggr decimal_average
entropy favg fsum histogram histogram_exact kahan_sum kurtosis_pop lttb mad mean product reservoir_quantile sem
sum_no_overflow sumkahan variant_group_object some every collect_list collect_set bit_xor_agg count_min_sketch
max_by min_by regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
json_agg jsonb_agg json_object_agg jsonb_object_agg xmlagg range_agg
"""
_UNKNOWN_AGGREGATES = frozenset(_AGGREGATES.split())


def _respell(node: exp.Expr) -> exp.Expr:
    """What sqlglot reads differently from the engines.

    An aggregate that it does not know would pass for a scalar function, and its view would be wrong.
    """
    match node:
        case exp.Anonymous() if node.name.lower() == "count_star":  # how DuckDB prints COUNT(*)
            return exp.Count(this=exp.Star())
        case exp.Anonymous() if node.name.lower() in _UNKNOWN_AGGREGATES:
            return exp.AnonymousAggFunc(this=node.this, expressions=node.expressions)
        case exp.IgnoreNulls() if isinstance(node.this, exp.AnyValue):
            return node.this
        case _:
            return node
