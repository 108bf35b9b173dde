"""A local Spark session, tuned for many small jobs beside a few large ones."""

from __future__ import annotations

import os
import sys
import warnings
from importlib.resources import files

from pyspark.sql import SparkSession

from viewkeep.engine.java import find_java


def local_session() -> SparkSession:
    """The session of this process, started if there is none. It lives as long as the process: starting
    one takes seconds, and every keeper names its relations apart."""
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    find_java()
    if sys.stderr.isatty():
        print("viewkeep: starting Spark …", file=sys.stderr, flush=True)
    # Rows come and go as Arrow; which pandas there is does not matter.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(f"local[{_cores()}]").appName("viewkeep")
    for key, value in _settings().items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _settings() -> dict[str, str]:
    quiet = files("viewkeep.engine").joinpath("log4j2.properties")
    java = f"-XX:+UseSerialGC -Dlog4j2.configurationFile=file:{quiet} {os.environ.get('VIEWKEEP_JAVA_OPTIONS', '')}"
    return {
        "spark.driver.extraJavaOptions": java.strip(),
        "spark.driver.memory": os.environ.get("VIEWKEEP_DRIVER_MEMORY", "4g"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # Small shuffles: with the default of 200 partitions they are three times slower.
        "spark.sql.shuffle.partitions": str(_cores()),
        "spark.sql.adaptive.enabled": "true",
        # Each aggregate and each sort of a task takes a page first, by default of 64 MB. A long change has dozens of
        # them in one task: it ran out of memory over tables of thirty rows. Large tables are as fast with small pages.
        "spark.buffer.pageSize": "2m",
        # A table's files are listed from its log: Spark need not look for them in a job of its own.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Else every error is also logged, with all of its Java trace, and says where in viewkeep it was.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
