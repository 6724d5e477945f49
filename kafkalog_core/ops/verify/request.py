"""What to verify and how deep, and the interfaces between the parts of the check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Protocol, Self

from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.kafka.rules.batch_checks import CheckedLog
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from kafkalog_core.engine.targets import Target
    from kafkalog_core.format.columns import BatchColumns, DamageColumns
    from kafkalog_core.kafka.rules.producers import Marker
    from kafkalog_core.kafka.sim.batch_places import PlaceBounds
    from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
    from kafkalog_core.ops.verify.verdict import PartitionVerdict, SegmentVerdict
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.scan import Damage, Run

__all__ = [
    "NO_CHAIN",
    "Chain",
    "Check",
    "Depth",
    "Keeper",
    "Level",
    "Reader",
    "Readers",
    "Reading",
    "SegmentCheck",
    "VerifyRequest",
    "Watch",
]


class Depth(Struct, frozen=True, kw_only=True):
    """The depth of the check; the fields are those of `VerifyRequest`."""

    level: Level
    now_ms: int
    max_batch_bytes: int

    @property
    def of_metadata(self) -> Level:
        """The level for the metadata log and its snapshots: what is in them decides about files around the logs."""
        return "headers" if self.level == "files" else self.level


class VerifyRequest(Struct, frozen=True, kw_only=True):
    """What to verify.

    Args:
        targets: files, partitions and log directories, from `targets.resolve`.
        now_ms: time of the check, ms since 1970: later timestamps are in the future.
        level: `files` opens every log and reads those of the metadata log alone, `headers` reads batch headers,
            `checksums` every byte, `records` also decodes every record. No option of `verify` is `files`: it finds
            nothing about a log, and is for callers that ask about the other files.
        max_batch_bytes: size limit of a batch, also when it is decompressed.
        jobs: number of processes; 1: only this one.
        others: targets that other calls verify at the same time, before `verify_across` compares all of them; a
            partition that is missing here may be there. None: these targets are all.
        kafka: release and settings of the broker that would start on the directories; by default the release that left
            each of them, and the settings that its metadata log holds.
    """

    targets: tuple[Target, ...]
    now_ms: int
    level: Level = "records"
    max_batch_bytes: int = MAX_BATCH_BYTES
    jobs: int = 1
    others: tuple[Target, ...] | None = None
    kafka: SettingsRequest = field(default_factory=SettingsRequest)


Level = Literal["files", "headers", "checksums", "records"]


class SegmentCheck(Struct, frozen=True, kw_only=True):
    """One segment to check: plain values, which another process can take.

    Args:
        segment: its files.
        topic: from the name of the directory.
        partition: from the name of the directory.
        is_v07: whether the log is of Kafka 0.7.
        is_last: whether it is the active segment, the last one of its partition.
        level, now_ms, max_batch_bytes: see `VerifyRequest`.
        bounds: what bounds its offsets; None: its base offset alone.
    """

    segment: Segment
    topic: str | None
    partition: int | None
    is_v07: bool
    is_last: bool
    level: Level
    now_ms: int
    max_batch_bytes: int
    bounds: PlaceBounds | None = None

    @property
    def log(self) -> CheckedLog:
        """The log file, for the checks of batches."""
        return CheckedLog(
            path="" if self.segment.log is None else self.segment.log.path,
            base_offset=self.segment.base_offset,
            size_bytes=self.segment.size_bytes,
            is_v07=self.is_v07,
            opens_records=self.level == "records",
            now_ms=self.now_ms,
            max_batch_bytes=self.max_batch_bytes,
        )


class Check(Protocol):
    """One check of one segment, created with its `SegmentCheck` and a `Sink`; all calls come in file order."""

    def run(self, run: Run) -> None:
        """Take whole batches with correct checksums (not computed at level headers), valid until the call returns."""

    def damage(self, damage: Damage) -> None:
        """Take bytes that do not form a batch, or, of size 0, a note on the batch before."""

    def finish(self, size_bytes: int) -> None:
        """Finish the check at the end of the log, byte `size_bytes`."""


class Watch(Protocol):
    """An observer of a scan, which reports no findings; all calls come in file order."""

    def run(self, run: Run) -> None:
        """Take whole batches, valid until the call returns."""

    def damage(self, damage: Damage) -> None:
        """Take the same damage as a `Check`."""

    def bulk(self, damaged: DamageColumns) -> None:
        """Take many damaged places at once, before, between or after the batches of the next run."""


class Chain(Protocol):
    """The receiver of the batches of one segment, in order; they are valid until the call returns."""

    def replay(self, batches: BatchColumns, markers: Mapping[int, Marker], holes: Sequence[int] = ()) -> None:
        """Take a run of batches, some of which have a producer.

        Args:
            batches: of the run.
            markers: the control batches among them, by row.
            holes: rows before which something could not be read.
        """

    def hole(self) -> None:
        """Note that a part of the log could not be read here."""


class _NoChain:
    """A chain that ignores all batches, for a segment whose earlier producers are unknown."""

    def replay(self, batches: BatchColumns, markers: Mapping[int, Marker], holes: Sequence[int] = ()) -> None:
        """Ignore the batches."""

    def hole(self) -> None:
        """Ignore the hole."""


NO_CHAIN: Final[Chain] = _NoChain()


class Reading(Protocol):
    """The segments of one partition while they are read; a context manager, because it may hold open files."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def unchanged(self, partition: Partition, context: PartitionContext) -> PartitionVerdict | None:
        """Return the verdict of an earlier run if nothing has changed since, and take all segments; else None.

        Called first; `check` and `others` are not called after a verdict.
        """

    def unread_bytes(self, task: SegmentCheck) -> int:
        """Return how many bytes of log `check` would read."""

    def check(self, task: SegmentCheck, chain: Chain, advance: Callable[[int], None]) -> SegmentVerdict:
        """Check a segment, as `check_segment` does."""

    def others(self, partition: Partition, advance: Callable[[int], None]) -> None:
        """Check the other segments of the partition; called once, before the live segments are checked."""

    def finish(self, verdict: PartitionVerdict | None = None) -> object:
        """Return what `Readers.received` gets, after all segments were read.

        verdict: of the partition; None: this reading has read only some of its segments.
        """


class Reader(Protocol):
    """A source of readings: plain values, sent to the process that checks the partition."""

    def open(self) -> Reading:
        """Return a new reading."""


class Readers(Protocol):
    """The readers of all partitions; takes the results of their readings."""

    def reader_of(self, path: str) -> Reader:
        """Return the reader of the partition in this directory."""

    def received(self, path: str, made: object) -> None:
        """Take the result of one reading of a partition; a partition that is read in parts has several."""


class Keeper(Protocol):
    """The store of lines between runs: partitions by absolute path, segments by number, from 0."""

    def lines_of(self, partition: str) -> Sequence[str]:
        """Return the lines of a partition's first segments, in order."""

    def keep(self, partition: str, index: int, line: str) -> None:
        """Keep the line of a segment; it replaces the lines of this segment and of all after it."""

    def skipped(self, size_bytes: int) -> None:
        """Count bytes of log that were not read again."""
