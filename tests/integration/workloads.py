"""Random logs of compacted topics, each from a seed: what producers of several kinds and releases may have written."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from kafkalog_core.structs import Struct, field, replace
from tests.support.build import (
    ABORT,
    COMMIT,
    FRAMINGS,
    GZIP,
    LEADER_CHANGE,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    Record,
    batch_v2,
    control_batch,
    message_v0,
    message_v1,
    txn_marker,
    wrapper_v0,
    wrapper_v1,
)

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_MS: Final = 1_000_000_000_000
MARKER_KEYS: Final = (b"\0\0\0\0", b"\0\0\0\1")  # as the control records of ABORT and COMMIT have them
_LOG_APPEND_TIME: Final = 0x08
_SLOT_BYTES: Final = 24
_LEGACY_CODECS: Final = (GZIP, SNAPPY, LZ4)
_CODECS: Final = (*_LEGACY_CODECS, ZSTD)


class Stage(Struct, frozen=True, kw_only=True, dict=True):
    """What is appended, the offset behind it, and then the clock when the cleaner comes.

    `checkpoint`: what somebody puts into the cleaner's checkpoint before; null: nobody does.
    """

    sets: list[bytes]
    end_offset: int
    now_ms: int
    checkpoint: int | None = None


class Workload(Struct, frozen=True, kw_only=True, dict=True):
    """A topic's settings and what happens to its one partition.

    `hw_lag`: the high watermark below the log's end; `start_share`: the log start, as a share of the high watermark;
    `map_bytes`, `io_bytes`: the cleaner's memory.
    """

    seed: int
    settings: dict[str, str]
    hw_lag: int
    stages: list[Stage]
    start_share: float = 0
    map_bytes: int = 0
    io_bytes: int = 0


class _Producer(Struct, dict=True):
    producer_id: int
    epoch: int = 0
    sequence: int = 0
    is_open: bool = False


class _Writer(Struct, dict=True):
    """The leader's next batch. Traits of the workload are drawn once, its batches one after another."""

    rng: random.Random
    offset: int = 0
    now_ms: int = FIRST_MS
    leader_epoch: int = 0
    keys: list[bytes] = field(default_factory=list)
    producers: list[_Producer] = field(default_factory=list)
    codecs: tuple[int, ...] = (NONE,)
    is_mixed: bool = False  # formats
    is_old: bool = False  # all without timestamps
    is_early: bool = False  # some clocks of producers
    has_gaps: bool = False
    is_second_version: bool = False  # transactions bump the epoch with each marker
    has_attributes: bool = False
    batches_in_a_set: tuple[int, ...] = (1, 1, 1, 2)
    null_keys: float = 0.0
    tombstones: float = 0.1

    @classmethod
    def drawn(cls, rng: random.Random) -> _Writer:
        writer = cls(rng, leader_epoch=rng.randrange(3))
        writer.keys = [rng.randbytes(rng.choice((1, 4, 8))) for _ in range(rng.choice((3, 10, 40)))]
        writer.keys += [b"", *MARKER_KEYS][: rng.randrange(4)]
        writer.producers = [_Producer(pid) for pid in rng.sample(range(1000, 9000), rng.randrange(5))]
        writer.codecs = rng.choice(((NONE,), (NONE,), (NONE, *_CODECS), _CODECS))
        writer.is_mixed = rng.random() < 0.3
        writer.has_attributes = rng.random() < 0.1
        writer.is_old = rng.random() < 0.05
        writer.is_early = rng.random() < 0.15
        writer.has_gaps = rng.random() < 0.2
        writer.is_second_version = rng.random() < 0.5
        writer.null_keys = rng.choice((0.0, 0.0, 0.1))
        writer.tombstones = rng.choice((0.0, 0.1, 0.4))
        return writer

    def append_set(self) -> bytes:
        """Some batches that one append takes. Offsets as far apart as a segment's can be never are in one set."""
        if self.has_gaps and self.rng.random() < 0.02:
            self.offset += 1 << 31
        return b"".join(self._batch() for _ in range(self.rng.choice(self.batches_in_a_set)))

    def _batch(self) -> bytes:
        self.now_ms += self.rng.choice((0, 1, 10, 1000))
        if self.has_gaps and self.rng.random() < 0.1:
            self.offset += self.rng.choice((1, 5, 100))
        if self.rng.random() < 0.02:
            self.leader_epoch += 1
        if self.is_old:
            return message_v0(*self._records(1, has_headers=False))
        makers: list[Callable[[], bytes]] = [self._plain]
        if self.is_mixed:
            makers += [self._legacy, self._wrapper]
        if self.rng.random() < 0.01:
            return self._other_control()
        if self.producers:
            makers += [self._idempotent, self._transactional, self._end_transaction]
        return self.rng.choice(makers)()

    def _other_control(self) -> bytes:
        """A control batch that is no end of a transaction."""
        kind, self.offset = self.rng.choice((LEADER_CHANGE, 77)), self.offset + 1
        return control_batch(
            kind, b"\0\0\0\0", offset=self.offset - 1, timestamp_ms=self.now_ms, leader_epoch=self.leader_epoch
        )

    def _plain(self, **fields: int | bool) -> bytes:
        codec = self.rng.choice(self.codecs)
        framing = self.rng.choice(FRAMINGS[codec]) if self.rng.random() < 0.2 else None
        append_ms = self.now_ms if self.rng.random() < 0.1 else None
        return batch_v2(
            self._records(),
            codec=codec,
            framing=framing,
            leader_epoch=self.leader_epoch,
            log_append_time_ms=append_ms,
            **fields,  # type: ignore[arg-type]
        )

    def _legacy(self) -> bytes:
        (record,) = self._records(1, has_headers=False)
        if self.rng.random() < 0.4:
            return message_v0(record)
        return message_v1(record, attributes=_LOG_APPEND_TIME if self.rng.random() < 0.1 else 0)

    def _wrapper(self) -> bytes:
        records, codec = self._records(has_headers=False), self.rng.choice(_LEGACY_CODECS)
        if self.rng.random() < 0.4:
            return wrapper_v0(records, codec=codec)
        append_ms = self.now_ms if self.rng.random() < 0.2 else None
        first = min(self.rng.choice((0, 0, 0, 3)), records[0].offset)  # above 0 where a cleaner was there before
        return wrapper_v1(records, codec=codec, first_inner_offset=first, log_append_time_ms=append_ms)

    def _idempotent(self) -> bytes:
        producer = self.rng.choice(self.producers)
        return self._transactional() if producer.is_open else self._of_producer(producer)

    def _transactional(self) -> bytes:
        producer = self.rng.choice(self.producers)
        producer.is_open = True
        return self._of_producer(producer, is_transactional=True)

    def _end_transaction(self) -> bytes:
        """A marker; now and then of a transaction without a batch in this partition."""
        open_ones = [producer for producer in self.producers if producer.is_open]
        if not open_ones and self.rng.random() < 0.9:
            return self._plain()
        return self._marker(self.rng.choice(open_ones or self.producers))

    def _marker(self, producer: _Producer) -> bytes:
        if self.is_second_version:
            producer.epoch, producer.sequence = producer.epoch + 1, 0
        producer.is_open = False
        self.offset += 1
        return txn_marker(
            self.rng.choice((ABORT, COMMIT)),
            offset=self.offset - 1,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            timestamp_ms=self.now_ms,
            leader_epoch=self.leader_epoch,
        )

    def end_transactions(self) -> list[bytes]:
        """Markers of all open transactions."""
        return [self._marker(producer) for producer in self.producers if producer.is_open]

    def _of_producer(self, producer: _Producer, **fields: int | bool) -> bytes:
        first, ids = self.offset, {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
        data = self._plain(base_sequence=producer.sequence, **ids, **fields)
        producer.sequence += self.offset - first
        return data

    def _records(self, count: int = 0, *, has_headers: bool = True) -> list[Record]:
        rng, records = self.rng, []
        skews = (0, 0, 0, 1, -500, 1_000_000) if self.is_early and rng.random() < 0.1 else (0, 0, 0, 1, -500)
        for _ in range(count or rng.choice((1, 1, 2, 3, 8))):
            value = None if rng.random() < self.tombstones else rng.randbytes(rng.choice((0, 1, 5, 30, 90)))
            records.append(
                Record(
                    offset=self.offset,
                    timestamp_ms=self.now_ms + rng.choice(skews),
                    key=None if rng.random() < self.null_keys else rng.choice(self.keys),
                    value=value,
                    attributes=self.rng.choice((0, 0, 0, 5)) if has_headers and self.has_attributes else 0,
                    headers=((b"h", rng.choice((None, b"", b"x"))),) if has_headers and rng.random() < 0.2 else (),
                )
            )
            self.offset += 1
        return records


def draw_workload(seed: int, *, spared_keys: tuple[bytes, ...] = ()) -> Workload:
    """The workload of a seed, for a cleaner; `spared_keys`: no record has them."""
    rng = random.Random(seed)
    writer = _Writer.drawn(rng)
    writer.keys = [key for key in writer.keys if key not in spared_keys]
    delete_retention_ms = rng.choice((0, 1_000, 100_000, 86_400_000))
    settings = _settings(writer) | {
        "cleanup.policy": rng.choice(("compact", "compact", "compact", "compact,delete")),
        "delete.retention.ms": str(delete_retention_ms),
        "min.cleanable.dirty.ratio": rng.choice(("0", "0.1", "0.5")),
    }
    if rng.random() < 0.2:
        settings["min.compaction.lag.ms"] = str(rng.choice((1_000, 20_000, 200_000)))
    if rng.random() < 0.1:
        settings["max.compaction.lag.ms"] = "500000"
    slots = rng.choice((3, 10, 30, 100, 40_000, 40_000, 40_000))
    io_bytes = rng.choice((600, 3_000, 262_144))
    hw_lag = rng.choice((0, 0, 0, 5, 30))
    pauses = (1, 1_000, delete_retention_ms, delete_retention_ms + 1_000)
    stages = [_stage(writer, pauses) for _ in range(rng.choice((2, 3, 5)))]
    if rng.random() < 0.1:
        stages = [replace(stage, checkpoint=rng.randrange(stage.end_offset + 20)) for stage in stages]
    return Workload(
        seed=seed,
        settings=settings,
        hw_lag=hw_lag,
        stages=stages,
        start_share=rng.choice((0, 0, 0, 0, 0.1, 0.5)),
        map_bytes=slots * _SLOT_BYTES,
        io_bytes=io_bytes,
    )


def draw_limited_workload(seed: int) -> Workload:
    """The same for cleaners from 4.4 on: of each third seed, records of compressed batches may be too large for it."""
    workload = draw_workload(seed)
    if seed % 3:
        return workload
    limit = str(random.Random(seed).choice((1, 30, 60, 100, 200)))
    return replace(workload, settings=workload.settings | {"max.decompressed.message.bytes": limit})


def draw_old_workload(seed: int) -> Workload:
    """The same for cleaners before 3.1, without keys that make them remove markers."""
    return draw_workload(seed, spared_keys=MARKER_KEYS)


def draw_retention(seed: int) -> Workload:
    """The workload of a seed, for retention."""
    return _draw_retention(seed, ("delete", "delete", "delete", "compact,delete", "compact", ""))


def draw_old_retention(seed: int) -> Workload:
    """The same for releases before 4.0, where one of the policies is a must."""
    return _draw_retention(seed, ("delete", "delete", "compact,delete", "compact"))


def _draw_retention(seed: int, policies: tuple[str, ...]) -> Workload:
    rng = random.Random(seed)
    writer = _Writer.drawn(rng)
    settings = _settings(writer) | {
        "cleanup.policy": rng.choice(policies),
        "retention.ms": str(rng.choice((-1, 0, 1_000, 20_000, 60_000, 1_000_000))),
        "retention.bytes": str(rng.choice((-1, -1, 0, 1, 3_000, 10_000))),
    }
    hw_lag = rng.choice((0, 0, 0, 5, 100))
    stages = [_stage(writer, (1, 1_000, 20_000, 1_000_000)) for _ in range(rng.choice((2, 3)))]
    shares = (0, 0, 0.3, 0.8)
    return Workload(seed=seed, settings=settings, hw_lag=hw_lag, stages=stages, start_share=rng.choice(shares))


def draw_appends(seed: int) -> Workload:
    """The workload of a seed, for appends alone."""
    rng = random.Random(seed)
    writer = _Writer.drawn(rng)
    settings = _settings(writer) | {"segment.ms": str(rng.choice((500, 5_000, 20_000, 604_800_000)))}
    return Workload(seed=seed, settings=settings, hw_lag=0, stages=[_stage(writer, (1,))])


def draw_faulty(seed: int) -> Workload:
    """The workload of a seed, for faults; of each third seed, a cleaner was there first."""
    workload = draw_appends(seed)
    if seed % 3:
        return workload
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "1000"}
    return replace(workload, settings=workload.settings | settings, map_bytes=40_000 * _SLOT_BYTES, io_bytes=262_144)


def _settings(writer: _Writer) -> dict[str, str]:
    """Of segments and their indexes."""
    rng = writer.rng
    settings = {
        "segment.bytes": str(rng.choice((1_800, 1_800, 3_000, 8_000))),
        "index.interval.bytes": rng.choice(("0", "100", "1000", "4096")),
        "segment.index.bytes": "10000",
        "file.delete.delay.ms": "0",
    }
    if rng.random() < 0.1:
        settings["segment.index.bytes"] = "96"
        writer.batches_in_a_set = (1,)  # Kafka looks for room in an index before a set, not before each of its batches
    return settings


def _stage(writer: _Writer, pauses: tuple[int, ...]) -> Stage:
    rng = writer.rng
    sets = [writer.append_set() for _ in range(rng.choice((40, 100, 200)))]
    if rng.random() < 0.8:
        sets += writer.end_transactions()
    sets += [writer.append_set() for _ in range(rng.choice((0, 3, 10)))]
    writer.now_ms += rng.choice(pauses)
    return Stage(sets=sets, end_offset=writer.offset, now_ms=writer.now_ms)
