"""The bounds of a log: log start offset, log end offset, recovery point and high watermark, each with its source.

`log_bounds` is the one statement of how a broker that starts derives them from the first segment, the end of the last
one and the checkpoints of the log directory. Everything that needs one of them asks here: the simulated start, the
forecasts of retention and compaction, look-ups, verify, truncate and reindex. `read_extent` measures the first and the
last segment as a broker does, without reading the segments between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import StorageError
from kafkalog_core.format.index import iter_offset_entries
from kafkalog_core.format.layout import LOG_OVERHEAD, MAGIC_POSITION, MAGIC_V2, OFFSET_INDEX_ENTRY
from kafkalog_core.storage.framing import used_bytes
from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from kafkalog_core.kafka.rules.rule_table import LoaderRules
    from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition

__all__ = ["Bound", "Extent", "LogBounds", "last_indexed", "log_bounds", "read_extent"]

_FRAMES: Final = ScanOptions(check=False)
_START_FILE: Final = "log-start-offset-checkpoint"
_WATERMARK_FILE: Final = "replication-offset-checkpoint"


class Bound(NamedTuple):
    """One bound of a log.

    Args:
        offset: the value.
        origin: where it comes from, for people.
        is_known: whether it is on the disk; else it is the value that is assumed.
    """

    offset: int
    origin: str
    is_known: bool = True


class LogBounds(Struct, frozen=True, kw_only=True):
    """The bounds of a log as a broker sets them when it starts.

    Args:
        log_start: the first offset that consumers can read (`UnifiedLog.logStartOffset`).
        local_start: the first such offset on this disk (`UnifiedLog.localLogStartOffset`): higher than the log start
            offset where tiered storage (KIP-405) has the segments before.
        epochs_start: the offset up to which a start discards leader epochs (`truncateFromStart`).
        log_end: the offset after the last record; None: not measured.
        recovery_point: the first offset that may not be flushed.
        high_watermark: the first offset that replicas may not have.
    """

    log_start: Bound
    local_start: int
    epochs_start: int
    log_end: int | None
    recovery_point: Bound
    high_watermark: Bound

    @property
    def remote_part(self) -> str:
        """Which offsets a broker serves from remote storage, as a clause; empty: none."""
        first, end = self.log_start.offset, self.local_start
        return f"a broker serves offsets {first} to {end - 1} from remote storage" if first < end else ""

    def lacks_remote_epochs(self, first: int | None) -> bool:
        """Return whether a leader-epoch-checkpoint has no leader epoch of the offsets that remote storage alone has.

        `RemoteLogManager.read` finds segments by them, and `RemoteLogManager.RLMExpirationTask` deletes the segments of
        epochs before the first one of the file.

        Args:
            first: start offset of the first entry of the file; None: it has none.
        """
        return self.log_start.offset < self.local_start and (first is None or first >= self.local_start)


def log_bounds(
    first_base: int | None,
    context: PartitionContext,
    rules: LoaderRules,
    *,
    is_tiered: bool | None = None,
    end_offset: int | None = None,
) -> LogBounds:
    """Return the bounds of a log under the rules of a release.

    The log start offset is the checkpointed one or the base offset of the first segment, whichever is higher
    (`LogLoader.load`, before 3.0 `Log.loadSegments`), and the checkpointed one alone in a tiered log, whose earlier
    segments are in remote storage. Before KIP-107 (0.11) it is the first base offset: no checkpoint is read.

    Args:
        first_base: base offset of the first segment; None: there is no segment, and the broker creates one.
        context: the checkpointed offsets, and whether the last shutdown was clean.
        rules: those of the release.
        is_tiered: `remote.storage.enable` of the topic; None: unknown, and a checkpoint below the first segment shows
            it, as `UnifiedLog` writes such an entry for a tiered log alone.
        end_offset: log end offset; None: not measured.
    """
    # LogManager.loadLogs passes 0 where the checkpoint has no entry
    checkpoint = max(context.log_start_offset or 0, 0) if rules.reads_log_start else 0
    if first_base is None:
        first_base = end_offset = checkpoint if rules.knows_start else 0  # LogLoader.recoverLog
    if is_tiered is None:
        is_tiered = context.log_start_offset is not None and checkpoint < first_base
    is_tiered = is_tiered and rules.has_tiers
    # LogLoader.load calls this newLogStartOffset
    local_start = max(checkpoint, first_base)
    start = checkpoint if is_tiered else local_start
    return LogBounds(
        log_start=Bound(start, _start_origin(context, first_base, start, is_tiered=is_tiered)),
        local_start=local_start,
        epochs_start=checkpoint if rules.epochs_from_checkpoint else start,
        log_end=end_offset,
        recovery_point=_recovery_point(context, rules, start, end_offset),
        high_watermark=_high_watermark(context.high_watermark, start, end_offset),
    )


def _start_origin(context: PartitionContext, first_base: int, start: int, *, is_tiered: bool) -> str:
    if context.log_start_offset is not None and (is_tiered or start > first_base):
        return _START_FILE
    return "default, as no checkpoint has it" if is_tiered else "base offset of the first segment"


def _recovery_point(context: PartitionContext, rules: LoaderRules, start: int, end: int | None) -> Bound:
    """Return the recovery point after the start (`LogLoader.recoverLog`; `UnifiedLog.updateLocalLogStartOffset`).

    After a clean shutdown, and before 2.8 after any, it is the log end offset.
    """
    if end is not None and (context.is_clean or not rules.keeps_recovery_point):
        return Bound(max(start, end), "the log end offset")
    point = max(context.recovery_point or 0, start)
    is_known = context.recovery_point is not None
    origin = "recovery-point-offset-checkpoint" if is_known else "default, as no checkpoint has it"
    return Bound(point if end is None else max(start, min(point, end)), origin, is_known)


def _high_watermark(checkpoint: int | None, start: int, end: int | None) -> Bound:
    """Return the checkpointed high watermark, raised to the log start and lowered to the log end offset.

    `UnifiedLog.updateHighWatermark`. A broker starts with 0 where no checkpoint has it, until the leader of the
    partition reports it; the log end offset is assumed here, as it is where no replica lags.
    """
    if checkpoint is None:
        return Bound(start if end is None else max(start, end), "the end of the log, as no checkpoint has it", False)
    if end is not None and checkpoint > end:
        origin = f"the end of the log, as {_WATERMARK_FILE} has {checkpoint}, which is after it"
        return Bound(max(start, end), origin)
    if checkpoint < start:
        return Bound(start, f"the start of the log, as {_WATERMARK_FILE} has {checkpoint}, which is before it")
    return Bound(checkpoint, _WATERMARK_FILE)


class Extent(Struct, frozen=True, kw_only=True):
    """What the first and the last segment show of the bounds of a log.

    Args:
        log: path of the last segment's log.
        start: base offset of the first segment.
        active: base offset of the last segment.
        end: log end offset, after the last record.
        is_sure: whether the last segment ends with a whole batch; else `end` is after the last batch that was found,
            and recovery may truncate the log before it.
        is_v2: whether there are batches of magic 2 at the end of the log, so that the broker keeps leader epochs and
            producers.
        max_timestamp_ms: the largest timestamp in the part that was read, which is at least the part that no index
            covers; -1: none.
    """

    log: str
    start: int
    active: int
    end: int
    is_sure: bool
    is_v2: bool
    max_timestamp_ms: int = -1
    leader_epoch: int = -1


def read_extent(partition: Partition) -> Extent | None:
    """Return the extent of a partition; None: it has no segment, or its last one cannot be read."""
    filled = [segment for segment in partition.segments if segment.log is not None]
    if not filled or partition.format != "log":
        return None
    last = filled[-1]
    path = last.files[0].path
    try:
        with Source.open(path) as source:
            end, is_sure, max_timestamp_ms, leader_epoch = _end(source, last)
            is_v2 = _magic(source, 0) == MAGIC_V2
        if not is_v2 and len(filled) > 1 and not last.size_bytes:
            with Source.open(filled[-2].files[0].path) as source:
                is_v2 = _magic(source, 0) == MAGIC_V2
    except StorageError:
        return None
    return Extent(
        log=path,
        start=filled[0].base_offset,
        active=last.base_offset,
        end=end,
        is_sure=is_sure,
        is_v2=is_v2,
        max_timestamp_ms=max_timestamp_ms,
        leader_epoch=leader_epoch,
    )


def _end(source: Source, segment: Segment) -> tuple[int, bool, int, int]:
    """Return the offset after the last batch, whether it is sure, the largest timestamp read, and the last epoch.

    As `LogSegment.readNextOffset` does, it reads from the last index entry on, but only where the index is right.
    """
    start = last_indexed(source, segment)
    found = _end_from(source, segment, start)
    end, is_sure, *_ = found
    return _end_from(source, segment, 0) if start and (end == segment.base_offset or not is_sure) else found


def _end_from(source: Source, segment: Segment, start: int) -> tuple[int, bool, int, int]:
    """Return the same of the batches from a position on; the last of them ends the log, whatever is before it.

    Where none of them reaches the base offset, that is the end (`LogSegment.readNextOffset` looks for it).
    """
    end, is_sure, max_timestamp_ms, leader_epoch = segment.base_offset, True, -1, -1
    has_reached = False
    for item in scan(source, base_offset=segment.base_offset, options=_FRAMES, start=start):
        if not isinstance(item, Run):
            is_sure = False
            continue
        lasts = item.batches.column("last_offset")
        has_reached = has_reached or max(lasts) >= segment.base_offset
        end = lasts[-1] + 1 if has_reached else end
        max_timestamp_ms = max(max_timestamp_ms, *item.batches.column("max_timestamp_ms"))
        leader_epoch = item.batches.column("leader_epoch")[-1]
    return end, is_sure, max_timestamp_ms, leader_epoch


def last_indexed(source: Source, segment: Segment) -> int:
    """Return the position of the last index entry, if a batch with its offset starts there; 0: the index is no help."""
    if segment.index is None:
        return 0
    try:
        with Source.open(segment.index.path) as index:
            size = OFFSET_INDEX_ENTRY.size
            last = (used_bytes(index, index.size_bytes) - 1) // size
            entries = list(iter_offset_entries(index.read(last * size, size))) if last >= 0 else []
    except StorageError:
        return 0
    if not entries:
        return 0
    relative_offset, position = entries[0]
    if not 0 < position < source.size_bytes:
        return 0
    header = source.read(position, LOG_OVERHEAD)
    base = int.from_bytes(header[:8], "big", signed=True)
    is_there = segment.base_offset <= base <= segment.base_offset + relative_offset and _magic(source, position) >= 0
    return position if is_there else 0


def _magic(source: Source, position: int) -> int:
    """Return the magic of the entry at a position; -1: an unknown one."""
    byte = source.read(position + MAGIC_POSITION, 1)
    return byte[0] if byte and byte[0] <= MAGIC_V2 else -1
