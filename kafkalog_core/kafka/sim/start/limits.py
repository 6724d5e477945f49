"""What a start needs of the machine: memory maps, open files and room on the disk, from counts of what is there.

A broker opens the `.log` of every segment, and its `.txnindex` where there is one, and keeps them open
(`FileRecords.open`, `TransactionIndex`). It maps an `.index` and a `.timeindex` of a segment into memory
(`AbstractIndex`): of every segment at its start up to 2.2, since then when it first reads them (`LazyIndex`), so that
consumers, replicas and retention reach the same number later. A map that the kernel refuses is an OutOfMemoryError,
"Map failed", which ends the process; a file that cannot be opened takes the log directory offline.

The indexes of the active segment grow to segment.index.bytes (`LogSegment.resizeIndexes`). File systems with sparse
files give them blocks as they are written; others at once.
"""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.format.names import FileKind, FileState
from kafkalog_core.storage.changing.space import free_bytes
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "DiskCounts",
    "LimitProblem",
    "MachineLimits",
    "StartNeeds",
    "count_disk",
    "limit_problems",
    "needs_of",
    "read_machine",
]

_MAX_MAP_COUNT: Final = "/proc/sys/vm/max_map_count"
_MAPS_OF_JAVA: Final = 400
"""Maps of a broker's process without any log: seen of 3.9.2 and 4.4.0 with a heap of 256 MB."""
_FILES_OF_JAVA: Final = 130
"""Its open files without any log or connection: the jars of the class path, and pipes."""
_SNAPSHOT_BYTES: Final = 4096
"""The least room of a file: a start writes a producer snapshot for each partition."""


class DiskCounts(Struct, frozen=True, kw_only=True):
    """What the log directories of one broker hold.

    Args:
        partitions: their number.
        segments: with a `.log`.
        txn_indexes: segments with a `.txnindex`.
        unindexed: segments without an `.index`, which a start recovers.
        snapshot_bytes: the sizes of the newest producer snapshots of all partitions together.
        log_dirs: how many partitions each log directory has, by its path.
    """

    partitions: int = 0
    segments: int = 0
    txn_indexes: int = 0
    unindexed: int = 0
    snapshot_bytes: int = 0
    log_dirs: tuple[tuple[str, int], ...] = ()


class StartNeeds(Struct, frozen=True, kw_only=True):
    """What a broker needs.

    Args:
        maps: memory maps, once all segments were read.
        maps_at_start: memory maps right after the start.
        files: open files, without connections.
        written_bytes: what the start writes: a producer snapshot and the first entries of each partition.
        preallocated_bytes: what the indexes of active segments grow to.
    """

    maps: int
    maps_at_start: int
    files: int
    written_bytes: int
    preallocated_bytes: int


class MachineLimits(Struct, frozen=True, kw_only=True):
    """The limits of the machine; None: unknown.

    Args:
        max_map_count: vm.max_map_count.
        open_files: LimitNOFILE of the broker's process.
        free_bytes: of each log directory, by its path.
    """

    max_map_count: int | None = None
    open_files: int | None = None
    free_bytes: tuple[tuple[str, int], ...] = ()


class LimitProblem(Struct, frozen=True, kw_only=True):
    """A limit that a broker reaches.

    Args:
        limit: its name: vm.max_map_count, LimitNOFILE or free bytes.
        needed: by the broker.
        allowed: by the machine.
        is_at_start: whether the start itself reaches it; else the broker does later.
        consequence: what the broker does then, as a clause.
        way_out: what to change.
    """

    limit: str
    needed: int
    allowed: int
    is_at_start: bool
    consequence: str
    way_out: str


def needs_of(
    counts: DiskCounts,
    *,
    has_time_index: bool,
    maps_all: bool,
    index_bytes: int,
) -> StartNeeds:
    """Return what a broker needs.

    Args:
        counts: of its log directories.
        has_time_index: whether the release has a `.timeindex` (from 0.10.1 on).
        maps_all: whether the release maps the indexes of all segments at its start (up to 2.2).
        index_bytes: segment.index.bytes of all partitions together.
    """
    indexes = 2 if has_time_index else 1
    of_start = counts.segments if maps_all else min(counts.segments, counts.partitions + counts.unindexed)
    written = counts.snapshot_bytes + counts.partitions * _SNAPSHOT_BYTES
    return StartNeeds(
        maps=_MAPS_OF_JAVA + indexes * counts.segments,
        maps_at_start=_MAPS_OF_JAVA + indexes * of_start,
        files=_FILES_OF_JAVA + counts.segments + counts.txn_indexes,
        written_bytes=written,
        preallocated_bytes=written + indexes * index_bytes,
    )


