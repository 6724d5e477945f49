"""Which partitions are meant, by topic and number, and what to say when there is none of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import SelectionError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Selection", "describe_topics"]

_NAMES_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which partitions of the targets are meant.

    `topics` and `excludes` are globs, matched with case; `topic_regex` must match the whole name, as in Kafka's own
    tools. What is given must all be true; nothing given takes everything. What is of no partition is taken only where
    nothing asks for one.
    """

    topics: tuple[str, ...] = ()
    topic_regex: str | None = None
    excludes: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()

    @property
    def is_everything(self) -> bool:
        """Whether nothing is asked for."""
        return not (self.topics or self.topic_regex is not None or self.excludes or self.partitions)

    def takes(self, topic: str | None, partition: int | None) -> bool:
        """Whether a partition is meant. Raises SelectionError for a pattern that is no regular expression."""
        if self.partitions and partition not in self.partitions:
            return False
        if topic is None:
            return not self.topics and self.topic_regex is None
        if any(fnmatchcase(topic, pattern) for pattern in self.excludes):
            return False
        if self.topics and not any(fnmatchcase(topic, pattern) for pattern in self.topics):
            return False
        return self._regex_matches(topic)

    def _regex_matches(self, topic: str) -> bool:
        if self.topic_regex is None:
            return True
        try:
            return re.fullmatch(self.topic_regex, topic) is not None
        except re.error as error:
            raise SelectionError(f"topic pattern {self.topic_regex!r} is no regular expression: {error}") from error

    def __str__(self) -> str:
        parts = [f"topic {topic!r}" for topic in self.topics]
        parts += [] if self.topic_regex is None else [f"topic pattern {self.topic_regex!r}"]
        parts += [f"a topic other than {pattern!r}" for pattern in self.excludes]
        parts += [f"partition {number}" for number in self.partitions]
        return ", ".join(parts)


def describe_topics(partitions: Iterable[tuple[str | None, int | None]]) -> str:
    """One clause that names the topics there are, with the numbers of their partitions: `there are orders (0-3, 7)`."""
    topics: dict[str, set[int]] = {}
    for topic, partition in partitions:
        if topic is not None and partition is not None:
            topics.setdefault(topic, set()).add(partition)
    if not topics:
        return "no partition was named"
    shown = [f"{topic} ({_ranges(topics[topic])})" for topic in sorted(topics)[:_NAMES_SHOWN]]
    more = f" and {len(topics) - _NAMES_SHOWN} more topics" if len(topics) > _NAMES_SHOWN else ""
    return f"there are {', '.join(shown)}{more}"


def _ranges(numbers: Iterable[int]) -> str:
    """`0-3, 7` of 0, 1, 2, 3, 7."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [f"{first}" if first == last else f"{first}-{last}" for first, last in runs[:_NAMES_SHOWN]]
    return ", ".join(texts) + (f" and {len(runs) - _NAMES_SHOWN} more" if len(runs) > _NAMES_SHOWN else "")
