"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
import sys
import time

import duckdb


def machine() -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": _processor(),
        "cores": str(usable_cores()),
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "python": sys.version.split()[0],
        "duckdb": duckdb.__version__,
    }


QUIET = 0.3
"""Cores that other work may take before the numbers are called disturbed."""


class Neighbours:
    """How many cores other processes used since this was made.

    A recompute uses every core, a refresh mostly one: work on the other cores slows down the
    recompute most, and the ratio looks better than it is. Load averages lag by minutes, so the
    system's processor time is compared with our own.
    """

    def __init__(self) -> None:
        self._start, self._all, self._own = time.perf_counter(), _busy_seconds(), time.process_time()

    def cores(self) -> float:
        """Zero where the system does not tell."""
        elapsed = max(time.perf_counter() - self._start, 1e-9)
        others = (_busy_seconds() - self._all) - (time.process_time() - self._own)
        return max(others / elapsed, 0.0)

    def warning(self) -> str | None:
        if (cores := self.cores()) <= QUIET:
            return None
        return f"disturbed: other work took {cores:.1f} of {usable_cores()} cores; ratios look better than they are"


def _busy_seconds() -> float:
    """Processor time of everything on the machine since its start, without idling and waiting for disks."""
    try:
        with open("/proc/stat") as lines:
            user, nice, system, _idle, _wait, *interrupts = map(int, next(lines).split()[1:8])
    except OSError:  # not Linux
        return 0.0
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"
