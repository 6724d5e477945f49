"""A directory that a broker is at work in: what is said of it may be wrong, as its files were not all read at once.

Logs grow, are rolled, compacted and deleted while they are read, and indexes, snapshots and checkpoints are read before
or after them. Where that has happened, an error is one only if it stands in files that have not changed.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import found
from kafkalog_core.format.names import LOG_KINDS, parse_file_name
from kafkalog_core.storage.listing import stat_path

if TYPE_CHECKING:
    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.verify.verdict import PartitionVerdict, SegmentVerdict

__all__ = ["settled"]

_OF_ONE_SEGMENT: Final = frozenset({"log", "batch", "record", "index", "timeindex"})
"""Subjects of findings that depend on nothing but a log and its indexes."""
_OF_ALL: Final = frozenset(
    {
        "txn",
        "txnindex",
        "producer",
        "snapshot",
        "epochs",
        "recovery-point",
        "high-watermark",
        "log-start",
        "cleaner-offset",
    }
)
"""Subjects of findings that compare files with each other."""
_OF_NEIGHBOURS: Final = frozenset(
    {"segment.gap", "segment.overlap", "segment.index-missing", "segment.timeindex-missing", "segment.index-orphan"}
)


def settled(verdict: PartitionVerdict) -> PartitionVerdict:
    """A verdict whose errors are such even where the directory has changed since it was listed."""
    if all(finding.severity != "error" for finding in verdict.findings):
        return verdict
    still = {segment.path for segment in verdict.segments if _is_still(segment)}
    if len(still) == len(verdict.segments) and not _has_new_logs(verdict):
        return verdict
    findings = [
        replace(finding, severity="warning") if _is_doubtful(finding, still) else finding
        for finding in verdict.findings
    ]
    doubtful = sum(finding is not other for finding, other in zip(findings, verdict.findings, strict=True))
    if not doubtful:
        return verdict
    findings.append(
        found("partition.changing", verdict.path, topic=verdict.topic, partition=verdict.partition, count=doubtful)
    )
    return replace(verdict, findings=tuple(findings))


def _is_doubtful(finding: Finding, still: set[str]) -> bool:
    """Whether what has changed may be the reason of an error."""
    if finding.severity != "error":
        return False
    subject = finding.code.partition(".")[0]
    if subject in _OF_ONE_SEGMENT:
        return f"{finding.path.rpartition('.')[0]}.log" not in still and finding.path not in still
    return subject in _OF_ALL or finding.code in _OF_NEIGHBOURS


def _is_still(segment: SegmentVerdict) -> bool:
    try:
        status = stat_path(segment.path)
    except StorageError:
        return False
    return (status.st_size, status.st_mtime_ns // 1_000_000) == (segment.size_bytes, segment.mtime_ms)


def _has_new_logs(verdict: PartitionVerdict) -> bool:
    """Whether a segment has been begun behind the last one."""
    last = verdict.segments[-1].base_offset if verdict.segments else -1
    try:
        names = [parse_file_name(name) for name in os.listdir(verdict.path)]
    except NotADirectoryError:  # a file was named itself
        return False
    except OSError:
        return True
    return any(name.kind in LOG_KINDS and name.canonical and (name.base_offset or 0) > last for name in names)
