"""A consumer over a partition view: it fetches, and keeps the records that a client's consumer keeps.

Its rules are those of `CompletedFetch` in Kafka's consumer: a cut batch at the end is dropped, records below the asked
offset are skipped, control batches are not delivered, and transactional batches of a producer are dropped from the
first offset of an aborted transaction to its abort marker.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.decode import PayloadDamage, decode_run
from kafkalog_core.format.layout import CONTROL_BIT, MAGIC_V2, MAX_BATCH_BYTES, TRANSACTIONAL_BIT
from kafkalog_core.storage.framing import LogFraming

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.livebroker.logs.live_log import LiveLog
    from kafkalog_core.serve.logs.partition_view import FetchedRange, ServedPartition
    from tests.support.live_state import Live


def fetched_bytes(fetched: FetchedRange) -> bytes:
    """The bytes of a range, which is released."""
    data = b""
    for piece in fetched.pieces:
        data += os.pread(piece.file.descriptor, piece.size_bytes, piece.position)
        piece.file.release()
    assert len(data) == fetched.size_bytes
    return data


def consumed(partition: ServedPartition | LiveLog, max_bytes: int, *, is_committed: bool) -> list[int]:
    """The offsets of all records that a consumer gets, from the log start offset on."""
    found: list[int] = []
    position = partition.log_start_offset
    while True:
        fetched = partition.read(position, max_bytes, is_committed=is_committed)
        data = fetched_bytes(fetched)
        if not data:
            return found
        before = position
        for last_offset, offsets in _batches(data, fetched, position):
            found += offsets
            position = last_offset + 1
        assert position > before, "a range that moves no consumer"


def _batches(data: bytes, fetched: FetchedRange, asked: int) -> Iterator[tuple[int, list[int]]]:
    """The last offset of each whole batch, and the offsets of its records that are delivered."""
    memory = memoryview(data)
    waiting = sorted(fetched.aborted or (), key=lambda each: each.first_offset)
    dropped: set[int] = set()
    start = 0
    while start < len(data):
        batches = BatchColumns(1)
        LogFraming(0).walk(memory[start:], start, -1, MAX_BATCH_BYTES, check=True, into=batches)
        if not batches.count:
            return  # the last one is cut
        row = batches.row(0)
        assert row["format"] == fetched.magic
        if row["format"] == MAGIC_V2:
            assert row["crc_stored"] == row["crc_computed"]
        flags = row["attributes"] if row["format"] == MAGIC_V2 else 0
        while waiting and waiting[0].first_offset <= row["last_offset"]:
            dropped.add(waiting.pop(0).producer_id)
        is_hidden = fetched.aborted is not None and flags & TRANSACTIONAL_BIT and row["producer_id"] in dropped
        offsets = [] if flags & CONTROL_BIT or is_hidden else _offsets(memory[start:], batches)
        if flags & CONTROL_BIT and fetched.aborted is not None and _is_abort(memory[start:], batches):
            dropped.discard(row["producer_id"])
        yield row["last_offset"], [offset for offset in offsets if offset >= asked]
        start += row["size_bytes"]


def _offsets(memory: memoryview, batches: BatchColumns) -> list[int]:
    offsets: list[int] = []
    for run in decode_run(memory, batches, max_bytes=MAX_BATCH_BYTES):
        if not isinstance(run, PayloadDamage):
            offsets += run.records.column("offset")
    return offsets


def _is_abort(memory: memoryview, batches: BatchColumns) -> bool:
    for run in decode_run(memory, batches, max_bytes=MAX_BATCH_BYTES):
        if not isinstance(run, PayloadDamage):
            start = run.records.column("key_start")[0]
            return bytes(run.memory[start + 2 : start + 4]) == b"\0\0"  # ControlRecordType.ABORT
    return False


def offsets(live: Live, topic: str, number: int = 0, *, is_committed: bool = False) -> list[int]:
    """What a consumer gets of a partition."""
    return consumed(live.log(topic, number), 1 << 20, is_committed=is_committed)
