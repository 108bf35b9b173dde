"""Capturing the changes of a base table: a log, and triggers that fill it.

    log: version | weight | the table's columns

The triggers leave the version empty; a refresh seals what it can see under its own version. A
number drawn when the change is made would not do: a transaction that commits late would bring in
numbers that a refresh has already passed.
"""

from __future__ import annotations

from sqlglot import exp

from viewkeep.catalog import TYPE_SPELLING, Table, TableName
from viewkeep.emit.select import identifier, table
from viewkeep.strategy import names

_EVENTS = (("insert", "INSERT"), ("delete", "DELETE"), ("update", "UPDATE"))


def trigger_name(source: TableName, event: str) -> str:
    return f"_vk_{event}_{source}"


def capture_sql(source: Table, dialect: str, marks_updates: bool = False) -> list[str]:
    """Statements that start capture. `marks_updates`: the log tells updates from what was deleted and inserted."""
    log = names.log(source.name)
    columns = [c.name for c in source.columns]
    fields = [f"{_quote(names.VERSION, dialect)} BIGINT", f"{_quote(names.WEIGHT, dialect)} INTEGER NOT NULL"]
    fields += [f"{_quote(c.name, dialect)} {_type(c.type, dialect)}" for c in source.columns]
    fields += [f"{_quote(names.UPDATED, dialect)} BOOLEAN"] if marks_updates else []
    statements = [f"CREATE TABLE {_table(log, dialect)} ({', '.join(fields)})"]

    def logged(changes: tuple[tuple[int, str], ...], mark: bool = False) -> str:
        listed = ", ".join(_quote(c, dialect) for c in columns)
        target = ", ".join(_quote(c, dialect) for c in (names.WEIGHT, *([names.UPDATED] if mark else []), *columns))
        rows = (f"SELECT {weight}{', TRUE' if mark else ''}, {listed} FROM {these}" for weight, these in changes)
        return f"INSERT INTO {_table(log, dialect)} ({target}) {' UNION ALL '.join(rows)}"

    gone, come = (-1, "old_rows"), (1, "new_rows")
    bodies = {
        "INSERT": (logged((come,)), ("NEW",)),
        "DELETE": (logged((gone,)), ("OLD",)),
        "UPDATE": (logged((gone, come), marks_updates), ("OLD", "NEW")),
    }
    for event, word in _EVENTS:
        body, transitions = bodies[word]
        statements += _trigger(source.name, event, word, body, transitions, dialect)
    return statements


def release_sql(source: TableName, dialect: str) -> list[str]:
    """Statements that end capture."""
    statements = [
        f"DROP TRIGGER IF EXISTS {_quote(trigger_name(source, event), dialect)} ON {_table(source, dialect)}"
        for event, _ in _EVENTS
    ]
    return [*statements, f"DROP TABLE IF EXISTS {_table(names.log(source), dialect)}"]


def _trigger(
    source: TableName, event: str, word: str, body: str, transitions: tuple[str, ...], dialect: str
) -> list[str]:
    name = _quote(trigger_name(source, event), dialect)
    referencing = " ".join(f"{t} TABLE AS {t.lower()}_rows" for t in transitions)
    head = (
        f"CREATE TRIGGER {name} AFTER {word} ON {_table(source, dialect)} REFERENCING {referencing} FOR EACH STATEMENT"
    )
    if dialect != "postgres":
        return [f"{head} {body}"]
    function = _table(TableName(f"capture_{event}_{source}", names.SCHEMA), dialect)
    return [
        f"CREATE FUNCTION {function}() RETURNS TRIGGER LANGUAGE plpgsql AS $capture$ "
        f"BEGIN {body}; RETURN NULL; END $capture$",
        f"{head} EXECUTE FUNCTION {function}()",
    ]


def _quote(name: str, dialect: str) -> str:
    return identifier(name).sql(dialect=dialect)


def _table(name: TableName, dialect: str) -> str:
    return table(name).sql(dialect=dialect)


def _type(text: str, dialect: str) -> str:
    return exp.DataType.build(text, dialect=TYPE_SPELLING, udt=True).sql(dialect=dialect)
