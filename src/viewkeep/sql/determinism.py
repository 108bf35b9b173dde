"""Functions whose answer changes while the tables do not: no view over them can be maintained or proven."""

from __future__ import annotations

from sqlglot import exp

from viewkeep.errors import NondeterministicError
from viewkeep.sql.clock import asks_time, followed
from viewkeep.sql.parse import position_of

_CLASSES: tuple[type[exp.Expr], ...] = (
    exp.Rand,
    exp.Randn,
    exp.CurrentDate,
    exp.CurrentDatetime,
    exp.CurrentTime,
    exp.CurrentTimestamp,
    exp.CurrentUser,
    exp.Uuid,
    exp.NextValueFor,
    exp.TableSample,
    exp.Localtime,
    exp.Localtimestamp,
)
_FUNCTIONS = """
random rand randn now today current_date current_time current_timestamp localtime localtimestamp get_current_time
get_current_timestamp transaction_timestamp statement_timestamp clock_timestamp timeofday uuid uuidv4 uuidv7
gen_random_uuid newid nextval currval lastval setseed shuffle txid_current current_user session_user
current_localtime current_localtimestamp current_setting monotonically_increasing_id spark_partition_id input_file_name
"""
_NAMES = frozenset(_FUNCTIONS.split())
_BARE = frozenset({"localtime", "localtimestamp", "session_user", "rowid"})
"""Those that sqlglot reads as a column because they need no parentheses."""
_FOLLOWED = "time is followed where a value is compared with it in WHERE, as in ts > now() - INTERVAL '1 day'"


def check_deterministic(query: exp.Expr) -> None:
    """Refuse a query that calls a non-deterministic function, and name it."""
    allowed = followed(query)
    for node in query.walk():
        if id(node) not in allowed and (name := _nondeterministic(node)) is not None:
            raise NondeterministicError(
                f"{name} gives another answer each time, so a view of it cannot be kept or verified",
                position_of(node),
                _FOLLOWED if asks_time(node) else "compute the value outside and store it in a table",
            )


def _nondeterministic(node: exp.Expr) -> str | None:
    if isinstance(node, _CLASSES):
        return node.sql(dialect="duckdb").lower()
    if isinstance(node, exp.Anonymous) and node.name.lower() in _NAMES:
        return f"{node.name.lower()}()"
    if isinstance(node, exp.Func) and (named := [n.lower() for n in node.sql_names() if n.lower() in _NAMES]):
        return f"{named[0]}()"
    if isinstance(node, exp.Anonymous) and node.name.lower() == "age" and len(node.expressions) == 1:
        return "age() of one value, which counts from today,"
    if isinstance(node, exp.Column) and not node.table and node.name.lower() in _BARE:
        return node.name.lower()
    return None
