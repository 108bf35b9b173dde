"""Files of a table or view written again by the driver, without the rows that a change is about and with those that
come.

    a large file       → a file of its own: the rows that stay
    all small ones     → one file: the rows that stay, and all that comes

So rows that are stored in the order of a key stay in it, and small files do not pile up. Large files never are in
memory as a whole: DuckDB reads and writes them, one on each core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import pyarrow as pa
import pyarrow.parquet as pq

from viewkeep.emit.files import Merge, Text
from viewkeep.engine.local import Files, Local, can_be_named
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
        self.alike = all(can_be_named(f.path) and _types(f.path) == _by_name(wanted) for f in touched)
        """Whether the files say what they hold in the same words as the table; others are read by Arrow, and cast."""

    @property
    def possible(self) -> bool:
        return self.alike or sum(f.rows for f in self.touched) <= IN_MEMORY

    def files(self, merge: Merge, change: pa.Table) -> list[NewFile]:
        """What is in place of the touched files then. Raises EngineError or pa.ArrowInvalid where a value does not
        fit."""
        large = [f for f in self.touched if self._stays_apart(f)]
        small = [f for f in self.touched if not self._stays_apart(f)]
        parts = [self.wanted.empty_table()]
        if merge.stay is not None and small:
            parts.append(self._rows(merge.stay, change, small))
        if merge.rows is not None:
            parts.append(self._rows(merge.rows, change, self.touched))
        rest = pa.concat_tables(parts)
        with new_folder(self.location) as made, ThreadPoolExecutor() as cores:
            written = [
                cores.submit(self._write, merge.stay, change, file, made.path(number))
                for number, file in enumerate(large, start=1)
                if merge.stay is not None
            ]
            if rest.num_rows:
                pq.write_table(rest, made.path(0))
            for each in written:
                each.result()
        return made.files

    def _stays_apart(self, file: DataFile) -> bool:
        return self.alike and file.rows >= LARGE

    def _write(self, text: Text, change: pa.Table, file: DataFile, path: str) -> None:
        self.local.write(text.sql, self._bound(text, change, [file]), path)

    def _rows(self, text: Text, change: pa.Table, files: Sequence[DataFile]) -> pa.Table:
        found = self.local.query(text.sql, self._bound(text, change, files))
        return found.select(self.wanted.names).cast(self.wanted)

    def _bound(self, text: Text, change: pa.Table, files: Sequence[DataFile]) -> Mapping[str, pa.Table | Files]:
        known: dict[str, pa.Table | Files] = {}
        for name, relation in text.relations.items():
            if relation.table == CHANGE:
                known[name] = change
            else:
                assert relation.table == TOUCHED
                known[name] = self.stored(files)
        return known

    def stored(self, files: Sequence[DataFile]) -> pa.Table | Files:
        return Files([f.path for f in files]) if self.alike and files else read(files, self.wanted)


def read(files: Sequence[DataFile], wanted: pa.Schema) -> pa.Table:
    with ThreadPoolExecutor() as cores:
        parts = list(cores.map(lambda file: pq.ParquetFile(file.path).read().cast(wanted), files))
    return pa.concat_tables(parts) if parts else wanted.empty_table()


@lru_cache(maxsize=4096)
def _types(path: str) -> dict[str, pa.DataType]:
    """A file never changes."""
    return _by_name(pq.read_schema(path))


def _by_name(schema: pa.Schema) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in schema}
