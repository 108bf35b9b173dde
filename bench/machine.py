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


def busy() -> str | None:
    """Why the numbers would not be worth keeping, if other work runs beside them.

    A recompute uses every core, a refresh mostly one: work on the other cores slows down the
    recompute alone, and the ratio looks better than it is.
    """
    if (taken := _cores_taken()) <= 0.3:
        return None
    return f"the machine is busy ({taken:.1f} of {usable_cores()} cores): recompute suffers most, ratios look too good"


def _cores_taken(during: float = 1.0) -> float:
    """How many cores other work uses now; the load average still remembers what ended minutes ago."""
    try:
        idle = _idle_seconds()
        time.sleep(during)
        return max((os.cpu_count() or 1) - (_idle_seconds() - idle) / during, 0.0)
    except OSError:  # not Linux
        return os.getloadavg()[0]


def _idle_seconds() -> float:
    """Idle and waiting-for-disk time of all cores since the start of the system."""
    with open("/proc/stat") as lines:
        fields = next(lines).split()
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"
