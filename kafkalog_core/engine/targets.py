"""The targets of a verb, from the paths and selections of a command line: files, partitions, log directories.

A path is recognized by its name first, by its content second. Nothing is guessed: a path that is neither a file of
Kafka, a partition nor a log directory is an error that describes what is there.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from glob import glob
from typing import TYPE_CHECKING, Final

from kafkalog_core.engine.named_dirs import NamedDirs
from kafkalog_core.engine.selection import Selection, describe_topics
from kafkalog_core.errors import (
    AccessError,
    KafkalogError,
    NotFoundError,
    SelectionError,
    StorageError,
    UnknownFileError,
    UnsupportedError,
)
from kafkalog_core.format.names import (
    LOG_KINDS,
    SEGMENT_KINDS,
    ZOOKEEPER_DIR,
    DirectoryName,
    FileKind,
    parse_directory_name,
    parse_file_name,
)
from kafkalog_core.format.sniff import SNIFF_BYTES, ContentKind, FileContent, sniff
from kafkalog_core.storage.listing import DirectoryInfo, FileInfo, Listing, list_directory, stat_path
from kafkalog_core.storage.logdir import (
    BROKER_KINDS,
    LogDir,
    PartitionPath,
    holds_segments,
    is_broker_dir,
    is_redpanda,
    log_dir_of,
)
from kafkalog_core.storage.object_paths import REACHING
from kafkalog_core.storage.partition import Partition, partition_name, read_partition
from kafkalog_core.storage.paths import absolute, exists, is_object, parent, real
from kafkalog_core.storage.source import Source, UnreadableError
from kafkalog_core.structs import Struct, field, replace
from kafkalog_core.text import names_near

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkalog_core.findings import Finding

__all__ = [
    "FileTarget",
    "LogDirTarget",
    "PartitionTarget",
    "Selection",
    "Target",
    "check_topics",
    "names_inside",
    "partition_names",
    "resolve",
    "same_partitions",
    "where_to_look",
]


class FileTarget(Struct, frozen=True, kw_only=True):
    """One file; topic and partition come from the name of its directory, None if it is not a partition's.

    `named_dirs` of every target: all named log directories, selected or not.
    """

    file: FileInfo
    kind: FileKind
    topic: str | None
    partition: int | None
    named_dirs: NamedDirs = field(default_factory=NamedDirs)

    @property
    def path(self) -> str:
        """Path of the file."""
        return self.file.path


class PartitionTarget(Struct, frozen=True, kw_only=True):
    """One partition directory; `log_dir` is the path of its broker's log directory, None: it is in none."""

    place: PartitionPath
    log_dir: str | None
    named_dirs: NamedDirs = field(default_factory=NamedDirs)

    @property
    def path(self) -> str:
        """Path of the directory."""
        return self.place.path

    def read(self) -> Partition:
        """List the directory. Raises NotFoundError or AccessError."""
        return read_partition(self.place.path)


class LogDirTarget(Struct, frozen=True, kw_only=True):
    """A log directory and its selected partitions; `is_whole`: nothing was selected, so all of them."""

    log_dir: LogDir
    partitions: tuple[PartitionPath, ...]
    is_whole: bool
    named_dirs: NamedDirs = field(default_factory=NamedDirs)

    @property
    def path(self) -> str:
        """Path of the log directory."""
        return self.log_dir.path

    @property
    def broker_path(self) -> str | None:
        """Path of the log directory if it is a broker's; None: it only holds partition directories."""
        return self.log_dir.path if self.log_dir.is_broker_dir else None


Target = FileTarget | PartitionTarget | LogDirTarget

