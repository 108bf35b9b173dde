"""Benchmarks on Spark: what a refresh costs, beside what Spark needs to run the query again and write a Delta table."""

from __future__ import annotations

from collections.abc import Callable

from bench.tables import Result


def benchmarks() -> dict[str, Callable[[bool], Result]]:
    from bench.spark.foreign_keys import foreign_keys
    from bench.spark.growth import growth
    from bench.spark.profiling import profiling
    from bench.spark.tpch import tpch
    from bench.spark.w2 import w2

    return {"w2": w2, "tpch": tpch, "growth": growth, "foreign-keys": foreign_keys, "profile": profiling}
