"""The grammar of file and directory names in a log directory: names to values and back.

Parsing never raises: an unknown name is a value too (`FileKind.UNKNOWN`, `DirectoryName.problem`). The rules are those
of `LogFileUtils`, `LocalLog.parseTopicPartitionName`, `Snapshots` and `RemoteIndexCache` (Kafka 4.3.1) and of
the `Log` of Kafka 0.7.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final

from kafkalog_core.format.layout import MAX_INT32, MAX_INT64
from kafkalog_core.structs import Struct

__all__ = [
    "CHECKPOINT_KINDS",
    "INDEX_KINDS",
    "JOURNAL_PREFIX",
    "LOG_KINDS",
    "METADATA_TOPIC",
    "REMOTE_INDEX_CACHE_NAME",
    "SEGMENT_KINDS",
    "ZOOKEEPER_DIR",
    "DirectoryName",
    "DirectoryState",
    "FileKind",
    "FileName",
    "FileState",
    "TopicPartition",
    "collision_key",
    "directory_name",
    "fixed_file_name",
    "is_redpanda_directory_name",
    "journal_run",
    "kraft_snapshot_file_name",
    "parse_directory_name",
    "parse_file_name",
    "reserved_name_problem",
    "segment_file_name",
    "topic_name_problem",
]

TopicPartition = tuple[str, int]
"""A topic and a partition number."""


class FileKind(StrEnum):
    """The kind of a file, by its name; the value is that of the `kind` column of its rows."""

    LOG = "log"
    LOG_V07 = "log_v07"
    OFFSET_INDEX = "offset"
    TIME_INDEX = "time"
    TXN_INDEX = "txn"
    SNAPSHOT = "producer_snapshot"
    KRAFT_SNAPSHOT = "kraft_snapshot"
    RECOVERY_POINT = "recovery_point"
    HIGH_WATERMARK = "high_watermark"
    LOG_START_OFFSET = "log_start_offset"
    CLEANER_OFFSET = "cleaner_offset"
    OFFSET_CHECKPOINT = "offset_checkpoint"
    """One of the four above by its content; the name does not show which."""
    LEADER_EPOCH = "leader_epoch"
    PARTITION_METADATA = "partition_metadata"
    META_PROPERTIES = "meta"
    CLEAN_SHUTDOWN = "clean_shutdown"
    QUORUM_STATE = "quorum_state"
    LOCK = "lock"
    REMOTE_OFFSET_INDEX = "remote_offset"
    REMOTE_TIME_INDEX = "remote_time"
    REMOTE_TXN_INDEX = "remote_txn"
    REDPANDA = "redpanda"
    TEMPORARY = "temporary"
    UNKNOWN = "unknown"


class FileState(StrEnum):
    """The stage of life of a file; all but `LIVE` are a suffix after the whole name."""

    LIVE = "live"
    DELETED = "deleted"
    SWAP = "swap"
    CLEANED = "cleaned"
    TEMPORARY = "temporary"
    PARTIAL = "partial"


class DirectoryState(StrEnum):
    """The state of a partition's directory, by the suffix of its name."""

    CURRENT = "current"
    DELETE = "delete"
    FUTURE = "future"
    STRAY = "stray"
    REMOTE_INDEX_CACHE = "remote_index_cache"


METADATA_TOPIC: Final = "__cluster_metadata"
ZOOKEEPER_DIR: Final = "version-2"
"""The directory below dataDir and dataLogDir with the files (FileTxnSnapLog.version)."""
JOURNAL_PREFIX: Final = "kafkalog-undo-"
"""The start of the names of the files and directories that undo a change of this project."""
REMOTE_INDEX_CACHE_NAME: Final = "remote-log-index-cache"

LOG_KINDS: Final = frozenset({FileKind.LOG, FileKind.LOG_V07})
INDEX_KINDS: Final = frozenset({FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX})
SEGMENT_KINDS: Final = LOG_KINDS | INDEX_KINDS | {FileKind.SNAPSHOT}
CHECKPOINT_KINDS: Final = frozenset(
    {
        FileKind.RECOVERY_POINT,
        FileKind.HIGH_WATERMARK,
        FileKind.LOG_START_OFFSET,
        FileKind.CLEANER_OFFSET,
        FileKind.OFFSET_CHECKPOINT,
        FileKind.LEADER_EPOCH,
    }
)

