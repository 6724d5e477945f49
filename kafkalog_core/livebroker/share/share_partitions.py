"""The partitions of share groups that are in use: read from the share coordinator, changed, and written to it.

`SharePartitionManager` and the parts of `SharePartition` of Kafka 4.3 that touch the log and the persister; the rules
of delivery are in `share_partition`. A change counts once it is written. Records that are acquired are not written, so
that they are available again after a stop, as with a broker.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalog_core.errors import KafkalogError
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.layout import CONTROL_BIT, MAX_INT64, TRANSACTIONAL_BIT
from kafkalog_core.livebroker.groups.group_configs import milliseconds_of
from kafkalog_core.livebroker.share.share_partition import Acquired, AcquireRequest, SharePartition
from kafkalog_core.serve.logs.file_ranges import FileRange
from kafkalog_core.serve.logs.partition_access import PartitionError
from kafkalog_core.serve.network.answers import release_ranges
from kafkalog_core.storage.framing import LogFraming
from kafkalog_core.structs import Struct
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkalog_core.livebroker.disks.live_disks import LiveDisks
    from kafkalog_core.livebroker.groups.group_configs import GroupConfigs
    from kafkalog_core.livebroker.logs.live_log import LiveLog
    from kafkalog_core.livebroker.share.share_partition import Acknowledgement
    from kafkalog_core.livebroker.share.share_states import ShareStates
    from kafkalog_core.topics.share_state_records import ShareKey, StateBatch

__all__ = ["Delivery", "DeliveryRequest", "SharePartitions"]

_READ_BYTES: Final = 1024 * 1024
_MOST_READS: Final = 64
_MOST_BATCHES: Final = 1024  # of one read; what comes after them is read next time
_UNDEFINED: Final = -1


class _Batch(NamedTuple):
    """A batch of the log: its offsets, and its bytes in a range."""

    first: int
    last: int
    position: int
    size_bytes: int


class _Loaded(Struct):
    """A partition in use; `incarnation`: that of the state that it was read from."""

    incarnation: int
    value: SharePartition


class DeliveryRequest(Struct, frozen=True, kw_only=True):
    """What a member fetches of one partition: at most `max_bytes`, but always one batch; see `AcquireRequest`."""

    member: str
    max_records: int
    batch_size: int
    max_bytes: int
    is_strict: bool


class Delivery(Struct, frozen=True):
    """Records for a member: a range of a file that its receiver releases, and the offsets in it that are acquired."""

    key: ShareKey
    member: str
    range: FileRange
    acquired: list[Acquired]

    @property
    def count(self) -> int:
        """The number of offsets."""
        return sum(each.last - each.first + 1 for each in self.acquired)


class SharePartitions:
    """All partitions of share groups that are in use. Thread-safe."""

    def __init__(
        self,
        disks: LiveDisks,
        states: ShareStates,
        configs: GroupConfigs,
        clock: Callable[[], float],
        clock_ms: Callable[[], int],
        changed: Callable[[str, int], None],
    ) -> None:
        """Begin with none.

        clock: monotonic seconds. clock_ms: time of day, in milliseconds since 1970. changed: called with topic and
            number after records may have become available.
        """
        self._disks = disks
        self._states = states
        self._configs = configs
        self._clock = clock
        self._clock_ms = clock_ms
        self._changed = changed
        self._loaded: dict[ShareKey, _Loaded] = {}
        self._lock = threading.RLock()

    def lock_ms(self, group: str) -> int:
        """Return for how long a member of a group has a record."""
        return self._configs.number(group, "share.record.lock.duration.ms")

    def _until_ms(self, group: str) -> int:
        return int(self._clock() * 1000) + self.lock_ms(group)

    def _limit(self, group: str) -> int:
        return self._configs.number(group, "share.delivery.count.limit")

    # --- states -------------------------------------------------------------------------------------------------------
    def _log(self, key: ShareKey) -> LiveLog:
        topic = self._disks.topic_name(key.topic_id)
        log = None if topic is None else self._disks.partition(topic, key.partition)
        if log is None:
            raise PartitionError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return log

    def _load(self, key: ShareKey, log: LiveLog) -> _Loaded:
        """Return a partition in use, which is read at its first use (`SharePartition.maybeInitialize`)."""
        incarnation = self._states.incarnation(key)
        found = self._loaded.get(key)
        if found is None or found.incarnation != incarnation:
            state = self._states.state(key)
            if state is None:  # READ_UNINITIALIZED_SHARE_PARTITION
                raise PartitionError(ErrorCode.UNKNOWN_SERVER_ERROR)
            start = self._first_start(key.group, log) if state.start < 0 else state.start
            found = self._loaded[key] = _Loaded(incarnation, SharePartition.of(start, state.batches))
        # Retention or DeleteRecords may have moved the log start offset since the last use.
        found.value = found.value.advance(log.log_start_offset)
        return found

    def is_loaded(self, key: ShareKey) -> bool:
        """Return whether a partition is in use."""
        with self._lock:
            found = self._loaded.get(key)
            return found is not None and found.incarnation == self._states.incarnation(key)

    def load(self, key: ShareKey) -> None:
        """Use a partition from now on; one that cannot be read is reported by the fetch that needs it."""
        with suppress(KafkalogError, OSError), self._lock:
            self._load(key, self._log(key))

    def _first_start(self, group: str, log: LiveLog) -> int:
        """Return where a group begins (`startOffsetDuringInitialization`)."""
        reset = self._configs.text(group, "share.auto.offset.reset")
        if reset == "earliest":
            return log.log_start_offset
        duration_ms = milliseconds_of(reset)
        if duration_ms is None:
            return log.high_watermark
        found = log.offset_for_time(self._clock_ms() - duration_ms)
        if found is None:  # ShareFetchUtils.offsetForTimestamp fails; the client asks again
            raise PartitionError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return found.offset

    def _write(self, key: ShareKey, log: LiveLog, after: SharePartition, batches: Sequence[StateBatch]) -> None:
        self._states.write(
            key,
            leader_epoch=log.leader_epoch,
            start=after.start,
            complete_count=after.complete_count,
            # What is below the start offset is done with, and the start says so.
            batches=[each for each in batches if each.last >= after.start],
        )

    # --- fetch --------------------------------------------------------------------------------------------------------
    def readable_bytes(self, key: ShareKey) -> int:
        """Return how many bytes can be read from the first record on that is available, at most `_READ_BYTES`.

        Raises KafkalogError and OSError.
        """
        with self._lock:
            log = self._log(key)
            value = self._load(key, log).value
            if not self._can_read(key.group, value, log):
                return 0
            found = log.read(value.next_fetch_offset, _READ_BYTES, is_committed=self._is_committed(key.group))
            # Only the size is of interest: the ranges hold files open.
            release_ranges(found.pieces)
            return found.size_bytes

    def _is_committed(self, group: str) -> bool:
        return self._configs.text(group, "share.isolation.level") == "read_committed"

    def _can_read(self, group: str, value: SharePartition, log: LiveLog) -> bool:
        is_full = not value.can_acquire(self._configs.number(group, "share.partition.max.record.locks"))
        return not is_full and value.next_fetch_offset < log.high_watermark

    def deliver(self, key: ShareKey, request: DeliveryRequest) -> Delivery | None:
        """Acquire records for a member; None: there are none for it now. Raises KafkalogError and OSError."""
        with self._lock:
            log = self._log(key)
            loaded = self._load(key, log)
            for _ in range(_MOST_READS):  # what is read may be all of aborted transactions
                before = loaded.value
                if request.max_records <= 0 or not self._can_read(key.group, before, log):
                    return None
                found = self._read(key, log, loaded, request)
                if found is not None or loaded.value.next_fetch_offset <= before.next_fetch_offset:
                    return found
            return None

    def _read(self, key: ShareKey, log: LiveLog, loaded: _Loaded, request: DeliveryRequest) -> Delivery | None:
        # Nothing is acquired beyond the high watermark, or with read_committed beyond the last stable offset.
        offset, is_committed = loaded.value.next_fetch_offset, self._is_committed(key.group)
        found = log.read(offset, min(request.max_bytes, _READ_BYTES), is_committed=is_committed)
        if not found.pieces:
            return None
        (piece,) = found.pieces
        try:
            rows = _rows_of(piece)
            batches = list(_batches(rows))
            # Compaction left no records there, so nobody could ever acknowledge these offsets.
            if batches[0].first > offset:
                loaded.value = loaded.value.skip([(offset, batches[0].first - 1)])
            # Before anything is acquired: an aborted record is never delivered, also to a member that reads only later
            # batches.
            loaded.value = before = loaded.value.skip(_aborted(rows, found.aborted or ()))
            acquire = AcquireRequest(
                member=request.member,
                max_records=request.max_records,
                batch_size=request.batch_size,
                max_in_flight=self._configs.number(key.group, "share.partition.max.record.locks"),
                max_deliveries=self._limit(key.group),
                until_ms=self._until_ms(key.group),
                is_strict=request.is_strict,
            )
            after, acquired = before.acquire(acquire, offset, [(each.first, each.last) for each in batches])
        except BaseException:
            piece.file.release()
            raise
        if not acquired:
            piece.file.release()
            return None
        loaded.value = after
        return Delivery(key, request.member, _slice(piece, batches, acquired), acquired)

    def give_back(self, delivery: Delivery) -> None:
        """Undo a delivery that is not sent; its range is the caller's."""
        with self._lock:
            loaded = self._loaded.get(delivery.key)
            if loaded is not None:
                loaded.value = loaded.value.give_back(delivery.member, delivery.acquired)

    # --- acknowledge and release --------------------------------------------------------------------------------------
    def acknowledge(self, key: ShareKey, member: str, given: Sequence[Acknowledgement]) -> None:
        """Carry out what a member says of records. Raises KafkalogError and OSError."""
        can_renew = self._configs.text(key.group, "share.renew.acknowledge.enable") == "true"
        renewed_ms = self._until_ms(key.group) if can_renew else None
        limit = self._limit(key.group)
        self._change(
            key, lambda value: value.acknowledge(member, given, max_deliveries=limit, renewed_until_ms=renewed_ms)
        )

    def release(self, key: ShareKey, member: str) -> None:
        """Release what a member has. Raises KafkalogError and OSError."""
        limit = self._limit(key.group)
        self._change(key, lambda value: value.release(member, max_deliveries=limit))

    def release_member(self, group: str, member: str) -> None:
        """Release what a member has in every partition, as its session has ended. Raises KafkalogError and OSError."""
        with self._lock:
            # Collected under the lock, changed one at a time: a write for many partitions would hold up all fetches.
            held = [
                key
                for key, loaded in self._in_use()
                if key.group == group and any(run.member == member for run in loaded.value.runs)
            ]
        self._change_all(held, lambda key: self.release(key, member))

    def expire(self) -> None:
        """Release records whose locks have ended. A timer calls this. Raises KafkalogError and OSError."""
        now_ms = int(self._clock() * 1000)
        with self._lock:
            ends = {key: loaded.value.first_expiry_ms() for key, loaded in self._in_use()}
        due = [key for key, end_ms in ends.items() if end_ms is not None and end_ms <= now_ms]
        self._change_all(
            due,
            lambda key: self._change(
                key, partial(SharePartition.expire, now_ms=now_ms, max_deliveries=self._limit(key.group))
            ),
        )

    def _in_use(self) -> list[tuple[ShareKey, _Loaded]]:
        """Return the partitions in use, and forget those whose state was begun again or deleted."""
        # A topic that was deleted and created again has a new state under the same key.
        for key, loaded in list(self._loaded.items()):
            if self._states.incarnation(key) != loaded.incarnation:
                del self._loaded[key]
        return list(self._loaded.items())

    @staticmethod
    def _change_all(keys: Iterable[ShareKey], change: Callable[[ShareKey], None]) -> None:
        """Change partitions; raise the first error at the end, so that it does not hinder the others."""
        failed: KafkalogError | OSError | None = None
        for key in keys:
            try:
                change(key)
            except (KafkalogError, OSError) as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def _change(
        self, key: ShareKey, change: Callable[[SharePartition], tuple[SharePartition, list[StateBatch]]]
    ) -> None:
        """Change a partition, and write what has changed; then let those know who wait for records."""
        with self._lock:
            log = self._log(key)
            loaded = self._load(key, log)
            after, batches = change(loaded.value)
            if batches:
                # The log first: what a client reads of the outcome has to be true after a crash too.
                self._write(key, log, after, batches)
            loaded.value = after
        # Without the lock: a fetch that wakes up takes it.
        topic = self._disks.topic_name(key.topic_id)
        if batches and topic is not None:
            self._changed(topic, key.partition)


