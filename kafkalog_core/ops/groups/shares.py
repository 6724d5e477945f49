"""Where share groups are: the start offset of each partition, and what was delivered after it.

A share group commits no offsets. The share coordinator stores a start offset, below which all records are done with,
and batches of records after it that were delivered: acknowledged, archived, or available again (KIP-932).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkalog_core.findings import found
from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.format.textfile import uuid_text
from kafkalog_core.kafka.sim.cluster import partition_count, read_cluster
from kafkalog_core.kafka.sim.share_states import read_share_states
from kafkalog_core.ops.groups.reading import Choice
from kafkalog_core.structs import Struct, field
from kafkalog_core.text import first_of
from kafkalog_core.topics.share_state_records import SHARE_STATE_TOPIC, DeliveryState, ShareKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.sim.copies import CopiesOnDisk
    from kafkalog_core.kafka.sim.share_states import StoredShareState
    from kafkalog_core.ops.groups.logs import TopicsOfDisks
    from kafkalog_core.topics.group_states import GroupStates
    from kafkalog_core.topics.share_state_records import ShareState

__all__ = ["SharePositions", "batch_rows", "batches_text", "read_shares"]


class SharePositions(Struct):
    """Where share groups are.

    Attributes:
        places: the partitions of each group, with the ids of their topics, 16 bytes.
        states: what is stored of them.
        notes: sentences about what was read.
        findings: about the logs.
    """

    places: dict[str, dict[TopicPartition, bytes]] = field(default_factory=dict)
    states: dict[ShareKey, StoredShareState] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def state(self, group: str, place: TopicPartition) -> StoredShareState | None:
        """Return what is stored of a partition; None: nothing is, or it is on none of these disks."""
        topic_id = self.places.get(group, {}).get(place)
        return None if topic_id is None else self.states.get(ShareKey(group, topic_id, place[1]))


def read_shares(
    groups: Iterable[str],
    states: GroupStates,
    disks: CopiesOnDisk,
    names: TopicsOfDisks,
    release: Release,
    until_ms: int | None,
    max_batch_bytes: int,
) -> SharePositions:
    """Read where share groups are.

    Args:
        groups: those that are shown; if none of them is a share group, nothing is read.
        states: of the groups.
        disks: what was named.
        names: of topics.
        release: of the brokers.
        until_ms: the time that is asked for; None: the end.
        max_batch_bytes: larger batches are damage.
    """
    result = SharePositions()
    shared = [name for name in groups if name in states.shares]
    if not shared:
        return result
    topic_names: dict[bytes, str] = {}
    for name in shared:
        topics = states.shares[name].topics
        for topic_id, each in [*topics.initialized.items(), *topics.initializing.items()]:
            topic = topic_names[topic_id] = names.name(topic_id) or each.name
            result.places.setdefault(name, {}).update({(topic, number): topic_id for number in each.numbers})
    choice, paths = Choice(notes=result.notes, findings=result.findings), {}
    for number in sorted(number for topic, number in disks.places if topic == SHARE_STATE_TOPIC):
        best = choice.best(disks, SHARE_STATE_TOPIC, number, release)
        if best is not None:
            paths[number] = best.path
    result.states, problems = read_share_states(
        paths.values(), max_batch_bytes=max_batch_bytes, until_ms=MAX_INT64 if until_ms is None else until_ms
    )
    for key in result.states:
        if key.group in shared:
            topic = topic_names.get(key.topic_id) or names.name(key.topic_id) or uuid_text(key.topic_id)
            result.places.setdefault(key.group, {}).setdefault((topic, key.partition), key.topic_id)
    for problem in problems:
        path = next((path for path in paths.values() if problem.startswith(path)), next(iter(paths.values())))
        result.findings.append(found("groups.unread", path, topic=SHARE_STATE_TOPIC, problem=problem))
    count = partition_count(read_cluster(disks.brokers), SHARE_STATE_TOPIC) or max(paths, default=0) + 1
    missing = sorted(set(range(count)) - paths.keys())
    if missing:
        text = first_of([f"{SHARE_STATE_TOPIC}-{number}" for number in missing])
        result.notes.append(f"what was named has no readable copy of {text}, which may hold where share groups are")
    return result


def batch_rows(state: ShareState) -> list[dict[str, object]]:
    """Return the delivered batches after the start offset, for the column `share_batches`."""
    return [
        {"first": each.first, "last": each.last, "state": _name_of(each.state), "deliveries": each.deliveries}
        for each in state.batches
    ]


def batches_text(batches: Iterable[dict[str, object]]) -> str:
    """Return how many records are in each state, for people."""
    counts = Counter[str]()
    for each in batches:
        counts[str(each["state"])] += int(str(each["last"])) - int(str(each["first"])) + 1
    return ", ".join(
        f"{count:,} {'available again' if name == 'available' else name}" for name, count in counts.items()
    )


def _name_of(state: int) -> str:
    """Return the name of a state; one of a later release is shown by its number."""
    return DeliveryState(state).name.lower() if state in set(DeliveryState) else str(state)
