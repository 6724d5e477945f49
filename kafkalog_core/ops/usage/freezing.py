"""What a freeze keeps: the files of each partition directory, and which of them a hard link does not protect.

A link has the bytes of the file, not a copy of them. That is enough for files that a broker only deletes: those of a
`-delete` directory and `.deleted` ones. No release truncates or rewrites them: a start loads a `-delete` directory
without recovery (`LogLoader.recoverLog` skips it), and removes `.deleted` files
(`LogLoader.removeTempFilesAndCollectSwapFiles`). Small text files (`partition.metadata`, `leader-epoch-checkpoint`) are
replaced by a rename, which a link survives too (`CheckpointFile.write`).

Of a log in use, `--all` keeps the segments that are flushed and committed by links. From the recovery point on, a start
after a crash truncates a log in place and rewrites its indexes (`LogSegment.recover`), and from the high watermark on a
follower truncates it (`UnifiedLog.truncateTo`); the active segment grows. These are copied.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kafkalog_core.engine.targets import FileTarget, LogDirTarget
from kafkalog_core.errors import SelectionError, StorageError
from kafkalog_core.findings import found
from kafkalog_core.format.names import LOG_KINDS, SEGMENT_KINDS, DirectoryState, FileKind, FileState
from kafkalog_core.kafka.sim.cluster import read_topic_id
from kafkalog_core.kafka.sim.logdir.top_files import read_broker_dir
from kafkalog_core.ops.usage.frozen_dir import Origin
from kafkalog_core.storage.listing import list_directory
from kafkalog_core.storage.logdir import not_listed, read_log_dir
from kafkalog_core.storage.partition import partition_of
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.engine.targets import Target
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.logdir import PartitionPath
    from kafkalog_core.storage.partition import Partition

__all__ = ["ChosenDir", "ChosenFile", "chosen_dirs"]

_TEXT_KINDS: Final = frozenset({FileKind.PARTITION_METADATA, FileKind.LEADER_EPOCH, FileKind.QUORUM_STATE})


class ChosenFile(Struct, frozen=True, kw_only=True):
    """A file that is frozen.

    Args:
        info: the file.
        name: its name in the frozen directory: that of the served file.
        is_copied: whether a link is not enough.
    """

    info: FileInfo
    name: str
    is_copied: bool = False

    @property
    def is_text(self) -> bool:
        """Whether it is a small file of the partition, which a broker replaces as a whole."""
        return self.info.name.kind in _TEXT_KINDS


class ChosenDir(Struct, frozen=True, kw_only=True):
    """A partition directory of which something is frozen; `path` is real, without links."""

    path: str
    place: PartitionPath
    origin: Origin
    files: tuple[ChosenFile, ...]


def chosen_dirs(targets: Iterable[Target], *, takes_all: bool) -> Iterator[ChosenDir | Finding]:
    """Yield what is frozen, directories that a broker deletes first; a finding for what cannot be frozen.

    Raises SelectionError for a single file, and StorageError of a log directory.
    """
    places = [each for target in targets for each in _places(target)]
    # The time is short for those alone
    for place, broker in sorted(places, key=lambda each: each[0].name.state is not DirectoryState.DELETE):
        path = os.path.realpath(place.path)
        try:
            listing = list_directory(path)
            if place.name.state is DirectoryState.DELETE:
                files = tuple(ChosenFile(info=file, name=_served_name(file)) for file in listing.files)
            else:
                files = tuple(_of_log(partition_of(listing), place, broker, takes_all=takes_all))
        except StorageError as error:
            yield not_listed(place, error)
            continue
        name = place.name
        for file in files:
            if os.path.islink(file.info.path):
                yield found(
                    "freeze.symbolic-link",
                    file.info.path,
                    topic=name.topic,
                    partition=name.partition,
                    severity="error" if file.info.name.kind in LOG_KINDS else None,
                    target=os.readlink(file.info.path),
                )
        files = tuple(file for file in files if not os.path.islink(file.info.path))
        if files and name.topic is not None and name.partition is not None:
            origin = Origin(
                device=place.device,
                inode=place.inode,
                topic=name.topic,
                partition=name.partition,
                topic_id=read_topic_id(place),
            )
            yield ChosenDir(path=path, place=place, origin=origin, files=files)


def _places(target: Target) -> Iterator[tuple[PartitionPath, BrokerDir | None]]:
    if isinstance(target, FileTarget):
        raise SelectionError(f"{target.path}: name the directory of its partition, which is frozen with its names")
    if isinstance(target, LogDirTarget):
        broker = read_broker_dir(target.log_dir) if target.log_dir.is_broker_dir else None
        yield from ((place, broker) for place in target.partitions)
    else:
        yield target.place, None if target.log_dir is None else read_broker_dir(read_log_dir(target.log_dir))


def _served_name(file: FileInfo) -> str:
    """Return the name that a file had while it was served."""
    return file.name.raw.removesuffix(".deleted") if file.name.state is FileState.DELETED else file.name.raw


def _of_log(
    partition: Partition, place: PartitionPath, broker: BrokerDir | None, *, takes_all: bool
) -> Iterator[ChosenFile]:
    """Yield the files of a directory in use: what waits for deletion, with `takes_all` the log too."""
    deleted = [file for file in partition.files if file.name.state is FileState.DELETED]
    live = [file for file in partition.files if file.name.state is FileState.LIVE]
    if not takes_all and not deleted:
        return
    if takes_all:
        kept_to = _unchanged_to(partition, place, broker)
        for file in live:
            base = file.name.base_offset
            if file.name.kind in SEGMENT_KINDS and base is not None:
                yield ChosenFile(info=file, name=file.name.raw, is_copied=base >= kept_to)
            elif file.name.kind is FileKind.KRAFT_SNAPSHOT:  # complete before it gets its name (FileRawSnapshotWriter)
                yield ChosenFile(info=file, name=file.name.raw)
    # After the live ones, which keep their names where a cleaned segment has that of a deleted one
    yield from (ChosenFile(info=file, name=_served_name(file)) for file in deleted)
    yield from (ChosenFile(info=file, name=file.name.raw) for file in live if file.name.kind in _TEXT_KINDS)


def _unchanged_to(partition: Partition, place: PartitionPath, broker: BrokerDir | None) -> int:
    """Return the base offset of the first segment that may change in place: the active one, or one before it."""
    bases = [segment.base_offset for segment in partition.segments] or [0]
    limits = [0]  # a log without a recovery point is recovered from its start: the metadata log, a directory apart
    if broker is not None and broker.is_served(place.name):
        point = broker.offset(FileKind.RECOVERY_POINT, place.name)
        mark = broker.offset(FileKind.HIGH_WATERMARK, place.name)
        limits = [point or 0, *(() if mark is None else (mark,))]
    return max((base for base in bases if base <= min(limits)), default=bases[0])
