"""One task of the export: some of a partition's log files, or parts of them, become one Parquet file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import FINDING_TYPES, Finding, found
from kafkalog_core.findings.logs import DAMAGE_CODES
from kafkalog_core.format.names import FileKind, fixed_file_name
from kafkalog_core.ops.progress import Advance
from kafkalog_core.ops.reading.chunks import RecordChunk
from kafkalog_core.ops.reading.logreader import LogReader
from kafkalog_core.ops.report import Report
from kafkalog_core.ops.sink import Sink
from kafkalog_core.spark.export_file import RecordFile
from kafkalog_core.spark.export_state import LastBatch
from kafkalog_core.storage.changing.writer import WriteError
from kafkalog_core.storage.file_codes import code_of_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalog_core.findings import Severity
    from kafkalog_core.ops.dump import DumpRequest
    from kafkalog_core.ops.reading.rows import Chunk
    from kafkalog_core.ops.reading.splits import Split
    from kafkalog_core.spark.commit import Part
    from kafkalog_core.spark.parquet import Compression

__all__ = ["Piece", "PieceResult", "Span", "export_piece"]

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
        syncs: whether the file is brought to the disk before it counts.
    """

    splits: tuple[Split, ...]
    request: DumpRequest
    staging: str
    stem: str
    folder: str
    compression: Compression
    syncs: bool = True


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
        failed: those, by path: the code of what happened.
        last_batch: the last one of the last file that had any.
        findings: what is wrong; of many of a kind in one file the last that is told says how many more there are.
        totals: figures of the summary by name.
    """

    part: Part | None
    spans: Mapping[str, Span]
    failed: Mapping[str, str]
    last_batch: LastBatch | None
    findings: tuple[Finding, ...]
    totals: Mapping[str, int]


def export_piece(piece: Piece, advance: Callable[[int], None]) -> PieceResult:
    """Read, and write one file. Raises WriteError where it cannot be written."""
    return _Exporter(piece, advance).run()


class _Exporter:
    def __init__(self, piece: Piece, advance: Callable[[int], None]) -> None:
        self._piece = piece
        self._report = Report()
        self._reader = LogReader(piece.request, self._report, Advance(advance))
        self._sink = Sink(piece.splits[0].topic, piece.splits[0].partition)
        self._file = RecordFile(piece.staging, piece.stem, piece.folder, piece.compression, syncs=piece.syncs)
        self._spans: dict[str, Span] = {}
        self._failed: dict[str, str] = {}
        self._last: LastBatch | None = None

    def run(self) -> PieceResult:
        """All splits, one behind the other."""
        with self._file:
            for split in self._piece.splits:
                self._split(split)
            part = self._file.finish()
        finding = self._file.finding()
        if finding is not None:
            self._sink.put(finding)
        report = self._report
        names = ("files", "bytes", "batches", "records", "damage_count", "damage_bytes")
        return PieceResult(
            part=part,
            spans=self._spans,
            failed=self._failed,
            last_batch=self._last,
            findings=self._sink.findings,
            totals={name: getattr(report, name) for name in names},
        )

    def _split(self, split: Split) -> None:
        try:
            for chunk in self._reader.rows(split.file, split.unit, None, split.part):
                self._take(chunk, split)
        except WriteError:
            raise
        except StorageError as error:
            code = code_of_error(error)
            self._failed[split.path] = code
            self._sink.put(found(code, split.path, reason=error.message, topic=split.topic, partition=split.partition))
        span = self._reader.take_spans().get(split.path)
        if span is None:  # it went away, or another file has its name now
            self._failed.setdefault(split.path, "file.replaced-since")
            return
        self._spans[split.path] = Span(span.last_offset, span.batches_end, span.damage_end)
        mark = self._reader.last_batch
        if mark is not None:
            self._last = LastBatch.of(mark, os.path.basename(split.path))

    def _take(self, chunk: Chunk, split: Split) -> None:
        if isinstance(chunk, RecordChunk):
            self._file.add(chunk)
            return
        for row in chunk.rows():
            if "code" in row:
                finding = _finding_of_row(row)
            elif _is_unfinished(row, split):
                finding = _held_back(row, split.path)
            else:
                finding = _finding_of_damage(row, split.path)
            if finding.code not in _EXPECTED:
                self._sink.put(finding)


def _finding_of_row(row: Mapping[str, object]) -> Finding:
    """A `finding` row of a reader as the value that it came of."""
    values = {name: value for name, value in row.items() if name not in {"type", "file"}}
    return Finding(path=str(row["file"]), **values)  # type: ignore[arg-type]


def _is_unfinished(row: Mapping[str, object], split: Split) -> bool:
    """Whether it is the end of a log that somebody writes to, or that a broker would cut: no record is lost in it."""
    if row["reason"] != "torn-tail" or not split.file.is_last:
        return False
    return split.log_dir is None or not os.path.exists(f"{split.log_dir}/{fixed_file_name(FileKind.CLEAN_SHUTDOWN)}")


def _held_back(row: Mapping[str, object], path: str) -> Finding:
    names = ("topic", "partition", "position", "size_bytes")
    place = {name: row[name] for name in names}
    return found("export.held-back", path, offset=cast("int | None", row["next_offset"]), **place)  # type: ignore[arg-type]


def _finding_of_damage(row: Mapping[str, object], path: str) -> Finding:
    """A damaged place, as a finding of the code that `verify` gives it."""
    reason = str(row["reason"])
    code = DAMAGE_CODES[reason]
    kind = FINDING_TYPES[code]
    what = "Damaged" if row["severity"] == "error" else "No batch"
    return Finding(
        code=code,
        severity=cast("Severity", row["severity"]),
        path=path,
        message=f"{what} at byte {row['position']} ({reason}): {row['detail']}.",
        topic=cast("str | None", row["topic"]),
        partition=cast("int | None", row["partition"]),
        position=cast("int | None", row["position"]),
        size_bytes=cast("int | None", row["size_bytes"]),
        offset=cast("int | None", row["next_offset"]),
        broker_action=kind.broker_action,
        cure=kind.cure,
    )
