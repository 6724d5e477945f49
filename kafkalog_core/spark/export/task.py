"""What a task of an export does, and the state of an export: how far each partition is exported.

The state is part of every commit, so that it always agrees with the files. It also holds the last exported batch, by
which the next run recognizes the log.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, cast

from kafkalog_core.engine.chunks import RecordChunk
from kafkalog_core.engine.decoded import decoding_findings
from kafkalog_core.engine.report import Report
from kafkalog_core.errors import AccessError, NotFoundError, RefusedError, StorageError
from kafkalog_core.findings import FINDING_TYPES, Finding, found
from kafkalog_core.findings.catalog import Sink
from kafkalog_core.findings.logs import DAMAGE_CODES
from kafkalog_core.format.names import FileKind, fixed_file_name
from kafkalog_core.ops.dump.logreader import LogReader
from kafkalog_core.progress import Advance
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.spark.lake.store import attempt_name, reason_of, writing
from kafkalog_core.spark.lake.tables import TableFile
from kafkalog_core.spark.session.schema import EXPORTED, IS_COMMITTED, spark_text
from kafkalog_core.storage.access import code_of_error
from kafkalog_core.storage.changing.writer import WriteError
from kafkalog_core.storage.paths import exists
from kafkalog_core.structs import Struct, field, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

    from kafkalog_core.findings import Severity
    from kafkalog_core.kafka.sim.logfiles import SegmentExtent
    from kafkalog_core.kafka.sim.read_committed import CommittedView
    from kafkalog_core.ops.dump.file_parts import FilePart
    from kafkalog_core.ops.dump.logreader import BatchMark
    from kafkalog_core.ops.dump.runs import DumpRequest
    from kafkalog_core.output.chunk import Chunk
    from kafkalog_core.spark.export.outcomes import Outcomes
    from kafkalog_core.spark.lake.parquet import Compression, ParquetFile
    from kafkalog_core.spark.lake.store import Store
    from kafkalog_core.spark.session.arrow import ArrowRows, ReplacedKeys

__all__ = [
    "Drop",
    "ExportState",
    "ExportTask",
    "ExportTaskResult",
    "Kept",
    "LastBatch",
    "Name",
    "NewRecordFile",
    "PartitionShare",
    "PartitionState",
    "RecordFile",
    "ShareResult",
    "Unread",
    "keep_others",
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
            # A path that is not UTF-8 must not stop a commit.
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
        # `next_offset` only rises: results of tasks arrive in any order.
        return replace(self, next_offset=max(self.next_offset, next_offset), last_batch=last_batch or self.last_batch)


class ExportState(Struct):
    """The state of an export: how far each partition is exported."""

    of: dict[Name, PartitionState] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Mapping[str, Any], path: str) -> ExportState:
        """Return the state of an export, which a commit stores as JSON. Raises RefusedError for any other state."""
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
        # Sorted: two commits of one state have one text.
        for (topic, partition), state in sorted(self.of.items()):
            partitions.setdefault(topic, {})[str(partition)] = state.to_json()
        return {"partitions": partitions}


class NewRecordFile(Struct, frozen=True, kw_only=True):
    """Where and how a new file of records is written.

    Args:
        store: the directory of the table.
        run: the id of the run that writes it.
        stem: what its name begins with, after the id.
        compression: codec of its pages.
        folder: its directory below the table's directory, in a table of an earlier build.
        values: its topic and partition there, which are columns of the files of other tables.
    """

    store: Store
    run: str
    stem: str
    compression: Compression
    folder: str = ""
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the file."""
        return tuple(name for name in EXPORTED.names if name != "type" and name not in self.values)


