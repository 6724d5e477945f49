"""One partition of a share group: which records are available, acquired, acknowledged or archived (KIP-932).

A `SharePartition` is a value: each operation returns a new one with the states to write, and it counts once they are
written. Offsets from `start` on that no run holds were never acquired. The rules follow `SharePartition`,
`InFlightState` and `RecordState` of Kafka 4.3. Times are arguments.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.serve.logs.partition_access import PartitionError
from kafkalog_core.structs import Struct, replace
from kafkalog_core.topics.share_state_records import DeliveryState, StateBatch
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = [
    "AcknowledgeType",
    "Acknowledgement",
    "AcquireRequest",
    "Acquired",
    "InFlightRecords",
    "InvalidAcknowledgementError",
    "SharePartition",
]

_LEAST_THROTTLED: Final = 2  # SharePartition.MINIMUM_THROTTLE_RECORDS_DELIVERY_LIMIT


class AcknowledgeType(IntEnum):
    """What a member says of a record. A gap is an offset without a record, as compaction leaves it."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


_AFTER: Final = {
    AcknowledgeType.GAP: DeliveryState.ARCHIVED,
    AcknowledgeType.ACCEPT: DeliveryState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: DeliveryState.AVAILABLE,
    AcknowledgeType.REJECT: DeliveryState.ARCHIVED,
}


