"""Writing the text checkpoints: whole, or mended line by line so that every good line keeps its bytes and its place.

A mend keeps the line ends of the lines that it keeps (LF, CR and CRLF are all read), puts `0` in the first line and the
number of entries in the second, and adds what is new at the end, or where its order wants it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from kafkalog_core.errors import FieldError
from kafkalog_core.format.checkpoint import EpochEntry, NoEntry, OffsetEntry
from kafkalog_core.format.layout import CHECKPOINT_VERSION
from kafkalog_core.format.textfile import MAX_LINE_BYTES, Failure, iter_lines, parse_int32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kafkalog_core.format.textfile import Line

__all__ = [
    "CheckpointMend",
    "EntryLine",
    "LineEdit",
    "encode_epoch_checkpoint",
    "encode_offset_checkpoint",
]

_EntryT = TypeVar("_EntryT", OffsetEntry, EpochEntry)
_COUNT_LINE: Final = 2
_ENDS: Final = b"\r\n"
_LINE_END: Final = b"\n"
_NOISE: Final = " \t\v\f\0\ufeff"
"""What may stand before an entry so that it is none: blanks, a byte order mark, zeros of a lost block."""


class LineEdit(NamedTuple):
    """A line before and after; `number` from 1 in the old file, null for a new line; `new` null: it goes."""

    number: int | None
    old: str | None
    new: str | None
    problem: str


@dataclass(frozen=True, slots=True)
class EntryLine(Generic[_EntryT]):
    """A line that should be an entry. `entry` null: it is none, for the reason `problem`."""

    number: int
    text: str
    entry: _EntryT | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Written(Generic[_EntryT]):
    """A line of the new file: its bytes, with the old line end where it is an old one, and its entry."""

    data: bytes
    entry: _EntryT


def encode_offset_checkpoint(entries: Iterable[tuple[str, int, int]]) -> bytes:
    """All bytes of an offset checkpoint of topics, partitions and offsets, in the order given."""
    return _encode([f"{topic} {partition} {offset}" for topic, partition, offset in entries])


def encode_epoch_checkpoint(epochs: Iterable[tuple[int, int]]) -> bytes:
    """All bytes of a leader-epoch-checkpoint of epochs and their first offsets, ascending."""
    return _encode([f"{epoch} {start_offset}" for epoch, start_offset in epochs])


def _encode(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in (CHECKPOINT_VERSION, len(lines), *lines)).encode("utf-8")


class CheckpointMend(Generic[_EntryT]):
    """One file under repair: look at `lines`, say what becomes of the bad ones, take `content`.

    Args:
        data: the whole file.
        parse: of a line, by the kind of the file.

    Lines that are no entries go unless something else is said; what a broker reads stays unless something is said.
    """

    def __init__(self, data: bytes, parse: Callable[[int, str], _EntryT | NoEntry]) -> None:
        self._data = data
        self._parse: Callable[[int, str], _EntryT | NoEntry] = parse
        self._edits: dict[int, LineEdit] = {}
        self._new_edits: list[LineEdit] = []
        self._raw: dict[int, bytes] = {}
        self._version: bytes | None = None
        self._count: bytes | None = None
        self.lines: list[EntryLine[_EntryT]] = []
        self._read()
        self._written: dict[int, _Written[_EntryT] | None] = {}
        self._new: list[_Written[_EntryT]] = []
        for line in self.lines:
            if line.entry is None:
                self._say_no_entry(line)
            else:
                self._written[line.number] = _Written(self._raw[line.number], line.entry)

    @property
    def has_lost(self) -> bool:
        """Whether entries may have been lost with what is no entry, or with the end of the file."""
        declared = None if self._count is None else _number(self._count)
        is_short = declared is None or declared > len(self.lines)
        return bool(self._data) and (
            self._version is None
            or _number(self._version) is None
            or (self._count is not None and is_short)
            or any(line.entry is None for line in self.lines)
        )

    def is_written(self, line: EntryLine[_EntryT]) -> bool:
        """Whether a line stays, or is an entry again without what stood before it."""
        return self._written.get(line.number) is not None

    def drop(self, line: EntryLine[_EntryT], problem: str) -> None:
        """Leave a line out."""
        self._written[line.number] = None
        self._note(line, None, problem)

    def replace(self, line: EntryLine[_EntryT], text: str, problem: str) -> None:
        """Put another entry in a line's place. Raises FieldError for what is none."""
        self._written[line.number] = self._new_line(text, _end_of(self._raw[line.number]))
        self._note(line, text, problem)

    def add(self, text: str, problem: str) -> None:
        """Add an entry. Raises FieldError for what is none."""
        self._new.append(self._new_line(text, _LINE_END))
        self._new_edits.append(LineEdit(None, None, text, problem))

    def content(self, key: Callable[[_EntryT], int] | None = None) -> tuple[bytes, tuple[LineEdit, ...]]:
        """The new file and what is other in it, in the order of the lines; no edits: it is the old one.

        Args:
            key: entries stand in the order that it gives; null: new ones stand last.
        """
        entries: list[_Written[_EntryT]] = [
            line for number in sorted(self._written) if (line := self._written[number]) is not None
        ]
        entries += self._new
        if key is not None:
            entries.sort(key=lambda line: key(line.entry))
        edits = [
            *self._head_edits(len(entries)),
            *(self._edits[number] for number in sorted(self._edits)),
            *self._new_edits,
        ]
        if not edits:
            return self._data, ()
        return _joined([*self._head(len(entries)), *(line.data for line in entries)]), tuple(edits)

    # --- reading ------------------------------------------------------------------------------------------------------
    def _read(self) -> None:
        """Lines 1 and 2 are the version and the count, unless they are entries: then the head of the file is lost."""
        for line in iter_lines((self._data,)):
            raw = self._data[line.position : line.position + line.size_bytes]
            self._raw[line.number] = raw
            text = line.data.decode("utf-8", "backslashreplace")
            problem = _unreadable(line)
            entry = self._parse(line.number, text) if problem is None else NoEntry(problem, Failure.IO)
            if not isinstance(entry, NoEntry):
                self.lines.append(EntryLine(line.number, text, entry))
            elif line.number == 1:
                self._version = raw
            elif line.number == _COUNT_LINE:
                self._count = raw
            else:
                self.lines.append(EntryLine(line.number, text, None, entry.problem))

    def _new_line(self, text: str, end: bytes) -> _Written[_EntryT]:
        entry = self._parse(0, text)
        if isinstance(entry, NoEntry):
            raise FieldError(f"{text!r} is no entry: {entry.problem}")
        return _Written(text.encode("utf-8") + (end or _LINE_END), entry)

    def _say_no_entry(self, line: EntryLine[_EntryT]) -> None:
        """An entry behind blanks is one again without them; else the line goes."""
        text = line.text.lstrip(_NOISE)
        if text != line.text and not isinstance(self._parse(line.number, text), NoEntry):
            self.replace(line, text, line.problem)
        else:
            self.drop(line, line.problem)

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

    def _note(self, line: EntryLine[_EntryT], new: str | None, problem: str) -> None:
        """What is said of a line last counts."""
        self._edits[line.number] = LineEdit(line.number, line.text, new, problem)


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


def _joined(lines: list[bytes]) -> bytes:
    """The last line may have come without an end; another one behind it needs it."""
    return b"".join([line if _end_of(line) else line + _LINE_END for line in lines[:-1]] + lines[-1:])