class RecordFile:
    """A Parquet file of records, created when its first record is added; as a context manager, deleted on failure.

    `outcomes`: of the transactions of the chunks that are added; None: only finished rows are written.
    """

    def __init__(self, new: NewRecordFile, outcomes: Outcomes | None = None) -> None:
        self._new = new
        name = attempt_name(new.run, new.stem)
        self._name = f"{new.folder}/{name}" if new.folder else name
        self._path = new.store.path(self._name)
        self._outcomes = outcomes
        self._file: ParquetFile | None = None
        self._rows: ArrowRows | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._file is not None and kind is not None:
            # Only after an error: a file that is not committed would be deleted by the next run, and costs space until
            # then.
            self._file.__exit__(kind, *rest)  # type: ignore[arg-type]

    def add(self, chunk: RecordChunk) -> None:
        """Add a chunk of records. Raises WriteError."""
        if self._rows is None:
            from kafkalog_core.spark.lake.parquet import gatherer  # noqa: PLC0415 -- where there is work for it

            self._rows = gatherer(EXPORTED)
        for batch in self._rows.add(chunk):
            self._put(batch)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch with the columns of the file. Raises WriteError."""
        from kafkalog_core.spark.lake.parquet import ParquetFile  # noqa: PLC0415 -- where there is work for it

        with writing(self._path):
            if self._file is None:
                self._file = ParquetFile(
                    self._new.store, self._name, EXPORTED, self._new.columns, compression=self._new.compression
                )
            self._file.write(batch)

    def finish(self) -> TableFile | None:
        """Finish the file and return it; None: it has no record. Raises WriteError."""
        if self._rows is not None:
            for batch in self._rows.flush():
                self._put(batch)
        if self._file is None:
            return None
        with writing(self._path):
            written = self._file.close()
        # Fsynced before its name is returned, since the commit may follow at once.
        self._new.store.finish(self._name)
        return TableFile(self._name, written.rows, written.size_bytes, self._new.values, written.bounds, written.nulls)

    def findings(self) -> dict[Name, Finding]:
        """Return the findings about header keys that were changed because they are not UTF-8, by partition."""
        if self._rows is None:
            return {}
        from kafkalog_core.spark.session.arrow import header_key_finding  # noqa: PLC0415 -- where there is work for it

        replaced: dict[Name, list[ReplacedKeys]] = {}
        for one in self._rows.replaced:
            replaced.setdefault((one.place.topic or "", one.place.partition or 0), []).append(one)
        return {name: finding for name, some in replaced.items() if (finding := header_key_finding(some)) is not None}

    def _put(self, batch: pa.RecordBatch) -> None:
        if self._outcomes is not None:
            batch = batch.append_column(IS_COMMITTED, self._outcomes.column(batch))
        self.write(batch)


Drop = tuple[str, int, int]
"""Topic, partition, and the first offset of the rows that are removed of it."""


class Kept(NamedTuple):
    """The file that replaces one of a table, and how many rows of each partition it lacks; None: no row is left."""

    file: TableFile | None
    removed: Mapping[Name, int]


def keep_others(name: str, drops: tuple[Drop, ...], new: NewRecordFile, advance: Callable[[int], None]) -> Kept:
    """Rewrite a file of a table without the rows that are removed. Raises WriteError."""
    import pyarrow.compute as pc  # noqa: PLC0415 -- where there is work for it

    try:
        opened = new.store.open(name)
    except FileNotFoundError as error:
        raise NotFoundError(
            f"an earlier run wrote this file, but it is missing; {_RESTORE}", path=new.store.path(name)
        ) from error
    except OSError as error:
        raise AccessError(f"cannot be read: {reason_of(error)}", path=new.store.path(name)) from error
    removed: dict[Name, int] = {}
    with opened, RecordFile(new) as file:
        # Every row has an offset: this is a mask of true.
        for batch in _batches_of(opened, new, new.store.path(name)):
            is_kept = pc.is_valid(batch.column("offset"))
            for topic, partition, low in drops:
                is_gone = pc.greater_equal(batch.column("offset"), low)
                if not new.values:
                    is_gone = pc.and_(is_gone, pc.equal(batch.column("topic"), spark_text(topic)))
                    is_gone = pc.and_(is_gone, pc.equal(batch.column("partition"), partition))
                removed[topic, partition] = removed.get((topic, partition), 0) + (pc.sum(is_gone).as_py() or 0)
                is_kept = pc.and_(is_kept, pc.invert(is_gone))
            kept = batch.filter(is_kept)
            if kept.num_rows:
                file.write(kept)
        # A sign of life: rewriting a large file may take long.
        advance(0)
        return Kept(file.finish(), {each: count for each, count in removed.items() if count})


_RESTORE: Final = (
    "restore it from a backup, or reload all partitions that it held, whole (--reload without --from-offset and "
    "--from-time)"
)


def _batches_of(opened: pa.NativeFile, new: NewRecordFile, path: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file of an earlier run. Raises StorageError if it cannot be read."""
    import pyarrow as pa  # noqa: PLC0415 -- see `keep_others`
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with pq.ParquetFile(opened) as source:
            there = source.schema_arrow.names
            yield from source.iter_batches(columns=[column for column in new.columns if column in there])
    except (OSError, pa.ArrowException) as error:
        raise StorageError(
            f"an earlier run wrote this file, but it cannot be read: {reason_of(error)}; {_RESTORE}", path=path
        ) from error


