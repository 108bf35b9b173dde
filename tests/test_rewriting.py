"""Files that the driver writes again hold what they should, however rows are spread over them."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="Spark is not installed")

from viewkeep.catalog import TableName
from viewkeep.emit.files import Merge, merge_rows
from viewkeep.engine.local import Local
from viewkeep.engine.table_format import DataFile, NewFile
from viewkeep.errors import EngineError
from viewkeep.plan.nodes import Field, Scan
from viewkeep.runtime.lake import rewriting
from viewkeep.runtime.lake.rewriting import Rewriting
from viewkeep.strategy.layout import BagLayout

SCHEMA = pa.schema([("k", pa.int32()), ("label", pa.string()), ("amount", pa.decimal128(7, 2))])
Row = tuple[int | None, str | None, int]


@pytest.fixture
def local() -> Local:
    return Local()


def layout(key: tuple[str, ...] | None = None) -> BagLayout:
    fields = (Field("c_1", "INTEGER"), Field("c_2", "VARCHAR"), Field("c_3", "DECIMAL(7, 2)"))
    scan = Scan(TableName("t"), tuple(zip(fields, SCHEMA.names, strict=True)))
    columns = tuple(SCHEMA.names)
    return BagLayout(TableName("t"), columns, fields, columns, scan, scan, False, key, "")


def table(rows: Sequence[Row], schema: pa.Schema = SCHEMA) -> pa.Table:
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


@dataclass
class Lake:
    folder: Path
    made: int = 0

    def file(self, rows: Sequence[Row], schema: pa.Schema = SCHEMA) -> DataFile:
        self.made += 1
        path = self.folder / f"{self.made}.parquet"
        pq.write_table(table(rows, schema), path)
        return DataFile(str(path), len(rows), path.stat().st_size)

    def rewrite(self, local: Local, touched: Sequence[DataFile], merge: Merge, change: pa.Table) -> list[NewFile]:
        """What the lake has then of the touched files."""
        files, replaced = Rewriting(local, str(self.folder), SCHEMA, touched).files(merge, change)
        kept = [file for file in touched if file not in replaced]
        return [*files, *(NewFile(os.path.relpath(f.path, self.folder), f.rows, f.size, "") for f in kept)]

    def rows(self, files: Sequence[NewFile]) -> Counter[Row]:
        found: Counter[Row] = Counter()
        for file in files:
            read = pq.read_table(self.folder / file.path)
            assert {f.name: f.type for f in read.schema} == {f.name: f.type for f in SCHEMA}
            assert read.num_rows == file.rows
            found.update(zip(*(read.column(n).to_pylist() for n in SCHEMA.names), strict=True))
        return found


def change(gone: Sequence[Row], come: Sequence[Row]) -> pa.Table:
    weights = pa.array([-1] * len(gone) + [1] * len(come), pa.int32())
    return table([*gone, *come]).add_column(0, "_vk_weight", weights)


@pytest.mark.parametrize("large", [1, 3, 1000])
@pytest.mark.parametrize("seed", range(6))
def test_one_copy_goes_for_each_row_that_goes(
    tmp_path: Path, local: Local, large: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal rows lie in several files, NULLs among them."""
    monkeypatch.setattr(rewriting, "LARGE", large)
    chance, lake = random.Random(seed), Lake(tmp_path)

    def row() -> Row:
        return chance.choice([None, 1, 2]), chance.choice([None, "", "a'b"]), chance.randint(0, 1)

    stored = [[row() for _ in range(chance.randint(0, 8))] for _ in range(5)]
    every = [r for rows in stored for r in rows]
    gone, come = chance.sample(every, len(every) // 2), [row() for _ in range(4)]
    files = lake.rewrite(local, [lake.file(rows) for rows in stored], merge_rows(layout()), change(gone, come))
    assert lake.rows(files) == Counter(every) - Counter(gone) + Counter(come)


def test_rows_are_found_by_a_key_and_large_files_stay_apart(
    tmp_path: Path, local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "LARGE", 3)
    lake = Lake(tmp_path)
    stored: list[list[Row]] = [[(i, "x", i) for i in range(n, n + 4)] for n in (0, 10, 20)] + [[(90, "y", 1)]]
    files = lake.rewrite(
        local,
        [lake.file(rows) for rows in stored],
        merge_rows(layout(("k",))),
        change([(11, None, 0)], [(11, "z", 5), (91, "z", 6)]),
    )
    assert sorted(f.rows for f in files) == [3, 3, 4, 4]
    assert sorted(f.path for f in files if f.statistics == "") == ["1.parquet", "3.parquet"]  # no row of theirs left
    together = [lake.rows([f]) for f in files if (11, "z", 5) in lake.rows([f])]
    assert together == [Counter([(11, "z", 5), (91, "z", 6), (90, "y", 1)])]


@pytest.mark.parametrize("key", [("k",), None])
def test_row_groups_that_are_skipped_count(
    tmp_path: Path, local: Local, key: tuple[str, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row is found where it is, also where DuckDB leaves out what is before it."""
    monkeypatch.setattr(rewriting, "LARGE", 1)
    lake, stored = Lake(tmp_path), [(n, "x", n % 7) for n in range(9000)]
    touched = []
    for start in (0, 3000, 6000):
        file = lake.file(stored[start : start + 3000])
        pq.write_table(table(stored[start : start + 3000]), file.path, row_group_size=500)
        touched.append(file)
    gone = [stored[n] for n in (1, 2999, 8321)]
    files = lake.rewrite(local, touched, merge_rows(layout(key)), change(gone, []))
    assert lake.rows(files) == Counter(stored) - Counter(gone)
    assert [f.path for f in files if f.statistics == ""] == ["2.parquet"]


@pytest.mark.parametrize("name", ["1.parquet", "a[1].parquet", "k=9"])
def test_files_that_tell_it_otherwise_are_read_by_arrow(tmp_path: Path, local: Local, name: str) -> None:
    """Another width of a type, a name that would be a pattern; and a folder that looks like a partition."""
    folder = tmp_path / name
    folder.mkdir()
    lake = Lake(folder)
    wide = pa.schema([("k", pa.int64() if name.endswith("t") else pa.int32()), *list(SCHEMA)[1:]])
    touched = [lake.file([(1, "a", 1), (2, "b", 2)], wide), lake.file([(1, "a", 1)])]
    assert Rewriting(local, str(folder), SCHEMA, touched).alike is (name == "k=9")
    files = lake.rewrite(local, touched, merge_rows(layout()), change([(1, "a", 1)], []))
    assert lake.rows(files) == Counter([(1, "a", 1), (2, "b", 2)])


def test_where_a_file_cannot_be_written_none_is_left(
    tmp_path: Path, local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "LARGE", 1)
    lake = Lake(tmp_path)
    touched = [lake.file([(1, "a", 1)]), replace(lake.file([(2, "b", 2)]), path=str(tmp_path / "gone.parquet"))]
    monkeypatch.setattr(rewriting, "_types", lambda _: rewriting._by_name(SCHEMA))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(EngineError, match=r"gone\.parquet"):
        lake.rewrite(local, touched, merge_rows(layout(("k",))), change([(1, None, 0)], []))
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", ["file_index", "FILE_ROW_NUMBER"])
def test_a_column_may_have_the_name_of_what_duckdb_knows_of_a_row(tmp_path: Path, local: Local, name: str) -> None:
    schema = pa.schema([(name, pa.int64())])
    path = tmp_path / "1.parquet"
    pq.write_table(pa.table({name: [0, 1, 1, 2]}, schema), path)
    field = Field("c_1", "BIGINT")
    scan = Scan(TableName("t"), ((field, name),))
    bag = BagLayout(TableName("t"), (name,), (field,), (name,), scan, scan, False, None, "")
    touched = [DataFile(str(path), 4, path.stat().st_size)]
    gone = pa.table({"_vk_weight": pa.array([-1], pa.int32()), name: [1]})
    files, _ = Rewriting(local, str(tmp_path), schema, touched).files(merge_rows(bag), gone)
    assert [pq.read_table(tmp_path / f.path).column(name).to_pylist() for f in files] == [[0, 1, 2]]
