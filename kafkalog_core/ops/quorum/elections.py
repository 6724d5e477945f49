"""The partitions whose replicas are gone with the disks of other nodes, and what the controller makes of them.

A controller that becomes active fences the brokers that send no heartbeat, and takes them out of the ISRs
(`ReplicationControlManager.handleBrokerFenced`). A leader is elected from the ISR, or from the eligible leader replicas
while the ISR is empty (`PartitionChangeBuilder.isValidNewLeader`). If both are empty, the last known leader is elected
once it is back (`canElectLastKnownLeader`, KIP-966): the controller logs that as an unclean election. A broker that was
not shut down cleanly is taken out of both lists when it registers (`handleBrokerUncleanShutdown`). If the others were
fenced before, it is the last known leader; else one of those that are gone is, and the partition has no leader until
somebody asks for an unclean election. Both were seen, by which of the two came first.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from kafkalog_core.topics.cluster_image import ClusterImage, PartitionRegistration

__all__ = ["election_sentences", "elections_to_come"]

Row = dict[str, object]
_IN_SYNC: Final = "in-sync"
_OUTDATED: Final = "outdated"
_OUT_OF_SYNC: Final = "out-of-sync"
_NONE: Final = "none"


def elections_to_come(image: ClusterImage, later: ClusterImage, gone: Collection[int]) -> list[Row]:
    """Return a `quorum_partition` row for each partition with a replica on a node that is gone.

    Args:
        image: of the log that decides.
        later: of the log that goes on furthest: it may know that a replica has left the ISR since.
        gone: ids of the nodes.
    """
    return sorted(_rows(image, later, gone), key=lambda row: (str(row["topic"]), row["partition"]))


def _rows(image: ClusterImage, later: ClusterImage, gone: Collection[int]) -> Iterator[Row]:
    for topic in image.topics.values():
        for number, state in topic.partitions.items():
            if not any(node in gone for node in state.replicas):
                continue
            kept = [node for node in state.replicas if node not in gone]
            eligible = _eligible(state) & {*kept}
            since = later.partition(topic.topic_id, number)
            outcome = _IN_SYNC if eligible else _OUT_OF_SYNC if kept else _NONE
            if eligible and since is not None and not eligible <= _eligible(since):
                outcome = _OUTDATED
            yield {
                "topic": topic.name,
                "partition": number,
                "replicas": ", ".join(map(str, state.replicas)),
                "in_sync": ", ".join(map(str, state.isr)),
                "remaining": ", ".join(map(str, kept)) or None,
                "outcome": outcome,
            }


def _eligible(state: PartitionRegistration) -> set[int]:
    """Return the nodes that may become the leader, with the last known leader."""
    return {*state.isr, *state.elr, *state.last_known_elr}


def election_sentences(rows: Sequence[Row], gone: Collection[int]) -> Iterator[str]:
    """Yield what the controller does with these partitions, without a full stop at the end."""
    counts = Counter(row["outcome"] for row in rows)
    if not rows:
        return
    nodes = f"{'nodes' if len(gone) > 1 else 'node'} {', '.join(map(str, sorted(gone)))}"
    yield f"The replicas of {count_of(len(rows), 'partition')} on {nodes} are gone"
    if counts[_IN_SYNC]:
        yield (
            f"{_of_them(counts[_IN_SYNC])} a replica left that is in sync by this log: the controller elects it. A "
            "broker that was not shut down cleanly is taken out of the ISR first: the controller then elects it as the "
            'last known leader (its log says "using an unclean election"), or leaves the leader -1 until '
            f"{_ELECT} elects it"
        )
    if counts[_OUTDATED]:
        yield (
            f"{_of_them(counts[_OUTDATED])} a replica left that is in sync by this log, but no longer by a later "
            "one: the controller elects it all the same, and records that were acknowledged since are lost"
        )
    if counts[_OUT_OF_SYNC]:
        yield (
            f"{_of_them(counts[_OUT_OF_SYNC])} only replicas that were not in sync: they have no leader until "
            f"{_ELECT}, which may lose committed records"
        )
    if counts[_NONE]:
        yield f"{_of_them(counts[_NONE])} no replica left: they have no leader, and their records are lost"


_ELECT: Final = "kafka-leader-election --election-type UNCLEAN"


def _of_them(count: int) -> str:
    return f"{count:,} of them {'has' if count == 1 else 'have'}"
