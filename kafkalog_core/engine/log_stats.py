"""The statistics of a partition or a segment, from the headers of its batches."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.columns import FORMAT_NAMES, FORMAT_V07
from kafkalog_core.format.decode import codec_name
from kafkalog_core.format.layout import CONTROL_BIT, DELETE_HORIZON_BIT, MAGIC_V2, TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT

if TYPE_CHECKING:
    from kafkalog_core.format.columns import BatchColumns, RecordColumns

__all__ = ["LogStats"]


MAX_PRODUCERS: Final = 1_000_000
PRODUCERS_SHOWN: Final = 20


class LogStats:
    """Statistics of a log, added up run by run; `row` is the `stats` row, `segment_row` the part in a `segment` row."""

    def __init__(self) -> None:
        self.segments = 0
        self.unread_segments = 0
        self.batches = 0
        self.bytes = 0
        self.records = 0
        self.control_records = 0
        self.transactional_records = 0
        self.first_offset: int | None = None
        self.last_offset: int | None = None
        self.min_base_timestamp_ms: int | None = None
        self.max_timestamp_ms: int | None = None
        self.formats: Counter[str] = Counter()
        self.codecs: Counter[str] = Counter()
        self.codec_bytes: Counter[str] = Counter()
        self.batch_sizes: Counter[int] = Counter()
        self.producers: Counter[int] = Counter()
        self.damage_count = 0
        self.damage_bytes = 0

    def add_damage(self, size_bytes: int) -> None:
        """Count one damaged range."""
        self.damage_count += 1
        self.damage_bytes += size_bytes

    def add_run(self, batches: BatchColumns) -> None:
        """Add the batches of a run; `add_wrapped` adds the records in wrappers, which headers do not count."""
        sizes = batches.column("size_bytes")
        codecs = batches.column("codec")
        self.batches += batches.count
        self.bytes += sum(sizes)
        self.records += sum(count for count in batches.column("record_count") if count > 0)
        for batch_format, count in Counter(batches.column("format")).items():
            self.formats[FORMAT_NAMES[batch_format]] += count
        for codec, count in Counter(codecs).items():
            self.codecs[codec_name(codec)] += count
        for codec in set(codecs):
            self.codec_bytes[codec_name(codec)] += sum(
                size for size, of_batch in zip(sizes, codecs, strict=True) if of_batch == codec
            )
        self.batch_sizes.update(1 << (size - 1).bit_length() for size in sizes)
        self._add_offsets(batches)
        self._add_timestamps(batches)
        if MAGIC_V2 in batches.column("format"):
            self._add_producers(batches)

    def add_wrapped(self, records: RecordColumns) -> None:
        """Add records in wrappers, whose headers contain neither their number nor all offsets and timestamps."""
        self.records += records.count
        # Wrappers of magic 0 and 1 show only their last offset.
        first_offset = min(records.column("offset"))
        self._widen_offsets(first_offset, first_offset)
        self._widen_times([time for time in records.column("timestamp_ms") if time >= 0])

    def _add_offsets(self, batches: BatchColumns) -> None:
        known = [offset for offset in batches.column("base_offset") if offset >= 0]
        # An offset of 0.7 is the address of the message; it has no separate last offset.
        is_v07 = batches.column("format")[0] == FORMAT_V07
        last = max(known) if is_v07 else max(batches.column("last_offset"))
        self._widen_offsets(min(known) if known else last, last)

    def _widen_offsets(self, first: int, last: int) -> None:
        self.first_offset = first if self.first_offset is None else min(self.first_offset, first)
        self.last_offset = last if self.last_offset is None else max(self.last_offset, last)

    def _add_timestamps(self, batches: BatchColumns) -> None:
        attributes = batches.column("attributes")
        known = [time for time in batches.column("max_timestamp_ms") if time >= 0]
        known += [
            time
            for time, bits in zip(batches.column("base_timestamp_ms"), attributes, strict=True)
            # With these bits the base timestamp is a delete horizon (KIP-534) or the append time, not the first
            # record's.
            if time >= 0 and not (bits >= 0 and bits & (DELETE_HORIZON_BIT | TIMESTAMP_TYPE_BIT))
        ]
        self._widen_times(known)

    def _widen_times(self, known: list[int]) -> None:
        if known:
            low, high = min(known), max(known)
            self.min_base_timestamp_ms = (
                low if self.min_base_timestamp_ms is None else min(self.min_base_timestamp_ms, low)
            )
            self.max_timestamp_ms = high if self.max_timestamp_ms is None else max(self.max_timestamp_ms, high)

    def _add_producers(self, batches: BatchColumns) -> None:
        names = ("format", "attributes", "producer_id", "record_count")
        for batch_format, bits, producer, count in zip(*(batches.column(name) for name in names), strict=True):
            if batch_format != MAGIC_V2 or count <= 0:
                continue
            if bits & CONTROL_BIT:
                self.control_records += count
            elif bits & TRANSACTIONAL_BIT:
                self.transactional_records += count
            # Bounded: a log with millions of producer ids must not fill the memory.
            if producer >= 0 and (producer in self.producers or len(self.producers) < MAX_PRODUCERS):
                self.producers[producer] += count

    def row(self, topic: str | None, partition: int | None) -> dict[str, object]:
        """Return the `stats` row; without figures if no segment of the partition could be read."""
        known: dict[str, object] = {"topic": topic, "partition": partition}
        known |= {"segments": self.segments, "unread_segments": self.unread_segments}
        if 0 < self.segments == self.unread_segments:
            return known
        shown = self.producers.most_common(PRODUCERS_SHOWN)
        producers = {str(producer): count for producer, count in shown}
        rest = sum(self.producers.values()) - sum(count for _, count in shown)
        if rest:
            producers["other"] = rest
        return known | {
            "bytes": self.bytes,
            "batches": self.batches,
            "records": self.records,
            "control_records": self.control_records,
            "transactional_records": self.transactional_records,
            "first_offset": self.first_offset,
            "last_offset": self.last_offset,
            "min_base_timestamp_ms": self.min_base_timestamp_ms,
            "max_timestamp_ms": self.max_timestamp_ms,
            "formats": dict(self.formats),
            "codecs": dict(self.codecs),
            "codec_bytes": dict(self.codec_bytes),
            "batch_sizes": {str(size): self.batch_sizes[size] for size in sorted(self.batch_sizes)},
            "producers": producers,
            "producer_count": len(self.producers),
            "damage_count": self.damage_count,
            "damage_bytes": self.damage_bytes,
        }

    def segment_row(self) -> dict[str, object]:
        """Return the columns of a `segment` row that come from its log."""
        return {
            "first_offset": self.first_offset,
            "last_offset": self.last_offset,
            "batch_count": self.batches,
            "record_count": self.records,
            "min_base_timestamp_ms": self.min_base_timestamp_ms,
            "max_timestamp_ms": self.max_timestamp_ms,
            "formats": ",".join(sorted(self.formats)),
            "codecs": ",".join(sorted(self.codecs)),
            "damage_count": self.damage_count,
            "damage_bytes": self.damage_bytes,
        }
