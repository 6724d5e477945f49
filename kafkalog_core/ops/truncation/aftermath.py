"""What follows from a cut for the small files of a partition: producer snapshots and leader epochs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_core.format.checkpoint_text import encode_epoch_checkpoint
from kafkalog_core.ops.recovery.epochs import EpochCache, read_epoch_file
from kafkalog_core.ops.recovery.loader_rules import log_start, rules_of
from kafkalog_core.ops.recovery.producer_load import ProducerLoad
from kafkalog_core.ops.recovery.replay import Reading
from kafkalog_core.ops.recovery.snapshots import SnapshotFiles, SnapshotOptions

if TYPE_CHECKING:
    from kafkalog_core.ops.logdirs.context import PartitionContext
    from kafkalog_core.ops.producing.producers import OpenTxn
    from kafkalog_core.ops.recovery.epochs import EpochStart
    from kafkalog_core.ops.recovery.replay import Obstacle
    from kafkalog_core.ops.releases.release import Release
    from kafkalog_core.ops.releases.setting_values import TopicSettings
    from kafkalog_core.ops.truncation.cut import Cut

__all__ = ["Aftermath", "Surroundings", "aftermath_of", "epochs_after"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a cut depends on beside the files of the partition.

    Args:
        context: what the log directory says of it.
        high_watermark: as checkpointed; null: it is not known.
        release: whose rules.
        settings: of the topic.
        expiration_ms: after which a silent producer is forgotten.
        expirations_ms: the shortest and the longest one of the releases that the disk may be of.
        now_ms: the time that counts as now.
    """

    context: PartitionContext
    high_watermark: int | None
    release: Release
    settings: TopicSettings
    expiration_ms: int
    expirations_ms: tuple[int, int]
    now_ms: int

    @property
    def snapshot_options(self) -> SnapshotOptions:
        """How producer snapshots are read and written."""
        return SnapshotOptions.of_release(
            self.release, now_ms=self.now_ms, expiration_ms=self.expiration_ms, expirations_ms=self.expirations_ms
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Aftermath:
    """The small files behind a cut.

    Args:
        snapshots: as they are to be; null: nothing is known, and those behind the end go.
        epochs: path and content of the leader-epoch-checkpoint; null: it stays as it is.
        open_transactions: at the new end.
        obstacle: path and place that keep the producers from being told; null: none.
    """

    snapshots: SnapshotFiles | None = None
    epochs: tuple[str, bytes] | None = None
    open_transactions: tuple[OpenTxn, ...] = ()
    obstacle: tuple[str, Obstacle] | None = None

    @property
    def is_expiration_decisive(self) -> bool:
        """Whether new snapshots depend on after what time the release forgets a silent producer."""
        return self.snapshots is not None and self.snapshots.is_expiration_decisive and bool(self.snapshots.made)


def aftermath_of(cut: Cut, around: Surroundings) -> Aftermath:
    """What `UnifiedLog.truncateTo` does to the small files."""
    epochs = epochs_after(cut, around)
    if cut.partition.format == "v07" or not rules_of(around.release).has_producers:
        return Aftermath(epochs=epochs)
    files = SnapshotFiles.of(cut.partition)
    search = rules_of(around.release).search
    load = ProducerLoad(files, around.snapshot_options, marks_last_segments=False, search=search)
    first_base, is_tiered = cut.partition.segments[0].base_offset, around.settings.remote_storage_enable
    start_offset = log_start(around.context.log_start_offset, first_base, is_tiered=is_tiered)
    start_offset = min(start_offset, cut.end_offset)
    obstacle = load.at_end(_readings(cut), start_offset, cut.end_offset, is_clean=False)
    if obstacle is not None:
        return Aftermath(epochs=epochs, obstacle=obstacle)
    states = load.at_end_of_log
    return Aftermath(
        snapshots=files,
        epochs=epochs,
        open_transactions=() if states is None else tuple(states.open_transactions()),
    )


def epochs_after(
    cut: Cut, around: Surroundings, entries: tuple[EpochStart, ...] | None = None
) -> tuple[str, bytes] | None:
    """Path and content of the leader-epoch-checkpoint behind a cut; null: it stays, or cannot be read.

    Args:
        cut: what goes.
        around: the release.
        entries: those that are to stand there; null: those that are, up to the new end.
    """
    file = read_epoch_file(cut.partition.path)
    if file is None or file.refusal is not None:
        return None
    if entries is None:
        cache = EpochCache(file.entries, around.release)
        cache.cut_end(cut.end_offset)
        entries = cache.entries
    if entries == file.entries:
        return None
    return file.path, encode_epoch_checkpoint(entries)


def _readings(cut: Cut) -> list[Reading]:
    sizes = {each.segment.base_offset: each.size_bytes for each in cut.segments}
    gone = {segment.base_offset for segment in cut.removed}
    return [
        Reading(segment.base_offset, segment.files[0].path, sizes.get(segment.base_offset, segment.size_bytes))
        for segment in cut.partition.segments
        if segment.base_offset not in gone
    ]
