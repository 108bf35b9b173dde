"""The `viewkeep` command: its sub-commands, their arguments and their exit status."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

import viewkeep
from viewkeep.cli import render
from viewkeep.cli.console import err, out, working
from viewkeep.cli.database import open_database
from viewkeep.cli.demo import EngineName, run_demo
from viewkeep.cli.errors import Commands
from viewkeep.cli.jsonable import print_json
from viewkeep.cli.script import run_script

# Help texts are wrapped by hand: typer keeps their line breaks, and they must fit 80 columns.
app = typer.Typer(
    name="viewkeep",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_DB = typer.Option(
    "--db",
    envvar="VIEWKEEP_DB",
    metavar="PATH_OR_URL",
    help="The database: a DuckDB file, a folder of Delta tables, or a URL (duckdb:///file, spark:///folder).",
)
Database = Annotated[str, _DB]
OptionalDatabase = Annotated[str | None, _DB]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Limit = Annotated[
    int | None, typer.Option(min=0, help="Rows to show at most; 0 for all.", show_default="100 on a screen")
]
View = Annotated[str, typer.Argument(metavar="VIEW", help="A materialized view.", show_default=False)]
Views = Annotated[
    list[str] | None,
    typer.Argument(metavar="VIEW", help="Materialized views; all of them if none is named.", show_default=False),
]


def _sql_file(help: str) -> Any:
    return typer.Option(exists=True, dir_okay=False, readable=True, metavar="FILE", help=help, show_default=False)


def _version(asked: bool) -> None:
    if asked:
        print(f"viewkeep {viewkeep.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Keeps materialized views fresh by computing only what changed.

    The database is given with --db to each command, or once in the environment
    variable VIEWKEEP_DB: a DuckDB file, or a folder of Delta tables that Spark
    computes on. Spark is started by commands that need it, not by those that read
    logs (status, explain, compile, history, a refresh with nothing to do).

    Exit status: 0 all is well, 1 an error or a view that is not right, 2 the
    command was not understood.

    \b
    Examples:
      viewkeep demo
      viewkeep sql --db shop.duckdb --file schema.sql
      viewkeep refresh --db shop.duckdb
      viewkeep sql --db spark:///warehouse "CREATE TABLE sales (item STRING, n INT)"
      viewkeep status --db warehouse
    """


@app.command()
def sql(
    db: Database,
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="SQL statements, separated by semicolons.", show_default=False),
    ] = None,
    file: Annotated[Path | None, _sql_file("A file of SQL statements.")] = None,
    dialect: Annotated[
        str | None, typer.Option(help="What the SQL is written in, if not the engine's own: spark, duckdb, postgres.")
    ] = None,
    limit: Limit = None,
    json: Json = False,
) -> None:
    """Run SQL: the engine's own, and viewkeep's statements for materialized views.

    The statements come from TEXT, from --file, or from standard input. Each
    result is printed: rows of a query, the report of a REFRESH, the text of an
    EXPLAIN. With --json it is the last statement's result alone. The database
    is made if it is not there. Statements before one that fails keep their
    effect, unless you wrap them in BEGIN and COMMIT (not on Spark).

    \b
    Examples:
      viewkeep sql --db shop.duckdb "CREATE TABLE sales (item TEXT, amount INT)"
      viewkeep sql --db shop.duckdb "CREATE MATERIALIZED VIEW totals AS
          SELECT item, SUM(amount) AS total FROM sales GROUP BY item"
      viewkeep sql --db shop.duckdb --json "SELECT * FROM totals"
      viewkeep sql --db shop.duckdb --file nightly.sql
      cat nightly.sql | viewkeep sql --db shop.duckdb
    """
    if text is not None and file is not None:
        raise typer.BadParameter("give the SQL as TEXT or with --file, not both")
    script = text if text is not None else _read(file)
    with open_database(db, create=True) as keeper:
        if json:
            with working("running"):
                result = keeper.sql(script, dialect)
            print_json(result)
        else:
            run_script(keeper, script, dialect, limit)


