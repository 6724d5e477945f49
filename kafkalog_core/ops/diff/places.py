"""Topics and partitions of both copies, by the names of their directories and their topic ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_line
from kafkalog_core.errors import SelectionError
from kafkalog_core.format.names import DirectoryState
from kafkalog_core.kafka.sim.cluster import read_topic_ids
from kafkalog_core.kafka.sim.copies import copies_on_disk
from kafkalog_core.kafka.sim.named_dirs import identity_of
from kafkalog_core.ops.diff.logs import LogTask
from kafkalog_core.ops.diff.request import difference
from kafkalog_core.storage.access import denial
from kafkalog_core.storage.listing import list_directory
from kafkalog_core.structs import Struct
from kafkalog_core.text import count_of, first_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.kafka.sim.copies import CopiesOnDisk, PartitionCopy
    from kafkalog_core.ops.diff.logs import LogChanges
    from kafkalog_core.ops.diff.request import DiffRequest, Row, Side

__all__ = ["Disks", "Places", "disks_of"]

_CHANGES: Final = {DirectoryState.DELETE: "being-deleted", DirectoryState.STRAY: "stray"}
_DETAILS: Final = {
    "gone": "no directory of it is left in NEW",
    "being-deleted": "a broker deletes what ends in -delete once file.delete.delay.ms is over, or when it starts",
    "stray": "a broker found at its start that the cluster does not place it here",
}


class Disks(Struct, frozen=True, kw_only=True):
    """What one side has.

    Args:
        side: as it was asked for.
        disks: its directories.
        copies: of each partition the directory in use.
        aside: directories that wait for deletion, and stray ones, by name.
    """

    side: Side
    disks: CopiesOnDisk
    copies: dict[TopicPartition, PartitionCopy]
    aside: dict[str, PartitionCopy]

    def numbers_of(self, topic: str) -> set[int]:
        """Return the partitions of a topic in use."""
        return {number for name, number in self.copies if name == topic}


def disks_of(side: Side) -> Disks:
    """Return what a side has. Raises SelectionError for single files and for two copies of a partition."""
    disks = copies_on_disk(side.targets, advice=f"{side.label} is a log directory or a partition, not a single file")
    copies = {}
    for place, several in disks.places.items():
        if len(several) > 1:
            paths = first_of([each.place.path for each in several])
            raise SelectionError(
                f"{side.label} has {place[0]}-{place[1]} in {paths}: compare one broker at a time; kafkalog spark "
                "replicas compares the copies of several"
            )
        copies[place] = several[0]
    aside = {each.place.name.raw: each for each in disks.copies if each.place.name.state in _CHANGES}
    return Disks(side=side, disks=disks, copies=copies, aside=aside)


class Places:
    """The topics and partitions of both sides.

    Args:
        request: which topics are wanted, and how deep.
        old: the directories of before.
        new: the directories of after.
    """

    def __init__(self, request: DiffRequest, old: Disks, new: Disks) -> None:
        self._request = request
        self._old, self._new = old, new
        self.topics = sorted(
            topic
            for topic in {each.place.name.topic or "" for disks in (old, new) for each in disks.disks.copies}
            if request.takes(topic)
        )
        self._ids = [_topic_ids(disks.copies) for disks in (old, new)]
        recreated = (topic for topic in self.topics if self._is_recreated(topic))
        self.recreated = frozenset(recreated)

    def _is_recreated(self, topic: str) -> bool:
        """Return whether no topic id of before is there any more: the topic was deleted and created again (KIP-516)."""
        ids = [
            {topic_id for place, topic_id in known.items() if place[0] == topic and topic_id is not None}
            for known in self._ids
        ]
        return bool(ids[0] and ids[1]) and ids[0].isdisjoint(ids[1])

    def tasks(self) -> list[LogTask]:
        """Return the logs to compare, and those of one side, whose records are counted."""
        found = []
        for topic, number in sorted({*self._old.copies, *self._new.copies}):
            if not self._request.takes(topic):
                continue
            old, new = self._old.copies.get((topic, number)), self._new.copies.get((topic, number))
            tasks = [(old, new)] if topic not in self.recreated else [(old, None), (None, new)]
            found += [self._task(topic, number, *each) for each in tasks if each != (None, None)]
        return found

    def _task(self, topic: str, number: int, old: PartitionCopy | None, new: PartitionCopy | None) -> LogTask:
        return LogTask(
            name=f"{topic}-{number}",
            topic=topic,
            partition=number,
            old=old,
            new=new,
            is_deep=self._request.is_deep,
            max_batch_bytes=self._request.max_batch_bytes,
            size_bytes=sum(_log_bytes(each) for each in (old, new) if each is not None),
        )

    def rows(self, results: Mapping[str, LogChanges], cluster: frozenset[str] | None) -> Iterator[Row]:
        """Yield the changes of topics, then of single partitions.

        Args:
            results: of the logs that one side has alone, by the path of the directory: their records.
            cluster: the topics in the metadata of NEW; None: unknown.
        """
        for topic in self.topics:
            before, after = self._old.numbers_of(topic), self._new.numbers_of(topic)
            copies = [*self._of(self._old, topic, before - after), *self._of(self._new, topic, after - before)]
            if topic in self.recreated:
                yield self._recreated_row(topic, results)
            elif before and after:
                yield from (self._row("partition", [each], results, cluster) for each in copies)
            elif copies:
                yield self._row("topic", copies, results, cluster)
            yield from self._deleted(topic, is_shown=bool(before or after))
        yield from self._moved()

    def as_before(self) -> str | None:
        """Return a sentence about directories that both sides have set aside; None: there are none."""
        both = sorted(name for name, each in self._new.aside.items() if name in self._old.aside)
        topics = sorted({self._new.aside[name].place.name.topic or "" for name in both})
        topics = [topic for topic in topics if self._request.takes(topic)]
        return f"As before, set aside to be deleted: {first_of(topics)}." if topics else None

    def _of(self, disks: Disks, topic: str, numbers: Iterable[int]) -> Iterator[PartitionCopy]:
        return (disks.copies[topic, number] for number in sorted(numbers))

    def _row(
        self, kind: str, copies: list[PartitionCopy], results: Mapping[str, LogChanges], cluster: frozenset[str] | None
    ) -> Row:
        """Return the row of a topic or partition that one side has alone."""
        name = copies[0].place.name
        topic, is_new = name.topic or "", copies[0].place.path not in {c.place.path for c in self._old.copies.values()}
        is_partition = kind == "partition"
        what, number = (f"{topic}-{name.partition}", name.partition) if is_partition else (topic, None)
        place: Row = {
            "topic": topic,
            "partition": number,
            "records": _records(copies, results),
            "bytes": sum(results[each.place.path].size_bytes for each in copies if each.place.path in results),
            "path": copies[0].place.path,
        }
        count = "" if is_partition else count_of(len(copies), "partition")
        if is_new:
            return difference(kind, "new", what, **place, detail=f"{count}." if count else None)
        aside = self._now_aside(topic, number)
        change = "gone" if not aside else _CHANGES[aside[0].place.name.state]
        texts = [*([count] if count else []), _DETAILS[change]]
        if cluster is not None and topic in cluster:
            texts.append("the metadata log of NEW still has the topic, so it was moved to other brokers or disks")
        path = aside[0].place.path if aside else copies[0].place.path
        command = shell_line(["kafkalog", "dump", "--records", path])
        detail = f"{'; '.join(texts)}."
        return difference(kind, change, what, **place | {"path": path}, detail=detail, next_command=command)

    def _now_aside(self, topic: str, number: int | None) -> list[PartitionCopy]:
        """Return the directories that were set aside in the meantime."""
        return [
            each
            for name, each in sorted(self._new.aside.items())
            if name not in self._old.aside
            and each.place.name.topic == topic
            and number in {None, each.place.name.partition}
        ]

    def _recreated_row(self, topic: str, results: Mapping[str, LogChanges]) -> Row:
        ids = [
            first_of(sorted({str(each) for place, each in known.items() if place[0] == topic})) for known in self._ids
        ]
        copies = [*self._of(self._old, topic, self._old.numbers_of(topic))]
        lost = _records(copies, results)
        of_records = "the records" if lost is None else count_of(lost, "record")
        detail = f"Deleted and created again: {of_records} of OLD in {count_of(len(copies), 'partition')} are not in NEW."
        row: Row = {"before": ids[0], "after": ids[1], "records": lost}
        return difference("topic", "recreated", topic, topic=topic, **row, detail=detail)

    def _deleted(self, topic: str, *, is_shown: bool) -> Iterator[Row]:
        """Yield what became of directories that were set aside before, and those of a topic that has no other ones."""
        of_topic = [
            {name for name, each in disks.aside.items() if each.place.name.topic == topic}
            for disks in (self._old, self._new)
        ]
        gone, added = sorted(of_topic[0] - of_topic[1]), sorted(of_topic[1] - of_topic[0])
        if gone:
            detail = f"{count_of(len(gone), 'directory')} of it that OLD has set aside, {first_of(gone)}, not in NEW."
            yield difference("topic", "deleted", topic, topic=topic, detail=detail)
        if added and not is_shown:
            path = self._new.aside[added[0]].place.path
            detail = f"{count_of(len(added), 'directory')} set aside in NEW, and none in OLD."
            yield difference("topic", "being-deleted", topic, topic=topic, path=path, detail=detail)

    def _moved(self) -> Iterator[Row]:
        """Yield the partitions in another log directory of the broker, by the directory.id of both (KIP-858)."""
        of_old, of_new = (
            {path: identity_of(path).directory_id for path in disks.disks.brokers} for disks in (self._old, self._new)
        )
        for place in sorted(self._old.copies.keys() & self._new.copies.keys()):
            old, new = self._old.copies[place], self._new.copies[place]
            before, after = of_old.get(old.log_dir or ""), of_new.get(new.log_dir or "")
            # A directory.id that the other side does not have is of a disk that was formatted again.
            is_move = before != after and (after in of_old.values() or before in of_new.values())
            if None not in {before, after} and is_move and self._request.takes(place[0]):
                row: Row = {"topic": place[0], "partition": place[1], "before": before, "after": after}
                yield difference("partition", "moved", f"{place[0]}-{place[1]}", **row, path=new.place.path)


def _records(copies: Iterable[PartitionCopy], results: Mapping[str, LogChanges]) -> int | None:
    """Return the number of records in some logs; None: the headers of one of them do not count them."""
    counts = [results[each.place.path].records for each in copies if each.place.path in results]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _topic_ids(copies: Mapping[TopicPartition, PartitionCopy]) -> dict[TopicPartition, str | None]:
    """Return the topic id in the partition.metadata of each directory; None: it has none."""
    return {
        place: next(iter(read_topic_ids([copy.place], {}, "").get(place[0], ())), None)
        for place, copy in copies.items()
    }


def _log_bytes(copy: PartitionCopy) -> int:
    path = copy.place.path
    # A directory that cannot be read is reported where it is compared.
    if denial(path, is_directory=True) is not None:
        return 0
    return sum(file.size_bytes for file in list_directory(path).files if file.name.raw.endswith(".log"))
