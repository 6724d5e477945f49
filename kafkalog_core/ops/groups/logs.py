"""The logs that groups read, on the same disks: where they start and end, and whether their topics still exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Self

from kafkalog_core.errors import StorageError
from kafkalog_core.format.names import METADATA_TOPIC
from kafkalog_core.format.textfile import parse_uuid
from kafkalog_core.kafka.sim.cluster import read_topic_id
from kafkalog_core.kafka.sim.copies import best_of
from kafkalog_core.kafka.sim.metadata_log import read_image
from kafkalog_core.ops.groups import request as states
from kafkalog_core.storage.lookup import PartitionLookup

if TYPE_CHECKING:
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.sim.copies import CopiesOnDisk, LogCopy

__all__ = ["LogsOfGroups", "PartitionEnds", "TopicsOfDisks", "state_in_log"]

_OPEN_LOGS: Final = 32
_RESET: Final = "auto.offset.reset decides"


class TopicsOfDisks:
    """The topics that exist, and the names of ids, by the metadata log and the directories.

    Attributes:
        is_complete: whether a whole metadata log lists all topics.
    """

    def __init__(self, disks: CopiesOnDisk) -> None:
        self._names: dict[bytes, str] = {}
        self._ids: dict[str, bytes] = {}
        self.is_complete = False
        end = -1
        for log_dir in disks.brokers:
            reading = read_image(f"{log_dir}/{METADATA_TOPIC}-0")
            topic_ids = reading.image.topic_ids
            if reading.is_whole and topic_ids and reading.end_offset > end:
                end, self.is_complete = reading.end_offset, True
                self._ids = {name: raw for name, text in topic_ids.items() if (raw := parse_uuid(text)) is not None}
        for (topic, _), copies in disks.places.items():
            if topic not in self._ids and not self.is_complete:
                text = read_topic_id(copies[0].place)
                raw = None if text is None else parse_uuid(text)
                if raw is not None:
                    self._ids[topic] = raw
        for topic, places in disks.deleted.items():
            for place in places:
                text = read_topic_id(place)
                raw = None if text is None else parse_uuid(text)
                if raw is not None:
                    self._names[raw] = topic
        self._names |= {raw: name for name, raw in self._ids.items()}
        self._deleted = {topic for topic in disks.deleted if all(topic != name for name, _ in disks.places)}

    def name(self, topic_id: bytes) -> str | None:
        """Return the name of a topic by its id, 16 bytes; None: unknown."""
        return self._names.get(topic_id)

    def topic_id(self, topic: str) -> bytes | None:
        """Return the id of a topic; None: it has none, or it is unknown."""
        return self._ids.get(topic)

    def is_deleted(self, topic: str) -> bool:
        """Return whether a topic does not exist any more: a whole metadata log does not have it.

        Without one: its directories wait for their deletion.
        """
        return topic not in self._ids if self.is_complete else topic in self._deleted


class PartitionEnds(NamedTuple):
    """The bounds of a log.

    Args:
        copy: the directory that was read.
        start: the first offset that a consumer can read.
        end: the offset after the last record, at the moment that is asked for.
        last_ms: the timestamp of the last records; -1: unknown.
    """

    copy: LogCopy
    start: int
    end: int
    last_ms: int


def state_in_log(offset: int, ends: PartitionEnds | None) -> tuple[str, str | None]:
    """Return the state of an offset against its log, and what is wrong in a clause; None: nothing is."""
    if ends is None:
        return states.NOT_HERE, "the log is not on these disks"
    if offset > ends.end:
        return states.PAST_END, f"{offset - ends.end} past the log end offset {ends.end}: {_RESET}"
    if offset < ends.start:
        gone = ends.start - offset
        return states.BELOW_START, f"{gone} offsets below the log start offset {ends.start} are gone: {_RESET}"
    return "ok", None


class LogsOfGroups:
    """The logs of partitions, each measured once; a context that closes their files."""

    def __init__(self, disks: CopiesOnDisk, release: Release, until_ms: int | None) -> None:
        """Take the copies; until_ms: the time at which the logs are asked for; None: at their ends."""
        self._disks = disks
        self._release = release
        self._until_ms = until_ms
        self._ends: dict[tuple[str, int], PartitionEnds | None] = {}
        self._lookups: dict[str, PartitionLookup] = {}
        self.unread: list[StorageError] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for lookup in self._lookups.values():
            lookup.close()

    def ends(self, topic: str, partition: int) -> PartitionEnds | None:
        """Return the bounds of a partition; None: it is not on these disks, or cannot be read."""
        key = topic, partition
        if key not in self._ends:
            self._ends[key] = self._measure(key)
        return self._ends[key]

    def timestamp(self, ends: PartitionEnds, offset: int) -> int | None:
        """Return the timestamp of the first record from an offset on; None: there is none, or it has none."""
        try:
            located = self._lookup(ends.copy).find_offset(offset)
        except StorageError:
            return None
        if located is None or located.record is None or located.record.offset >= ends.end:
            return None
        time_ms = located.record.timestamp_ms
        return None if time_ms is None or time_ms < 0 else time_ms

    def _measure(self, key: tuple[str, int]) -> PartitionEnds | None:
        places = self._disks.places.get(key)
        if places is None:
            return None
        best, _, errors = best_of(places, self._release)
        if best is None:
            self.unread += errors
            return None
        end, last_ms = best.log_end_offset, best.max_timestamp_ms
        if self._until_ms is not None:
            try:
                then = self._lookup(best).end_at(self._until_ms)
            except StorageError as error:
                self.unread.append(error)
                return None
            if then is not None:
                end, last_ms = then, -1
        return PartitionEnds(best, best.log_start_offset, end, last_ms)

    def _lookup(self, copy: LogCopy) -> PartitionLookup:
        lookup = self._lookups.pop(copy.path, None)
        if lookup is None:
            while len(self._lookups) >= _OPEN_LOGS:
                self._lookups.pop(next(iter(self._lookups))).close()
            segments = [segment for segment in copy.partition.segments if segment.log is not None]
            is_v07 = copy.partition.format == "v07"
            start = max(copy.log_start_offset, segments[0].base_offset if segments else 0)  # a tiered log has less here
            lookup = PartitionLookup(segments, is_v07=is_v07, log_start_offset=start)
        self._lookups[copy.path] = lookup
        return lookup
