"""What is in a batch, record by record, as short as can be compared: for batches that are not the same as a whole."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.decode import RecordRun, decode_run

if TYPE_CHECKING:
    from kafkalog_core.format.columns import BatchColumns

__all__ = ["Contents", "contents_of"]

_DIGEST_BYTES: Final = 16


class Contents:
    """Offsets of the records of one batch, ascending, and a digest of each.

    Of a record count its timestamp, key, value and headers: not the batch around it, which compaction writes anew.
    `is_whole`: all of it could be decoded.
    """

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.digests: list[bytes] = []
        self.is_whole = True

    def between(self, first: int, last: int) -> dict[int, bytes]:
        """The digests by offset, first and last included."""
        begin, end = bisect_left(self.offsets, first), bisect_right(self.offsets, last)
        return dict(zip(self.offsets[begin:end], self.digests[begin:end], strict=True))


def contents_of(memory: memoryview, batch: BatchColumns, max_bytes: int) -> Contents:
    """Decode a batch of one row. What of it cannot be decoded is not there."""
    result = Contents()
    for item in decode_run(memory, batch, max_bytes=max_bytes):
        if isinstance(item, RecordRun):
            _take(item, result)
        else:
            result.is_whole = False
    return result


def _take(run: RecordRun, result: Contents) -> None:
    records, headers = run.records, run.records.headers
    names = ("timestamp_ms", "key_start", "key_size", "value_start", "value_size", "first_header", "header_count")
    columns = [records.column(name).tolist() for name in names]
    spans = list(
        zip(*(headers.column(name) for name in ("key_start", "key_size", "value_start", "value_size")), strict=True)
    )
    result.offsets += records.column("offset").tolist()
    for time_ms, key_start, key_size, value_start, value_size, first, count in zip(*columns, strict=True):
        digest = blake2b(b"%d %d %d %d" % (time_ms, key_size, value_size, count), digest_size=_DIGEST_BYTES)
        digest.update(run.memory[key_start : key_start + max(0, key_size)])
        digest.update(run.memory[value_start : value_start + max(0, value_size)])
        for start, size, value, value_bytes in spans[first : first + count]:
            digest.update(b"%d %d " % (size, value_bytes))
            digest.update(run.memory[start : start + size])
            digest.update(run.memory[value : value + max(0, value_bytes)])
        result.digests.append(digest.digest())
