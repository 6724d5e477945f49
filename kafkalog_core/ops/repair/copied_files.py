"""The files of a new log directory that are copied from an old one: partitions, checkpoints, clean shutdown file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import LockedError, NotFoundError, RefusedError
from kafkalog_core.format.checkpoint import encode_offset_checkpoint
from kafkalog_core.format.names import FileKind, FileState, fixed_file_name
from kafkalog_core.storage.changing.changes import pieces
from kafkalog_core.storage.changing.derived import EMPTY_CLEAN_SHUTDOWN
from kafkalog_core.storage.listing import list_directory, stat_path
from kafkalog_core.storage.locks import lock_holder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir, Key
    from kafkalog_core.storage.changing.new_dir import NewDir, NewTree
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.logdir import LogDir

__all__ = [
    "check_not_running",
    "check_untouched",
    "checkpointed_offsets",
    "copy_beside",
    "copy_directory",
    "copy_file",
    "write_broker_files",
]


def copy_beside(new: NewTree, directory: str, name: str, kind: FileKind) -> None:
    """Copy a file of a partition that does not depend on its segments; do nothing if there is none."""
    file_name = fixed_file_name(kind)
    try:
        content = b"".join(bytes(piece) for piece in pieces(f"{directory}/{file_name}"))
    except NotFoundError:
        return
    new.add(f"{name}/{file_name}", content)


def copy_directory(new: NewTree, directory: str, name: str) -> None:
    """Copy the files of a partition as they are, with their modification times."""
    new.directory(name)
    for file in list_directory(directory).files:
        copy_file(new, file, name)


def copy_file(new: NewTree, file: FileInfo, name: str) -> None:
    """Copy a file into the directory of that name, with its modification time."""
    with new.file(f"{name}/{file.name.raw}", mtime_ns=file.mtime_ns) as copy:
        for piece in pieces(file.path):
            copy.write(piece)


_COPIED: Final = frozenset({FileKind.META_PROPERTIES, FileKind.KRAFT_SNAPSHOT})
_AT_MOST_THE_END: Final = (FileKind.HIGH_WATERMARK, FileKind.LOG_START_OFFSET, FileKind.CLEANER_OFFSET)


def write_broker_files(
    new: NewDir,
    broker_dir: BrokerDir | None,
    ends: Mapping[Key, int],
    *,
    cleaned: Mapping[Key, int] | None = None,
    is_whole: bool = True,
) -> None:
    """Write the broker's files into a new log directory, so that a broker starts on it as after a clean shutdown.

    `meta.properties` and snapshots of cluster metadata are copied. The checkpoints keep the lines of partitions in the
    new directory, with no offset above the log end offset; the recovery points are the log end offsets.

    Args:
        new: the new directory, which holds the partitions already.
        broker_dir: the old log directory; None: it is unknown, so that a current broker needs its `meta.properties`
            before it starts.
        ends: log end offset of each partition.
        cleaned: cleaner offset of each partition; None: that of the old directory.
        is_whole: whether every log is known to be whole. Otherwise no clean shutdown file is written, and the recovery
            points of the old directory are kept.
    """
    flushed = ends if is_whole else checkpointed_offsets(broker_dir, FileKind.RECOVERY_POINT) or {}
    points = {key: min(flushed[key], ends[key]) for key in ends if key in flushed}
    new.add(fixed_file_name(FileKind.RECOVERY_POINT), _text(points))
    for kind in _AT_MOST_THE_END:
        known = checkpointed_offsets(broker_dir, kind)
        if kind is FileKind.CLEANER_OFFSET and cleaned is not None:
            known = {**cleaned} or None
        if known is not None:
            new.add(fixed_file_name(kind), _text({key: min(known[key], ends[key]) for key in ends if key in known}))
    mark = EMPTY_CLEAN_SHUTDOWN
    for file in () if broker_dir is None else broker_dir.log_dir.files:
        if file.name.state is FileState.LIVE and file.name.kind in _COPIED:
            new.add(file.name.raw, _content(file.path), mtime_ns=file.mtime_ns)
        elif file.name.state is FileState.LIVE and file.name.kind is FileKind.CLEAN_SHUTDOWN:
            mark = _content(file.path)
    if is_whole:
        new.add(fixed_file_name(FileKind.CLEAN_SHUTDOWN), mark)


def checkpointed_offsets(broker_dir: BrokerDir | None, kind: FileKind) -> dict[Key, int] | None:
    """Return the offsets in a checkpoint, by topic and partition; None: it is missing, or a broker refuses it."""
    text = None if broker_dir is None else broker_dir.offsets.get(kind)
    if text is None or text.is_refused:
        return None
    found = {key: text.file.offset(*key) for key in text.file.entries}
    return {key: offset for key, offset in found.items() if offset is not None}


def _text(offsets: Mapping[Key, int]) -> bytes:
    return encode_offset_checkpoint((*key, offset) for key, offset in sorted(offsets.items()))


def _content(path: str) -> bytes:
    try:
        return b"".join(bytes(piece) for piece in pieces(path))
    except NotFoundError:
        return b""


def check_not_running(log_dir: LogDir | None) -> None:
    """Raise LockedError if a process holds the lock of a log directory that is to be copied."""
    holder = None if log_dir is None else lock_holder(log_dir.path)
    if log_dir is not None and holder is not None:
        raise LockedError(
            f"held by {holder.sentence}: a copy of files that it writes to is not a valid log. {holder.advice}, and "
            "run the same command again",
            path=log_dir.path,
        )


def check_untouched(files: Iterable[FileInfo]) -> None:
    """Raise RefusedError if a file has changed since it was listed, NotFoundError if it was deleted."""
    for file in files:
        status = stat_path(file.path)
        if (status.st_size, status.st_mtime_ns) != (file.size_bytes, file.mtime_ns):
            raise RefusedError(
                "another process wrote to it while it was read, and the unfinished copy has been removed; stop the "
                "broker and run the same command again",
                path=file.path,
            )
