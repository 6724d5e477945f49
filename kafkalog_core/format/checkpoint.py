"""The text checkpoints: four files of `topic partition offset` and `leader-epoch-checkpoint` of `epoch startOffset`.

    version LF count LF { entry LF }      (CheckpointFile.java; OffsetCheckpoint.scala before 0.10.1)

The reader is tolerant: it yields every entry that can be read and every line that can not, as data, and last of all the
`Verdict`: whether a broker takes the file as a whole (rules of 4.3.1), which the first thing wrong in it decides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from kafkalog_core.format.layout import CHECKPOINT_VERSION
from kafkalog_core.format.textfile import Failure, Refusal, iter_lines, malformed_line, parse_int32, parse_int64, split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.format.textfile import Line, MalformedLine

__all__ = [
    "EpochEntry",
    "NoEntry",
    "OffsetEntry",
    "Verdict",
    "parse_epoch_entry",
    "parse_offset_entry",
    "read_epoch_checkpoint",
    "read_offset_checkpoint",
]

_BLANKS: Final = re.compile(r"\s+", re.ASCII)
_VERSION_LINE: Final = 1
_COUNT_LINE: Final = 2
_OFFSET_PARTS: Final = 3
_EPOCH_PARTS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetEntry:
    """One line of an offset checkpoint; of two lines for one partition the last counts. `line` is from 1."""

    line: int
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEntry:
    """One line of a leader-epoch-checkpoint: the first offset of the epoch. `line` is from 1."""

    line: int
    leader_epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a broker makes of the file; `refusal` null: it reads it.

    `version` and `declared_count` are as read, null where they could not be; `entry_count` is what was found.
    """

    version: int | None
    declared_count: int | None
    entry_count: int
    refusal: Refusal | None


class NoEntry(NamedTuple):
    """Why a line is no entry, and how a broker fails on it."""

    problem: str
    failure: Failure


_EntryT = TypeVar("_EntryT", bound=OffsetEntry | EpochEntry)


def read_offset_checkpoint(chunks: Iterable[bytes]) -> Iterator[OffsetEntry | MalformedLine | Verdict]:
    """Entries and malformed lines of an offset checkpoint in their order, then the verdict. Raises nothing."""
    return _Reader(parse_offset_entry).read(chunks)


def read_epoch_checkpoint(chunks: Iterable[bytes]) -> Iterator[EpochEntry | MalformedLine | Verdict]:
    """Entries and malformed lines of a leader-epoch-checkpoint in their order, then the verdict. Raises nothing.

    A negative epoch or offset is an entry here, and a reason why a broker refuses the file.
    """
    return _Reader(parse_epoch_entry).read(chunks)


