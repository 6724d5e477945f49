"""Rows of one run of batches: filter, decode, and report damage in whole batches.

Forwards, damage in a header comes before the rows of its batch, and damage in records after the records that could be
read: the order depends on positions alone, not on which batches are in a run together. Backwards, all of a run comes in
reverse. Damage does not count against a limit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from operator import and_, itemgetter
from typing import TYPE_CHECKING, Literal, cast

from kafkalog_core.engine.chunks import BatchChunk, rows_at
from kafkalog_core.engine.decoded import NO_DECODING
from kafkalog_core.filters.expression import Filters
from kafkalog_core.filters.rows import batch_marks, batches_in_times, content_marks, range_marks, undecided
from kafkalog_core.findings import for_rules
from kafkalog_core.findings.logs import LOG_DAMAGE
from kafkalog_core.format.columns import RecordColumns
from kafkalog_core.format.decode import (
    PayloadDamage,
    RecordRun,
    decode_backwards,
    decode_run,
    header_contradictions,
    records_outside,
)
from kafkalog_core.format.layout import MAGIC_V2, MAX_BATCH_BYTES
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.ops.dump.hits import Hits
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.storage.scan import Run, ScanOptions
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.engine.chunks import Lines
    from kafkalog_core.engine.log_stats import LogStats
    from kafkalog_core.engine.report import Report
    from kafkalog_core.engine.targets import Target
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.sim.read_committed import CommittedView
    from kafkalog_core.output.chunk import Chunk
    from kafkalog_core.output.tables import Table
    from kafkalog_core.progress import Progress

__all__ = ["Committed", "DumpRequest", "Level", "RunReader"]


_Damage = tuple[int, Callable[[], RowChunk]]
"""A row before which damage comes, and what counts it and returns its row."""


class RunReader:
    """Reads runs for one request and counts in its report; `is_full` once the limit is reached."""

    def __init__(self, request: DumpRequest, report: Report, progress: Progress) -> None:
        self._request = request
        self._report = report
        self._progress = progress
        self._left = request.limit
        self._records = RecordColumns()
        self._hits = Hits(request.before, request.after, request.max_count)
        self._reported: tuple[Lines, int] | None = None

    @property
    def is_full(self) -> bool:
        """Whether the request's limit of rows is reached."""
        return self._left is not None and self._left <= 0

    @property
    def is_done(self) -> bool:
        """Whether nothing more of the current log is shown: the limit, or the largest number of matches, is reached."""
        return self.is_full or self._hits.is_over

    def begin_log(self) -> None:
        """Start to read another log: context and the number of matching records are those of one log."""
        self._hits = Hits(self._request.before, self._request.after, self._request.max_count)

    def take(self, count: int) -> int:
        """Return how many of `count` more rows the limit allows, and count them."""
        if self._left is None:
            return count
        taken = min(count, max(0, self._left))
        self._left -= taken
        return taken

    def rows(self, run: Run, lines: Lines, view: CommittedView | None) -> Iterator[Chunk]:
        """Yield rows of the request's level of one run, in the request's order."""
        self._count(run)
        selection, asked = self._selection(run, view)
        is_of_batches = self._request.level == "batches"
        damages = self._contradictions(run, lines)  # few rows
        if is_of_batches:
            damages += self._undecided(run, lines, selection, asked)
        if self._request.newest_first:
            if is_of_batches:
                yield from self._batches(run, lines, selection)
            else:
                yield from self._records_backwards(run, lines, view, selection)
            for _, damage in reversed(damages):
                yield damage()
            return
        first, count = 0, run.batches.count
        # Damage comes between two rows, where a reader of the log meets it.
        for row, damage in sorted(damages, key=itemgetter(0)):
            if row > first:
                yield from self._forwards(run.rows(first, row), lines, view, _part(selection, first, row))
                first = row
                if self.is_done:
                    return
            yield damage()
        yield from self._forwards(run.rows(first, count) if first else run, lines, view, _part(selection, first, count))

    def _forwards(
        self, run: Run, lines: Lines, view: CommittedView | None, selection: bytearray | None
    ) -> Iterator[Chunk]:
        if self._request.level == "batches":
            return self._batches(run, lines, selection)
        return self._records_forwards(run, lines, view, selection)

    def measure(self, run: Run, lines: Lines, stats: LogStats) -> Iterator[Chunk]:
        """Add a run to `stats`; yield only rows of its damage."""
        self._count(run)
        self._report.records += _known_records(run, None)
        stats.add_run(run.batches)
        for _, damage in self._contradictions(run, lines):
            stats.add_damage(0)
            yield damage()
        wrappers = bytearray(_is_wrapper(run, row) for row in range(run.batches.count))
        if not any(wrappers):
            return
        self._opened(wrappers, 0, run.batches.count)
        for item in self._decoded(run, wrappers):
            if isinstance(item, PayloadDamage):
                stats.add_damage(0)
                yield self._payload_damage(item, run, lines)
            else:
                self._report.records += item.records.count
                stats.add_wrapped(item.records)

    # --- batches ------------------------------------------------------------------------------------------------------
    def _batches(self, run: Run, lines: Lines, selection: bytearray | None) -> Iterator[Chunk]:
        if self._request.newest_first:
            turned = run.batches.copy()
            turned.reverse()
            run = Run(run.memory, turned, run.resynced)
            selection = None if selection is None else selection[::-1]
        chosen = self._limited(selection, run.batches.count)
        self._report.records += _known_records(run, chosen)
        self._report.uncounted_batches += _unknown_records(run, chosen)
        chunk = BatchChunk(lines, run, chosen)
        if chunk.count:
            yield chunk

    def _undecided(self, run: Run, lines: Lines, selection: bytearray | None, asked: bytearray | None) -> list[_Damage]:
        """Open the batches whose headers do not show whether a timestamp is in the range; drop those without one.

        Returns damage of those that cannot be opened, which are kept.
        """
        damages: list[_Damage] = []
        if selection is None or asked is None or not any(asked):
            return damages
        bounds = self._request.filters.times_ms
        self._opened(asked, 0, len(asked))
        kept = set()
        for item in self._decoded(run, asked):
            if isinstance(item, PayloadDamage):
                kept.add(item.batch)
                damages.append((item.batch, partial(self._payload_damage, item, run, lines)))
            else:
                kept.update(batches_in_times(bounds, item.records))
        for row, is_asked in enumerate(asked):
            if is_asked and row not in kept:
                selection[row] = 0
        return damages

    # --- records ------------------------------------------------------------------------------------------------------
    def _records_forwards(
        self, run: Run, lines: Lines, view: CommittedView | None, selection: bytearray | None
    ) -> Iterator[Chunk]:
        opened = 0
        for item in self._decoded(run, selection):
            reached = _rows_of(item)[-1] + 1
            self._opened(selection, opened, reached)
            opened = max(opened, reached)
            if isinstance(item, PayloadDamage):
                yield self._payload_damage(item, run, lines)
                continue
            first, count = 0, item.records.count
            for end, damage in sorted(self._wrong_records(item, lines), key=itemgetter(0)):
                if end > first:
                    some = item._replace(records=item.records.part(first, end))
                    yield from self._chosen(some, lines, view, resynced=run.resynced)
                    first = end
                yield damage()
            if first < count:
                rest = item._replace(records=item.records.part(first, count)) if first else item
                yield from self._chosen(rest, lines, view, resynced=run.resynced)
            if self.is_done:
                return
        self._opened(selection, opened, run.batches.count)

    def _records_backwards(
        self, run: Run, lines: Lines, view: CommittedView | None, selection: bytearray | None
    ) -> Iterator[Chunk]:
        opened = run.batches.count
        for item in decode_backwards(
            run.memory,
            run.batches,
            max_bytes=self._request.max_batch_bytes,
            wanted=_asked(selection),
            records=self._records,
            opens_nested=self._request.resync,
        ):
            reached = _rows_of(item)[0]
            self._opened(selection, reached, opened)
            opened = min(opened, reached)
            if isinstance(item, PayloadDamage):
                yield self._payload_damage(item, run, lines)
                continue
            for _, damage in reversed(self._wrong_records(item, lines)):
                yield damage()
            item.records.reverse()
            yield from self._chosen(item, lines, view, resynced=run.resynced)
            if self.is_done:
                return
        self._opened(selection, 0, opened)

    def _decoded(self, run: Run, selection: bytearray | None) -> Iterator[RecordRun | PayloadDamage]:
        return decode_run(
            run.memory,
            run.batches,
            max_bytes=self._request.max_batch_bytes,
            wanted=_asked(selection),
            records=self._records,
            opens_nested=self._request.resync,
        )

    def _chosen(self, run: RecordRun, lines: Lines, view: CommittedView | None, *, resynced: bool) -> Iterator[Chunk]:
        """Yield the selected records of a decoded run."""
        among, hits = self._record_marks(run, view)
        if self._hits.is_needed:
            earlier, hits = self._hits.widen(among, hits, run.records.count)
            yield from self._earlier(earlier)
            whole = lines.records(run, resynced=resynced)
            for row in self._hits.last_hidden(among, hits, run.records.count):
                self._hits.keep(whole.table, _owned(whole.row_view(row)))
        selection = self._limited(hits, run.records.count)
        chunk = lines.records(run, resynced=resynced, selection=selection)
        self._report.records += chunk.count
        if chunk.count:
            yield chunk

    def _earlier(self, earlier: list[tuple[Table, dict[str, object]]]) -> Iterator[RowChunk]:
        """Yield records of earlier runs, which come before a matching one."""
        for table, row in earlier[: self.take(len(earlier))]:
            self._report.records += 1
            yield RowChunk(table, [row])

    # --- what is wanted -----------------------------------------------------------------------------------------------
    def _selection(self, run: Run, view: CommittedView | None) -> tuple[bytearray | None, bytearray | None]:
        """Return a byte for each batch, 0 for those that are left out, and one that is 1 for those to be opened first.

        None: all are selected, and their headers are enough to know.
        """
        count = run.batches.count
        selection = asked = None
        marks = batch_marks(self._request.filters, run.batches)
        if marks is not None:
            selection, asked = undecided(marks)
        if view is None:
            return selection, asked
        committed = bytearray(map(view.batch_filter(run.batches), range(count)))
        return _both(selection, committed), _both(asked, committed) if asked is not None else None

    def _record_marks(self, run: RecordRun, view: CommittedView | None) -> tuple[bytearray | None, bytearray | None]:
        """Return the marks of the records in the ranges, and of those among them that match; None: all of them."""
        among = range_marks(self._request.filters, run.records)
        offsets = run.records.column("offset")
        if view is not None and not (view.is_readable(min(offsets)) and view.is_readable(max(offsets))):
            among = _both(among, bytearray(map(view.is_readable, offsets)))
        hits = content_marks(self._request.filters, run, among)
        return among, among if hits is None else hits

    def _limited(self, selection: bytearray | None, count: int) -> bytearray | None:
        """Return the selection without the rows that exceed the limit."""
        if self._left is None:
            return selection
        chosen = selection if selection is not None else bytearray(b"\x01") * count
        left = self.take(chosen.count(1))
        for row, is_chosen in enumerate(chosen):
            if is_chosen:
                if left <= 0:
                    chosen[row] = 0
                left -= 1
        return chosen

    # --- what is counted ----------------------------------------------------------------------------------------------
    def _count(self, run: Run) -> None:
        size_bytes = sum(run.batches.column("size_bytes"))
        self._report.bytes += size_bytes
        self._report.batches += run.batches.count
        self._report.unopened_batches += run.batches.count
        self._progress.advance(size_bytes)

    def _opened(self, selection: bytearray | None, first: int, last: int) -> None:
        """Count the selected batches of rows `first` to `last` (exclusive) as opened."""
        opened = last - first if selection is None else selection[first:last].count(1)
        self._report.unopened_batches -= max(0, opened)

    # --- what is wrong ------------------------------------------------------------------------------------------------
    def _contradictions(self, run: Run, lines: Lines) -> list[_Damage]:
        """Return damage of headers, by the row of the batch."""
        positions, firsts = run.batches.column("position"), run.batches.column("base_offset")
        return [
            (row, partial(self._batch_damage, wrong.reason, wrong.detail, positions[row], lines, firsts[row]))
            for wrong in header_contradictions(run.batches)
            for row in (wrong.batch,)
        ]

    def _wrong_records(self, run: RecordRun, lines: Lines) -> list[_Damage]:
        """Return damage of records that contradict their batch's header or their checksum, by the row after them."""
        positions, rows = run.batches.column("position"), run.records.column("batch")
        damages: list[_Damage] = []
        for wrong in records_outside(run.batches, run.records):
            place = (lines, positions[wrong.batch])
            if place != self._reported:  # the records of a large batch come in several runs
                self._reported = place
                damage = partial(self._batch_damage, wrong.reason, wrong.detail, positions[wrong.batch], lines)
                damages.append((bisect_right(rows, wrong.batch), damage))
        if run.records.holds_only("crc_ok", 1):
            return damages
        for row, is_right in enumerate(run.records.column("crc_ok")):
            if not is_right:
                stored = run.records.column("crc_stored")[row]
                detail = f"a message in it stores checksum {stored:#010x}, not that of its payload; 0.7 refuses it"
                damages.append(
                    (row + 1, partial(self._batch_damage, "message-crc", detail, positions[rows[row]], lines))
                )
        return damages

    def _payload_damage(self, damage: PayloadDamage, run: Run, lines: Lines) -> RowChunk:
        position = run.batches.column("position")[damage.batch]
        return self._batch_damage(damage.reason, damage.detail, position, lines, damage.next_offset)

    def _batch_damage(
        self, reason: str, detail: str, position: int, lines: Lines, next_offset: int | None = None
    ) -> RowChunk:
        """Return the damage row of a whole batch; its bytes are counted with the batch."""
        severity = LOG_DAMAGE[reason].severity
        self._report.add_damage(reason, 0, severity)
        row = {
            "position": position,
            "size_bytes": 0,
            "reason": reason,
            "detail": detail,
            "next_offset": next_offset,
            "severity": severity,
        }
        return rows_at(lines.place, tables.DAMAGE, [row])


