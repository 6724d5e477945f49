"""The copies of each partition on the disks that a command names, and which of them a cluster would go on with.

They are compared as far as their ends and checkpoints tell; see `copy_rank`.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_line
from kafkalog_core.engine.targets import FileTarget, LogDirTarget
from kafkalog_core.errors import RefusedError, SelectionError, StorageError
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind, TopicPartition
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.logdir.bounds import log_bounds, read_extent
from kafkalog_core.kafka.sim.logdir.leader_epochs import epochs_in_file
from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext, read_broker_dir
from kafkalog_core.kafka.sim.named_dirs import identity_of
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.storage.access import denial
from kafkalog_core.storage.logdir import read_log_dir
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalog_core.engine.targets import Target
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir
    from kafkalog_core.storage.logdir import PartitionPath
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "CopiesOnDisk",
    "LogCopy",
    "PartitionCopy",
    "best_of",
    "check_one_cluster",
    "copies_on_disk",
    "copy_rank",
    "current_topic_ids",
    "read_log_copy",
]

_NO_COPIES: Final = frozenset({DirectoryState.FUTURE, DirectoryState.REMOTE_INDEX_CACHE})


class PartitionCopy(Struct, frozen=True):
    """A directory of a partition, the broker's log directory that it is in, and what the checkpoints there have of it.

    `log_dir` is None where the partition is in no log directory of a broker. `cleaned_to`: the offset that the cleaner
    has reached; None: it has not cleaned this log, or that is unknown. `knows_cleaner`: its checkpoint can be read.
    """

    place: PartitionPath
    log_dir: str | None
    context: PartitionContext
    cleaned_to: int | None = None
    knows_cleaner: bool = False


class CopiesOnDisk(Struct, dict=True):
    """What targets name.

    Args:
        copies: the directories of partitions, also those that a broker has set aside. The metadata log of the cluster
            is none of them: it is for controllers, and no broker lists it as a topic.
        brokers: the log directories of brokers, by path.
        files: single files.
    """

    copies: list[PartitionCopy] = field(default_factory=list)
    brokers: dict[str, BrokerDir] = field(default_factory=dict)
    files: list[FileTarget] = field(default_factory=list)

    @cached_property
    def places(self) -> dict[TopicPartition, list[PartitionCopy]]:
        """The directories in use, by topic and number."""
        found: dict[TopicPartition, list[PartitionCopy]] = {}
        for copy in self.copies:
            name = copy.place.name
            if name.state is DirectoryState.CURRENT and name.topic is not None and name.partition is not None:
                found.setdefault((name.topic, name.partition), []).append(copy)
        return found

    @cached_property
    def deleted(self) -> dict[str, list[PartitionPath]]:
        """The directories that wait for their deletion, by topic."""
        found: dict[str, list[PartitionPath]] = {}
        for copy in self.copies:
            name = copy.place.name
            if name.state is DirectoryState.DELETE and name.topic is not None:
                found.setdefault(name.topic, []).append(copy.place)
        return found


def copies_on_disk(targets: Iterable[Target], *, advice: str | None = None) -> CopiesOnDisk:
    """Return what targets name. Raises StorageError of a log directory that cannot be listed.

    advice: what to do instead of naming a single file, for which SelectionError is raised; None: it is allowed.
    """
    found = CopiesOnDisk()
    for target in targets:
        if isinstance(target, FileTarget):
            if advice is not None:
                raise SelectionError(f"{target.path}: {advice}")
            found.files.append(target)
            continue
        places = target.partitions if isinstance(target, LogDirTarget) else (target.place,)
        log_dir = target.broker_path if isinstance(target, LogDirTarget) else target.log_dir
        if log_dir is not None and log_dir not in found.brokers:
            listed = target.log_dir if isinstance(target, LogDirTarget) else read_log_dir(log_dir)
            found.brokers[log_dir] = read_broker_dir(listed)
        for place in places:
            name = place.name
            if name.topic != METADATA_TOPIC and name.state not in _NO_COPIES:
                broker = None if log_dir is None else found.brokers[log_dir]
                context = PartitionContext() if broker is None else broker.context(name)
                cleaned_to = None if broker is None else broker.offset(FileKind.CLEANER_OFFSET, name)
                knows_cleaner = broker is not None and broker.knows_cleaner
                found.copies.append(PartitionCopy(place, log_dir, context, cleaned_to, knows_cleaner))
    return found


def check_one_cluster(log_dirs: Iterable[str], command: str, consequence: str) -> str | None:
    """Return the id of the cluster that log directories are of; None: it is unknown.

    A broker refuses log directories of two clusters (`MetaPropertiesEnsemble.verify`), and so does this: it raises
    RefusedError.

    Args:
        log_dirs: paths of the log directories.
        command: that is refused, without its paths.
        consequence: why two clusters are refused, as the end of a sentence.
    """
    clusters: dict[str, list[str]] = {}
    for path in log_dirs:
        cluster_id = identity_of(path).cluster_id
        if cluster_id is not None:
            clusters.setdefault(cluster_id, []).append(path)
    if len(clusters) > 1:
        ways = [WayOut(f"name those of {name}", f"{command} {shell_line(paths)}") for name, paths in clusters.items()]
        reason = f"the log directories belong to {len(clusters)} clusters, {consequence}"
        raise RefusedError(Refusal(reason, tuple(ways)))
    return next(iter(clusters), None)


def current_topic_ids(
    copies: Iterable[PartitionCopy], ids: Mapping[str, str | None], of_cluster: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the present id of each topic, and the other ids that directories of it have.

    A topic that was deleted and created again has directories with two ids. The metadata log decides; without it, most
    directories are of the present topic.

    Args:
        copies: the directories.
        ids: the topic id of each directory, by its path; None: it has none.
        of_cluster: the topic ids in the metadata log, by name.
    """
    counts: dict[str, Counter[str]] = {}
    for copy in copies:
        topic_id = ids[copy.place.path]
        if topic_id is not None and copy.place.name.state is DirectoryState.CURRENT:
            counts.setdefault(copy.place.name.topic or "", Counter())[topic_id] += 1
    current: dict[str, str] = {}
    others: dict[str, list[str]] = {}
    for topic, found in counts.items():
        in_log = of_cluster.get(topic)
        current[topic] = in_log if in_log is not None and in_log in found else found.most_common(1)[0][0]
        others[topic] = [each for each in found if each != current[topic]]
    return current, others


