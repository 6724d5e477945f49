"""How the releases differ in what they do to a partition at their start (`LogLoader`, before 2.8 `Log`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from kafkalog_core.ops.releases.release import Release

__all__ = ["LoaderRules", "OffsetSearch", "SwapRule", "log_start", "rules_of"]

SwapRule = Literal["not-foreseen", "recovered", "renamed"]
"""What a start does with the finished replacements (`.swap`) of an interrupted compaction or split: they are renamed
before anything is opened, and trusted; or their log is recovered when all segments are open, and takes the place of
those that it overlaps."""
OffsetSearch = Literal["last", "last-then-base", "base"]
"""By which offsets of the batches `FileRecords` looks for an offset: the base offset of a compressed message is known
only when it is unpacked."""

_TOLERANT: Final = Release(0, 8, 1)
_CHECKS_EARLY: Final = Release(0, 9)
_TIME_INDEXES: Final = Release(0, 10, 1)
_PRODUCERS: Final = Release(0, 11)
_KEEPS_OLD_PRODUCERS: Final = Release(2, 4)  # 2.3.1 drops them, 2.4.1 does not (isProducerRetained is gone)
_LAZY_INDEXES: Final = Release(2, 0)
_REBUILD_AT_END: Final = Release(2, 0)
_START_OFFSETS: Final = Release(2, 2)  # 2.1.1 does not compare the log end with the log start, 2.2.2 does
_SNAPSHOT_FILES: Final = Release(2, 8)
_RECOVERY_POINTS: Final = Release(2, 8)  # 2.7.2 takes the log end for the recovery point after an unclean stop too
_SWAPS: Final = Release(2, 5)  # from here to 2.8 Log.completeSwapOperations and what it calls are the same
_LOADER: Final = Release(3, 0)
_FOUND_BY_BASE: Final = Release(4, 0)
_SEARCHED_BY_BASE: Final = Release(4, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderRules:
    """What is not the same in all releases.

    Args:
        missing_index: what a missing offset index does: the broker does not start, the segment is recovered, or an
            empty index takes its place and is trusted (seen of 0.10.0).
        recovers: whether an unclean start recovers the last segment, or all from the recovery point on.
        checks_indexes: what happens where the last entry of an offset index is not above the base offset: nothing,
            the broker does not start, or the segment is recovered.
        has_producers: whether there are producer snapshots, transaction indexes and leader epochs.
        rebuilds_at_end: whether producers are loaded anew behind recovery, with snapshots at the last two segments.
        knows_start: whether a log that ends below its checkpointed start is deleted, and a new one begins there.
        lone_recovery_assigns: whether recovery for want of an index tells the leader epochs.
        epochs_from_checkpoint: whether epochs are cut at the checkpointed start, and not at the first base offset.
        swaps: what becomes of finished replacements.
        removes_stray_snapshots: whether snapshots go that are at no base offset.
        clears_on_deletion: whether leader epochs and snapshots of a log that is deleted for its start go at once.
        reads_apart: as in `SnapshotOptions`.
        keeps_recovery_point: whether the recovery point stays where it was after an unclean stop; else it is the end.
        search: how the batch that holds an offset is looked for: by last offsets, up to 3.9; by these, and then the
            base offset of the one that was found is read, in 4.0; by base offsets, from 4.1 on.
        drops_old_producers: whether a producer is forgotten, its open transaction too, when its last batch lies below
            the log's start.
    """

    missing_index: Literal["fatal", "recover", "empty"]
    recovers: Literal["last", "from-recovery-point"]
    checks_indexes: Literal["no", "fatal", "recover"]
    has_producers: bool
    rebuilds_at_end: bool
    knows_start: bool
    lone_recovery_assigns: bool
    epochs_from_checkpoint: bool
    swaps: SwapRule
    removes_stray_snapshots: bool
    clears_on_deletion: bool
    keeps_recovery_point: bool
    reads_apart: bool
    search: OffsetSearch
    drops_old_producers: bool


def rules_of(release: Release) -> LoaderRules:
    """The rules of a release, by what was read of 0.8.0, 0.8.2, 0.9, 0.10.0, 0.11, 2.8, 3.0, 3.8, 3.9 and 4.x."""
    checks: Literal["no", "fatal", "recover"] = "no"
    if release < _LAZY_INDEXES:
        checks = "fatal" if release < _CHECKS_EARLY else "recover"
    missing: Literal["fatal", "recover", "empty"] = "recover"
    if release < _TOLERANT:
        missing = "fatal"
    elif _CHECKS_EARLY <= release < _TIME_INDEXES:
        missing = "empty"
    return LoaderRules(
        missing_index=missing,
        recovers="last" if release < _TOLERANT else "from-recovery-point",
        checks_indexes=checks,
        has_producers=release >= _PRODUCERS,
        rebuilds_at_end=release >= _REBUILD_AT_END,
        knows_start=release >= _START_OFFSETS,
        lone_recovery_assigns=release >= _LOADER,
        epochs_from_checkpoint=release >= _LOADER,
        swaps=_swaps_of(release),
        removes_stray_snapshots=release >= _SNAPSHOT_FILES,
        clears_on_deletion=release >= _RECOVERY_POINTS,
        keeps_recovery_point=release >= _RECOVERY_POINTS,
        reads_apart=release < _SNAPSHOT_FILES,
        search=_search_of(release),
        drops_old_producers=release < _KEEPS_OLD_PRODUCERS,
    )


def _swaps_of(release: Release) -> SwapRule:
    """LogLoader.load, before 3.0 Log.completeSwapOperations."""
    if release >= _LOADER:
        return "renamed"
    return "recovered" if release >= _SWAPS else "not-foreseen"


def _search_of(release: Release) -> OffsetSearch:
    """FileRecords.searchForOffsetWithSize, since 4.1 searchForOffsetFromPosition."""
    if release >= _SEARCHED_BY_BASE:
        return "base"
    return "last-then-base" if release >= _FOUND_BY_BASE else "last"


def log_start(checkpoint: int | None, first_base: int, *, is_tiered: bool) -> int:
    """From where on a broker serves a log.

    Args:
        checkpoint: the log start that its log directory tells; null: none, which counts as 0.
        first_base: base offset of the first segment that is here.
        is_tiered: what lies below it may be in the remote storage (`remote.storage.enable`), so that only the
            checkpoint counts.
    """
    return checkpoint or 0 if is_tiered else max(checkpoint or 0, first_base)
