"""The copies of each partition on the disks that a command names, and which of them a cluster would go on with."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_line
from kafkalog_core.engine.targets import FileTarget, LogDirTarget
from kafkalog_core.errors import RefusedError, SelectionError
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState
from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext, read_broker_dir
from kafkalog_core.kafka.sim.named_dirs import identity_of
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.storage.logdir import read_log_dir
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalog_core.engine.targets import Target
    from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir
    from kafkalog_core.storage.logdir import PartitionPath

__all__ = ["PartitionCopy", "check_one_cluster", "copies_of", "copy_rank", "current_topic_ids"]

_NO_COPIES: Final = frozenset({DirectoryState.FUTURE, DirectoryState.REMOTE_INDEX_CACHE})


class PartitionCopy(Struct, frozen=True):
    """A directory of a partition, the directory that it is in, and what the checkpoints there have of it."""

    place: PartitionPath
    log_dir: str
    context: PartitionContext


def copies_of(targets: Sequence[Target], advice: str) -> tuple[list[PartitionCopy], dict[str, BrokerDir]]:
    """Return the partition directories that targets name, and the brokers' log directories that they are in.

    `advice`: what to do instead of naming a single file. Raises SelectionError for a single file, and StorageError.
    """
    copies: list[PartitionCopy] = []
    brokers: dict[str, BrokerDir] = {}
    for target in targets:
        if isinstance(target, FileTarget):
            raise SelectionError(f"{target.path}: {advice}")
        path, places = target.path, target.partitions if isinstance(target, LogDirTarget) else (target.place,)
        log_dir = target.broker_path if isinstance(target, LogDirTarget) else target.log_dir
        if log_dir is not None and log_dir not in brokers:
            listed = target.log_dir if isinstance(target, LogDirTarget) else read_log_dir(log_dir)
            brokers[log_dir] = read_broker_dir(listed)
        for place in places:
            # the cluster's metadata log is for controllers: no broker lists it as a topic
            if place.name.topic != METADATA_TOPIC and place.name.state not in _NO_COPIES:
                context = brokers[log_dir].context(place.name) if log_dir is not None else PartitionContext()
                copies.append(PartitionCopy(place, log_dir or path, context))
    return copies, brokers


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