_EXPECTED: Final = frozenset({"file.grew"})
"""Codes of findings that are expected when a log is exported while a broker writes it."""


class PartitionShare(Struct, frozen=True, kw_only=True):
    """What a task reads of one partition.

    Args:
        file_parts: parts of its log, in order.
        request: how they are read, without targets.
        view: what a read_committed consumer gets of it; None: all records are exported.
    """

    file_parts: tuple[FilePart, ...]
    request: DumpRequest
    view: CommittedView | None = None


class ExportTask(Struct, frozen=True, kw_only=True):
    """The work of one task: read parts of partitions, in the order of the rows, and write one file.

    Args:
        shares: what is read.
        new: where and how the file is written.
    """

    shares: tuple[PartitionShare, ...]
    new: NewRecordFile


class ShareResult(Struct, frozen=True, kw_only=True):
    """What a task has read of one partition.

    Args:
        extents: what was seen of each log file, by path, without files that could not be opened.
        failed: the code of the error of each file that could not be opened, by path.
        last_batch: the last batch that was read; None: there was no batch.
        findings: what is wrong; of many findings of one kind in a file, the last one counts those that are left out.
        totals: figures of the summary by name.
    """

    extents: Mapping[str, SegmentExtent]
    failed: Mapping[str, str]
    last_batch: LastBatch | None
    findings: tuple[Finding, ...]
    totals: Mapping[str, int]


class ExportTaskResult(NamedTuple):
    """The file of a task (None: there was no record to write), and the result of each of its shares."""

    file: TableFile | None
    results: tuple[ShareResult, ...]


def run_export_task(task: ExportTask, advance: Callable[[int], None]) -> ExportTaskResult:
    """Read the parts of a task and write its file.

    Raises WriteError if it cannot be written, and StorageError for a file that cannot be read to its end.
    """
    from kafkalog_core.spark.export.outcomes import Outcomes  # noqa: PLC0415 -- pyarrow: where there is work for it

    outcomes = Outcomes(task.shares[0].request.scan_options)
    with RecordFile(task.new, outcomes) as file:
        exporters = [_Exporter(share, file, outcomes, advance) for share in task.shares]
        for exporter in exporters:
            exporter.read()
        written = file.finish()
    findings = file.findings()
    return ExportTaskResult(written, tuple(exporter.result(findings) for exporter in exporters))


_TOTALS: Final = ("files", "bytes", "batches", "records", "damage_count", "damage_bytes")


