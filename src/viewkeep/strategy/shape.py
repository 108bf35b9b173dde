"""The shape of a change: all that a program depends on besides its view. Programs are compiled once a shape."""

from __future__ import annotations

from dataclasses import dataclass

from viewkeep.catalog import TableName
from viewkeep.incremental.weighted import Context, Edge
from viewkeep.plan.nodes import Fresh


@dataclass(frozen=True, slots=True)
class Shape:
    changed: frozenset[str]
    """Folded names of the sources that changed."""
    lost_rows: frozenset[str] = frozenset()
    """Those that lost rows."""
    edges: frozenset[Edge] = frozenset()
    """Foreign keys that are relied on."""
    time_moved: bool = False
    """Whether rows may cross the bound of a filter on the current time."""
    guard: TableName | None = None
    """Where it is only decided while the program runs whether they can be: see Context."""
    by_size: tuple[str, ...] = ()
    """The sources that changed, the largest last, where that is known."""

    @staticmethod
    def of(
        changed: frozenset[str],
        lost_rows: frozenset[str],
        edges: frozenset[Edge] = frozenset(),
        time_moved: bool = False,
    ) -> Shape:
        """Without foreign keys it matters only whether rows were lost at all: fewer shapes, fewer programs."""
        return Shape(changed, lost_rows if edges else changed if lost_rows else frozenset(), edges, time_moved)

    @property
    def append_only(self) -> bool:
        return not self.lost_rows and not self.time_moved

    @property
    def strategy(self) -> str:
        return "foreign-key" if self.edges else "classical"

    def context(self, fresh: Fresh, time_travel: bool) -> Context:
        return Context(
            fresh, self.changed, time_travel, self.edges, self.lost_rows, self.time_moved, self.guard, self.by_size
        )
