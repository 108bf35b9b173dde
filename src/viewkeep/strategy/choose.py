"""Which program a refresh runs, and why: one place, one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from viewkeep.strategy.shape import Shape

FOREIGN_KEY, MATERIALIZED = "foreign-key", "foreign-key-materialized"
CROSSOVER = 0.6
"""Share of changed source rows from which 'auto' recomputes. Measured by `python -m bench crossover`: a
recompute that also tells what changed was slower than the incremental way at every share up to this one."""
SMALL_VIEW = 0.1
"""Share of the source rows up to which comparing a view's old and new rows costs little beside computing them. An
operator that is computed whole is computed as it was and as it is, a recompute computes it once: about twice the
work, as `python -m bench operators` shows for a LIMIT inside a query and for unpartitioned windows."""
LARGE = 1_000_000
"""Source rows from which reading them is what a refresh costs; below, any way is quick."""
READS_ALL = 0.9
"""Share of the source rows from which an incremental refresh is doubtful: statistics let it skip nothing."""
ENOUGH = 2
"""Refreshes from which something is concluded."""
WARM = 0.4
"""Share of the seconds of its creation that a query takes when it comes again: the first run of anything is slow."""
CROSSOVER_UNLOGGED = 0.2
"""The same for a view that keeps no changes, whose recompute just replaces its rows: sums cross near 20 %."""


@dataclass(frozen=True, slots=True)
class Experience:
    """What incremental refreshes have cost, and what running the query would have."""

    changed: int
    read: int
    seconds: float
    times: int
    full_seconds: float

    def speaks_against(self, changed: int, total: int) -> bool:
        """Whether it was no gain. The first time is slower than any other; a change half as large is something new."""
        if self.times < ENOUGH or 2 * changed < self.changed:
            return False
        return self.read >= READS_ALL * total and self.seconds > self.full_seconds > 0


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known before a refresh."""

    policy: str
    strategy: str
    changed_rows: Mapping[str, int]
    """Rows in the delta of each changed source."""
    source_rows: Mapping[str, int]
    """Rows of every source now."""
    not_incremental: str | None = None
    """Why the view has no incremental program, if it has none."""
    lost: str | None = None
    """Why the recorded changes cannot be trusted this time."""
    full: bool = False
    """The user asked for a full recompute."""
    keeps_changes: bool = True
    """Whether a recompute has to tell what changed."""
    time_moved: bool = False
    """Whether rows may have to come or go because time has passed."""
    anew: str | None = None
    """The operator that is computed whole at each refresh, and why, if there is one."""
    view_rows: int = 0
    """Rows that are stored of the view."""
    experience: Experience | None = None
    """Of incremental refreshes after the same kind of change."""
    is_read: bool = False
    """Whether other views read this one: a recompute would hand them all of its rows as changed."""


@dataclass(frozen=True, slots=True)
class Choice:
    strategy: str
    reason: str
    predicted_rows: int
    """Rows the chosen way is expected to read from sources and deltas."""
    dropped: dict[str, str] = field(default_factory=dict)
    """Foreign keys that cannot be relied on this time, with the reason."""


def with_foreign_keys(choice: Choice, shape: Shape, dropped: dict[str, str], parts: bool = False) -> Choice:
    """An incremental choice, told which foreign keys it relies on and which it cannot.

    `parts`: sub-trees of their graph are views of their own."""
    said = [choice.reason]
    if shape.edges:
        labels = ", ".join(sorted({e.label for e in shape.edges}))
        said.append(f"no branch for what is pointed at by {labels}")
    if dropped:
        told = ", ".join(f"{label}, as {why}" for label, why in sorted(dropped.items()))
        said.append(f"not relied on this time: {told}")
    strategy = MATERIALIZED if parts and shape.edges else shape.strategy
    return replace(choice, strategy=strategy, reason="; ".join(said), dropped=dropped)


def choose(situation: Situation) -> Choice:
    """The strategy of one refresh.

    >>> s = Situation("auto", "auto", {"payments": 10}, {"payments": 1000, "gods": 50})
    >>> choose(s).reason
    "10 of 1,050 source rows changed (1.0 %), below the 60 % from which 'auto' recomputes"
    """
    changed, total = sum(situation.changed_rows.values()), sum(situation.source_rows.values())
    share = changed / total if total else 1.0

    def full(reason: str) -> Choice:
        return Choice("recompute", reason, total)

    def incremental(reason: str) -> Choice:
        return Choice("classical", reason, changed)

    if situation.full:
        return full("asked for")
    if situation.not_incremental:
        return full(f"no incremental way: {situation.not_incremental}")
    if situation.lost:
        return full(situation.lost)
    if situation.policy == "full":
        return full("policy is 'full'")
    if situation.strategy == "recompute":
        return full("strategy is 'recompute'")
    if not changed and situation.time_moved:
        return incremental("no source changed, but time has passed")
    if not changed:
        return Choice("unchanged", "no source changed", 0)
    if situation.policy in ("incremental", "strict"):
        return incremental(f"policy is {situation.policy!r}; {changed:,} source rows changed")
    if situation.strategy in ("classical", FOREIGN_KEY, MATERIALIZED):
        return incremental(f"strategy is {situation.strategy!r}")
    if situation.anew and not situation.keeps_changes:
        return full(f"{situation.anew}, and nobody asks what changed: running the query again is cheaper")
    if situation.anew and situation.view_rows <= SMALL_VIEW * total:
        return full(f"{situation.anew}, as it was and as it is; for a small view running the query again is cheaper")
    crossover = CROSSOVER if situation.keeps_changes else CROSSOVER_UNLOGGED
    said, limit = f"{changed:,} of {total:,} source rows changed ({share * 100:.1f} %)", f"{crossover * 100:.0f} %"
    if share > crossover:
        return full(f"{said}, more than the {limit} from which 'auto' recomputes")
    last = situation.experience
    if last is not None and not situation.is_read and total >= LARGE and last.speaks_against(changed, total):
        return full(
            f"{said}; incremental refreshes after such changes read {last.read:,} rows, no fewer than the query "
            f"itself, and take {last.seconds:.1f} s, where the query takes {last.full_seconds:.1f} s"
        )
    return incremental(f"{said}, below the {limit} from which 'auto' recomputes")
