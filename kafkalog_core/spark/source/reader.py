"""The data source `kafkalog`: it plans the work of a dump or a check, and Spark tasks read it as Arrow batches."""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

from kafkalog_core.engine.chunks import BatchChunk, RecordChunk
from kafkalog_core.engine.decoded import AUTO, NO_DECODING
from kafkalog_core.engine.parts import grouped
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import FileTarget, LogDirTarget, resolve, same_partitions
from kafkalog_core.errors import NotFoundError, SelectionError, StorageError
from kafkalog_core.findings import DENIED
from kafkalog_core.kafka.sim.logfiles import Unit, unit_of_partition
from kafkalog_core.ops.dump.dump import dump
from kafkalog_core.ops.dump.file_parts import FilePart, divide_file, plan_file_parts, read_file_part
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.spark.session.arrow import ArrowRows, rows_to_arrow
from kafkalog_core.spark.session.schema import SPARK_TABLES, columns_of, struct_type
from kafkalog_core.spark.source.options import source_options
from kafkalog_core.spark.source.positions import Position, UnreadRecords, end_of, go_on, parts_between
from kafkalog_core.storage.object_paths import REACHING
from kafkalog_core.storage.objects import forget
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkalog_core.engine.targets import Target
    from kafkalog_core.findings import Finding
    from kafkalog_core.output.chunk import Chunk
    from kafkalog_core.output.tables import Table
    from kafkalog_core.spark.source.options import SourceOptions
    from kafkalog_core.storage.logdir import PartitionPath

__all__ = [
    "KafkaLog",
    "KafkaLogStream",
    "PartGroup",
    "TargetCheck",
    "WholePartition",
    "Work",
    "dump_request",
    "names_of",
    "plan",
    "read",
    "read_chunks",
]


_MOST_FILES: Final = 256
"""Maximum number of files of one task: small files share a task, because each task has a cost."""
_MISSING_ROWS: Final = frozenset(
    {
        DENIED,
        "dir.unreadable",
        "file.vanished",
        "file.not-readable",
        "file.replaced-since",
        "file.shrank",
        "object.replaced",
        "high-watermark.unknown",
        "txn.undecided",
    }
)
"""Codes of findings which mean that rows are missing."""
_FINDING_ROWS: Final = 1000


class PartGroup(Struct, frozen=True):
    """Parts of files, or several small files, which one task reads in order."""

    file_parts: tuple[FilePart, ...]


class WholePartition(Struct, frozen=True):
    """The path of a partition or file that one task reads as a whole."""

    path: str


class TargetCheck(Struct, frozen=True):
    """The check of one of the targets, by its number; None: of what only all targets together show."""

    number: int | None
    now_ms: int


Work = PartGroup | WholePartition | TargetCheck


def names_of(schema: StructType, table: Table) -> tuple[str, ...]:
    """Return the names of a schema's columns. Raises SelectionError for an unknown column, or one of another type."""
    names = tuple(field.name for field in schema.fields)
    columns_of(table, names)  # raises an error that lists the columns
    for field, expected in zip(schema.fields, struct_type(table, names).fields, strict=True):
        if field.dataType != expected.dataType:
            wanted, given = expected.dataType.simpleString(), field.dataType.simpleString()
            raise SelectionError(f"column {field.name!r} of rows of {table.name} is {wanted}, not {given}")
        # A query plan that trusts NOT NULL would give wrong results, and no error.
        if not field.nullable:
            raise SelectionError(f"column {field.name!r} may be null; declare it without NOT NULL in the schema")
    return names


def dump_request(options: SourceOptions, names: Sequence[str], targets: Sequence[Target] = ()) -> DumpRequest:
    """Return the dump that reads the rows of the options, for some columns and targets."""
    return DumpRequest(
        targets=tuple(targets),
        level="records" if options.table == "findings" else options.table,
        filters=options.filters,
        committed=options.committed,
        resync=options.resync,
        max_batch_bytes=options.max_batch_bytes,
        path="path" in names,
        decode=AUTO if {"decoded_key", "decoded_value"}.intersection(names) else NO_DECODING,
    )


