"""Frozen dataclasses as lists of plain JSON values and back, checked against their annotations.

What is read may come from anywhere: whatever is not of the annotated type is a ValueError. Integers fit in 64 bits.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from kafkalog_core.findings import kinds, sink
from kafkalog_core.format.layout import MAX_INT64

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.findings import Finding

__all__ = [
    "MOST_SPANS",
    "EpochStart",
    "OffsetGap",
    "PartitionVerdict",
    "PlaceVerdict",
    "SegmentVerdict",
    "Spans",
    "damage_map",
    "ends_in_damage",
    "from_plain",
    "next_offset",
    "shape_of",
    "to_plain",
]


_Value = TypeVar("_Value")
_HERE = "\0"
"""Replaces the directory at the start of a text, so that it may be found at another path later."""


def to_plain(value: object, directory: str) -> object:
    """JSON values for a dataclass, a tuple or a plain value; `directory` at the start of a text is left out."""
    if isinstance(value, str):
        return _HERE + value[len(directory) :] if value.startswith(f"{directory}/") else value
    if isinstance(value, tuple):
        return [to_plain(item, directory) for item in value]
    if is_dataclass(value):
        return [to_plain(getattr(value, field.name), directory) for field in fields(value)]
    return value


def from_plain(kind: type[_Value], data: object, directory: str) -> _Value:
    """The dataclass that `to_plain` made JSON values of. Raises ValueError."""
    reader: Callable[[object, str], object] = _reader(cast("Any", kind))
    return cast("_Value", reader(data, directory))


def shape_of(kind: type) -> str:
    """Names and types of all fields, of the dataclasses in them too."""
    hints = _hints(kind)
    inside = {part for hint in hints.values() for part in _parts(hint) if is_dataclass(part)}
    shapes = sorted(shape_of(cast("type", part)) for part in inside)
    return f"{kind.__name__}({', '.join(f'{name}: {hint}' for name, hint in hints.items())}){''.join(shapes)}"


def _hints(kind: type) -> dict[str, Any]:
    """Annotations as types: some modules import them for the type checker alone."""
    return get_type_hints(kind, localns={**vars(kinds), **globals(), **vars(sink)})


def _parts(hint: object) -> list[object]:
    arguments = get_args(hint)
    return [part for argument in arguments for part in _parts(argument)] if arguments else [hint]


def _is_int(data: object) -> bool:
    return type(data) is int and -MAX_INT64 - 1 <= data <= MAX_INT64


_IS_PLAIN: dict[object, Callable[[object], bool]] = {
    int: _is_int,
    bool: lambda data: type(data) is bool,
    NoneType: lambda data: data is None,
}


@cache
def _reader(hint: Any) -> Callable[[object, str], object]:
    """What reads values of one annotation."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is str:
        return _read_text
    if hint in _IS_PLAIN:
        return _plain_reader(hint)
    if origin is Literal:
        return _choice_reader(arguments)
    if origin in {Union, UnionType}:
        return _optional_reader(next(part for part in arguments if part is not NoneType))
    if origin is tuple:
        return _tuple_reader(arguments)
    return _class_reader(hint)


def _read_text(data: object, directory: str) -> str:
    if not isinstance(data, str):
        raise ValueError(f"{data!r:.40} is not a text")  # noqa: TRY004 -- it is what was read that is wrong
    return directory + data[len(_HERE) :] if data.startswith(_HERE) else data


def _plain_reader(hint: type) -> Callable[[object, str], object]:
    is_good = _IS_PLAIN[hint]

    def read(data: object, directory: str) -> object:
        del directory
        if not is_good(data):
            raise ValueError(f"{data!r:.40} is no {hint.__name__}")
        return data

    return read


def _choice_reader(choices: tuple[object, ...]) -> Callable[[object, str], object]:
    def read(data: object, directory: str) -> object:
        del directory
        if not isinstance(data, str) or data not in choices:
            raise ValueError(f"{data!r:.40} is none of {', '.join(map(str, choices))}")
        return data

    return read


def _optional_reader(hint: Any) -> Callable[[object, str], object]:
    read = _reader(hint)
    return lambda data, directory: None if data is None else read(data, directory)


def _tuple_reader(hints: tuple[Any, ...]) -> Callable[[object, str], object]:
    if hints[-1] is Ellipsis:
        read_item = _reader(hints[0])
        return lambda data, directory: tuple(read_item(item, directory) for item in _items(data))
    readers = [_reader(hint) for hint in hints]
    return lambda data, directory: tuple(
        read(item, directory) for read, item in zip(readers, _items(data, len(readers)), strict=True)
    )


def _class_reader(kind: Any) -> Callable[[object, str], object]:
    readers = {name: _reader(hint) for name, hint in _hints(kind).items()}

    def read(data: object, directory: str) -> object:
        items = _items(data, len(readers))
        return kind(
            **{name: reader(item, directory) for (name, reader), item in zip(readers.items(), items, strict=True)}
        )

    return read


def _items(data: object, count: int | None = None) -> list[object]:
    if not isinstance(data, list) or count not in {None, len(data)}:
        raise ValueError(f"{data!r:.40} is not a list of {'values' if count is None else count}")
    return data


MOST_SPANS: Final = 4096
"""Number of spans that are kept apart; of more, those with the least between them are joined."""
_ROOM: Final = 4  # times as many wait to be joined together, as that takes a look at all of them


