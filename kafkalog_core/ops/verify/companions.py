"""The small files of a partition: those that are missing, left over, in the way, unreadable to a broker, or malformed.

What a listing says by names alone is the base. Here it is known that nobody is at work and what is in the log, so that
some of it is worse than it looks, and what is said of every segment of a bare copy is said once.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import NotFoundError, StorageError
from kafkalog_core.findings import found
from kafkalog_core.format.names import (
    INDEX_KINDS,
    METADATA_TOPIC,
    DirectoryState,
    FileKind,
    FileState,
    fixed_file_name,
    parse_file_name,
    segment_file_name,
)
from kafkalog_core.ops.logdirs.textfiles import read_epochs, read_properties
from kafkalog_core.ops.reading.entry_faults import EntryFile
from kafkalog_core.ops.verify.ownership import OWNERSHIP_CODES, check_files
from kafkalog_core.storage.file_codes import code_of_error
from kafkalog_core.storage.segment import SegmentState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.names import FileName
    from kafkalog_core.ops.logdirs.context import PartitionContext
    from kafkalog_core.ops.logdirs.textfiles import EpochText
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.partition import Partition

__all__ = ["refine"]

_COMPANION_OF_CODE: Final = {
    "segment.index-missing": FileKind.OFFSET_INDEX,
    "segment.timeindex-missing": FileKind.TIME_INDEX,
}
_ALWAYS_WORSE: Final = frozenset({"segment.misnamed-empty"})
"""What no broker leaves behind, whatever happens to it."""


def refine(
    partition: Partition, context: PartitionContext, formats: Collection[str], epochs: EpochText | None = None
) -> Iterator[Finding]:
    """All findings about the names, owners and text files of a partition; those of its listing are among them.

    Args:
        partition: its listing.
        context: what its log directory says of it.
        formats: of the batches that were read, as in `SegmentVerdict.formats`.
        epochs: its leader-epoch-checkpoint, where it has been read already.
    """
    for finding in _all_findings(partition, context, formats, epochs):
        yield replace(finding, topic=partition.topic, partition=partition.partition)


def _all_findings(
    partition: Partition, context: PartitionContext, formats: Collection[str], epochs: EpochText | None
) -> Iterator[Finding]:
    bare = _bare_codes(partition)
    if "segment.index-missing" in bare:
        yield found("partition.no-companions", partition.path, count=len(partition.segments))
    for finding in partition.findings:
        if finding.code not in OWNERSHIP_CODES and finding.code not in bare:
            yield _refined(finding, partition)
    yield from check_files(partition.path, partition.files)
    if partition.format == "log":
        yield from _text_findings(partition, formats, epochs)
        yield from _missing_texts(partition, context, formats)


def _bare_codes(partition: Partition) -> set[str]:
    """Codes that are true of each of several segments: they were copied without those files."""
    filled = [segment for segment in partition.segments if segment.size_bytes and partition.format == "log"]
    if len(filled) <= 1 or any(segment.index is not None for segment in filled):
        return set()
    return set(_COMPANION_OF_CODE)


def _refined(finding: Finding, partition: Partition) -> Finding:
    name = parse_file_name(os.path.basename(finding.path))
    if name.kind is FileKind.REDPANDA:
        return found("segment.redpanda", finding.path, severity=finding.severity)
    is_worse = (name.state is FileState.SWAP and _would_replace(partition, name)) or _is_worse(finding, partition)
    return replace(finding, severity="error") if is_worse else finding


def _is_worse(finding: Finding, partition: Partition) -> bool:
    """Whether no broker leaves this behind, where it looked as if it might."""
    offset = finding.offset
    if finding.code in _ALWAYS_WORSE or offset is None:
        return finding.code in _ALWAYS_WORSE
    if finding.code == "segment.swap-index-missing":
        return not _has(partition, offset, FileKind.OFFSET_INDEX, FileState.CLEANED)
    kind = _COMPANION_OF_CODE.get(finding.code)
    return kind is not None and _is_lost(partition, offset, kind)


def _would_replace(partition: Partition, name: FileName) -> bool:
    """Whether an index would be put in the place of another one without its log, as no replacement leaves it."""
    if name.kind not in INDEX_KINDS or name.base_offset is None:
        return False
    has_log = _has(partition, name.base_offset, FileKind.LOG, FileState.SWAP)
    return not has_log and _has(partition, name.base_offset, name.kind, FileState.LIVE)


def _is_lost(partition: Partition, offset: int, kind: FileKind) -> bool:
    """Whether a broker has had this file: it makes those of the active segment when it first needs them.

    Those of a segment that compaction has just replaced may still wait under their other names.
    """
    siblings = [segment for segment in partition.segments if segment.size_bytes and segment.base_offset != offset]
    part = "index" if kind is FileKind.OFFSET_INDEX else "timeindex"
    is_closed = any(
        segment.base_offset == offset and segment.state is SegmentState.CLOSED for segment in partition.segments
    )
    has_sibling = any(getattr(segment, part) is not None for segment in siblings)
    return is_closed and has_sibling and not _has(partition, offset, kind, FileState.SWAP)


def _has(partition: Partition, offset: int, kind: FileKind, state: FileState) -> bool:
    name = segment_file_name(offset, kind, state)
    return any(file.name.raw == name for file in partition.files)


# --- text files -------------------------------------------------------------------------------------------------------
def _text_findings(partition: Partition, formats: Collection[str], epochs: EpochText | None) -> Iterator[Finding]:
    for file in partition.metadata_files:
        if file.name.state is not FileState.LIVE:
            continue
        place = EntryFile(path=file.path, kind=file.name.kind, topic=partition.topic, partition=partition.partition)
        try:
            if file.name.kind is FileKind.LEADER_EPOCH:
                text = epochs or read_epochs(place)
                yield from text.findings
                if text.is_cut and "v2" in formats:
                    yield place.finding("epochs.cut")
            elif file.name.kind is FileKind.QUORUM_STATE:
                quorum_state = read_properties(place)
                yield from () if quorum_state is None else quorum_state.findings
        except NotFoundError:  # a broker at work has put another one in its place
            continue
        except StorageError as error:
            yield place.finding(code_of_error(error), reason=error.message)


def _missing_texts(partition: Partition, context: PartitionContext, formats: Collection[str]) -> Iterator[Finding]:
    if partition.name.state is not DirectoryState.CURRENT or not any(s.size_bytes for s in partition.segments):
        return
    kinds = {file.name.kind for file in partition.metadata_files if file.name.state is FileState.LIVE}
    if FileKind.LEADER_EPOCH not in kinds and "v2" in formats and _is_a_brokers(partition, context):
        yield found("epochs.missing", f"{partition.path}/{fixed_file_name(FileKind.LEADER_EPOCH)}")
    if FileKind.PARTITION_METADATA not in kinds and context.is_kraft and partition.topic != METADATA_TOPIC:
        yield found("partition-metadata.missing", f"{partition.path}/{fixed_file_name(FileKind.PARTITION_METADATA)}")


def _is_a_brokers(partition: Partition, context: PartitionContext) -> bool:
    """Whether the directory is as a broker has it, and not a copy of some of its files."""
    return context.log_dir is not None or any(_is_index(file) for file in partition.files)


def _is_index(file: FileInfo) -> bool:
    return file.name.kind is FileKind.OFFSET_INDEX
