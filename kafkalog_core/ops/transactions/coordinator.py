"""What the transaction coordinators of a cluster know: the records of `__transaction_state` on some disks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.errors import StorageError
from kafkalog_core.format.names import DirectoryState
from kafkalog_core.kafka.sim.cluster import partition_count, read_topic_id
from kafkalog_core.kafka.sim.copies import PartitionCopy, current_topic_ids
from kafkalog_core.kafka.sim.transactions import read_transactions
from kafkalog_core.ops.transactions.open_transactions import rank_of
from kafkalog_core.structs import Struct, field
from kafkalog_core.text import first_of
from kafkalog_core.topics.transactions import TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.kafka.sim.metadata_log import MetadataReading
    from kafkalog_core.topics.transactions import TransactionValue

__all__ = ["Coordinators", "CopiesByPartition", "grouped", "read_coordinators"]

CopiesByPartition = dict[tuple[str, int], list[PartitionCopy]]
"""The copies of each partition, by topic and number."""


class Coordinators(Struct, kw_only=True):
    """The transactional ids on some disks.

    Args:
        transactions: the last value of each transactional id.
        partition_of: the partition of `__transaction_state` that each of them is in.
        logs: path of the copy of each partition that was read: the one that a cluster would go on with.
        problems: sentences about places where records may be missing, by partition.
        missing: partitions of which no copy can be read.
        left_out: sentences about copies that were not read.
    """

    transactions: dict[str, TransactionValue] = field(default_factory=dict)
    partition_of: dict[str, int] = field(default_factory=dict)
    logs: dict[int, str] = field(default_factory=dict)
    problems: dict[int, list[str]] = field(default_factory=dict)
    missing: tuple[int, ...] = ()
    left_out: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether a producer id that no record names belongs to no transactional id of the cluster."""
        return bool(self.logs) and not self.missing and not self.problems

    def by_producer(self) -> dict[int, str]:
        """Return the transactional id of each producer id that is in use."""
        return {value.producer_id: name for name, value in self.transactions.items()}

    def by_former_producer(self) -> dict[int, str]:
        """Return the transactional id of each producer id that was replaced, as far as it is known (KIP-890)."""
        return {
            value.previous_producer_id: name
            for name, value in self.transactions.items()
            if value.previous_producer_id not in {-1, value.producer_id}
        }

    def gap(self) -> str:
        """Return why a producer id may belong to a transactional id that is unknown here, as a clause."""
        if not self.logs:
            return f"{TRANSACTIONS_TOPIC} is not on these disks"
        if self.missing:
            names = first_of([f"{TRANSACTIONS_TOPIC}-{number}" for number in self.missing])
            return f"the disks have no readable copy of {names}"
        names = first_of([f"{TRANSACTIONS_TOPIC}-{number}" for number in sorted(self.problems)])
        return f"{names} cannot be read as a whole"


def grouped(
    copies: Sequence[PartitionCopy], cluster: MetadataReading | None
) -> tuple[CopiesByPartition, list[PartitionCopy]]:
    """Return the copies of each partition, and those of topics that were deleted and created again.

    Directories that wait for deletion, and stray ones, do not count as copies.
    """
    served = [each for each in copies if each.place.name.state is DirectoryState.CURRENT]
    ids = {each.place.path: read_topic_id(each.place) for each in served}
    current, _ = current_topic_ids(served, ids, {} if cluster is None else cluster.image.topic_ids)
    found: CopiesByPartition = {}
    others: list[PartitionCopy] = []
    for copy in served:
        name, topic_id = copy.place.name, ids[copy.place.path]
        if name.topic is None or name.partition is None:
            continue
        if topic_id is not None and topic_id != current[name.topic]:
            others.append(copy)
        else:
            found.setdefault((name.topic, name.partition), []).append(copy)
    return dict(sorted(found.items())), others


def read_coordinators(
    copies: Sequence[PartitionCopy], cluster: MetadataReading | None, max_batch_bytes: int
) -> Coordinators:
    """Read the partitions of `__transaction_state`, of each the copy that a cluster would go on with.

    Args:
        copies: of partitions of `__transaction_state`.
        cluster: what the metadata log holds: the number of partitions; None: it is the largest one here.
        max_batch_bytes: larger batches are damage.
    """
    found = Coordinators()
    partitions, others = grouped(copies, cluster)
    found.left_out += (
        f"{each.place.path}: of another topic id than the present {TRANSACTIONS_TOPIC}" for each in others
    )
    for (_, number), each in partitions.items():
        path = _best(each, found)
        if path is None:
            continue
        values, problems = read_transactions([path], max_batch_bytes=max_batch_bytes)
        found.logs[number] = path
        found.transactions |= values
        found.partition_of |= dict.fromkeys(values, number)
        if problems:
            found.problems[number] = problems
    count = partition_count(cluster, TRANSACTIONS_TOPIC) or max((number + 1 for _, number in partitions), default=0)
    found.missing = tuple(sorted(set(range(count)) - found.logs.keys()))
    return found


def _best(copies: Sequence[PartitionCopy], found: Coordinators) -> str | None:
    """Return the path of the copy that a cluster would go on with; None: none can be read."""
    ranks = {}
    for copy in copies:
        try:
            ranks[copy.place.path] = rank_of(copy.place.path, copy.context)
        except StorageError as error:
            found.left_out.append(str(error))
    best = max(ranks, key=ranks.__getitem__, default=None)
    found.left_out += (
        f"{path}: not read, as {best} has the later leader epoch or the longer log"
        for path in ranks
        if path != best and ranks[path] != ranks[best or ""]
    )
    return best
