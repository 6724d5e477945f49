"""Records that are lost to readers once a plan is applied: how many, from when, and where else they may be."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.decode import PayloadDamage, decode_run
from kafkalog_core.format.layout import CONTROL_BIT, MAGIC_V2, MAX_BATCH_BYTES, TRANSACTIONAL_BIT
from kafkalog_core.storage.scan import Damage, Run, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, asdict, field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.storage.partition import Partition

__all__ = ["Loss", "LossCount", "cure_of_loss", "measure_loss"]


class Loss(Struct, frozen=True, kw_only=True):
    """Records of one range of one partition that are lost to readers once the plan is applied.

    Args:
        topic: topic of the partition.
        partition: partition number.
        path: the log file, or the first of several.
        first_offset: the lowest offset; None: the bytes held no batch that a consumer can ask for.
        next_offset: offset after the last record.
        records: number of records; None: they cannot be counted.
        bytes: bytes of log.
        committed_records: records below the checkpointed high watermark, at the least; None: it is unknown.
        first_timestamp_ms: timestamp of the oldest batch; None: it has none.
        max_timestamp_ms: timestamp of the newest batch; None: it has none.
        transactions: number of transactions with records there.
        producers: number of producers that wrote there.
        cure: how to lose less, one sentence; None: unknown.
        why: the reason, a clause; None: the plan has one for all.
    """

    topic: str | None
    partition: int | None
    path: str
    first_offset: int | None
    next_offset: int | None
    records: int | None
    bytes: int
    committed_records: int | None = None
    first_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None
    transactions: int = 0
    producers: int = 0
    cure: str | None = None
    why: str | None = None

    def row(self) -> dict[str, object]:
        """Return the `loss` row by column name."""
        row = asdict(self)
        row["file"] = row.pop("path")
        return row


_MARKED: Final = CONTROL_BIT | TRANSACTIONAL_BIT
_COMMITTED: Final = (
    "Records below the high watermark are on every other replica that was in sync, if there was one: copy the "
    "partition from it, or let the broker fetch it from there into an empty directory. If this is the only replica, "
    "keep the directory: in an empty one, the broker starts the partition again without any record."
)
_ABOVE: Final = (
    "All of these records are above the last checkpointed high watermark (brokers write it every 5 seconds). Records "
    "committed since then are on the replicas that were in sync: if there is one, copy the partition from it."
)
_UNKNOWN: Final = (
    "No high watermark is known: if another replica has these records, copy the partition from there instead."
)


class _Tally(Struct):
    from_offset: int = 0
    records: int = 0
    has_unknown_count: bool = False
    committed: int = 0
    bytes: int = 0
    first_offset: int | None = None
    next_offset: int | None = None
    first_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None
    producers: set[int] = field(default_factory=set)
    open_txns: set[int] = field(default_factory=set)
    transactions: int = 0
    has_more: bool = False


class LossCount:
    """The loss of parts of logs, counted while another one reads them, with a search for batches after damage.

    Args:
        high_watermark: the high watermark; None: unknown.
        from_offset: batches that end below it are not lost: a snapshot has their records.
        is_v07: whether the logs are of 0.7.
    """

    def __init__(self, high_watermark: int | None, *, from_offset: int = 0, is_v07: bool = False) -> None:
        self._tally = _Tally(from_offset=from_offset)
        self._high_watermark = high_watermark
        self._is_v07 = is_v07

    def begin(self, size_bytes: int) -> None:
        """Begin a part of this size, in bytes."""
        self._tally.bytes += size_bytes

    def take(self, item: Run | Damage) -> None:
        """Take what a scan of the part gives."""
        if isinstance(item, Damage):
            self._tally.has_more |= bool(item.size_bytes) and not item.is_plain_tail
        else:
            _count(item, self._tally, self._high_watermark, is_v07=self._is_v07)

    def loss(self, partition: Partition, path: str) -> Loss | None:
        """Return the loss; None: there were only torn batches and zeros. `path`: of the first log."""
        tally = self._tally
        # A torn batch or zeros at the end were never records of anybody.
        if tally.first_offset is None and not tally.records and not tally.has_more:
            return None
        is_known = not tally.has_unknown_count
        return Loss(
            topic=partition.topic,
            partition=partition.partition,
            path=path,
            first_offset=tally.first_offset,
            next_offset=tally.next_offset,
            records=tally.records if is_known else None,
            bytes=tally.bytes,
            committed_records=tally.committed if is_known and self._high_watermark is not None else None,
            first_timestamp_ms=tally.first_timestamp_ms,
            max_timestamp_ms=tally.max_timestamp_ms,
            transactions=tally.transactions,
            producers=len(tally.producers),
            cure=cure_of_loss(tally.first_offset, self._high_watermark),
        )


def measure_loss(
    partition: Partition, cuts: Sequence[tuple[str, int]], high_watermark: int | None, *, from_offset: int = 0
) -> Loss | None:
    """Return the loss of all records after a position of each log; None: there are only torn batches and zeros.

    Args:
        partition: the partition of the logs.
        cuts: for each log its path, and the position of the first byte that is deleted.
        high_watermark: the high watermark; None: unknown.
        from_offset: batches that end below it are not lost: a snapshot has their records.
    """
    is_v07 = partition.format == "v07"
    counted = LossCount(high_watermark, from_offset=from_offset, is_v07=is_v07)
    # Records after damage are lost with it, so they count too.
    options = ScanOptions(resync=True)
    for path, start in cuts:
        with Source.open(path) as source:
            end = source.size_bytes
            counted.begin(end - start)
            for item in scan(source, base_offset=None, is_v07=is_v07, options=options, start=start, end=end):
                counted.take(item)
    return counted.loss(partition, cuts[0][0])


def cure_of_loss(first_offset: int | None, high_watermark: int | None) -> str:
    """Return how to lose less: records from an offset on may be on other replicas, by the high watermark."""
    if high_watermark is None:
        return _UNKNOWN
    # Below it, consumers may have read the records, and other replicas have them.
    return _COMMITTED if first_offset is None or first_offset < high_watermark else _ABOVE


def _count(run: Run, tally: _Tally, high_watermark: int | None, *, is_v07: bool) -> None:
    if tally.from_offset:
        rows = [row for row, last in enumerate(run.batches.column("last_offset")) if last >= tally.from_offset]
        if not rows:
            return
        run = run.rows(rows[0], rows[-1] + 1)
    batches = run.batches
    firsts, lasts = batches.column("base_offset"), batches.column("last_offset")
    # a compressed message does not show its first offset, and the offsets of damage may go back, or be negative
    starts = (first if first >= 0 else last for first, last in zip(firsts, lasts, strict=True))
    first = min((offset for offset in starts if offset >= 0), default=None)
    if first is not None:
        tally.first_offset = first if tally.first_offset is None else min(tally.first_offset, first)
        tally.next_offset = max(tally.next_offset or 0, max(lasts) + (not is_v07))
    tally.producers.update(each for each in set(batches.column("producer_id")) if each >= 0)
    _count_times(batches, tally)
    attributes = batches.column("attributes")
    flags: Sequence[int] = ()
    if any(each > 0 and each & _MARKED for each in set(attributes)):
        formats = batches.column("format")
        flags = [flag if magic == MAGIC_V2 else 0 for flag, magic in zip(attributes, formats, strict=True)]
        _count_transactions(batches, flags, tally)
    counts = _record_counts(run, flags)
    # One batch that cannot be decompressed makes the whole number unknown.
    if min(counts, default=0) < 0:
        tally.has_unknown_count = True
    tally.records += sum(counts)
    if high_watermark is None or (first or 0) >= high_watermark:
        return
    # A batch counts as committed only if all of it is below the high watermark.
    below = bisect_left(lasts, high_watermark)
    tally.committed += sum(counts[:below])


def _record_counts(run: Run, flags: Sequence[int]) -> Sequence[int]:
    """Return the record count of each batch: 0 for a control batch, negative if it cannot be decompressed."""
    counts: Sequence[int] = run.batches.column("record_count")
    if min(counts) < 0:  # the header of a compressed v0 or v1 message has no record count
        counts = _opened_counts(run)
    if not flags:
        return counts
    return [0 if flag & CONTROL_BIT else count for flag, count in zip(flags, counts, strict=True)]


def _opened_counts(run: Run) -> list[int]:
    counts = run.batches.column("record_count").tolist()
    opened: Counter[int] = Counter()
    unread = set()
    is_wrapper = [count < 0 for count in counts]
    for item in decode_run(run.memory, run.batches, max_bytes=MAX_BATCH_BYTES, wanted=is_wrapper.__getitem__):
        if isinstance(item, PayloadDamage):
            unread.add(item.batch)
        else:
            opened.update(item.records.column("batch").tolist())
    return [-1 if row in unread else opened[row] if is_wrapper[row] else count for row, count in enumerate(counts)]


def _count_times(batches: BatchColumns, tally: _Tally) -> None:
    least, most = min(batches.column("base_timestamp_ms")), max(batches.column("max_timestamp_ms"))
    if least < 0:
        times = (*batches.column("base_timestamp_ms"), *batches.column("max_timestamp_ms"))
        least = min((each for each in times if each >= 0), default=-1)
    if least >= 0:
        tally.first_timestamp_ms = least if tally.first_timestamp_ms is None else min(tally.first_timestamp_ms, least)
    if most >= 0:
        tally.max_timestamp_ms = most if tally.max_timestamp_ms is None else max(tally.max_timestamp_ms, most)


def _count_transactions(batches: BatchColumns, flags: Sequence[int], tally: _Tally) -> None:
    """Count transactions with records here: each ends with a marker of its producer."""
    for producer_id, flag in zip(batches.column("producer_id"), flags, strict=True):
        if flag & CONTROL_BIT:
            tally.open_txns.discard(producer_id)
        elif flag & TRANSACTIONAL_BIT and producer_id not in tally.open_txns:
            tally.open_txns.add(producer_id)
            tally.transactions += 1
