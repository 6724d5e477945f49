"""A log directory: its partition directories by name, its own files, and findings about both.

Partitions are not read here: a log directory may hold a hundred thousand segments. `read_partition` reads one at a
time.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import NotFoundError, StorageError
from kafkalog_core.findings import Finding, found
from kafkalog_core.format.names import (
    CHECKPOINT_KINDS,
    LOG_KINDS,
    METADATA_TOPIC,
    DirectoryName,
    DirectoryState,
    FileKind,
    FileState,
    fixed_file_name,
    is_redpanda_directory_name,
    journal_run,
    parse_directory_name,
    parse_file_name,
    topic_name_problem,
)
from kafkalog_core.storage.access import code_of_dir_error
from kafkalog_core.storage.listing import DirectoryInfo, FileInfo, Listing, list_directory, names_in
from kafkalog_core.storage.paths import exists
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "BROKER_KINDS",
    "OWN_LOCK",
    "LogDir",
    "PartitionPath",
    "holds_segments",
    "is_broker_dir",
    "is_redpanda",
    "log_dir_of",
    "not_listed",
    "read_log_dir",
]

BROKER_KINDS: Final = CHECKPOINT_KINDS - {FileKind.LEADER_EPOCH, FileKind.OFFSET_CHECKPOINT} | {
    FileKind.META_PROPERTIES,
    FileKind.CLEAN_SHUTDOWN,
}
"""The kinds of files that only a broker's log directory has."""
_PARTITION_KINDS: Final = frozenset({FileKind.LEADER_EPOCH, FileKind.PARTITION_METADATA, FileKind.QUORUM_STATE})
_CODE_OF_STATE: Final = {
    DirectoryState.DELETE: "dir.delete",
    DirectoryState.FUTURE: "dir.future",
    DirectoryState.STRAY: "dir.stray",
}
_READ_FIRST: Final = {fixed_file_name(kind): kind for kind in (FileKind.CLEAN_SHUTDOWN, FileKind.META_PROPERTIES)}
"""What a broker looks for before it lists the partitions, be it a file or a directory (`LogManager.loadLogs`)."""
OWN_LOCK: Final = "kafkalog-lock"
"""The lock of kafkalog in a directory outside of log directories, where brokers have no `.lock`."""
_LOCKS: Final = frozenset({fixed_file_name(FileKind.LOCK), OWN_LOCK})
_STATE: Final = fixed_file_name(FileKind.QUORUM_STATE)
_VOTE: Final = f"{METADATA_TOPIC}-0/{_STATE}"
_NO_DIRECTORY: Final = frozenset({"file.broken-link", "file.not-regular"})
_SERVED: Final = frozenset({DirectoryState.CURRENT, DirectoryState.FUTURE})


class PartitionPath(Struct, frozen=True, kw_only=True):
    """The place of a partition; its directory is listed only when it is read.

    `is_named`: the user named the directory itself, and not only the log directory that it is in.
    """

    path: str
    name: DirectoryName
    device: int
    inode: int
    is_named: bool = False

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode, which are the same for two paths of one directory."""
        return self.device, self.inode

    @property
    def sort_key(self) -> tuple[str, int, str, str]:
        """The sort key: topics by name, partitions by number."""
        return self.name.topic or "", self.name.partition or 0, self.name.state, self.name.raw


class LogDir(Struct, frozen=True, kw_only=True):
    """One listing of a log directory.

    `is_broker_dir`: files at its top are a broker's; otherwise it may be a collection of copied partitions.
    """

    path: str
    is_broker_dir: bool
    is_clean: bool
    partitions: tuple[PartitionPath, ...]
    files: tuple[FileInfo, ...]
    remote_index_cache: tuple[FileInfo, ...]
    findings: tuple[Finding, ...]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it but locks, as on a new disk. Directories with other names have a finding."""
        has_files = any(file.name.raw not in _LOCKS for file in self.files)
        others = (finding for finding in self.findings if os.path.basename(finding.path) not in _LOCKS)
        return not (has_files or self.partitions or self.remote_index_cache or any(others))


def read_log_dir(path: str) -> LogDir:
    """Read a log directory. Raises NotFoundError or AccessError for the directory itself."""
    return log_dir_of(list_directory(path))


