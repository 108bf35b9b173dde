"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
import sys
import time
from importlib.metadata import version


def machine(engine: str = "duckdb") -> dict[str, str]:
    packages = ("pyspark", "deltalake") if engine == "spark" else ("duckdb",)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": _processor(),
        "cores": str(usable_cores()),
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "python": sys.version.split()[0],
        **{package: version(package) for package in packages},
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
        self._start, self._all, self._own = time.perf_counter(), _busy_seconds(), _own_seconds()

    def cores(self) -> float:
        """Zero where the system does not tell."""
        elapsed = max(time.perf_counter() - self._start, 1e-9)
        others = (_busy_seconds() - self._all) - (_own_seconds() - self._own)
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


def _own_seconds() -> float:
    """Processor time of this process and those it started: Spark's Java is one of them."""
    return time.process_time() + sum(_process_seconds(child) for child in _descendants(os.getpid()))


def _descendants(process: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/children") as line:
                for child in map(int, line.read().split()):
                    found += [child, *_descendants(child)]
    except OSError:  # not Linux, or it has just ended
        pass
    return found


def _process_seconds(process: int) -> float:
    try:
        with open(f"/proc/{process}/stat") as line:
            user, system = line.read().rpartition(")")[2].split()[11:13]
    except OSError:
        return 0.0
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"
