"""A file that is copied without some rows has the others, and says the same of itself whoever wrote it."""

from __future__ import annotations

import json
import random
from datetime import date
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="Spark is not installed")

from viewkeep.engine.parquet_copy import copy_without
from viewkeep.engine.spark import new_folder

NOTHING = np.array([], dtype=np.int64)


def by_arrow(rows: pa.Table, path: Path) -> None:
    pq.write_table(rows, path, row_group_size=1000)


def without_dictionaries(rows: pa.Table, path: Path) -> None:
    pq.write_table(rows, path, use_dictionary=False, row_group_size=1000)


def with_a_dictionary_that_overflows(rows: pa.Table, path: Path) -> None:
    pq.write_table(rows, path, dictionary_pagesize_limit=64, data_page_size=256)


def by_duckdb(rows: pa.Table, path: Path) -> None:
    with duckdb.connect() as db:
        db.register("r", rows)
        db.sql("SELECT * FROM r").write_parquet(str(path), row_group_size=2048)


@pytest.mark.parametrize(
    "write", [by_arrow, without_dictionaries, with_a_dictionary_that_overflows, by_duckdb], ids=lambda w: w.__name__
)
@pytest.mark.parametrize("seed", range(3))
def test_the_rows_that_stay_are_there_in_their_order(tmp_path: Path, write: object, seed: int) -> None:
    assert callable(write)
    chance, count = random.Random(seed), 5000
    rows = pa.table(
        {
            "few": pa.array(chance.choices([None, "", "ä", "a'b"], k=count), pa.string()),
            "many.of them": pa.array([f"text {chance.randrange(10**9)}" for _ in range(count)], pa.string()),
            "none": pa.array([None] * count, pa.string()),
            "n": pa.array([chance.choice([None, chance.randrange(10)]) for _ in range(count)], pa.int32()),
        }
    )
    write(rows, tmp_path / "old.parquet")
    gone = chance.sample(range(count), chance.choice([0, 1, 300, 4999])) + list(range(count - 1200, count))
    stay = sorted(set(range(count)) - set(gone))
    with new_folder(str(tmp_path)) as made:
        made.bounds[made.path(0)] = copy_without(
            str(tmp_path / "old.parquet"), np.array(gone, dtype=np.int64), made.path(0)
        )
    wanted = rows.take(stay)
    if not wanted.num_rows:
        assert not made.files
        return
    found = pq.read_table(made.path(0))
    assert found.cast(rows.schema).equals(wanted)
    assert found.schema.types == rows.schema.types
    said = json.loads(made.files[0].statistics)
    texts = [text for text in wanted.column("few").to_pylist() if text is not None]
    assert (said["minValues"].get("few"), said["maxValues"].get("few")) == (
        min(texts, default=None),
        max(texts, default=None),
    )
    assert said["nullCount"]["few"] == wanted.column("few").null_count
    assert "none" not in said["minValues"]
    assert said["nullCount"]["none"] == wanted.num_rows
    assert "many.of them" not in said["minValues"]


def test_a_file_without_rows_is_copied_too(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([], pa.string())}), tmp_path / "old.parquet")
    copy_without(str(tmp_path / "old.parquet"), NOTHING, str(tmp_path / "new.parquet"))
    assert pq.read_table(tmp_path / "new.parquet").num_rows == 0


def test_a_copy_says_the_same_of_itself(tmp_path: Path) -> None:
    """Values, types, and the statistics by which files are left out."""
    kinds = {
        pa.int8(): [-128, None, 127],
        pa.int64(): [-(2**63), 2**63 - 1, None],
        pa.string(): ["", "ä€😀" * 5, None],
        pa.date32(): [date(1, 1, 1), None, date(9999, 12, 31)],
        pa.timestamp("us", "UTC"): [-(10**15), None, 10**16],
        pa.timestamp("us"): [None, 1, -1],
        pa.decimal128(5, 2): [Decimal("-999.99"), Decimal("0.01"), None],
        pa.decimal128(38, 0): [Decimal(10**37), None, Decimal(-(10**37))],
        pa.bool_(): [True, None, False],
        pa.int32(): [None, None, None],
    }
    rows = pa.table({str(kind): pa.array(values, kind) for kind, values in kinds.items()})
    with new_folder(str(tmp_path)) as made:
        pq.write_table(rows, made.path(0))
        made.bounds[made.path(1)] = copy_without(made.path(0), NOTHING, made.path(1))
    ours, theirs = made.files
    assert pq.read_table(made.path(1)).equals(rows)
    assert json.loads(ours.statistics) == json.loads(theirs.statistics)