def log_dir_of(listing: Listing) -> LogDir:
    """Return the log directory in a listed directory."""
    named = [(directory, parse_directory_name(directory.raw_name)) for directory in listing.directories]
    partitions = sorted(
        (
            PartitionPath(path=directory.path, name=name, device=directory.device, inode=directory.inode)
            for directory, name in named
            if name.is_partition
        ),
        key=lambda partition: partition.sort_key,
    )
    live_kinds = {file.name.kind for file in listing.files if file.name.state is FileState.LIVE}
    live_kinds |= {_READ_FIRST[each.raw_name] for each in listing.directories if each.raw_name in _READ_FIRST}
    # A checkpoint, meta.properties or the clean shutdown file: only a broker writes these. A controller writes none of
    # them but meta.properties, which may be lost.
    is_broker_dir = not live_kinds.isdisjoint(BROKER_KINDS) or _votes(partitions)
    findings = [(is_broker_dir and _no_directory(finding)) or finding for finding in listing.findings]
    remote_files: tuple[FileInfo, ...] = ()
    for directory, name in named:
        if directory.raw_name in _READ_FIRST:
            findings += _mark_findings(directory)
        elif name.problem is not None:
            code = "dir.not-a-partition" if is_broker_dir else "dir.not-a-partition-here"
            findings.append(found(code, directory.path, problem=name.problem))
        elif name.state is DirectoryState.REMOTE_INDEX_CACHE:
            remote_files, problems = _list_remote_index_cache(directory)
            findings += problems
    others = []
    for file in listing.files:
        name = parse_directory_name(file.name.raw)
        if is_broker_dir and name.is_partition and journal_run(file.name.raw) is None:
            place = {"topic": name.topic, "partition": name.partition, "name": file.name.raw}
            findings.append(found("dir.is-a-file", file.path, **place))  # type: ignore[arg-type]
        else:
            others.append(file)
    findings += _file_findings(others)
    findings += _name_findings(partitions)
    findings += _duplicate_findings(partitions)
    if is_broker_dir:
        findings += _broker_file_findings(listing, live_kinds, partitions)
    return LogDir(
        path=listing.path,
        is_broker_dir=is_broker_dir,
        # LogManager.loadLogs deletes the file before it loads: what exists now was left by the last shutdown.
        is_clean=FileKind.CLEAN_SHUTDOWN in live_kinds,
        partitions=tuple(partitions),
        files=listing.files,
        remote_index_cache=remote_files,
        findings=tuple(sorted(findings, key=lambda finding: (finding.path, finding.code))),
    )


def not_listed(place: PartitionPath, error: StorageError) -> Finding:
    """Return the finding about a partition whose directory cannot be listed, or is gone: a broker has deleted it."""
    name = place.name
    code = "file.vanished" if isinstance(error, NotFoundError) else code_of_dir_error(error)
    return found(code, place.path, topic=name.topic, partition=name.partition, reason=error.message)


def is_broker_dir(path: str) -> bool:
    """Return whether a directory has a file that only a broker's log directory has; a few stats suffice."""
    return any(exists(f"{path}/{fixed_file_name(kind)}") for kind in BROKER_KINDS) or exists(f"{path}/{_VOTE}")


def _votes(partitions: Iterable[PartitionPath]) -> bool:
    """Return whether the metadata log of a node is there: `FileQuorumStateStore` keeps its vote next to the log."""
    return any(place.name.topic == METADATA_TOPIC and exists(f"{place.path}/{_STATE}") for place in partitions)


def holds_segments(path: str) -> bool:
    """Return whether a directory has a log file with a canonical name; false if it cannot be listed."""
    try:
        # 0.7 and later: the name is the base offset in 20 digits.
        names = map(parse_file_name, names_in(path))
        return any(name.kind in LOG_KINDS and name.canonical for name in names)
    except StorageError:
        return False


def is_redpanda(listing: Listing) -> bool:
    """Return whether a directory is Redpanda's: its data directory, a namespace, a topic or a partition."""
    names = {directory.raw_name for directory in listing.directories}
    if names >= {"redpanda", "kafka"} or any(file.name.kind is FileKind.REDPANDA for file in listing.files):
        return True
    return bool(names) and not listing.files and any(_holds_redpanda(directory) for directory in listing.directories)


def _holds_redpanda(directory: DirectoryInfo) -> bool:
    """Return whether a directory is a partition of Redpanda, `<partition>_<revision>`, or has one in it."""
    if is_redpanda_directory_name(directory.raw_name):
        return True
    try:
        return any(map(is_redpanda_directory_name, names_in(directory.path, directories=True)))
    except StorageError:
        return False


