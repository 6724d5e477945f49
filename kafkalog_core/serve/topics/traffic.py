"""What clients write to each topic and read from it, and which produce requests fail: counters alone.

The figures follow Kafka's `BrokerTopicMetrics`: bytes as they are in the log, after a conversion or a new
compression. Handlers count once per batch that is appended and once per response that is sent.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["OTHER_TOPICS", "TopicTraffic", "Traffic", "TrafficCounts"]

OTHER_TOPICS: Final = "(others)"
"""The name under which topics are counted together, once there are too many: no topic of Kafka can have it."""
_MAX_TOPICS: Final = 1000


class TopicTraffic(NamedTuple):
    """Sums of one topic since the start; `fetches`: responses with data of the topic."""

    bytes_in: int = 0
    batches_in: int = 0
    records_in: int = 0
    bytes_out: int = 0
    fetches: int = 0


class TrafficCounts(NamedTuple):
    """All sums at one time: topics by name, produce errors by the name of their code, holes by topic."""

    topics: dict[str, TopicTraffic]
    produce_errors: dict[str, int]
    holes: dict[str, int]


class Traffic:
    """Counters by topic. Thread-safe.

    The first `max_topics` topics have counters of their own, the others are counted together as `OTHER_TOPICS`: what
    a monitoring system stores does not grow with the topics that clients create and delete.
    """

    def __init__(self, max_topics: int = _MAX_TOPICS) -> None:
        """Begin at zero."""
        self._max_topics = max_topics
        self._lock = threading.Lock()
        self._topics: dict[str, list[int]] = {}
        self._produce_errors: Counter[str] = Counter()
        self._holes: Counter[str] = Counter()

    def produced(self, topic: str, size_bytes: int, records: int) -> None:
        """Count a batch that was appended."""
        with self._lock:
            sums = self._of(topic)
            sums[0] += size_bytes
            sums[1] += 1
            sums[2] += records

    def fetched(self, sizes_bytes: Mapping[str, int]) -> None:
        """Count what a fetch response sends, bytes by topic."""
        with self._lock:
            for topic, size_bytes in sizes_bytes.items():
                sums = self._of(topic)
                sums[3] += size_bytes
                sums[4] += 1

    def produce_failed(self, errors: Sequence[str]) -> None:
        """Count batches that were not appended, by the names of their error codes."""
        with self._lock:
            self._produce_errors.update(errors)

    def hole_skipped(self, topic: str) -> None:
        """Count a damaged place that is not served."""
        with self._lock:
            known = topic in self._holes or len(self._holes) < self._max_topics
            self._holes[topic if known else OTHER_TOPICS] += 1

    def counts(self) -> TrafficCounts:
        """Return all sums."""
        with self._lock:
            topics = {name: TopicTraffic(*sums) for name, sums in self._topics.items()}
            return TrafficCounts(topics, dict(self._produce_errors), dict(self._holes))

    def _of(self, topic: str) -> list[int]:
        found = self._topics.get(topic)
        if found is None:
            name = topic if len(self._topics) < self._max_topics else OTHER_TOPICS
            found = self._topics.setdefault(name, [0] * len(TopicTraffic._fields))
        return found
