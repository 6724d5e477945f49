"""What each file and directory in a log directory is, and how many bytes it takes: one item a name, none is held.

`disk_items` walks as `du` does: links are not followed, directories count with their own size, and a file with several
hard links counts once. So the items of a directory add up to what `du -B1` and `du --apparent-size -B1` print.
"""

from __future__ import annotations

import os
import stat
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import NotFoundError, StorageError
from kafkalog_core.findings import found
from kafkalog_core.format.index import split_size
from kafkalog_core.format.layout import (
    DISK_BLOCK_BYTES,
    MAX_INT64,
    OFFSET_INDEX_ENTRY,
    TIME_INDEX_ENTRY,
)
from kafkalog_core.format.names import (
    INDEX_KINDS,
    LOG_KINDS,
    DirectoryState,
    FileKind,
    FileState,
    journal_run,
    parse_directory_name,
    parse_file_name,
)
from kafkalog_core.storage.access import code_of_dir_error, code_of_error, open_error
from kafkalog_core.storage.changing.space import STAT_BLOCK_BYTES, rounded
from kafkalog_core.storage.framing import used_bytes
from kafkalog_core.storage.logdir import BROKER_KINDS
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.names import DirectoryName, FileName
    from kafkalog_core.storage.logdir import PartitionPath

__all__ = ["INDEXES", "LEFTOVERS", "LOGS", "DiskItem", "ItemKind", "Seen", "disk_items"]


class ItemKind(StrEnum):
    """The kind of a file or directory, by where it is and its name; the value is that of the rows' `kind`."""

    ACTIVE = "active"
    """The log of the segment to which a broker appends."""
    CLOSED = "closed"
    """The log of any other segment that a broker reads."""
    OFFSET_INDEX = "offset_index"
    TIME_INDEX = "time_index"
    TXN_INDEX = "txn_index"
    REMOTE_INDEX = "remote_index"
    """In remote-log-index-cache, which a broker fills again from tiered storage."""
    SNAPSHOT = "snapshot"
    """A producer snapshot, or a snapshot of the metadata log."""
    CHECKPOINT = "checkpoint"
    """A small file of the broker or of a partition: checkpoints, meta.properties, partition.metadata, ..."""
    DELETED = "deleted"
    """A `.deleted` file, which waits for its deletion."""
    CLEANED = "cleaned"
    """A `.cleaned` file: a clean that has not ended. A start deletes it."""
    SWAP = "swap"
    """A `.swap` file: a clean or split that has ended, which a start puts in place."""
    TEMPORARY = "temporary"
    """A `.tmp` or `.part` file, whose writing has not ended."""
    DELETE = "delete_directory"
    """All files of a `-delete` directory: a partition that waits for its deletion."""
    FUTURE = "future_directory"
    """All files of a `-future` directory: a replica that moves between two log directories (KIP-113)."""
    STRAY = "stray_directory"
    """All files of a `-stray` directory: a partition that is not assigned to the broker."""
    JOURNAL = "journal"
    """Of an undo journal of this project."""
    FOREIGN = "foreign"
    """Not of Kafka, or with a name under which no broker reads it."""
    LINK = "link"
    """A symbolic link itself. What it leads to is not counted, as it may be on another file system."""
    DIRECTORY = "directory"
    """A directory without what is in it."""
    UNKNOWN = "unknown"
    """What the system refuses to show; `DiskItem.finding` has the reason."""


LOGS: Final = frozenset({ItemKind.ACTIVE, ItemKind.CLOSED})
INDEXES: Final = frozenset({ItemKind.OFFSET_INDEX, ItemKind.TIME_INDEX, ItemKind.TXN_INDEX})
LEFTOVERS: Final = frozenset(
    {
        # A start deletes `.deleted` and `.cleaned` files (LogLoader.removeTempFilesAndCollectSwapFiles), and schedules
        # `-delete` directories (LogManager.loadLog, addLogToBeDeleted); checkpoints are renamed from `.tmp`.
        ItemKind.DELETED,
        ItemKind.CLEANED,
        ItemKind.TEMPORARY,
        ItemKind.DELETE,
    }
)
"""The kinds that a broker deletes itself. A `.swap` file is none: the next start puts it in place of its segments.

Nor is a `-stray` directory: brokers keep it for ever, and it may be the last copy (LogManager.loadLog, addStrayLog).
"""