_Identity = tuple[int, int]
_PARTITION_FILES: Final = SEGMENT_KINDS | {
    FileKind.KRAFT_SNAPSHOT,
    FileKind.LEADER_EPOCH,
    FileKind.PARTITION_METADATA,
    FileKind.QUORUM_STATE,
}
_REMOTE_KINDS: Final = frozenset({FileKind.REMOTE_OFFSET_INDEX, FileKind.REMOTE_TIME_INDEX, FileKind.REMOTE_TXN_INDEX})
_KIND_OF_CONTENT: Final = {
    ContentKind.LOG_V0: FileKind.LOG,
    ContentKind.LOG_V1: FileKind.LOG,
    ContentKind.LOG_V2: FileKind.LOG,
    ContentKind.LOG_V07: FileKind.LOG_V07,
    ContentKind.PRODUCER_SNAPSHOT: FileKind.SNAPSHOT,
    ContentKind.OFFSET_CHECKPOINT: FileKind.OFFSET_CHECKPOINT,
    ContentKind.EPOCH_CHECKPOINT: FileKind.LEADER_EPOCH,
}
_FOREIGN_CONTENT: Final = frozenset({ContentKind.TEXT, ContentKind.FOREIGN})
_OTHER_S3: Final = re.compile(r"s3[an]?:/+(?=[^/])", re.IGNORECASE)
"""How other programs write a path of S3."""
_GLOB_MAGIC: Final = re.compile(r"[*?[]")
_NAMES_SHOWN: Final = 5
_REDPANDA: Final = "Redpanda's, whose log is another format than Kafka's"


def resolve(
    paths: Sequence[str],
    selection: Selection | None = None,
    *,
    on_refusal: Callable[[KafkalogError], None] | None = None,
    empty_dirs: bool = False,
) -> list[Target]:
    """Return what the paths name, by topic, partition and file name; each file and directory once.

    A path that does not exist and has one of `*?[` in it is expanded as a glob.

    Args:
        paths: as the user gave them.
        selection: which partitions; None: all.
        on_refusal: receives the errors of paths that cannot be read, if other paths can; None: the first is raised.
        empty_dirs: whether an empty directory outside of log directories is a log directory: that of a new disk.

    Raises NotFoundError, AccessError, UnknownFileError (neither file of Kafka, partition nor log directory),
    UnsupportedError (Redpanda) and SelectionError.
    """
    wanted = selection or Selection()
    # Listings of an object store are of one run; another run must see new objects.
    REACHING.is_used = False
    if any(map(is_object, paths)):
        from kafkalog_core.storage import objects  # noqa: PLC0415 -- for such a path alone

        objects.forget()
    found: list[Target] = []
    refusals: list[KafkalogError] = []
    for path in paths:
        _find(path, found, refusals, empty_dirs=empty_dirs)
        if refusals and on_refusal is None:
            raise refusals[0]
    if on_refusal is not None and refusals:
        # With nothing found, the last error ends the command, and the others are shown before.
        for error in refusals if found else refusals[:-1]:
            on_refusal(error)
        if not found:
            raise refusals[-1]
    unique = _without_repeats(found)
    selected = [chosen for target in unique if (chosen := _select(target, wanted)) is not None]
    # A selection that matches nothing is an error, not an empty result.
    if not selected and not wanted.is_everything:
        raise SelectionError(f"no partition matches {wanted}; {describe_topics(partition_names(unique))}")
    named_dirs = _log_dirs(unique)
    return [replace(target, named_dirs=named_dirs) for target in sorted(selected, key=_sort_key)]


def _log_dirs(targets: Iterable[Target]) -> NamedDirs:
    """Return the log directories that targets are, or are in."""
    paths = (
        target.path if isinstance(target, LogDirTarget) else target.log_dir
        for target in targets
        if not isinstance(target, FileTarget)
    )
    return NamedDirs(absolute(path) for path in paths if path is not None)


def _find(pattern: str, found: list[Target], refusals: list[KafkalogError], *, empty_dirs: bool) -> None:
    """Add the targets of a path to `found`, or its error to `refusals`."""
    try:
        paths = _matching(pattern)
    except StorageError as error:
        refusals.append(error)
        return
    if not paths:
        refusals.append(NotFoundError("no file or directory matches this pattern", path=pattern))
    for path in paths:
        try:
            found += _targets_of(path, empty_dirs=empty_dirs)
        except (StorageError, UnsupportedError) as error:
            refusals.append(error)


