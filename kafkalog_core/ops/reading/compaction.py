"""Whether offsets that are missing were compacted away or lost: the one rule for everybody who meets a gap.

The evidence, in this order: the topic is one of Kafka's own that are compacted; a broker has cleaned the partition, as
its checkpoint says; batches hold fewer records than they did, or offsets are missing in several places, as in a copy
of a leader's log that was compacted. All of that speaks for compaction. Against it speak records that a pass would have
removed: each pass rewrites the log from its start on, and leaves below where it ends no record without a key, and of
each key the last record alone. So if such records are before a gap, no compaction made it. Without either,
it is unknown: the topic's settings are not in its directory.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from kafkalog_core.errors import StorageError
from kafkalog_core.format.columns import RecordColumns
from kafkalog_core.format.decode import PayloadDamage, RecordRun, decode_run
from kafkalog_core.format.layout import CONTROL_BIT, MAGIC_V2
from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.ops.reading.logfiles import Checkpoints, LogFile, Unit
    from kafkalog_core.storage.scan import Run

__all__ = ["FEW_GAPS", "Compaction", "LogPart", "is_compacted", "may_be_compacted", "shows_no_compaction"]

FEW_GAPS: Final = 1
"""Up to this number of places where offsets are missing may be a loss; more of them are what compaction leaves."""
_COMPACTED_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
"""Kafka's own topics that every broker compacts."""
_MANY: Final = 2
_LOOK_BYTES: Final = 16 * 1024 * 1024
_LOOK_RECORDS: Final = 200_000


class LogPart(NamedTuple):
    """A log up to a byte at which a batch ends."""

    path: str
    base_offset: int | None
    end: int


def is_compacted(topic: str | None, *, is_cleaned: bool | None) -> bool:
    """Return whether a log is known to be compacted. `is_cleaned`: whether a broker has cleaned it; None: unknown."""
    return topic in _COMPACTED_TOPICS or bool(is_cleaned)


def shows_no_compaction(before: Iterable[LogPart], options: ScanOptions) -> bool:
    """Return whether the records before a gap tell that no compaction made it.

    Args:
        before: what is before the gap, the nearest log first; 16 MiB of it are read, of each log the first ones.
        options: how logs are scanned.
    """
    keys: set[int] = set()
    left = _LOOK_BYTES
    for part in before:
        for key in _keys(part, left, options):
            if key is None or key in keys:
                return True
            keys.add(key)
            if len(keys) >= _LOOK_RECORDS:
                return False
        left -= part.end
        if left <= 0:
            break
    return False


class Compaction:
    """What is known of one log; its files are read once more, and only where somebody asks what needs it."""

    def __init__(self, unit: Unit, checkpoints: Checkpoints, options: ScanOptions) -> None:
        self._unit = unit
        self._checkpoints = checkpoints
        self._options = options

    @cached_property
    def explains_lost_segments(self) -> bool:
        """Whether offsets that are in no segment were compacted away: some are missing in segments too."""
        return self._is_known or self._gaps_inside > 0

    @cached_property
    def explains_gaps(self) -> bool:
        """Whether offsets that are missing between two batches of a segment were compacted away."""
        return self._is_known or self._gaps_inside > FEW_GAPS

    def is_loss(self, file: LogFile, position: int) -> bool:
        """Return whether the offsets before the batch at `position` of a file were lost for certain."""
        if self._checkpoints.is_cleaned(self._unit) is None or self.explains_gaps:
            return False
        paths = [other.path for other in self._unit.files]
        earlier = self._unit.files[: paths.index(file.path)] if file.path in paths else ()
        parts = [LogPart(other.path, other.base_offset, other.file.size_bytes) for other in reversed(earlier)]
        return shows_no_compaction([LogPart(file.path, file.base_offset, position), *parts], self._options)

    @cached_property
    def _is_known(self) -> bool:
        return is_compacted(self._unit.topic, is_cleaned=self._checkpoints.is_cleaned(self._unit))

    @cached_property
    def _gaps_inside(self) -> int:
        """Places in segments where offsets are missing, up to two of them."""
        count = 0
        for file in self._unit.files:
            count += _gaps_in(file.path, file.base_offset, self._options)[0]
            if count >= _MANY:
                break
        return count


