"""The negative of a decimal, with all of its digits.

duckdb, postgres    -x
spark               -x, unless that is not the negative of x: its minus rounds to 34 digits, of the 38 that a
                    decimal may have. Neither 0 - x nor x * -1 is better, they lose digits after the point
"""

from __future__ import annotations

from sqlglot import exp

from viewkeep.errors import DOES_NOT_FIT
from viewkeep.plan.scalars import NEGATED, operand, raise_error


def spell_negations(tree: exp.Expr, dialect: str) -> None:
    """Change calls of the negating function, wherever they stand, to the dialect's way."""
    for call in [a for a in tree.find_all(exp.Anonymous) if a.name == NEGATED]:
        value = call.expressions[0]
        minus = exp.Neg(this=operand(value))
        if dialect == "spark":
            again = exp.Neg(this=exp.paren(minus.copy()))
            rounded = exp.NEQ(this=again, expression=operand(value))
            call.replace(exp.Case(ifs=[exp.If(this=rounded, true=raise_error(DOES_NOT_FIT))], default=minus))
        else:
            call.replace(minus)
