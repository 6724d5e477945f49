"""The copies of a partition: where they are, and what the files around their logs say of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_core.format.names import DirectoryState, FileKind
from kafkalog_core.ops.logdirs.brokerdir import read_broker_dir
from kafkalog_core.ops.mending.topic_ids import read_topic_ids
from kafkalog_core.ops.plans.sites import sites_of
from kafkalog_core.ops.recovery.epochs import EpochStart, read_epoch_file
from kafkalog_core.storage.logdir import PartitionPath
from kafkalog_core.storage.partition import read_partition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.ops.logdirs.brokerdir import BrokerDir
    from kafkalog_core.ops.selecting.targets import Target
    from kafkalog_core.storage.partition import Partition

__all__ = ["Copy", "Place", "places_of", "read_copy"]

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A directory of the partition, and what its broker's checkpoints hold of it.

    Args:
        path: of the directory.
        node_id: of the broker; null: not known.
        log_start: checkpointed; null: nothing is.
        high_watermark: checkpointed; null: nothing is.
        cleaned_to: how far the broker's cleaner came; null: it has not cleaned this log.
        knows_cleaner: whether there is a cleaner's checkpoint that can be read.
    """

    path: str
    node_id: str | None = None
    log_start: int | None = None
    high_watermark: int | None = None
    cleaned_to: int | None = None
    knows_cleaner: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A place, and what is in its directory."""

    place: Place
    partition: Partition
    topic_id: str | None
    epochs_in_file: tuple[EpochStart, ...]

    @property
    def log_start(self) -> int:
        """First offset that a broker serves."""
        base = self.partition.segments[0].base_offset if self.partition.segments else 0
        return max(base, self.place.log_start or 0)

    @property
    def bytes(self) -> int:
        """Bytes of log."""
        return sum(segment.size_bytes for segment in self.partition.segments)


def places_of(targets: Iterable[Target]) -> tuple[dict[TopicPartition, list[Place]], list[PartitionPath]]:
    """Directories of each partition by topic and number, and those that are set aside, which are not compared.

    Raises StorageError.
    """
    places: dict[TopicPartition, list[Place]] = {}
    aside: list[PartitionPath] = []
    for site in sites_of(targets):
        broker_dir = None if site.log_dir is None else read_broker_dir(site.log_dir)
        for path in site.partitions:
            name = path.name
            if name.topic is None or name.partition is None:
                continue
            if name.state is not DirectoryState.CURRENT:
                aside.append(path)
                continue
            places.setdefault((name.topic, name.partition), []).append(_place(path, broker_dir))
    return dict(sorted(places.items())), aside


def _place(path: PartitionPath, broker_dir: BrokerDir | None) -> Place:
    if broker_dir is None:
        return Place(path=path.path)
    cleaner = broker_dir.offsets.get(FileKind.CLEANER_OFFSET)
    return Place(
        path=path.path,
        node_id=broker_dir.node_id,
        log_start=broker_dir.offset(FileKind.LOG_START_OFFSET, path.name),
        high_watermark=broker_dir.offset(FileKind.HIGH_WATERMARK, path.name),
        cleaned_to=broker_dir.offset(FileKind.CLEANER_OFFSET, path.name),
        knows_cleaner=cleaner is not None and not cleaner.is_refused,
    )


def read_copy(place: Place) -> Copy:
    """Look into the directory. Raises StorageError."""
    partition = read_partition(place.path)
    epochs = read_epoch_file(place.path)
    return Copy(
        place=place,
        partition=partition,
        topic_id=_topic_id(partition),
        epochs_in_file=() if epochs is None or epochs.refusal is not None else epochs.entries,
    )


def _topic_id(partition: Partition) -> str | None:
    place = PartitionPath(path=partition.path, name=partition.name, device=0, inode=0)
    said = read_topic_ids([place], {}, "").of_topic.get(partition.topic or "", {})
    return next(iter(said), None)
