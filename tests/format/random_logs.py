"""Random logs of every format for the filter of the cleaner, and the rules of several releases."""

from __future__ import annotations

import random

from kafkalog_core.format.run_filter import BIT_DISCARD, BIT_EMPTY_TXN, BIT_RETAIN_EMPTY, FilterRules
from kafkalog_core.structs import Struct
from tests.support.build import (
    NONE,
    ZSTD,
    Record,
    batch_v2,
    empty_batch,
    message_v0,
    message_v1,
    txn_marker,
    wrapper_v0,
    wrapper_v1,
)

NOW, RETENTION = 5_000_000, 1000


class Batch(Struct, frozen=True, dict=True):
    """What a batch is made of. `magic` 0 and 1 without a codec: one message."""

    records: tuple[Record, ...]
    base: int
    last: int
    magic: int = 2
    codec: int = NONE
    append_time: int | None = None
    horizon: int | None = None
    producer: int = -1
    is_control: bool = False
    bits: int = 0

    def build(self) -> bytes:
        if self.magic == 2:
            return self.build_v2(self.records, self.base, self.last, self.horizon)
        if not self.codec:
            build, record = (message_v0, message_v1)[self.magic], self.records[0]
            attributes = 0x08 if self.append_time is not None else 0
            return build(record, attributes=attributes)
        if self.magic == 0:
            return wrapper_v0(self.records, codec=self.codec)
        return wrapper_v1(self.records, codec=self.codec, log_append_time_ms=self.append_time)

    def build_v2(self, records: tuple[Record, ...], base: int, last: int, horizon: int | None) -> bytes:
        if self.is_control and records and horizon is None:
            record = records[0]
            return txn_marker(
                1, offset=record.offset, timestamp_ms=record.timestamp_ms, producer_id=self.producer, leader_epoch=4
            )
        return batch_v2(
            records,
            base_offset=base,
            last_offset=last,
            codec=self.codec,
            leader_epoch=4 if self.magic == 2 else -1,
            producer_id=self.producer,
            producer_epoch=-1 if self.producer < 0 else 0,
            base_sequence=-1 if self.producer < 0 or self.is_control else 0,
            log_append_time_ms=self.append_time,
            delete_horizon_ms=horizon,
            is_transactional=self.is_control,
            is_control=self.is_control,
        )

    def empty(self) -> bytes:
        times = {"max_timestamp_ms": max((r.timestamp_ms for r in self.records), default=-1)}
        if self.append_time is not None:
            times = {"log_append_time_ms": self.append_time}
        return empty_batch(
            self.base,
            self.last,
            leader_epoch=4,
            producer_id=self.producer,
            producer_epoch=-1 if self.producer < 0 else 0,
            base_sequence=-1 if self.producer < 0 or self.is_control else 0,
            is_transactional=self.is_control,
            is_control=self.is_control,
            **times,
        )


def a_log(seed: int, *, codecs: tuple[int, ...], magics: tuple[int, ...], most: int = 12) -> list[Batch]:
    rng = random.Random(seed)
    batches: list[Batch] = []
    offset = rng.choice((0, 5, 2**40))
    for _ in range(rng.randrange(1, 30)):
        magic = rng.choice(magics)
        offset += rng.choice((0, 0, 0, 3, 1000))
        codec = rng.choice(codecs if magic == 2 else [c for c in codecs if c != ZSTD])
        count = rng.randrange(1, most) if magic == 2 or codec else 1
        append_time = rng.choice((None, None, 7000 + offset % 1000)) if magic else None
        if magic == 2 and rng.random() < 0.15:
            marker = Record(offset=offset, timestamp_ms=9000, key=b"\0\0\0\1", value=bytes(6))
            horizon = rng.choice((None, NOW - 1, NOW, NOW + 1))
            bits = rng.choice(
                (0, BIT_DISCARD | BIT_EMPTY_TXN, BIT_RETAIN_EMPTY, BIT_EMPTY_TXN, BIT_DISCARD | BIT_RETAIN_EMPTY)
            )
            batches.append(Batch((marker,), offset, offset, horizon=horizon, producer=5, is_control=True, bits=bits))
            offset += 1
            continue
        records = []
        at = offset
        for _ in range(count):
            at += rng.choice((0, 0, 0, 2)) if magic == 2 else 0
            records.append(a_record(rng, at, magic, append_time))
            at += 1
        last = at - 1 + (rng.choice((0, 0, 4)) if magic == 2 else 0)
        base = offset if magic == 2 else records[0].offset
        producer = rng.choice((-1, -1, 5)) if magic == 2 else -1
        bits = rng.choice((0, 0, 0, BIT_DISCARD, BIT_RETAIN_EMPTY, BIT_DISCARD | BIT_RETAIN_EMPTY)) if magic == 2 else 0
        horizon = rng.choice((None, None, NOW - 1, NOW, NOW + 1)) if magic == 2 else None
        batches.append(Batch(tuple(records), base, last, magic, codec, append_time, horizon, producer, bits=bits))
        offset = last + 1
    return batches


def a_record(rng: random.Random, offset: int, magic: int, append_time: int | None) -> Record:
    key = rng.choice((None, b"", *(b"key-%d" % rng.randrange(9) for _ in range(9)), b"long" * rng.randrange(12, 30)))
    value = rng.choice((None, b"", b"v%d" % offset, b"value" * rng.randrange(40)))
    headers = ((b"h", None), (b"", b"x" * rng.randrange(70))) if magic == 2 and rng.random() < 0.2 else ()
    time = -1 if magic == 0 else append_time if append_time is not None else rng.choice((-1, 0, 1000 + offset, 10**12))
    return Record(offset=offset, timestamp_ms=time, key=key, value=value, headers=headers)


RULES = {
    "4.3": FilterRules(),
    "3.9": FilterRules(converts_legacy=False),
    "2.8": FilterRules(converts_legacy=False, uses_horizons=False, looks_up_control_keys=True),
}