_FIXED_NAMES: Final = {
    "recovery-point-offset-checkpoint": FileKind.RECOVERY_POINT,
    "replication-offset-checkpoint": FileKind.HIGH_WATERMARK,
    "log-start-offset-checkpoint": FileKind.LOG_START_OFFSET,
    "cleaner-offset-checkpoint": FileKind.CLEANER_OFFSET,
    "leader-epoch-checkpoint": FileKind.LEADER_EPOCH,
    "partition.metadata": FileKind.PARTITION_METADATA,
    "meta.properties": FileKind.META_PROPERTIES,
    ".kafka_cleanshutdown": FileKind.CLEAN_SHUTDOWN,
    "quorum-state": FileKind.QUORUM_STATE,
    ".lock": FileKind.LOCK,
    "bootstrap.checkpoint": FileKind.KRAFT_SNAPSHOT,
}
_NAME_OF_KIND: Final[dict[FileKind, str]] = {
    kind: name for name, kind in _FIXED_NAMES.items() if kind is not FileKind.KRAFT_SNAPSHOT
}
_SUFFIX_OF_KIND: Final = {
    FileKind.LOG: ".log",
    FileKind.LOG_V07: ".kafka",
    FileKind.OFFSET_INDEX: ".index",
    FileKind.TIME_INDEX: ".timeindex",
    FileKind.TXN_INDEX: ".txnindex",
    FileKind.SNAPSHOT: ".snapshot",
}
_KIND_OF_SUFFIX: Final = {suffix: kind for kind, suffix in _SUFFIX_OF_KIND.items()}
_SUFFIX_OF_STATE: Final = {
    FileState.LIVE: "",
    FileState.DELETED: ".deleted",
    FileState.SWAP: ".swap",
    FileState.CLEANED: ".cleaned",
    FileState.TEMPORARY: ".tmp",
    FileState.PARTIAL: ".part",
}
_REMOTE_KINDS: Final = {
    "index": FileKind.REMOTE_OFFSET_INDEX,
    "timeindex": FileKind.REMOTE_TIME_INDEX,
    "txnindex": FileKind.REMOTE_TXN_INDEX,
}
_KRAFT_SUFFIX: Final = ".checkpoint"
_KRAFT_OFFSET: Final = slice(0, 20)  # Snapshots.parse reads fixed columns
_KRAFT_EPOCH: Final = slice(21, 31)
_KRAFT_CANONICAL: Final = re.compile(r"[0-9]{20}-[0-9]{10}(-[0-9]+\.checkpoint\.part|\.checkpoint(\.deleted)?)")
_REMOTE_NAME: Final = re.compile(r"([0-9]+)_[A-Za-z0-9_-]{22}\.(index|timeindex|txnindex)")
_REDPANDA_FILE: Final = re.compile(r"([0-9]+)-([0-9]+)-v[0-9]+\.(log|base_index|compaction_index)(\..*)?")
_REDPANDA_DIRECTORY: Final = re.compile(r"[0-9]+_[0-9]+")
_JAVA_INTEGER: Final = re.compile(r"[+-]?\d+")  # \d as in Java's Character.digit: any decimal digit of Unicode
_LEGAL_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]+")
_JOURNAL: Final = re.compile(rf"{JOURNAL_PREFIX}\d{{8}}T\d{{6}}Z-\d+")
_OFFSET_DIGITS: Final = 20
_MAX_NAME_LENGTH: Final = 255
_MAX_TOPIC_LENGTH: Final = 249
_NAMES_KEPT: Final = 1024  # ten thousand partitions have files of the same names


class FileName(Struct, frozen=True, kw_only=True):
    """A parsed file name.

    `base_offset`: the number that a broker reads from the name (the text before the first dot; the end offset of a
    KRaft snapshot), or `None`. `epoch`: of a KRaft snapshot. `canonical`: whether a broker writes the name like this;
    it reads `5.log` as base offset 5 and then opens another file.
    """

    raw: str
    kind: FileKind
    state: FileState = FileState.LIVE
    base_offset: int | None = None
    epoch: int | None = None
    canonical: bool = False


