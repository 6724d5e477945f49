"""Where a broker takes a log to end after a clean shutdown, where damage or an index makes that another place.

It reads the last segment from the last index entry on (`LogSegment.readNextOffset`), with headers alone: the same look
that the simulation of a start takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import found
from kafkalog_core.format.names import METADATA_TOPIC
from kafkalog_core.ops.recovery.replay import end_of_log
from kafkalog_core.storage.partition import read_partition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.recovery.loader_rules import OffsetSearch
    from kafkalog_core.ops.verify.verdict import PartitionVerdict

__all__ = ["end_findings", "is_end_in_doubt"]

_SAID: tuple[str, ...] = ("Does not start", "May not start")


def is_end_in_doubt(verdict: PartitionVerdict) -> bool:
    """Whether the last segment is damaged, so that a broker may see another end than its last whole batch."""
    return verdict.topic != METADATA_TOPIC and bool(verdict.segments) and bool(verdict.segments[-1].damage)


def end_findings(verdict: PartitionVerdict, search: OffsetSearch) -> Iterator[Finding]:
    """What a clean start makes of the end of a log that is in doubt.

    Args:
        verdict: of the partition.
        search: how the release looks for an offset.
    """
    try:
        partition = read_partition(verdict.path)
        if partition.format == "v07":  # its log ends where its file does: there is no offset index
            return
        segment = partition.segments[-1]
        log = segment.files[0]
        end = end_of_log(log.path, segment.size_bytes, segment.base_offset, segment.index, search=search)
    except (StorageError, IndexError):  # told with the partition
        return
    place = {"topic": verdict.topic, "partition": verdict.partition}
    if end.obstacle is not None:
        if not any((finding.broker_action or "").startswith(_SAID) for finding in verdict.findings):
            position, reason, _ = end.obstacle
            yield found("log.end-unreadable", log.path, position=position, why=reason, **place)  # type: ignore[arg-type]
    elif end.is_lost and (verdict.log_end_offset or 0) > end.offset:
        last = (verdict.log_end_offset or 0) - 1
        yield found("log.end-hidden", log.path, offset=end.offset, last=last, **place)  # type: ignore[arg-type]
