"""How a view is stored, as far as there is a choice: it is made with the view and kept for as long as it lives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    kept: int = 1
    """How many values a group keeps where its smallest or largest is asked for: strategy/runners_up.py. At 0.1 %
    deleted rows a refresh, some group of ten thousand runs out of four after about 35 refreshes (of three after 12),
    and each costs another column."""
    bounded: bool = False
    """Whether only the first rows are stored where a LIMIT shows a few of them: strategy/bounded.py."""


PLAIN = Form()
OF_DIALECT = {"spark": Form(kept=4)}
"""For programs that nobody watches: a bound has to be moved now and then."""
EMBEDDED = Form(bounded=True)
