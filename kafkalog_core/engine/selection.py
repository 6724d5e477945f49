"""Selections from a command line: which partitions."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import SelectionError
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Selection", "describe_topics"]


_NAMES_SHOWN: Final = 5


class Selection(Struct, frozen=True, kw_only=True):
    """The partitions of the targets that are selected.

    `topics` and `excludes` are globs that respect case; `topic_regex` must match the whole name, as in Kafka's own
    tools. All given conditions must hold; without any, everything is selected. A file that is not a partition's is
    selected only if no topic or partition is given.
    """

    topics: tuple[str, ...] = ()
    topic_regex: str | None = None
    excludes: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()

    @property
    def is_everything(self) -> bool:
        """Whether no condition is given."""
        return not (self.topics or self.topic_regex is not None or self.excludes or self.partitions)

    def takes(self, topic: str | None, partition: int | None) -> bool:
        """Return whether a partition is selected. Raises SelectionError if the pattern is not a regular expression."""
        if self.partitions and partition not in self.partitions:
            return False
        # A file outside a partition has no topic that could match.
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
            # The whole name, as Kafka's tools match topics.
            return re.fullmatch(self.topic_regex, topic) is not None
        except re.error as error:
            raise SelectionError(f"topic pattern {self.topic_regex!r} is not a regular expression: {error}") from error

    def __str__(self) -> str:
        parts = [f"topic {topic!r}" for topic in self.topics]
        parts += [] if self.topic_regex is None else [f"topic pattern {self.topic_regex!r}"]
        parts += [f"a topic other than {pattern!r}" for pattern in self.excludes]
        parts += [f"partition {number}" for number in self.partitions]
        return ", ".join(parts)


def describe_topics(partitions: Iterable[tuple[str | None, int | None]]) -> str:
    """Return a clause with the topics and their partition numbers: `there are orders (0-3, 7)`."""
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
    """Return numbers as ranges: `0-3, 7` for 0, 1, 2, 3, 7."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [f"{first}" if first == last else f"{first}-{last}" for first, last in runs[:_NAMES_SHOWN]]
    return ", ".join(texts) + (f" and {len(runs) - _NAMES_SHOWN} more" if len(runs) > _NAMES_SHOWN else "")
