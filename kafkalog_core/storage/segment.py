"""Segments: the files of one base offset, put together by their names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.names import LOG_KINDS, SEGMENT_KINDS, FileKind, FileState, segment_file_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.storage.listing import FileInfo

__all__ = ["Segment", "SegmentState", "group_segments"]


class SegmentState(StrEnum):
    """Where in its life a segment is."""

    ACTIVE = "active"
    """The last one: a broker appends to it."""
    CLOSED = "closed"
    DELETED = "deleted"
    """Waits for its deletion."""
    SWAP = "swap"
    """A finished replacement, not yet in its place."""
    CLEANED = "cleaned"
    """An unfinished replacement."""
    UNREAD = "unread"
    """No broker reads it: its name is not its base offset in 20 digits, or it is of another release's format."""
    ORPHAN = "orphan"
    """Indexes without a log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The files of one base offset; `snapshot` is the producer snapshot at that offset."""

    base_offset: int
    state: SegmentState
    log: FileInfo | None = None
    index: FileInfo | None = None
    timeindex: FileInfo | None = None
    txnindex: FileInfo | None = None
    snapshot: FileInfo | None = None

    @property
    def files(self) -> tuple[FileInfo, ...]:
        """The files there are, the log first."""
        parts = (self.log, self.index, self.timeindex, self.txnindex, self.snapshot)
        return tuple(part for part in parts if part is not None)

    @property
    def size_bytes(self) -> int:
        """Size of the log file, 0 where there is none."""
        return 0 if self.log is None else self.log.size_bytes


_FIELD_OF_KIND: Final = {
    FileKind.LOG: "log",
    FileKind.LOG_V07: "log",
    FileKind.OFFSET_INDEX: "index",
    FileKind.TIME_INDEX: "timeindex",
    FileKind.TXN_INDEX: "txnindex",
    FileKind.SNAPSHOT: "snapshot",
}
_STATE_OF_FILES: Final = {
    FileState.DELETED: SegmentState.DELETED,
    FileState.SWAP: SegmentState.SWAP,
    FileState.CLEANED: SegmentState.CLEANED,
}


def group_segments(files: Iterable[FileInfo], log_kind: FileKind) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
    """The live segments of a partition and all others, each sorted by base offset.

    Live are those that a broker reads: a log of `log_kind` with a canonical name. Files whose names hold no offset
    belong to none.
    """
    groups: dict[tuple[int, str, FileState, str], dict[str, FileInfo]] = {}
    for file in files:
        name = file.name
        if name.kind in SEGMENT_KINDS and name.base_offset is not None:
            extra = FileKind.LOG_V07 if name.kind is FileKind.LOG_V07 else ""
            prefix = name.raw.partition(".")[0]
            groups.setdefault((name.base_offset, prefix, name.state, extra), {})[_FIELD_OF_KIND[name.kind]] = file
    live: list[Segment] = []
    others: list[Segment] = []
    for (base_offset, _, file_state, _), parts in sorted(groups.items()):
        state = _STATE_OF_FILES.get(file_state) or _live_state(base_offset, parts, log_kind)
        if state is None:
            continue
        segment = Segment(base_offset=base_offset, state=state, **parts)
        (live if state is SegmentState.CLOSED else others).append(segment)
    if live:
        live[-1] = replace(live[-1], state=SegmentState.ACTIVE)
    return tuple(live), tuple(others)


def _live_state(base_offset: int, parts: dict[str, FileInfo], log_kind: FileKind) -> SegmentState | None:
    log = parts.get("log")
    if log is None:
        return SegmentState.ORPHAN if parts.keys() - {"snapshot"} else None
    name = log.name
    if name.kind is log_kind and name.kind in LOG_KINDS and name.raw == segment_file_name(base_offset, log_kind):
        return SegmentState.CLOSED
    return SegmentState.UNREAD
