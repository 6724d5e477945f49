"""`verify` over directories of the corpus, in this process, at a time that does not move."""

from __future__ import annotations

import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from tests.support.corpus import archives
from tests.support.corpus.faults import BEFORE, SHEET, Fault

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


def faults_before() -> list[Fault]:
    """The faults whose state before the start is known."""
    texts = archives.contents(archives.source()).texts
    found = [Fault.parse(path.removesuffix(f"/{SHEET}"), text) for path, text in texts.items() if path.endswith(SHEET)]
    return sorted((fault for fault in found if BEFORE in fault.states), key=lambda fault: fault.path)


def name_of(fault: Fault) -> str:
    """Its base and its name."""
    return "/".join(fault.path.rsplit("/", 2)[1:])


def log_dirs_of(home: Path, fault: Fault) -> list[Path]:
    """The log directories of a fault's broker; some of them may be gone."""
    prefix = f"{fault.base}/"
    files = [
        name.removeprefix(prefix) for name in archives.contents(archives.source()).files if name.startswith(prefix)
    ]
    if "meta.properties" in files:
        return [home]
    return [home / name for name in sorted({name.split("/")[0] for name in files})]


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