class _Exporter:
    def __init__(
        self, share: PartitionShare, file: RecordFile, outcomes: Outcomes, advance: Callable[[int], None]
    ) -> None:
        self._share = share
        self._report = Report()
        self._progress = Advance(advance)
        self._sink = Sink(share.file_parts[0].topic, share.file_parts[0].partition)
        self._file = file
        self._outcomes = outcomes
        self._extents: dict[str, SegmentExtent] = {}
        self._failed: dict[str, str] = {}
        self._last: LastBatch | None = None

    def read(self) -> None:
        """Read all parts of files in order."""
        reader = LogReader(self._share.request, self._report, self._progress)
        for file_part in self._share.file_parts:
            self._outcomes.expect(file_part, all_committed=self._share.view is not None)
            self._read_part(file_part, reader)

    def result(self, findings: dict[Name, Finding]) -> ShareResult:
        """Return what was read, with the finding about the partition among those about the file."""
        file_part = self._share.file_parts[0]
        finding = findings.pop((file_part.topic or "", file_part.partition or 0), None)
        if finding is not None:
            self._sink.put(finding)
        return ShareResult(
            extents=self._extents,
            failed=self._failed,
            last_batch=self._last,
            findings=self._sink.findings,
            totals={name: getattr(self._report, name) for name in _TOTALS},
        )

    def _read_part(self, file_part: FilePart, reader: LogReader) -> None:
        """Read one part of a file.

        Raises StorageError if it fails after records of it were taken: nothing may be committed.
        """
        taken_before = self._report.records
        try:
            for chunk in reader.rows(file_part.file, file_part.unit, self._share.view, file_part.part):
                self._take(chunk, file_part)
        except WriteError:
            raise
        except StorageError as error:
            # A file that is tried again would be there twice
            if self._report.records > taken_before:
                text = f"{error.message}; nothing of this run is committed: run the same command again"
                raise StorageError(text, path=file_part.path) from error
            code = code_of_error(error)
            self._failed[file_part.path] = code
            self._sink.put(
                found(code, file_part.path, reason=error.message, topic=file_part.topic, partition=file_part.partition)
            )
        undecoded = decoding_findings(reader.take_undecoded(), file_part.topic, file_part.partition)
        for finding in undecoded.values():
            self._sink.put(finding)
        extent = reader.take_extents().get(file_part.path)
        # The file was deleted, or another file has its name now
        if extent is None:
            self._failed.setdefault(file_part.path, "file.replaced-since")
            return
        # Whether offsets go back does not matter here: the log is not read again to look for them elsewhere.
        self._extents[file_part.path] = replace(extent, goes_back=False)
        mark = reader.last_batch
        if mark is not None:
            self._last = LastBatch.of(mark, os.path.basename(file_part.path))

    def _take(self, chunk: Chunk, file_part: FilePart) -> None:
        if isinstance(chunk, RecordChunk):
            self._file.add(chunk)
            return
        for row in chunk.rows():
            if "code" in row:
                finding = _finding_of_row(row)
            elif _is_unfinished(row, file_part):
                finding = _held_back(row, file_part.path)
            else:
                finding = _finding_of_damage(row, file_part.path)
            # A log that grows is normal while its broker runs.
            if finding.code not in _EXPECTED:
                self._sink.put(finding)


def _finding_of_row(row: Mapping[str, object]) -> Finding:
    """Return the finding of a `finding` row."""
    values = {name: value for name, value in row.items() if name not in {"type", "file"}}
    return Finding(path=str(row["file"]), **values)  # type: ignore[arg-type]


def _is_unfinished(row: Mapping[str, object], file_part: FilePart) -> bool:
    """Return whether damage is the unfinished end of a log, which a broker is writing or would truncate.

    No record is lost there.
    """
    # A torn tail of the last file is an append in progress, unless the broker was stopped cleanly.
    if row["reason"] != "torn-tail" or not file_part.file.is_last:
        return False
    return file_part.log_dir is None or not exists(f"{file_part.log_dir}/{fixed_file_name(FileKind.CLEAN_SHUTDOWN)}")


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