def plan(options: SourceOptions, names: Sequence[str], now_ms: int) -> list[Work]:
    """Return the work, in the order of the targets. Raises StorageError if a target cannot be listed."""
    _reach(options)
    targets = resolve(options.paths, options.selection)
    if options.table == "findings":
        # The time of the plan: all tasks judge timestamps by one clock.
        checks: list[Work] = [TargetCheck(number, options.now_ms or now_ms) for number in range(len(targets))]
        # What several directories show together, such as two copies of one partition, is a task of its own.
        is_across = any(isinstance(target, LogDirTarget) for target in targets) or len(targets) > 1
        return [*checks, TargetCheck(None, now_ms)] if is_across else checks
    if options.committed is not None:
        # What is committed depends on markers that may be anywhere in the partition, so its parts cannot be read apart.
        return [WholePartition(path) for path in _partition_paths(targets)]
    planned = plan_file_parts(dump_request(options, names, targets), options.split_bytes)
    _refuse_missing(planned.findings, options)
    return [PartGroup(group) for group in grouped(planned.file_parts, options.split_bytes, _MOST_FILES)]


def _reach(options: SourceOptions) -> None:
    """Read the object store of these options from now on, in this process of Spark, which it may use again."""
    # A process of Spark serves several queries, each with a store of its own.
    REACHING.options = options.storage
    forget()


def _partition_paths(targets: Iterable[Target]) -> Iterator[str]:
    for target in targets:
        if isinstance(target, LogDirTarget):
            yield from (place.path for place in target.partitions)
        else:
            yield target.path


def _refuse_missing(findings: Iterable[Finding], options: SourceOptions) -> None:
    for finding in findings:
        _refuse(finding.row(), options)


def _refuse(row: dict[str, object], options: SourceOptions) -> None:
    """Raise StorageError for a finding which means that rows are missing: a partial result must not look complete."""
    if row["code"] in _MISSING_ROWS and not options.ignores_unreadable:
        message = f"{str(row['message']).rstrip('.')} ({row['code']}); set ignoreUnreadable=true to leave it out"
        raise StorageError(message, path=str(row["file"]))


def _refuse_damage(row: dict[str, object]) -> None:
    """Raise StorageError for damage: a stream has no table of findings, so it must not skip records silently."""
    if row["severity"] == "error":
        place = f"{row['topic']}-{row['partition']}/{row['segment']}"
        message = f"{row['reason']} at byte {row['position']}: {row['detail']}; set failOnDataLoss=false to skip it"
        raise StorageError(message, path=place)


