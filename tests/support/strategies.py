"""Hypothesis strategies: records, and logs of every format with the records that a reader must find in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from kafkalog_core.structs import Struct, replace
from tests.support import build
from tests.support.build import FRAMINGS, Record

if TYPE_CHECKING:
    from collections.abc import Callable

OFFSETS = st.integers(0, 2**62)
TIMES_MS = st.integers(-1, 2**48)
BYTES = st.one_of(st.binary(max_size=40), st.text(max_size=20).map(str.encode))
NULLABLE = st.one_of(st.none(), BYTES)
HEADERS = st.lists(st.tuples(st.text(max_size=8).map(str.encode), NULLABLE), max_size=4).map(tuple)
CODECS_V2 = st.sampled_from(sorted(FRAMINGS))
CODECS_LEGACY = st.sampled_from([1, 2, 3])
CODECS_V07 = st.sampled_from([1, 2])


class Built(Struct, frozen=True):
    """Bytes of a log, and the records in it. `timestamp_type` is None for magic 0 and for 0.7."""

    data: bytes
    records: tuple[Record, ...]
    timestamp_type: str | None
    codec: int
    framing: str | None


@st.composite
def record_runs(
    draw: st.DrawFn, start: int | None = None, *, min_size: int = 1, max_size: int = 6, dense: bool = False
) -> list[Record]:
    """Records of ascending offsets from `start` on, with gaps as compaction leaves them unless dense."""
    offset = draw(OFFSETS) if start is None else start
    records = []
    for _ in range(draw(st.integers(min_size, max_size))):
        record = Record(
            offset=offset, timestamp_ms=draw(TIMES_MS), key=draw(NULLABLE), value=draw(NULLABLE), headers=draw(HEADERS)
        )
        records.append(record)
        offset += 1 if dense else draw(st.sampled_from([1, 1, 1, 2, 70, 100_000]))
    return records


def framings(codec: int) -> st.SearchStrategy[str]:
    """Every way in which clients frame a codec."""
    return st.sampled_from(FRAMINGS[codec])


@st.composite
def batches_v2(draw: st.DrawFn, start: int | None = None) -> Built:
    """One batch of magic 2."""
    records = draw(record_runs(start))
    codec = draw(CODECS_V2)
    framing = draw(framings(codec))
    append_time_ms = draw(st.none() | TIMES_MS)
    data = build.batch_v2(
        records,
        codec=codec,
        framing=framing,
        last_offset=records[-1].offset + draw(st.integers(0, 3)),
        leader_epoch=draw(st.integers(-1, 2**31 - 1)),
        producer_id=draw(st.integers(-1, 2**63 - 1)),
        producer_epoch=draw(st.integers(-1, 2**15 - 1)),
        base_sequence=draw(st.integers(-1, 2**31 - 1)),
        is_transactional=draw(st.booleans()),
        log_append_time_ms=append_time_ms,
        delete_horizon_ms=draw(st.none() | TIMES_MS),
    )
    return _built(data, records, append_time_ms, codec, framing)


@st.composite
def messages_v0(draw: st.DrawFn, start: int | None = None) -> Built:
    """A compressed set of magic 0, or plain messages."""
    records = [replace(record, timestamp_ms=-1, headers=()) for record in draw(record_runs(start))]
    codec = draw(st.just(0) | CODECS_LEGACY)
    framing = draw(framings(codec))
    if codec:
        data = build.wrapper_v0(records, codec=codec, framing=framing)
    else:
        data = b"".join(build.message_v0(record) for record in records)
    return Built(data, tuple(records), None, codec, framing)


@st.composite
def messages_v1(draw: st.DrawFn, start: int | None = None) -> Built:
    """A compressed set of magic 1, or plain messages."""
    records = [replace(record, headers=()) for record in draw(record_runs(start))]
    codec = draw(st.just(0) | CODECS_LEGACY)
    framing = draw(framings(codec))
    append_time_ms = draw(st.none() | TIMES_MS)
    if codec:
        data = build.wrapper_v1(
            records,
            codec=codec,
            framing=framing,
            first_inner_offset=draw(st.integers(0, min(5, records[0].offset))),
            log_append_time_ms=append_time_ms,
        )
        return _built(data, records, append_time_ms, codec, framing)
    if append_time_ms is not None:
        records = [replace(record, timestamp_ms=append_time_ms) for record in records]
    bit = 0 if append_time_ms is None else 0x08
    data = b"".join(build.message_v1(record, attributes=bit) for record in records)
    return _built(data, records, append_time_ms, codec, framing)


@st.composite
def sets_v07(draw: st.DrawFn) -> tuple[bytes, tuple[bytes, ...]]:
    """Messages of Kafka 0.7 of both magics, in wrappers up to three deep, and their payloads in order."""
    messages, payloads = [], []
    for payload in draw(st.lists(BYTES, min_size=1, max_size=6)):
        messages.append(build.message_v07(payload, magic=draw(st.integers(0, 1))))
        payloads.append(payload)
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(messages) - 1))
        messages[start:] = [build.wrapper_v07(messages[start:], codec=draw(CODECS_V07))]
    return b"".join(messages), tuple(payloads)


@st.composite
def logs(draw: st.DrawFn, one: Callable[[int], st.SearchStrategy[Built]], *, max_batches: int = 4) -> list[Built]:
    """Several batches of one format as they stand one behind another in a file, their offsets ascending."""
    batches: list[Built] = []
    start = draw(OFFSETS)
    for _ in range(draw(st.integers(1, max_batches))):
        batches.append(draw(one(start)))
        start = batches[-1].records[-1].offset + draw(st.integers(4, 1000))  # a batch may reach 3 beyond its records
    return batches


def _built(data: bytes, records: list[Record], append_time_ms: int | None, codec: int, framing: str | None) -> Built:
    if append_time_ms is not None:
        records = [replace(record, timestamp_ms=append_time_ms) for record in records]
    return Built(data, tuple(records), "create" if append_time_ms is None else "append", codec, framing)