Seen = set[tuple[int, int]]
"""Device and inode of files with several hard links."""


class DiskItem(Struct, frozen=True):
    """A file or a directory, as one stat saw it, without following a link.

    Args:
        path: its path.
        kind: what it is.
        directory: the name of the partition's directory that it is, or is in; None: it is in none.
        size_bytes: the apparent size, as in `ls -l`.
        allocated_bytes: the bytes of its blocks, which deleting it frees; less than the size if it is sparse.
        is_linked: whether it is a file with other hard links: deleting this name alone frees nothing.
        is_repeated: whether the bytes count with another name of the same file, of which one name has them.
        slack_bytes: of an offset or time index: the bytes after its entries, which a broker has preallocated.
        slack_allocated_bytes: the bytes of whole blocks among them, which truncating the file to its entries frees.
        finding: what is unknown of it, and why; None: all of it is known.
    """

    path: str
    kind: ItemKind
    directory: DirectoryName | None
    size_bytes: int
    allocated_bytes: int
    is_linked: bool = False
    is_repeated: bool = False
    slack_bytes: int = 0
    slack_allocated_bytes: int = 0
    finding: Finding | None = None

    @property
    def topic(self) -> str | None:
        """The topic in the name of its partition's directory."""
        return None if self.directory is None else self.directory.topic

    @property
    def partition(self) -> int | None:
        """The partition number in that name."""
        return None if self.directory is None else self.directory.partition


def disk_items(
    root: str, partitions: Iterable[PartitionPath] | None = None, seen: Seen | None = None
) -> Iterator[DiskItem]:
    """Yield every file and directory of a log directory, or only of some partitions.

    Files that a broker deletes meanwhile are left out. Memory follows the number of files with several hard links.

    Args:
        root: path of the log directory, or of any directory with partitions in it.
        partitions: those that are walked; None: everything in `root`, and itself.
        seen: the files with several hard links that were counted before; new ones are added.

    Raises NotFoundError or AccessError for a directory that was named and has vanished, or cannot be seen.
    """
    seen = set() if seen is None else seen
    if partitions is None:
        yield from _Directory(root, seen).items(_status(root))
        return
    for place in partitions:
        yield from _partition(place.path, place.name, seen).items(_status(place.path))


