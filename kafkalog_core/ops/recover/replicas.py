"""Whether a log directory holds the only copy of a partition, as the metadata log of its cluster shows it.

An in-sync replica elsewhere has every committed record (`Partition.maybeShrinkIsr`), and so has an eligible leader
replica (KIP-966), which is where the last ones are after a shutdown of all brokers. A follower that truncates
its log fetches from there what it lacks (`ReplicaFetcherThread.truncate`); what it holds itself, it never fetches
again. So a damaged batch is a loss only where no other replica is in sync.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kafkalog_core.format.names import DirectoryState
from kafkalog_core.kafka.sim.cluster import DirectoryOwners, read_topic_id
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from kafkalog_core.ops.repair.context import DirContext
    from kafkalog_core.storage.logdir import PartitionPath

__all__ = ["KnownReplicas", "OtherReplicas"]


class KnownReplicas(Struct, frozen=True):
    """What is known of the replicas of one partition.

    Args:
        kind: `only`: no other replica is in sync. `elsewhere`: others are. `unknown`: no metadata log shows it.
        others: node ids of the other replicas that are in sync or eligible, ascending.
        why: the evidence, as a clause.
        is_single: whether there is one replica. Else others may have the records after all: the metadata log on a disk
            ends with its node.
    """

    kind: Literal["only", "elsewhere", "unknown"]
    others: tuple[int, ...] = ()
    why: str = ""
    is_single: bool = False


_UNKNOWN = KnownReplicas("unknown", (), "no metadata log is in the named directories")


class OtherReplicas:
    """Finds the other replicas of partitions. The metadata log is read once.

    Args:
        context: of the log directory.
    """

    def __init__(self, context: DirContext) -> None:
        log_dir = context.target.log_dir
        self._assignments = None
        if log_dir is not None:
            dirs = [each.path for each in context.related_dirs]
            named = context.target.named_dirs
            owners = named.once(("owners", frozenset(dirs)), lambda: DirectoryOwners(dirs, named))
            self._assignments = owners.assignments(owners.of_same_node(log_dir.path), kafka=context.request.kafka)

    def of(self, place: PartitionPath) -> KnownReplicas:
        """Return what is known of the replicas of a partition."""
        name, assignments = place.name, self._assignments
        if assignments is None or name.partition is None or name.state is not DirectoryState.CURRENT:
            return _UNKNOWN
        topic_id = read_topic_id(place)
        assigned = None if topic_id is None else assignments.cluster.image.partition(topic_id, name.partition)
        if assigned is None or not assigned.replicas:
            return KnownReplicas("unknown", (), f"{assignments.cluster.path} does not have this partition")
        node, log = assignments.node_id, assignments.cluster.path
        others = [each for each in assigned.replicas if each != node]
        if not others:
            return KnownReplicas("only", (), f"{log} shows one replica", is_single=True)
        in_sync = tuple(sorted({*assigned.isr, *assigned.elr} - {node}))
        if not in_sync:
            return KnownReplicas("only", (), f"{log} shows no other replica in sync")
        return KnownReplicas("elsewhere", in_sync, f"{log} shows the replicas in sync")