def _matching(pattern: str) -> list[str]:
    """Return the paths that a path means: itself, or all that match it. Raises StorageError of an object store."""
    other = None if is_object(pattern) else _OTHER_S3.match(pattern)
    if other is not None and not exists(pattern):
        raise NotFoundError(f"objects are read from s3:// paths; write s3://{pattern[other.end() :]}", path=pattern)
    # A name with `[` in it may exist; then it is a path.
    if _GLOB_MAGIC.search(pattern) is None or exists(pattern):
        return [pattern]
    if is_object(pattern):
        from kafkalog_core.storage import objects  # noqa: PLC0415 -- for such a path alone

        return objects.matching(pattern)
    return sorted(glob(pattern, recursive=True))


def _targets_of(path: str, *, empty_dirs: bool) -> list[Target]:
    if not path:
        raise NotFoundError("an empty path")
    if is_object(path):
        path = absolute(path)
    # Links are followed, as a broker follows them.
    status = stat_path(path)
    if stat.S_ISDIR(status.st_mode):
        listing, identity = list_directory(path), (status.st_dev, status.st_ino)
        return _directory_targets(listing, identity, empty_dirs=empty_dirs)
    if not stat.S_ISREG(status.st_mode):
        raise AccessError("neither a regular file nor a directory", path=path)
    return [_file_target(FileInfo.of(path, status))]


# --- files ------------------------------------------------------------------------------------------------------------
def _file_target(file: FileInfo) -> FileTarget:
    around = partition_name(parent(file.path))
    return FileTarget(file=file, kind=_kind_of(file), topic=around.topic, partition=around.partition)


def _kind_of(file: FileInfo) -> FileKind:
    """Return the kind by the file's name; by its content if the name shows none. Raises UnknownFileError."""
    kind = file.name.kind
    if kind is FileKind.REDPANDA:
        raise UnsupportedError(f"a file of {_REDPANDA}", path=file.path)
    if kind is FileKind.LOCK:
        raise UnknownFileError("a broker's lock file, which is always empty", path=file.path)
    if kind in LOG_KINDS:
        return _log_kind(file)
    if kind not in {FileKind.UNKNOWN, FileKind.TEMPORARY}:
        return kind
    content = _content_of(file)
    if content.kind not in _KIND_OF_CONTENT:
        raise UnknownFileError(f"{content.what}, and its name is not of a file that Kafka writes", path=file.path)
    return _KIND_OF_CONTENT[content.kind]


def _log_kind(file: FileInfo) -> FileKind:
    """Return the kind of a log file. Damage looks like anything, so content counts only if the name has no offset."""
    try:
        content = _content_of(file)
    # Only its first block: the rest may be readable
    except UnreadableError:
        return file.name.kind
    if content.kind in _FOREIGN_CONTENT and file.name.base_offset is None:
        raise UnknownFileError(f"{content.what}, not a log of Kafka", path=file.path)
    return file.name.kind


def _content_of(file: FileInfo) -> FileContent:
    with Source.open(file.path) as source:
        content = sniff(source.read(0, SNIFF_BYTES), source.size_bytes)
    if content.kind is ContentKind.REDPANDA_LOG:
        raise UnsupportedError(f"a file of {_REDPANDA}", path=file.path)
    return content


# --- directories ------------------------------------------------------------------------------------------------------
def _directory_targets(listing: Listing, identity: _Identity, *, empty_dirs: bool) -> list[Target]:
    """Return the targets of a directory. Its content decides before its name: `kafka-1` may be a log directory."""
    name = partition_name(listing.path)
    kinds = {file.name.kind for file in listing.files}
    has_log = any(file.name.kind in LOG_KINDS and file.name.canonical for file in listing.files)
    # Redpanda's log directory has the same look, and another format.
    if not has_log and is_redpanda(listing):
        raise UnsupportedError(f"a directory of {_REDPANDA}", path=listing.path)
    log_dir = log_dir_of(listing)
    is_partition = has_log and name.is_partition and not log_dir.is_broker_dir
    if not is_partition and _is_log_dir(log_dir, has_log=has_log):
        return [LogDirTarget(log_dir=log_dir, partitions=log_dir.partitions, is_whole=True)]
    if has_log or (name.is_partition and not kinds.isdisjoint(_PARTITION_FILES)):
        return [_partition_target(listing.path, name, identity)]
    if not kinds.isdisjoint(_REMOTE_KINDS):
        return [_file_target(file) for file in listing.files if file.name.kind in _REMOTE_KINDS]
    # An empty partition directory in a broker's log directory is a partition; elsewhere it is nothing.
    if not (listing.files or listing.directories):
        target = _partition_target(listing.path, name, identity)
        if target.log_dir is not None:
            return [target]
    if empty_dirs and log_dir.is_empty:
        return [LogDirTarget(log_dir=log_dir, partitions=(), is_whole=True)]
    raise _unknown(listing)