@app.command()
def refresh(
    db: Database,
    views: Views = None,
    full: Annotated[bool, typer.Option("--full", help="Compute the views anew, whatever changed.")] = False,
    json: Json = False,
) -> None:
    """Bring views up to date with their tables, and say how and why.

    Views that a named view reads are refreshed before it. The columns + and −
    count the rows that came and went. On Spark, "read" is how many rows the files
    have that were read, "jobs" how many Spark jobs ran.

    Exit status 1 if a view is invalid (a table it reads was dropped or changed);
    the others are refreshed all the same.

    \b
    Examples:
      viewkeep refresh --db shop.duckdb
      viewkeep refresh --db shop.duckdb totals daily
      viewkeep refresh --db shop.duckdb totals --full
      viewkeep refresh --db shop.duckdb --json | jq '.[] | {view, strategy}'
    """
    reports: list[viewkeep.RefreshReport] = []
    with open_database(db) as keeper:
        try:
            if views:
                _check_names(keeper, views)
                for view in dict.fromkeys(views):
                    with working(f"refreshing {view}"):
                        reports.append(keeper.refresh(view, full=full))
            else:
                with working("refreshing all views"):
                    reports.extend(keeper.refresh(full=full))
        finally:
            # What was done before an error is shown, then the error.
            if reports or not sys.exc_info()[0]:
                print_json(reports) if json else render.print_refreshes(reports)
    if any(r.strategy == "invalid" for r in reports):
        raise typer.Exit(1)


@app.command()
def status(db: Database, json: Json = False) -> None:
    """List the views: what each reads, how it is kept, how many source rows wait for a refresh.

    \b
    Examples:
      viewkeep status --db shop.duckdb
      viewkeep status --db shop.duckdb --json | jq -r '.[] | select(.pending > 0) | .view'
    """
    with open_database(db) as keeper:
        found = keeper.status()
        print_json(found) if json else render.print_statuses(found)


@app.command()
def explain(
    view: View,
    db: Database,
    graph: Annotated[
        str | None,
        typer.Option(metavar="FORM", help="Only the foreign keys that its joins follow: text, dot or mermaid."),
    ] = None,
) -> None:
    """Show how a view is kept: its plan, what is incremental and what is not, the last choice and its reason.

    \b
    Examples:
      viewkeep explain totals --db shop.duckdb
      viewkeep explain totals --db shop.duckdb --graph dot | dot -Tsvg -o keys.svg
      viewkeep sql --db shop.duckdb "EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT …"   (before you make it)
    """
    with open_database(db) as keeper:
        print(keeper.explain(view, graph))


