"""Short lists that stand next to the tests as text, each line a glob over ids of snapshots and the reason for it."""

from __future__ import annotations

import fnmatch
from pathlib import Path

_HERE = Path(__file__).parents[2] / "corpus"


def read(name: str) -> dict[str, str]:
    """Reasons by glob, of a file in `tests/corpus`; `#` starts a comment line."""
    found = {}
    for line in (_HERE / name).read_text().splitlines():
        if line and not line.startswith("#"):
            glob, reason = line.split(None, 1)
            found[glob] = reason
    return found


def matching(globs: dict[str, str], path: str) -> list[str]:
    """The globs that a label matches; `*` crosses slashes."""
    return [glob for glob in globs if fnmatch.fnmatchcase(path, glob)]
