"""The readers of a catalogue on the driver: which volumes have segments of a partition, and what readings have made."""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core import tables
from kafkalog_core.findings import FINDING_TYPES, found
from kafkalog_core.ops.verify.plain import shape_of
from kafkalog_core.spark.census.notes import SegmentNote
from kafkalog_core.spark.census.reading import CensusReader, Made
from kafkalog_core.spark.census.volume import Volume
from kafkalog_core.spark.schema import BATCHES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.progress import Progress
    from kafkalog_core.ops.verify.work import Depth
    from kafkalog_core.spark.census.notes import SegmentKey
    from kafkalog_core.spark.census.reading import Row
    from kafkalog_core.spark.census.volume import NewVolume

__all__ = ["BATCHES_FOLDER", "NOTES_FOLDER", "Census", "head_of", "volume_paths"]

BATCHES_FOLDER: Final = "batches"
NOTES_FOLDER: Final = "_notes"
_VERSION: Final = 1


def head_of(depth: Depth) -> dict[str, object]:
    """What notes depend on that is not of a file: where this differs, everything is read again."""
    rules = f"{shape_of(SegmentNote)}{FINDING_TYPES}{BATCHES}{tables.SEGMENT}"
    return {
        "version": _VERSION,
        "rules": zlib.crc32(rules.encode()),
        "level": depth.level,
        "max_batch_bytes": depth.max_batch_bytes,
    }


def volume_paths(output: str, name: str) -> Volume:
    """Where the files of a volume are, by its name."""
    return Volume(name, f"{output}/{BATCHES_FOLDER}/{name}.parquet", f"{output}/{NOTES_FOLDER}/{name}.parquet")


@dataclass(slots=True)
class PartitionMade:
    """What all readings of one partition have made."""

    rows: int = 0
    bytes: int = 0
    read_bytes: int = 0
    unchanged_bytes: int = 0
    findings: tuple[Finding, ...] = ()


@dataclass(slots=True)
class Census:
    """See `ops.verify.readers.Readers`.

    Args:
        output: the catalogue's directory.
        staging: of the run.
        depth: how deep is checked.
        state: after the last run, if it may be used; empty: everything is read.
        progress: is told of what need not be read.
        missing: files of the catalogue that are not as they were, by their names: their volumes are not used.
    """

    output: str
    staging: str
    depth: Depth
    state: dict[str, Any]
    progress: Progress
    missing: frozenset[str] = frozenset()
    rows: list[Row] = field(default_factory=list)
    fresh: list[NewVolume] = field(default_factory=list)
    kept: dict[str, list[SegmentKey]] = field(default_factory=lambda: defaultdict(list))
    made: dict[str, PartitionMade] = field(default_factory=lambda: defaultdict(PartitionMade))

    def reader_of(self, path: str) -> CensusReader:
        """Who reads a partition."""
        known = self.state.get("partitions", {}).get(os.fsencode(path).hex(), {})
        volumes = [volume_paths(self.output, name) for name in known.get("volumes", ()) if self._is_whole(name)]
        return CensusReader(path=path, volumes=tuple(volumes), staging=self.staging, depth=self.depth)

    def received(self, path: str, made: object) -> None:
        """What a reading has made."""
        if not isinstance(made, Made):
            return
        self.rows += made.rows
        if made.volume is not None:
            self.fresh.append(made.volume)
        for name, keys in made.kept.items():
            self.kept[name] += keys
        partition = self.made[path]
        partition.rows += len(made.rows)
        partition.bytes += made.read_bytes + made.unchanged_bytes
        partition.read_bytes += made.read_bytes
        partition.unchanged_bytes += made.unchanged_bytes
        partition.findings += made.findings
        self.progress.expect(-made.unchanged_bytes)

    def _is_whole(self, name: str) -> bool:
        return self.missing.isdisjoint(f"{folder}/{name}.parquet" for folder in (BATCHES_FOLDER, NOTES_FOLDER))

    def gone(self) -> Iterator[Finding]:
        """Partitions of the last run whose directories are no longer there."""
        for name, known in self.state.get("partitions", {}).items():
            path = os.fsdecode(bytes.fromhex(name))
            if path not in self.made and not os.path.isdir(path):
                yield found(
                    "catalog.partition-gone",
                    path,
                    topic=known["topic"],
                    partition=known["partition"],
                    size_bytes=known["bytes"],
                    segments=known["segments"],
                )