def copy_rank(leader_epoch: int, end_offset: int, start_offset: int) -> tuple[int, int, int]:
    """Return the sort key of a copy, the best one last: by leader epoch, then by length, then by its older records.

    An unclean election prefers the latest leader epoch and then the longest log (KIP-966): a log that is longer in an
    earlier epoch was truncated when its broker followed the later leader (KIP-101). `kafkalog replicas` uses the
    same rule, and reads the copies to their ends: only then is damage within them known.
    """
    return leader_epoch, end_offset, -start_offset


class LogCopy(Struct, frozen=True, kw_only=True):
    """A copy of a partition, as it was found.

    Args:
        place: its directory.
        partition: its files.
        log_start_offset: the first offset that a broker serves; that of a tiered log is below its first segment.
        log_end_offset: the offset after the last whole batch.
        leader_epoch: the latest that its checkpoint or its last batch has; -1: none.
        max_timestamp_ms: the largest of its last batches; -1: none.
    """

    place: PartitionCopy
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


def read_log_copy(place: PartitionCopy, release: Release) -> LogCopy:
    """Read the bounds of a copy: the ends of its log and its checkpoints, not the log. Raises StorageError."""
    partition = read_partition(place.place.path)
    extent = read_extent(partition)
    bases = [segment.base_offset for segment in partition.segments if segment.log is not None]
    if extent is None and bases:
        last = next(segment.log for segment in reversed(partition.segments) if segment.log is not None)
        raise denial(last.path) or StorageError("its last segment cannot be read", path=partition.path)
    end = 0 if extent is None else extent.end
    bounds = log_bounds(bases[0] if bases else None, place.context, rules_of(release), end_offset=end)
    # A start discards entries after the end (LeaderEpochFileCache.truncateFromEnd).
    latest = [each.epoch for each in epochs_in_file(partition.path) if each.start_offset <= end]
    return LogCopy(
        place=place,
        partition=partition,
        log_start_offset=bounds.log_start.offset,
        log_end_offset=max(end, bounds.local_start) if bounds.log_end is None else bounds.log_end,
        leader_epoch=max([*latest, -1 if extent is None else extent.leader_epoch]),
        max_timestamp_ms=-1 if extent is None else extent.max_timestamp_ms,
    )


def best_of(
    places: Sequence[PartitionCopy], release: Release
) -> tuple[LogCopy | None, list[LogCopy], list[StorageError]]:
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