class _Reader(Generic[_EntryT]):
    """One reading of one file."""

    def __init__(self, parse: Callable[[int, str], _EntryT | NoEntry]) -> None:
        self._parse: Callable[[int, str], _EntryT | NoEntry] = parse
        self._version: int | None = None
        self._declared_count: int | None = None
        self._entry_count = 0
        self._first_refusal: Refusal | None = None

    def read(self, chunks: Iterable[bytes]) -> Iterator[_EntryT | MalformedLine | Verdict]:
        lines = 0
        for line in iter_lines(chunks):
            lines = line.number
            item = self._read_line(line)
            if item is not None:
                yield item
        if lines > _COUNT_LINE - 1 and self._declared_count != self._entry_count:
            problem = f"the count says {self._declared_count}, the number of entries is {self._entry_count}"
            self._refuse(Failure.IO, "count-mismatch", problem)
        yield Verdict(
            version=self._version,
            declared_count=self._declared_count,
            entry_count=self._entry_count,
            refusal=self._first_refusal,
        )

    def _read_line(self, line: Line) -> _EntryT | MalformedLine | None:
        if line.is_cut:
            problem = f"{line.size_bytes} bytes without a line end"
            return self._malformed(line, "malformed-line", NoEntry(problem, Failure.IO))
        try:
            text = line.data.decode("utf-8")
        except UnicodeDecodeError as error:
            problem = f"byte {line.data[error.start]:#04x} is not UTF-8"
            return self._malformed(line, "invalid-utf8", NoEntry(problem, Failure.IO))
        if line.number == _VERSION_LINE:
            return self._read_version(line, text)
        if line.number == _COUNT_LINE:
            return self._read_count(line, text)
        entry = self._parse(line.number, text)
        if isinstance(entry, NoEntry):
            return self._malformed(line, "malformed-line", entry)
        if isinstance(entry, EpochEntry) and min(entry.leader_epoch, entry.start_offset) < 0:
            problem = f"line {line.number} holds a negative epoch or offset"
            self._refuse(Failure.RUNTIME, "negative-epoch", problem)
        self._entry_count += 1
        return entry

    def _read_version(self, line: Line, text: str) -> MalformedLine | None:
        self._version = parse_int32(text)
        if self._version is None:
            return self._malformed(line, "malformed-line", NoEntry("the version is not a number", Failure.IO))
        if self._version != CHECKPOINT_VERSION:
            self._refuse(
                Failure.IO, "unsupported-version", f"version {self._version}; only {CHECKPOINT_VERSION} exists"
            )
        return None

    def _read_count(self, line: Line, text: str) -> MalformedLine | None:
        self._declared_count = parse_int32(text)
        if self._declared_count is None:
            problem = "the number of entries is not a number"
            return self._malformed(line, "malformed-line", NoEntry(problem, Failure.IO))
        if self._declared_count < 0:
            self._refuse(Failure.RUNTIME, "negative-count", f"the count says {self._declared_count}")
        return None

    def _malformed(self, line: Line, code: str, why: NoEntry) -> MalformedLine:
        self._refuse(why.failure, code, f"line {line.number}: {why.problem}")
        return malformed_line(line, why.problem)

    def _refuse(self, failure: Failure, code: str, problem: str) -> None:
        if self._first_refusal is None:
            self._first_refusal = Refusal(failure=failure, code=code, problem=problem)


def parse_offset_entry(line: int, text: str) -> OffsetEntry | NoEntry:
    """A line of an offset checkpoint; `line` is its number."""
    """What line number `line` of an offset checkpoint holds."""
    parts = split(_BLANKS, text)
    if len(parts) != _OFFSET_PARTS:
        return _wrong_parts(parts, "a topic, a partition and an offset")
    partition, offset = parse_int32(parts[1]), parse_int64(parts[2])
    if partition is None:
        return NoEntry("the partition is not a 32-bit number", Failure.RUNTIME)
    if offset is None:
        return NoEntry("the offset is not a 64-bit number", Failure.RUNTIME)
    return OffsetEntry(line=line, topic=parts[0], partition=partition, offset=offset)


def parse_epoch_entry(line: int, text: str) -> EpochEntry | NoEntry:
    """A line of a leader-epoch-checkpoint; `line` is its number."""
    """What line number `line` of a leader-epoch-checkpoint holds."""
    parts = split(_BLANKS, text)
    if len(parts) != _EPOCH_PARTS:
        return _wrong_parts(parts, "an epoch and an offset")
    leader_epoch, start_offset = parse_int32(parts[0]), parse_int64(parts[1])
    if leader_epoch is None:
        return NoEntry("the epoch is not a 32-bit number", Failure.RUNTIME)
    if start_offset is None:
        return NoEntry("the offset is not a 64-bit number", Failure.RUNTIME)
    return EpochEntry(line=line, leader_epoch=leader_epoch, start_offset=start_offset)


def _wrong_parts(parts: list[str], wanted: str) -> NoEntry:
    if not any(parts):
        return NoEntry("the line is empty", Failure.IO)
    if not parts[0]:
        return NoEntry("the line starts with a blank", Failure.IO)
    return NoEntry(f"{len(parts)} word{'s' if len(parts) > 1 else ''}, not {wanted}", Failure.IO)
