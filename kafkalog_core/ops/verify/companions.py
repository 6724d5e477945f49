"""The small files of partitions and log directories: missing, left over, unreadable to a broker, or malformed.

A listing judges by names alone. Here the content of the log is known and no broker is running, so that some of its
findings are worse than they look, and what is true of every segment of a bare copy is reported once.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import NotFoundError, StorageError
from kafkalog_core.findings import FINDING_TYPES, found
from kafkalog_core.format.names import (
    INDEX_KINDS,
    LOG_KINDS,
    METADATA_TOPIC,
    DirectoryState,
    FileKind,
    FileState,
    fixed_file_name,
    parse_file_name,
    segment_file_name,
)
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.cluster import metadata_file, topic_id_of
from kafkalog_core.kafka.sim.logdir.bounds import log_bounds
from kafkalog_core.kafka.sim.logdir.faults import EntryFile
from kafkalog_core.kafka.sim.logdir.text_files import read_epochs, read_properties
from kafkalog_core.ops.verify.verdict import PartitionMetadata
from kafkalog_core.storage.access import code_of_error
from kafkalog_core.storage.listing import SegmentState, stat_path
from kafkalog_core.storage.paths import is_object
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from kafkalog_core.findings import Finding, Severity
    from kafkalog_core.format.names import FileName
    from kafkalog_core.kafka.sim.logdir.bounds import LogBounds
    from kafkalog_core.kafka.sim.logdir.text_files import EpochText
    from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
    from kafkalog_core.ops.verify.verdict import SegmentVerdict
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.logdir import PartitionPath
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "OWNERSHIP_CODES",
    "Replacements",
    "broker_uid",
    "check_directories",
    "check_files",
    "is_read_only_mount",
    "lost_remote_epochs",
    "read_metadata",
    "refine",
]


_COMPANION_OF_CODE: Final = {
    "segment.index-missing": FileKind.OFFSET_INDEX,
    "segment.timeindex-missing": FileKind.TIME_INDEX,
}
_ALWAYS_WORSE: Final = frozenset({"segment.misnamed-empty"})
"""Findings about what no broker leaves, whatever happens to it."""


def refine(
    partition: Partition, context: PartitionContext, formats: Collection[str], epochs: EpochText | None = None
) -> Iterator[Finding]:
    """Yield all findings about the names, owners and text files of a partition, with those of its listing.

    Args:
        partition: its listing.
        context: what its log directory shows of it.
        formats: of the batches that were read, as in `SegmentVerdict.formats`.
        epochs: its leader-epoch-checkpoint; None: it was not read.
    """
    for finding in _all_findings(partition, context, formats, epochs):
        yield replace(finding, topic=partition.topic, partition=partition.partition)


def _all_findings(
    partition: Partition, context: PartitionContext, formats: Collection[str], epochs: EpochText | None
) -> Iterator[Finding]:
    bare = _bare_codes(partition)
    if "segment.index-missing" in bare:
        yield found("partition.no-companions", partition.path, count=len(partition.segments))
    for finding in partition.findings:
        if finding.code not in OWNERSHIP_CODES and finding.code not in bare:
            yield _refined(finding, partition)
    yield from check_files(partition.path, partition.files)
    if partition.format == "log":
        yield from _text_findings(partition, formats, epochs)
        remote = _remote_epochs(partition, context, epochs)
        yield from remote
        yield from _missing_texts(partition, context, formats, has_remote=bool(remote))


def _bare_codes(partition: Partition) -> set[str]:
    """Return codes that are true of each of several segments: they were copied without these files."""
    filled = [segment for segment in partition.segments if segment.size_bytes and partition.format == "log"]
    if len(filled) <= 1 or any(segment.index is not None for segment in filled):
        return set()
    return set(_COMPANION_OF_CODE)


def _refined(finding: Finding, partition: Partition) -> Finding:
    name = parse_file_name(os.path.basename(finding.path))
    # Its segments have other names and another format, so nothing here is true of them.
    if name.kind is FileKind.REDPANDA:
        return found("segment.redpanda", finding.path, severity=finding.severity)
    # The next start puts a `.swap` file in place (`LogLoader.completeSwapOperations`): a wrong one then takes effect.
    is_worse = (name.state is FileState.SWAP and _would_replace(partition, name)) or _is_worse(finding, partition)
    return replace(finding, severity="error") if is_worse else finding


def _is_worse(finding: Finding, partition: Partition) -> bool:
    """Return whether no broker leaves a file, although a listing cannot know that."""
    offset = finding.offset
    if finding.code in _ALWAYS_WORSE or offset is None:
        return finding.code in _ALWAYS_WORSE
    # Renames come one after another (LogSegment.changeFileSuffixes): the index may still end in .cleaned.
    if finding.code == "segment.swap-index-missing":
        return not _has(partition, offset, FileKind.OFFSET_INDEX, FileState.CLEANED)
    kind = _COMPANION_OF_CODE.get(finding.code)
    return kind is not None and _is_lost(partition, offset, kind)


def _would_replace(partition: Partition, name: FileName) -> bool:
    """Return whether an index would replace another one without its log, as no replacement of a broker does."""
    if name.kind not in INDEX_KINDS or name.base_offset is None:
        return False
    has_log = _has(partition, name.base_offset, FileKind.LOG, FileState.SWAP)
    return not has_log and _has(partition, name.base_offset, name.kind, FileState.LIVE)


def _is_lost(partition: Partition, offset: int, kind: FileKind) -> bool:
    """Return whether a file is lost: a broker creates those of the active segment when it first needs them.

    Those of a segment that compaction has just replaced may still have their other names.
    """
    siblings = [segment for segment in partition.segments if segment.size_bytes and segment.base_offset != offset]
    part = "index" if kind is FileKind.OFFSET_INDEX else "timeindex"
    is_closed = any(
        segment.base_offset == offset and segment.state is SegmentState.CLOSED for segment in partition.segments
    )
    has_sibling = any(getattr(segment, part) is not None for segment in siblings)
    return is_closed and has_sibling and not _has(partition, offset, kind, FileState.SWAP)


def _has(partition: Partition, offset: int, kind: FileKind, state: FileState) -> bool:
    name = segment_file_name(offset, kind, state)
    return any(file.name.raw == name for file in partition.files)


# --- text files -------------------------------------------------------------------------------------------------------
def _text_findings(partition: Partition, formats: Collection[str], epochs: EpochText | None) -> Iterator[Finding]:
    for file in partition.metadata_files:
        if file.name.state is not FileState.LIVE:
            continue
        place = EntryFile(path=file.path, kind=file.name.kind, topic=partition.topic, partition=partition.partition)
        try:
            if file.name.kind is FileKind.LEADER_EPOCH:
                text = epochs or read_epochs(place)
                yield from text.findings
                # Only batches of v2 have leader epochs (KIP-101), so an empty file is right for others.
                if text.is_cut and "v2" in formats:
                    yield place.finding("epochs.cut")
            elif file.name.kind is FileKind.QUORUM_STATE:
                quorum_state = read_properties(place)
                yield from () if quorum_state is None else quorum_state.findings
        except NotFoundError:  # a running broker has replaced it
            continue
        except StorageError as error:
            yield place.finding(code_of_error(error), reason=error.message)


def read_metadata(place: PartitionPath | Partition) -> PartitionMetadata | None:
    """Read the partition.metadata of a partition; None: it has none."""
    file = metadata_file(place)
    try:
        text = read_properties(file)
    except StorageError as error:
        return PartitionMetadata(file.path, None, (file.finding(code_of_error(error), reason=error.message),))
    return None if text is None else PartitionMetadata(text.path, topic_id_of(text), tuple(text.findings))


def _remote_epochs(partition: Partition, context: PartitionContext, epochs: EpochText | None) -> list[Finding]:
    """Return the finding if the leader epochs of what only tiered storage has are lost."""
    path = f"{partition.path}/{fixed_file_name(FileKind.LEADER_EPOCH)}"
    is_refused = any(file.path == path for file in partition.files) if epochs is None else epochs.is_refused
    if is_refused or partition.name.state is not DirectoryState.CURRENT or not partition.segments:
        return []
    first_base = partition.segments[0].base_offset
    bounds = log_bounds(first_base, context, rules_of(context.release or LATEST))
    first = epochs.entries.start_offsets[0] if epochs is not None and epochs.entries else None
    # after a kill the checkpoint may be older than what retention has deleted, and the epochs with it
    is_sure = first is None or context.is_start_known
    return [lost_remote_epochs(path, bounds)] if is_sure and bounds.lacks_remote_epochs(first) else []


def lost_remote_epochs(path: str, bounds: LogBounds) -> Finding:
    """Return the finding about a leader-epoch-checkpoint without the leader epochs of what only tiered storage has."""
    return found("epochs.remote-unknown", path, offset=bounds.log_start.offset, last=bounds.local_start - 1)


def _missing_texts(
    partition: Partition, context: PartitionContext, formats: Collection[str], *, has_remote: bool
) -> Iterator[Finding]:
    if partition.name.state is not DirectoryState.CURRENT or not any(s.size_bytes for s in partition.segments):
        return
    kinds = {file.name.kind for file in partition.metadata_files if file.name.state is FileState.LIVE}
    is_metadata = partition.topic == METADATA_TOPIC  # recovered as a whole at every start, with its leader epochs
    has_epochs = "v2" in formats and not is_metadata and _is_a_brokers(partition, context)
    if FileKind.LEADER_EPOCH not in kinds and has_epochs and not has_remote:
        yield found("epochs.missing", f"{partition.path}/{fixed_file_name(FileKind.LEADER_EPOCH)}")
    # Every topic of a cluster with KRaft has an id (KIP-516).
    if FileKind.PARTITION_METADATA not in kinds and context.is_kraft and not is_metadata:
        yield found("partition-metadata.missing", f"{partition.path}/{fixed_file_name(FileKind.PARTITION_METADATA)}")


def _is_a_brokers(partition: Partition, context: PartitionContext) -> bool:
    """Return whether the directory is as a broker leaves it, and not a copy of some of its files."""
    return context.log_dir is not None or any(_is_index(file) for file in partition.files)


def _is_index(file: FileInfo) -> bool:
    return file.name.kind is FileKind.OFFSET_INDEX


OWNERSHIP_CODES: Final = frozenset({"file.unreadable", "file.foreign-owner"})
"""Findings of a listing about single files; `check_files` looks at all of them together."""
_WRITTEN_KINDS: Final = LOG_KINDS | INDEX_KINDS | {FileKind.LOCK}
_ROOT: Final = 0
_READ: Final = 4
_WRITE: Final = 2
_ENTER: Final = 1
_DIRECTORY_BITS: Final = ((_READ, "list it"), (_WRITE, "make files in it"), (_ENTER, "enter it"))


class _User(Struct, frozen=True):
    uid: int
    gid: int

    def may(self, bit: int, owner: _User, mode: int) -> bool:
        """Return whether the permissions of a file let this user do it; of the groups only the main one is known."""
        # Permissions do not bind root.
        if self.uid == _ROOT:
            return True
        # As POSIX has it: only the first class that fits counts, though a later one may allow more.
        if self.uid == owner.uid:
            return bool(mode & bit << 6)
        return bool(mode & bit << 3) if self.gid == owner.gid else bool(mode & bit)


def check_files(path: str, files: Sequence[FileInfo]) -> Iterator[Finding]:
    """Yield findings about the owners of a directory and its files: a partition, or the top of a log directory."""
    if is_object(path):  # objects have no owners
        return
    try:
        status = stat_path(path)
    except StorageError:  # it was deleted
        return
    directory = _User(status.st_uid, status.st_gid)
    broker = _majority((_User(file.uid, file.gid) for file in files), directory)
    mode = stat.S_IMODE(status.st_mode)
    if broker.uid == directory.uid:
        yield from _directory_findings(path, directory, mode)
    else:
        yield from _foreign_directory(path, directory, mode, broker)
    for file in files:
        yield from _file_findings(file, broker, directory.uid)


def broker_uid(files: Iterable[FileInfo], directory: str) -> int:
    """Return the user that a broker runs as: the owner of most of the files, else of the directory."""
    status = stat_path(directory)
    return _majority((_User(file.uid, file.gid) for file in files), _User(status.st_uid, status.st_gid)).uid


def check_directories(paths: Iterable[str]) -> Iterator[Finding]:
    """Yield findings about partition directories that do not belong to the user of most of them."""
    statuses: list[tuple[str, _User, int]] = []
    for path in paths:
        if is_object(path):
            continue
        try:
            status = stat_path(path)
        except StorageError:  # reported when it is listed
            continue
        statuses.append((path, _User(status.st_uid, status.st_gid), stat.S_IMODE(status.st_mode)))
    if not statuses:
        return
    broker = _majority((owner for _, owner, _ in statuses), statuses[0][1])
    for path, owner, mode in statuses:
        if owner.uid != broker.uid:
            yield from _foreign_directory(path, owner, mode, broker)


def is_read_only_mount(path: str) -> bool:
    """Return whether the file system of a path is mounted read-only."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _majority(owners: Iterable[_User], otherwise: _User) -> _User:
    counts = Counter(owners)
    if not counts:
        return otherwise
    uids: Counter[int] = Counter()
    for owner, count in counts.items():
        uids[owner.uid] += count
    top = max(uids.values())
    # With as many files of each, the directory's owner decides.
    if uids[otherwise.uid] == top:
        return otherwise
    uid = min(uid for uid, count in uids.items() if count == top)
    return max((owner for owner in counts if owner.uid == uid), key=lambda owner: (counts[owner], owner.gid))


