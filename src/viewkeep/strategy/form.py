"""How a view is stored, as far as there is a choice: it is made with the view and kept for as long as it lives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    kept: int = 1
    """How many values a group keeps where its smallest or largest is asked for: strategy/runners_up.py. Each costs
    another column, and the fewer there are, the sooner some group runs out of them (decision 022)."""
    bounded: bool = False
    """Whether only the first rows are stored where a LIMIT shows a few of them: strategy/bounded.py."""
    ranked: bool = False
    """Whether so they are where a rank shows a few, or where groups of the first are shown."""
    keyed: bool = False
    """Whether the key of the rows is stored where the user has left it out: strategy/hidden_key.py."""
    replaced: bool = False
    """Whether all rows are stored anew at each refresh where a window is over all of them: strategy/replaced.py."""


PLAIN = Form()
ON_A_LAKE = Form(kept=4)
EMBEDDED = Form(bounded=True, ranked=True, keyed=True, replaced=True)
"""Of a database that viewkeep watches: a bound has to be moved now and then, and a key may turn out not to be one."""
