"""What a log directory knows about one of its partitions: what a broker reads before it opens the first segment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import found
from kafkalog_core.format.names import (
    METADATA_TOPIC,
    DirectoryState,
    FileKind,
    FileState,
    fixed_file_name,
)
from kafkalog_core.format.properties import PropertyFile
from kafkalog_core.kafka.sim.logdir.faults import EntryFile
from kafkalog_core.kafka.sim.logdir.text_files import OffsetText, PropertyText, read_offsets, read_properties
from kafkalog_core.storage.access import code_of_error
from kafkalog_core.storage.paths import is_directory
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.names import DirectoryName
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.storage.logdir import LogDir, PartitionPath

__all__ = ["OFFSET_KINDS", "BrokerDir", "Key", "PartitionContext", "read_broker_dir", "served"]


class PartitionContext(Struct, frozen=True, kw_only=True):
    """Plain values, None where they are unknown; all of them are None for a partition outside a log directory.

    Args:
        log_dir: path of the log directory.
        is_clean: whether it has the clean shutdown file, so that a broker recovers nothing.
        is_kraft: whether its meta.properties or its files are those of a KRaft broker.
        recovery_point: the checkpointed recovery point; None: the checkpoint has none.
        log_start_offset: the checkpointed log start offset, which a broker writes only where it is not the base offset
            of the first segment (`LogManager.checkpointLogStartOffsetsInDir`).
        high_watermark: the checkpointed high watermark.
        is_cleaned: whether a broker has compacted it before: the cleaner's checkpoint has an entry of it.
        is_start_known: whether the log start offset is known: the checkpoint was read, and the broker wrote it at its
            shutdown (else it may be a minute old).
        release: that left the directory, or that the user names.
    """

    log_dir: str | None = None
    is_clean: bool | None = None
    is_kraft: bool | None = None
    recovery_point: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    is_cleaned: bool | None = None
    is_start_known: bool = False
    release: Release | None = None


Key = tuple[str, int]
"""Topic and partition."""

OFFSET_KINDS: Final = (
    FileKind.RECOVERY_POINT,
    FileKind.HIGH_WATERMARK,
    FileKind.LOG_START_OFFSET,
    FileKind.CLEANER_OFFSET,
)
_KRAFT_VERSION: Final = "1"
_UNREAD: Final = PropertyFile()


class BrokerDir(Struct, frozen=True, kw_only=True):
    """A log directory and its own files. `findings` are those about these files.

    `unread` are checkpoints that this user may not read, or that the disk refuses: their entries are unknown.
    `served` are the directories whose offsets the checkpoints hold. `meta` is None where there is no meta.properties,
    its values are None where a broker refuses it. `is_kraft`: whether a KRaft broker has formatted the directory or
    keeps its metadata log in it.
    """

    log_dir: LogDir
    offsets: dict[FileKind, OffsetText]
    meta: PropertyText | None
    served: Mapping[Key, PartitionPath]
    findings: tuple[Finding, ...]
    is_kraft: bool
    unread: frozenset[FileKind] = frozenset()

    @property
    def path(self) -> str:
        """Path of the log directory."""
        return self.log_dir.path

    @property
    def cluster_id(self) -> str | None:
        """The cluster.id of meta.properties."""
        return self._meta_value("cluster.id")

    @property
    def node_id(self) -> str | None:
        """The node.id, or broker.id with ZooKeeper, of meta.properties."""
        return self._meta_value("node.id") or self._meta_value("broker.id")

    @property
    def directory_id(self) -> str | None:
        """The directory.id of meta.properties."""
        return self._meta_value("directory.id")

    @property
    def meta_path(self) -> str:
        """The path where meta.properties is, or should be."""
        return f"{self.path}/{fixed_file_name(FileKind.META_PROPERTIES)}"

    def offset(self, kind: FileKind, name: DirectoryName) -> int | None:
        """Return the offset that a broker reads for a partition; None: there is none, or it refuses the file."""
        text = self.offsets.get(kind)
        return None if text is None or text.is_refused else text.file.offset(name.topic, name.partition)

    @property
    def knows_cleaner(self) -> bool:
        """Whether the cleaner's checkpoint can be read: a partition without an entry was never cleaned."""
        cleaner = self.offsets.get(FileKind.CLEANER_OFFSET)
        return cleaner is not None and not cleaner.is_refused

    def is_served(self, name: DirectoryName) -> bool:
        """Return whether the offsets in the checkpoints are those of this directory of its partition."""
        if name.topic is None or name.partition is None:
            return False
        place = self.served.get((name.topic, name.partition))
        return place is not None and place.name.raw == name.raw

    def only(self, name: DirectoryName) -> BrokerDir:
        """Return the same without other partitions, for another process; for no partition, all of it."""
        if name.topic is None or name.partition is None:
            return self
        key = name.topic, name.partition
        offsets = {}
        for kind, text in self.offsets.items():
            entries = {key: text.file.entries[key]} if key in text.file.entries else {}
            offsets[kind] = replace(text, file=replace(text.file, entries=entries, malformed=()))
        return replace(
            self,
            log_dir=replace(self.log_dir, partitions=(), files=(), remote_index_cache=(), findings=()),
            offsets=offsets,
            served={key: self.served[key]} if key in self.served else {},
            findings=(),
        )

    def context(self, name: DirectoryName, *, as_loaded: bool = False) -> PartitionContext:
        """Return what is known of a partition in this directory.

        Args:
            name: of the directory of the partition.
            as_loaded: with the offsets that a broker loads it with: every directory of a partition gets those that are
                checkpointed for it; else only the directory whose offsets these are has them.
        """
        is_broker_dir = self.log_dir.is_broker_dir
        # After a crash the recovery point decides what a start reads; where it is unknown, so is what a start does.
        is_recovery_known = is_broker_dir and (self.log_dir.is_clean or FileKind.RECOVERY_POINT not in self.unread)
        offsets: dict[FileKind, int | None] = dict.fromkeys(OFFSET_KINDS)
        if as_loaded or name.state is DirectoryState.CURRENT or self.is_served(name):
            offsets = {kind: self.offset(kind, name) for kind in OFFSET_KINDS}
        return PartitionContext(
            log_dir=self.path if is_broker_dir else None,
            is_clean=self.log_dir.is_clean if is_recovery_known else None,
            is_kraft=self.is_kraft if is_broker_dir else None,
            recovery_point=offsets[FileKind.RECOVERY_POINT],
            log_start_offset=offsets[FileKind.LOG_START_OFFSET],
            high_watermark=offsets[FileKind.HIGH_WATERMARK],
            is_cleaned=self._is_cleaned(name),
            is_start_known=is_broker_dir and self.log_dir.is_clean and self._is_read(FileKind.LOG_START_OFFSET),
        )

    def _is_read(self, kind: FileKind) -> bool:
        """Return whether a checkpoint exists and a broker accepts it."""
        text = self.offsets.get(kind)
        return text is not None and not text.is_refused

    def _is_cleaned(self, name: DirectoryName) -> bool | None:
        if FileKind.CLEANER_OFFSET in self.unread:
            return True  # it may name the partition, and then compaction explains what is missing of its log
        cleaner = self.offsets.get(FileKind.CLEANER_OFFSET)
        if cleaner is None or cleaner.is_refused or name.state is not DirectoryState.CURRENT:
            return None
        return cleaner.file.offset(name.topic, name.partition) is not None

    def _meta_value(self, key: str) -> str | None:
        return None if self.meta is None else self.meta.contents.get(key)


