"""Verdicts as rows, and what they add to the report."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkalog_core import tables
from kafkalog_core.findings import DENIED
from kafkalog_core.ops.reading.rows import RowChunk
from kafkalog_core.ops.verify.verdict import PartitionVerdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.ops.report import Report
    from kafkalog_core.ops.verify.verdict import PlaceVerdict

__all__ = ["count", "partition_row", "rows_of", "state_of"]


def rows_of(verdict: PartitionVerdict | PlaceVerdict) -> Iterator[RowChunk]:
    """`finding` rows in the order of the files, then the `partition` row."""
    if verdict.findings:
        yield RowChunk(tables.FINDING, [finding.row() for finding in verdict.findings])
    if isinstance(verdict, PartitionVerdict):
        yield RowChunk(tables.PARTITION, [partition_row(verdict)])


def count(verdict: PartitionVerdict | PlaceVerdict, report: Report) -> None:
    """Add a verdict to the report."""
    for finding in verdict.findings:
        report.add_finding(finding.row(), count=1 + finding.more)
    report.rows += len(verdict.findings) + isinstance(verdict, PartitionVerdict)
    if not isinstance(verdict, PartitionVerdict):
        return
    report.partitions += 1
    for segment in verdict.segments:
        report.expect(files=1, size_bytes=segment.size_bytes)
        if segment.is_unread:
            continue
        report.files += 1
        report.bytes += segment.size_bytes
        report.batches += segment.batches
        report.unopened_batches += segment.unopened_batches
        report.records += segment.records
        report.uncounted_batches += segment.uncounted_batches
        report.damage_count += segment.damage_count
        report.damage_bytes += segment.damage_bytes


def state_of(verdict: PartitionVerdict | PlaceVerdict) -> str:
    """Return `clean`, `warnings`, `unread` or `damaged`: the worst of its findings."""
    severities = {finding.severity for finding in verdict.findings}
    if "error" in severities:
        return "damaged"
    if any(finding.code == DENIED for finding in verdict.findings):
        return "unread"
    return "warnings" if "warning" in severities else "clean"


def partition_row(verdict: PartitionVerdict) -> dict[str, object]:
    """The `partition` row."""
    segments = verdict.segments
    severities = Counter(finding.severity for finding in verdict.findings)
    first_times = [segment.first_timestamp_ms for segment in segments if segment.first_timestamp_ms is not None]
    max_times = [segment.max_timestamp_ms for segment in segments if segment.max_timestamp_ms is not None]
    return {
        "topic": verdict.topic,
        "partition": verdict.partition,
        "path": verdict.path,
        "state": state_of(verdict),
        "segments": len(segments),
        "bytes": sum(segment.size_bytes for segment in segments),
        "batches": sum(segment.batches for segment in segments),
        "records": sum(segment.records for segment in segments),
        "log_start_offset": verdict.log_start_offset,
        "log_end_offset": verdict.log_end_offset,
        "first_timestamp_ms": first_times[0] if first_times else None,
        "max_timestamp_ms": max(max_times, default=None),
        "damage_count": sum(segment.damage_count for segment in segments),
        "damage_bytes": sum(segment.damage_bytes for segment in segments),
        "at_risk_bytes": verdict.at_risk_bytes,
        "errors": severities["error"],
        "warnings": severities["warning"],
        "infos": severities["info"],
    }