def limit_problems(needs: StartNeeds, limits: MachineLimits, counts: DiskCounts) -> list[LimitProblem]:
    """Return the limits that a broker reaches, those of the start first."""
    found = []
    if limits.max_map_count is not None and needs.maps > limits.max_map_count:
        found.append(
            LimitProblem(
                limit="vm.max_map_count",
                needed=needs.maps,
                allowed=limits.max_map_count,
                is_at_start=needs.maps_at_start > limits.max_map_count,
                consequence="it ends with OutOfMemoryError, Map failed",
                way_out=f"sysctl -w vm.max_map_count={_rounded(needs.maps)}",
            )
        )
    if limits.open_files is not None and needs.files > limits.open_files:
        found.append(
            LimitProblem(
                limit="LimitNOFILE",
                needed=needs.files,
                allowed=limits.open_files,
                is_at_start=True,
                consequence="it takes log directories offline, Too many open files",
                way_out=f"Set LimitNOFILE={_rounded(needs.files)} in the unit of the broker, or ulimit -n",
            )
        )
    partitions = dict(counts.log_dirs)
    for path, free in limits.free_bytes:
        share = partitions.get(path, 0) / max(1, counts.partitions)
        written, preallocated = int(needs.written_bytes * share), int(needs.preallocated_bytes * share)
        if max(written, preallocated) > free:
            found.append(_space_problem(path, free, written, preallocated))
    return sorted(found, key=lambda each: not each.is_at_start)


def _space_problem(path: str, free: int, written: int, preallocated: int) -> LimitProblem:
    """Return the problem of a log directory without the room for what a start writes, or for its preallocated files."""
    is_at_start = written > free
    where = "" if is_at_start else ", on a file system without sparse files or once the indexes are written"
    needed = written if is_at_start else preallocated
    return LimitProblem(
        limit="free bytes",
        needed=needed,
        allowed=free,
        is_at_start=is_at_start,
        consequence=f"it takes {path} offline, No space left on device{where}",
        way_out=f"Free {needed - free} bytes in {path}",
    )


def _rounded(count: int) -> int:
    """Return the next power of 2 that is at least twice as large."""
    return int(1 << (2 * count - 1).bit_length())


# --- reading ----------------------------------------------------------------------------------------------------------
def count_disk(log_dirs: Iterable[tuple[str, Iterable[str]]]) -> DiskCounts:
    """Count what log directories hold: each its path and the paths of its partitions.

    What cannot be listed is left out.
    """
    partitions = segments = txn_indexes = unindexed = snapshot_bytes = 0
    by_dir = []
    for log_dir, paths in log_dirs:
        here = 0
        for path in paths:
            try:
                partition = read_partition(path)
            except StorageError:
                continue
            here += 1
            kinds = [file.name.kind for file in partition.files if file.name.state is FileState.LIVE]
            logs = kinds.count(FileKind.LOG)
            segments += logs
            txn_indexes += kinds.count(FileKind.TXN_INDEX)
            unindexed += max(0, logs - kinds.count(FileKind.OFFSET_INDEX))
            snapshot_bytes += max((file.size_bytes for file in partition.snapshots), default=0)
        partitions += here
        by_dir.append((log_dir, here))
    return DiskCounts(
        partitions=partitions,
        segments=segments,
        txn_indexes=txn_indexes,
        unindexed=unindexed,
        snapshot_bytes=snapshot_bytes,
        log_dirs=tuple(by_dir),
    )


def read_machine(
    log_dirs: Iterable[str], *, max_map_count: int | None = None, open_files: int | None = None
) -> MachineLimits:
    """Return the limits of this machine; those that are given are not read.

    The limit of open files is that of this process: a broker that systemd starts has the one of its unit.
    """
    if max_map_count is None:
        try:
            with open(_MAX_MAP_COUNT, encoding="ascii") as file:
                max_map_count = int(file.read())
        except (OSError, ValueError):  # not Linux, or a container without /proc/sys
            max_map_count = None
    if open_files is None:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # Java raises its own limit up to this one
        open_files = None if hard == resource.RLIM_INFINITY else hard
    free = []
    for path in log_dirs:
        try:
            free.append((path, free_bytes(path)))
        except (OSError, StorageError):
            continue
    return MachineLimits(max_map_count=max_map_count, open_files=open_files, free_bytes=tuple(free))
