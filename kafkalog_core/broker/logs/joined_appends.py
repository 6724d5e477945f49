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

from kafkalog_core.format import kernels
from kafkalog_core.format.columns import BatchColumns, RecordColumns
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.format.layout import (
    CODEC_ZSTD,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAGIC_V2,
    MAX_INT64,
    RECORD_BATCH_OVERHEAD,
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
_FIRST_WITH_ZSTD: Final = 7


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
    batches, records = _THREAD.batches, _THREAD.records
    _, end = _FRAMING.walk(memoryview(data), 0, -1, len(data), check=True, into=batches)
    if batches.count != number or end != len(data):
        return None
    if version < _FIRST_WITH_ZSTD and CODEC_ZSTD in batches.column("codec"):
        return None
    pieces = decode_run(memoryview(data), batches, max_bytes=policy.max_decompressed_bytes, records=records)
    if not isinstance(next(pieces, None), RecordRun):
        return None
    least, most = now_ms - policy.before_max_ms, min(now_ms + policy.after_max_ms, MAX_INT64)
    if not kernels.are_usual(batches, records, least, most, policy.is_compacted) or next(pieces, None) is not None:
        return None
    producer_id = batches.cell("producer_id", 0)
    if producer_id >= 0 and (
        not log.is_next(producer_id, batches.cell("producer_epoch", 0), batches.cell("base_sequence", 0))
        or log.has_transaction(producer_id)
    ):
        return None
    sizes += batches.column("record_count")
    return batches
