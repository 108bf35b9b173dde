"""A few columns of a table's files, or of its changes, in the driver.

A question about keys reads one column of a table, and a change of a star reads dimensions, which are small. For some
millions of rows the driver has an answer before a Spark job would have started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from viewkeep.emit.files import Text
from viewkeep.engine.delta_log import arrow_schema
from viewkeep.engine.local import is_simple
from viewkeep.engine.table_format import Change, DataFile, Snapshot
from viewkeep.errors import EngineError
from viewkeep.plan.nodes import State
from viewkeep.runtime.lake.sources import Sources
from viewkeep.runtime.lake.staged import MOST_ROWS
from viewkeep.strategy import names
from viewkeep.strategy.pruning import Relation

MOST_READ = 20_000_000
"""Rows of which a column is read in the driver, of all relations of a query together."""
Prune = Callable[[Relation], tuple[Snapshot, tuple[DataFile, ...]]]


class Columns:
    """`prune`: the version of a table that a relation means, and those of its files that can matter."""

    def __init__(self, sources: Sources, changed: Mapping[str, Change], prune: Prune) -> None:
        self.sources, self.changed, self.prune = sources, changed, prune
        self.read: list[DataFile] = []
        """Files that were looked into."""

    def of(self, text: Text, most: int | None = None) -> dict[str, pa.Table] | None:
        """All that a query reads, by the names that it has for it; None where that is too much for the driver, or
        cannot be had from files alone. `most`: rows, if fewer than for one column. Raises where a file is not as it
        should be."""
        found, rows, most = {}, 0, min(MOST_READ, most or MOST_READ)
        for name, relation in text.relations.items():
            parts = self._parts(relation)
            if parts is None:
                return None
            snapshot, weighted = parts
            rows += sum(f.rows for files, _ in weighted for f in files)
            if rows > most or not self._readable(snapshot, text.columns[name]):
                return None
            found[name] = (relation.state is State.DELTA, snapshot, weighted, text.columns[name])
        self.read += [f for _, _, weighted, _ in found.values() for files, _ in weighted for f in files]
        return {name: _table(*asked) for name, asked in found.items()}

    def _parts(self, relation: Relation) -> tuple[Snapshot, list[tuple[Sequence[DataFile], int | None]]] | None:
        """Files, each with the weight of its rows; None: it is in the file."""
        if relation.table.folded in self.sources.records:
            return None  # a view is more than its files
        if relation.state is not State.DELTA:
            snapshot, files = self.prune(relation)
            return None if snapshot.by_version else (snapshot, [(files, 1)])
        change = self.changed[relation.table.folded]
        if change.between is not None or change.feed or change.inserted + change.deleted > MOST_ROWS:
            return None
        return self.sources.now(relation.table), [(change.added, 1), (change.removed, -1), (change.recorded, None)]

    def _readable(self, snapshot: Snapshot, columns: Sequence[str]) -> bool:
        """Whether the files have the columns, with values that all engines compare alike."""
        types = {f.name: f.type for f in arrow_schema(snapshot.schema)}
        asked = [c for c in columns if c != names.WEIGHT]
        return all(c not in snapshot.partitioned_by and c in types and is_simple(types[c]) for c in asked)


def _table(
    is_delta: bool,
    snapshot: Snapshot,
    weighted: list[tuple[Sequence[DataFile], int | None]],
    columns: Sequence[str],
) -> pa.Table:
    types = {f.name: f.type for f in arrow_schema(snapshot.schema)}
    plain = [c for c in columns if c != names.WEIGHT]
    wanted = pa.schema([*([(names.WEIGHT, pa.int32())] if is_delta else []), *((c, types[c]) for c in plain)])
    parts = [wanted.empty_table()]
    for files, weight in weighted:
        for file in files:
            told = is_delta and weight is None
            rows = pq.ParquetFile(file.path).read([names.WEIGHT, *plain] if told else plain)
            if missing := set(plain) - set(rows.column_names):  # the file is older than the column
                raise EngineError(f"file {file.path!r} has no column {min(missing)!r}")
            if is_delta and weight is not None:
                rows = rows.append_column(names.WEIGHT, pa.array(np.full(rows.num_rows, weight, dtype="int32")))
            parts.append(rows.select(wanted.names).cast(wanted))
    return pa.concat_tables(parts)
