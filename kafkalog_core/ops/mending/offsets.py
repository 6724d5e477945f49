"""The four checkpoints of offsets: which lines go, which get another offset, and which are missing.

What is put in the place of a lost or impossible offset never makes a broker lose more:

- recovery point: beyond the end, the end of the log, as a broker lowers it. Lost, after an unclean stop the base of the
  last segment: with a lower one a broker checks older segments, and cuts at the first bad batch all that is behind it.
  Lost after a clean stop, the end of the log.
- high watermark: beyond the end, the end of the log, as a broker lowers it. Lost, none: brokers agree on it anew. Lost
  before 0.11, the end of the log, as followers of those releases cut their logs off at it.
- log start: beyond the end, none, as a broker would delete the whole partition. Lost, none: what had been deleted by
  request may come back.
- cleaner: beyond the end, lost or of a partition that is not there, none: it cleans from the start again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.checkpoint import OffsetEntry, parse_offset_entry
from kafkalog_core.format.checkpoint_text import CheckpointMend, EntryLine, LineEdit, encode_offset_checkpoint
from kafkalog_core.format.names import DirectoryState, FileKind, fixed_file_name
from kafkalog_core.format.textfile import parse_int32
from kafkalog_core.ops.mending.mend import Mend, read_text
from kafkalog_core.ops.verify.offsets import check_partition_offsets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.logdirs.brokerdir import BrokerDir, Key
    from kafkalog_core.ops.logdirs.extents import Extent
    from kafkalog_core.storage.logdir import PartitionPath

__all__ = ["Measured", "mend_offsets", "offset_findings"]

_Lines = CheckpointMend[OffsetEntry]
_Line = EntryLine[OffsetEntry]

_TEXT_CODES: Final = frozenset(
    f"checkpoint.{word}"
    for word in (
        "count-mismatch",
        "invalid-utf8",
        "malformed-line",
        "negative-count",
        "negative-offset",
        "repeated",
        "unsupported-version",
    )
)
_CODES: Final = {
    FileKind.RECOVERY_POINT: {"recovery-point.beyond-end"},
    FileKind.HIGH_WATERMARK: {"high-watermark.beyond-end", "high-watermark.maybe-beyond"},
    FileKind.LOG_START_OFFSET: {"log-start.beyond-end"},
    FileKind.CLEANER_OFFSET: {"cleaner-offset.beyond-end", "checkpoint.no-partition"},
}
_EMPTY_HEAD: Final = tuple(
    LineEdit(None, None, "0", f"{what} is missing") for what in ("the version", "the number of the entries")
)
_LOST_CODES: Final = frozenset({"checkpoint.missing", "checkpoint.emptied"})
_AT_END: Final = frozenset({FileKind.RECOVERY_POINT, FileKind.HIGH_WATERMARK})
_NOT_AT_END: Final = "recovery-point.not-at-end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The partitions of a log directory, and the extents of those that a broker serves or fills; null: unknown.

    `cuts_at_watermark`: followers of this release do.
    """

    broker_dir: BrokerDir
    places: Mapping[Key, PartitionPath]
    extents: Mapping[Key, Extent | None]
    named: frozenset[Key]
    cuts_at_watermark: bool = False

    def rebuilds(self, kind: FileKind) -> bool:
        """Whether entries that were lost are put in again."""
        return kind is FileKind.RECOVERY_POINT or (kind is FileKind.HIGH_WATERMARK and self.cuts_at_watermark)


def offset_findings(measured: Measured) -> Iterator[Finding]:
    """What the checkpoints say against the extents of the partitions."""
    for key, place in measured.places.items():
        extent = measured.extents[key]
        if extent is not None and place.name.state is DirectoryState.CURRENT:
            yield from check_partition_offsets(measured.broker_dir, place.name, place.path, extent.start, extent.end)


