"""What the checkpoints of a log directory say of a partition, beside where its log starts and ends."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkalog_core.findings import found
from kafkalog_core.format.names import FileKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.findings import Finding, Severity
    from kafkalog_core.format.names import DirectoryName
    from kafkalog_core.ops.logdirs.brokerdir import BrokerDir

__all__ = ["check_partition_offsets"]


def check_partition_offsets(
    broker_dir: BrokerDir, name: DirectoryName, path: str, log_start_offset: int | None, log_end_offset: int | None
) -> Iterator[Finding]:
    """Findings about the entries of one partition that a broker serves.

    Args:
        broker_dir: the log directory that the partition is in.
        name: of the partition's directory.
        path: of the partition's directory.
        log_start_offset: base of the first segment; null: there is none.
        log_end_offset: offset behind the last record; null: there is no segment.
    """
    if log_start_offset is None or log_end_offset is None:  # a broker makes a segment there
        log_start_offset = log_end_offset = max(broker_dir.offset(FileKind.LOG_START_OFFSET, name) or 0, 0)
    check = _OffsetCheck(broker_dir, name, path, log_start_offset, log_end_offset)
    yield from check.recovery_point()
    yield from check.high_watermark()
    yield from check.beyond(FileKind.LOG_START_OFFSET, "log-start.beyond-end")
    yield from check.beyond(FileKind.CLEANER_OFFSET, "cleaner-offset.beyond-end")


class _OffsetCheck:
    def __init__(self, broker_dir: BrokerDir, name: DirectoryName, path: str, start: int, end: int) -> None:
        self._broker_dir = broker_dir
        self._name = name
        self._path = path
        self._start = start
        self._end = end

    def recovery_point(self) -> Iterator[Finding]:
        """A clean stop leaves it at the end of the log."""
        is_clean = self._broker_dir.log_dir.is_clean
        value = self._broker_dir.offset(FileKind.RECOVERY_POINT, self._name)
        if value is None:
            if self._end > self._start and self._is_written(FileKind.RECOVERY_POINT):
                severity: Severity = "warning" if is_clean else "info"
                yield found(
                    "recovery-point.none",
                    self._path,
                    topic=self._name.topic,
                    partition=self._name.partition,
                    severity=severity,
                )
        elif value > self._end:
            yield self._finding("recovery-point.beyond-end", FileKind.RECOVERY_POINT, value)
        elif is_clean and 0 <= value < self._end:
            yield self._finding("recovery-point.not-at-end", FileKind.RECOVERY_POINT, value)

    def high_watermark(self) -> Iterator[Finding]:
        """Between the start of the log and its end."""
        value = self._broker_dir.offset(FileKind.HIGH_WATERMARK, self._name)
        if value is None or value < 0:
            return
        start = max(self._start, self._broker_dir.offset(FileKind.LOG_START_OFFSET, self._name) or 0)
        if value > self._end:
            code = "high-watermark.maybe-beyond" if self._may_be_copied() else "high-watermark.beyond-end"
            yield self._finding(code, FileKind.HIGH_WATERMARK, value)
        elif value < start <= self._end:
            yield self._finding("high-watermark.below-start", FileKind.HIGH_WATERMARK, value, start=start)
        elif value < self._end and self._broker_dir.log_dir.is_clean:
            yield self._finding("high-watermark.below-end", FileKind.HIGH_WATERMARK, value)

    def beyond(self, kind: FileKind, code: str) -> Iterator[Finding]:
        """An offset that is never behind the end of the log."""
        value = self._broker_dir.offset(kind, self._name)
        if value is not None and value > self._end:
            yield self._finding(code, kind, value)

    def _may_be_copied(self) -> bool:
        """Whether all that was flushed is there, and the rest may just not have been copied or written yet."""
        flushed = self._broker_dir.offset(FileKind.RECOVERY_POINT, self._name) or 0
        return not self._broker_dir.log_dir.is_clean and flushed <= self._end and self._start < self._end

    def _is_written(self, kind: FileKind) -> bool:
        """Whether the checkpoint names any partition at all; an empty one is told once for all of them."""
        text = self._broker_dir.offsets.get(kind)
        return text is not None and not text.is_refused and bool(text.file.entries)

    def _finding(self, code: str, kind: FileKind, value: int, *, start: int | None = None) -> Finding:
        text = self._broker_dir.offsets[kind].file
        placed = text.entries[self._name.topic or "", self._name.partition or 0]
        finding = found(
            code,
            text.path,
            topic=self._name.topic,
            partition=self._name.partition,
            position=placed.position,
            size_bytes=placed.size_bytes,
            value=value,
            end=self._end,
            missing=_offsets_text(abs(value - self._end)),
            start=start,
        )
        return replace(finding, offset=value)


def _offsets_text(count: int) -> str:
    return "1 offset" if count == 1 else f"{count:,} offsets"
