"""Markers of the test suite, and the engines that tests run on."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

import viewkeep
from support import Engine

# Before any Spark starts: tests run many small programs once, which the second compiler only slows down.
os.environ.setdefault("VIEWKEEP_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")
os.environ.setdefault("VIEWKEEP_DRIVER_MEMORY", "2g")

MARKERS = (
    "slow: long property runs; leave them out with -m 'not slow'",
    "spark: needs Java and takes seconds to start; leave it out with -m 'not spark'",
)


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


@cache
def why_not_spark() -> str | None:
    """Whether Spark can start here; asking starts it, and it stays for the other tests of this process."""
    try:
        from viewkeep.engine.spark_session import local_session

        local_session()
    except ImportError as missing:
        return f"Spark is not installed ({missing.name})"
    except viewkeep.ViewkeepError as error:
        return f"Spark cannot start: {error}"
    except Exception as error:  # whatever a JVM that does not come up leads to
        return f"Spark cannot start: {type(error).__name__}: {error}"
    return None


def make_engine(name: str, folder: Path) -> Engine:
    if name == "spark" and (reason := why_not_spark()):
        pytest.skip(reason)
    return Engine(name, folder)


@pytest.fixture(params=["duckdb", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    """For tests that hold on every engine."""
    return make_engine(request.param, tmp_path)


@pytest.fixture
def spark(tmp_path: Path) -> Engine:
    """For tests of the lake alone; they carry the marker `spark`."""
    return make_engine("spark", tmp_path)