def mend_offsets(measured: Measured, kind: FileKind, findings: tuple[Finding, ...], *, to_end: bool) -> Mend | None:
    """What becomes of one checkpoint; null: there is none, and none is missed.

    Args:
        measured: the log directory.
        kind: which checkpoint.
        findings: those about this file.
        to_end: as a clean stop leaves the file: every recovery point at the end of its log, none without its head.
    """
    path = f"{measured.broker_dir.path}/{fixed_file_name(kind)}"
    text = measured.broker_dir.offsets.get(kind)
    codes = {finding.code for finding in findings}
    data = b"" if text is None else read_text(path)
    is_kept = (measured.rebuilds(kind) or to_end) and "checkpoint.missing" in codes
    if text is None and not is_kept and not (to_end and kind is FileKind.RECOVERY_POINT and measured.places):
        return Mend(path=path, kind=kind, verdict="missing", findings=findings) if findings else None
    if data is None or (text is not None and text.file.lost is not None):
        return Mend(path=path, kind=kind, verdict="left", findings=findings)
    mender = _Mender(measured, kind, data, to_end=to_end)
    content, edits = mender.mended(is_emptied=bool(codes & _LOST_CODES))
    if to_end and not edits and codes & _LOST_CODES:  # a clean stop leaves none of them without its head
        content, edits = encode_offset_checkpoint([]), _EMPTY_HEAD
    gone = _TEXT_CODES | _CODES[kind] | ({_NOT_AT_END} if to_end else set())
    gone |= _LOST_CODES if measured.rebuilds(kind) or to_end else set()
    is_left = any(finding.severity == "error" and (finding.code not in gone or not edits) for finding in findings)
    return Mend(
        path=path,
        kind=kind,
        entries=None if text is None else len(text.file.entries),
        verdict="mended" if edits else "left" if is_left else "good",
        content=content if edits else None,
        edits=edits,
        findings=findings,
        mended=frozenset(gone),
    )


class _Mender:
    """One checkpoint under repair."""

    def __init__(self, measured: Measured, kind: FileKind, data: bytes, *, to_end: bool) -> None:
        self._measured = measured
        self._kind = kind
        self._to_end = to_end
        self._text: _Lines = CheckpointMend(data, parse_offset_entry)
        self._last = {_key(line.entry): line.number for line in self._text.lines if line.entry is not None}

    def mended(self, *, is_emptied: bool) -> tuple[bytes, Sequence[LineEdit]]:
        """New content and edits; `is_emptied`: entries were lost without a trace."""
        for line in self._text.lines:
            if line.entry is None:
                self._judge_none(line)
            else:
                self._judge(line, line.entry)
        if self._measured.rebuilds(self._kind) and (is_emptied or self._to_end or self._text.has_lost):
            for key in sorted(self._measured.places.keys() - self._last.keys()):
                offset = self._lost_offset(key)
                if offset is not None:
                    self._text.add(_line(key, offset), "its entry was lost" if not self._to_end else "it had no entry")
        return self._text.content()

    def _judge(self, line: _Line, entry: OffsetEntry) -> None:
        key = _key(entry)
        extent = self._measured.extents.get(key)
        if entry.partition < 0:
            self._text.drop(line, "partition numbers are not negative")
        elif self._last[key] != line.number:
            self._text.drop(line, f"line {self._last[key]} is of the same partition, and counts")
        elif entry.offset < 0:
            self._put(line, key, self._lost_offset(key), "offsets are not negative")
        elif extent is not None and extent.is_sure and entry.offset > extent.end:
            end = extent.end if self._kind in _AT_END else None
            self._put(line, key, end, f"the log ends at {extent.end}")
        elif extent is not None and self._to_end and self._kind is FileKind.RECOVERY_POINT:
            if entry.offset != extent.end:
                self._put(line, key, extent.end, f"the log ends at {extent.end}")
        elif self._kind is FileKind.CLEANER_OFFSET and key not in self._measured.named:
            self._text.drop(line, "there is no such partition here")

    def _judge_none(self, line: _Line) -> None:
        """A line that is no entry, and may still say which partition it was of."""
        words = line.text.split()
        number = parse_int32(words[1]) if len(words) > 1 else None
        if number is None or self._text.is_written(line):
            return
        key = words[0], number
        offset = self._lost_offset(key)
        if offset is not None and self._last.setdefault(key, line.number) == line.number:
            self._text.replace(line, _line(key, offset), line.problem)

    def _put(self, line: _Line, key: Key, offset: int | None, problem: str) -> None:
        if offset is None:
            self._text.drop(line, problem)
        else:
            self._text.replace(line, _line(key, offset), problem)

    def _lost_offset(self, key: Key) -> int | None:
        """What stands for an offset that nobody knows; null: no entry."""
        extent = self._measured.extents.get(key)
        if extent is None or not self._measured.rebuilds(self._kind):
            return None
        if self._kind is FileKind.HIGH_WATERMARK:
            return extent.end if extent.is_sure else None
        is_clean = self._measured.broker_dir.log_dir.is_clean or self._to_end
        return extent.end if is_clean and extent.is_sure else extent.active


def _key(entry: OffsetEntry) -> Key:
    return entry.topic, entry.partition


def _line(key: Key, offset: int) -> str:
    return f"{key[0]} {key[1]} {offset}"
