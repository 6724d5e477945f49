"""What a command counts: the report, from which the exit status follows, and the statistics of a partition."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings import DENIED
from kafkalog_core.format.columns import FORMAT_NAMES, FORMAT_V07
from kafkalog_core.format.decode import codec_name
from kafkalog_core.format.layout import CONTROL_BIT, DELETE_HORIZON_BIT, MAGIC_V2, TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.findings import Severity
    from kafkalog_core.format.columns import BatchColumns, RecordColumns

__all__ = ["LogStats", "Report"]


CLEAN = 0
REFUSED = 3
DAMAGED = 4


_SUMS: Final = (
    "files", "partitions", "bytes", "unchanged_bytes", "unopened_batches", "uncounted_batches", "batches", "records",
    "rows", "damage_count", "damage_bytes",
)  # fmt: skip


class Report:
    """Counts that grow while a command runs; `summary_row` and `exit_status` are derived from them."""

    def __init__(self, *, fail_on: Severity = "error") -> None:
        self._fail_on = fail_on
        self.files = 0
        self.partitions = 0
        self.bytes = 0
        self.expected_files = 0
        self.expected_partitions = 0
        self.expected_bytes = 0
        self.unchanged_bytes = 0
        self.advanced_bytes = 0
        self.unopened_batches = 0
        self.uncounted_batches = 0
        self.batches = 0
        self.records = 0
        self.rows = 0
        self.damage_count = 0
        self.damage_bytes = 0
        self.refusals: list[str] = []
        self.severities: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self._written_status: int | None = None

    def note_written(self) -> None:
        """Note that rows were written, for `written_status`."""
        self._written_status = self.exit_status

    @property
    def written_status(self) -> int:
        """The exit status of a command whose reader has gone: of all that was read when rows were last written.

        Before any were, that is everything so far. So it does not depend on whether the reader went before the first
        rows or after them.
        """
        return self.exit_status if self._written_status is None else self._written_status

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of log that were read of what was not finished, as far as progress was reported."""
        # Progress counts what was read; files that were not finished are in no other figure.
        return max(0, self.advanced_bytes - (self.bytes - self.unchanged_bytes))

    def expect(self, *, files: int = 0, partitions: int = 0, size_bytes: int = 0) -> None:
        """Add what is to be read; what of it is not counted as read in the end was not read."""
        self.expected_files += files
        self.expected_partitions += partitions
        self.expected_bytes += size_bytes

    def add(self, other: Report) -> None:
        """Add what was read elsewhere, of what is expected here."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.severities.update(other.severities)
        self.codes.update(other.codes)

    def add_damage(self, reason: str, size_bytes: int, severity: Severity = "error") -> None:
        """Count one damaged place."""
        self.damage_count += 1
        self.damage_bytes += size_bytes
        self.severities[severity] += 1
        self.codes[reason] += 1

    def add_finding(self, row: Mapping[str, object], *, count: int = 1) -> None:
        """Count a `finding` row, which may represent several."""
        self.severities[str(row["severity"])] += count
        self.codes[str(row["code"])] += count

    def forget_finding(self, row: Mapping[str, object]) -> None:
        """Undo `add_finding`: the row is not shown, because another one says the same."""
        for counts, key in ((self.severities, row["severity"]), (self.codes, row["code"])):
            counts[str(key)] -= 1
            if not counts[str(key)]:
                del counts[str(key)]

    @property
    def is_partial(self) -> bool:
        """Whether a target, or a file in one, was not read because the user has no permission."""
        return bool(self.refusals) or self.codes[DENIED] > 0

    @property
    def exit_status(self) -> int:
        """The exit status: 4 if a finding has severity error, or warning with `fail_on`; else 0.

        It is 3 if a target could not be read, or the user may not read a file in one, whatever else was found: an
        incomplete result must not look like a complete one. The findings are in the rows.
        """
        if self.is_partial:
            return REFUSED
        is_bad = self.severities["error"] or (self._fail_on == "warning" and self.severities["warning"])
        return DAMAGED if is_bad else CLEAN

    def summary_row(self) -> dict[str, object]:
        """Return the `summary` row."""
        return {
            # The larger one: a log may grow while it is read.
            "files": self.files,
            "files_total": max(self.files, self.expected_files),
            "partitions": self.partitions,
            "partitions_total": max(self.partitions, self.expected_partitions),
            "bytes": self.bytes,
            "bytes_total": max(self.bytes, self.expected_bytes),
            "unchanged_bytes": self.unchanged_bytes,
            "batches": self.batches,
            "unopened_batches": self.unopened_batches,
            "records": self.records,
            "uncounted_batches": self.uncounted_batches,
            "rows": self.rows,
            "damage_count": self.damage_count,
            "damage_bytes": self.damage_bytes,
            "severities": {
                name: self.severities[name] for name in ("info", "warning", "error") if self.severities[name]
            },
            "codes": dict(sorted(self.codes.items())),
            "interrupted": False,
            "exit_status": self.exit_status,
        }


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
