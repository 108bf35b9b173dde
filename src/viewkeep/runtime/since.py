"""From which version on somebody wants to know a view's changes."""

from __future__ import annotations

from viewkeep.errors import RefreshError
from viewkeep.runtime.database import Since
from viewkeep.runtime.reports import RefreshReport


def version_of(view: str, since: Since, history: list[RefreshReport], oldest: int, last: int) -> int:
    """The version that somebody wants changes from; an error where they are not kept, or are not there yet."""
    version = _wanted(since, history, oldest)
    if version < oldest:
        raise RefreshError(
            f"changes of {view!r} are kept from version {oldest} on, not from {version}",
            hint=f"read the view whole, then ask for changes since version {last}",
        )
    if version > last:
        raise RefreshError(f"{view!r} has no version {version} yet", hint=f"it is at version {last}")
    return version


def _wanted(since: Since, history: list[RefreshReport], oldest: int) -> int:
    match since:
        case None:
            return oldest
        case int():
            return since
        case RefreshReport():
            return since.version
        case _:
            for entry in reversed(history):
                if entry.versions == dict(since):
                    return entry.version
            raise RefreshError("no refresh of the view has these source versions", hint="see history(view)")
