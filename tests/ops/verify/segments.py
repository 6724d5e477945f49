"""One log file through the checks that need nothing but the log, and the verdict of a whole partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.engine.targets import resolve
from kafkalog_core.findings.catalog import Sink
from kafkalog_core.kafka.rules.batch_checks import BatchCheck, RecordCheck, SegmentFigures
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import SegmentCheck, VerifyRequest
from kafkalog_core.ops.verify.segment import FramingCheck, PlaceCheck
from kafkalog_core.ops.verify.verdict import PartitionVerdict
from kafkalog_core.storage.listing import FileInfo, Segment, SegmentState
from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.verify.request import Check, Level

__all__ = ["NOW_MS", "Checked", "check_bytes", "check_file", "check_headers", "verdict_of"]

NOW_MS = 1_800_000_000_000


class Checked(NamedTuple):
    """What the checks said."""

    findings: tuple[Finding, ...]
    figures: SegmentFigures
    records: RecordCheck

    @property
    def codes(self) -> list[str]:
        return [finding.code for finding in self.findings]

    @property
    def places(self) -> list[tuple[str, int | None]]:
        return [(finding.code, finding.position) for finding in self.findings]


def check_file(
    path: Path,
    base_offset: int = 0,
    *,
    level: Level = "records",
    is_last: bool = True,
    now_ms: int = NOW_MS,
    max_batch_bytes: int = 2**28,
) -> Checked:
    """Check one file; records are looked at whatever the level says of checksums."""
    is_v07 = path.name.endswith(".kafka")
    log = FileInfo.of(str(path), path.stat())
    task = SegmentCheck(
        segment=Segment(base_offset=base_offset, state=SegmentState.CLOSED, log=log),
        topic="t",
        partition=3,
        is_v07=is_v07,
        is_last=is_last,
        level=level,
        now_ms=now_ms,
        max_batch_bytes=max_batch_bytes,
    )
    sink = Sink("t", 3)
    batches, records = BatchCheck(task.log, sink), RecordCheck(task.log, sink)
    checks: list[Check] = [
        FramingCheck(task, sink),
        batches,
        PlaceCheck(task, sink),
        *([records] if level == "records" else []),
    ]
    options = ScanOptions(check=level != "headers", resync=True, max_batch_bytes=max_batch_bytes)
    with Source.open(str(path)) as source:
        for item in scan(source, base_offset=base_offset, is_v07=is_v07, options=options):
            for check in checks:
                if isinstance(item, Run):
                    check.run(item)
                else:
                    check.damage(item)
        for check in checks:
            check.finish(source.size_bytes)
    return Checked(sink.findings, batches.figures, records)


def check_bytes(directory: Path, data: bytes, base_offset: int = 0, *, suffix: str = "log", **options) -> Checked:
    """Check bytes as a segment's log."""
    path = directory / f"{base_offset:020d}.{suffix}"
    path.write_bytes(data)
    return check_file(path, base_offset, **options)


def check_headers(directory: Path, *data: bytes, base_offset: int = 0) -> Checked:
    """Check batches as a segment's log, without their records."""
    return check_bytes(directory, b"".join(data), base_offset, level="checksums")


def verdict_of(path: Path, *, jobs: int = 1) -> PartitionVerdict:
    """Verify one partition."""
    request = VerifyRequest(targets=tuple(resolve([str(path)])), now_ms=NOW_MS, jobs=jobs)
    [verdict] = [one for one in verify(request) if isinstance(one, PartitionVerdict)]
    return verdict
