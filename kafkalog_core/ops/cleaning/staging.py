"""The changes that put what a clean makes into the place of what it was made of, in their order.

A broker may be started, by mistake or by a watchdog, between any two of them; it loses nothing then that the plan
keeps, and finds no offset twice:

- What a cleaner of the broker left unfinished, `.cleaned` files, goes first, as in a start: beside them a replacement
  could be thrown away when it is half done.
- Groups follow from the first to the last, each at once (`storage.changing.swap`): a tombstone or a marker may only
  go when what it deletes, or ends, is gone. They are taken back from the last to the first.
- The cleaner's checkpoint comes last, for all logs: with the old one the cleaner begins too early, and cleans again
  what is clean.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.checkpoint_text import encode_offset_checkpoint
from kafkalog_core.format.index import encode_txn_entry
from kafkalog_core.format.names import FileKind, FileState, fixed_file_name, segment_file_name
from kafkalog_core.ops.logdirs.untouched import check_untouched
from kafkalog_core.ops.recovery.loader_rules import rules_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalog_core.ops.cleaning.course import CleanPass, Group
    from kafkalog_core.ops.cleaning.last_clean import Cleaning
    from kafkalog_core.ops.logdirs.brokerdir import BrokerDir, Key
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.segment import Segment

__all__ = ["NewSegment", "groups_of", "replaced_files", "stage_checkpoint", "stage_clean"]

_NS_PER_MS: Final = 1_000_000


class NewSegment:
    """What a group becomes: its log in pieces, and when these are at their end the files beside it."""

    def __init__(self, group: Group) -> None:
        self._group = group

    @property
    def mtime_ns(self) -> int:
        """The modification time of log and indexes; a broker knows milliseconds."""
        return self._group.mtime_ns // _NS_PER_MS * _NS_PER_MS

    def log(self) -> Iterator[memoryview]:
        """The log, each piece valid until the next. Raises CleanError and StorageError."""
        for chunk in self._group.chunks():
            yield chunk.data

    def indexes(self) -> Iterator[tuple[FileKind, bytes]]:
        """Offset index, and time index where the release has it."""
        yield FileKind.OFFSET_INDEX, self._group.indexes.offset_index
        time_index = self._group.indexes.time_index
        if time_index is not None:
            yield FileKind.TIME_INDEX, time_index

    def txn_index(self) -> bytes:
        """The transaction index; empty: there is none."""
        return b"".join(
            encode_txn_entry(txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset)
            for txn in self._group.aborted
        )


def stage_clean(work: CleanPass, partition: Partition, cleaning: Cleaning, stage: Stage) -> None:
    """Stage all changes in the directory of a partition. Raises CleanError and StorageError."""
    for file in partition.files:
        if file.name.state is FileState.CLEANED:
            stage.remove(file.path, why="a clean that was never finished has left it")
    for group, sources in groups_of(work, partition):
        _stage_group(NewSegment(group), sources, cleaning, stage)


def groups_of(work: CleanPass, partition: Partition) -> Iterator[tuple[Group, Sequence[Segment]]]:
    """The segments that a clean makes, one after another, each with those of the log whose place it takes.

    Where other cleans went before, its own sources are what these have made.
    """
    bases = [group.base_offset for group in work.groups]
    covered = [segment for segment in partition.segments if segment.base_offset < work.end_offset]
    for number, group in enumerate(work.run()):
        first = bisect_left(covered, bases[number], key=_base_offset)
        end = bisect_left(covered, bases[number + 1], key=_base_offset) if number + 1 < len(bases) else len(covered)
        yield group, covered[first:end]


def replaced_files(sources: Sequence[Segment], cleaning: Cleaning) -> Iterator[str]:
    """The files whose place a new segment takes: since 2.8 snapshots go with their segments, but for the first."""
    takes_snapshots = rules_of(cleaning.rules.release).removes_stray_snapshots
    for source in sources:
        for file in source.files:
            if file.name.kind is not FileKind.SNAPSHOT or (takes_snapshots and source is not sources[0]):
                yield file.path


def _stage_group(new: NewSegment, sources: Sequence[Segment], cleaning: Cleaning, stage: Stage) -> None:
    """One segment in the place of others; the first of them has its name."""
    base = sources[0].base_offset
    like = sources[0].files[0].path
    directory = like.rpartition("/")[0]
    what = f"segment {base} cleaned"
    if len(sources) > 1:
        what = f"segments {base} to {sources[-1].base_offset} cleaned, and put together"
    stage.write(like, new.log(), why=what, like=like, mtime_ns=new.mtime_ns, swap=base)
    for kind, content in new.indexes():
        path = f"{directory}/{segment_file_name(base, kind)}"
        stage.write(path, [content], why=what, like=like, mtime_ns=new.mtime_ns, swap=base)
    txn_index, path = new.txn_index(), f"{directory}/{segment_file_name(base, FileKind.TXN_INDEX)}"
    check_untouched(source.files[0] for source in sources)
    if txn_index:
        stage.write(path, [txn_index], why=what, like=like, swap=base)
    else:
        stage.remove(path, why="no transaction that was aborted has anything left here", swap=base)
    own = {file.path for file in sources[0].files}
    for path in replaced_files(sources, cleaning):
        if path not in own:
            stage.remove(path, why=f"its records are in segment {base}, as far as they stay", swap=base)


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def stage_checkpoint(broker_dir: BrokerDir, cleaned: Mapping[Key, int], stage: Stage) -> None:
    """Say how far each log was cleaned; what stands there of partitions that are not here goes."""
    text = broker_dir.offsets.get(FileKind.CLEANER_OFFSET)
    entries: dict[Key, int] = {}
    if text is not None and not text.is_refused:
        known = {key: text.file.offset(*key) for key in text.file.entries}
        entries = {key: offset for key, offset in known.items() if offset is not None and key in broker_dir.served}
    entries |= cleaned
    path = f"{broker_dir.path}/{fixed_file_name(FileKind.CLEANER_OFFSET)}"
    content = encode_offset_checkpoint((*key, offset) for key, offset in entries.items())
    stage.write(path, [content], why="how far each log was cleaned", like=_beside(broker_dir))


def _beside(broker_dir: BrokerDir) -> str:
    """Whose owner and mode the checkpoint gets: its own or another checkpoint's; 0.8 has no meta.properties."""
    kinds = {FileKind.CLEANER_OFFSET, FileKind.RECOVERY_POINT, FileKind.HIGH_WATERMARK}
    live = [file for file in broker_dir.log_dir.files if file.name.state is FileState.LIVE and file.name.kind in kinds]
    live.sort(key=lambda file: file.name.kind is not FileKind.CLEANER_OFFSET)
    return live[0].path if live else broker_dir.path
