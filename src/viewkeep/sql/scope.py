"""Which columns a name can mean at one place of a query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from viewkeep.errors import SqlError, UnsupportedError, nearest
from viewkeep.sql.parse import position_of


@dataclass(frozen=True, slots=True)
class Relation:
    """One entry of a FROM clause."""

    alias: str
    columns: tuple[tuple[str, str], ...]
    """User-visible name and plan id, in order."""

    def find(self, name: str) -> list[str]:
        return [column_id for n, column_id in self.columns if n.lower() == name.lower()]


@dataclass(slots=True)
class Scope:
    """The relations of one FROM clause; `merged` holds USING columns, which have no owner."""

    relations: list[Relation] = field(default_factory=list)
    merged: dict[str, str] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    """Ids of the right-hand copies of USING columns: reachable by alias, not by star or bare name."""
    shown: dict[str, str] = field(default_factory=dict)
    """What `*` and a bare name give in place of a left-hand USING column, where it is another one."""
    shared_first: bool = False
    """Whether `*` begins with the USING columns, those of the last join first, as the standard has it;
    else each stays in its place."""
    leading: list[str] = field(default_factory=list)
    """Names of USING columns in that order."""
    outer: Scope | None = None
    captured: set[str] = field(default_factory=set)
    """Ids of columns of the query around that were used in here."""

    def add(self, relation: Relation, node: exp.Expr) -> None:
        if any(r.alias.lower() == relation.alias.lower() for r in self.relations):
            raise SqlError(
                f"table name {relation.alias!r} is used twice", position_of(node), "give one of them an alias"
            )
        self.relations.append(relation)

    def merge(self, name: str, left: str, right: str, merged: str) -> None:
        """Make one column of the two that USING names."""
        self.merged[name.lower()] = merged
        self.hidden.add(right)
        first = next((i for i, shown in self.shown.items() if shown == left), left)
        if merged != first:
            self.shown[first] = merged

    def lead(self, names: list[str]) -> None:
        """A join shares these columns: they come before what was there."""
        folded = [n.lower() for n in names]
        self.leading = [*names, *(n for n in self.leading if n.lower() not in folded)]

    def shown_as(self, column_id: str) -> str:
        return self.shown.get(column_id, column_id)

    def resolve(self, column: exp.Column) -> str:
        """The id a column name stands for."""
        name, table = column.name, column.table
        if column.args.get("catalog") or (column.args.get("db") and not table):
            raise UnsupportedError(f"column {column.sql()!r} is qualified too deeply", position_of(column))
        found = self._owned(name, table)
        if len(found) == 1:
            return found[0]
        if len(found) > 1:
            owners = [r.alias for r in self.relations if r.find(name)]
            raise SqlError(
                f"column {name!r} is ambiguous",
                position_of(column),
                f"write {' or '.join(f'{o}.{name}' for o in owners)}",
            )
        if self.outer is not None and (self.outer.can_resolve(column) or self._is_outside(table)):
            found_outside = self.outer.resolve(column)
            self.captured.add(found_outside)
            return found_outside
        if table and not any(r.alias.lower() == table.lower() for r in self.relations):
            aliases = [r.alias for r in self.relations]
            raise SqlError(
                f"there is no table {table!r} here",
                position_of(column),
                nearest(table, aliases) or f"tables here: {', '.join(aliases) or 'none'}",
            )
        known = [n for r in self.relations if not table or r.alias.lower() == table.lower() for n, _ in r.columns]
        raise SqlError(
            f"column {name!r} does not exist",
            position_of(column),
            nearest(name, known) or f"columns here: {', '.join(dict.fromkeys(known)) or 'none'}",
        )

    def with_fields(self, column: exp.Column) -> tuple[exp.Column, list[exp.Identifier]]:
        """`t.s.a`, `s.a`, `main.t.s.a`: a column, and the fields of its struct that are named behind it."""
        parts = [p for p in column.parts if isinstance(p, exp.Identifier)]
        if self.can_resolve(column) or len(parts) != len(column.parts):
            return column, []
        for start, end in ((0, 2), (0, 1), (1, 3)):
            found = exp.Column(**dict(zip(("this", "table"), reversed(parts[start:end]), strict=False)))
            if end < len(parts) and self.can_resolve(found):
                found.meta.update(column.meta)
                return found, parts[end:]
        return column, []

    def capture(self, ids: Iterable[str]) -> None:
        """What stands in FROM uses these columns of queries around."""
        own = {i for r in self.relations for _, i in r.columns} | set(self.merged.values())
        if found := set(ids) - own:
            self.captured |= found
            if self.outer is not None:
                self.outer.capture(found)

    def _owned(self, name: str, table: str) -> list[str]:
        if not table and name.lower() in self.merged:
            return [self.merged[name.lower()]]
        owners = [r for r in self.relations if not table or r.alias.lower() == table.lower()]
        return [i for r in owners for i in r.find(name) if table or i not in self.hidden]

    def can_resolve(self, column: exp.Column) -> bool:
        if self._owned(column.name, column.table):
            return True
        return self.outer is not None and self.outer.can_resolve(column)

    def _is_outside(self, table: str) -> bool:
        """Whether a table name can only be meant for a query around."""
        scope: Scope | None = self
        while table and scope is not None:
            if any(r.alias.lower() == table.lower() for r in scope.relations):
                return scope is not self
            scope = scope.outer
        return False

    def star(self, table: str, node: exp.Expr) -> Iterator[tuple[str, str]]:
        """What `*` or `table.*` stands for."""
        owners = [r for r in self.relations if not table or r.alias.lower() == table.lower()]
        if not owners:
            raise SqlError(f"there is no table {table!r} here", position_of(node))
        first = [self.merged[name.lower()] for name in self.leading] if self.shared_first and not table else []
        yield from zip(self.leading, first, strict=False)
        for relation in owners:
            for name, column_id in relation.columns:
                if table:
                    yield name, column_id
                elif column_id not in self.hidden and self.shown_as(column_id) not in first:
                    yield name, self.shown_as(column_id)