def _directory_findings(path: str, owner: _User, mode: int) -> Iterator[Finding]:
    refused = [what for bit, what in _DIRECTORY_BITS if not mode & bit << 6]
    if refused:
        severity: Severity = "warning" if owner.uid == _ROOT else "error"
        yield found("dir.no-permission", path, mode=f"{mode:04o}", refused=" or ".join(refused), severity=severity)


def _foreign_directory(path: str, owner: _User, mode: int, broker: _User) -> Iterator[Finding]:
    refused = [what for bit, what in _DIRECTORY_BITS if not broker.may(bit, owner, mode)]
    if refused:
        yield found("dir.foreign-owner", path, uid=owner.uid, broker_uid=broker.uid, refused=" or ".join(refused))


def _file_findings(file: FileInfo, broker: _User, directory_uid: int) -> Iterator[Finding]:
    owner, mode = _User(file.uid, file.gid), file.mode
    is_written = file.name.state is FileState.LIVE and file.name.kind in _WRITTEN_KINDS
    severity: Severity = "warning" if file.uid == _ROOT else "error"
    if not mode & stat.S_IRUSR:
        yield found("file.unreadable", file.path, mode=f"{mode:04o}", severity=severity)
    elif is_written and not mode & stat.S_IWUSR:
        yield found("file.not-writable", file.path, mode=f"{mode:04o}", severity=severity)
    if file.uid == broker.uid:
        return
    bits = ((_READ, "read"), (_WRITE, "write")) if is_written else ((_READ, "read"),)
    refused = [what for bit, what in bits if not broker.may(bit, owner, mode)]
    if refused:
        yield found(
            "file.no-access",
            file.path,
            uid=file.uid,
            broker_uid=broker.uid,
            mode=f"{mode:04o}",
            refused=" or ".join(refused),
        )
    elif file.uid != directory_uid:
        yield found("file.foreign-owner", file.path, uid=file.uid, directory_uid=directory_uid)


