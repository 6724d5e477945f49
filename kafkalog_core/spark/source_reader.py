"""What the data source's tasks do: the pieces of a dump, or of a check, as Arrow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import SelectionError, StorageError
from kafkalog_core.findings import DENIED
from kafkalog_core.ops.dump import DumpRequest, dump
from kafkalog_core.ops.reading.chunks import BatchChunk, RecordChunk
from kafkalog_core.ops.reading.splits import Split, plan_splits, read_split
from kafkalog_core.ops.report import Report
from kafkalog_core.ops.selecting.targets import LogDirTarget, resolve
from kafkalog_core.spark.arrow import ArrowRows
from kafkalog_core.spark.rows import rows_to_arrow
from kafkalog_core.spark.schema import SPARK_TABLES, columns_of, struct_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.reading.rows import Chunk
    from kafkalog_core.ops.selecting.targets import Target
    from kafkalog_core.spark.source_options import SourceOptions
    from kafkalog_core.tables import Table

__all__ = ["Check", "Splits", "WholePartition", "Work", "dump_request", "names_of", "plan", "read", "read_chunks"]

_MOST_FILES: Final = 256
"""Files of one task, however small they are."""
_MISSING_ROWS: Final = frozenset(
    {
        DENIED,
        "dir.unreadable",
        "file.vanished",
        "file.not-readable",
        "file.replaced-since",
        "file.shrank",
        "high-watermark.unknown",
        "txn.undecided",
    }
)
"""Findings that mean that rows are missing."""
_FINDING_ROWS: Final = 1000


@dataclass(frozen=True, slots=True)
class Splits:
    """Parts of files, or many small files, one after another."""

    splits: tuple[Split, ...]


@dataclass(frozen=True, slots=True)
class WholePartition:
    """A partition or file that is read as a whole, by its path."""

    path: str


@dataclass(frozen=True, slots=True)
class Check:
    """The check of one of the targets, by its number; null: of what only all of them together can tell."""

    number: int | None
    now_ms: int


Work = Splits | WholePartition | Check


def names_of(schema: StructType, table: Table) -> tuple[str, ...]:
    """The columns that a schema asks for. Raises SelectionError for one that the table has not, or of another type."""
    names = tuple(field.name for field in schema.fields)
    columns_of(table, names)  # says what there is
    for field, expected in zip(schema.fields, struct_type(table, names).fields, strict=True):
        if field.dataType != expected.dataType:
            wanted, given = expected.dataType.simpleString(), field.dataType.simpleString()
            raise SelectionError(f"column {field.name!r} of rows of {table.name} is {wanted}, not {given}")
        if not field.nullable:
            raise SelectionError(f"column {field.name!r} may be null: it cannot be NOT NULL in the schema")
    return names


def dump_request(options: SourceOptions, names: Sequence[str], targets: Sequence[Target] = ()) -> DumpRequest:
    """What is to be dumped."""
    return DumpRequest(
        targets=tuple(targets),
        level="records" if options.table == "findings" else options.table,
        filters=options.filters,
        committed=options.committed,
        resync=options.resync,
        max_batch_bytes=options.max_batch_bytes,
        path="path" in names,
    )


def plan(options: SourceOptions, names: Sequence[str], now_ms: int) -> list[Work]:
    """The pieces of work, in the order of the targets. Raises StorageError for what cannot be listed."""
    targets = resolve(options.paths, options.selection)
    if options.table == "findings":
        checks: list[Work] = [Check(number, options.now_ms or now_ms) for number in range(len(targets))]
        is_across = any(isinstance(target, LogDirTarget) for target in targets) or len(targets) > 1
        return [*checks, Check(None, now_ms)] if is_across else checks
    if options.committed is not None:
        return [WholePartition(path) for path in _partition_paths(targets)]
    planned = plan_splits(dump_request(options, names, targets), options.split_bytes)
    _refuse_missing(planned.findings, options)
    return [*_grouped(planned.splits, options.split_bytes)]


def _partition_paths(targets: Iterable[Target]) -> Iterator[str]:
    for target in targets:
        if isinstance(target, LogDirTarget):
            yield from (place.path for place in target.partitions)
        else:
            yield target.path


def _grouped(splits: Iterable[Split], split_bytes: int) -> Iterator[Splits]:
    """Small files in common tasks, as each task costs something."""
    group: list[Split] = []
    size_bytes = 0
    for split in splits:
        if group and (size_bytes + split.size_bytes > split_bytes or len(group) >= _MOST_FILES):
            yield Splits(tuple(group))
            group, size_bytes = [], 0
        group.append(split)
        size_bytes += split.size_bytes
    if group:
        yield Splits(tuple(group))


def _refuse_missing(findings: Iterable[Finding], options: SourceOptions) -> None:
    for finding in findings:
        _refuse(finding.row(), options)


def _refuse(row: dict[str, object], options: SourceOptions) -> None:
    """A result that lacks rows must not look like one that does not."""
    if row["code"] in _MISSING_ROWS and not options.ignores_unreadable:
        message = f"{str(row['message']).rstrip('.')} ({row['code']}); option ignoreUnreadable leaves it out"
        raise StorageError(message, path=str(row["file"]))


def _refuse_damage(row: dict[str, object]) -> None:
    """A stream has no table of findings beside it, so it ends where it would pass over records."""
    if row["severity"] == "error":
        place = f"{row['topic']}-{row['partition']}/{row['segment']}"
        message = f"{row['reason']} at byte {row['position']}: {row['detail']}; option failOnDataLoss=false goes on"
        raise StorageError(message, path=place)


# --- in the tasks -----------------------------------------------------------------------------------------------------
def read(work: Work, options: SourceOptions, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a piece of work. Raises StorageError for a file that cannot be read, unless such are left out."""
    if isinstance(work, Check):
        yield from _findings(work, options, names)
        return
    request = dump_request(options, names)
    if isinstance(work, WholePartition):
        yield from read_chunks(_whole(work, request, options), options, names)
        return
    chunks = (chunk for split in work.splits for chunk in read_split(split, request, Report()))
    yield from read_chunks(chunks, options, names)


