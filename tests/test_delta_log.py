"""What is known of a Delta table is read again whenever its log may say something else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("deltalake")
from deltalake import DeltaTable, write_deltalake

from viewkeep.engine.delta_log import DeltaLog


def append(folder: Path, start: int = 0) -> None:
    write_deltalake(str(folder), pa.table({"id": pa.array(range(start, start + 5), pa.int32())}), mode="append")


def clean_up(folder: Path, *versions: int) -> None:
    DeltaTable(str(folder)).create_checkpoint()
    for version in versions:
        os.remove(folder / "_delta_log" / f"{version:020}.json")


def commit(folder: Path) -> None:
    append(folder)


def commit_and_clean_up(folder: Path) -> None:
    """As another program does that keeps no more entries than it must."""
    append(folder)
    append(folder)
    clean_up(folder, 0, 1, 2)


def lose_the_next_entry(folder: Path) -> None:
    append(folder)
    append(folder)
    clean_up(folder, 2)


def clean_up_all(folder: Path) -> None:
    append(folder)
    append(folder)
    clean_up(folder, 0, 1, 2, 3)


def make_anew(folder: Path) -> None:
    shutil.rmtree(folder)
    append(folder, 70)
    append(folder, 80)


@pytest.mark.parametrize(
    "change",
    [commit, commit_and_clean_up, lose_the_next_entry, clean_up_all, make_anew],
    ids=lambda f: f.__name__,
)
def test_what_others_wrote_is_seen(tmp_path: Path, change: Callable[[Path], None]) -> None:
    folder = tmp_path / "t"
    append(folder)
    append(folder)
    log = DeltaLog()
    for _ in range(2):
        assert len(log.snapshot(str(folder)).files) == 2
    change(folder)
    for _ in range(2):
        seen, there = log.snapshot(str(folder)), DeltaTable(str(folder))
        assert seen.version == there.version()
        assert sorted(os.path.basename(f.path) for f in seen.files) == sorted(map(os.path.basename, there.file_uris()))


def test_an_unchanged_table_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "t"
    append(folder)
    log = DeltaLog()
    first = log.snapshot(str(folder))
    monkeypatch.setattr("viewkeep.engine.delta_log.DeltaTable", None)
    assert log.snapshot(str(folder)) is first
