"""A value that cannot be given: each engine has its own way to fail with a message.

duckdb      error('…')
spark       raise_error('…')
postgres    has none, but fails to read a text as a number, and shows the text. The text must depend
            on a row, or the planner would read it before it is asked
"""

from __future__ import annotations

from sqlglot import exp

from viewkeep.plan.scalars import ERROR, columns_of


def spell_errors(tree: exp.Expr, dialect: str) -> None:
    """Change calls of the error function, wherever they stand, to the dialect's way."""
    for call in [a for a in tree.find_all(exp.Anonymous) if a.name == ERROR]:
        if dialect == "spark":
            call.set("this", "raise_error")
        elif dialect == "postgres":
            _unreadable_number(call)


def _unreadable_number(call: exp.Anonymous) -> None:
    branch, whole = call.find_ancestor(exp.If), call.find_ancestor(exp.Case)
    assert branch is not None
    assert whole is not None
    row = exp.column(exp.to_identifier(min(columns_of(branch.this)), quoted=True))
    text = exp.DPipe(
        this=exp.DPipe(this=call.expressions[0].copy(), expression=exp.Literal.string(": ")), expression=row
    )
    number = exp.cast(exp.paren(text), "INT")
    asked = exp.Is(this=number, expression=exp.Null())
    call.replace(exp.Case(ifs=[exp.If(this=asked, true=whole.args["default"].copy())]))
