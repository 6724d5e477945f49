"""What a leader writes into batches of producers and checks of them: every twin against the rules by the book."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.format import kernels
from kafkalog_core.format.columns import BatchColumns, RecordColumns
from kafkalog_core.format.kernels import constants as k
from tests.support.build import Record, batch_v2
from tests.support.twins import TWINS, all_agree, state_at, twin, walked

if TYPE_CHECKING:
    from collections.abc import Sequence

TIME_MS = 1_000
BATCH_CELLS = ("format", "attributes", "base_offset", "last_offset", "record_count", "producer_id", "producer_epoch")
RECORD_CELLS = ("batch", "offset", "timestamp_ms", "key_size")


def batches_of(counts: Sequence[int], *, producer_id: int = 7, sequence: int = 0) -> bytearray:
    """Batches of one producer that follow each other, at offset 100."""
    data, offset = bytearray(), 100
    for count in counts:
        records = [Record(offset=offset + at, timestamp_ms=TIME_MS + at, key=b"k", value=b"v") for at in range(count)]
        producer = {} if producer_id < 0 else {"producer_epoch": 2, "base_sequence": sequence & k.MAX_SEQUENCE}
        data += batch_v2(records, producer_id=producer_id, **producer)
        offset, sequence = offset + count, sequence + count
    return data


def columns_of(data: bytearray) -> tuple[BatchColumns, RecordColumns]:
    batches, records = walked(data), RecordColumns(200)
    assert kernels.decode(data, batches, batches.count, state_at(0), records) == k.DECODE_DONE
    return batches, records


def usual(batches: BatchColumns, records: RecordColumns, *limits: Any) -> object:
    limits = limits or (0, 10 * TIME_MS, True)
    return all_agree([twin(name).are_usual(batches, records, *limits) for name in TWINS])


@given(
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    offset=st.sampled_from([0, 1, 2**31, 2**62]),
    epoch=st.sampled_from([0, 3, 2**31 - 1]),
)
def test_offsets_and_the_epoch_are_written_into_each_batch_and_nothing_else(
    counts: list[int], offset: int, epoch: int
) -> None:
    data = batches_of(counts)
    outcomes = []
    for name in TWINS:
        stamped = bytearray(data)
        outcomes.append((twin(name).stamp_batches(stamped, offset, epoch), bytes(stamped)))
    after, stamped = all_agree(outcomes)  # type: ignore[misc]
    assert after == offset + sum(counts)
    batches, before = walked(stamped), walked(data)  # the checksums are right
    assert set(batches.column("leader_epoch")) == {epoch}
    firsts = [offset + sum(counts[:number]) for number in range(len(counts))]
    assert batches.column("base_offset").tolist() == firsts
    for name in ("size_bytes", "record_count", "crc_stored", "base_sequence", "max_timestamp_ms"):
        assert batches.column(name).tolist() == before.column(name).tolist()


@given(data=st.binary(max_size=200), seed=st.integers(0, 2**32), cut=st.integers(0, 100))
def test_stamping_garbage_ends_within_the_buffer(data: bytes, seed: int, cut: int) -> None:
    chance = random.Random(seed)
    damaged = batches_of([1, 3])[: -cut or None]
    damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    for some in (data, damaged):
        outcomes = []
        for name in TWINS:
            room = bytearray(some)
            outcomes.append((twin(name).stamp_batches(room, 2**63 - 2, 1), bytes(room)))
        all_agree(outcomes)


@given(counts=st.lists(st.integers(1, 5), min_size=1, max_size=6), has_producer=st.booleans())
def test_batches_that_follow_each_other_are_usual(counts: list[int], has_producer: bool) -> None:
    batches, records = columns_of(batches_of(counts, producer_id=7 if has_producer else -1))
    assert usual(batches, records) == 1


def test_sequence_numbers_begin_again_after_the_largest() -> None:
    assert usual(*columns_of(batches_of([2, 3, 1], sequence=2**31 - 3))) == 1


@given(
    counts=st.lists(st.integers(1, 5), min_size=2, max_size=6),
    cell=st.sampled_from([*((True, name) for name in BATCH_CELLS), *((False, name) for name in RECORD_CELLS)]),
    at=st.integers(0, 30),
    change=st.sampled_from([-1, 1, 32, 16, 2**40, -(2**40), 2**63 - 1, -(2**63)]),
)
def test_one_other_cell_is_unusual(counts: list[int], cell: tuple[bool, str], at: int, change: int) -> None:
    batches, records = columns_of(batches_of(counts))
    columns = batches if cell[0] else records
    column = columns.column(cell[1])
    row = at % len(column)
    value = column[row]
    column[row] = changed = max(-(2**63), min(value + change, 2**63 - 1))
    is_same = {
        "attributes": not changed & (k.CONTROL | k.TRANSACTIONAL),
        "timestamp_ms": 0 <= changed <= 10 * TIME_MS,
        "key_size": changed >= 0,
    }
    assert usual(batches, records) == int(is_same.get(cell[1], False))


def test_a_missing_sequence_number_is_unusual() -> None:
    for sequences in ((-1, 0), (0, 3), (0, 1), (5, 6)):
        batches, records = columns_of(batches_of([2, 2]))
        for row, sequence in enumerate(sequences):
            batches.column("base_sequence")[row] = sequence
        assert usual(batches, records) == 0


def test_records_beyond_the_batches_and_too_few_are_unusual() -> None:
    batches, records = columns_of(batches_of([2, 2]))
    records.count -= 1
    assert usual(batches, records) == 0
    records.count += 1
    batches.count = 1
    assert usual(batches, records) == 0


def test_limits_are_inclusive_and_a_key_is_needed_only_where_it_is_asked_for() -> None:
    batches, records = columns_of(batches_of([3]))
    assert usual(batches, records, TIME_MS, TIME_MS + 2, False) == 1
    assert usual(batches, records, TIME_MS + 1, TIME_MS + 2, False) == 0
    assert usual(batches, records, TIME_MS, TIME_MS + 1, False) == 0
    records.column("key_size")[2] = -1
    assert usual(batches, records, 0, 10 * TIME_MS, False) == 1
    assert usual(batches, records, 0, 10 * TIME_MS, True) == 0
