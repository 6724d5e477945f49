"""`verify` over directories of the corpus, in this process, at a time that does not move."""

from __future__ import annotations

import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.findings import Finding

NOW_MS: Final = 1_796_000_000_000
"""Behind everything that the corpus's brokers wrote, before what its cases wrote of the future."""
_HERE: Final = Path(__file__).parent


def findings(*paths: Path) -> list[Finding]:
    """All findings about directories that are checked together."""
    request = VerifyRequest(targets=tuple(resolve([str(path) for path in paths])), now_ms=NOW_MS)
    return [finding for verdict in verify(request) for finding in verdict.findings]


def lines(name: str, columns: int) -> list[tuple[str, ...]]:
    """The lines of a list in this directory, cut into columns; the last one may hold blanks."""
    text = (_HERE / name).read_text()
    return [tuple(line.split(None, columns - 1)) for line in text.splitlines() if line and not line.startswith("#")]


def is_like(value: str, glob: str) -> bool:
    """Whether a text is of a glob; `*` crosses slashes."""
    return fnmatch.fnmatchcase(value, glob)


def below(path: str, directories: Iterable[Path]) -> str:
    """A path as it is below one of the directories."""
    for directory in directories:
        if path == str(directory) or path.startswith(f"{directory}/"):
            return path.removeprefix(f"{directory}/")
    return path