def _is_log_dir(log_dir: LogDir, *, has_log: bool) -> bool:
    if log_dir.is_broker_dir and not has_log:
        return True
    return any(holds_segments(place.path) for place in log_dir.partitions)


def _partition_target(path: str, name: DirectoryName, identity: _Identity) -> PartitionTarget:
    place = PartitionPath(path=path, name=name, device=identity[0], inode=identity[1], is_named=True)
    # A partition that is a link belongs to two log directories: where the link is, and where its target is.
    around = dict.fromkeys((parent(path), parent(real(path))))
    log_dirs = [parent for parent in around if name.is_partition and is_broker_dir(parent)]
    return PartitionTarget(place=place, log_dir=log_dirs[0] if log_dirs else None)


def where_to_look(path: str) -> str:
    """Return the sentence with the command to run next if a directory holds no partition.

    That is cluster for a dataDir of ZooKeeper, verify of its parent if that is a log directory, else a search for log
    directories: brokers since 0.8.1 write recovery-point-offset-checkpoint into each
    (`LogManager.RecoveryPointCheckpointFile`).
    """
    above = parent(path)
    if is_broker_dir(above):
        return f"it is in a log directory: kafkalog verify {shlex.quote(above)}"
    if is_object(path):
        return f"list what is there: aws s3 ls {shlex.quote(absolute(path))}/"
    if exists(f"{path}/{ZOOKEEPER_DIR}"):
        return f"it is a data directory of ZooKeeper: kafkalog cluster {shlex.quote(path)}"
    find = f"find {shlex.quote(above)} -name recovery-point-offset-checkpoint"
    return f"log.dirs in server.properties lists the log directories of a broker; this command finds them too: {find}"


def _unknown(listing: Listing) -> UnknownFileError:
    if not listing.files and not listing.directories:
        what = "an empty directory; a partition directory, a log directory or a file of one was expected"
        return UnknownFileError(f"{what}; {where_to_look(listing.path)}", path=listing.path)
    inside = list(names_inside(listing))
    what = "no partition directories and no segment files in it"
    if not inside:
        return UnknownFileError(f"{what}; {where_to_look(listing.path)}", path=listing.path)
    shown = ", ".join(repr(name) for name in inside[:_NAMES_SHOWN])
    more = f" and {len(inside) - _NAMES_SHOWN} more" if len(inside) > _NAMES_SHOWN else ""
    paths = tuple(os.path.join(listing.path, name) for name in inside)
    return UnknownFileError(f"{what}, but in {shown}{more}", path=listing.path, inside=paths)


def names_inside(listing: Listing) -> Iterator[str]:
    """Yield the directories that an error can name: partitions and log directories, and log directories in others."""
    for place in listing.directories:
        try:
            directories: Sequence[DirectoryInfo] = list_directory(place.path).directories
        except StorageError:
            directories = ()
        if holds_segments(place.path) or is_broker_dir(place.path) or any(map(_is_partition, directories)):
            yield place.raw_name
        else:
            yield from (f"{place.raw_name}/{each.raw_name}" for each in directories if is_broker_dir(each.path))


def _is_partition(place: DirectoryInfo) -> bool:
    return parse_directory_name(place.raw_name).is_partition and holds_segments(place.path)


# --- selection and order ----------------------------------------------------------------------------------------------
def _identities(target: Target) -> list[_Identity]:
    if isinstance(target, FileTarget):
        return [(target.file.device, target.file.inode)]
    if isinstance(target, PartitionTarget):
        return [target.place.identity]
    return [place.identity for place in target.partitions]


