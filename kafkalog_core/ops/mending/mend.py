"""What becomes of one text file: its new content, which lines are other ones, and what was found in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from kafkalog_core.errors import StorageError
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.checkpoint_text import LineEdit
    from kafkalog_core.format.names import FileKind

__all__ = ["MAX_TEXT_BYTES", "Mend", "Verdict", "first_of", "read_text", "why"]

Verdict = Literal["good", "mended", "left", "missing"]
"""`left`: something is wrong with it that is not mended here; `missing`: a broker of the release has it, or may."""

MAX_TEXT_BYTES: Final = 64 * 1024 * 1024
"""A checkpoint of a million partitions; what is larger is something else."""
_SHOWN: Final = 3
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mend:
    """One text file.

    Args:
        path: where it is, or should be.
        kind: of the file.
        topic: of the partition that it lies in; null at the top of a log directory.
        partition: its number.
        entries: how many a broker finds in it, or keys; null: there is no file.
        verdict: in one word.
        content: new content; null: it stays as it is.
        edits: lines that are other ones then.
        findings: about the file and its values as they are.
        mended: codes of the findings that the new content does away with.
        refusals: why something in it is not mended.
    """

    path: str
    kind: FileKind
    topic: str | None = None
    partition: int | None = None
    entries: int | None = None
    verdict: Verdict = "good"
    content: bytes | None = None
    edits: Sequence[LineEdit] = ()
    findings: tuple[Finding, ...] = ()
    mended: frozenset[str] = frozenset()
    refusals: tuple[Finding, ...] = ()


def read_text(path: str) -> bytes | None:
    """All of a text file; null where there is none, where the disk cannot read it, and where it is too large for one.

    Whoever checks the file says why.
    """
    try:
        with Source.open(path) as source:
            return source.read(0, source.size_bytes) if source.size_bytes <= MAX_TEXT_BYTES else None
    except StorageError:
        return None


def why(edits: Sequence[LineEdit]) -> str:
    """One sentence about the lines that change: the first ones, and how many more."""
    return first_of(edits, _of, joint="; ")


def first_of(items: Sequence[_T], text_of: Callable[[_T], str] = str, *, joint: str = ", ") -> str:
    """The first few of many, and how many more: a log directory may have a hundred thousand partitions."""
    parts = [text_of(item) for item in items[:_SHOWN]]
    more = len(items) - len(parts)
    return joint.join([*parts, f"and {more:,} more"] if more else parts)


def _of(edit: LineEdit) -> str:
    if edit.old is None:
        return f"new line {edit.new!r}: {edit.problem}"
    line = f"line {edit.number} {_short(edit.old)}"
    return f"{line} goes: {edit.problem}" if edit.new is None else f"{line} becomes {edit.new!r}: {edit.problem}"


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
