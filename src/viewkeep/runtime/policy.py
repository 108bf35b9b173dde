"""What a view's policy forbids."""

from __future__ import annotations

from viewkeep.errors import PolicyError
from viewkeep.runtime.records import ViewRecord
from viewkeep.strategy.choose import Choice


def allowed(choice: Choice, record: ViewRecord, full: bool) -> Choice:
    """The choice, unless the policy is 'strict' and it would be a recompute that nobody asked for."""
    if choice.strategy == "recompute" and record.policy == "strict" and not full:
        raise PolicyError(
            f"view {str(record.name)!r} would have to be recomputed: {choice.reason}",
            hint=f"its policy is 'strict'; REFRESH MATERIALIZED VIEW {record.name} FULL recomputes it once",
        )
    return choice
