"""What a task of an export does, and the state of an export: how far each partition is exported.

The state is part of every commit, so that it always agrees with the files. It also holds the last exported batch, by
which the next run recognizes the log.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, Self, cast

from kafkalog_core.errors import AccessError, NotFoundError, RefusedError, StorageError
from kafkalog_core.findings import FINDING_TYPES, Finding, found
from kafkalog_core.findings.catalog import Sink
from kafkalog_core.findings.logs import DAMAGE_CODES
from kafkalog_core.format.names import FileKind, fixed_file_name
from kafkalog_core.ops.reading.chunks import RecordChunk
from kafkalog_core.ops.reading.logreader import LogReader
from kafkalog_core.ops.reading.report import Report
from kafkalog_core.progress import Advance
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.rows import tables
from kafkalog_core.spark.lake.store import attempt_name, reason_of, writing
from kafkalog_core.spark.lake.tables import TableFile
from kafkalog_core.storage.changing.writer import WriteError
from kafkalog_core.storage.paths import exists
from kafkalog_core.storage.source import code_of_error
from kafkalog_core.structs import NamedTuple, Struct, field, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

    from kafkalog_core.findings import Severity
    from kafkalog_core.ops.reading.logreader import BatchMark
    from kafkalog_core.ops.reading.runs import DumpRequest
    from kafkalog_core.ops.reading.splits import LogSplit
    from kafkalog_core.rows.chunk import Chunk
    from kafkalog_core.spark.lake.store import Store
    from kafkalog_core.spark.session.arrow import ArrowRows
    from kafkalog_core.spark.session.parquet import Compression, ParquetFile

__all__ = [
    "COLUMNS",
    "ExportState",
    "ExportTask",
    "ExportTaskResult",
    "FileSpan",
    "LastBatch",
    "NewRecordFile",
    "PartitionState",
    "RecordFile",
    "Unread",
    "keep_before",
    "run_export_task",
]


Name = tuple[str, int]
"""Topic and partition."""


class LastBatch(NamedTuple):
    """The batch that was exported last; `header`: its first bytes, which include its checksum and leader epoch."""

    segment: str
    position: int
    size_bytes: int
    last_offset: int
    header: bytes

    @classmethod
    def of(cls, mark: BatchMark, segment: str) -> LastBatch:
        """Return the last batch that a reader has seen of a file."""
        return cls(segment, mark.position, mark.size_bytes, mark.last_offset, mark.header)

    @property
    def end(self) -> int:
        """The byte after the batch."""
        return self.position + self.size_bytes


class Unread(NamedTuple):
    """A segment that could not be opened, and its offsets that are not exported; `last` None: up to its end."""

    segment: str
    first: int
    last: int | None


class PartitionState(Struct, frozen=True, kw_only=True):
    """How far a partition is exported: all records below `next_offset`, except unread and damaged ones.

    Args:
        next_offset: offset at which the next run continues.
        last_batch: the batch before it in the log; None: nothing was read yet.
        topic_id: topic id of `partition.metadata`; None: unknown.
        path: path of the directory that was read last.
        unread: segments to try again.
        is_asked: whether the user named the first offset, which the log need not have reached.
    """

    next_offset: int
    last_batch: LastBatch | None = None
    topic_id: str | None = None
    path: str = ""
    unread: tuple[Unread, ...] = ()
    is_asked: bool = False

    def to_json(self) -> dict[str, object]:
        """Return the JSON object of the state."""
        last = self.last_batch
        return {
            "next_offset": self.next_offset,
            "last_batch": None if last is None else {**last._asdict(), "header": last.header.hex()},
            "topic_id": self.topic_id,
            "path": self.path.encode("utf-8", "backslashreplace").decode(),
            "unread": [unread._asdict() for unread in self.unread],
            "is_asked": self.is_asked,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PartitionState:
        """Return the state from its JSON object. Raises KeyError, TypeError or ValueError for any other value."""
        last = value["last_batch"]
        return cls(
            next_offset=int(value["next_offset"]),
            last_batch=None if last is None else LastBatch(**{**last, "header": bytes.fromhex(last["header"])}),
            topic_id=value["topic_id"],
            path=str(value["path"]),
            unread=tuple(Unread(**unread) for unread in value["unread"]),
            is_asked=bool(value["is_asked"]),
        )

    def read_up_to(self, next_offset: int, last_batch: LastBatch | None) -> PartitionState:
        """Return the state after more of the log was read; `next_offset` never decreases."""
        return replace(self, next_offset=max(self.next_offset, next_offset), last_batch=last_batch or self.last_batch)


class ExportState(Struct):
    """The state of an export: how far each partition is exported."""

    of: dict[Name, PartitionState] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Mapping[str, Any], path: str) -> ExportState:
        """Return the state of an export from that of a commit. Raises RefusedError if it is not one of an export."""
        try:
            partitions = value.get("partitions", {})
            return cls(
                {
                    (topic, int(partition)): PartitionState.from_json(state)
                    for topic, states in partitions.items()
                    for partition, state in states.items()
                }
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            problem = f"{type(error).__name__}: {error}"
            reason = f"its state is not that of an export by this release of kafkalog ({problem})"
            elsewhere = WayOut("export into another directory", options="--to DIR")
            raise RefusedError(Refusal(reason, (elsewhere,)), path=path) from error

    def to_json(self) -> dict[str, Any]:
        """Return the state for a commit."""
        partitions: dict[str, dict[str, object]] = {}
        for (topic, partition), state in sorted(self.of.items()):
            partitions.setdefault(topic, {})[str(partition)] = state.to_json()
        return {"partitions": partitions}


COLUMNS: Final = tuple(name for name in tables.RECORD.names if name not in {"type", "topic", "partition"})
"""The columns of the files: topic and partition are in the names of their directories."""


class NewRecordFile(Struct, frozen=True, kw_only=True):
    """Where and how a new file of records is written.

    Args:
        store: the directory of the table.
        run: the id of the run that writes it.
        stem: what its name begins with, after the id.
        folder: its directory below that of the table.
        values: its topic and partition.
        compression: codec of its pages.
    """

    store: Store
    run: str
    stem: str
    folder: str
    values: Mapping[str, str]
    compression: Compression


class RecordFile:
    """A Parquet file of records, created when its first record is added; as a context manager, deleted on failure."""

    def __init__(self, new: NewRecordFile) -> None:
        self._new = new
        self._name = f"{new.folder}/{attempt_name(new.run, new.stem)}"
        self._path = new.store.path(self._name)
        self._file: ParquetFile | None = None
        self._rows: ArrowRows | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._file is not None and kind is not None:
            self._file.__exit__(kind, *rest)  # type: ignore[arg-type]

    def add(self, chunk: RecordChunk) -> None:
        """Add a chunk of records. Raises WriteError."""
        self._begin()
        if self._rows is not None:
            for batch in self._rows.add(chunk):
                self.write(batch)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch with the columns of the file. Raises WriteError."""
        self._begin()
        if self._file is not None:
            with writing(self._path):
                self._file.write(batch)

    def finish(self) -> TableFile | None:
        """Finish the file and return it; None: it has no record. Raises WriteError."""
        if self._rows is not None:
            for batch in self._rows.flush():
                self.write(batch)
        if self._file is None:
            return None
        with writing(self._path):
            written = self._file.close()
        self._new.store.finish(self._name)
        return TableFile(self._name, written.rows, written.size_bytes, self._new.values, written.bounds, written.nulls)

    def finding(self) -> Finding | None:
        """Return the finding about header keys that were changed because they are not UTF-8; None: there is none."""
        if self._rows is None:
            return None
        from kafkalog_core.spark.session.arrow import header_key_finding  # noqa: PLC0415 -- where there is work for it

        return header_key_finding(self._rows)

    def _begin(self) -> None:
        if self._file is not None:
            return
        from kafkalog_core.spark.session.parquet import ParquetFile  # noqa: PLC0415 -- where there is work for it

        with writing(self._path):
            self._file = ParquetFile(
                self._new.store, self._name, tables.RECORD, COLUMNS, compression=self._new.compression
            )
        self._rows = self._file.gatherer()


