"""One task of the export: some of a partition's log files, or parts of them, become one Parquet file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core import tables
from kafkalog_core.errors import StorageError
from kafkalog_core.findings import FINDING_TYPES, Finding, found
from kafkalog_core.findings.logs import DAMAGE_CODES
from kafkalog_core.ops.progress import NO_PROGRESS
from kafkalog_core.ops.reading.chunks import RecordChunk
from kafkalog_core.ops.reading.file_codes import code_of_error
from kafkalog_core.ops.reading.logfiles import Unit
from kafkalog_core.ops.reading.logreader import LogReader
from kafkalog_core.ops.report import Report
from kafkalog_core.ops.sink import Sink
from kafkalog_core.spark.commit import Part, attempt_name, sync_file
from kafkalog_core.spark.export_state import LastBatch
from kafkalog_core.storage.changing.writer import WriteError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalog_core.findings import Severity
    from kafkalog_core.ops.dump import DumpRequest
    from kafkalog_core.ops.reading.chain import OffsetSpan
    from kafkalog_core.ops.reading.rows import Chunk
    from kafkalog_core.ops.reading.splits import Split
    from kafkalog_core.spark.arrow import ArrowRows
    from kafkalog_core.spark.parquet import Compression, ParquetFile

__all__ = ["COLUMNS", "Piece", "PieceResult", "export_piece", "keep_before"]

COLUMNS: Final = tuple(name for name in tables.RECORD.names if name not in {"type", "topic", "partition"})
"""Of the files: topic and partition are those of their directories' names."""
_EXPECTED: Final = frozenset({"file.grew"})
"""What is no news of a log that is exported while it is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What one task does.

    Args:
        splits: parts of one partition's log, in order.
        request: how they are read; without targets.
        staging: the directory that the file is written into.
        stem: how its name begins.
        folder: the directory that it comes to lie in, below the output.
        compression: of the file.
    """

    splits: tuple[Split, ...]
    request: DumpRequest
    staging: str
    stem: str
    folder: str
    compression: Compression


class Span(NamedTuple):
    """What was seen of one log file: see `OffsetSpan`."""

    last_offset: int | None
    batches_end: int
    damage_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceResult:
    """What has come of it.

    Args:
        part: the file; null: there was no record to write.
        spans: by path; of files that could not be opened there is none.
        last_batch: the last one of the last file that had any.
        findings: what is wrong, some of each kind one by one.
        counts: findings by severity and code, all of them.
        totals: figures of the summary by name.
    """

    part: Part | None
    spans: Mapping[str, Span]
    last_batch: LastBatch | None
    findings: tuple[Finding, ...]
    counts: Mapping[tuple[str, str], int]
    totals: Mapping[str, int]


def export_piece(piece: Piece, advance: Callable[[int], None]) -> PieceResult:
    """Read, and write one file. Raises WriteError where it cannot be written."""
    return _Exporter(piece, advance).run()


class _Exporter:
    def __init__(self, piece: Piece, advance: Callable[[int], None]) -> None:
        self._piece = piece
        self._report = Report()
        self._reader = LogReader(piece.request, self._report, _Advance(advance))
        self._sink = Sink(piece.splits[0].topic, piece.splits[0].partition)
        self._file = _RecordFile(piece)
        self._counts: dict[tuple[str, str], int] = {}
        self._spans: dict[str, Span] = {}
        self._last: LastBatch | None = None

    def run(self) -> PieceResult:
        """All splits, one behind the other."""
        with self._file:
            for split in self._piece.splits:
                self._split(split)
            part = self._file.finish()
        finding = self._file.finding()
        if finding is not None:
            self._put(finding)
        report = self._report
        names = ("files", "bytes", "batches", "records", "damage_count", "damage_bytes")
        return PieceResult(
            part=part,
            spans=self._spans,
            last_batch=self._last,
            findings=self._sink.findings,
            counts=self._counts,
            totals={name: getattr(report, name) for name in names},
        )

    def _split(self, split: Split) -> None:
        unit = Unit(
            topic=split.topic, partition=split.partition, path=split.path, log_dir=split.log_dir, files=(split.file,)
        )
        try:
            for chunk in self._reader.rows(split.file, unit, None, split.part):
                self._take(chunk, split.path)
        except WriteError:
            raise
        except StorageError as error:
            self._put(
                found(
                    code_of_error(error),
                    split.path,
                    reason=error.message,
                    topic=split.topic,
                    partition=split.partition,
                    severity="error",
                )
            )
        for path, span in self._reader.take_spans().items():
            self._spans[path] = _joined(self._spans.get(path), span)
        mark = self._reader.last_batch
        if mark is not None:
            self._last = LastBatch.of(mark, os.path.basename(split.path))

    def _take(self, chunk: Chunk, path: str) -> None:
        if isinstance(chunk, RecordChunk):
            self._file.write(chunk)
            return
        for row in chunk.rows():
            finding = _finding_of_row(row) if "code" in row else _finding_of_damage(row, path)
            if finding.code not in _EXPECTED:
                self._put(finding)

    def _put(self, finding: Finding) -> None:
        key = (finding.severity, finding.code)
        self._counts[key] = self._counts.get(key, 0) + 1
        self._sink.put(finding)


class _RecordFile:
    """The Parquet file, which is begun when there is a record for it."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self._staged = attempt_name(piece.stem)
        self._path = f"{piece.staging}/{self._staged}"
        self._file: ParquetFile | None = None
        self._rows: ArrowRows | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._file is not None and kind is not None:
            self._file.__exit__(kind, *rest)  # type: ignore[arg-type]

    def write(self, chunk: RecordChunk) -> None:
        """Add rows. Raises WriteError."""
        from kafkalog_core.spark.parquet import ParquetFile  # noqa: PLC0415 -- pyarrow: where there is work for it

        try:
            if self._file is None:
                self._file = ParquetFile(self._path, tables.RECORD, COLUMNS, compression=self._piece.compression)
                self._rows = self._file.gatherer()
            if self._rows is not None:
                for batch in self._rows.add(chunk):
                    self._file.write(batch)
        except OSError as error:
            raise _write_error(self._path, error) from error

    def finish(self) -> Part | None:
        """The file, on the disk; null: it has no record. Raises WriteError."""
        if self._file is None or self._rows is None:
            return None
        try:
            for batch in self._rows.flush():
                self._file.write(batch)
            written = self._file.close()
        except OSError as error:
            raise _write_error(self._path, error) from error
        sync_file(self._path)
        name = f"{self._piece.folder}/{self._staged}"
        return Part(self._staged, name, written.rows, written.size_bytes)

    def finding(self) -> Finding | None:
        """Header keys that had to be changed, as a column of text holds nothing else."""
        from kafkalog_core.spark.arrow import header_key_finding  # noqa: PLC0415 -- as above

        return None if self._rows is None else header_key_finding(self._rows)


class _Advance:
    """What a reader tells about its progress, as a task passes it on."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self.advance = advance

    def expect(self, size_bytes: int) -> None:
        """Whoever planned it knows."""


def _joined(before: Span | None, span: OffsetSpan) -> Span:
    """What was seen of one file in all parts of it so far."""
    if before is None:
        return Span(span.last_offset, span.batches_end, span.damage_end)
    lasts = [last for last in (before.last_offset, span.last_offset) if last is not None]
    return Span(
        max(lasts, default=None),
        max(before.batches_end, span.batches_end),
        max(before.damage_end, span.damage_end),
    )


def _write_error(path: str, error: OSError) -> WriteError:
    reason = (error.strerror or str(error)).lower()
    return WriteError(f"cannot be written: {reason}", path=path, number=error.errno)
