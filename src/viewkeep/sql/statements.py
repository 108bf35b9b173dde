"""viewkeep's own statements, recognised by their first words; everything else is the engine's.

CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [WITH (option = 'value', …)] AS query
REFRESH MATERIALIZED VIEW name [FULL]
DROP MATERIALIZED VIEW [IF EXISTS] name
EXPLAIN MATERIALIZED VIEW name      EXPLAIN CREATE MATERIALIZED VIEW …
ALTER TABLE child ADD [CONSTRAINT …] FOREIGN KEY (…) REFERENCES parent (…) [RELY | NOT ENFORCED | ENFORCED]
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from viewkeep.catalog import TableName, Trust
from viewkeep.errors import Position, SqlError, nearest
from viewkeep.sql.parse import Statement, parse_one

OPTIONS: dict[str, tuple[str, ...]] = {
    "refresh": ("manual", "on_read", "on_change"),
    "policy": ("auto", "incremental", "strict", "full"),
    "strategy": ("auto", "classical", "foreign-key", "foreign-key-materialized", "recompute"),
    "changes": ("keep", "none"),
}
LATER = {"strategy": ("viewlet", "join-graph")}
"""Values that the interface names and a later version will bring: refused with that reason."""


@dataclass(frozen=True, slots=True)
class CreateView:
    name: TableName
    query: str
    """Behind blanks that keep it at its place in the script, so that errors in it have the right position."""
    options: dict[str, str] = field(default_factory=dict)
    replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class RefreshView:
    name: TableName
    full: bool = False


@dataclass(frozen=True, slots=True)
class DropView:
    name: TableName
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ExplainView:
    name: TableName


@dataclass(frozen=True, slots=True)
class ExplainCreate:
    create: CreateView


@dataclass(frozen=True, slots=True)
class DeclareForeignKey:
    child: TableName
    columns: tuple[str, ...]
    parent: TableName
    parent_columns: tuple[str, ...]
    trust: str = Trust.CHECKED.value


Own = CreateView | RefreshView | DropView | ExplainView | ExplainCreate | DeclareForeignKey


class _Reader:
    """Reads tokens from left to right and says what it expected where."""

    def __init__(self, statement: Statement) -> None:
        self.statement, self.tokens, self.at = statement, statement.tokens, 0

    @property
    def here(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def position(self) -> Position:
        token = self.here or self.tokens[-1]
        return Position(token.line, max(1, token.col - max(0, token.end - token.start)))

    def accept(self, *words: str) -> bool:
        found = [t.text.upper() for t in self.tokens[self.at : self.at + len(words)]]
        if found == list(words):
            self.at += len(words)
            return True
        return False

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            found = self.here.text if self.here else "the end"
            raise SqlError(f"expected {' '.join(words)}, found {found!r}", self.position())

    def identifier(self) -> str:
        token = self.here
        if token is None or token.token_type is TokenType.STRING or not re.match(r"\w", token.text):
            raise SqlError(f"expected a name, found {token.text if token else 'the end'!r}", self.position())
        self.at += 1
        return token.text

    def table_name(self) -> TableName:
        first = self.identifier()
        return TableName(self.identifier(), first) if self.accept(".") else TableName(first)

    def rest(self) -> str:
        if self.here is None:
            raise SqlError("the view has no query", self.position(), "write AS SELECT …")
        return self.statement.text_from(self.here)

    def end(self) -> None:
        if self.here is not None:
            raise SqlError(f"unexpected {self.here.text!r}", self.position())


def recognise(statement: Statement, dialect: str) -> Own | None:
    """The viewkeep statement in a text, or None where the text is for the engine."""
    reader = _Reader(statement)
    if reader.accept("EXPLAIN", "MATERIALIZED", "VIEW"):
        name = reader.table_name()
        reader.end()
        return ExplainView(name)
    explain = reader.accept("EXPLAIN")
    if reader.accept("CREATE", "OR", "REPLACE", "MATERIALIZED", "VIEW"):
        create = _create(reader, replace=True)
        return ExplainCreate(create) if explain else create
    if reader.accept("CREATE", "MATERIALIZED", "VIEW"):
        create = _create(reader, replace=False)
        return ExplainCreate(create) if explain else create
    if explain:
        return None
    if reader.accept("REFRESH", "MATERIALIZED", "VIEW"):
        name = reader.table_name()
        full = reader.accept("FULL")
        reader.end()
        return RefreshView(name, full)
    if reader.accept("DROP", "MATERIALIZED", "VIEW"):
        if_exists = reader.accept("IF", "EXISTS")
        name = reader.table_name()
        reader.end()
        return DropView(name, if_exists)
    if statement.word(0) == "ALTER" and any(t.text.upper() in ("FOREIGN", "FOREIGN KEY") for t in statement.tokens):
        return _foreign_key(statement, dialect)
    return None


def _create(reader: _Reader, replace: bool) -> CreateView:
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    if replace and if_not_exists:
        raise SqlError("OR REPLACE and IF NOT EXISTS exclude each other", reader.position())
    name = reader.table_name()
    options = _options(reader) if reader.accept("WITH") else {}
    reader.expect("AS")
    return CreateView(name, reader.rest(), options, replace, if_not_exists)


def _options(reader: _Reader) -> dict[str, str]:
    options: dict[str, str] = {}
    reader.expect("(")
    while True:
        position = reader.position()
        option = reader.identifier().lower()
        if option not in OPTIONS:
            raise SqlError(
                f"unknown option {option!r}", position, nearest(option, OPTIONS) or f"options: {', '.join(OPTIONS)}"
            )
        reader.expect("=")
        position, token = reader.position(), reader.here
        if token is None:
            raise SqlError(f"option {option!r} has no value", position)
        reader.at += 1
        options[option] = check_option(option, token.text, position)
        if reader.accept(")"):
            return options
        reader.expect(",")


def check_option(option: str, value: str, position: Position | None = None) -> str:
    value = value.lower()
    if value in LATER.get(option, ()):
        raise SqlError(
            f"{option} {value!r} is not available yet", position, f"use one of: {', '.join(OPTIONS[option])}"
        )
    if value not in OPTIONS[option]:
        known = ", ".join(OPTIONS[option])
        raise SqlError(
            f"{option} cannot be {value!r}", position, nearest(value, OPTIONS[option]) or f"use one of: {known}"
        )
    return value


def _foreign_key(statement: Statement, dialect: str) -> DeclareForeignKey | None:
    """No engine here has this statement, so viewkeep keeps the key. ENFORCED: by somebody, so it is trusted."""
    last = [t.text.upper() for t in statement.tokens[-2:]]
    trust = Trust.ENFORCED if last[-1] == "ENFORCED" and last[0] != "NOT" else Trust.CHECKED
    if trust is Trust.ENFORCED:  # sqlglot knows NOT ENFORCED and RELY, and not this word
        statement = replace(statement, tokens=statement.tokens[:-1])
    tree = parse_one(statement.text, dialect)
    key = tree.find(exp.ForeignKey)
    reference = key and key.args.get("reference")
    if not isinstance(tree, exp.Alter) or key is None or reference is None:
        return None
    target = reference.this
    parent = target.this if isinstance(target, exp.Schema) else target
    parent_columns = tuple(c.name for c in target.expressions) if isinstance(target, exp.Schema) else ()
    return DeclareForeignKey(
        table_name(tree.this), tuple(c.name for c in key.expressions), table_name(parent), parent_columns, trust.value
    )


def table_name(table: exp.Expr) -> TableName:
    """The name in a sqlglot table node."""
    return TableName(table.name, table.text("db") or None)
