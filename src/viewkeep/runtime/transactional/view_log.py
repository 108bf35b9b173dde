"""A view's own log: what left the view, and in which version.

Of a view that is stored anew at each refresh (strategy/replaced.py) it is the tables that were set aside.
"""

from __future__ import annotations

from viewkeep.catalog import TableName
from viewkeep.emit.select import table_text
from viewkeep.emit.statements import query_sql, rename_sql
from viewkeep.engine.protocol import Engine
from viewkeep.plan.nodes import Field, Named, Project
from viewkeep.plan.scalars import column
from viewkeep.runtime.compiled import CompiledView
from viewkeep.strategy import names
from viewkeep.strategy.outgoing import outgoing

_KEPT, _KEPT_ASIDE = 100, 10
"""How far back a view's own changes can be asked for, in runs; less far where each takes as much room as the view."""
_ROUND = 10
"""In every such run old changes are looked for, to be dropped."""


class ViewLog:
    def __init__(self, engine: Engine, compiled: CompiledView) -> None:
        self.engine, self.compiled, self.view = engine, compiled, compiled.view
        self.dialect, self.replaced = engine.facts.dialect, compiled.layout.replaced

    @property
    def kept(self) -> int:
        return _KEPT_ASIDE if self.replaced else _KEPT

    def is_due(self, version: int) -> bool:
        """Whether it is time to forget old changes."""
        return self.replaced or version % _ROUND == 0

    def changes_sql(self, since: int) -> str:
        """The query for the view's own changes after a version, under its column names and a weight."""
        aside = versions_aside(self.engine, self.view) if self.replaced else []
        change = outgoing(self.compiled.layout, since, self.compiled.fresh, aside)
        weight = Named(Field(names.WEIGHT, "INTEGER"), change.weight_scalar)
        node = Project(change.node, (weight, *(Named(f, column(f.id)) for f in change.payload)))
        columns = (names.WEIGHT, *self.compiled.layout.output)
        return query_sql(node, columns, self.dialect).sql(dialect=self.dialect)

    def moved_since(self, version: int) -> bool:
        if self.replaced:
            return any(v > version for v in versions_aside(self.engine, self.view))
        looks = [f"SELECT 1 FROM {self._sql(names.log(self.view))} WHERE _vk_version > {version:d}"]
        if self.compiled.layout.dated:
            looks.append(f"SELECT 1 FROM {self._sql(names.backing(self.view))} WHERE _vk_born > {version:d}")
        return any(self.engine.execute(f"{look} LIMIT 1") for look in looks)

    def set_aside(self, version: int) -> None:
        """All stored rows leave; there is no table of them until one is made."""
        self.engine.execute(rename_sql(names.backing(self.view), names.left(self.view, version), self.dialect))

    def forget(self, version: int) -> None:
        """Drop what left up to a version."""
        if not self.replaced:
            self.engine.execute(f"DELETE FROM {self._sql(names.log(self.view))} WHERE _vk_version <= ?", [version])
            return
        for aside in versions_aside(self.engine, self.view):
            if aside <= version:
                self.engine.execute(f"DROP TABLE {self._sql(names.left(self.view, aside))}")

    def _sql(self, name: TableName) -> str:
        return table_text(name, self.dialect)


def versions_aside(engine: Engine, view: TableName) -> list[int]:
    """The versions in which all rows of a view left, as far as they are kept."""
    stored = engine.execute(
        "SELECT table_name FROM duckdb_tables() WHERE database_name = CURRENT_DATABASE() AND schema_name = ?",
        [names.SCHEMA],
    )
    of_any_view = {int(name.split("_")[1]) for (name,) in stored if name.startswith("left_")}
    return sorted(v for v in of_any_view if (names.left(view, v).name,) in stored)