def keep_before(name: str, offset: int, new: NewRecordFile, advance: Callable[[int], None]) -> TableFile | None:
    """Rewrite a file of a table with only its records below an offset; None: there are none. Raises WriteError."""
    import pyarrow.compute as pc  # noqa: PLC0415 -- where there is work for it

    try:
        opened = new.store.open(name)
    except FileNotFoundError as error:
        raise NotFoundError(
            "an earlier run wrote this file, but it is missing; restore it from a backup, or reload the whole "
            "partition (--reload without --from-offset and --from-time)",
            path=new.store.path(name),
        ) from error
    except OSError as error:
        raise AccessError(f"cannot be read: {reason_of(error)}", path=new.store.path(name)) from error
    with opened, RecordFile(new) as file:
        for batch in _batches_of(opened, new.store.path(name)):
            kept = batch.filter(pc.less(batch.column("offset"), offset))
            if kept.num_rows:
                file.write(kept)
        advance(0)
        return file.finish()


def _batches_of(opened: pa.NativeFile, path: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file of an earlier run. Raises StorageError if it cannot be read."""
    import pyarrow as pa  # noqa: PLC0415 -- see `keep_before`
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with pq.ParquetFile(opened) as source:
            yield from source.iter_batches(columns=list(COLUMNS))
    except (OSError, pa.ArrowException) as error:
        raise StorageError(
            f"an earlier run wrote this file, but it cannot be read: {reason_of(error)}; restore it from a backup, or "
            "reload the whole partition (--reload without --from-offset and --from-time)",
            path=path,
        ) from error


_EXPECTED: Final = frozenset({"file.grew"})
"""Codes of findings that are expected when a log is exported while a broker writes it."""


class ExportTask(Struct, frozen=True, kw_only=True):
    """The work of one task: read splits of one partition, write one file.

    Args:
        splits: parts of one partition's log, in order.
        request: how they are read, without targets.
        new: where and how the file is written.
    """

    splits: tuple[LogSplit, ...]
    request: DumpRequest
    new: NewRecordFile


class FileSpan(NamedTuple):
    """The offsets and bytes that were seen of one log file; see `OffsetSpan`."""

    last_offset: int | None
    batches_end: int
    damage_end: int


class ExportTaskResult(Struct, frozen=True, kw_only=True):
    """The result of a task.

    Args:
        file: the file; None: there was no record to write.
        spans: what was seen of each log file, by path, without files that could not be opened.
        failed: the code of the error of each file that could not be opened, by path.
        last_batch: the last batch that was read; None: there was no batch.
        findings: what is wrong; of many findings of one kind in a file, the last one counts those that are left out.
        totals: figures of the summary by name.
    """

    file: TableFile | None
    spans: Mapping[str, FileSpan]
    failed: Mapping[str, str]
    last_batch: LastBatch | None
    findings: tuple[Finding, ...]
    totals: Mapping[str, int]


def run_export_task(piece: ExportTask, advance: Callable[[int], None]) -> ExportTaskResult:
    """Read the splits of a task and write its file.

    Raises WriteError if it cannot be written, and StorageError for a file that cannot be read to its end.
    """
    return _Exporter(piece, advance).run()


class _Exporter:
    def __init__(self, piece: ExportTask, advance: Callable[[int], None]) -> None:
        self._piece = piece
        self._report = Report()
        self._reader = LogReader(piece.request, self._report, Advance(advance))
        self._sink = Sink(piece.splits[0].topic, piece.splits[0].partition)
        self._file = RecordFile(piece.new)
        self._spans: dict[str, FileSpan] = {}
        self._failed: dict[str, str] = {}
        self._last: LastBatch | None = None

    def run(self) -> ExportTaskResult:
        """Read all splits in order."""
        with self._file:
            for split in self._piece.splits:
                self._split(split)
            file = self._file.finish()
        finding = self._file.finding()
        if finding is not None:
            self._sink.put(finding)
        report = self._report
        names = ("files", "bytes", "batches", "records", "damage_count", "damage_bytes")
        return ExportTaskResult(
            file=file,
            spans=self._spans,
            failed=self._failed,
            last_batch=self._last,
            findings=self._sink.findings,
            totals={name: getattr(report, name) for name in names},
        )

    def _split(self, split: LogSplit) -> None:
        """Read one split. Raises StorageError if it fails after records of it were taken: nothing may be committed."""
        taken_before = self._report.records
        try:
            for chunk in self._reader.rows(split.file, split.unit, None, split.part):
                self._take(chunk, split)
        except WriteError:
            raise
        except StorageError as error:
            if self._report.records > taken_before:  # a file that is tried again would be there twice
                text = f"{error.message}; nothing of this run is committed: run the same command again"
                raise StorageError(text, path=split.path) from error
            code = code_of_error(error)
            self._failed[split.path] = code
            self._sink.put(found(code, split.path, reason=error.message, topic=split.topic, partition=split.partition))
        span = self._reader.take_spans().get(split.path)
        if span is None:  # the file was deleted, or another file has its name now
            self._failed.setdefault(split.path, "file.replaced-since")
            return
        self._spans[split.path] = FileSpan(span.last_offset, span.batches_end, span.damage_end)
        mark = self._reader.last_batch
        if mark is not None:
            self._last = LastBatch.of(mark, os.path.basename(split.path))

    def _take(self, chunk: Chunk, split: LogSplit) -> None:
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
    """Return the finding of a `finding` row."""
    values = {name: value for name, value in row.items() if name not in {"type", "file"}}
    return Finding(path=str(row["file"]), **values)  # type: ignore[arg-type]


def _is_unfinished(row: Mapping[str, object], split: LogSplit) -> bool:
    """Return whether damage is the unfinished end of a log, which a broker is writing or would truncate.

    No record is lost there.
    """
    if row["reason"] != "torn-tail" or not split.file.is_last:
        return False
    return split.log_dir is None or not exists(f"{split.log_dir}/{fixed_file_name(FileKind.CLEAN_SHUTDOWN)}")


def _held_back(row: Mapping[str, object], path: str) -> Finding:
    names = ("topic", "partition", "position", "size_bytes")
    place = {name: row[name] for name in names}
    return found("export.held-back", path, offset=cast("int | None", row["next_offset"]), **place)  # type: ignore[arg-type]


def _finding_of_damage(row: Mapping[str, object], path: str) -> Finding:
    """Return the finding of a damage row, with the code that `verify` reports for it."""
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
