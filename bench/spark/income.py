"""The rows of W2 on Spark: a payment is a function of its number, so Spark makes millions of them where they
are stored, and the driver can name all columns of one that goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import viewkeep
from bench.data import INCOME_QUERY, IncomeRows
from bench.measure import VIEW
from bench.spark.warehouse import fill

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_A_FILE = 1_000_000
"""Payments in one file of the table."""
_STEP = 2_654_435_761
_TO = f"CAST(shiftright((id * {_STEP}) & 4294967295, 7) % {{gods}} AS INT)"
_AMOUNT = f"CAST(1 + shiftright((id * {_STEP}) & 268435455, 5) % 999 AS INT)"


class Payments:
    """Payments by number; each batch goes on where the last one stopped."""

    def __init__(self, gods: int, count: int) -> None:
        self.gods, self.count = gods, count
        self._next, self._gone = count, 0
        # Payments are taken back while they are young. They stand in one file, so that applying the change,
        # which is not what is measured, rewrites that file and not all of them.
        young = np.arange(max(count - _A_FILE // 2, 0), count)
        self._order = np.random.default_rng(2202).permutation(young)

    def stored(self, session: SparkSession) -> DataFrame:
        files = max(self.count // _A_FILE, 1)
        receiver = _TO.format(gods=self.gods)
        return session.range(0, self.count, 1, files).selectExpr(
            "CAST(id AS INT) AS pid", f"{receiver} AS to_uid", f"{_AMOUNT} AS amount"
        )

    def batch(self, inserts: int, deletes: int) -> pa.Table:
        """Weighted rows, as `keeper.apply` takes them."""
        came = np.arange(self._next, self._next + inserts)
        gone = self._order[self._gone : self._gone + deletes]
        self._next, self._gone = self._next + inserts, self._gone + deletes
        weights = np.repeat(np.array([1, -1], dtype=np.int32), [len(came), len(gone)])
        return self._rows(np.concatenate([came, gone])).append_column("_w", pa.array(weights))

    def _rows(self, ids: np.ndarray) -> pa.Table:
        mixed = ids.astype(np.int64) * _STEP
        receivers = ((mixed & 4294967295) >> 7) % self.gods
        amounts = 1 + ((mixed & 268435455) >> 5) % 999
        columns = [ids.astype(np.int32), receivers.astype(np.int32), amounts.astype(np.int32)]
        return pa.table(columns, names=["pid", "to_uid", "amount"])


def income(keeper: viewkeep.Keeper, gods: int, payments: int) -> Payments:
    """Both tables and the view."""
    rows = Payments(gods, payments)
    keeper.sql("CREATE TABLE gods (uid INT, user_name STRING)")
    keeper.load("gods", IncomeRows(gods).gods())
    fill(keeper, "payments", rows.stored(keeper.engine.session))
    keeper.sql(f"CREATE MATERIALIZED VIEW {VIEW} WITH (policy = 'incremental') AS {INCOME_QUERY}")
    return rows
