"""Files of a table or view written again by the driver, without the rows that a change is about and with those that
come.

    a large file       → a file of its own: the rows that stay; itself, if all of them do
    all small ones     → one file: the rows that stay, and all that comes

So rows that are stored in the order of a key stay in it, and small files do not pile up. DuckDB finds which rows go, in
all files at once; large files are then copied without them, one on each core, and never are in memory as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from viewkeep.catalog import TableName
from viewkeep.emit.files import PLACE, Merge, Text
from viewkeep.engine.local import Files, Local, can_be_named, can_be_told_apart
from viewkeep.engine.parquet_copy import Rows, copy_without, staying
from viewkeep.engine.spark import new_folder
from viewkeep.engine.table_format import DataFile, NewFile
from viewkeep.strategy.files import CHANGE, TOUCHED

IN_DRIVER = 30_000_000
"""Rows up to which files are written again by the driver."""
IN_DRIVER_BYTES = 2**30
LARGE = 200_000
"""Rows from which a file stays a file of its own."""
IN_MEMORY = 4_000_000
"""Rows that are read into the driver at most."""


def small_enough(touched: Sequence[DataFile]) -> bool:
    return sum(f.rows for f in touched) <= IN_DRIVER and sum(f.size for f in touched) <= IN_DRIVER_BYTES


class Rewriting:
    def __init__(self, local: Local, location: str, wanted: pa.Schema, touched: Sequence[DataFile]) -> None:
        """`wanted`: what is stored, as Arrow says it."""
        self.local, self.location, self.wanted, self.touched = local, location, wanted, touched
        self.alike = can_be_told_apart(wanted.names) and all(
            can_be_named(f.path) and _types(f.path) == _by_name(wanted) for f in touched
        )
        """Whether the files say what they hold in the same words as the table; others are read by Arrow, and cast."""

    @property
    def possible(self) -> bool:
        return self.alike or sum(f.rows for f in self.touched) <= IN_MEMORY

    def files(self, merge: Merge, change: pa.Table) -> tuple[list[NewFile], list[DataFile]]:
        """New files, and which of the touched ones they are in place of. Raises EngineError or pa.ArrowInvalid where a
        value does not fit."""
        parts, replaced, large = [self.wanted.empty_table()], list(self.touched), list[tuple[DataFile, Rows]]()
        if merge.leave is not None and self.touched:
            found = list(zip(self.touched, self._leaving(merge.leave, change), strict=True))
            small = [(file, gone) for file, gone in found if not self._stays_apart(file)]
            large = [(file, gone) for file, gone in found if self._stays_apart(file) and len(gone)]
            replaced = [file for file, _ in (*small, *large)]
            rows = read_each([file for file, _ in small], self.wanted)
            parts += [r.filter(staying(r.num_rows, gone)) for r, (_, gone) in zip(rows, small, strict=True)]
        if merge.rows is not None:
            come = self.local.query(merge.rows.sql, self._bound(merge.rows, change))
            parts.append(come.select(self.wanted.names).cast(self.wanted))
        rest = pa.concat_tables(parts)
        with new_folder(self.location) as made, ThreadPoolExecutor(os.cpu_count()) as cores:
            copies = [
                (path := made.path(number), cores.submit(copy_without, file.path, gone, path))
                for number, (file, gone) in enumerate(large, start=1)
            ]
            if rest.num_rows:
                pq.write_table(rest, made.path(0))
            made.bounds |= {path: copied.result() for path, copied in copies}
        return made.files, replaced

    def _stays_apart(self, file: DataFile) -> bool:
        return self.alike and file.rows >= LARGE

    def _leaving(self, text: Text, change: pa.Table) -> list[Rows]:
        """The numbers of the rows that go, by file."""
        found = self.local.query(text.sql, self._bound(text, change))
        file, row = (found.column(name).to_numpy() for name in PLACE)
        by_file = np.argsort(file)
        return np.split(row[by_file], np.searchsorted(file[by_file], np.arange(1, len(self.touched))))

    def _bound(self, text: Text, change: pa.Table) -> Mapping[str, pa.Table | Files]:
        known: dict[TableName, pa.Table | Files] = {CHANGE: change}
        if any(relation.table == TOUCHED for relation in text.relations.values()):
            known[TOUCHED] = self._located()
        return {name: known[relation.table] for name, relation in text.relations.items()}

    def _located(self) -> pa.Table | Files:
        """The rows of all files, and where each of them is."""
        if self.alike:
            return Files([f.path for f in self.touched], PLACE)
        parts = []
        for number, rows in enumerate(read_each(self.touched, self.wanted)):
            places = (np.full(rows.num_rows, number), np.arange(rows.num_rows))
            for name, place in zip(PLACE, places, strict=True):
                rows = rows.append_column(name, pa.array(place))
            parts.append(rows)
        return pa.concat_tables(parts)

    def stored(self) -> pa.Table | Files:
        return Files([f.path for f in self.touched]) if self.alike and self.touched else read(self.touched, self.wanted)


def read(files: Sequence[DataFile], wanted: pa.Schema) -> pa.Table:
    return pa.concat_tables([wanted.empty_table(), *read_each(files, wanted)])


def read_each(files: Sequence[DataFile], wanted: pa.Schema) -> list[pa.Table]:
    with ThreadPoolExecutor() as cores:
        return list(cores.map(lambda file: pq.ParquetFile(file.path).read().cast(wanted), files))


@lru_cache(maxsize=4096)
def _types(path: str) -> dict[str, pa.DataType]:
    """A file never changes."""
    return _by_name(pq.read_schema(path))


def _by_name(schema: pa.Schema) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in schema}