_WORSE: Final = "segment.swap-worse"
_CALM: Final = frozenset({"segment.swap", "segment.swap-alone", "segment.swap-index-missing"})
"""Findings of a listing about a replacement, which it has not opened."""
_IN_A_LOG: Final = frozenset({"log", "batch"})
"""Subjects of findings about the content of a log."""


class Replacements:
    """The findings about the replacements of a partition (`.swap`), apart from those in their logs.

    Args:
        partition: its listing.
        segments: verdicts of its live segments.
        is_whole: whether its log was never compacted, so that a replacement holds all that its originals hold.
    """

    def __init__(self, partition: Partition, segments: Sequence[SegmentVerdict], *, is_whole: bool) -> None:
        self._partition = partition
        self._segments = segments
        self._is_whole = is_whole
        self._removed_from = min(
            (other.base_offset for other in partition.other_segments if other.state is SegmentState.CLEANED),
            default=None,
        )
        self._worse: set[int] = set()

    def findings(self, swap: SegmentVerdict, aborted: int | None) -> tuple[Finding, ...]:
        """Return all findings about the log of one replacement that was read.

        aborted: the offset of the marker of an aborted transaction of which it has records; None: it has none.
        """
        # `LogLoader.removeTempFilesAndCollectSwapFiles` drops swaps from the lowest `.cleaned` offset on.
        if self._removed_from is not None and swap.base_offset >= self._removed_from:
            return swap.findings  # a broker deletes it: its originals are still there
        reason = self._reason(swap)
        if reason is None:
            unlisted = () if aborted is None else self._unlisted(swap, aborted)
            return (*unlisted, *(_in_swap(finding, is_worse=False) for finding in swap.findings))
        self._worse.add(swap.base_offset)
        topic, number = self._partition.topic, self._partition.partition
        severity: Severity | None = "warning" if not swap.size_bytes and not self._is_whole else None
        worse = found(
            _WORSE,
            swap.path,
            topic=topic,
            partition=number,
            offset=swap.base_offset,
            severity=severity,
            hides_records=False,
            why=reason,
        )
        return (worse, *(_in_swap(finding, is_worse=True) for finding in swap.findings))

    def _unlisted(self, swap: SegmentVerdict, aborted: int) -> Iterator[Finding]:
        """Yield that aborted transactions of the replacement will be in no index.

        `LogLoader.load` of 3.0 and later renames the files (KAFKA-10340): an index of the original is kept.
        """
        offset = swap.base_offset
        if any(_has(self._partition, offset, FileKind.TXN_INDEX, state) for state in (FileState.SWAP, FileState.LIVE)):
            return
        topic, number = self._partition.topic, self._partition.partition
        yield found("segment.swap-txnindex-missing", swap.path, topic=topic, partition=number, offset=aborted)

    def mended(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return the findings of the partition, more severe for replacements that lack data of their originals."""
        cure = FINDING_TYPES[_WORSE].cure
        return tuple(replace(finding, cure=cure) if self._is_of_worse(finding) else finding for finding in findings)

    def _is_of_worse(self, finding: Finding) -> bool:
        if finding.code not in _CALM or finding.offset not in self._worse:
            return False
        return parse_file_name(finding.path.rpartition("/")[2]).state is FileState.SWAP

    def _reason(self, swap: SegmentVerdict) -> str | None:
        """Return why the originals are better; `None`: they are not, or do not exist."""
        # What could not be read proves nothing about the other side.
        if swap.is_unread or any(one.is_unread for one in self._segments):
            return None
        beyond = self._beyond(swap)
        if beyond is not None:
            return beyond
        originals = self._originals(swap)
        if not originals or originals[0].base_offset != swap.base_offset:
            return None
        if any(one.damage for one in originals) or not any(one.batches for one in originals):
            return None
        return self._less(swap, originals)

    def _less(self, swap: SegmentVerdict, originals: Sequence[SegmentVerdict]) -> str | None:
        """Return what a replacement lacks of whole originals."""
        records = sum(one.records for one in originals)
        if not swap.size_bytes:
            return f"it is empty, and what it replaces holds {_records_text(records)}"
        if swap.damage:
            return f"it is damaged at byte {swap.damage[0][0]:,}, and what it replaces is whole"
        last, last_replaced = swap.last_offset, originals[-1].last_offset
        is_cut = last is not None and last_replaced is not None and last < last_replaced
        is_cut = is_cut and not self._is_split(swap)
        if is_cut and self._is_whole and not swap.is_thinned and not swap.gap_count:
            return f"it ends with offset {last}, what it replaces with {last_replaced}, and the log was never compacted"
        return None

    def _is_split(self, swap: SegmentVerdict) -> bool:
        """Return whether other replacements may hold the rest of a segment that was split."""
        # `LocalLog.splitOverflowedSegment` leaves several replacements of one segment.
        others = (other for other in self._partition.other_segments if other.state is SegmentState.SWAP)
        return any(other.base_offset > swap.base_offset for other in others)

    def _beyond(self, swap: SegmentVerdict) -> str | None:
        """Return a text if offsets are after the end of the log: a replacement is made of what was there."""
        active = self._segments[-1] if self._segments else None
        if active is None or active.damage or swap.last_offset is None or swap.last_offset < active.base_offset:
            return None
        end = active.base_offset - 1 if active.last_offset is None else active.last_offset
        if swap.last_offset <= end or swap.base_offset > end:
            return None
        count = len(self._originals(swap))
        replaced = "the active segment" if count <= 1 else f"{count:,} segments"
        return f"it reaches to offset {swap.last_offset}, the log only to {end}; it replaces {replaced}"

    def _originals(self, swap: SegmentVerdict) -> list[SegmentVerdict]:
        """Return the live segments that the replacement replaces."""
        last = swap.base_offset if swap.last_offset is None else max(swap.base_offset, swap.last_offset)
        return [one for one in self._segments if swap.base_offset <= one.base_offset <= last]


def _in_swap(finding: Finding, *, is_worse: bool) -> Finding:
    """Return a finding about damage in a replacement.

    Nothing is appended to it, and no recovery truncates it before it is in place.
    """
    if finding.severity != "error" or finding.code.partition(".")[0] not in _IN_A_LOG:
        return finding
    cure = FINDING_TYPES[_WORSE if is_worse else "batch.crc-mismatch"].cure
    return replace(finding, broker_action=FINDING_TYPES[_WORSE].broker_action, cure=cure)


def _records_text(count: int) -> str:
    return "1 record" if count == 1 else f"{count:,} records"
