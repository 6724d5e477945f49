"""The text checkpoints: four files of `topic partition offset` and `leader-epoch-checkpoint` of `epoch startOffset`.

    version LF count LF { entry LF }      (CheckpointFile.java; OffsetCheckpoint.scala before 0.10.1)

The reader is tolerant: it yields every entry that can be read and every line that can not, as data, and last of all the
`Verdict`: whether a broker takes the file as a whole (rules of 4.3.1), which the first thing wrong in it decides.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar, overload

from kafkalog_core.errors import FieldError
from kafkalog_core.format.layout import CHECKPOINT_VERSION
from kafkalog_core.format.textfile import (
    MAX_LINE_BYTES,
    Failure,
    Line,
    Refusal,
    iter_lines,
    malformed_line,
    parse_int32,
    parse_int64,
    split,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.format.textfile import MalformedLine

__all__ = [
    "CheckpointMend",
    "EntryLine",
    "EpochEntry",
    "LineEdit",
    "NoEntry",
    "OffsetEntry",
    "Verdict",
    "encode_epoch_checkpoint",
    "encode_offset_checkpoint",
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


_T = TypeVar("_T")
_LineT = TypeVar("_LineT", OffsetEntry, EpochEntry)
_ENDS: Final = b"\r\n"
_LINE_END: Final = b"\n"
_NONE: Final = -1
_RECENT: Final = 1000
_NOISE: Final = " \t\v\f\0\ufeff"
"""What may stand before an entry so that it is none: blanks, a byte order mark, zeros of a lost block."""


class LineEdit(NamedTuple):
    """A line before and after; `number` from 1 in the old file, null for a new line; `new` null: it goes."""

    number: int | None
    old: str | None
    new: str | None
    problem: str


@dataclass(frozen=True, slots=True)
class EntryLine(Generic[_LineT]):
    """A line that should be an entry. `entry` null: it is none, for the reason `problem`."""

    number: int
    text: str
    entry: _LineT | None
    problem: str = ""


def encode_offset_checkpoint(entries: Iterable[tuple[str, int, int]]) -> bytes:
    """All bytes of an offset checkpoint of topics, partitions and offsets, in the order given."""
    return _encode([f"{topic} {partition} {offset}" for topic, partition, offset in entries])


def encode_epoch_checkpoint(epochs: Iterable[tuple[int, int]]) -> bytes:
    """All bytes of a leader-epoch-checkpoint of epochs and their first offsets, ascending."""
    return _encode([f"{epoch} {start_offset}" for epoch, start_offset in epochs])


def _encode(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in (CHECKPOINT_VERSION, len(lines), *lines)).encode("utf-8")


class CheckpointMend(Generic[_LineT]):
    """One file under repair: look at `lines`, say what becomes of the bad ones, take `content`.

    Args:
        data: the whole file.
        parse: of a line, by the kind of the file.

    Lines that are no entries are left out unless something else is said; what a broker reads is kept unless something
    is said. Lines and edits are made where they are looked at: 32 bytes are kept for each line, and new texts.
    """

    def __init__(self, data: bytes, parse: Callable[[int, str], _LineT | NoEntry]) -> None:
        self._data = data
        self._parse: Callable[[int, str], _LineT | NoEntry] = parse
        self._version: bytes | None = None
        self._count: bytes | None = None
        # of each line that may be an entry
        self._numbers, self._positions, self._sizes = array("q"), array("q"), array("q")
        self._problems, self._texts = array("i"), array("i")  # places in `_said`; -1: it is not edited, it is left out
        self._said = _Texts()
        self._new_texts, self._new_problems = array("i"), array("i")
        self._malformed = 0
        self._read()

    @property
    def lines(self) -> Sequence[EntryLine[_LineT]]:
        """The lines that are or should be entries."""
        return _Made(len(self._numbers), self._line)

    @property
    def has_lost(self) -> bool:
        """Whether entries may have been lost with what is no entry, or with the end of the file."""
        declared = None if self._count is None else _number(self._count)
        is_short = declared is None or declared > len(self._numbers)
        return bool(self._data) and (
            self._version is None
            or _number(self._version) is None
            or (self._count is not None and is_short)
            or self._malformed > 0
        )

    def is_written(self, line: EntryLine[_LineT]) -> bool:
        """Whether a line stays, or is an entry again without what stood before it."""
        return self._is_written(self._at(line))

    def drop(self, line: EntryLine[_LineT], problem: str) -> None:
        """Leave a line out."""
        self._note(self._at(line), None, problem)

    def replace(self, line: EntryLine[_LineT], text: str, problem: str) -> None:
        """Put another entry in a line's place. Raises FieldError for what is none."""
        self._entry(text)
        self._note(self._at(line), text, problem)

    def add(self, text: str, problem: str) -> None:
        """Add an entry. Raises FieldError for what is none."""
        self._entry(text)
        self._new_texts.append(self._said.place_of(text))
        self._new_problems.append(self._said.place_of(problem))

    def content(self, key: Callable[[_LineT], int] | None = None) -> tuple[bytes, Sequence[LineEdit]]:
        """The new file and what is other in it, in the order of the lines; no edits: it is the old one.

        Args:
            key: entries stand in the order that it gives; null: new ones stand last.
        """
        written = array("q", filter(self._is_written, range(len(self._numbers))))
        written.extend(range(len(self._numbers), len(self._numbers) + len(self._new_texts)))
        head_edits = self._head_edits(len(written))
        edited = array("q", (at for at, problem in enumerate(self._problems) if problem >= 0))
        count = len(head_edits) + len(edited) + len(self._new_texts)
        if not count:
            return self._data, ()

        def edit(at: int) -> LineEdit:
            if at < len(head_edits):
                return head_edits[at]
            at -= len(head_edits)
            return self._edit(edited[at] if at < len(edited) else len(self._numbers) + at - len(edited))

        if key is not None:
            written = _in_order(written, array("q", (key(self._entry(self._text(at))) for at in written)))
        content = bytearray()
        for data in chain(self._head(len(written)), map(self._written, written)):
            if content and not content.endswith((b"\n", b"\r")):  # the last line may have come without an end
                content += _LINE_END
            content += data
        return bytes(content), _Made(count, edit)

    # --- reading ------------------------------------------------------------------------------------------------------
    def _read(self) -> None:
        """Lines 1 and 2 are the version and the count, unless they are entries: then the head of the file is lost."""
        for line in iter_lines((self._data,)):
            found = self._judged(line)
            if found.entry is None and line.number == 1:
                self._version = self._raw(line.position, line.size_bytes)
                continue
            if found.entry is None and line.number == _COUNT_LINE:
                self._count = self._raw(line.position, line.size_bytes)
                continue
            self._numbers.append(line.number)
            self._positions.append(line.position)
            self._sizes.append(line.size_bytes)
            self._problems.append(_NONE)
            self._texts.append(_NONE)
            if found.entry is None:
                self._malformed += 1
                self._say_no_entry(found)

    def _judged(self, line: Line) -> EntryLine[_LineT]:
        text = line.data.decode("utf-8", "backslashreplace")
        problem = _unreadable(line)
        entry = self._parse(line.number, text) if problem is None else NoEntry(problem, Failure.IO)
        if isinstance(entry, NoEntry):
            return EntryLine(line.number, text, None, entry.problem)
        return EntryLine(line.number, text, entry)

    def _line(self, at: int) -> EntryLine[_LineT]:
        """The line at a place in `lines`."""
        position, size_bytes = self._positions[at], self._sizes[at]
        data = self._raw(position, size_bytes).rstrip(_ENDS)
        is_cut = len(data) > MAX_LINE_BYTES
        return self._judged(Line(self._numbers[at], position, size_bytes, data[:MAX_LINE_BYTES], is_cut))

    def _raw(self, position: int, size_bytes: int) -> bytes:
        return self._data[position : position + size_bytes]

    def _at(self, line: EntryLine[_LineT]) -> int:
        return bisect_left(self._numbers, line.number)

    def _entry(self, text: str) -> _LineT:
        """The entry that a new text is. Raises FieldError for what is none."""
        entry = self._parse(0, text)
        if isinstance(entry, NoEntry):
            raise FieldError(f"{text!r} is no entry: {entry.problem}")
        return entry

    def _say_no_entry(self, line: EntryLine[_LineT]) -> None:
        """An entry behind blanks is one again without them; else the line goes."""
        text = line.text.lstrip(_NOISE)
        if text != line.text and not isinstance(self._parse(line.number, text), NoEntry):
            self.replace(line, text, line.problem)
        else:
            self.drop(line, line.problem)

    # --- what becomes of a line: places in `lines`, and after them those of new entries -------------------------------
    def _note(self, at: int, text: str | None, problem: str) -> None:
        """What is said of a line last counts."""
        self._texts[at] = _NONE if text is None else self._said.place_of(text)
        self._problems[at] = self._said.place_of(problem)

    def _is_written(self, at: int) -> bool:
        return self._problems[at] == _NONE or self._texts[at] != _NONE

    def _text(self, at: int) -> str:
        """The text of an entry that is written."""
        if at >= len(self._numbers):
            return self._said[self._new_texts[at - len(self._numbers)]]
        place = self._texts[at]
        return self._line(at).text if place == _NONE else self._said[place]

    def _written(self, at: int) -> bytes:
        """The bytes of a line of the new file, with the old line end where it is an old one."""
        if at >= len(self._numbers):
            return self._text(at).encode("utf-8") + _LINE_END
        raw = self._raw(self._positions[at], self._sizes[at])
        if self._texts[at] == _NONE:
            return raw
        return self._text(at).encode("utf-8") + (_end_of(raw) or _LINE_END)

    def _edit(self, at: int) -> LineEdit:
        if at >= len(self._numbers):
            return LineEdit(None, None, self._text(at), self._said[self._new_problems[at - len(self._numbers)]])
        new = None if self._texts[at] == _NONE else self._said[self._texts[at]]
        return LineEdit(self._numbers[at], self._line(at).text, new, self._said[self._problems[at]])

    # --- the head -----------------------------------------------------------------------------------------------------
    def _head(self, count: int) -> list[bytes]:
        return [_number_line(self._version, CHECKPOINT_VERSION), _number_line(self._count, count)]

    def _head_edits(self, count: int) -> list[LineEdit]:
        if not self._data and not count:
            return []
        edits = []
        if self._version is None:
            edits.append(LineEdit(None, None, str(CHECKPOINT_VERSION), "the version is missing"))
        elif _number(self._version) != CHECKPOINT_VERSION:
            edits.append(LineEdit(1, _shown(self._version), str(CHECKPOINT_VERSION), "not the version, 0"))
        if self._count is not None and _number(self._count) != count:
            edits.append(LineEdit(_COUNT_LINE, _shown(self._count), str(count), "not the number of the entries"))
        elif self._count is None and (count or self.lines):
            edits.append(LineEdit(None, None, str(count), "the number of the entries is missing"))
        return edits


