"""Where generated data lies between runs: outside of the repository."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def data_folder() -> Path:
    given = os.environ.get("VIEWKEEP_BENCH_DATA")
    return Path(given) if given else Path(tempfile.gettempdir()) / "viewkeep-bench-data"