def _status(path: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError as error:
        raise open_error(path, error) from error


def _partition(path: str, name: DirectoryName, seen: Seen) -> _Directory:
    return _Directory(path, seen, name, _KIND_OF_DIRECTORY.get(name.state))


_KIND_OF_DIRECTORY: Final = {
    DirectoryState.DELETE: ItemKind.DELETE,
    DirectoryState.FUTURE: ItemKind.FUTURE,
    DirectoryState.STRAY: ItemKind.STRAY,
}
_KIND_OF_STATE: Final = {
    FileState.DELETED: ItemKind.DELETED,
    FileState.CLEANED: ItemKind.CLEANED,
    FileState.SWAP: ItemKind.SWAP,
    FileState.TEMPORARY: ItemKind.TEMPORARY,
    FileState.PARTIAL: ItemKind.TEMPORARY,
}
_KIND_IN_PARTITION: Final = {
    FileKind.LOG: ItemKind.CLOSED,
    FileKind.LOG_V07: ItemKind.CLOSED,
    FileKind.OFFSET_INDEX: ItemKind.OFFSET_INDEX,
    FileKind.TIME_INDEX: ItemKind.TIME_INDEX,
    FileKind.TXN_INDEX: ItemKind.TXN_INDEX,
    FileKind.SNAPSHOT: ItemKind.SNAPSHOT,
    FileKind.KRAFT_SNAPSHOT: ItemKind.SNAPSHOT,
    FileKind.LEADER_EPOCH: ItemKind.CHECKPOINT,
    FileKind.PARTITION_METADATA: ItemKind.CHECKPOINT,
    FileKind.QUORUM_STATE: ItemKind.CHECKPOINT,
}
_AT_TOP: Final = BROKER_KINDS | {FileKind.LOCK}
_BOOTSTRAP: Final = "bootstrap.checkpoint"
_REMOTE_KINDS: Final = frozenset({FileKind.REMOTE_OFFSET_INDEX, FileKind.REMOTE_TIME_INDEX, FileKind.REMOTE_TXN_INDEX})
_ENTRIES: Final = {ItemKind.OFFSET_INDEX: OFFSET_INDEX_ENTRY, ItemKind.TIME_INDEX: TIME_INDEX_ENTRY}
_DIGITS: Final = 20
_LARGEST: Final = f"{MAX_INT64:020d}"
_OF_07: Final = ".kafka"
_CLOSED: Final = ItemKind.CLOSED  # a member of an enumeration is looked up slowly, and this one for each file


class _Directory:
    """A directory that is walked.

    Args:
        path: its path.
        seen: the files with several hard links.
        name: of the partition's directory that it is, or is in.
        kind: of everything in it; None: the names of its files decide.
    """

    def __init__(self, path: str, seen: Seen, name: DirectoryName | None = None, kind: ItemKind | None = None) -> None:
        self._path = path
        self._seen = seen
        self._name = name
        self._kind = kind
        self._kinds: dict[str, ItemKind] = {}
        self._last: DiskItem | None = None  # the log with the largest name by now
        self._old: list[DiskItem] = []  # the logs of 0.7

    def items(self, status: os.stat_result) -> Iterator[DiskItem]:
        """Yield the directory itself and all that is in it."""
        number = -1
        try:
            # From its number: the system walks the path once, and not again for each file.
            number = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY)
            entries = os.scandir(number)
        except OSError as error:
            problem = open_error(self._path, error)
            if not isinstance(problem, NotFoundError):
                finding = self._found(code_of_dir_error(problem), self._path, problem)
                yield replace(self._item(self._path, ItemKind.UNKNOWN, status), finding=finding)
            if number >= 0:
                os.close(number)
            return
        try:
            yield self._item(self._path, ItemKind.DIRECTORY, status)
            yield from self._listed(entries)
        # The disk refuses the rest of the directory.
        except OSError as error:
            refusal = open_error(self._path, error)
            yield self._unknown(self._path, code_of_dir_error(refusal), refusal)
        finally:
            entries.close()
            os.close(number)
        yield from self._last_logs()

    def _listed(self, entries: Iterable[os.DirEntry[str]]) -> Iterator[DiskItem]:
        directory, of_all, kind_of = self._path, self._kind, self._kind_of
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError as error:
                path = f"{directory}/{entry.name}"
                refusal = open_error(path, error)
                if not isinstance(refusal, NotFoundError):
                    yield self._unknown(path, code_of_error(refusal), refusal)
                continue
            name = entry.name
            path = f"{directory}/{name}"
            if not entry.is_file(follow_symlinks=False):
                if entry.is_dir(follow_symlinks=False):
                    yield from self._inner(path, name).items(status)
                else:
                    yield self._item(path, ItemKind.LINK if entry.is_symlink() else ItemKind.FOREIGN, status)
                continue
            kind = of_all or kind_of(name)
            item = self._item(path, kind, status)
            if kind is _CLOSED:
                item = self._earlier_log(item)  # type: ignore[assignment]
            elif status.st_size > DISK_BLOCK_BYTES and kind in _ENTRIES:
                item = self._index(item)
            if item is not None:
                yield item

    def _earlier_log(self, item: DiskItem) -> DiskItem | None:
        """Keep a log that may be that of the active segment, and return one that is not; None: there is none yet."""
        if item.path.endswith(_OF_07):
            self._old.append(item)
            return None
        last = self._last
        if last is not None and item.path < last.path:
            return item
        self._last = item
        return last

    def _last_logs(self) -> Iterator[DiskItem]:
        """Yield the active segment's log, which is the one with the largest name, and the logs of 0.7."""
        if self._last is None and self._old:
            self._last = max(self._old, key=lambda item: item.path)
            self._old.remove(self._last)
        elif self._last is not None:
            # LogLoader.loadSegmentFiles: after an upgrade no log of 0.7 is read.
            self._old = [replace(item, kind=ItemKind.FOREIGN) for item in self._old]
        if self._last is not None:
            yield replace(self._last, kind=ItemKind.ACTIVE)
        yield from self._old

    def _inner(self, path: str, name: str) -> _Directory:
        """Return a directory in this one."""
        if self._kind is not None:
            return _Directory(path, self._seen, self._name, self._kind)
        # Before the topic: the name of a journal is the one of a partition too
        if journal_run(name) is not None:
            return _Directory(path, self._seen, self._name, ItemKind.JOURNAL)
        parsed = parse_directory_name(name)
        if self._name is None and parsed.is_partition:
            return _partition(path, parsed, self._seen)
        if self._name is None and parsed.state is DirectoryState.REMOTE_INDEX_CACHE:
            return _Directory(path, self._seen, parsed)
        return _Directory(path, self._seen, self._name, ItemKind.FOREIGN)

    def _item(self, path: str, kind: ItemKind, status: os.stat_result) -> DiskItem:
        item = DiskItem(path, kind, self._name, status.st_size, status.st_blocks * STAT_BLOCK_BYTES)
        if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
            return replace(item, is_linked=True, is_repeated=self._is_repeated(status))
        return item

    def _unknown(self, path: str, code: str, error: StorageError) -> DiskItem:
        return DiskItem(path, ItemKind.UNKNOWN, self._name, 0, 0, finding=self._found(code, path, error))

    def _found(self, code: str, path: str, error: StorageError) -> Finding:
        name = self._name
        topic, partition = (None, None) if name is None else (name.topic, name.partition)
        return found(code, path, topic=topic, partition=partition, reason=error.message)

    def _is_repeated(self, status: os.stat_result) -> bool:
        identity = status.st_dev, status.st_ino
        if identity in self._seen:
            return True
        self._seen.add(identity)
        return False

    def _index(self, item: DiskItem) -> DiskItem:
        """Return the item of an index of more than one block: a smaller one has no block after its entries to free."""
        path, size, allocated = item.path, item.size_bytes, item.allocated_bytes
        layout = _ENTRIES[item.kind]
        try:
            with Source.open(path) as source:
                used = used_bytes(source, split_size(layout, size)[0] * layout.size)
        except StorageError as error:
            return replace(item, finding=self._found(code_of_error(error), path, error))
        # The last entry may end with zeros.
        used = min(-(-used // layout.size) * layout.size, size)
        return replace(item, slack_bytes=size - used, slack_allocated_bytes=max(0, allocated - rounded(used)))

    def _kind_of(self, name: str) -> ItemKind:
        """Return the kind of a file by its name; those of segments differ only in their offset, and are parsed once."""
        suffix, digits = name[_DIGITS:], name[:_DIGITS]
        if self._name is None or not (digits.isdecimal() and name.isascii() and digits <= _LARGEST):
            return self._kind_by(parse_file_name(name))
        kind = self._kinds.get(suffix)
        if kind is None:
            kind = self._kinds[suffix] = self._kind_by(parse_file_name(name))
        return kind

    def _kind_by(self, name: FileName) -> ItemKind:
        if journal_run(name.raw) is not None:
            return ItemKind.JOURNAL
        if self._name is None:
            return self._kind_at_top(name)
        if self._name.state is DirectoryState.REMOTE_INDEX_CACHE:
            return ItemKind.REMOTE_INDEX if name.kind in _REMOTE_KINDS else ItemKind.FOREIGN
        kind = _KIND_IN_PARTITION.get(name.kind, ItemKind.FOREIGN)
        if name.state is not FileState.LIVE:
            is_known = kind is not ItemKind.FOREIGN or name.kind is FileKind.TEMPORARY
            return _KIND_OF_STATE[name.state] if is_known else ItemKind.FOREIGN
        # LogLoader.loadSegmentFiles: no log whose name is not 20 digits
        is_read = name.canonical or name.kind not in LOG_KINDS | INDEX_KINDS
        return kind if is_read else ItemKind.FOREIGN

    @staticmethod
    def _kind_at_top(name: FileName) -> ItemKind:
        if name.state is FileState.LIVE and (name.kind in _AT_TOP or name.raw == _BOOTSTRAP):
            return ItemKind.CHECKPOINT
        is_unfinished = name.state in {FileState.TEMPORARY, FileState.PARTIAL}
        return ItemKind.TEMPORARY if is_unfinished else ItemKind.FOREIGN
