"""The rows of the benchmarks, made afresh and the same in every run.

The join workload: `left_side` rows carry a key that `right_side` also has. With as many keys as right
rows each key occurs once on the right, so a left row finds one partner; with fewer, several.
The income workload: payments to gods, receivers and amounts uniform; the deleted payments are
drawn without replacement from those that were there at the start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

JOIN_SCHEMA = """
CREATE TABLE left_side (increment_id INTEGER, dummy_name VARCHAR, tid_left INTEGER);
CREATE TABLE right_side (geo_id INTEGER, dummy_location VARCHAR, tid_right INTEGER);
"""
JOIN_QUERY = "SELECT * FROM left_side INNER JOIN right_side ON tid_left = tid_right"

INCOME_SCHEMA = """
CREATE TABLE gods (uid INTEGER, user_name VARCHAR);
CREATE TABLE payments (pid INTEGER, to_uid INTEGER, amount INTEGER);
"""
INCOME_QUERY = (
    "SELECT g.user_name, SUM(p.amount) AS total, COUNT(*) AS payments "
    "FROM gods g JOIN payments p ON p.to_uid = g.uid GROUP BY g.user_name"
)


def numbered(prefix: str, ids: np.ndarray, width: int) -> pa.Array:
    """`prefix` and a number padded with zeros: made by Arrow, since millions of f-strings take seconds."""
    digits = pc.utf8_lpad(pc.cast(pa.array(ids), pa.string()), width, padding="0")
    return pc.binary_join_element_wise(prefix, digits, "")


class JoinRows:
    """Rows for both sides of the join; each call goes on where the last one stopped."""

    def __init__(self, keys: int, seed: int = 1101) -> None:
        self.keys = keys
        self._random = np.random.default_rng(seed)
        self._left = self._right = 0

    def left(self, count: int) -> pa.Table:
        ids = np.arange(self._left, self._left + count, dtype=np.int32)
        self._left += count
        columns = [ids, numbered("name_", ids, 7), self._keys(count)]
        return pa.table(columns, names=["increment_id", "dummy_name", "tid_left"])

    def right(self, count: int) -> pa.Table:
        ids = np.arange(self._right, self._right + count, dtype=np.int32)
        # A dimension: every key exactly once, in no order.
        once = count == self.keys and self._right == 0
        keys = self._random.permutation(count).astype(np.int32) if once else self._keys(count)
        self._right += count
        columns = [ids, numbered("loc_", ids, 5), keys]
        return pa.table(columns, names=["geo_id", "dummy_location", "tid_right"])

    def some_left_ids(self, count: int) -> np.ndarray:
        """Ids of left rows to remove; only those of the first load are taken, each once."""
        if not hasattr(self, "_order"):
            self._order, self._taken = self._random.permutation(self._left).astype(np.int32), 0
        self._taken += count
        return self._order[self._taken - count : self._taken]

    def _keys(self, count: int) -> np.ndarray:
        return self._random.integers(0, self.keys, count, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class Batch:
    """New payments, and the ids of those that go."""

    inserted: pa.Table
    deleted: pa.Table


class IncomeRows:
    """Gods once, then payments, batch after batch."""

    def __init__(self, gods: int, seed: int = 2202) -> None:
        self.god_count = gods
        self._random = np.random.default_rng(seed)
        self._next = self._gone = 0
        self._order = np.empty(0, dtype=np.int32)

    def gods(self) -> pa.Table:
        ids = np.arange(self.god_count, dtype=np.int32)
        return pa.table([ids, numbered("god_", ids, 6)], names=["uid", "user_name"])

    def payments(self, count: int) -> pa.Table:
        ids = np.arange(self._next, self._next + count, dtype=np.int32)
        self._next += count
        if not self._order.size:
            self._order = self._random.permutation(ids)
        receivers = self._random.integers(0, self.god_count, count, dtype=np.int32)
        amounts = self._random.integers(1, 1000, count, dtype=np.int32)
        return pa.table([ids, receivers, amounts], names=["pid", "to_uid", "amount"])

    def batch(self, inserts: int, deletes: int) -> Batch:
        gone = self._order[self._gone : self._gone + deletes]
        self._gone += deletes
        return Batch(self.payments(inserts), pa.table([gone], names=["pid"]))