def _rows_of(piece: FileRange) -> BatchColumns:
    """Return the headers of the batches in a range, up to `_MOST_BATCHES`."""
    memory = memoryview(os.pread(piece.file.descriptor, piece.size_bytes, piece.position))
    rows = BatchColumns(_MOST_BATCHES)
    LogFraming(0).walk(memory, 0, _UNDEFINED, MAX_INT64, check=False, into=rows)
    return rows


def _batches(rows: BatchColumns) -> Iterator[_Batch]:
    columns: list[Any] = [rows.column(name) for name in ("base_offset", "last_offset", "position", "size_bytes")]
    end = 0
    for first, last, position, size_bytes in zip(*columns, strict=True):
        yield _Batch(end if first < 0 else first, last, position, size_bytes)  # a compressed batch of magic 0 or 1
        end = last + 1


def _aborted(rows: BatchColumns, aborted: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the offsets of batches of aborted transactions (`fetchAbortedTransactionRecordBatches`).

    aborted: producer id and first offset of each. The first marker of a producer after that ends the transaction.
    """
    # In reverse, so that the next one is taken from the end.
    waiting = sorted(((first, producer) for producer, first in aborted), reverse=True)
    opened: set[int] = set()
    found: list[tuple[int, int]] = []
    columns: list[Any] = [rows.column(name) for name in ("base_offset", "last_offset", "attributes", "producer_id")]
    for first, last, attributes, producer in zip(*columns, strict=True):
        # A transaction is open from its first offset to its marker; batches of the producer outside of it are
        # delivered.
        while waiting and waiting[-1][0] <= last:
            opened.add(waiting.pop()[1])
        if producer not in opened:
            continue
        if attributes & CONTROL_BIT:
            opened.discard(producer)
        elif attributes & TRANSACTIONAL_BIT:
            found.append((first, last))
    return found


def _slice(piece: FileRange, batches: Sequence[_Batch], acquired: Sequence[Acquired]) -> FileRange:
    """Return the part of a range with the batches that are acquired (`ShareFetchUtils.maybeSliceFetchRecords`)."""
    start = max(bisect_right(batches, acquired[0].first, key=lambda each: each.first) - 1, 0)
    end = max(bisect_right(batches, acquired[-1].last, key=lambda each: each.first), start + 1)
    first, last = batches[start], batches[end - 1]
    size_bytes = last.position + last.size_bytes - first.position
    return FileRange(piece.file, piece.position + first.position, size_bytes)
