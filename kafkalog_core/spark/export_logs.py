"""The partitions that an export reads: each topic and partition from one directory, whatever disks are named."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalog_core.errors import RefusedError, SelectionError, StorageError
from kafkalog_core.findings import Finding, found
from kafkalog_core.format.names import DirectoryState, FileKind, fixed_file_name
from kafkalog_core.ops.logdirs.textfiles import read_properties
from kafkalog_core.ops.reading.entry_faults import EntryFile
from kafkalog_core.ops.reading.logfiles import unit_of_partition
from kafkalog_core.ops.selecting.targets import FileTarget, LogDirTarget
from kafkalog_core.storage.logdir import not_listed
from kafkalog_core.storage.partition import read_partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.ops.reading.logfiles import Unit
    from kafkalog_core.ops.selecting.targets import Target
    from kafkalog_core.storage.logdir import PartitionPath
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.segment import Segment

__all__ = ["Log", "find_logs"]


@dataclass(slots=True, kw_only=True)
class Log:
    """One partition; `findings` are what of its directory keeps records from being read: indexes are of no account."""

    topic: str
    partition: int
    unit: Unit
    segments: tuple[Segment, ...]
    is_v07: bool
    topic_id: str | None
    findings: list[Finding] = field(default_factory=list)

    @property
    def path(self) -> str:
        """Path of its directory."""
        return self.unit.path

    @property
    def log_start(self) -> int | None:
        """Base offset of the first segment; null: there is none."""
        return self.unit.files[0].base_offset if self.unit.files else None


def find_logs(targets: Sequence[Target]) -> tuple[list[Log], list[Finding]]:
    """All partitions of the targets by topic and number, and what keeps directories from being read.

    Raises SelectionError for a file, RefusedError where a partition is there twice, StorageError for a partition that
    was named itself.
    """
    findings: list[Finding] = []
    places: list[tuple[PartitionPath, str | None, bool]] = []
    for target in targets:
        if isinstance(target, FileTarget):
            raise SelectionError(
                "a file by itself is not exported, as it says nothing of what comes next; name its partition's "
                "directory, or read it as a DataFrame",
                path=target.path,
            )
        if isinstance(target, LogDirTarget):
            findings += [finding for finding in target.log_dir.findings if finding.severity == "error"]
            log_dir = target.log_dir.path if target.log_dir.is_broker_dir else None
            places += ((place, log_dir, False) for place in target.partitions)
        else:
            places.append((target.place, target.log_dir, True))
    served = list(_served(places, findings))
    _refuse_copies(place for place, _, _ in served)
    logs = []
    for place, log_dir, is_named in served:
        try:
            logs.append(_log(place, log_dir))
        except StorageError as error:
            if is_named:
                raise
            findings.append(not_listed(place, error))
    return sorted(logs, key=lambda log: (log.topic, log.partition)), findings


def _served(
    places: Iterable[tuple[PartitionPath, str | None, bool]], findings: list[Finding]
) -> Iterator[tuple[PartitionPath, str | None, bool]]:
    """Without directories that hold what others hold too, unless they are named."""
    for place, log_dir, is_named in places:
        name = place.name
        if name.topic is None or name.partition is None:
            if is_named:
                raise SelectionError(
                    "no partition by its name, so that nothing tells its topic and number", path=place.path
                )
            continue
        if name.state is DirectoryState.CURRENT or is_named:
            yield place, log_dir, is_named
        else:
            findings.append(
                found("export.left-out", place.path, topic=name.topic, partition=name.partition, state=str(name.state))
            )


def _refuse_copies(places: Iterable[PartitionPath]) -> None:
    first: dict[tuple[str | None, int | None], str] = {}
    for place in places:
        key = (place.name.topic, place.name.partition)
        other = first.setdefault(key, place.path)
        if other != place.path:
            raise RefusedError(
                f"{key[0]}-{key[1]} is also in {other}, and one export holds one copy of a partition: compare them by "
                "kafkalog spark replicas, and name the one that counts; or export each broker into a directory of its "
                "own",
                path=place.path,
            )


def _log(place: PartitionPath, log_dir: str | None) -> Log:
    partition = read_partition(place.path)
    return Log(
        topic=place.name.topic or "",
        partition=place.name.partition or 0,
        unit=unit_of_partition(partition, log_dir),
        segments=tuple(segment for segment in partition.segments if segment.log is not None),
        is_v07=partition.format == "v07",
        topic_id=_topic_id(partition),
        findings=[item for item in partition.findings if item.severity == "error" or item.hides_records],
    )


def _topic_id(partition: Partition) -> str | None:
    kind = FileKind.PARTITION_METADATA
    path = f"{partition.path}/{fixed_file_name(kind)}"
    try:
        text = read_properties(EntryFile(path=path, kind=kind, topic=partition.topic, partition=partition.partition))
    except StorageError:
        return None
    if text is None or text.is_refused:
        return None
    return next((item.value for item in text.contents.properties if item.key == "topic_id"), None)