@app.command(name="compile")
def compile_(
    name: Annotated[
        str | None, typer.Argument(metavar="VIEW", help="A view of the database.", show_default=False)
    ] = None,
    db: OptionalDatabase = None,
    schema: Annotated[Path | None, _sql_file("CREATE TABLE statements, in the dialect.")] = None,
    view: Annotated[Path | None, _sql_file("The view: CREATE MATERIALIZED VIEW …, or its query.")] = None,
    dialect: Annotated[str | None, typer.Option(help="spark, duckdb or postgres.", show_default="the engine's")] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            help="classical; or foreign-key, which leaves out branches where it finds that it can.",
            show_default="the view's own",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Print the SQL that maintains a view, to read it or to run it elsewhere.

    For duckdb and postgres it is a program of statements. For spark it is the
    queries that run at a refresh; comments say what their relations stand for and
    what is committed.

    Either of a VIEW in a database, or, with no database at all, of a query in
    --view over the CREATE TABLE statements in --schema. Each statement ends with
    a semicolon.

    \b
    Examples:
      viewkeep compile totals --db shop.duckdb --dialect spark
      viewkeep compile --schema schema.sql --view view.sql --dialect postgres
      viewkeep compile totals --db shop.duckdb --strategy foreign-key
    """
    if name is not None:
        if schema or view:
            raise typer.BadParameter("give a VIEW of a database, or --schema and --view, not both")
        if db is None:
            raise typer.BadParameter(f"which database has {name!r}? Give --db, or set VIEWKEEP_DB")
        with open_database(db) as keeper:
            program = keeper.compile(name, dialect, strategy)
    else:
        if schema is None or view is None:
            raise typer.BadParameter("give a VIEW and --db, or both --schema and --view")
        program = viewkeep.compile(_read(schema), _read(view), dialect or "duckdb", strategy)
    if json:
        print_json(program)
    else:
        print("\n\n".join(f"{statement.rstrip().removesuffix(';')};" for statement in program))


@app.command()
def verify(db: Database, views: Views = None, json: Json = False) -> None:
    """Prove views right: compare each with its query, run from scratch by the engine.

    Rows are compared with their number of copies, in both directions; the first
    that differ are shown. Changes that no refresh has consumed yet are left out,
    so a stale view can be right. Declared keys are checked too.

    Exit status 0 if all views are equal to their queries and all keys hold, else
    1.

    \b
    Examples:
      viewkeep verify --db shop.duckdb
      viewkeep verify --db shop.duckdb totals || echo "totals is wrong"
    """
    reports: list[viewkeep.VerifyReport] = []
    with open_database(db) as keeper:
        if views:
            _check_names(keeper, views)
        wanted = list(dict.fromkeys(views or (s.view for s in keeper.status())))
        try:
            for number, view in enumerate(wanted, start=1):
                with working(f"verifying {view} ({number} of {len(wanted)})"):
                    reports.append(keeper.verify(view))
        finally:
            if reports or not sys.exc_info()[0]:
                print_json(reports) if json else render.print_verified(reports)
    if not all(r.equal and not r.keys for r in reports):
        raise typer.Exit(1)


@app.command()
def history(view: View, db: Database, json: Json = False) -> None:
    """List the refreshes of a view, oldest first: strategy, reason, rows, time.

    "changes" is how many source rows a refresh consumed, "expected" how many its
    way was expected to read; on Spark, "read" how many rows the files that it read
    have, and "jobs" how many Spark jobs ran. Times are UTC.

    \b
    Examples:
      viewkeep history totals --db shop.duckdb
      viewkeep history totals --db shop.duckdb --json | jq '.[-1].seconds'
    """
    with open_database(db) as keeper:
        found = keeper.history(view)
        print_json(found) if json else render.print_history(found)


@app.command()
def changes(
    view: View,
    db: Database,
    since: Annotated[
        int | None,
        typer.Option(metavar="VERSION", help="A version of the view, as in its history.", show_default="all kept"),
    ] = None,
    limit: Limit = None,
    json: Json = False,
) -> None:
    """Show what a view gained and lost: its rows with _w above 0 came, with _w below 0 went.

    \b
    Examples:
      viewkeep changes totals --db shop.duckdb
      viewkeep changes totals --db shop.duckdb --since 7 --json
    """
    with open_database(db) as keeper:
        found = keeper.changes(view, since)
        print_json(found) if json else render.print_rows(found, limit)


@app.command()
def demo(
    engine: Annotated[EngineName, typer.Option(help="Where the shop is.")] = EngineName.SPARK,
    rows: Annotated[
        int | None,
        typer.Option(
            min=100, help="Orders in the shop; each has three lines.", show_default="500000; 400000 on DuckDB"
        ),
    ] = None,
) -> None:
    """Watch it work: a small shop, its views, four batches of changes.

    After each batch all views are refreshed. For each view you see what changed,
    which strategy was taken and why, and what it took: seconds, and on Spark rows
    read and jobs launched. Beside it, what it takes to compute the view anew, and
    the proof that it equals its query. Everything happens in a temporary folder.

    Exit status 1 if a view is not equal to its query.

    \b
    Examples:
      viewkeep demo
      viewkeep demo --engine duckdb
      viewkeep demo --rows 20000
    """
    if not run_demo(out(), engine, rows):
        raise typer.Exit(1)


def _check_names(keeper: viewkeep.Keeper, views: list[str]) -> None:
    """Refuse an unknown name before work is done for the names in front of it."""
    for view in views:
        keeper.history(view)


def _read(file: Path | None) -> str:
    """A file's text, or standard input's."""
    if file is None and sys.stdin.isatty():
        err().print(Text("reading SQL from the terminal; end with Ctrl-D", "dim"))
    try:
        return file.read_text(encoding="utf-8") if file else sys.stdin.read()
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{file or 'standard input'} is not UTF-8 text") from None


def main() -> Any:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal without − or … in its character set must not end the program.
            stream.reconfigure(errors="replace")
    return app(prog_name="viewkeep")


if __name__ == "__main__":
    main()
