"""A view with a window over all rows is stored anew at each refresh, and its old rows are set aside.

    V[new] = π(ω(R[new]))        ΔV = V[new] − V[old], when somebody asks for it

One more row in front moves the rank of every row behind it, so what changes is mostly as large as the view, and finding
it costs more than computing the view does. The table with the old rows gets another name, that of the version in which
they left (names.left); rows are not dated, as all of a table came at once. Who asks for the changes since a version
gets the rows of now without those that were there then: the oldest table that was set aside after it.
"""

from __future__ import annotations

from viewkeep.plan.nodes import Fresh, Node
from viewkeep.strategy import names
from viewkeep.strategy.layout import Layout
from viewkeep.strategy.program import Replace
from viewkeep.strategy.ranks import ranks_by_value


def replace_rows(layout: Layout, source: Node | str, fresh: Fresh, why: str, logged: bool) -> Replace:
    """Store `source` in place of all rows. Unless these are set aside, nobody can tell what has changed."""
    by_value = None if isinstance(source, str) else ranks_by_value(source, fresh)
    stamp = names.BORN if layout.dated else None
    kept_of = layout.view if logged else None
    return Replace(names.backing(layout.view), layout.columns, source, why, stamp, by_value, kept_of)