def _part(selection: bytearray | None, first: int, last: int) -> bytearray | None:
    return selection if selection is None or last - first == len(selection) else selection[first:last]


def _asked(selection: bytearray | None) -> Callable[[int], bool] | None:
    if selection is None or selection.count(1) == len(selection):
        return None
    return cast("Callable[[int], bool]", selection.__getitem__)


def _owned(row: dict[str, object]) -> dict[str, object]:
    """Return a row that does not refer to the buffer."""
    return {name: bytes(value) if isinstance(value, memoryview) else value for name, value in row.items()}


def _both(one: bytearray | None, other: bytearray) -> bytearray:
    """Return the marks of the rows that are marked in both; None: all of them are."""
    return other if one is None else bytearray(map(and_, one, other))


def _rows_of(item: RecordRun | PayloadDamage) -> memoryview | tuple[int]:
    """Return the rows of the batches that an item comes from, in order."""
    return (item.batch,) if isinstance(item, PayloadDamage) else item.records.column("batch")


def _is_wrapper(run: Run, row: int) -> bool:
    return run.batches.column("record_count")[row] < 0 and run.batches.column("format")[row] != MAGIC_V2


def _known_records(run: Run, selection: bytearray | None) -> int:
    counts = run.batches.column("record_count")
    if selection is None:
        return sum(count for count in counts if count > 0)
    return sum(count for count, is_chosen in zip(counts, selection, strict=True) if is_chosen and count > 0)


