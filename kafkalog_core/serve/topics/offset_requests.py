"""ListOffsets and OffsetForLeaderEpoch: offsets of a partition by position, time and leader epoch.

This follows `KafkaApis.handleListOffsetRequest` and `handleOffsetForLeaderEpochRequest`,
`Partition.fetchOffsetForTimestamp` and `UnifiedLog.fetchOffsetByTimestamp`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import KafkalogError
from kafkalog_core.serve.logs.partition_access import checked_partition, error_of
from kafkalog_core.serve.network.repeats import distinct_partitions
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.serve.logs.partition_access import FoundOffset, ReadableDisks, ReadablePartition
    from kafkalog_core.serve.network.answers import Answer
    from kafkalog_core.serve.network.requests import Body, Handler, RequestContext

__all__ = ["OffsetRequests"]

_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING_UPLOAD: Final = -6
_FIRST_VERSION: Final = {
    _LATEST: 1,
    _EARLIEST: 1,
    _MAX_TIMESTAMP: 7,  # KIP-734
    _EARLIEST_LOCAL: 8,  # KIP-405
    _LATEST_TIERED: 9,  # KIP-1005
    _EARLIEST_PENDING_UPLOAD: 11,  # KIP-1023
}
"""The version from which a request may name each of the negative timestamps, which are not times."""

_FIRST_WITH_EPOCH: Final = 4  # KIP-320
_COMMITTED: Final = 1  # IsolationLevel.READ_COMMITTED
_CONSUMER: Final = -1  # the replica id of a consumer; only a consumer has an isolation level
_UNKNOWN: Final = -1


class OffsetRequests:
    """The handlers of ListOffsets and OffsetForLeaderEpoch over some disks."""

    def __init__(self, disks: ReadableDisks) -> None:
        self._disks = disks

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """Return the last version that is served and the handler, by the name of the API."""
        return {"ListOffsets": (11, self.list_offsets), "OffsetForLeaderEpoch": (4, self.offset_for_leader_epoch)}

    # --- ListOffsets --------------------------------------------------------------------------------------------------
    def list_offsets(self, context: RequestContext) -> Answer:
        """Answer ListOffsets: version 0 with offsets of segments, later versions with one offset by time (KIP-79)."""
        body, version = context.body, context.version
        counts = Counter(
            (topic["name"], each["partition_index"]) for topic in body["topics"] for each in topic["partitions"]
        )
        asked, topics = body["topics"], []
        if version == 0:  # which has many offsets of a partition in its answer, and no error for a second row
            asked = distinct_partitions(asked, "name", "partitions", "partition_index")
        for topic in asked:
            name, partitions = topic["name"], []
            for each in topic["partitions"]:
                number = each["partition_index"]
                if version == 0:
                    partitions.append(self._answer(number, self._segment_offsets, name, each))
                elif counts[name, number] > 1:
                    partitions.append(_refused(number, ErrorCode.INVALID_REQUEST))
                elif each["timestamp"] < 0 and version < _FIRST_VERSION.get(each["timestamp"], version + 1):
                    partitions.append(_refused(number, ErrorCode.UNSUPPORTED_VERSION))
                else:
                    partitions.append(self._answer(number, self._offset, context, name, each))
            topics.append({"name": name, "partitions": partitions})
        return context.reply({"throttle_time_ms": 0, "topics": topics})

    @staticmethod
    def _answer(number: int, find: Callable[..., Body], *arguments: object) -> Body:
        """Return what a look-up finds in a partition, or its error."""
        try:
            return {"partition_index": number, "error_code": ErrorCode.NONE, **find(*arguments)}
        except (KafkalogError, OSError) as error:
            return _refused(number, error_of(error))

    def _segment_offsets(self, topic: str, asked: Body) -> Body:
        """Return offsets of segments, the largest first (`ReplicaManager.legacyFetchOffsetsForTimestamp`)."""
        if asked["timestamp"] < _EARLIEST:
            return {"error_code": ErrorCode.UNSUPPORTED_VERSION, "old_style_offsets": []}
        partition = checked_partition(self._disks, topic, asked["partition_index"], _UNKNOWN)
        found = partition.offsets_before(asked["timestamp"], max(0, asked["max_num_offsets"]))
        # Partition.legacyFetchOffsetsForTimestamp: no consumer sees an offset after the high watermark
        mark = partition.high_watermark
        if found and found[0] > mark:
            found = [mark, *(offset for offset in found if offset < mark)]
        return {"old_style_offsets": found}

    def _offset(self, context: RequestContext, topic: str, asked: Body) -> Body:
        """Return the offset for a timestamp, with the timestamp and the leader epoch of its record."""
        epoch = asked.get("current_leader_epoch", _UNKNOWN)
        partition = checked_partition(self._disks, topic, asked["partition_index"], epoch)
        body = context.body
        is_committed = body["replica_id"] == _CONSUMER and body.get("isolation_level", 0) == _COMMITTED
        found = _find(partition, asked["timestamp"], is_committed=is_committed)
        if found is None:
            return {}
        timestamp, leader_epoch = found.timestamp_ms, found.leader_epoch
        if asked["timestamp"] == _LATEST:
            # Partition.fetchOffsetForTimestamp: no record is there yet, so it is the epoch of this leader
            timestamp, leader_epoch = _UNKNOWN, partition.leader_epoch
        answer = {"timestamp": timestamp, "offset": found.offset}
        return answer if context.version < _FIRST_WITH_EPOCH else {**answer, "leader_epoch": leader_epoch}

    # --- OffsetForLeaderEpoch -----------------------------------------------------------------------------------------
    def offset_for_leader_epoch(self, context: RequestContext) -> Answer:
        """Answer OffsetForLeaderEpoch (KIP-101, KIP-320).

        A consumer compares its position with the answer to find that the log was truncated. It needs no more than the
        right to describe the topic, so the replica id does not matter (`handleOffsetForLeaderEpochRequest`).
        """
        topics = [
            {
                "topic": topic["topic"],
                "partitions": [self._end_of_epoch(topic["topic"], each) for each in topic["partitions"]],
            }
            for topic in context.body["topics"]
        ]
        return context.reply({"throttle_time_ms": 0, "topics": topics})

    def _end_of_epoch(self, topic: str, asked: Body) -> Body:
        """Return the end of an epoch (`Partition.lastOffsetForLeaderEpoch`); epoch and offset are -1 if unknown."""
        number, code = asked["partition"], ErrorCode.NONE
        epoch = end_offset = _UNKNOWN
        try:
            partition = checked_partition(self._disks, topic, number, asked.get("current_leader_epoch", _UNKNOWN))
            epoch, end_offset = partition.end_of_epoch(asked["leader_epoch"])
        except (KafkalogError, OSError) as error:
            code = error_of(error)
        return {"error_code": code, "partition": number, "leader_epoch": epoch, "end_offset": end_offset}


def _find(partition: ReadablePartition, timestamp_ms: int, *, is_committed: bool) -> FoundOffset | None:
    """Return the offset for a timestamp; None: there is none. There are no tiers, so the local log is the whole log."""
    if timestamp_ms in {_EARLIEST, _EARLIEST_LOCAL}:
        return partition.earliest()
    # UnifiedLog.fetchOffsetByTimestamp: without remote storage nothing is tiered and nothing waits for an upload
    if timestamp_ms in {_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD}:
        return None
    latest = partition.latest(is_committed=is_committed)
    if timestamp_ms == _LATEST:
        return latest
    is_max = timestamp_ms == _MAX_TIMESTAMP
    found = partition.offset_of_max_timestamp() if is_max else partition.offset_for_time(timestamp_ms)
    # Partition.fetchOffsetForTimestamp: a record that this isolation level does not read yet is not found
    return None if found is None or found.offset >= latest.offset else found


def _refused(number: int, code: ErrorCode) -> Body:
    """Return the answer for a partition with an error; offset and timestamp keep their default, -1."""
    return {"partition_index": number, "error_code": code, "old_style_offsets": []}
