"""Batches that a producer sent one after the other, appended to a partition in one go.

What is checked is what `appends` checks of a single batch, for all of them by the same few calls of kernels. Nothing is
refused here: where one of the batches is not what a producer usually sends, none is appended. Each is then handled
alone, and `appends` finds the reason.
"""

from __future__ import annotations

import threading
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.columns import BatchColumns, RecordColumns
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.format.layout import (
    CODEC_ZSTD,
    CONTROL_BIT,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAGIC_V2,
    MAX_INT32,
    RECORD_BATCH_OVERHEAD,
    TRANSACTIONAL_BIT,
)
from kafkalog_core.storage.framing import LogFraming

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.broker.logs.appends import AppendPolicy
    from kafkalog_core.broker.logs.live_log import LiveLog

__all__ = ["MOST_TOGETHER", "append_together"]

MOST_TOGETHER: Final = 16
"""Number of batches of one call."""
_FRAMING: Final = LogFraming(0)
_ODD: Final = CONTROL_BIT | TRANSACTIONAL_BIT
_FIRST_WITH_ZSTD: Final = 7
_NO_ID: Final = -1


class _Thread(threading.local):
    """Columns of this thread, which are reused."""

    def __init__(self) -> None:
        self.batches = BatchColumns(MOST_TOGETHER)
        self.records = RecordColumns()


_THREAD: Final = _Thread()


def append_together(
    log: LiveLog, policy: AppendPolicy, batches: Sequence[memoryview | None], *, version: int, now_ms: int
) -> list[tuple[int, int]] | None:
    """Append batches of one partition, and return base offset and number of records of each; None: none was appended.

    Args:
        log: the partition.
        policy: of its topic.
        batches: what the clients sent, at most MOST_TOGETHER.
        version: the lowest version of their Produce requests.
        now_ms: the time of the append.

    Raises StorageError.
    """
    if policy.codec is not None or policy.has_append_time:
        return None
    most = min(policy.max_message_bytes, log.segment_bytes)
    plain = [each for each in batches if each is not None and _is_framed(each, most)]
    if len(plain) < len(batches) or len(batches) > MOST_TOGETHER:
        return None
    sizes: list[int] = []
    first = log.append_all(plain, partial(_checked, log, policy, len(plain), version, now_ms, sizes))
    return None if first is None else list(zip(accumulate(sizes[:-1], initial=first), sizes, strict=True))


def _is_framed(batch: memoryview, most_bytes: int) -> bool:
    """Return whether some bytes are one batch of magic 2 by their length."""
    if not RECORD_BATCH_OVERHEAD <= len(batch) <= most_bytes or batch[MAGIC_POSITION] != MAGIC_V2:
        return False
    return int.from_bytes(batch[8:LOG_OVERHEAD], "big") + LOG_OVERHEAD == len(batch)


def _checked(
    log: LiveLog, policy: AppendPolicy, number: int, version: int, now_ms: int, sizes: list[int], data: bytearray
) -> BatchColumns | None:
    """Return the headers of batches that may be appended; None: one of them is odd. `sizes` gets their records."""
    batches = _THREAD.batches
    _, end = _FRAMING.walk(memoryview(data), 0, -1, len(data), check=True, into=batches)
    if batches.count != number or end != len(data):
        return None
    counts = batches.column("record_count").tolist()
    spans = zip(batches.column("base_offset"), batches.column("last_offset"), counts, strict=True)
    if any(count <= 0 or count != last - base + 1 for base, last, count in spans):
        return None
    if batches.has_any("attributes") and any(each & _ODD for each in batches.column("attributes")):
        return None
    if version < _FIRST_WITH_ZSTD and CODEC_ZSTD in batches.column("codec"):
        return None
    if not _are_next(log, batches, counts) or not _are_sound(data, batches, counts, policy, now_ms):
        return None
    sizes += counts
    return batches


def _are_next(log: LiveLog, batches: BatchColumns, counts: Sequence[int]) -> bool:
    """Return whether they are of one producer, and follow its last batch and each other; or of none at all."""
    producer_id, epoch = batches.cell("producer_id", 0), batches.cell("producer_epoch", 0)
    if not batches.holds_only("producer_id", producer_id) or not batches.holds_only("producer_epoch", epoch):
        return False
    if producer_id == _NO_ID:
        return True
    sequences = batches.column("base_sequence").tolist()
    follow = zip(sequences, counts, sequences[1:], strict=False)
    if min(sequences) < 0 or any((sequence + count) & MAX_INT32 != after for sequence, count, after in follow):
        return False
    return log.is_next(producer_id, epoch, sequences[0]) and not log.has_transaction(producer_id)


def _are_sound(
    data: bytearray, batches: BatchColumns, counts: Sequence[int], policy: AppendPolicy, now_ms: int
) -> bool:
    """Return whether every record can be decoded, has the next offset, a key if it needs one, and a fitting time."""
    pieces = decode_run(memoryview(data), batches, max_bytes=policy.max_decompressed_bytes, records=_THREAD.records)
    run = next(pieces, None)
    total = sum(counts)
    if not isinstance(run, RecordRun) or run.records.count != total:
        return False
    cell, base = run.records.cell, batches.cell("base_offset", 0)
    for row, start in enumerate(accumulate(counts[:-1], initial=0)):
        last = start + counts[row] - 1
        if cell("batch", start) != row or cell("batch", last) != row:
            return False
        if cell("offset", start) != base + start or cell("offset", last) != base + last:
            return False
    if policy.is_compacted and _NO_ID in run.records.column("key_size"):
        return False
    times = run.records.column("timestamp_ms").tolist()  # loops over a list take half the time
    if min(times) < now_ms - policy.before_max_ms or max(times) > now_ms + policy.after_max_ms:
        return False
    return next(pieces, None) is None