class InvalidAcknowledgementError(PartitionError):
    """An acknowledgement that is not valid; `message`: why, as clients show it."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.INVALID_RECORD_STATE) -> None:
        super().__init__(code)
        self.message = message


class InFlightRecords(NamedTuple):
    """Offsets from `first` to `last`, both included, of one state. `until_ms`: when the lock of a member ends."""

    first: int
    last: int
    state: DeliveryState
    deliveries: int
    member: str = ""
    until_ms: int = 0

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1


class Acquired(NamedTuple):
    """Offsets that a member has got, and how often they have been delivered now."""

    first: int
    last: int
    deliveries: int


class Acknowledgement(NamedTuple):
    """What a member says of offsets: one type for all of them, or one for each."""

    first: int
    last: int
    types: tuple[int, ...]


class AcquireRequest(Struct, frozen=True, kw_only=True):
    """What a member asks for, and the bounds of its group.

    Args:
        member: its id.
        max_records: how many it wants; more if a batch has more, unless `is_strict` (ShareAcquireMode).
        batch_size: offsets of one `Acquired`, if batches of the log end there.
        max_in_flight: offsets from the start offset to the last acquired one [group.share.partition.max.record.locks].
        max_deliveries: of a record [group.share.delivery.count.limit].
        until_ms: when the locks end.
    """

    member: str
    max_records: int
    batch_size: int
    max_in_flight: int
    max_deliveries: int
    until_ms: int
    is_strict: bool = False


class SharePartition(Struct, frozen=True):
    """`start`: the offset below which every record is done with; `runs`: in order, none below `start`."""

    start: int
    runs: tuple[InFlightRecords, ...] = ()

    @classmethod
    def of(cls, start: int, batches: Iterable[StateBatch]) -> SharePartition:
        """Return a partition as the log has it. Records that were acquired are available, as after a broker's stop."""
        runs = tuple(
            InFlightRecords(each.first, each.last, DeliveryState(each.state), each.deliveries) for each in batches
        )
        # The log start offset may have moved over records that were written before: only what remains counts.
        return cls(start, tuple(each for each in runs if each.first >= start)).moved()

    # --- what there is ------------------------------------------------------------------------------------------------
    @property
    def end(self) -> int:
        """The offset after the last one that was ever acquired."""
        return self.runs[-1].last + 1 if self.runs else self.start

    @property
    def next_fetch_offset(self) -> int:
        """The first offset that can be acquired."""
        at = self.start
        for run in self.runs:
            if run.first > at or run.state is DeliveryState.AVAILABLE:
                return at
            at = run.last + 1
        return at

    @property
    def complete_count(self) -> int:
        """The number of offsets from the start offset on that are done with."""
        return sum(run.size for run in self.runs if run.state.is_final)

    def can_acquire(self, max_in_flight: int) -> bool:
        """Return whether a fetch makes sense (`SharePartition.canAcquireRecords`)."""
        return self.next_fetch_offset < self.end or self.end - self.start < max_in_flight

    def first_expiry_ms(self) -> int | None:
        """Return when the first lock ends; None: there is none."""
        return min((run.until_ms for run in self.runs if run.state is DeliveryState.ACQUIRED), default=None)

    # --- acquire ------------------------------------------------------------------------------------------------------
    def acquire(
        self, request: AcquireRequest, fetch_offset: int, batches: Sequence[tuple[int, int]]
    ) -> tuple[SharePartition, list[Acquired]]:
        """Return what a member gets of batches that were read from an offset on.

        batches: first and last offset of each, in order. Nothing is to be written: acquired records are not kept.
        """
        if not batches or batches[-1][1] < self.start:
            return self, []
        # Bounded by offsets in flight, so that one slow record cannot make the state grow
        # (SharePartition.canAcquireRecords).
        last, room = batches[-1][1], min(request.max_records, request.max_in_flight - (self.end - self.start))
        if room <= 0:  # SharePartition.lastOffsetAndMaxRecordsToAcquire: between records in flight there is room
            last = min(last, self.end - 1)
            room = min(request.max_records, self.end - fetch_offset)
        first = max(fetch_offset, self.start)
        if room <= 0 or last < first:
            return self, []
        taker = _Taker(request, batches, room)
        for piece in self._pieces(first, last):
            if not taker.take(piece):
                break
        return self._with(taker.taken), taker.acquired()

    def skip(self, ranges: Iterable[tuple[int, int]]) -> SharePartition:
        """Archive offsets that nobody shall get: those without records, and those of aborted transactions.

        `maybeArchiveStaleBatches`, `filterAbortedTransactionalAcquiredRecords`. Nothing is to be written: they
        are found in the log again. ranges: first and last offset of each, in order.
        """
        gone = [
            piece._replace(state=DeliveryState.ARCHIVED)
            for first, last in ranges
            for piece in self._pieces(max(first, self.start), last)
            if piece.state is DeliveryState.AVAILABLE
        ]
        return self._with(gone).moved()

    def _pieces(self, first: int, last: int) -> Iterator[InFlightRecords]:
        """Yield the parts of runs between two offsets, and what is between them as available and never delivered."""
        at = first
        start = max(bisect_right(self.runs, first, key=lambda each: each.first) - 1, 0)
        for number in range(start, len(self.runs)):  # a slice would copy all that follows
            run = self.runs[number]
            if run.last < at:
                continue
            if run.first > last:
                break
            if run.first > at:
                yield InFlightRecords(at, run.first - 1, DeliveryState.AVAILABLE, 0)
                at = run.first
            end = min(run.last, last)
            yield run._replace(first=at, last=end)
            at = end + 1
        if at <= last:
            yield InFlightRecords(at, last, DeliveryState.AVAILABLE, 0)

    # --- acknowledge and release --------------------------------------------------------------------------------------
    def acknowledge(
        self,
        member: str,
        acknowledgements: Sequence[Acknowledgement],
        *,
        max_deliveries: int,
        renewed_until_ms: int | None,
    ) -> tuple[SharePartition, list[StateBatch]]:
        """Return what follows from what a member says, all of it or nothing.

        renewed_until_ms: when locks that it renews end; None: locks cannot be renewed. Raises
        InvalidAcknowledgementError. Offsets below the start offset are ignored: they are done with.
        """
        changed: list[InFlightRecords] = []
        for each in acknowledgements:
            if self.runs and each.last >= self.end:
                message = "Batch record not found. The last offset in request is past acquired records."
                raise InvalidAcknowledgementError(message, ErrorCode.INVALID_REQUEST)
            if changed and each.first <= changed[-1].last:
                raise InvalidAcknowledgementError("The record state is invalid: it was acknowledged before.")
            for first, last, kind in _spans(each, self.start):
                changed += [
                    _acknowledged(piece, member, kind, max_deliveries, renewed_until_ms)
                    for piece in self._pieces(first, last)
                ]
        # Locks are in memory alone, so nothing is written of a renewed one.
        written = [run for run in changed if run.state is not DeliveryState.ACQUIRED]
        return self._with(changed).moved(), _to_write(written)

    def release(self, member: str, *, max_deliveries: int) -> tuple[SharePartition, list[StateBatch]]:
        """Release what a member has, as its session has ended (`SharePartition.releaseAcquiredRecords`)."""
        return self._released(lambda run: run.member == member, max_deliveries)

    def expire(self, now_ms: int, *, max_deliveries: int) -> tuple[SharePartition, list[StateBatch]]:
        """Release what was locked until now (`SharePartition.releaseAcquisitionLockOnTimeout`)."""
        return self._released(lambda run: run.until_ms <= now_ms, max_deliveries)

    def _released(
        self, is_wanted: Callable[[InFlightRecords], bool], max_deliveries: int
    ) -> tuple[SharePartition, list[StateBatch]]:
        gone = [
            _available(run, max_deliveries)
            for run in self.runs
            if run.state is DeliveryState.ACQUIRED and is_wanted(run)
        ]
        return self._with(gone).moved(), _to_write(gone)

    def give_back(self, member: str, acquired: Iterable[Acquired]) -> SharePartition:
        """Return it without a delivery that was never sent. Nothing is to be written."""
        undone = [
            piece._replace(state=DeliveryState.AVAILABLE, deliveries=each.deliveries - 1, member="", until_ms=0)
            for each in acquired
            for piece in self._pieces(max(each.first, self.start), each.last)
            # Only what this fetch got: a lock that ended meanwhile has made it available, or another member's.
            if piece.state is DeliveryState.ACQUIRED and piece.member == member and piece.deliveries == each.deliveries
        ]
        return self._with(undone)

    def advance(self, log_start_offset: int) -> SharePartition:
        """Return it after the log start offset has moved (`SharePartition.updateCacheAndOffsets`)."""
        if log_start_offset <= self.start:
            return self
        runs = (run._replace(first=max(run.first, log_start_offset)) for run in self.runs)
        return SharePartition(log_start_offset, tuple(run for run in runs if run.first <= run.last)).moved()

    # --- runs ---------------------------------------------------------------------------------------------------------
    def _with(self, changed: Sequence[InFlightRecords]) -> SharePartition:
        """Return it with some offsets in another state; `changed` is in order."""
        if not changed:
            return self
        # only what changes and its neighbours are gone through: there may be thousands of others
        low = max(bisect_left(self.runs, changed[0].first, key=lambda each: each.last) - 1, 0)
        high = bisect_right(self.runs, changed[-1].last, key=lambda each: each.first) + 1
        found: list[InFlightRecords] = []
        for run in _laid_over(self.runs[low:high], changed):
            # Neighbours of one state become one run, so that the state grows with its changes and not with its offsets.
            if found and found[-1].last + 1 == run.first and found[-1][2:] == run[2:]:
                found[-1] = found[-1]._replace(last=run.last)
            else:
                found.append(run)
        return replace(self, runs=(*self.runs[:low], *found, *self.runs[high:]))

    def moved(self) -> SharePartition:
        """Return it with the start offset after what is done with (`maybeUpdateCachedStateAndOffsets`)."""
        start, number = self.start, 0
        while number < len(self.runs) and self.runs[number].first == start and self.runs[number].state.is_final:
            start, number = self.runs[number].last + 1, number + 1
        return self if not number else SharePartition(start, self.runs[number:])