def _without_repeats(targets: Iterable[Target]) -> list[Target]:
    """Return each partition and file once, however many paths lead to it, without log files of chosen partitions."""
    seen: set[_Identity] = set()
    result: list[Target] = []
    # Broader targets first: a partition that is part of a log directory is read with it.
    ranked = sorted(targets, key=_breadth)
    named = {target.place.identity for target in ranked if isinstance(target, PartitionTarget)}
    for target in ranked:
        if isinstance(target, LogDirTarget):
            fresh = tuple(
                replace(place, is_named=place.identity in named)
                for place in target.partitions
                if place.identity not in seen
            )
            if fresh or not target.partitions:
                result.append(replace(target, partitions=fresh))
        elif _identities(target)[0] not in seen and not _is_in_chosen_partition(target, seen):
            result.append(target)
        seen.update(_identities(target))
    return result


def _breadth(target: Target) -> int:
    return 0 if isinstance(target, LogDirTarget) else 1 if isinstance(target, PartitionTarget) else 2


def _is_in_chosen_partition(target: Target, seen: set[_Identity]) -> bool:
    if not isinstance(target, FileTarget) or target.kind not in LOG_KINDS:
        return False
    # A log file that is named next to its own partition would be read twice.
    status = stat_path(parent(target.path))
    return (status.st_dev, status.st_ino) in seen


def _select(target: Target, selection: Selection) -> Target | None:
    if selection.is_everything:
        return target
    if isinstance(target, LogDirTarget):
        chosen = tuple(place for place in target.partitions if selection.takes(place.name.topic, place.name.partition))
        kept = tuple(finding for finding in target.log_dir.findings if _concerns(finding, selection))
        log_dir = replace(target.log_dir, findings=kept)
        # Files of the broker concern every partition.
        is_there = chosen or any(finding.topic is not None for finding in kept)
        return replace(target, log_dir=log_dir, partitions=chosen, is_whole=False) if is_there else None
    name = target if isinstance(target, FileTarget) else target.place.name
    return target if selection.takes(name.topic, name.partition) else None


def _concerns(finding: Finding, selection: Selection) -> bool:
    """Return whether a finding about a log directory matters for the selected partitions.

    It does if it names one of them, or is about a file of the broker, which applies to all of them.
    """
    if finding.topic is not None:
        return selection.takes(finding.topic, finding.partition)
    return parse_file_name(os.path.basename(finding.path)).kind in BROKER_KINDS


def _sort_key(target: Target) -> tuple[str, int, str, int, int, str]:
    path = absolute(target.path)
    if isinstance(target, LogDirTarget):
        return path, 0, "", 0, 0, ""
    if isinstance(target, PartitionTarget):
        name = target.place.name
        return os.path.dirname(path), 1, name.topic or "", name.partition or 0, 0, path
    base_offset = target.file.name.base_offset or 0
    around = parent(parent(path))
    return around, 2, target.topic or "", target.partition or 0, base_offset, path


def partition_names(targets: Iterable[Target]) -> Iterator[tuple[str | None, int | None]]:
    """Yield topic and number of each partition of the targets."""
    for target in targets:
        if isinstance(target, LogDirTarget):
            yield from ((place.name.topic, place.name.partition) for place in target.partitions)
        else:
            name = target if isinstance(target, FileTarget) else target.place.name
            yield name.topic, name.partition


def check_topics(topics: Iterable[str], targets: Iterable[Target]) -> None:
    """Raise SelectionError for a topic that was given settings, but has no partition among the targets."""
    wanted = tuple(topics)
    if not wanted:
        return
    names = list(partition_names(targets))
    known = {topic for topic, _ in names if topic is not None}
    for topic in wanted:
        if topic not in known:
            near = names_near(topic, sorted(known), least=0.5)
            hint = f"is {' or '.join(near)} meant?" if near else describe_topics(names)
            raise SelectionError(f"--topic-config {topic}: no partition of this topic is among the targets; {hint}")


def same_partitions(targets: Iterable[Target]) -> list[str]:
    """Return partitions with more than one directory: `orders-0`; rows of them differ only in the path."""
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
            places.setdefault(key, set()).add(parent(target.path))
    return sorted(_label(key) for key, paths in places.items() if len(paths) > 1)


def _label(key: tuple[object, ...]) -> str:
    return "-".join(str(part) for part in key if part is not None) or "no name"
