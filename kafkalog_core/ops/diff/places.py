"""Topics and partitions of both copies, by the names of their directories and their topic ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_line
from kafkalog_core.errors import SelectionError
from kafkalog_core.format.names import DirectoryState
from kafkalog_core.kafka.sim.cluster import read_topic_ids
from kafkalog_core.kafka.sim.copies import copies_on_disk
from kafkalog_core.kafka.sim.named_dirs import identity_of
from kafkalog_core.ops.copies.comparison import log_bytes
from kafkalog_core.ops.diff.logs import LogTask
from kafkalog_core.ops.diff.request import difference
from kafkalog_core.structs import Struct
from kafkalog_core.text import count_of, first_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkalog_core.kafka.sim.copies import PartitionCopy
    from kafkalog_core.ops.diff.logs import LogChanges
    from kafkalog_core.ops.diff.request import DiffRequest, Row, Side

__all__ = ["Places", "SideDirs", "side_dirs"]

_SEVERAL: Final = 3
_CHANGES: Final = {DirectoryState.DELETE: "being-deleted", DirectoryState.STRAY: "stray"}
_DETAILS: Final = {
    "gone": "no directory of it is left in NEW",
    "being-deleted": "a broker deletes what ends in -delete once file.delete.delay.ms is over",
    "stray": "a broker found at its start that the cluster does not place it here",
}


class SideDirs(Struct, frozen=True, kw_only=True):
    """What one side has.

    Args:
        brokers: paths of its log directories.
        copies: the directories in use, by topic and partition number.
        ids: the topic ids in them, by topic.
        aside: the directories that wait for deletion, and stray ones, by topic and by the name of the directory.
    """

    brokers: tuple[str, ...]
    copies: dict[str, dict[int, PartitionCopy]]
    ids: dict[str, set[str]]
    aside: dict[str, dict[str, PartitionCopy]]


def side_dirs(side: Side) -> SideDirs:
    """Return what a side has. Raises SelectionError for single files and for two copies of a partition."""
    disks = copies_on_disk(side.targets, advice=f"{side.label} is a log directory or a partition, not a single file")
    found = SideDirs(brokers=tuple(disks.brokers), copies={}, ids={}, aside={})
    for (topic, number), several in sorted(disks.places.items()):
        if len(several) > 1:
            paths = first_of([each.place.path for each in several])
            raise SelectionError(
                f"{side.label} has {topic}-{number} in {paths}: compare one broker at a time; kafkalog replicas "
                "compares the copies of several"
            )
        found.copies.setdefault(topic, {})[number] = several[0]
        found.ids.setdefault(topic, set()).update(read_topic_ids([several[0].place], {}, "").get(topic, ()))
    for copy in disks.copies:
        name = copy.place.name
        if name.state in _CHANGES and name.topic is not None:
            found.aside.setdefault(name.topic, {})[name.raw] = copy
    return found


class Places:
    """The topics and partitions of both sides.

    Args:
        request: which topics are wanted, and how deep.
        old: the directories of before.
        new: the directories of after.
    """

    def __init__(self, request: DiffRequest, old: SideDirs, new: SideDirs) -> None:
        self._request = request
        self._old, self._new = old, new
        self.topics = sorted(filter(request.takes, {*old.copies, *new.copies, *old.aside, *new.aside}))

    def _is_recreated(self, topic: str) -> bool:
        """Return whether no topic id of before is there any more: the topic was deleted and created again (KIP-516)."""
        old, new = self._old.ids.get(topic), self._new.ids.get(topic)
        return bool(old and new and old.isdisjoint(new))

    def tasks(self) -> list[LogTask]:
        """Return the logs to compare, and those of one side, whose records are counted."""
        found = []
        for topic in self.topics:
            olds, news = self._old.copies.get(topic, {}), self._new.copies.get(topic, {})
            is_recreated = self._is_recreated(topic)
            for number in sorted({*olds, *news}):
                old, new = olds.get(number), news.get(number)
                pairs = [(old, None), (None, new)] if is_recreated else [(old, new)]
                found += [self._task(topic, number, *pair) for pair in pairs if pair != (None, None)]
        return found

    def _task(self, topic: str, number: int, old: PartitionCopy | None, new: PartitionCopy | None) -> LogTask:
        return LogTask(
            topic=topic,
            partition=number,
            old=old,
            new=new,
            is_deep=self._request.is_deep,
            max_batch_bytes=self._request.max_batch_bytes,
            size_bytes=sum(log_bytes(each.place.path) for each in (old, new) if each is not None),
        )

    def rows(self, alone: Mapping[str, LogChanges], cluster: frozenset[str] | None) -> Iterator[Row]:
        """Yield the changes of topics and of single partitions.

        Args:
            alone: what was counted in the logs that one side has alone, by the path of the directory.
            cluster: the topics in the metadata of NEW; None: unknown.
        """
        for topic in self.topics:
            old, new = self._old.copies.get(topic, {}), self._new.copies.get(topic, {})
            if self._is_recreated(topic):
                yield self._recreated_row(topic, [*old.values()], alone)
                continue
            is_there = topic in (cluster or ())
            for is_new, one, other in ((False, old, new), (True, new, old)):
                copies = [one[number] for number in sorted(one.keys() - other.keys())]
                if old and new:
                    yield from (
                        self._row("partition", [each], alone, is_new=is_new, is_there=is_there) for each in copies
                    )
                elif copies:
                    yield self._row("topic", copies, alone, is_new=is_new, is_there=is_there)
            yield from self._aside(topic, old, new)
            yield from self._moved(topic)

    def as_before(self) -> str | None:
        """Return a sentence about directories that both sides have set aside; None: there are none."""
        asides = ((topic, self._old.aside.get(topic, {}), self._new.aside.get(topic, {})) for topic in self.topics)
        topics = [topic for topic, old, new in asides if old.keys() & new.keys()]
        return f"As before, set aside to be deleted: {first_of(topics)}." if topics else None

    def _row(
        self, kind: str, copies: list[PartitionCopy], alone: Mapping[str, LogChanges], *, is_new: bool, is_there: bool
    ) -> Row:
        """Return the row of a topic or partition that one side has alone; `is_there`: in the metadata of NEW."""
        name = copies[0].place.name
        topic, number = name.topic or "", name.partition if kind == "partition" else None
        what = topic if number is None else f"{topic}-{number}"
        texts = [count_of(len(copies), "partition")] if number is None else []
        change, path, command = "new", copies[0].place.path, None
        if not is_new:
            before = self._old.aside.get(topic, {})
            moved = [
                each
                for raw, each in sorted(self._new.aside.get(topic, {}).items())
                if raw not in before and number in {None, each.place.name.partition}
            ]
            change = _CHANGES[moved[0].place.name.state] if moved else "gone"
            path = moved[0].place.path if moved else path
            command = shell_line(["kafkalog", "dump", "--records", path])
            texts.append(_DETAILS[change])
            if is_there:
                texts.append("the metadata of NEW still has the topic, so it was moved to other brokers or disks")
        detail = f"{'; '.join(texts)}." if texts else None
        counts: Row = {"records": _records(copies, alone), "bytes": sum(alone[c.place.path].size_bytes for c in copies)}
        where: Row = {"topic": topic, "partition": number, "path": path}
        return difference(kind, change, what, **where, **counts, detail=detail, next_command=command)

    def _recreated_row(self, topic: str, copies: list[PartitionCopy], alone: Mapping[str, LogChanges]) -> Row:
        ids = [first_of(sorted(disks.ids[topic])) for disks in (self._old, self._new)]
        row: Row = {"before": ids[0], "after": ids[1], "records": _records(copies, alone)}
        detail = f"Deleted and created again: {count_of(len(copies), 'partition')} of OLD had the other topic id."
        return difference("topic", "recreated", topic, topic=topic, **row, detail=detail)

    def _aside(self, topic: str, olds: Mapping[int, PartitionCopy], news: Mapping[int, PartitionCopy]) -> Iterator[Row]:
        """Yield what became of directories that were set aside before, and those that NEW alone has set aside.

        Those that `_row` names are left out: OLD has their partition, and NEW no other directory of it.
        """
        old, new = self._old.aside.get(topic, {}), self._new.aside.get(topic, {})
        gone = sorted(old.keys() - new.keys())
        moved = olds.keys() - news.keys()
        added = sorted(raw for raw in new.keys() - old.keys() if new[raw].place.name.partition not in moved)
        if gone:
            detail = f"{count_of(len(gone), 'directory')} of it that OLD has set aside, {first_of(gone)}, not in NEW."
            yield difference("topic", "deleted", topic, topic=topic, detail=detail)
        for change in _CHANGES.values():
            raws = [raw for raw in added if _CHANGES[new[raw].place.name.state] == change]
            if raws:
                detail = f"{count_of(len(raws), 'directory')} that NEW alone has set aside, {first_of(raws)}."
                path = new[raws[0]].place.path
                yield difference("topic", change, topic, topic=topic, path=path, detail=detail)

    def _moved(self, topic: str) -> Iterator[Row]:
        """Yield the partitions in another log directory of the broker, by the directory.id of both (KIP-858)."""
        if len(self._old.brokers) + len(self._new.brokers) < _SEVERAL:
            return
        old, new = self._old.copies.get(topic, {}), self._new.copies.get(topic, {})
        known = {identity_of(path).directory_id for path in self._old.brokers}
        for number in sorted(old.keys() & new.keys()):
            before, after = (identity_of(sides[number].log_dir).directory_id for sides in (old, new))
            # A directory.id that OLD does not have is of a disk that was formatted again.
            if before is not None and before != after and after in known:
                row: Row = {"topic": topic, "partition": number, "before": before, "after": after}
                yield difference("partition", "moved", f"{topic}-{number}", **row, path=new[number].place.path)


def _records(copies: Iterable[PartitionCopy], alone: Mapping[str, LogChanges]) -> int | None:
    """Return the number of records in some logs; None: the headers of one of them do not count them."""
    counts = [alone[each.place.path].records for each in copies]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