# --- in the tasks -----------------------------------------------------------------------------------------------------
def read(work: Work, options: SourceOptions, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a piece of work. Raises StorageError if a file cannot be read, unless that is ignored."""
    _reach(options)
    if isinstance(work, TargetCheck):
        yield from _findings(work, options, names)
        return
    request = dump_request(options, names)
    if isinstance(work, WholePartition):
        yield from read_chunks(_whole(work, request, options), options, names)
        return
    chunks = (chunk for file_part in work.file_parts for chunk in read_file_part(file_part, request, Report()))
    yield from read_chunks(chunks, options, names)


def _whole(work: WholePartition, request: DumpRequest, options: SourceOptions) -> Iterator[Chunk]:
    try:
        targets = tuple(resolve([work.path]))
        yield from dump(replace(request, targets=targets), Report())
    except StorageError as error:
        if not options.ignores_unreadable:
            message = f"{error.message}; set ignoreUnreadable=true to leave it out"
            raise StorageError(message, path=error.path) from error


def read_chunks(chunks: Iterable[Chunk], options: SourceOptions, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the options' table. Raises StorageError for findings which mean that rows are missing."""
    table = SPARK_TABLES[options.table]
    rows: ArrowRows | None = None
    for chunk in chunks:
        if chunk.table.name == "segment":
            yield rows_to_arrow(table, chunk.rows(), names)
        # Kept over all chunks of a task: batches for Spark may have rows of several files.
        elif isinstance(chunk, RecordChunk | BatchChunk):
            rows = rows or ArrowRows(table, names, batch_rows=options.batch_rows, batch_bytes=options.batch_bytes)
            yield from rows.add(chunk)
        elif chunk.table.name == "finding":
            for row in chunk.rows():
                _refuse(row, options)
        elif chunk.table.name == "damage" and options.refuses_damage:
            for row in chunk.rows():
                _refuse_damage(row)
    if rows is not None:
        yield from rows.flush()


def _findings(work: TargetCheck, options: SourceOptions, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    from kafkalog_core.ops.verify.engine import verify, verify_across  # noqa: PLC0415 - of no use to other tables
    from kafkalog_core.ops.verify.request import VerifyRequest  # noqa: PLC0415 - as above

    targets = resolve(options.paths, options.selection)
    if work.number is None:
        verdicts = verify_across(targets)
    else:
        request = VerifyRequest(
            targets=(targets[work.number],),
            now_ms=work.now_ms,
            level=options.level,
            max_batch_bytes=options.max_batch_bytes,
            # The other targets too: a copy of a partition elsewhere changes what a finding advises.
            others=(*targets[: work.number], *targets[work.number + 1 :]),
        )
        verdicts = verify(request)
    rows: list[dict[str, object]] = []
    for verdict in verdicts:
        rows += (finding.row() for finding in verdict.findings)
        # In pieces, because a damaged disk may have millions of findings.
        if len(rows) >= _FINDING_ROWS:
            yield rows_to_arrow(SPARK_TABLES["findings"], rows, names)
            rows = []
    if rows:
        yield rows_to_arrow(SPARK_TABLES["findings"], rows, names)


Offsets = dict[str, dict[str, int]]
"""Offsets of a stream as Spark stores them: a `Position` by topic-partition, in plain dicts."""


class KafkaLogStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a stream of records. It holds plain values, because Spark pickles it for all tasks.

    Invalid options or schemas raise their errors when they are first used: Spark replaces an error that is raised while
    the stream is created.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._given = given
        self._schema = schema
        self._target: dict[str, Position] | None = None

    @cached_property
    def _options(self) -> SourceOptions:
        return source_options(self._given, is_stream=True)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return names_of(self._schema, SPARK_TABLES[self._options.table])

    def initialOffset(self) -> Offsets:  # noqa: N802 - Spark's name
        """Return where a new query starts: at the start of all partitions, or at their current end."""
        return {} if self._options.starts_at == "earliest" else _as_offsets(self._ends())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit of the option maxBytesPerTrigger."""
        most = self._options.max_bytes_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxBytes(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end of the stream: records that are written later are not read."""
        self._target = self._ends()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802 - Spark's name
        """Return where the next batch of the stream ends. Partitions with unread records share a limit equally."""
        before, units = _as_positions(start), self._units()
        # Before anything is read: a partition that is gone has records that nobody will get.
        for name in before.keys() - units.keys():
            self._lost(
                UnreadRecords("the partition was deleted, and this stream has not read all of its records", name)
            )
        most = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        found = {name: self._go_on(name, unit, before.get(name), None) for name, unit in units.items()}
        if most is not None:
            unread = [name for name in units if found[name] != before.get(name)]
            # At least one byte each, since one batch is always read: every partition makes progress.
            share = max(1, most // max(1, len(unread)))
            found |= {name: self._go_on(name, units[name], before.get(name), share) for name in unread}
        return _as_offsets({name: position for name, position in found.items() if position is not None})

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """Return the parts of the logs between two offsets, for the Spark tasks."""
        before, after, units = _as_positions(start), _as_positions(end), self._units()
        pieces = []
        for name, position in after.items():
            if position == before.get(name):
                continue
            if name not in units:
                self._lost(UnreadRecords("the partition was deleted before its records were read", name))
                continue
            # Parts are cut where the stream is, so that a restart reads the same parts again (exactly once with
            # Spark's offsets).
            for file_part in parts_between(units[name], before.get(name), position, self._lost):
                pieces += [
                    InputPartition(PartGroup((part,))) for part in divide_file(file_part, self._options.split_bytes)
                ]
        return pieces

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one group of parts."""
        if partition.value is not None:
            yield from read(partition.value, self._options, self._names)

    # --- the partitions now -------------------------------------------------------------------------------------------
    def _go_on(self, name: str, unit: Unit, start: Position | None, max_bytes: int | None) -> Position | None:
        until = None
        if self._target is not None:
            if name not in self._target:  # it was created later
                return start
            until = self._target[name]
        return go_on(unit, start, max_bytes=max_bytes, until=until, on_loss=self._lost)

    def _ends(self) -> dict[str, Position]:
        ends = {name: end_of(unit, self._lost) for name, unit in self._units().items()}
        return {name: position for name, position in ends.items() if position is not None}

    def _units(self) -> dict[str, Unit]:
        """Return the partitions by name.

        Raises StorageError if a directory cannot be listed, SelectionError for a target that does not grow.
        """
        targets = resolve(self._options.paths, self._options.selection)
        # Two directories of one partition would have one name in Spark's offsets.
        twice = same_partitions(targets)
        if twice:
            names = ", ".join(twice[:3])
            raise SelectionError(f"several directories hold {names}; name one directory for each partition of a stream")
        units = {}
        for target in targets:
            if isinstance(target, FileTarget):
                raise SelectionError(
                    "a stream follows partition and log directories, not files; name the partition's directory",
                    path=target.path,
                )
            log_dir = target.log_dir.path if isinstance(target, LogDirTarget) else target.log_dir
            for place in target.partitions if isinstance(target, LogDirTarget) else (target.place,):
                unit = self._unit(place, log_dir)
                if unit is not None:
                    units[f"{unit.topic}-{unit.partition}"] = unit
        return units

    def _unit(self, place: PartitionPath, log_dir: str | None) -> Unit | None:
        try:
            partition = read_partition(place.path)
        except NotFoundError:  # deleted since the log directory was listed
            return None
        unit = unit_of_partition(partition, log_dir, with_path="path" in self._names)
        # Offsets of 0.7 are positions, which a stream could not tell from offsets of later releases.
        if any(file.is_v07 for file in unit.files):
            raise SelectionError("a stream does not follow logs of Kafka 0.7; use spark.read", path=unit.path)
        return unit

    def _lost(self, loss: UnreadRecords) -> None:
        if self._options.fails_on_loss:
            raise StorageError(f"{loss.message}; set failOnDataLoss=false to go on without them", path=loss.path)


def _as_offsets(positions: Mapping[str, Position]) -> Offsets:
    return {name: positions[name]._asdict() for name in sorted(positions)}


def _as_positions(offsets: Mapping[str, Mapping[str, int]]) -> dict[str, Position]:
    return {name: Position(**values) for name, values in offsets.items()}


class KafkaLog(DataSource):
    """The data source; its options are `source.options.OPTIONS`."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "kafkalog"

    def schema(self) -> StructType:
        """Return the schema with all columns of the table."""
        options = self.options.get("table", "records").strip().lower()
        return struct_type(SPARK_TABLES.get(options, SPARK_TABLES["records"]))  # the reader refuses an unknown table

    def reader(self, schema: StructType) -> KafkaLogReader:
        """Return a reader of the rows that exist now."""
        options = source_options(self.options)
        return KafkaLogReader(options, names_of(schema, SPARK_TABLES[options.table]))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return a reader of a stream of records."""
        return KafkaLogStream(dict(self.options), schema)


class KafkaLogReader(DataSourceReader):
    """The reader of a batch query. It holds plain values, because Spark pickles it for all tasks."""

    def __init__(self, options: SourceOptions, names: tuple[str, ...]) -> None:
        self._options = options
        self._names = names

    def partitions(self) -> Sequence[InputPartition]:
        """Return pieces of work of about equal size. Spark makes of an empty list one partition with the value None."""
        return [InputPartition(work) for work in plan(self._options, self._names, time.time_ns() // 1_000_000)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one piece."""
        work: Any = partition.value
        if work is not None:
            yield from read(work, self._options, self._names)
