"""The text checkpoints: four files of `topic partition offset` and `leader-epoch-checkpoint` of `epoch startOffset`.

    version LF count LF { entry LF }      (CheckpointFile.java; OffsetCheckpoint.scala before 0.10.1)

The reader is tolerant: it yields every entry, and every line that is not one, as data. Last it yields the
`CheckpointVerdict`: whether a broker reads the file (rules of 4.3.1). The first error in the file decides that.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar, overload

from kafkalog_core.errors import FieldError
from kafkalog_core.format.layout import CHECKPOINT_VERSION
from kafkalog_core.format.textfile import (
    MAX_LINE_BYTES,
    Failure,
    FileRefusal,
    Line,
    iter_lines,
    malformed_line,
    parse_int32,
    parse_int64,
    split,
)
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.format.textfile import MalformedLine

__all__ = [
    "MAX_CHECKPOINT_BYTES",
    "CheckpointEpoch",
    "CheckpointMend",
    "CheckpointOffset",
    "CheckpointVerdict",
    "EntryLine",
    "LineEdit",
    "NoEntry",
    "encode_epoch_checkpoint",
    "encode_offset_checkpoint",
    "parse_epoch_entry",
    "parse_offset_entry",
    "read_epoch_checkpoint",
    "read_offset_checkpoint",
]


MAX_CHECKPOINT_BYTES: Final = 64 * 1024 * 1024
"""Size of a checkpoint of a million partitions; a larger file is not a checkpoint."""
_BLANKS: Final = re.compile(r"\s+", re.ASCII)
_VERSION_LINE: Final = 1
_COUNT_LINE: Final = 2
_DECODED_BYTES: Final = 8192
_OFFSET_PARTS: Final = 3
_EPOCH_PARTS: Final = 2


class CheckpointOffset(Struct, frozen=True, kw_only=True):
    """A line of an offset checkpoint, number `line` (from 1). Of two lines for one partition the last one counts."""

    line: int
    topic: str
    partition: int
    offset: int


class CheckpointEpoch(Struct, frozen=True, kw_only=True):
    """A line of a leader-epoch-checkpoint: the first offset of an epoch. `line`: its number, from 1."""

    line: int
    leader_epoch: int
    start_offset: int


class CheckpointVerdict(Struct, frozen=True, kw_only=True):
    """Whether a broker reads the file: it does if `refusal` is `None`.

    `version` and `declared_count` are `None` where they cannot be read; `entry_count` is the number of entries found.
    """

    version: int | None
    declared_count: int | None
    entry_count: int
    refusal: FileRefusal | None


class NoEntry(NamedTuple):
    """Why a line is not an entry, and how a broker fails on it."""

    problem: str
    failure: Failure


_EntryT = TypeVar("_EntryT", bound=CheckpointOffset | CheckpointEpoch)


def read_offset_checkpoint(chunks: Iterable[bytes]) -> Iterator[CheckpointOffset | MalformedLine | CheckpointVerdict]:
    """Yield the entries and malformed lines of an offset checkpoint in their order, then the verdict. Raise nothing."""
    return _Reader(parse_offset_entry).read(chunks)


def read_epoch_checkpoint(chunks: Iterable[bytes]) -> Iterator[CheckpointEpoch | MalformedLine | CheckpointVerdict]:
    """Yield the entries and malformed lines of a leader-epoch-checkpoint in their order, then the verdict.

    A line with a negative epoch or offset is an entry, and a reason for the broker to refuse the file.
    """
    return _Reader(parse_epoch_entry).read(chunks)


class _Reader(Generic[_EntryT]):
    """One reading of one file."""

    def __init__(self, parse: Callable[[int, str], _EntryT | NoEntry]) -> None:
        self._parse: Callable[[int, str], _EntryT | NoEntry] = parse
        self._version: int | None = None
        self._declared_count: int | None = None
        self._entry_count = 0
        self._first_refusal: FileRefusal | None = None

    def read(self, chunks: Iterable[bytes]) -> Iterator[_EntryT | MalformedLine | CheckpointVerdict]:
        lines = 0
        for line in iter_lines(chunks):
            lines = line.number
            item = self._read_line(line)
            if item is not None:
                yield item
        if lines > _COUNT_LINE - 1 and self._declared_count != self._entry_count:
            problem = f"the declared number of entries is {self._declared_count}, but the file has {self._entry_count}"
            self._refuse(Failure.IO, "count-mismatch", problem)
        yield CheckpointVerdict(
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
            if line.position + error.start < _DECODED_BYTES:
                self._first_refusal = None  # BufferedReader decodes this much before the first line is looked at
            return self._malformed(line, "invalid-utf8", NoEntry(problem, Failure.IO))
        if line.number == _VERSION_LINE:
            return self._read_version(line, text)
        if line.number == _COUNT_LINE:
            return self._read_count(line, text)
        entry = self._parse(line.number, text)
        if isinstance(entry, NoEntry):
            return self._malformed(line, "malformed-line", entry)
        if isinstance(entry, CheckpointEpoch) and min(entry.leader_epoch, entry.start_offset) < 0:
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
            self._refuse(Failure.RUNTIME, "negative-count", f"the declared number of entries is {self._declared_count}")
        return None

    def _malformed(self, line: Line, code: str, why: NoEntry) -> MalformedLine:
        self._refuse(why.failure, code, f"line {line.number}: {why.problem}")
        return malformed_line(line, why.problem)

    def _refuse(self, failure: Failure, code: str, problem: str) -> None:
        if self._first_refusal is None:
            self._first_refusal = FileRefusal(failure=failure, code=code, problem=problem)


def parse_offset_entry(line: int, text: str) -> CheckpointOffset | NoEntry:
    """Return the entry that a line of an offset checkpoint holds, or why it is not one; `line` is its number."""
    parts = split(_BLANKS, text)
    if len(parts) != _OFFSET_PARTS:
        return _wrong_parts(parts, "a topic, a partition and an offset")
    partition, offset = parse_int32(parts[1]), parse_int64(parts[2])
    if partition is None:
        return NoEntry("the partition is not a 32-bit number", Failure.RUNTIME)
    if offset is None:
        return NoEntry("the offset is not a 64-bit number", Failure.RUNTIME)
    return CheckpointOffset(line=line, topic=parts[0], partition=partition, offset=offset)


def parse_epoch_entry(line: int, text: str) -> CheckpointEpoch | NoEntry:
    """Return the entry that a line of a leader-epoch-checkpoint holds, or why it is not one; `line` is its number."""
    parts = split(_BLANKS, text)
    if len(parts) != _EPOCH_PARTS:
        return _wrong_parts(parts, "an epoch and an offset")
    leader_epoch, start_offset = parse_int32(parts[0]), parse_int64(parts[1])
    if leader_epoch is None:
        return NoEntry("the epoch is not a 32-bit number", Failure.RUNTIME)
    if start_offset is None:
        return NoEntry("the offset is not a 64-bit number", Failure.RUNTIME)
    return CheckpointEpoch(line=line, leader_epoch=leader_epoch, start_offset=start_offset)


def _wrong_parts(parts: list[str], wanted: str) -> NoEntry:
    if not any(parts):
        return NoEntry("the line is empty", Failure.IO)
    if not parts[0]:
        return NoEntry("the line starts with a blank", Failure.IO)
    return NoEntry(f"{len(parts)} word{'s' if len(parts) > 1 else ''}, not {wanted}", Failure.IO)


_T = TypeVar("_T")
_LineT = TypeVar("_LineT", CheckpointOffset, CheckpointEpoch)
_ENDS: Final = b"\r\n"
_LINE_END: Final = b"\n"
_NONE: Final = -1
_RECENT: Final = 1000
_NOISE: Final = " \t\v\f\0\ufeff"
"""Characters before an entry that make it unreadable: blanks, a byte order mark, zeros of a lost disk block."""


class LineEdit(NamedTuple):
    """A changed line. `number`: in the old file, from 1; `None` for a new line. `new` is `None` for a removed line."""

    number: int | None
    old: str | None
    new: str | None
    problem: str


class EntryLine(Struct, Generic[_LineT], frozen=True):
    """A line that should be an entry. `entry` is `None` if it is not one, for the reason `problem`."""

    number: int
    text: str
    entry: _LineT | None
    problem: str = ""


def encode_offset_checkpoint(entries: Iterable[tuple[str, int, int]]) -> bytes:
    """Return the content of an offset checkpoint with these topics, partitions and offsets, in this order."""
    return _encode([f"{topic} {partition} {offset}" for topic, partition, offset in entries])


def encode_epoch_checkpoint(epochs: Iterable[tuple[int, int]]) -> bytes:
    """Return the content of a leader-epoch-checkpoint with these epochs and their first offsets, ascending."""
    return _encode([f"{epoch} {start_offset}" for epoch, start_offset in epochs])


def _encode(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in (CHECKPOINT_VERSION, len(lines), *lines)).encode("utf-8")


class CheckpointMend(Generic[_LineT]):
    """The repair of one file: read `lines`, `drop`, `replace` or `add` some, then take `content`.

    Args:
        data: the whole file.
        parse: parses one line, by the kind of the file.

    By default lines that are not entries are dropped and all others are kept. Lines and edits are created when they
    are accessed; in memory are 32 bytes for each line, and the new texts.
    """

    def __init__(self, data: bytes, parse: Callable[[int, str], _LineT | NoEntry]) -> None:
        self._data = data
        self._parse: Callable[[int, str], _LineT | NoEntry] = parse
        self._version: bytes | None = None
        self._count: bytes | None = None
        # one for each line that may be an entry
        self._numbers, self._positions, self._sizes = array("q"), array("q"), array("q")
        self._problems, self._texts = array("i"), array("i")  # indices into `_said`; -1: not edited, dropped
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
        """Whether entries may be missing: a line is malformed, or the file ends early."""
        declared = None if self._count is None else _number(self._count)
        is_short = declared is None or declared > len(self._numbers)
        return bool(self._data) and (
            self._version is None
            or _number(self._version) is None
            or (self._count is not None and is_short)
            or self._malformed > 0
        )

    def is_written(self, line: EntryLine[_LineT]) -> bool:
        """Return whether the new file has this line, as it is or replaced."""
        return self._is_written(self._at(line))

    def drop(self, line: EntryLine[_LineT], problem: str) -> None:
        """Drop a line."""
        self._note(self._at(line), None, problem)

    def replace(self, line: EntryLine[_LineT], text: str, problem: str) -> None:
        """Replace a line by another entry. Raises FieldError if the text is not an entry."""
        self._entry(text)
        self._note(self._at(line), text, problem)

    def add(self, text: str, problem: str) -> None:
        """Add an entry. Raises FieldError if the text is not one."""
        self._entry(text)
        self._new_texts.append(self._said.place_of(text))
        self._new_problems.append(self._said.place_of(problem))

    def content(self, key: Callable[[_LineT], int] | None = None) -> tuple[bytes, Sequence[LineEdit]]:
        """Return the new content and its edits, in the order of the lines. Without edits it is the old content.

        Args:
            key: sort key of the entries; `None`: keep the order, new entries last.
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
            if content and not content.endswith((b"\n", b"\r")):  # the last line may lack its line end
                content += _LINE_END
            content += data
        return bytes(content), _Made(count, edit)

    # --- reading ------------------------------------------------------------------------------------------------------
    def _read(self) -> None:
        """Read all lines. Lines 1 and 2 are version and count, unless they are entries: then the head is missing."""
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
        """Return the line at an index of `lines`."""
        position, size_bytes = self._positions[at], self._sizes[at]
        data = self._raw(position, size_bytes).rstrip(_ENDS)
        is_cut = len(data) > MAX_LINE_BYTES
        return self._judged(Line(self._numbers[at], position, size_bytes, data[:MAX_LINE_BYTES], is_cut))

    def _raw(self, position: int, size_bytes: int) -> bytes:
        return self._data[position : position + size_bytes]

    def _at(self, line: EntryLine[_LineT]) -> int:
        return bisect_left(self._numbers, line.number)

    def _entry(self, text: str) -> _LineT:
        """Parse a new text. Raises FieldError if it is not an entry."""
        entry = self._parse(0, text)
        if isinstance(entry, NoEntry):
            raise FieldError(f"{text!r} is not an entry: {entry.problem}")
        return entry

    def _say_no_entry(self, line: EntryLine[_LineT]) -> None:
        """Remove the blanks before an entry that has some; drop any other malformed line."""
        text = line.text.lstrip(_NOISE)
        if text != line.text and not isinstance(self._parse(line.number, text), NoEntry):
            self.replace(line, text, line.problem)
        else:
            self.drop(line, line.problem)

    # --- one line of the new file: indices of `lines`, followed by those of new entries -------------------------------
    def _note(self, at: int, text: str | None, problem: str) -> None:
        """Set the edit of a line; it replaces an earlier one."""
        self._texts[at] = _NONE if text is None else self._said.place_of(text)
        self._problems[at] = self._said.place_of(problem)

    def _is_written(self, at: int) -> bool:
        return self._problems[at] == _NONE or self._texts[at] != _NONE

    def _text(self, at: int) -> str:
        """Return the text of an entry that is written."""
        if at >= len(self._numbers):
            return self._said[self._new_texts[at - len(self._numbers)]]
        place = self._texts[at]
        return self._line(at).text if place == _NONE else self._said[place]

    def _written(self, at: int) -> bytes:
        """Return the bytes of a line of the new file, with the old line end if it had one."""
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
            edits.append(LineEdit(1, _shown(self._version), str(CHECKPOINT_VERSION), "the version must be 0"))
        if self._count is not None and _number(self._count) != count:
            edits.append(LineEdit(_COUNT_LINE, _shown(self._count), str(count), "not the number of entries"))
        elif self._count is None and (count or self.lines):
            edits.append(LineEdit(None, None, str(count), "the number of entries is missing"))
        return edits


