"""Where the log of a dead disk ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.kafka.sim.batch_faults import BatchFaults
from kafkalog_core.kafka.sim.logdir.bounds import last_indexed
from kafkalog_core.storage.scan import Damage, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalog_core.kafka.sim.batch_places import PlaceBounds
    from kafkalog_core.serve.logs.batch_map import BatchMap
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.scan import ScanOptions

__all__ = ["LogTail", "find_tail"]

_UNDEFINED: Final = -1


class LogTail(NamedTuple):
    """The end of a log: the log end offset, the leader epoch of the last batch of the last segment (-1: it has none).

    `readable`: the offset after the last batch that is served, which is lower if the last segment is empty and starts
    later, or if what is in the last batch cannot be read.
    """

    end: int
    epoch: int
    readable: int


def find_tail(
    segments: Sequence[Segment],
    log_start_offset: int,
    *,
    options: ScanOptions,
    bounds_of: Callable[[Segment], PlaceBounds],
    map_of: Callable[[int], BatchMap],
) -> LogTail:
    """Read the end of a log. Raises StorageError.

    Metadata asks this of every partition, so it is read from the last index entry on, where the index is right and the
    log is whole from there (as `LogSegment.readNextOffset` does); else the segment is mapped. A last segment that is
    not whole may be a stray one within the range of an earlier one, which then ends the log.

    Args:
        segments: those with a log, by base offset.
        log_start_offset: of the log.
        options: of scans.
        bounds_of: returns what bounds the offsets of a segment.
        map_of: returns the map of the segment of a number.
    """
    end, epoch = log_start_offset, _UNDEFINED
    readable: int | None = None
    has_holes = False
    last = len(segments) - 1
    for number in range(last, -1, -1):
        found = _whole_tail(segments[number], bounds_of(segments[number]), options)
        served = log_start_offset if found is None else found[0]
        is_whole = has_batches = found is not None
        if found is None:
            batches = map_of(number)
            served, has_holes = batches.end_offset, has_holes or bool(batches.holes)
            found = batches.log_end_offset, batches.epochs[-1][0] if batches.epochs else _UNDEFINED
            is_whole = batches.end_offset > segments[number].base_offset and not batches.holes
            has_batches = bool(batches.end)
        if found[0] > end or number == last:
            end, epoch = max(found[0], end), found[1]
        if has_batches:
            readable = max(served, readable or log_start_offset)
        if is_whole:
            break
    if readable is None:
        readable = log_start_offset if has_holes else end
    return LogTail(end, epoch, readable)


def _whole_tail(segment: Segment, bounds: PlaceBounds, options: ScanOptions) -> tuple[int, int] | None:
    """Return end offset and last leader epoch of a segment by its index; None: no index helps, or damage."""
    with Source.open(segment.files[0].path) as source:
        start = last_indexed(source, segment)
        if not start:
            return None
        faults = BatchFaults(source, bounds, options, opens_batches=options.check, start=start)
        end, epoch = segment.base_offset, _UNDEFINED
        for item in faults.watched(scan(source, base_offset=segment.base_offset, options=options, start=start)):
            if isinstance(item, Damage):
                return None
            end, epoch = item.batches.column("last_offset")[-1] + 1, item.batches.column("leader_epoch")[-1]
        return None if faults.may_be_wrong else (end, epoch)