def _unreadable(line: Line) -> str | None:
    """Why no text can be had of a line."""
    if line.is_cut:
        return f"{line.size_bytes} bytes without a line end"
    try:
        line.data.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"byte {line.data[error.start]:#04x} is not UTF-8"
    return None


def _number_line(raw: bytes | None, number: int) -> bytes:
    """A line of the head: as it is where it says this number, else anew with the same line end."""
    if raw is not None and _number(raw) == number:
        return raw
    return str(number).encode("ascii") + (_end_of(raw or b"") or _LINE_END)


def _number(raw: bytes) -> int | None:
    return parse_int32(raw.rstrip(_ENDS).decode("utf-8", "backslashreplace"))


def _end_of(raw: bytes) -> bytes:
    return raw[len(raw.rstrip(_ENDS)) :]


def _shown(raw: bytes) -> str:
    return raw[:MAX_LINE_BYTES].rstrip(_ENDS).decode("utf-8", "backslashreplace")


def _in_order(places: array[int], keys: array[int]) -> array[int]:
    """Return the places by their keys; nearly always they are in order already."""
    if all(before <= after for before, after in pairwise(keys)):
        return places
    return array("q", (places[each] for each in sorted(range(len(places)), key=keys.__getitem__)))


class _Made(Sequence[_T]):
    """A sequence of a given length, whose items are made where they are looked at."""

    def __init__(self, count: int, make: Callable[[int], _T]) -> None:
        self._count = count
        self._make = make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> _T: ...

    @overload
    def __getitem__(self, index: slice) -> list[_T]: ...

    def __getitem__(self, index: int | slice) -> _T | list[_T]:
        places = range(self._count)[index]
        return [self._make(at) for at in places] if isinstance(places, range) else self._make(places)


class _Texts:
    """Texts one after another in one run of bytes; one that is said again and again is kept once."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._ends = array("q", [0])
        self._recent: dict[str, int] = {}

    def __getitem__(self, place: int) -> str:
        return self._data[self._ends[place] : self._ends[place + 1]].decode("utf-8", "surrogatepass")

    def place_of(self, text: str) -> int:
        """Keep a text; returns where it is."""
        place = self._recent.get(text)
        if place is None:
            if len(self._recent) >= _RECENT:
                self._recent.clear()
            self._recent[text] = place = len(self._ends) - 1
            self._data += text.encode("utf-8", "surrogatepass")
            self._ends.append(len(self._data))
        return place