class _Taker:
    """What one fetch acquires."""

    def __init__(self, request: AcquireRequest, batches: Sequence[tuple[int, int]], room: int) -> None:
        self.taken: list[InFlightRecords] = []
        self._request = request
        self._batches = batches
        self._left = room

    def take(self, piece: InFlightRecords) -> bool:
        """Acquire what there is room for; return whether to go on."""
        if self._left <= 0:
            return False
        if piece.state is not DeliveryState.AVAILABLE:
            return True
        # Half of the limit, rounded up: from there on, a record that makes its readers fail is delivered apart.
        limit = max(_LEAST_THROTTLED, -(-self._request.max_deliveries // 2))
        is_throttled = piece.deliveries >= limit
        if is_throttled and self.taken:
            return False  # a record that may be a bad one is not delivered among others (shouldThrottleRecordsDelivery)
        wanted = self._left
        if is_throttled:
            # Half as many at each further delivery, until the bad record is found alone.
            wanted = min(wanted, max(1, piece.size >> (piece.deliveries - limit + 1)))
            if self._request.max_deliveries > 2 and piece.deliveries >= self._request.max_deliveries - 1:
                wanted = 1  # its last delivery is its own
        last = min(piece.last, piece.first + wanted - 1)
        if not is_throttled and not self._request.is_strict:
            last = min(piece.last, self._end_of_batch(last))
        run = InFlightRecords(
            piece.first,
            last,
            DeliveryState.ACQUIRED,
            piece.deliveries + 1,
            self._request.member,
            self._request.until_ms,
        )
        self.taken.append(run)
        self._left -= run.size
        return not is_throttled

    def _end_of_batch(self, offset: int) -> int:
        """Return the last offset of the batch that holds an offset (`lastOffsetFromBatchWithRequestOffset`)."""
        number = bisect_right(self._batches, offset, key=lambda each: each[0]) - 1
        return max(offset, self._batches[number][1]) if number >= 0 else offset

    def acquired(self) -> list[Acquired]:
        """Return what the response states: new records in parts of about the batch size (`createBatches`)."""
        found: list[Acquired] = []
        for run in self.taken:
            first = run.first
            # Only new records: parts of runs that were delivered before have one count each.
            if run.deliveries == 1 and run.size > self._request.batch_size and not self._request.is_strict:
                for base, _ in self._batches:
                    if base > run.last:
                        break
                    if base - first >= self._request.batch_size:
                        found.append(Acquired(first, base - 1, 1))
                        first = base
            found.append(Acquired(first, run.last, run.deliveries))
        return found


def _laid_over(below: Sequence[InFlightRecords], above: Sequence[InFlightRecords]) -> Iterator[InFlightRecords]:
    """Yield runs in order, those of `above` where both have an offset; both are in order."""
    rest = list(below[::-1])
    for new in above:
        # Cut what is below at both ends of the new run; the part after it may meet the next one.
        while rest and rest[-1].first < new.first:
            run = rest.pop()
            yield run._replace(last=min(run.last, new.first - 1))
            if run.last > new.last:
                rest.append(run._replace(first=new.last + 1))
                break
        while rest and rest[-1].first <= new.last:
            run = rest.pop()
            if run.last > new.last:
                rest.append(run._replace(first=new.last + 1))
        yield new
    yield from rest[::-1]


def _spans(given: Acknowledgement, start: int) -> Iterator[tuple[int, int, AcknowledgeType]]:
    """Yield first and last offset of each type, from the start offset on."""
    # One type for the whole batch, or one for each offset (ShareFetchRequest, AcknowledgeTypes).
    if len(given.types) == 1:
        if given.last >= start:
            yield max(given.first, start), given.last, AcknowledgeType(given.types[0])
        return
    at = 0
    while at < len(given.types):
        end = at + 1
        while end < len(given.types) and given.types[end] == given.types[at]:
            end += 1
        if given.first + end > start:
            yield max(given.first + at, start), given.first + end - 1, AcknowledgeType(given.types[at])
        at = end


def _acknowledged(
    piece: InFlightRecords, member: str, kind: AcknowledgeType, max_deliveries: int, renewed_until_ms: int | None
) -> InFlightRecords:
    if piece.state is not DeliveryState.ACQUIRED:
        raise InvalidAcknowledgementError("The batch cannot be acknowledged. The batch is not in the acquired state.")
    if piece.member != member:
        raise InvalidAcknowledgementError("Member is not the owner of batch record")
    if kind is AcknowledgeType.RENEW:
        if renewed_until_ms is None:
            raise InvalidAcknowledgementError("Renewing acquisition locks is not enabled for the group.")
        return piece._replace(until_ms=renewed_until_ms)
    if kind is AcknowledgeType.RELEASE:
        return _available(piece, max_deliveries)
    return piece._replace(state=_AFTER[kind], member="", until_ms=0)


def _available(run: InFlightRecords, max_deliveries: int) -> InFlightRecords:
    """Return a run that can be delivered again, or is archived if it was too often (`InFlightState.tryUpdateState`)."""
    state = DeliveryState.ARCHIVED if run.deliveries >= max_deliveries else DeliveryState.AVAILABLE
    return run._replace(state=state, member="", until_ms=0)


def _to_write(runs: Iterable[InFlightRecords]) -> list[StateBatch]:
    """Return what the log gets: neighbours of one state are one batch."""
    found: list[StateBatch] = []
    for run in runs:
        batch = StateBatch(run.first, run.last, run.state, run.deliveries)
        if found and found[-1].last + 1 == batch.first and found[-1][2:] == batch[2:]:
            found[-1] = found[-1]._replace(last=batch.last)
        else:
            found.append(batch)
    return found
