"""Which files are left to read, and whether a scan is told what it looks for: from the log's statistics alone."""

from __future__ import annotations

import pytest

from viewkeep.engine.table_format import DataFile

pruning = pytest.importorskip("viewkeep.runtime.lake.pruning", reason="Spark is not installed")
FEW = pruning.Values([10, 20, 30, 40], False)


def file(low: int | str | None, high: int | str | None, rows: int = 1_000) -> DataFile:
    return DataFile("f", rows, 1, {"k": low}, {"k": high}, {"k": 0})


@pytest.mark.parametrize(
    ("low", "high", "kept", "share"),
    [
        (1, 9, False, 0.0),
        (11, 19, False, 0.0),
        (10, 10, True, 0.25),
        (15, 35, True, 0.5),
        (0, 99, True, 1.0),
        (41, 99, False, 0.0),
        (None, None, True, 0.0),
        ("a", "z", True, 0.0),
    ],
)
def test_a_file_by_its_smallest_and_largest_value(low: int | None, high: int | None, kept: bool, share: float) -> None:
    assert (len(pruning.prune([file(low, high)], [("k", FEW)])) == 1) == kept
    assert FEW.share_in(file(low, high), "k") == share


@pytest.mark.parametrize(
    ("files", "scattered"),
    [
        ([file(0, 99), file(1, 98), file(2, 50)], True),  # in the order of another column
        ([file(0, 25), file(25, 50)], False),  # in the order of this one
        ([file(0, 99)], False),  # nobody knows what is inside
        ([file(0, 99), file(0, 99, rows=50)], False),  # one large file, the other says little
        ([file(0, 99), file(None, None)], False),
        ([], False),
    ],
)
def test_values_that_may_be_anywhere(files: list[DataFile], scattered: bool) -> None:
    assert pruning.scattered(files, "k", FEW) == scattered


def test_nothing_wanted_is_always_told() -> None:
    assert not pruning.scattered([file(0, 99), file(0, 99)], "k", pruning.Values([], False))
