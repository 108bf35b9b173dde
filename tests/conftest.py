"""Markers of the test suite."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: long property runs; leave them out with -m 'not slow'")
    config.addinivalue_line("markers", "spark: needs Java and takes seconds to start; leave it out with -m 'not spark'")
