"""When a group coordinator deletes committed offsets, by the release and the state of the group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.kafka.rules.releases import Since
from kafkalog_core.topics.group_offsets import expires_at_ms
from kafkalog_core.topics.group_states import CONSUMER

if TYPE_CHECKING:
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.topics.group_offsets import CommittedOffset
    from kafkalog_core.topics.group_states import DescribedGroup

__all__ = ["expiry_ms"]


def expiry_ms(
    group: DescribedGroup, topic: str, offset: CommittedOffset, *, retention_ms: int, release: Release
) -> int | None:
    """Return from when on a check of the coordinator deletes an offset; None: not while the group is as it is.

    Before KIP-211 (2.1) an offset has a time of its own, whatever the group does (`GroupMetadataManager`). Since then
    members keep the offsets of what they read (`GroupMetadata.getExpiredOffsets`; since 4.0
    `ClassicGroup.offsetExpirationCondition` and those of the other groups).

    Args:
        group: of the offset.
        topic: of the offset.
        offset: as it was committed; one with another commit in an open transaction is not deleted either.
        retention_ms: offsets.retention.minutes.
        release: of the coordinator.
    """
    if release < Since.OFFSETS_KEPT_FOR_MEMBERS:
        return expires_at_ms(offset, empty_since_ms=-1, retention_ms=retention_ms)
    since_ms = -1
    if group.type == "classic" and group.protocol_type:
        if group.state == "Empty":
            since_ms = group.state_ms
        elif group.protocol_type != CONSUMER or release < Since.OFFSETS_KEPT_FOR_SUBSCRIPTIONS:
            return None
    subscribed = group.subscribed
    if subscribed is None or topic in subscribed:
        return None
    return expires_at_ms(offset, empty_since_ms=since_ms, retention_ms=retention_ms)