class DirectoryName(Struct, frozen=True, kw_only=True):
    """A parsed directory name; `problem`: why a broker with this name in its log directory does not start."""

    raw: str
    topic: str | None = None
    partition: int | None = None
    state: DirectoryState = DirectoryState.CURRENT
    uuid: str | None = None
    problem: str | None = None

    @property
    def is_partition(self) -> bool:
        """Whether the name is a topic and a partition number."""
        return self.partition is not None

    @property
    def canonical(self) -> bool:
        """Whether a broker writes the name like this: it reads `t-00` and `t-+0` as partition 0 too."""
        if self.topic is None or self.partition is None:
            return self.state is DirectoryState.REMOTE_INDEX_CACHE
        return self.raw == directory_name(self.topic, self.partition, self.state, self.uuid)


@lru_cache(_NAMES_KEPT)
def parse_file_name(name: str) -> FileName:
    """Return kind, state and numbers of a file name; `FileKind.UNKNOWN` for an unknown name."""
    usual = _KIND_OF_SUFFIX.get(name[_OFFSET_DIGITS:])
    if usual is not None and name[:_OFFSET_DIGITS].isdecimal() and name.isascii():  # most names; 10 times as fast
        base_offset = int(name[:_OFFSET_DIGITS])
        if base_offset <= MAX_INT64:
            return FileName(raw=name, kind=usual, state=FileState.LIVE, base_offset=base_offset, canonical=True)
    special = _parse_special(name)
    if special is not None:
        return special
    stem, state = _split_state(name)
    fixed = _FIXED_NAMES.get(stem)
    if fixed is not None:
        return FileName(raw=name, kind=fixed, state=state, canonical=state in {FileState.LIVE, FileState.TEMPORARY})
    number = _java_integer(name.partition(".")[0], MAX_INT64)
    for kind, suffix in _SUFFIX_OF_KIND.items():
        if stem.endswith(suffix):
            canonical = number is not None and number >= 0 and name == segment_file_name(number, kind, state)
            return FileName(raw=name, kind=kind, state=state, base_offset=number, canonical=canonical)
    if state in {FileState.TEMPORARY, FileState.PARTIAL}:
        return FileName(raw=name, kind=FileKind.TEMPORARY, state=state)
    return FileName(
        raw=name, kind=FileKind.UNKNOWN, state=state, base_offset=None if state is FileState.LIVE else number
    )


def parse_directory_name(name: str) -> DirectoryName:
    """Return topic, partition and state of a directory name, as a broker parses it."""
    if name == REMOTE_INDEX_CACHE_NAME:
        return DirectoryName(raw=name, state=DirectoryState.REMOTE_INDEX_CACHE)
    if "-" not in name:
        return DirectoryName(raw=name, problem="no '-' between a topic and a partition number")
    stem, state, uuid = name, DirectoryState.CURRENT, None
    for suffixed in (DirectoryState.DELETE, DirectoryState.FUTURE, DirectoryState.STRAY):
        suffix = f"-{suffixed}"
        if name.endswith(suffix):
            if re.fullmatch(rf"(\S+)-(\S+)\.(\S+){suffix}", name, re.ASCII) is None:
                return DirectoryName(raw=name, state=suffixed, problem=f"not <topic>-<partition>.<uuid>{suffix}")
            stem, _, uuid = name.removesuffix(suffix).rpartition(".")
            state = suffixed
    topic, _, number = stem.rpartition("-")
    partition = _java_integer(number, MAX_INT32)
    if not topic or partition is None:
        problem = "no topic before the last '-'" if not topic else f"{number!r} is not a partition number"
        return DirectoryName(raw=name, state=state, uuid=uuid, problem=problem)
    return DirectoryName(raw=name, topic=topic, partition=partition, state=state, uuid=uuid)


def segment_file_name(base_offset: int, kind: FileKind, state: FileState = FileState.LIVE) -> str:
    """Return the name of a segment's file, e.g. `00000000000000000042.log.deleted`. `kind`: of `SEGMENT_KINDS`."""
    return f"{base_offset:0{_OFFSET_DIGITS}d}{_SUFFIX_OF_KIND[kind]}{_SUFFIX_OF_STATE[state]}"


def fixed_file_name(kind: FileKind) -> str:
    """Return the fixed name of a checkpoint, property or marker file, e.g. `meta.properties`."""
    return _NAME_OF_KIND[kind]


