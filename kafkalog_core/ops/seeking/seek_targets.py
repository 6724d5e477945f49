"""What a search works on: each partition, or log file by itself, with its segments and indexes and its release."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import NotFoundError, SelectionError, StorageError
from kafkalog_core.format.names import LOG_KINDS, FileKind, fixed_file_name
from kafkalog_core.ops.reading.logfiles import Unit, unit_of_file, unit_of_partition
from kafkalog_core.ops.releases.release_evidence import ReleaseGuess, infer_release
from kafkalog_core.ops.selecting.targets import FileTarget, LogDirTarget
from kafkalog_core.storage.listing import FileInfo, stat_path
from kafkalog_core.storage.logdir import not_listed
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.segment import Segment, SegmentState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.selecting.targets import Target

__all__ = ["Releases", "SeekTarget", "seek_targets"]

_INDEX_SUFFIXES: Final = {"index": ".index", "timeindex": ".timeindex"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeekTarget:
    """One log. `is_file`: a file by itself, so that nothing is known of offsets outside of it.

    `problem`: why its directory could not be read; there are no segments then.
    """

    unit: Unit
    segments: tuple[Segment, ...]
    is_v07: bool
    is_file: bool = False
    is_based: bool = True
    problem: Finding | None = None

    @property
    def is_clean(self) -> bool:
        """Whether a broker that starts on it skips recovery, and so takes the last indexes as they are."""
        directory = self.unit.log_dir
        return directory is not None and os.path.exists(f"{directory}/{fixed_file_name(FileKind.CLEAN_SHUTDOWN)}")


class Releases:
    """Releases of log directories and partitions; each directory is looked at once."""

    def __init__(self, kafka: str | None) -> None:
        self._kafka = kafka
        self._known: dict[str, ReleaseGuess] = {}

    def of(self, target: SeekTarget) -> ReleaseGuess:
        """The release of the log directory around it, else of the partition. Raises StorageError."""
        path = target.unit.log_dir or target.unit.path
        if path not in self._known:
            self._known[path] = infer_release(path, kafka=self._kafka)
        return self._known[path]


def seek_targets(target: Target) -> Iterator[SeekTarget]:
    """The logs of one target. Raises SelectionError for a file that is no log, StorageError for a directory."""
    if isinstance(target, FileTarget):
        yield _of_file(target)
        return
    if not isinstance(target, LogDirTarget):
        yield _of_partition(target.path, target.log_dir)
        return
    log_dir = target.log_dir.path if target.log_dir.is_broker_dir else None
    for place in target.partitions:
        try:
            yield _of_partition(place.path, log_dir)
        except StorageError as error:
            problem = not_listed(place, error)
            name = place.name
            unit = Unit(topic=name.topic, partition=name.partition, path=place.path, log_dir=log_dir, files=())
            yield SeekTarget(unit=unit, segments=(), is_v07=False, problem=problem)


def _of_partition(path: str, log_dir: str | None) -> SeekTarget:
    partition = read_partition(path)
    return SeekTarget(
        unit=unit_of_partition(partition, log_dir),
        segments=tuple(segment for segment in partition.segments if segment.log is not None),
        is_v07=partition.format == "v07",
    )


def _of_file(target: FileTarget) -> SeekTarget:
    """A log file with the indexes beside it that have its name."""
    if target.kind not in LOG_KINDS and target.kind is not FileKind.KRAFT_SNAPSHOT:
        raise SelectionError("no log: name the .log file, or its directory", path=target.path)
    unit = unit_of_file(target)
    base = unit.files[0].base_offset
    segment = Segment(base_offset=base or 0, state=SegmentState.ACTIVE, log=target.file)
    if target.kind is FileKind.LOG and base is not None:
        stem, _, rest = target.path.rpartition(".log")
        beside = {name: _file_at(f"{stem}{suffix}{rest}") for name, suffix in _INDEX_SUFFIXES.items()}
        segment = replace(segment, **beside)  # type: ignore[arg-type]
    is_v07 = target.kind is FileKind.LOG_V07
    return SeekTarget(unit=unit, segments=(segment,), is_v07=is_v07, is_file=True, is_based=base is not None)


def _file_at(path: str) -> FileInfo | None:
    try:
        return FileInfo.of(path, stat_path(path))
    except NotFoundError:
        return None
