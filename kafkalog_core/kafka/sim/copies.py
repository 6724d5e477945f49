"""The copies of partitions on some log directories, as far as their ends and checkpoints tell; see `copy_rank`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.engine.targets import FileTarget, LogDirTarget
from kafkalog_core.errors import StorageError
from kafkalog_core.format.names import DirectoryState, FileKind, TopicPartition
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.logdir.bounds import log_bounds, read_extent
from kafkalog_core.kafka.sim.logdir.leader_epochs import read_epoch_file
from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext, read_broker_dir
from kafkalog_core.kafka.sim.partition_copies import copy_rank
from kafkalog_core.storage.access import denial
from kafkalog_core.storage.logdir import read_log_dir
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog_core.engine.targets import Target
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir
    from kafkalog_core.storage.logdir import PartitionPath
    from kafkalog_core.storage.partition import Partition

__all__ = ["CopiesOnDisk", "CopyPlace", "LogCopy", "best_of", "copies_on_disk", "read_log_copy"]


class CopyPlace(Struct, frozen=True, kw_only=True):
    """A directory of a partition, the broker's log directory that it is in, and what the checkpoints there have of it.

    `log_dir` is None where the partition is in no log directory of a broker. `cleaned_to`: the offset that the cleaner
    has reached; None: it has not cleaned this log, or that is unknown.
    """

    place: PartitionPath
    log_dir: str | None
    context: PartitionContext
    cleaned_to: int | None = None


class CopiesOnDisk(Struct):
    """The partitions that targets name.

    Args:
        places: the directories of partitions in use, by topic and number.
        deleted: the topics of directories that wait for their deletion.
        brokers: the log directories of brokers, by path.
        files: single files.
    """

    places: dict[TopicPartition, list[CopyPlace]] = field(default_factory=dict)
    deleted: dict[str, list[PartitionPath]] = field(default_factory=dict)
    brokers: dict[str, BrokerDir] = field(default_factory=dict)
    files: list[FileTarget] = field(default_factory=list)


def copies_on_disk(targets: Iterable[Target]) -> CopiesOnDisk:
    """Return what targets name. Raises StorageError of a log directory that cannot be listed."""
    found = CopiesOnDisk()
    for target in targets:
        if isinstance(target, FileTarget):
            found.files.append(target)
            continue
        places = target.partitions if isinstance(target, LogDirTarget) else (target.place,)
        log_dir = target.broker_path if isinstance(target, LogDirTarget) else target.log_dir
        if log_dir is not None and log_dir not in found.brokers:
            listed = target.log_dir if isinstance(target, LogDirTarget) else read_log_dir(log_dir)
            found.brokers[log_dir] = read_broker_dir(listed)
        for place in places:
            name = place.name
            if name.topic is None or name.partition is None:
                continue
            if name.state is DirectoryState.DELETE:
                found.deleted.setdefault(name.topic, []).append(place)
            elif name.state is DirectoryState.CURRENT:
                broker = None if log_dir is None else found.brokers[log_dir]
                context = PartitionContext() if broker is None else broker.context(name)
                cleaned_to = None if broker is None else broker.offset(FileKind.CLEANER_OFFSET, name)
                copy = CopyPlace(place=place, log_dir=log_dir, context=context, cleaned_to=cleaned_to)
                found.places.setdefault((name.topic, name.partition), []).append(copy)
    return found


class LogCopy(Struct, frozen=True, kw_only=True):
    """A copy of a partition, as it was found.

    Args:
        place: its directory.
        partition: its files.
        log_start_offset: the first offset that a broker serves.
        log_end_offset: the offset after the last whole batch.
        leader_epoch: the latest that its checkpoint or its last batch has; -1: none.
        max_timestamp_ms: the largest of its last batches; -1: none.
    """

    place: CopyPlace
    partition: Partition
    log_start_offset: int
    log_end_offset: int
    leader_epoch: int
    max_timestamp_ms: int

    @property
    def path(self) -> str:
        """Path of the directory."""
        return self.partition.path

    @property
    def rank(self) -> tuple[int, int, int]:
        """See `copy_rank`."""
        return copy_rank(self.leader_epoch, self.log_end_offset, self.log_start_offset)


def read_log_copy(place: CopyPlace, release: Release) -> LogCopy:
    """Read the bounds of a copy: the ends of its log and its checkpoints, not the log. Raises StorageError."""
    partition = read_partition(place.place.path)
    extent = read_extent(partition)
    bases = [segment.base_offset for segment in partition.segments if segment.log is not None]
    if extent is None and bases:
        last = next(segment.log for segment in reversed(partition.segments) if segment.log is not None)
        raise denial(last.path) or StorageError("its last segment cannot be read", path=partition.path)
    end = 0 if extent is None else extent.end
    bounds = log_bounds(bases[0] if bases else None, place.context, rules_of(release), end_offset=end)
    epochs = read_epoch_file(partition.path)
    known = [] if epochs is None or epochs.refusal is not None else epochs.entries
    # A start discards entries after the end (LeaderEpochFileCache.truncateFromEnd).
    latest = [each.epoch for each in known if each.start_offset <= end]
    return LogCopy(
        place=place,
        partition=partition,
        log_start_offset=bounds.local_start,
        log_end_offset=max(end, bounds.local_start) if bounds.log_end is None else bounds.log_end,
        leader_epoch=max([*latest, -1 if extent is None else extent.leader_epoch]),
        max_timestamp_ms=-1 if extent is None else extent.max_timestamp_ms,
    )


def best_of(places: Sequence[CopyPlace], release: Release) -> tuple[LogCopy | None, list[LogCopy], list[StorageError]]:
    """Return the copy that a cluster would go on with, all copies, and why others cannot be read."""
    copies, errors = [], []
    for place in places:
        try:
            copies.append(read_log_copy(place, release))
        except StorageError as error:
            errors.append(error)
    best = None
    for copy in copies:
        if best is None or copy.rank > best.rank:
            best = copy
    return best, copies, errors
