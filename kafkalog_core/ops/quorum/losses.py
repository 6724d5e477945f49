"""What a cluster loses if an older metadata log decides, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.ops.cluster.difference import differences
from kafkalog_core.text import count_of, first_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.topics.cluster_image import ClusterImage

__all__ = ["loss_rows", "loss_sentences"]

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


def _number(row: Row, name: str) -> int:
    return int(str(row[name]))
