"""Whether a log directory may get a clean shutdown file: a broker that finds the file recovers nothing.

The directory must be as a clean shutdown leaves it: everything verified, every index present and trimmed, no
replacement of segments half done, and a producer snapshot at the end of every log. A broker that finds the file and no
snapshot silently forgets all producers and open transactions; it replaces a missing time index with an empty one, where
recovery would rebuild it.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_path
from kafkalog_core.errors import StorageError
from kafkalog_core.findings import found
from kafkalog_core.findings.logs import DAMAGE_REASONS
from kafkalog_core.findings.next_commands import AS_BROKER
from kafkalog_core.format.index import used_entries
from kafkalog_core.format.layout import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kafkalog_core.format.names import (
    METADATA_TOPIC,
    DirectoryState,
    FileKind,
    FileState,
    journal_run,
    segment_file_name,
)
from kafkalog_core.kafka.rules import recovery_rules
from kafkalog_core.ops.reading.targets import LogDirTarget
from kafkalog_core.ops.verify.engine import VerifyRequest, verify
from kafkalog_core.ops.verify.verdict import PartitionVerdict
from kafkalog_core.storage.listing import stat_path
from kafkalog_core.storage.partition import partition_name
from kafkalog_core.storage.source import Source
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.layout import Layout
    from kafkalog_core.kafka.logdir.bounds import Extent
    from kafkalog_core.kafka.releases import Release
    from kafkalog_core.ops.repair.plan import PlanRequest
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.logdir import LogDir
    from kafkalog_core.storage.partition import Partition

__all__ = ["in_order", "unclean_parts", "unverified", "why_unmarked"]

_LOADED: Final = frozenset({DirectoryState.CURRENT, DirectoryState.FUTURE})
_REINDEX: Final = "kafkalog reindex --apply writes it as a clean stop does; then mark the directory."
_CUT: Final = (
    "Cut the log where the recovery of a broker would, or copy the partition from a healthy replica; then mark the "
    "directory."
)
_VERIFY: Final = (
    "Repair it first: kafkalog verify names the command. Without the clean shutdown file a broker recovers the logs "
    "itself."
)
_SWAP: Final = "Start the broker without the mark: it puts the file in its place, and a clean stop marks the directory."
_JOURNAL: Final = "Move it out of the log directory, to where it came from; then mark the directory."
_JOURNAL_LOADED: Final = "Takes {name} for a partition, as the name ends with a number: loads it, or sets it aside."
_REINDEX_ALL: Final = "kafkalog reindex {} --apply"
_SHOWN: Final = 5
_REBUILT: Final = ("index.", "timeindex.", "txnindex.", "snapshot.", "epochs.")
_REBUILT_CODES: Final = frozenset({"segment.index-missing", "segment.timeindex-missing"})


def unverified(
    log_dir: LogDir,
    request: PlanRequest,
    release: Release,
    mended: frozenset[tuple[str, str]],
    progress: Progress,
) -> Iterator[Finding]:
    """Every error in the log directory, judged as if it had the mark.

    Args:
        log_dir: all of it.
        request: of the plan: the time, and how many processes.
        release: the one that is to start.
        mended: findings, by file and code, that the plan does away with.
        progress: shows the bytes that are read.
    """
    target = LogDirTarget(log_dir=replace(log_dir, is_clean=True), partitions=log_dir.partitions, is_whole=True)
    wanted = VerifyRequest(targets=(target,), now_ms=request.now_ms, jobs=request.jobs, kafka=release)
    for verdict in verify(wanted, progress):
        empty = _empty_time_index(verdict) if isinstance(verdict, PartitionVerdict) else ()
        for finding in (*verdict.findings, *empty):
            if finding.severity == "error" and (finding.path, finding.code) not in mended:
                yield _before_mark(finding, is_clean=bool(log_dir.is_clean))


def _before_mark(finding: Finding, *, is_clean: bool) -> Finding:
    """Return an obstacle with what removes it; what recovery would cut has to be cut before recovery is skipped."""
    if _is_rebuilt(finding):
        return replace(finding, cure=_REINDEX)
    if finding.code in DAMAGE_REASONS and not is_clean:
        return replace(finding, cure=_CUT, next_step=AS_BROKER)
    return replace(finding, cure=finding.cure or _VERIFY)


def in_order(obstacles: Iterable[Finding]) -> list[Finding]:
    """Return the obstacles in the order in which they are removed: indexes last, as they are rebuilt from the logs."""
    return sorted(obstacles, key=_is_rebuilt)


def _empty_time_index(verdict: PartitionVerdict) -> Iterator[Finding]:
    """Yield a clean stop closes the last segment too: its time index then holds at least its largest timestamp."""
    last = verdict.segments[-1] if verdict.segments else None
    if last is None or last.max_timestamp_ms is None or "v2" not in last.formats:
        return
    if partition_name(verdict.path).state not in _LOADED or verdict.topic == METADATA_TOPIC:
        return
    path = f"{last.path.removesuffix('.log')}.timeindex"
    with suppress(StorageError):  # a missing one is reported already
        if not stat_path(path).st_size:
            problem = f"the log has {last.max_timestamp_ms}, and a clean stop closes the last segment too"
            yield found("timeindex.empty", path, topic=verdict.topic, partition=verdict.partition, problem=problem)


def why_unmarked(root: str, obstacles: Sequence[Finding]) -> str:
    """Return why a directory is not marked, and the commands that come first, in their order."""
    counts: Counter[str] = Counter()
    for finding in obstacles:
        counts[_REINDEX_ALL.format(shell_path(root)) if _is_rebuilt(finding) else finding.next_command or ""] += 1
    unnamed = counts.pop("", 0)
    ways = [f"{command} ({count_of(count, 'finding')})" for command, count in counts.items()]
    shown = [*ways[:_SHOWN], *([f"{len(ways) - _SHOWN} more commands"] if len(ways) > _SHOWN else [])]
    if unnamed:
        shown.append(f"what the findings advise by hand ({count_of(unnamed, 'finding')})")
    return f"it is not marked as stopped cleanly: first {', then '.join(shown)}"


def _is_rebuilt(finding: Finding) -> bool:
    """Return whether a rebuild from the log does away with it."""
    return finding.code in _REBUILT_CODES or finding.code.startswith(_REBUILT)


def unclean_parts(partition: Partition, extent: Extent | None, release: Release) -> Iterator[Finding]:
    """Yield what a clean stop would have left otherwise in a partition that a broker serves or fills."""
    if journal_run(partition.name.raw) is not None:
        finding = found("dir.journal", partition.path, severity="error")
        loaded = _JOURNAL_LOADED.format(name=repr(partition.name.raw))
        yield replace(finding, broker_action=loaded, cure=_JOURNAL)
    if partition.name.state not in _LOADED:
        return
    parts = (
        *_exchanged(partition),
        *_unclean_indexes(partition, release),
        *_missing_snapshot(partition, extent, release),
    )
    for finding in parts:
        cure = _SWAP if finding.code == "segment.swap" else _REINDEX
        yield replace(finding, topic=partition.topic, partition=partition.partition, severity="error", cure=cure)


def _exchanged(partition: Partition) -> Iterator[Finding]:
    """Replacements that wait to be put in their place: what counts then has not been verified as the log."""
    for file in partition.files:
        if file.name.state is FileState.SWAP and file.name.kind is FileKind.LOG:
            yield found("segment.swap", file.path, offset=file.name.base_offset)


def _unclean_indexes(partition: Partition, release: Release) -> Iterator[Finding]:
    for segment in partition.segments:
        if segment.size_bytes and segment.index is None:
            yield found("segment.index-missing", segment.files[0].path, offset=segment.base_offset)
        if segment.size_bytes and segment.timeindex is None and recovery_rules(release).has_time_index:
            yield found("segment.timeindex-missing", segment.files[0].path, offset=segment.base_offset)
    last = partition.segments[-1] if partition.segments else None
    for file, layout in () if last is None else ((last.index, OFFSET_INDEX_ENTRY), (last.timeindex, TIME_INDEX_ENTRY)):
        zeros = 0 if file is None else _zero_tail(file, layout)
        if file is not None and zeros:
            yield found("index.zero-tail", file.path, size_bytes=zeros)


def _missing_snapshot(partition: Partition, extent: Extent | None, release: Release) -> Iterator[Finding]:
    if extent is None or not extent.is_v2 or not recovery_rules(release).has_producers or extent.end <= extent.start:
        return
    if all(file.name.base_offset != extent.end for file in partition.snapshots):
        path = f"{partition.path}/{segment_file_name(extent.end, FileKind.SNAPSHOT)}"
        yield found("snapshot.missing", path, offset=extent.end, occasion="at the clean stop")


def _zero_tail(file: FileInfo, layout: Layout) -> int:
    """Return bytes after the last entry in use."""
    try:
        with Source.open(file.path) as source:
            data = source.read(0, source.size_bytes)
    except StorageError:
        return 0
    used = used_entries(layout, data) * layout.size
    return max(0, len(data) - used)