class Spans:
    """Spans (first, last), put in as they come; those that touch are one.

    Beyond `MOST_SPANS` those are joined that have the least between them: `more` counts the joints, `between` adds up
    what they cover that no span has.
    """

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []
        self.more = 0
        self.between = 0

    def add(self, first: int, last: int) -> None:
        """Add a span; mostly it is after the others."""
        spans = self._spans
        if spans and spans[-1][1] + 1 == first:
            spans[-1] = spans[-1][0], max(last, spans[-1][1])
            return
        spans.append((first, last))
        if len(spans) > _ROOM * MOST_SPANS:
            self._join()

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """All of them, in the order in which they came as long as none were joined."""
        if len(self._spans) > MOST_SPANS:
            self._join()
        return tuple(self._spans)

    def _join(self) -> None:
        spans = sorted(self._spans)
        too_many = len(spans) - MOST_SPANS
        widest = sorted([behind - last for (_, last), (behind, _) in pairwise(spans)])[too_many - 1]
        joined = spans[:1]
        for first, last in spans[1:]:
            before, end = joined[-1]
            if first - end > widest or not too_many:
                joined.append((first, last))
                continue
            too_many -= 1
            self.more += 1
            self.between += first - end - 1 if first > end else 0
            joined[-1] = before, max(last, end)
        self._spans = joined


def damage_map(segment: SegmentVerdict, cells: int) -> list[bool]:
    """Whether something is damaged in each of `cells` parts of the log; a single damaged byte shows."""
    damaged = [False] * cells
    size_bytes = max(segment.size_bytes, 1)
    for position, span_bytes in segment.damage:
        first = min(position * cells // size_bytes, cells - 1)
        last = min((position + max(span_bytes, 1) - 1) * cells // size_bytes, cells - 1)
        damaged[first : last + 1] = [True] * (last - first + 1)
    return damaged


@dataclass(frozen=True, slots=True)
class EpochStart:
    """The first batch of a leader epoch in a segment, as its headers say, where the epoch before it was another.

    `last_before`: the last offset before it, with which the epoch before it ends.
    """

    epoch: int
    offset: int
    position: int
    last_before: int


@dataclass(frozen=True, slots=True)
class OffsetGap:
    """Offsets that are in no batch, before the batch at `position`."""

    position: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentVerdict:
    """One checked segment. Offsets and timestamps are `None` if there is no batch, or none that has one.

    Args:
        path: of its log.
        base_offset: the number in its name.
        size_bytes: of the log.
        is_last: whether it is the active segment.
        mtime_ms: modification time of the log.
        batches: whole ones.
        records: in them, as far as headers count them or they were decoded.
        first_offset: of the first batch.
        last_offset: of the last batch.
        first_timestamp_ms: the largest timestamp of the first batch that has one.
        max_timestamp_ms: the largest.
        formats: of its batches.
        epochs: where leader epochs start, of very many the first.
        is_thinned: whether batches hold fewer records than their offsets span: the mark of compaction.
        gaps: offsets between two batches that are in none, the first ones, where nothing is damaged.
        gap_count: all such places.
        damage: damaged spans (position, size_bytes), in order and not touching; of very many, neighbours are joined.
        lost_offsets: spans of offsets (first, last) that may have been in them; joined where damage is.
        findings: about its log and indexes.
        damage_joined: how many damaged places were joined with the one before.
        whole_between: whole bytes in joined spans.
        epoch_behind: the last leader epoch, where `epochs` are not all.
        is_unread: the log was not read to its end: it could not be opened, or it vanished. The figures are of what was
            read before, and nothing may be concluded from what they lack.
        unopened_batches: those whose records were not decoded.
        uncounted_batches: those of them that do not say how many records they have.
    """

    path: str
    base_offset: int
    size_bytes: int
    is_last: bool
    mtime_ms: int
    batches: int
    records: int
    first_offset: int | None
    last_offset: int | None
    first_timestamp_ms: int | None
    max_timestamp_ms: int | None
    formats: tuple[str, ...]
    epochs: tuple[EpochStart, ...]
    is_thinned: bool
    gaps: tuple[OffsetGap, ...]
    gap_count: int
    damage: tuple[tuple[int, int], ...]
    lost_offsets: tuple[tuple[int, int], ...]
    findings: tuple[Finding, ...]
    damage_joined: int = 0
    whole_between: int = 0
    epoch_behind: int | None = None
    is_unread: bool = False
    unopened_batches: int = 0
    uncounted_batches: int = 0

    @property
    def last_epoch(self) -> int:
        """The last leader epoch; -1: there is none."""
        if self.epoch_behind is not None:
            return self.epoch_behind
        return self.epochs[-1].epoch if self.epochs else -1

    @property
    def damage_count(self) -> int:
        """Damaged places."""
        return len(self.damage) + self.damage_joined

    @property
    def damage_bytes(self) -> int:
        """Bytes in damaged places."""
        return sum(size_bytes for _, size_bytes in self.damage) - self.whole_between


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionVerdict:
    """One checked partition; `findings` hold those of its segments too, in the order of the files.

    `log_start_offset` and `log_end_offset` are what a broker would find: `None` if there is no segment.
    """

    path: str
    topic: str | None
    partition: int | None
    segments: tuple[SegmentVerdict, ...]
    findings: tuple[Finding, ...]
    log_start_offset: int | None
    log_end_offset: int | None
    at_risk_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceVerdict:
    """What was found about a log directory, or about a file that was named itself."""

    path: str
    findings: tuple[Finding, ...]


def next_offset(verdict: SegmentVerdict) -> int:
    """Return the offset after the last one of a segment; of one that was not read, the least that is possible."""
    return verdict.base_offset if verdict.last_offset is None else max(verdict.base_offset, verdict.last_offset + 1)


def ends_in_damage(verdict: SegmentVerdict) -> bool:
    """Return whether the end of a segment's log is damaged."""
    return bool(verdict.damage) and sum(verdict.damage[-1]) >= verdict.size_bytes
