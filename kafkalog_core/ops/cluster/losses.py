"""What a cluster loses if an older metadata log decides, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.format.names import METADATA_TOPIC
from kafkalog_core.kafka.sim.metadata_log import EVERYTHING, Until, live_snapshots, read_image
from kafkalog_core.ops.cluster.difference import differences
from kafkalog_core.ops.repair.loss import measure_loss
from kafkalog_core.structs import replace
from kafkalog_core.text import count_of, first_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.ops.repair.loss import Loss
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.topics.cluster_image import ClusterImage

__all__ = ["loss_rows", "loss_sentences", "measure_losses"]

Row = dict[str, object]
_ALWAYS_CHANGES: Final = frozenset(("cluster_broker", "cluster_controller"))
"""Nodes register whenever they start."""
_COUNTED: Final = {
    "cluster_topic": "topic",
    "cluster_config": "setting",
    "cluster_acl": "ACL",
    "cluster_quota": "quota",
    "cluster_user": "user",
    "cluster_token": "delegation token",
    "cluster_feature": "feature",
    "cluster_broker": "broker",
}
_PARTITION: Final = "cluster_partition"
_STRAY: Final = (
    "Unless another controller has these records, a broker renames the partitions of these topics to -stray at its "
    "next start (before 3.7 it deletes them)"
)
"""LogManager.isStrayReplica, as for `dir.not-assigned`."""
_NAMED_OF_PARTITION: Final = frozenset(("replicas", "leader_epoch"))
"""Leaders and ISRs change all the time, and a controller that starts elects and fences again."""


def loss_rows(first: ClusterImage, second: ClusterImage) -> list[Row]:
    """Return a `cluster_difference` row for all that the second image does not have, has besides or otherwise."""
    found = []
    for row in differences(first, second):
        if row["change"] == "changed":
            if row["kind"] in _ALWAYS_CHANGES:
                continue
            if row["kind"] == _PARTITION and row["column"] not in _NAMED_OF_PARTITION:
                continue
        found.append(row)
    return found


def loss_sentences(first: ClusterImage, second: ClusterImage, rows: Iterable[Row]) -> Iterator[str]:
    """Yield what is lost by kind and name, and the numbers that go back, without full stops.

    Args:
        first: the image that has more.
        second: the image that decides.
        rows: their differences.
    """
    lost: dict[str, list[str]] = {}
    back = 0
    for row in rows:
        if row["change"] == "removed" and row["kind"] in _COUNTED:
            lost.setdefault(_COUNTED[str(row["kind"])], []).append(str(row["what"]))
        back += (
            row["change"] == "changed"
            and row["column"] == "leader_epoch"
            and _number(row, "after") < _number(row, "before")
        )
    if lost:
        parts = [f"{count_of(len(names), noun)} ({first_of(names)})" for noun, names in lost.items()]
        yield f"Lost by name: {'; '.join(parts)}"
    if back:
        yield (
            f"The leader epochs of {count_of(back, 'partition')} go back, and their logs may have batches of the "
            "higher ones"
        )
    if second.next_producer_id < first.next_producer_id:
        yield (
            f"Producer ids from {second.next_producer_id} to {first.next_producer_id - 1} are given out again, "
            "although producers may use them"
        )


def measure_losses(
    partition: Partition, cuts: Sequence[tuple[str, int]], high_watermark: int | None
) -> tuple[Loss, ...]:
    """Return the loss of all records after a position of each log, as `measure_loss` does; at most one.

    Of a metadata log, the newest snapshot has all records before its offset. A node whose log ends before it goes on
    with the snapshot (`KafkaRaftLog.truncateToLatestSnapshot`), so only what follows is lost; `why` has it by name.
    """
    snapshots = live_snapshots(partition) if partition.topic == METADATA_TOPIC else []
    kept = snapshots[0].name.base_offset or 0 if snapshots else 0
    loss = measure_loss(partition, cuts, high_watermark, from_offset=kept)
    if loss is None or partition.topic != METADATA_TOPIC:
        return () if loss is None else (loss,)
    lost: list[str] = []
    if loss.first_offset is not None:  # else no record follows
        end = max(kept, loss.first_offset)
        before, after = (read_image(partition.path, until=until).image for until in (EVERYTHING, Until(offset=end - 1)))
        rows = loss_rows(before, after)
        lost = [*loss_sentences(before, after, rows)]
        if any((row["kind"], row["change"]) == ("cluster_topic", "removed") for row in rows):
            lost.append(_STRAY)
    return (replace(loss, why=". ".join(lost) or "Nothing of the cluster is lost by name"),)


def _number(row: Row, name: str) -> int:
    return int(str(row[name]))
