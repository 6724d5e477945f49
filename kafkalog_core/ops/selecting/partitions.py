"""The partitions that targets name: topics that are not among them, and those that are there twice."""

from __future__ import annotations

import os
from difflib import get_close_matches
from typing import TYPE_CHECKING

from kafkalog_core.errors import SelectionError
from kafkalog_core.ops.selecting.selection import describe_topics
from kafkalog_core.ops.selecting.targets import LogDirTarget, PartitionTarget, partition_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.ops.selecting.targets import Target

__all__ = ["check_topics", "same_partitions"]


def check_topics(topics: Iterable[str], targets: Iterable[Target]) -> None:
    """Raise SelectionError for a topic that was given settings and of which no partition is among the targets."""
    wanted = tuple(topics)
    if not wanted:
        return
    names = list(partition_names(targets))
    known = {topic for topic, _ in names if topic is not None}
    for topic in wanted:
        if topic not in known:
            near = get_close_matches(topic, sorted(known), n=3, cutoff=0.5)
            hint = f"is {' or '.join(near)} meant?" if near else describe_topics(names)
            raise SelectionError(f"--topic-config {topic}: no partition of this topic is among what was named; {hint}")


def same_partitions(targets: Iterable[Target]) -> list[str]:
    """Partitions with more than one directory: `orders-0`; rows of them differ only in the path."""
    places: dict[tuple[object, ...], set[str]] = {}
    for target in targets:
        if isinstance(target, LogDirTarget):
            for place in target.partitions:
                places.setdefault((place.name.topic, place.name.partition), set()).add(place.path)
        elif isinstance(target, PartitionTarget):
            places.setdefault((target.place.name.topic, target.place.name.partition), set()).add(target.path)
        else:
            segment = target.file.name.raw if target.topic is None else None
            key = (target.topic, target.partition) if segment is None else (segment,)
            places.setdefault(key, set()).add(os.path.dirname(os.path.abspath(target.path)))
    return sorted(_label(key) for key, paths in places.items() if len(paths) > 1)


def _label(key: tuple[object, ...]) -> str:
    return "-".join(str(part) for part in key if part is not None) or "no name"