def _no_directory(finding: Finding) -> Finding | None:
    """Return the finding about a file with the name of a partition; `None` for any other finding."""
    name = parse_directory_name(os.path.basename(finding.path))
    if not name.is_partition or finding.code not in _NO_DIRECTORY:
        return None
    problem = finding.message[:1].lower() + finding.message[1:].removesuffix(".")
    return found("dir.no-directory", finding.path, topic=name.topic, partition=name.partition, problem=problem)


def _mark_findings(directory: DirectoryInfo) -> Iterator[Finding]:
    """Yield what is wrong with a clean shutdown file that is a directory: a broker deletes only an empty one."""
    if _READ_FIRST[directory.raw_name] is not FileKind.CLEAN_SHUTDOWN:
        return
    try:
        is_empty = not any(True for _ in names_in(directory.path))
    except StorageError:
        is_empty = False
    yield found("clean-shutdown.directory" if is_empty else "clean-shutdown.not-empty", directory.path)


def _list_remote_index_cache(directory: DirectoryInfo) -> tuple[tuple[FileInfo, ...], tuple[Finding, ...]]:
    try:
        listing = list_directory(directory.path)
    except StorageError as error:
        return (), (found(code_of_dir_error(error), directory.path, reason=error.message),)
    return listing.files, listing.findings


def _file_findings(files: Iterable[FileInfo]) -> Iterator[Finding]:
    for file in files:
        kind = file.name.kind
        if file.name.state in {FileState.TEMPORARY, FileState.PARTIAL}:
            yield found("file.leftover", file.path)
        elif kind in BROKER_KINDS or kind is FileKind.LOCK or file.name.raw == "bootstrap.checkpoint":
            continue
        elif file.name.base_offset is not None or kind in _PARTITION_KINDS:
            yield found("file.misplaced", file.path)
        else:
            code = "file.unknown" if journal_run(file.name.raw) is None else "file.journal"
            yield found(code, file.path)


def _name_findings(partitions: Iterable[PartitionPath]) -> Iterator[Finding]:
    for place in partitions:
        name = place.name
        code = _CODE_OF_STATE.get(name.state)
        if code is not None:
            yield found(code, place.path, topic=name.topic, partition=name.partition)
        if not name.canonical:
            yield found("dir.odd-name", place.path, topic=name.topic, partition=name.partition)
        problem = topic_name_problem(name.topic or "")
        if problem is not None:
            yield found("dir.illegal-topic", place.path, topic=name.topic, partition=name.partition, problem=problem)


def _duplicate_findings(partitions: Iterable[PartitionPath]) -> Iterator[Finding]:
    """Yield findings: there may be one current and one future directory of a partition, any number of others."""
    first: dict[tuple[str | None, int | None, DirectoryState], PartitionPath] = {}
    for place in partitions:  # sorted: the current one comes before the future one
        name = place.name
        known = first.setdefault((name.topic, name.partition, name.state), place)
        if name.state not in _SERVED:
            continue
        code = "dir.duplicate-partition"
        # A `-future` next to its current directory is a replica that moves between log directories (KIP-113).
        if known is place and name.state is DirectoryState.FUTURE:
            code = "dir.future-beside-current"
            known = first.get((name.topic, name.partition, DirectoryState.CURRENT), place)
        if known is not place:
            other = repr(known.name.raw)
            yield found(code, place.path, topic=name.topic, partition=name.partition, other=other)


def _broker_file_findings(
    listing: Listing, live_kinds: set[FileKind], partitions: Iterable[PartitionPath]
) -> Iterator[Finding]:
    """Yield what a broker's directory should have by the other files of its release (0.8 has no meta.properties)."""
    if FileKind.CLEAN_SHUTDOWN not in live_kinds:
        yield found("dir.unclean", f"{listing.path}/{fixed_file_name(FileKind.CLEAN_SHUTDOWN)}")
    if FileKind.META_PROPERTIES in live_kinds:
        return
    has_metadata_log = any(place.name.topic == METADATA_TOPIC for place in partitions)
    path = f"{listing.path}/{fixed_file_name(FileKind.META_PROPERTIES)}"
    # KRaft refuses to start without meta.properties (MetaPropertiesEnsemble.verify).
    if has_metadata_log or FileKind.KRAFT_SNAPSHOT in live_kinds:
        yield found("meta.missing-kraft", path)
    elif FileKind.LOG_START_OFFSET in live_kinds:
        yield found("meta.missing", path)
