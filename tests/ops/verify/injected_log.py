"""Healthy logs in several flavours, made from a seed as the releases write them: batches, segments, and their indexes.

Nothing of kafkalog is used, so that what it says of them is judged by another hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.structs import Struct, field, replace
from tests.support.build import (
    ABORT,
    COMMIT,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    Producer,
    Record,
    batch_v2,
    message_v1,
    txn_marker,
    wrapper_v1,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from random import Random

__all__ = [
    "FLAVOURS",
    "TOPICS",
    "Batch",
    "Broker",
    "Log",
    "Segment",
    "Writer",
    "batches_of",
    "compacted",
    "states_at",
]

FLAVOURS: Final = ("plain", "compressed", "transactional", "compacted", "legacy", "mixed", "crashed")
"""Plain, compressed and transactional logs of today's brokers; compacted ones; magic 1; magic 1 below 2; killed."""
TOPICS: Final = ("orders", "other")
START_MS: Final = 1_700_000_000_000
INTERVAL_BYTES: Final = 300


class Batch(Struct, frozen=True, kw_only=True):
    """An entry of a log; `base` is that of the first record, `top` the offset of the largest timestamp.

    `is_first`: an append begins with it. `marker`: what ends a transaction here.
    """

    data: bytes
    base: int
    last: int
    timestamp_ms: int
    top: int
    epoch: int = -1
    producer_id: int = -1
    sequence: int = -1
    marker: int | None = None
    is_transactional: bool = False
    is_first: bool = True
    is_v1: bool = False
    is_wrapper: bool = False
    keys: tuple[bytes | None, ...] = ()