def _unreadable(line: Line) -> str | None:
    """Return why a line is not text, or `None`."""
    if line.is_cut:
        return f"{line.size_bytes} bytes without a line end"
    try:
        line.data.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"byte {line.data[error.start]:#04x} is not UTF-8"
    return None


def _number_line(raw: bytes | None, number: int) -> bytes:
    """Return a line of the head: unchanged if it has this number, else new with the same line end."""
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
    """Return the indices sorted by their keys; nearly always they are in order already."""
    if all(before <= after for before, after in pairwise(keys)):
        return places
    return array("q", (places[each] for each in sorted(range(len(places)), key=keys.__getitem__)))


class _Made(Sequence[_T]):
    """A sequence of a given length, whose items are created when they are accessed."""

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
    """Texts in one run of bytes; a text that is added repeatedly is kept once."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._ends = array("q", [0])
        self._recent: dict[str, int] = {}

    def __getitem__(self, place: int) -> str:
        return self._data[self._ends[place] : self._ends[place + 1]].decode("utf-8", "surrogatepass")

    def place_of(self, text: str) -> int:
        """Keep a text. Return its index."""
        place = self._recent.get(text)
        if place is None:
            if len(self._recent) >= _RECENT:
                self._recent.clear()
            self._recent[text] = place = len(self._ends) - 1
            self._data += text.encode("utf-8", "surrogatepass")
            self._ends.append(len(self._data))
        return place