def _unknown_records(run: Run, selection: bytearray | None) -> int:
    """Return the number of wrappers in a run, whose headers do not contain the number of their records."""
    if min(run.batches.column("record_count"), default=0) >= 0:
        return 0
    return sum(_is_wrapper(run, row) for row in range(run.batches.count) if selection is None or selection[row])


Level = Literal["segments", "batches", "records"]


Committed = Literal["log-end", "high-watermark"]


class DumpRequest(Struct, frozen=True, kw_only=True):
    """What to dump.

    Args:
        targets: files, partitions and log directories, from `targets.resolve`.
        level: one row for each segment, batch or record of every log.
        files: whether the entries of indexes, snapshots, checkpoints and property files are rows too.
        filters: which batches and records.
        before: number of records of context that are shown before each matching one, of its log and in its ranges.
        after: the same after each matching one.
        max_count: matching records of each log after which the rest of it is not read; None: all.
        counts: whether each log has one row with the number of its matching records, instead of a row for each.
        committed: only what a read_committed consumer gets, up to the log's end or the checkpointed high watermark.
        newest_first: whether the highest offsets come first.
        limit: most rows of the level, entries of files included; None: all.
        resync: whether to search for batches after damage, and to open compressed messages in compressed messages.
        max_batch_bytes: size of the largest batch that is read, in bytes, decompressed too.
        stats: a row of statistics for each partition instead of its rows.
        path: whether rows have a column with the path of their file.
        decode: which records have columns with what key and value say: `auto`, those of Kafka's own topics; `none`; or
            the topic whose records all files hold.
        kafka: release whose rules findings report as the broker's action; None: the rules of the newest release.
    """

    targets: tuple[Target, ...]
    level: Level = "batches"
    files: bool = False
    filters: Filters = field(default_factory=Filters)
    before: int = 0
    after: int = 0
    max_count: int | None = None
    counts: bool = False
    committed: Committed | None = None
    newest_first: bool = False
    limit: int | None = None
    resync: bool = False
    max_batch_bytes: int = MAX_BATCH_BYTES
    stats: bool = False
    path: bool = False
    decode: str = NO_DECODING
    kafka: Release | None = None

    @property
    def needs_whole_logs(self) -> bool:
        """Whether what is shown of a log depends on more than each of its batches."""
        is_limited = self.limit is not None or self.max_count is not None
        return is_limited or self.committed is not None or self.newest_first or bool(self.before or self.after)

    @property
    def comes_batch_by_batch(self) -> bool:
        """Whether the rows of a log are those of its parts, one after the other."""
        return self.level != "segments" and not self.stats and not self.needs_whole_logs

    @property
    def scan_options(self) -> ScanOptions:
        """How its files are scanned."""
        return ScanOptions(max_batch_bytes=self.max_batch_bytes, resync=self.resync)

    def shown(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return the findings that become rows: of severity info only those that hide records, unless files are listed.

        The broker's actions in them are those of the request's release.
        """
        lists_files = self.files or self.level == "segments"
        shown = [each for each in findings if lists_files or each.severity != "info" or each.hides_records]
        return shown if self.kafka is None else [for_rules(each, rules_of(self.kafka)) for each in shown]
