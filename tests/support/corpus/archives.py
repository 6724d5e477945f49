"""Where the real log directories come from: the whole corpus, or the part of it that ships in `fixtures/`.

Both are directories with `old/*.tar.gz` and `modern/*.tar.gz`, one archive per case, so that the same tests run over
either. What there is to test is known from the archives' tables of contents, before anything is unpacked.
"""

from __future__ import annotations

import os
import tarfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

VARIABLE = "KAFKALOG_CORPUS"
FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
_TEXTS = ("/case.json", "/fault.json")
_LOGS = ("/files.json", "/broker.log.gz", ".cleaner.log", "/retention.log")


@dataclass(frozen=True, slots=True)
class Contents:
    """What all archives hold together.

    Args:
        files: paths in the unpacked tree.
        texts: the sheets that say how files belong together.
        logs: what brokers' logs say of their cleaners, and modification times finer than an archive's.
    """

    files: frozenset[str]
    texts: dict[str, bytes]
    logs: dict[str, bytes]


def source() -> Path:
    """The directory with the archives."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else FIXTURES


def is_whole() -> bool:
    """Whether it is the whole corpus."""
    return bool(os.environ.get(VARIABLE))


def describe() -> str:
    """One line for the head of a test run."""
    if is_whole():
        return f"corpus: the whole, from {VARIABLE}"
    return f"corpus: fixtures/ only ({VARIABLE} is not set)"


def archives(directory: Path) -> list[Path]:
    """The archives, in a stable order; none at all is an error, since every test over them would pass in silence."""
    found = sorted(directory.glob("*/*.tar.gz"))
    if not found:
        message = f"no archives in {directory}"
        raise FileNotFoundError(message)
    return found


@lru_cache(maxsize=1)
def contents(directory: Path) -> Contents:
    """Read the tables of contents: a few seconds for the whole corpus."""
    files = set()
    texts: dict[str, bytes] = {}
    logs: dict[str, bytes] = {}
    for archive in archives(directory):
        with tarfile.open(archive) as tar:
            for member in tar:
                if not member.isfile():
                    continue
                path = f"{archive.parent.name}/{member.name}"
                files.add(path)
                for endings, kept in ((_TEXTS, texts), (_LOGS, logs)):
                    if path.endswith(endings):
                        stream = tar.extractfile(member)
                        kept[path] = stream.read() if stream else b""
    return Contents(frozenset(files), texts, logs)


def unpack(directory: Path, destination: Path) -> None:
    """Unpack all archives under `destination`, modification times and empty directories included."""
    for archive in archives(directory):
        with tarfile.open(archive) as tar:
            tar.extractall(destination / archive.parent.name, filter="data")
