"""Groups of old consumers, which kept offsets, members and owners in ZooKeeper (0.8 to 1.x), as rows of `groups`.

Kafka never deletes these offsets (ZookeeperConsumerConnector.commitOffsets; no release has an expiry). An offset is the
next one to be read, as those in `__consumer_offsets` are, so that they can be set for a group of today.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from kafkalog_core.kafka.sim.zookeeper.restoring import UntilZxid
from kafkalog_core.kafka.sim.zookeeper.tree import zxid_text
from kafkalog_core.ops.groups import request as states
from kafkalog_core.ops.groups.logs import state_in_log
from kafkalog_core.ops.groups.request import LEFT_OUT, GroupResult
from kafkalog_core.ops.zookeeper.request import ZookeeperRequest
from kafkalog_core.ops.zookeeper.servers import restore_server
from kafkalog_core.structs import Struct
from kafkalog_core.text import first_of, moment
from kafkalog_core.topics.zookeeper_state import KafkaState, kafka_states

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.ops.groups.logs import LogsOfGroups
    from kafkalog_core.ops.groups.request import GroupsRequest, Row
    from kafkalog_core.progress import Progress
    from kafkalog_core.topics.zookeeper_state import OldGroup

__all__ = ["OldGroups", "read_old_groups"]

_CONSUMER: Final = re.compile(r"(.+)-\d{13}-[0-9a-f]{1,8}", re.DOTALL)
"""What follows the group and an underscore in a consumer id that was made: host, milliseconds, and part of a UUID."""


class OldGroups(Struct, kw_only=True):
    """The old groups of a tree.

    Args:
        state: the cluster; without groups where no ZooKeeper directory was named.
        topics: globs of the topics that are shown; empty: all.
        chosen: the names of the groups that are shown.
        has_positions: whether members and offsets are wanted.
        notes: sentences about what was read.
        findings: about the files.
    """

    state: KafkaState
    topics: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    has_positions: bool = True
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all groups with partitions of 0.8 and later."""
        return tuple(name for name, group in self.state.groups.items() if not group.is_07)

    def has_places(self, name: str) -> bool:
        """Return whether a group has an offset or an owner in one of the topics that are asked for."""
        return bool(self._places(self.state.groups[name]))

    def results(self, logs: LogsOfGroups) -> Iterator[GroupResult]:
        """Yield each group; logs: of the log directories that were named."""
        for name in self.chosen:
            group = self.state.groups[name]
            offsets = [self._offset_row(name, group, place, logs) for place in self._places(group)]
            shown = self.has_positions
            yield GroupResult(
                group=_group_row(name, group, offsets),
                members=tuple(_member_rows(name, group)) if shown else (),
                offsets=tuple(offsets) if shown else (),
            )

    def _places(self, group: OldGroup) -> list[TopicPartition]:
        places = {(topic, int(number)) for topic, number in (*group.offsets, *group.owners)}
        return sorted(
            place for place in places if not self.topics or any(fnmatchcase(place[0], each) for each in self.topics)
        )

    def _offset_row(self, name: str, group: OldGroup, place: TopicPartition, logs: LogsOfGroups) -> Row:
        topic, number = place
        stored = group.offsets.get((topic, str(number)))
        ends = logs.ends(topic, number)
        row: Row = {
            "group": name,
            "topic": topic,
            "partition": number,
            "offset": None,
            "lag": None,
            "log_start_offset": None if ends is None else ends.start,
            "log_end_offset": None if ends is None else ends.end,
            "commit_timestamp_ms": None,
            "expires_ms": None,
            "pending_offset": None,
            "member_id": group.owners.get((topic, str(number))),
        }
        if stored is None:
            return row | {"state": states.NOT_COMMITTED, "detail": "no offset is committed"}
        row |= {"offset": stored.offset, "commit_timestamp_ms": stored.time_ms}
        if ends is not None:
            row["lag"] = ends.end - stored.offset
        known = self.state.topics
        if known and topic not in known:
            return row | {"state": states.TOPIC_DELETED, "detail": f"topic {topic} is not in ZooKeeper"}
        row["state"], row["detail"] = state_in_log(stored.offset, ends)
        return row


def read_old_groups(request: GroupsRequest, progress: Progress) -> OldGroups:
    """Return the old groups of the ZooKeeper servers that a request names. Raises SelectionError, StorageError."""
    if not request.zookeeper_dirs:
        return OldGroups(state=KafkaState())
    asked = ZookeeperRequest(data_dirs=request.zookeeper_dirs, until=UntilZxid(time_ms=request.until_ms))
    chosen, restored = restore_server(asked, progress)
    found = kafka_states(restored.tree.nodes)
    with_groups = [each for each in found if each.groups]
    state = with_groups[0] if with_groups else KafkaState()
    time = "" if restored.time_ms is None else f", {moment(restored.time_ms)}"
    notes = [
        *chosen.notes,
        f"groups of old consumers are those of ZooKeeper at zxid {zxid_text(restored.last_zxid)}{time}",
    ]
    if len(with_groups) > 1:
        others = first_of([each.chroot or "/" for each in with_groups[1:]])
        notes.append(f"they are those below {state.chroot or '/'}; the tree has groups below {others} too")
    ancient = [name for name, group in state.groups.items() if group.is_07]
    if ancient:
        notes.append(
            f"{LEFT_OUT}the groups of 0.7, whose offsets are bytes in the logs of brokers ({first_of(ancient)}); "
            "kafkalog zookeeper --under /consumers --tree shows them"
        )
    old = OldGroups(
        state=state,
        topics=request.topics,
        has_positions=request.has_positions,
        notes=tuple(notes),
        findings=(*restored.findings, *chosen.findings),
    )
    old.chosen = tuple(name for name in old.names if not request.groups or name in request.groups)
    return old


def _group_row(name: str, group: OldGroup, offsets: list[Row]) -> Row:
    committed = [row for row in offsets if row["offset"] is not None]
    lags = [max(0, lag) for row in offsets if isinstance(lag := row["lag"], int)]
    problems: dict[str, int] = {}
    for row in offsets:
        if row["state"] in states.WRONG:
            problems[str(row["state"])] = problems.get(str(row["state"]), 0) + 1
    times = [time for row in committed if isinstance(time := row["commit_timestamp_ms"], int)]
    return {
        "group": name,
        "group_type": "zookeeper",
        "state": "Stable" if group.consumers else "Empty",
        "protocol_type": "consumer",
        "protocol": "",
        "members": len(group.consumers),
        "partitions": len(committed),
        "lag": sum(lags) if lags and len(lags) == len(committed) else None,
        "known_lag": sum(lags) if lags else None,
        "last_commit_ms": max(times, default=None),
        "problems": problems,
        "pending": 0,
        "expired": 0,
        "expires_ms": None,
    }


def _member_rows(name: str, group: OldGroup) -> Iterator[Row]:
    for consumer in sorted(group.consumers):
        assignment: dict[str, list[int]] = {}
        for topic, number in sorted(group.owners):
            # The name of a thread is the consumer's, a dash and a number.
            if group.owners[topic, number].rpartition("-")[0] == consumer:
                assignment.setdefault(topic, []).append(int(number))
        made = _CONSUMER.fullmatch(consumer.removeprefix(f"{name}_"))
        yield {
            "group": name,
            "member_id": consumer,
            "instance_id": None,
            "client_id": None,
            "host": None if made is None else made[1],
            "epoch": None,
            "assignment": {topic: sorted(numbers) for topic, numbers in sorted(assignment.items())},
        }
