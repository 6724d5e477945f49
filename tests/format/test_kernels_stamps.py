"""What a leader writes into batches of producers: every twin against the rules by the book."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.kernels import constants as k
from tests.support.build import Record, batch_v2
from tests.support.twins import TWINS, all_agree, twin, walked

if TYPE_CHECKING:
    from collections.abc import Sequence

TIME_MS = 1_000


def batches_of(counts: Sequence[int], *, producer_id: int = 7, sequence: int = 0) -> bytearray:
    """Batches of one producer that follow each other, at offset 100."""
    data, offset = bytearray(), 100
    for count in counts:
        records = [Record(offset=offset + at, timestamp_ms=TIME_MS + at, key=b"k", value=b"v") for at in range(count)]
        producer = {} if producer_id < 0 else {"producer_epoch": 2, "base_sequence": sequence & k.MAX_SEQUENCE}
        data += batch_v2(records, producer_id=producer_id, **producer)
        offset, sequence = offset + count, sequence + count
    return data


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
