"""Which segments a start recovers, and why: after an unclean shutdown, without an index, with a wrong one.

Recovery reads a whole segment, truncates it at the first bad batch and builds its indexes again (`recovery`). A start
reads no other segment as a whole, so it does not find damage there.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.errors import StorageError
from kafkalog_core.format.index import MAX_TXN_INDEX_BYTES, decode_offset_entry, decode_time_entry, iter_txn_entries
from kafkalog_core.format.layout import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY, TXN_INDEX_ENTRY
from kafkalog_core.format.names import METADATA_TOPIC, FileKind, fixed_file_name
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.storage.paths import exists
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.format.layout import Layout
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.rules.rule_table import LoaderRules
    from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
    from kafkalog_core.storage.listing import FileInfo, Segment

__all__ = [
    "RECOVERY_REASONS",
    "Occasion",
    "first_recovered",
    "lone_occasion",
    "recovers_v07",
    "txn_index_fault",
]

Occasion = Literal["unclean-stop", "metadata-log", "no-index", "odd-index"]
RECOVERY_REASONS: Final[dict[Occasion, str]] = {
    "unclean-stop": "the last shutdown was not clean, and the segment is not below the recovery point",
    "metadata-log": "a node recovers its metadata log at every start",
    "no-index": "it has no offset index",
    "odd-index": "its index is not valid",
}


def first_recovered(
    base_offsets: Sequence[int], context: PartitionContext, topic: str | None, release: Release | None
) -> int | None:
    """Return the position in `base_offsets` of the first segment that the next start recovers, with all after it.

    A segment without an offset index is recovered on its own, whatever this returns.

    Args:
        base_offsets: of all segments, ascending.
        context: whether the last shutdown was clean, and the recovery point.
        topic: of the partition.
        release: whose rules are used; None: unknown.

    Returns:
        None where no segment is recovered, or where it is unknown whether the last shutdown was clean.
    """
    # KafkaRaftLog loads the metadata log as after an unclean shutdown, with recovery point 0
    if topic == METADATA_TOPIC:
        return 0 if base_offsets else None
    # LogLoader.recoverLog does nothing after a clean shutdown: no checksum is computed
    if context.is_clean is not False or not base_offsets:
        return None
    last = len(base_offsets) - 1
    # Log.loadSegments of 0.8.0 recovers the last segment; KAFKA-615 added the recovery point in 0.8.1
    if release is not None and rules_of(release).recovers == "last":
        return last
    # LogSegments.values(recoveryPoint, MAX): from the segment that holds the recovery point on, the last one always
    point = context.recovery_point or 0
    return next((number for number, end in enumerate(base_offsets[1:]) if point < end), last)


def recovers_v07(directory: str, *, is_clean: bool | None) -> bool:
    """Return whether Kafka 0.7 recovers the last file of a partition, and truncates it before its first bad message.

    A log directory of 0.7 holds partitions and the clean shutdown file alone, so it is not recognized as one: where
    `is_clean` is not True, the file is looked for next to the partition.

    Args:
        directory: path of the partition.
        is_clean: whether its log directory is known to have the clean shutdown file; None: unknown.
    """
    mark = f"{os.path.dirname(directory)}/{fixed_file_name(FileKind.CLEAN_SHUTDOWN)}"
    return not is_clean and not exists(mark)


def lone_occasion(
    segment: Segment, rules: LoaderRules, *, has_index: bool
) -> Occasion | Literal["unknown-version"] | None:
    """Return why a start recovers a segment on its own, whatever the last shutdown was; None: it trusts its indexes.

    `unknown-version`: the broker stops at an entry of the transaction index.

    Args:
        segment: with its indexes.
        rules: those of the release.
        has_index: whether there is an offset index when the broker opens the segment.
    """
    # LogSegment.sanityCheck: NoSuchFileException for a missing offset index, whatever the shutdown was
    if not has_index:
        return "no-index" if rules.missing_index == "recover" else None
    if rules.checks_indexes == "recover" and _is_odd_index(segment, may_end_at_base=rules.may_end_at_base):
        return "odd-index"
    # TransactionIndex.sanityCheck is the one check of an index that 2.3 and later make here
    if segment.txnindex is not None and rules.has_producers:
        fault = txn_index_fault(segment.txnindex.path, segment.base_offset, rules)
        return "unknown-version" if fault == "version" else None if fault is None else "odd-index"
    return None


def _is_odd_index(segment: Segment, *, may_end_at_base: bool) -> bool:
    """Return whether a release before 2.3 takes an offset or time index for corrupt.

    `OffsetIndex.sanityCheck` and `TimeIndex.sanityCheck` check the sizes, the last offsets and the last time.

    Args:
        segment: with its indexes.
        may_end_at_base: as in `LoaderRules`.
    """
    last = _entry(segment.index, OFFSET_INDEX_ENTRY, -1)
    least = 0 if may_end_at_base else 1
    if last is not None and (not last or decode_offset_entry(last)[0].relative_offset < least):
        return True
    first_time, last_time = (_entry(segment.timeindex, TIME_INDEX_ENTRY, which) for which in (0, -1))
    if first_time is None or last_time is None:
        return False
    if not first_time or not last_time:
        return True
    first, final = decode_time_entry(first_time)[0], decode_time_entry(last_time)[0]
    return final.timestamp_ms < first.timestamp_ms or final.relative_offset < 0


def txn_index_fault(path: str, base_offset: int, rules: LoaderRules | None = None) -> str | None:
    """Return what a broker finds wrong with a transaction index: `stray` (it recovers) or `version` (it stops).

    Args:
        path: of the index.
        base_offset: of its segment.
        rules: those of the release; None: what a broker of any release finds wrong with it.
    """
    try:
        with Source.open(path) as source:
            position = 0
            while position < MAX_TXN_INDEX_BYTES and (window := source.window(position)):
                whole = len(window) - len(window) % TXN_INDEX_ENTRY.size
                for version, _, _, last_offset, _ in iter_txn_entries(window[:whole]):
                    if version and (rules is None or not rules.knows_txn_version(version)):
                        return "version"
                    if last_offset < base_offset:
                        return "stray"
                if not whole:
                    return None
                position += whole
    except StorageError:
        return None
    return None


def _entry(file: FileInfo | None, layout: Layout, which: int) -> bytes | None:
    """Return the first or last entry; None: there is none; empty: the file ends in the middle of one."""
    if file is None:
        return None
    try:
        with Source.open(file.path) as source:
            count, rest = divmod(source.size_bytes, layout.size)
            if rest:
                return b""
            return source.read(0 if which == 0 else (count - 1) * layout.size, layout.size) if count else None
    except StorageError:
        return None
