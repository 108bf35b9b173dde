"""MERGE INTO as one weighted change.

    target ⟗ source on the condition  →  the first clause that applies to each pair  →  rows out, rows in

Rows of the target are numbered: a row that is changed by several rows of the source is an error, equal
rows of the target are not. Only the sides that some clause needs are kept by the join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sf
from sqlglot import exp

from viewkeep.catalog import Table
from viewkeep.emit.select import identifier
from viewkeep.engine.spark import DIALECT
from viewkeep.errors import CatalogError, SqlError, nearest
from viewkeep.runtime.lake.images import after, assignments, before, old_row, weighted
from viewkeep.sql.rewording import text_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from viewkeep.runtime.lake.database import LakeDatabase

_ROW, _FROM, _CLAUSE, _PAIR = "_vk_row", "_vk_from", "_vk_clause", "_vk_pair"


@dataclass(frozen=True, slots=True)
class Clause:
    """One WHEN: which pairs it is about, and the values that it sets, by column; None where it deletes."""

    matched: bool
    by_source: bool
    """About rows of the target that no row of the source matches."""
    condition: exp.Expr | None
    inserts: bool
    values: dict[str, exp.Expr] | None


class Merge:
    def __init__(self, db: LakeDatabase, table: Table, tree: exp.Merge) -> None:
        self.db, self.table, self.tree = db, table, tree
        self.target = tree.this.alias or tree.this.name
        using = tree.args["using"]
        self.source = using.alias or using.name
        if not self.source:
            raise SqlError("the source of MERGE has no name", hint="write USING (…) AS s")
        if self.source.lower() == self.target.lower():
            raise SqlError(
                f"target and source of MERGE are both named {self.target!r}", hint="give one of them an alias with AS"
            )
        if not tree.args.get("on"):
            raise SqlError("MERGE has no condition", hint="write ON …")
        self.clauses = tuple(map(self._clause, tree.args["whens"].expressions))

    def rows(self) -> DataFrame:
        frame = self._with_new_rows(self.db.frame(text_of(self._pairs(), DIALECT)))
        goes, comes = self._kinds(lambda c: not c.inserts), self._kinds(lambda c: c.values is not None)
        changes = [c for c in self.clauses if c.matched]
        if changes:
            paired = frame.withColumn(_PAIR, sf.coalesce(sf.col(_ROW), -1 - sf.col(_FROM)))
            if len(changes) == 1 and changes[0].values is None and changes[0].condition is None:
                frame = paired.dropDuplicates([_PAIR])  # however often a row is deleted, it is gone
            else:
                several = sf.count(sf.lit(1)).over(Window.partitionBy(_PAIR)) > 1
                refused = sf.raise_error(sf.lit(self._several())).cast("boolean")
                frame = paired.withColumn("_vk_several", several)
                goes = sf.when(sf.col("_vk_several"), refused).otherwise(goes)
        return weighted(frame, self.table, goes, comes)

    def _with_new_rows(self, pairs: DataFrame) -> DataFrame:
        """What the row of each pair becomes; the value of each clause in the type that the column has."""
        types = {f.name: f.dataType for f in pairs.schema.fields}
        found = {}
        for position, column in enumerate(self.table.columns):
            kept = sf.col(before(position))
            value = sf.lit(None).cast(types[before(position)])
            for number, clause in enumerate(self.clauses):
                if clause.values is not None:
                    given = column.name in clause.values
                    new = sf.col(_value(number, position)).cast(types[before(position)]) if given else kept
                    value = sf.when(sf.col(_CLAUSE) == number, new).otherwise(value)
            found[after(position)] = value
        return pairs.where(sf.col(_CLAUSE).isNotNull()).withColumns(found)

    def _several(self) -> str:
        return f"a row of {str(self.table.name)!r} is changed by several rows of the source {self.source!r}"

    def _kinds(self, holds: Callable[[Clause], bool]) -> Column:
        wanted = [number for number, clause in enumerate(self.clauses) if holds(clause)]
        return sf.col(_CLAUSE).isin(*wanted) if wanted else sf.lit(False)

    # ------------------------------------------------------------------ pairs
    def _pairs(self) -> exp.Select:
        """Pairs of rows, the number of the clause for each, the row of the target, and what it becomes."""
        found = exp.select(
            exp.alias_(self._column(self.target, _ROW), _ROW),
            exp.alias_(self._column(self.source, _FROM), _FROM),
            exp.alias_(self._which(), _CLAUSE),
            *old_row(self.table, self.target),
            *self._new_row(),
        )
        keeps_target = any(c.by_source for c in self.clauses)
        keeps_source = any(c.inserts for c in self.clauses)
        side = {(False, False): "", (True, False): "LEFT", (False, True): "RIGHT", (True, True): "FULL"}
        found = found.from_(_numbered(self.tree.this, self.target, _ROW)).join(
            _numbered(self.tree.args["using"], self.source, _FROM),
            on=self.tree.args["on"].copy(),
            join_type=side[keeps_target, keeps_source],
        )
        found.set("with_", self.tree.args.get("with_"))
        return found

    def _which(self) -> exp.Case:
        case = exp.Case()
        for number, clause in enumerate(self.clauses):
            case = case.when(self._applies(clause), exp.Literal.number(number))
        return case

    def _applies(self, clause: Clause) -> exp.Expr:
        there = exp.not_(exp.Is(this=self._column(self.target, _ROW), expression=exp.Null()))
        met = exp.not_(exp.Is(this=self._column(self.source, _FROM), expression=exp.Null()))
        pair = {
            (True, False): exp.and_(there, met),
            (False, False): exp.and_(exp.not_(there), met),
            (False, True): exp.and_(there, exp.not_(met)),
        }[clause.matched, clause.by_source]
        return pair if clause.condition is None else exp.and_(pair, clause.condition.copy())

    def _new_row(self) -> Iterator[exp.Expr]:
        """Each value behind its clause: it may fail for other rows. One column a clause, for types may differ."""
        for position, column in enumerate(self.table.columns):
            for number, clause in enumerate(self.clauses):
                if clause.values is not None and column.name in clause.values:
                    applies = exp.EQ(this=exp.paren(self._which()), expression=exp.Literal.number(number))
                    value = exp.Case().when(applies, clause.values[column.name].copy())
                    yield exp.alias_(value, _value(number, position))

    def _column(self, table: str, name: str) -> exp.Column:
        return exp.column(identifier(name), table=identifier(table))

    # ------------------------------------------------------------------ clauses
    def _clause(self, when: exp.When) -> Clause:
        matched, by_source, then = bool(when.args.get("matched")), bool(when.args.get("source")), when.args["then"]
        condition = when.args.get("condition")
        match then:
            case exp.Insert() if not matched and not by_source:
                return Clause(matched, by_source, condition, True, self._inserted(then))
            case exp.Update() if matched or by_source:
                return Clause(matched, by_source, condition, False, self._updated(then, by_source))
            case exp.Var() if then.name.upper() == "DELETE" and (matched or by_source):
                return Clause(matched, by_source, condition, False, None)
        kind = "MATCHED" if matched else "NOT MATCHED BY SOURCE" if by_source else "NOT MATCHED"
        raise SqlError(
            f"WHEN {kind} cannot {then.sql(dialect=DIALECT).split()[0]}",
            hint="matched rows take UPDATE or DELETE, others of the source INSERT",
        )

    def _updated(self, then: exp.Update, by_source: bool) -> dict[str, exp.Expr]:
        if not any(isinstance(e, exp.Star) for e in then.expressions):
            return assignments(self.table, then.expressions)
        if by_source:
            raise SqlError("WHEN NOT MATCHED BY SOURCE has no source to UPDATE SET * from", hint="name the columns")
        return self._all_of_source()

    def _inserted(self, then: exp.Insert) -> dict[str, exp.Expr]:
        if isinstance(then.this, exp.Star):
            return self._all_of_source()
        given = then.this.expressions if then.this is not None else None
        columns = [self.table.column(c.name).name for c in given or self.table.columns]
        values = then.expression.expressions
        if len(columns) != len(values):
            raise SqlError(
                f"INSERT gives {len(values)} values for {len(columns)} columns of {str(self.table.name)!r}",
                hint="one value for each column",
            )
        if len(set(columns)) != len(columns):
            raise SqlError("INSERT names a column twice", hint="name each column once")
        return dict(zip(columns, values, strict=True))

    def _all_of_source(self) -> dict[str, exp.Expr]:
        using = exp.select("*").from_(self.tree.args["using"].copy())
        using.set("with_", self.tree.args.get("with_"))
        found, _ = self.db.output(text_of(using, DIALECT))
        known = {name.lower(): name for name in found}
        for column in self.table.columns:
            if column.name.lower() not in known:
                raise CatalogError(
                    f"the source {self.source!r} has no column {column.name!r}, which * needs",
                    hint=nearest(column.name, found) or "name the columns",
                )
        return {c.name: self._column(self.source, known[c.name.lower()]) for c in self.table.columns}


def _value(clause: int, position: int) -> str:
    return f"_vk_value_{clause}_{position}"


def _numbered(relation: exp.Expr, alias: str, number: str) -> exp.Subquery:
    """A relation under its own name, its rows told apart by a number."""
    everything = exp.Column(this=exp.Star(), table=identifier(alias))
    ids = exp.Anonymous(this="monotonically_increasing_id")
    return exp.select(everything, exp.alias_(ids, number)).from_(relation.copy()).subquery(identifier(alias))
