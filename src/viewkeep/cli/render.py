"""Reports and rows as tables."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from rich import box
from rich.table import Table
from rich.text import Text

from viewkeep import RefreshReport, VerifyReport, ViewStatus
from viewkeep.cli.console import out
from viewkeep.cli.jsonable import plain, rows

ON_SCREEN = 100
"""Rows of a result that a terminal gets unless asked otherwise; a pipe gets all."""

_ROOM_FOR_REASONS = 120
"""A history table this wide has room for a column of sentences."""

_READING = ("read", "jobs")
"""Columns for rows read and Spark jobs launched."""

_STYLES = {
    "classical": "green",
    "foreign-key": "green",
    "foreign-key-materialized": "green",
    "unchanged": "dim",
    "recompute": "yellow",
    "invalid": "bold red",
}


def duration(seconds: float) -> str:
    """
    >>> duration(0.0123), duration(12.3)
    ('12.3 ms', '12.30 s')
    """
    return f"{seconds * 1000:,.1f} ms" if seconds < 1 else f"{seconds:,.2f} s"


def strategy(name: str) -> Text:
    return Text(name, _STYLES.get(name, ""))


def gained_and_lost(report: RefreshReport) -> str:
    return f"+{report.rows_inserted:,} −{report.rows_deleted:,}"


def _table(columns: Sequence[str], right: Iterable[str] = (), folded: Iterable[str] | None = None) -> Table:
    """The columns named in `right` hold numbers. Only those in `folded` give way on a narrow screen; None: all do."""
    table, numeric = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True), frozenset(right)
    for column in columns:
        gives_way = folded is None or column in folded
        table.add_column(
            Text(column),  # not str: a column's name may look like markup
            justify="right" if column in numeric else "left",
            overflow="fold",
            no_wrap=not gives_way,
            min_width=len(column) if folded is not None else None,
        )
    return table


def print_refreshes(reports: Sequence[RefreshReport]) -> None:
    if not reports:
        print_no_views()
        return
    told = _tell_reading(reports)
    columns = ["view", "strategy", "rows", *(_READING if told else ()), "time", "reason"]
    table = _table(columns, right=[*_READING, "time"], folded=["view", "reason"])
    for r in reports:
        rows_of = (Text(gained_and_lost(r)), *(_reading(r) if told else ()), Text(duration(r.seconds)))
        table.add_row(Text(r.view), strategy(r.strategy), *rows_of, Text(r.reason))
    out().print(table)


def print_history(reports: Sequence[RefreshReport]) -> None:
    console = out()
    beneath = console.width < _ROOM_FOR_REASONS
    told = _tell_reading(reports)
    columns = [
        "at",
        "version",
        "strategy",
        "rows",
        "changes",
        "expected",
        *(_READING if told else ()),
        "time",
        "reason",
    ]
    numbers = ["version", "changes", "expected", *_READING, "time"]
    table = _table(columns[:-1] if beneath else columns, right=numbers, folded=["at", "reason"])
    for r in reports:
        cells = (
            Text(_moment(r.at)),
            Text(str(r.version)),
            strategy(r.strategy),
            Text(gained_and_lost(r)),
            Text(f"{r.changed_rows:,}"),
            Text(f"{r.predicted_rows:,}"),
            *(_reading(r) if told else ()),
            Text(duration(r.seconds)),
        )
        table.add_row(*cells, *(() if beneath else (Text(r.reason),)))
    console.print(table)
    for r in reports if beneath else ():
        console.print(Text.assemble((f"version {r.version}: ", "bold"), r.reason))


def _tell_reading(reports: Sequence[RefreshReport]) -> bool:
    """Whether the engine tells what it reads."""
    return any(r.jobs or r.rows_read for r in reports)


def _reading(report: RefreshReport) -> tuple[Text, ...]:
    return Text(f"{report.rows_read:,}"), Text(str(report.jobs))


def print_statuses(statuses: Sequence[ViewStatus]) -> None:
    if not statuses:
        print_no_views()
        return
    table = _table(
        ["view", "pending", "version", "refresh", "policy", "reads", "incremental"],
        right=["pending", "version"],
        folded=["view", "reads", "incremental"],
    )
    for s in statuses:
        time = f", as of {s.as_of:%Y-%m-%d %H:%M:%S} UTC" if s.as_of else ""
        state = Text(f"invalid: {s.invalid}", "bold red") if s.invalid else Text(s.incremental + time)
        table.add_row(
            Text(s.view),
            Text(f"{s.pending:,}", "bold" if s.pending else "dim"),
            str(s.version),
            s.refresh,
            s.policy if s.strategy == "auto" else f"{s.policy}, {s.strategy}",
            Text(", ".join(s.sources)),
            state,
        )
    out().print(table)


def print_verified(reports: Sequence[VerifyReport]) -> None:
    if not reports:
        print_no_views()
        return
    console = out()
    for report in reports:
        good = report.equal and not report.keys
        console.print(Text.assemble(("ok    " if good else "WRONG ", "green" if good else "bold red"), str(report)))
        for label, found, total in (
            ("missing: the query has them, the view does not", report.missing, report.missing_count),
            ("extra: the view has them, the query does not", report.extra, report.extra_count),
        ):
            if total:
                console.print(Text(f"\n{label} (first {found.num_rows:,} of {total:,} rows)"))
                print_rows(found)


def print_rows(table: pa.Table, limit: int | None = None) -> None:
    """A query's rows. `limit` 0 means all; None means all for a pipe and a screenful for a terminal."""
    console = out()
    if limit is None:
        limit = ON_SCREEN if sys.stdout.isatty() else 0
    shown = table.slice(0, limit) if limit else table
    numeric = [f.name for f in table.schema if _is_number(f.type)]
    grid = _table(table.column_names, numeric)
    for row in rows(shown):
        grid.add_row(*(_cell(v) for v in row))
    console.print(grid)
    left = table.num_rows - shown.num_rows
    more = f", the first {shown.num_rows:,} shown; --limit 0 shows all" if left else ""
    console.print(Text(f"{table.num_rows:,} row{'' if table.num_rows == 1 else 's'}{more}", "dim"))


def print_no_views() -> None:
    out().print('no materialized views here yet; make one: viewkeep sql "CREATE MATERIALIZED VIEW v AS SELECT …"')


def _cell(value: Any) -> Text:
    if value is None:
        return Text("NULL", "dim")
    return Text(str(value) if isinstance(value, float) else str(plain(value)))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _moment(at: datetime | None) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S") if at else ""