# --- what is in the logs ----------------------------------------------------------------------------------------------
def may_be_compacted(
    logs: Iterable[tuple[str, int]], topic: str | None, *, is_cleaned: bool | None, options: ScanOptions
) -> bool:
    """Return whether batches of a log may have been compacted away; reads the headers of all its batches.

    Args:
        logs: path and base offset of the log file of each segment, in order.
        topic: of the log.
        is_cleaned: whether a broker has cleaned it here; `None`: unknown, and then one missing offset is enough.
        options: how logs are scanned.
    """
    if is_compacted(topic, is_cleaned=is_cleaned):
        return True
    count, expected = 0, None
    for path, base_offset in logs:
        count += expected is not None and base_offset > expected
        more, expected = _gaps_in(path, base_offset, options)
        count += more
        if count > (0 if is_cleaned is None else FEW_GAPS):
            return True
    return False


def _gaps_in(path: str, base_offset: int | None, options: ScanOptions) -> tuple[int, int | None]:
    """Return in how many places offsets are missing, and the offset after the last batch.

    Damage is not the reason of them. They are counted up to two; a thinned batch counts as two. `None`: the offset is
    not known, as damage comes before it or the counting ended.
    """
    count = 0
    expected = base_offset
    try:
        with Source.open(path) as source:
            for item in scan(source, base_offset=base_offset, options=options):
                if isinstance(item, Damage):
                    expected = None
                    continue
                spans = _spans_of(item, options)
                for first, last, records in spans:
                    count += expected is not None and first > expected
                    if last - first + 1 > records or count >= _MANY:
                        return _MANY, None
                    expected = last + 1
                expected = expected if spans else None
    except StorageError:
        return count, None
    return count, expected


def _spans_of(run: Run, options: ScanOptions) -> list[tuple[int, int, int]]:
    """Return first offset, last offset and record count of each batch, or of the whole run if it has wrapper messages.

    The list is empty if a wrapper cannot be read.
    """
    counts = run.batches.column("record_count")
    if min(counts) >= 0:
        return list(zip(run.batches.column("base_offset"), run.batches.column("last_offset"), counts, strict=True))
    last = max(run.batches.column("last_offset"))
    first, count = last, 0
    for item in decode_run(run.memory, run.batches, max_bytes=options.max_batch_bytes):
        if isinstance(item, PayloadDamage):
            return []
        first = min(first, min(item.records.column("offset"), default=first))
        count += item.records.count
    return [(first, last, count)]


def _keys(part: LogPart, most_bytes: int, options: ScanOptions) -> Iterator[int | None]:
    """Yield a number for the key of each record of data in order; None where it has none."""
    max_bytes, columns = options.max_batch_bytes, RecordColumns()
    try:
        with Source.open(part.path) as source:
            for item in scan(
                source, base_offset=part.base_offset, options=options, end=min(part.end, most_bytes, source.size_bytes)
            ):
                if isinstance(item, Damage):
                    continue
                wanted = _data_rows(item.batches)
                for run in decode_run(item.memory, item.batches, max_bytes=max_bytes, wanted=wanted, records=columns):
                    if isinstance(run, RecordRun):
                        yield from _keys_of(run)
    except StorageError:
        return


def _data_rows(batches: BatchColumns) -> Callable[[int], bool]:
    """Return a test by row: whether it is not a control batch."""
    rows = zip(batches.column("format"), batches.column("attributes"), strict=True)
    is_data = bytearray(magic != MAGIC_V2 or not attributes & CONTROL_BIT for magic, attributes in rows)
    return cast("Callable[[int], bool]", is_data.__getitem__)


def _keys_of(run: RecordRun) -> Iterator[int | None]:
    for start, size in zip(run.records.column("key_start"), run.records.column("key_size"), strict=True):
        yield None if size < 0 else hash(bytes(run.memory[start : start + size]))