def kraft_snapshot_file_name(end_offset: int, epoch: int) -> str:
    """Return the name of a snapshot of the metadata log; `end_offset` is exclusive."""
    return f"{end_offset:0{_OFFSET_DIGITS}d}-{epoch:010d}{_KRAFT_SUFFIX}"


def directory_name(
    topic: str, partition: int, state: DirectoryState = DirectoryState.CURRENT, uuid: str | None = None
) -> str:
    """Return the name of a partition's directory; with `-delete` and `-stray` it is cut to 255 characters."""
    if state is DirectoryState.CURRENT:
        return f"{topic}-{partition}"
    tail = f"-{partition}.{uuid}-{state}"
    return topic + tail if state is DirectoryState.FUTURE else topic[: _MAX_NAME_LENGTH - len(tail)] + tail


def topic_name_problem(topic: str) -> str | None:
    """Return why a broker refuses to create a topic of this name, or `None` (Topic.validate)."""
    if topic in {".", ".."}:
        return "the name of a topic must not be '.' or '..'"
    if not _LEGAL_TOPIC.fullmatch(topic):
        return "the name of a topic must consist of ASCII letters, digits, '.', '_' and '-'"
    if len(topic) > _MAX_TOPIC_LENGTH:
        return f"the name of a topic must not exceed {_MAX_TOPIC_LENGTH} characters"
    return None


def collision_key(topic: str) -> str:
    """Return what two topics must not have in common (`Topic.unifyCollisionChars`): metrics of both have this name."""
    return topic.replace(".", "_")


def reserved_name_problem(topic: str) -> str | None:
    """Return why clients cannot create a topic of this name in any directory, or `None`."""
    if topic == METADATA_TOPIC:  # ControllerApis.createTopics
        return f"Creation of internal topic {METADATA_TOPIC} is prohibited."
    if journal_run(f"{topic}-0") is not None:
        return "kafkalog keeps undo journals in directories of this name"
    return None


def is_redpanda_directory_name(name: str) -> bool:
    """Return whether this is a partition directory of Redpanda, `<partition>_<revision>`."""
    return _REDPANDA_DIRECTORY.fullmatch(name) is not None


def journal_run(name: str) -> str | None:
    """Return the run of this project that a file or directory is of, e.g. `kafkalog-undo-20260102T030405Z-1`."""
    match = _JOURNAL.match(name)
    return None if match is None else match[0]


def _parse_special(name: str) -> FileName | None:
    redpanda = _REDPANDA_FILE.fullmatch(name)
    if redpanda is not None:
        base_offset = _java_integer(redpanda[1], MAX_INT64)
        return FileName(raw=name, kind=FileKind.REDPANDA, base_offset=base_offset)
    stem, state = _split_state(name)
    remote = _REMOTE_NAME.fullmatch(stem)
    if remote is not None:
        base_offset = _java_integer(remote[1], MAX_INT64)
        canonical = f"{base_offset}" == remote[1]
        kind = _REMOTE_KINDS[remote[2]]
        return FileName(raw=name, kind=kind, state=state, base_offset=base_offset, canonical=canonical)
    if stem.endswith(_KRAFT_SUFFIX) and stem not in _FIXED_NAMES:
        end_offset = _java_integer(name[_KRAFT_OFFSET], MAX_INT64)
        epoch = _java_integer(name[_KRAFT_EPOCH], MAX_INT32)
        return FileName(
            raw=name,
            kind=FileKind.KRAFT_SNAPSHOT,
            state=state,
            base_offset=end_offset if epoch is not None else None,
            epoch=epoch if end_offset is not None else None,
            canonical=_KRAFT_CANONICAL.fullmatch(name) is not None,
        )
    return None


def _split_state(name: str) -> tuple[str, FileState]:
    for state, suffix in _SUFFIX_OF_STATE.items():
        if suffix and name.endswith(suffix):
            return name.removesuffix(suffix), state
    return name, FileState.LIVE


def _java_integer(text: str, largest: int) -> int | None:
    """Parse as `Long.parseLong` and `Integer.parseInt` do: a sign and leading zeros are allowed, blanks are not."""
    if len(text) > _MAX_NAME_LENGTH or _JAVA_INTEGER.fullmatch(text) is None:
        return None
    value = int(text)
    return value if -largest - 1 <= value <= largest else None