def served(places: Iterable[PartitionPath]) -> dict[Key, PartitionPath]:
    """Return the directories whose offsets the checkpoints hold: the one that is served, else the one to be filled."""
    found: dict[Key, PartitionPath] = {}
    for place in sorted(places, key=lambda place: place.name.state is not DirectoryState.CURRENT):
        name = place.name
        is_kept = name.state in {DirectoryState.CURRENT, DirectoryState.FUTURE} and name.topic != METADATA_TOPIC
        if is_kept and name.topic is not None and name.partition is not None:
            found.setdefault((name.topic, name.partition), place)
    return found


def read_broker_dir(log_dir: LogDir) -> BrokerDir:
    """Read the files of a log directory; what the system refuses to read is a finding."""
    findings: list[Finding] = []
    offsets: dict[FileKind, OffsetText] = {}
    unread: set[FileKind] = set()
    for kind in OFFSET_KINDS:
        path = f"{log_dir.path}/{fixed_file_name(kind)}"
        try:
            text = read_offsets(path, kind)
        except StorageError as error:
            if not is_directory(path):  # else the listing has said that the broker does not start on it
                findings.append(found(code_of_error(error), path, reason=error.message))
            unread.add(kind)
            continue
        if text is not None:
            offsets[kind] = text
            findings += text.findings
    meta = _read_properties(log_dir.path, FileKind.META_PROPERTIES, findings)
    if not is_directory(f"{log_dir.path}/{fixed_file_name(FileKind.CLEAN_SHUTDOWN)}"):
        _read_properties(log_dir.path, FileKind.CLEAN_SHUTDOWN, findings)
    return BrokerDir(
        log_dir=log_dir,
        offsets=offsets,
        meta=meta,
        served=served(log_dir.partitions),
        findings=tuple(findings),
        is_kraft=_is_kraft(log_dir, meta),
        unread=frozenset(unread),
    )


def _is_kraft(log_dir: LogDir, meta: PropertyText | None) -> bool:
    if meta is not None and not meta.is_refused:
        return (meta.contents.get("version") or "0") == _KRAFT_VERSION
    if any(place.name.topic == METADATA_TOPIC for place in log_dir.partitions):
        return True
    return any(
        file.name.kind is FileKind.KRAFT_SNAPSHOT and file.name.state is FileState.LIVE for file in log_dir.files
    )


def _read_properties(log_dir: str, kind: FileKind, findings: list[Finding]) -> PropertyText | None:
    place = EntryFile(path=f"{log_dir}/{fixed_file_name(kind)}", kind=kind)
    try:
        text = read_properties(place)
    except StorageError as error:
        finding = place.finding(code_of_error(error), reason=error.message)
        text = PropertyText(path=place.path, contents=_UNREAD, findings=(finding,), is_read=False)
    if text is not None:
        findings += text.findings
    return text
