"""One read of each log for both: the checks of verify, and the recovery of the simulated start.

verify reads the segments of a partition in their order, and the start recovers them in this order too. So what verify
reads of a segment is what its recovery reads, up to the first damage; from there on the start reads on as a broker
does, and what verify reads is what a truncation there deletes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from kafkalog_core.format.names import METADATA_TOPIC
from kafkalog_core.ops.preflight.partition_starts import CutCount, Loading, load_partition
from kafkalog_core.ops.repair.loss import LossCount
from kafkalog_core.ops.verify.segment import SCANS, check_segment
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.paths import absolute
from kafkalog_core.storage.scan import Damage, Run, ScanPlace
from kafkalog_core.storage.source import WINDOW_BYTES
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from kafkalog_core.format.columns import DamageColumns
    from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
    from kafkalog_core.kafka.sim.start.starting_segment import LogReading
    from kafkalog_core.ops.preflight.partition_starts import PartitionStart
    from kafkalog_core.ops.repair.context import PartitionFacts
    from kafkalog_core.ops.verify.request import Chain, Reader, SegmentCheck
    from kafkalog_core.ops.verify.verdict import PartitionVerdict, SegmentVerdict
    from kafkalog_core.storage.logdir import PartitionPath
    from kafkalog_core.storage.partition import Partition

__all__ = ["StartReader", "StartReaders"]


class StartReader(Struct, frozen=True):
    """Reads one partition, whose start is simulated: its directory, the log directory, and what is known of it."""

    place: PartitionPath
    log_dir: str
    facts: PartitionFacts

    def open(self) -> _StartReading:
        """Return a new reading."""
        return _StartReading(self)


class StartReaders:
    """The readers of all partitions by their directories, and their starts when they were read."""

    def __init__(self, readers: Mapping[str, StartReader]) -> None:
        self._readers = readers
        self._starts: dict[str, PartitionStart] = {}

    def reader_of(self, path: str) -> Reader:
        """Return the reader of a partition."""
        return self._readers.get(absolute(path), SCANS)

    def received(self, path: str, made: object) -> None:
        """Take the start of a partition."""
        if made is not None:
            self._starts[absolute(path)] = made  # type: ignore[assignment]

    def starts(self) -> list[PartitionStart]:
        """Return the starts of all partitions, in their order; verify does not read what it cannot list."""
        return [
            self._starts.get(path) or load_partition(each.place, each.log_dir, each.facts)
            for path, each in self._readers.items()
        ]


class _StartReading:
    def __init__(self, reader: StartReader) -> None:
        self._reader = reader
        self._loading: Loading | None = None
        self._waiting: LogReading | None = None
        self._partition: Partition | None = None
        self._paths: dict[int, str] = {}
        self._cuts: list[tuple[str, int]] = []
        facts = reader.facts
        self._count = None if reader.place.name.topic == METADATA_TOPIC else LossCount(facts.high_watermark)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: no file is open."""

    def unchanged(self, partition: Partition, context: PartitionContext) -> None:
        """Begin the start, and return None: no earlier run is known."""
        del context
        # Listed again: the paths of a start are absolute
        self._partition = read_partition(self._reader.place.path)
        self._paths = {each.base_offset: each.files[0].path for each in self._partition.segments}
        self._loading = Loading(self._partition, self._reader.facts)
        first = partition.segments[0].base_offset if partition.segments else None
        self._waiting = self._loading.go_on(first)

    def unread_bytes(self, task: SegmentCheck) -> int:
        """Return 0 where the start reads the log too: other processes would not have its producers."""
        return 0 if self._waiting is not None else SCANS.open().unread_bytes(task)

    def check(self, task: SegmentCheck, chain: Chain, advance: Callable[[int], None]) -> SegmentVerdict:
        """Check a segment, and let the start read it at the same time if it recovers it."""
        loading, base_offset, size_bytes = self._loading, task.segment.base_offset, task.segment.size_bytes
        self._walk_to(base_offset)
        reading = self._waiting if self._is_for(task) else None
        watch = _Watch(reading, self._count if reading is not None or self._cuts else None)
        verdict = check_segment(task, chain, advance, watch)
        if (reading is not None and watch.has_counted) or self._cuts:
            self._cuts.append((self._paths.get(base_offset, ""), watch.position))
            if self._count is not None:
                self._count.begin(size_bytes - watch.position)
        if reading is not None and loading is not None:
            if watch.ends_before(size_bytes):
                reading.walk(watch.place)
            self._waiting = loading.go_on(base_offset + 1)
        return verdict

    def _is_for(self, task: SegmentCheck) -> bool:
        """Return whether the start waits for what verify is about to read."""
        reading, segment = self._waiting, task.segment
        if reading is None or reading.segment is None or not reading.is_whole:
            return False
        own = reading.segment
        is_same = (own.base_offset, own.size_bytes) == (segment.base_offset, segment.size_bytes)
        return is_same and reading.limit_bytes >= task.max_batch_bytes

    def _walk_to(self, base_offset: int | None) -> None:
        """Let the start alone read the logs before a segment; None: all that are left."""
        while self._loading is not None and self._waiting is not None:
            own = self._waiting.segment
            if base_offset is not None and own is not None and own.base_offset >= base_offset:
                return
            self._waiting.walk()
            self._waiting = self._loading.go_on(base_offset)

    def others(self, partition: Partition, advance: Callable[[int], None]) -> None:
        """Ignore the other segments, as `SCANS` does."""

    def finish(self, verdict: PartitionVerdict | None = None) -> PartitionStart | None:
        """Return the start after its end; None: other processes read the partition."""
        loading, partition = self._loading, self._partition
        if verdict is None or loading is None or partition is None:
            return None
        self._walk_to(None)
        count = None
        if self._cuts and self._count is not None:
            count = CutCount(self._cuts, self._count.loss(partition, self._cuts[0][0]))
        return loading.start(self._reader.place, self._reader.log_dir, count)


class _Watch:
    """Sees a scan: what is before the first damage is for a recovery, the rest for the count of what it deletes."""

    def __init__(self, reading: LogReading | None, count: LossCount | None) -> None:
        self._reading = reading
        self._count = count
        self._has_stopped = False
        self.place: ScanPlace | None = None
        self.has_counted = False

    @property
    def position(self) -> int:
        """The byte up to which the recovery has read."""
        return 0 if self.place is None else self.place.position

    def ends_before(self, size_bytes: int) -> bool:
        """Return whether the recovery has not read a log of this size, and did not stop at a batch."""
        return not self._has_stopped and self.position < size_bytes

    def run(self, run: Run) -> None:
        """Take whole batches."""
        if self._reading is None or self.has_counted:
            self._counted(run)
        elif not self._has_stopped:
            self._has_stopped = not self._reading.take(run)
            self.place = ScanPlace(run.end, run.batches.column("last_offset")[-1], WINDOW_BYTES)

    def damage(self, damage: Damage) -> None:
        """Take damage."""
        if damage.size_bytes or self.has_counted or self._reading is None:
            self._counted(damage)
        elif not self._has_stopped:
            self._has_stopped = not self._reading.take(damage)

    def bulk(self, damaged: DamageColumns) -> None:
        """Take many damaged places."""
        position, size_bytes = damaged.column("position")[0], max(damaged.column("size_bytes"))
        self._counted(Damage(position, size_bytes, "crc-mismatch", "", None))

    def _counted(self, item: Run | Damage) -> None:
        self.has_counted = not self._has_stopped
        if self._count is not None and self.has_counted:
            self._count.take(item)