def _whole(work: WholePartition, request: DumpRequest, options: SourceOptions) -> Iterator[Chunk]:
    try:
        targets = tuple(resolve([work.path]))
        yield from dump(replace(request, targets=targets), Report())
    except StorageError as error:
        if not options.ignores_unreadable:
            raise StorageError(f"{error.message}; option ignoreUnreadable leaves it out", path=error.path) from error


def read_chunks(chunks: Iterable[Chunk], options: SourceOptions, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of the table that chunks have; what they say beside them means rows that are missing, or nothing."""
    table = SPARK_TABLES[options.table]
    rows: ArrowRows | None = None
    for chunk in chunks:
        if chunk.table.name == "segment":
            yield rows_to_arrow(table, chunk.rows(), names)
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


def _findings(work: Check, options: SourceOptions, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    from kafkalog_core.ops.verify.engine import verify, verify_across  # noqa: PLC0415 - of no use to other tables
    from kafkalog_core.ops.verify.request import VerifyRequest  # noqa: PLC0415 - of no use to other tables

    targets = resolve(options.paths, options.selection)
    if work.number is None:
        verdicts = verify_across(targets)
    else:
        request = VerifyRequest(
            targets=(targets[work.number],),
            now_ms=work.now_ms,
            level=options.level,
            max_batch_bytes=options.max_batch_bytes,
            others=(*targets[: work.number], *targets[work.number + 1 :]),
        )
        verdicts = verify(request)
    rows: list[dict[str, object]] = []
    for verdict in verdicts:
        rows += (finding.row() for finding in verdict.findings)
        if len(rows) >= _FINDING_ROWS:
            yield rows_to_arrow(SPARK_TABLES["findings"], rows, names)
            rows = []
    if rows:
        yield rows_to_arrow(SPARK_TABLES["findings"], rows, names)
