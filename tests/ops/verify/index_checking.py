"""The checks of indexes alone, over the segments of a partition directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.findings.catalog import Sink
from kafkalog_core.format.names import FileKind
from kafkalog_core.ops.verify.indexes import OffsetIndexCheck, TimeIndexCheck
from kafkalog_core.ops.verify.request import SegmentCheck
from kafkalog_core.storage.listing import group_segments, list_directory
from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.findings import Finding
    from kafkalog_core.storage.listing import Segment


def check_indexes(directory: Path, *, end: int | None = None) -> list[Finding]:
    """All that is found about the indexes of a partition; with `end` its logs are read no further than that."""
    live, _ = group_segments(list_directory(str(directory)).files, FileKind.LOG)
    return [finding for segment in live for finding in _check(segment, is_last=segment is live[-1], end=end)]


def _check(segment: Segment, *, is_last: bool, end: int | None) -> tuple[Finding, ...]:
    sink = Sink("t", 0)
    task = SegmentCheck(
        segment=segment,
        topic="t",
        partition=0,
        is_v07=False,
        is_last=is_last,
        level="checksums",
        now_ms=0,
        max_batch_bytes=2**28,
    )
    checks = (OffsetIndexCheck(task, sink), TimeIndexCheck(task, sink))
    assert segment.log is not None
    with Source.open(segment.log.path) as source:
        for item in scan(source, base_offset=segment.base_offset, options=ScanOptions(resync=True), end=end):
            for check in checks:
                if isinstance(item, Run):
                    check.run(item)
                else:
                    check.damage(item)
        for check in checks:
            check.finish(source.size_bytes if end is None else end)
    return sink.findings