class Segment(Struct):
    """Batches, and the files that go with them."""

    base: int
    batches: list[Batch] = field(default_factory=list)
    aborted: list[tuple[int, int, int, int]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The base offset as it is in the names of the files."""
        return f"{self.base:020d}"

    @property
    def data(self) -> bytes:
        """The log."""
        return b"".join(batch.data for batch in self.batches)

    @property
    def positions(self) -> list[int]:
        """Where each batch starts."""
        starts, position = [], 0
        for batch in self.batches:
            starts.append(position)
            position += len(batch.data)
        return starts

    def indexes(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Entries of the offset index and of the time index of a closed segment."""
        offsets: list[tuple[int, int]] = []
        times: list[tuple[int, int]] = []
        top, since = (-1, 0), 0
        for batch, position in zip(self.batches, self.positions, strict=True):
            if batch.timestamp_ms > top[0]:
                top = (batch.timestamp_ms, batch.top - self.base)
            if since > INTERVAL_BYTES and batch.is_first:
                offsets.append(((batch.base if batch.is_v1 else batch.last) - self.base, position))
                if top[0] > (times[-1][0] if times else -1):
                    times.append(top)
                since = 0
            since += len(batch.data)
        if top[0] > (times[-1][0] if times else -1):
            times.append(top)
        return offsets, times


class Log(Struct):
    """One partition. `snapshots` by offset; `epochs`: (epoch, start)."""

    topic: str
    segments: list[Segment] = field(default_factory=list)
    snapshots: dict[int, list[Producer]] = field(default_factory=dict)
    epochs: list[tuple[int, int]] = field(default_factory=list)

    @property
    def start(self) -> int:
        """Where the log starts."""
        return self.segments[0].base

    @property
    def end(self) -> int:
        """The offset behind the last batch."""
        return self.segments[-1].batches[-1].last + 1


class Broker(Struct, frozen=True):
    """A log directory that has been written: its path, flavour and logs."""

    path: Path
    flavour: str
    logs: tuple[Log, ...]

    @property
    def is_clean(self) -> bool:
        """Whether it has the mark of a clean stop."""
        return self.flavour != "crashed"

    def log_of(self, file: str) -> Log | None:
        """The log that a file, named from here on, belongs to."""
        return next((log for log in self.logs if file.startswith(f"{log.topic}-0/")), None)


# --- appends ----------------------------------------------------------------------------------------------------------
class Writer:
    """Appends batches as a leader does, rolls segments, and keeps the producers' state."""

    def __init__(self, topic: str, flavour: str, random: Random) -> None:
        self._flavour = flavour
        self._random = random
        self._offset = random.choice((0, 300)) if flavour in {"plain", "legacy"} else 0
        self._log = Log(topic, [Segment(self._offset)], epochs=[(0, self._offset)])
        self._epoch = 0
        self._now_ms = START_MS
        self._sequences: dict[int, int] = {}
        self._open: dict[int, int] = {}
        self._states: dict[int, Producer] = {}

    def log(self) -> Log:
        """The whole log: 3 to 5 segments."""
        for number in range(segments := self._random.randint(3, 5)):
            for _ in range(self._random.randint(4, 8)):
                self._append(is_v1=self._flavour == "legacy" or (self._flavour == "mixed" and number < segments // 2))
            while number == segments - 1 and self._open:
                self._end(next(iter(self._open)))
            if number < segments - 1:
                self._roll()
        if self._flavour != "crashed":
            self._log.snapshots[self._offset] = list(self._states.values())
        if self._flavour == "mixed":  # epochs are known from the first batch of magic 2 on
            newer = [batch for batch in batches_of(self._log.segments) if not batch.is_v1]
            self._log.epochs = sorted({batch.epoch: batch.base for batch in reversed(newer)}.items())
        return self._log

    def _roll(self) -> None:
        self._log.segments.append(Segment(self._offset))
        self._log.snapshots[self._offset] = list(self._states.values())
        if self._random.random() < 0.6:
            self._epoch += self._random.randint(1, 3)
            self._log.epochs.append((self._epoch, self._offset))

    def _append(self, *, is_v1: bool) -> None:
        if is_v1:
            self._append_v1()
        elif self._flavour == "transactional":
            self._append_transactional()
        elif self._flavour in {"plain", "mixed"}:
            self._put(self._batch(-1))
        else:
            self._put(self._batch(self._random.choice((7, 8))))

    def _records(self, count: int) -> list[Record]:
        records = []
        for number in range(count):
            self._now_ms += self._random.choice((-20, 1, 5, 50))
            key = f"key {self._random.randrange(6)}".encode()
            value = bytes(self._random.choices(range(32, 127), k=self._random.randint(10, 60)))
            records.append(Record(offset=self._offset + number, timestamp_ms=self._now_ms, key=key, value=value))
        return records

    def _batch(self, producer_id: int, *, is_transactional: bool = False) -> Batch:
        records = self._records(self._random.randint(1, 4))
        codec = NONE if self._flavour != "compressed" else self._random.choice((GZIP, SNAPPY, LZ4, ZSTD))
        sequence = -1
        if producer_id >= 0:
            sequence = self._sequences.get(producer_id, 0)
            self._sequences[producer_id] = sequence + len(records)
        data = batch_v2(
            records,
            codec=codec,
            leader_epoch=self._epoch,
            producer_id=producer_id,
            producer_epoch=-1 if producer_id < 0 else 0,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        return Batch(
            data=data,
            base=self._offset,
            last=records[-1].offset,
            timestamp_ms=max(record.timestamp_ms for record in records),
            top=records[-1].offset,
            epoch=self._epoch,
            producer_id=producer_id,
            sequence=sequence,
            is_transactional=is_transactional,
            keys=tuple(record.key for record in records),
        )

    def _append_transactional(self) -> None:
        producer_id = self._random.choice((7, 8))
        if producer_id in self._open and self._random.random() < 0.5:
            self._end(producer_id)
            return
        self._open.setdefault(producer_id, self._offset)
        self._put(self._batch(producer_id, is_transactional=True))

    def _end(self, producer_id: int) -> None:
        kind = self._random.choice((ABORT, COMMIT))
        self._now_ms += 1
        data = txn_marker(
            kind,
            offset=self._offset,
            producer_id=producer_id,
            coordinator_epoch=3,
            timestamp_ms=self._now_ms,
            leader_epoch=self._epoch,
        )
        first = self._open.pop(producer_id)
        if kind == ABORT:
            stable = min(self._open.values(), default=self._offset + 1)
            self._log.segments[-1].aborted.append((producer_id, first, self._offset, stable))
        batch = Batch(
            data=data,
            base=self._offset,
            last=self._offset,
            timestamp_ms=self._now_ms,
            top=self._offset,
            epoch=self._epoch,
            producer_id=producer_id,
            marker=kind,
            is_transactional=True,
        )
        self._put(batch)

    def _put(self, batch: Batch) -> None:
        self._log.segments[-1].batches.append(batch)
        self._offset = batch.last + 1
        if batch.producer_id >= 0:
            self._states[batch.producer_id] = _with_batch(self._states.get(batch.producer_id), batch)

    def _append_v1(self) -> None:
        """An append is one compressed message, or some plain ones."""
        records = self._records(self._random.randint(1, 3))
        if self._random.random() < 0.4:
            top = max(record.timestamp_ms for record in records)
            last = records[-1].offset
            data = wrapper_v1(records, codec=GZIP)
            batch = Batch(data=data, base=self._offset, last=last, timestamp_ms=top, top=last, is_v1=True)
            self._put(replace(batch, is_wrapper=True, keys=tuple(record.key for record in records)))
            return
        for number, record in enumerate(records):
            offset, time = record.offset, record.timestamp_ms
            batch = Batch(data=message_v1(record), base=offset, last=offset, timestamp_ms=time, top=offset, is_v1=True)
            self._put(replace(batch, is_first=number == 0, keys=(record.key,)))


def compacted(log: Log, random: Random) -> Log:
    """What the cleaner leaves below the last segment: about each other batch, with all of its records."""
    for segment in log.segments[:-1]:
        segment.batches[:] = segment.batches[random.choice((0, 1)) :: 2]
    return log


def batches_of(segments: Sequence[Segment]) -> list[Batch]:
    """All batches in order."""
    return [batch for segment in segments for batch in segment.batches]


def states_at(log: Log, offset: int) -> list[Producer]:
    """What the batches below an offset leave of each producer."""
    states: dict[int, Producer] = {}
    for batch in batches_of(log.segments):
        if batch.producer_id >= 0 and batch.last < offset:
            states[batch.producer_id] = _with_batch(states.get(batch.producer_id), batch)
    return list(states.values())


def _with_batch(state: Producer | None, batch: Batch) -> Producer:
    state = replace(state or Producer(producer_id=batch.producer_id), timestamp_ms=batch.timestamp_ms)
    if batch.marker is not None:
        return replace(state, coordinator_epoch=3, current_txn_first_offset=-1)
    delta = batch.last - batch.base
    first = state.current_txn_first_offset
    if batch.is_transactional and first < 0:
        first = batch.base
    return replace(
        state,
        last_sequence=batch.sequence + delta,
        last_offset=batch.last,
        offset_delta=delta,
        current_txn_first_offset=first,
    )
