"""`kafkalog seek`: where a broker finds an offset, a timestamp or a byte, and what a fetch from there returns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.errors import NotFoundError, SelectionError, StorageError
from kafkalog_core.findings import DENIED, found
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.format.names import LOG_KINDS, FileKind
from kafkalog_core.kafka.evidence import ReleaseGuess, infer_release
from kafkalog_core.kafka.rules import fetch_rules
from kafkalog_core.ops.reading.chunks import BatchChunk, Lines, rows_at
from kafkalog_core.ops.reading.logfiles import Checkpoints, Unit, unit_of_file, unit_of_partition
from kafkalog_core.ops.reading.logreader import damage_severity
from kafkalog_core.ops.reading.targets import FileTarget, LogDirTarget
from kafkalog_core.ops.seek.answers import Answer, SeekTarget, broker_findings, find
from kafkalog_core.rows import tables
from kafkalog_core.rows.chunk import RowChunk
from kafkalog_core.storage.listing import FileInfo, Segment, SegmentState, stat_path
from kafkalog_core.storage.logdir import not_listed
from kafkalog_core.storage.lookup import PartitionLookup
from kafkalog_core.storage.lookup_trace import Trace
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Damage, ScanOptions
from kafkalog_core.storage.source import code_of_error, denial

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.reading.chunks import RowOrigin
    from kafkalog_core.ops.reading.logfiles import LogFile
    from kafkalog_core.ops.reading.report import Report
    from kafkalog_core.ops.reading.targets import Target
    from kafkalog_core.rows.chunk import Chunk
    from kafkalog_core.storage.segment_lookup import BatchPlace

__all__ = [
    "EARLIEST",
    "LATEST",
    "Releases",
    "SeekQuestion",
    "SeekRequest",
    "fetch_chunks",
    "offsets_before",
    "seek",
    "seek_targets",
]


LATEST: Final = -1
EARLIEST: Final = -2


def offsets_before(lookup: PartitionLookup, time_ms: int, count: int, now_ms: int, trace: Trace) -> list[Answer]:
    """Up to `count` offsets, the largest first: base offsets of segments last written to at the time or before.

    The end of the log counts as one written now, if the last segment holds anything. `LATEST` starts there, `EARLIEST`
    at the first segment, so that it gives one offset. Raises StorageError.
    """
    entries: list[Answer] = []
    for segment in lookup.segments:
        log = segment.log
        base = segment.base_offset
        base = max(base, lookup.log_start_offset)
        if log is not None:
            written_ms = log.mtime_ns // 1_000_000
            answer = Answer(outcome="found", segment=log.name.raw, position=0, offset=base, timestamp_ms=written_ms)
            entries.append(answer)
    if lookup.segments and lookup.segments[-1].size_bytes:
        end, position = lookup.log_end(trace)
        name = entries[-1].segment
        entries.append(Answer(outcome="end", segment=name, position=position, offset=end, timestamp_ms=now_ms))
    trace.add(
        "before",
        f"{len(entries)} entries: each segment's base offset with its modification time, then the end of the log",
        entries=[[entry.offset, entry.timestamp_ms] for entry in entries],
    )
    last = len(entries) - 1
    if time_ms == EARLIEST:
        last = min(last, 0)
    elif time_ms != LATEST:
        while last >= 0 and (entries[last].timestamp_ms or 0) > time_ms:
            last -= 1
    chosen = [entries[index] for index in range(last, max(-1, last - count), -1)]
    return sorted(chosen, key=lambda entry: entry.offset or 0, reverse=True)


def fetch_chunks(
    lookup: PartitionLookup,
    batch: BatchPlace,
    place: RowOrigin,
    size_bytes: int,
    *,
    max_bytes: int,
    has_whole_first: bool,
    trace: Trace,
) -> Iterator[Chunk]:
    """Yield rows of the whole batches of a fetch that starts at a batch, then its `fetch` row. Raises StorageError."""
    cut = lookup.fetch(batch, size_bytes, max_bytes=max_bytes, has_whole_first=has_whole_first, trace=trace)
    end = cut.position + cut.size_bytes
    segment = lookup.segment_of(batch)
    lines = Lines(place)
    batches, whole_end, last_offset = 0, cut.position, None
    for item in segment.scan(cut.position, ScanOptions(), end=end):
        if isinstance(item, Damage):
            if item.position + item.size_bytes < end:  # else it is the cut batch, or whatever is at the end
                trace.met(segment.path, item)
                whole_end = max(whole_end, item.position + item.size_bytes)
            continue
        columns = item.batches
        batches += columns.count
        last_offset = columns.column("base_offset" if lookup.is_v07 else "last_offset")[-1]
        whole_end = columns.column("position")[-1] + columns.column("size_bytes")[-1]
        yield BatchChunk(lines, item)
    partial_bytes = end - whole_end
    row = {
        "position": cut.position,
        "size_bytes": cut.size_bytes,
        "asked_bytes": cut.asked[-1],
        "tries": len(cut.asked),
        "outcome": "too-large" if cut.is_too_large else "partial" if partial_bytes else "whole",
        "batches": batches,
        "first_offset": batch.base_offset,
        "last_offset": last_offset,
        "partial_position": whole_end if partial_bytes else None,
        "partial_bytes": partial_bytes,
    }
    yield rows_at(place, tables.FETCH, [row])


_INDEX_SUFFIXES: Final = {"index": ".index", "timeindex": ".timeindex"}


class Releases:
    """Releases of log directories and partitions; each directory is looked at once."""

    def __init__(self, kafka: str | None) -> None:
        self._kafka = kafka
        self._known: dict[str, ReleaseGuess] = {}

    def of(self, target: SeekTarget) -> ReleaseGuess:
        """Return the release of the log directory around it, else of the partition. Raises StorageError."""
        path = target.unit.log_dir or target.unit.path
        if path not in self._known:
            self._known[path] = infer_release(path, kafka=self._kafka)
        return self._known[path]


def seek_targets(target: Target) -> Iterator[SeekTarget]:
    """Yield the logs of one target. Raises SelectionError for another file than a log, StorageError for a directory."""
    if isinstance(target, FileTarget):
        yield _of_file(target)
        return
    if not isinstance(target, LogDirTarget):
        yield _of_partition(target.path, target.log_dir)
        return
    log_dir = target.log_dir.path if target.log_dir.is_broker_dir else None
    for place in target.partitions:
        try:
            yield _of_partition(place.path, log_dir)
        except StorageError as error:
            problem = not_listed(place, error)
            name = place.name
            unit = Unit(topic=name.topic, partition=name.partition, path=place.path, log_dir=log_dir, files=())
            yield SeekTarget(unit=unit, segments=(), is_v07=False, problem=problem)


def _of_partition(path: str, log_dir: str | None) -> SeekTarget:
    partition = read_partition(path)
    return SeekTarget(
        unit=unit_of_partition(partition, log_dir),
        segments=tuple(segment for segment in partition.segments if segment.log is not None),
        is_v07=partition.format == "v07",
    )


def _of_file(target: FileTarget) -> SeekTarget:
    """Return a log file with the indexes in its directory that have its name."""
    if target.kind not in LOG_KINDS and target.kind is not FileKind.KRAFT_SNAPSHOT:
        raise SelectionError("no log: name the .log file, or its directory", path=target.path)
    unit = unit_of_file(target)
    base = unit.files[0].base_offset
    segment = Segment(base_offset=base or 0, state=SegmentState.ACTIVE, log=target.file)
    if target.kind is FileKind.LOG and base is not None:
        stem, _, rest = target.path.rpartition(".log")
        beside = {name: _file_at(f"{stem}{suffix}{rest}") for name, suffix in _INDEX_SUFFIXES.items()}
        segment = replace(segment, **beside)  # type: ignore[arg-type]
    is_v07 = target.kind is FileKind.LOG_V07
    return SeekTarget(unit=unit, segments=(segment,), is_v07=is_v07, is_file=True, is_based=base is not None)


def _file_at(path: str) -> FileInfo | None:
    try:
        return FileInfo.of(path, stat_path(path))
    except NotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class SeekQuestion:
    """What is looked for: `value` is an offset, a time in ms or a byte; `count` how many offsets `before` may give."""

    kind: Literal["offset", "timestamp", "position", "earliest", "latest", "before"]
    value: int = 0
    count: int = 1

    @property
    def asked(self) -> int | None:
        """The number in it, None where there is none."""
        return None if self.kind in {"earliest", "latest"} else self.value


@dataclass(frozen=True, kw_only=True)
class SeekRequest:
    """What to look for, and where.

    Args:
        targets: files, partitions and log directories, from `targets.resolve`.
        question: what is looked for.
        now_ms: the time, for the end of the log among the answers of `before`.
        read_bytes: also what a fetch of that many bytes from there on returns.
        max_read_bytes: how far a client of 0.8 to 0.10.0 doubles that for a message that is larger.
        explain: rows have their steps.
        kafka: the release whose rules count; None: inferred from the files.
        max_batch_bytes: the largest batch that is read, inflated too.
    """

    targets: tuple[Target, ...]
    question: SeekQuestion
    now_ms: int
    read_bytes: int | None = None
    max_read_bytes: int = MAX_BATCH_BYTES
    explain: bool = False
    kafka: str | None = None
    max_batch_bytes: int = MAX_BATCH_BYTES


def seek(request: SeekRequest, report: Report) -> Iterator[Chunk]:
    """Chunks of rows: what was found in each log, and what is wrong with what was looked at.

    Raises StorageError where a target itself cannot be read, SelectionError for a byte in more than one file.
    """
    seeker = _Seeker(request, report)
    for target in request.targets:
        for chunk in seeker.target(target):
            report.rows += chunk.count
            yield chunk


class _Seeker:
    def __init__(self, request: SeekRequest, report: Report) -> None:
        self._request = request
        self._report = report
        self._checkpoints = Checkpoints()
        self._releases = Releases(request.kafka)
        self._options = ScanOptions(max_batch_bytes=request.max_batch_bytes)

    def target(self, target: Target) -> Iterator[Chunk]:
        """Yield rows of one target."""
        for one in seek_targets(target):
            if one.problem is not None:
                yield self._findings([one.problem])
                continue
            if self._request.question.kind == "position" and len(one.segments) > 1:
                raise SelectionError(
                    f"there are {len(one.segments)} log files here, and a byte is one of a file: name the file",
                    path=one.unit.path,
                )
            yield from self._log(one)

    def _log(self, target: SeekTarget) -> Iterator[Chunk]:
        """Yield rows of one log; where a file of it cannot be read that is a finding, unless it was named itself."""
        self._report.partitions += not target.is_file
        self._report.expect(partitions=int(not target.is_file))
        try:
            yield from self._answers(target)
        except StorageError as error:
            if target.is_file or isinstance(error, SelectionError):
                raise
            unit = target.unit
            finding = found(
                code_of_error(error),
                error.path or unit.path,
                reason=error.message,
                topic=unit.topic,
                partition=unit.partition,
            )
            yield self._findings([finding])

    def _answers(self, target: SeekTarget) -> Iterator[Chunk]:
        request, unit, question = self._request, target.unit, self._request.question
        guess = self._releases.of(target)
        rules = fetch_rules(guess.release)
        trace = Trace()
        trace.add("release", f"the rules of {guess.describe()}", release=str(guess.release))
        with PartitionLookup(
            target.segments,
            is_v07=target.is_v07,
            log_start_offset=None if target.is_file else self._checkpoints.log_start_offset(unit, guess.release),
            has_warm_section=rules.has_warm_section,
            is_based=target.is_based,
            options=self._options,
        ) as lookup:
            if question.kind == "before":
                yield from self._before(target, lookup, trace)
                return
            answer = find(lookup, question.kind, question.value, trace, is_file=target.is_file)
            findings = broker_findings(answer, question.kind, question.value, lookup, target, guess.release, trace)
            yield self._seek_rows(target, lookup, [answer], trace)
            if request.read_bytes is not None and answer.fetch is not None:
                file = self._file(target, answer.fetch.segment.log.path if answer.fetch.segment.log else "")
                for chunk in fetch_chunks(
                    lookup,
                    answer.fetch,
                    file.place,
                    request.read_bytes,
                    max_bytes=request.max_read_bytes,
                    has_whole_first=not target.is_v07 and rules.has_whole_first,
                    trace=trace,
                ):
                    if chunk.table is tables.BATCH:
                        counted = (answer.fetch if answer.record is None else answer.record.batch).position
                        self._report.batches += sum(row["position"] != counted for row in chunk.rows())
                    yield chunk
            yield from self._wrong(target, lookup, trace, findings)

    def _before(self, target: SeekTarget, lookup: PartitionLookup, trace: Trace) -> Iterator[Chunk]:
        question = self._request.question
        answers = offsets_before(lookup, question.value, question.count, self._request.now_ms, trace)
        if not answers:
            answers = [
                Answer(outcome="none", detail="no segment was last written to before that time: the list is empty")
            ]
        yield self._seek_rows(target, lookup, answers, trace)
        yield from self._wrong(target, lookup, trace, [])

    def _seek_rows(self, target: SeekTarget, lookup: PartitionLookup, answers: list[Answer], trace: Trace) -> Chunk:
        question = self._request.question
        rows = []
        for answer in answers:
            row = {"query": question.kind, "asked": question.asked, **answer.row(lookup)}
            row["topic"], row["partition"] = target.unit.topic, target.unit.partition
            row["steps"] = [step.row() for step in trace.steps] if self._request.explain else None
            rows.append(row)
        self._report.files += len(trace.scanned_files | {name for row in rows if (name := row["segment"]) is not None})
        with_batch = sum("size_bytes" in row for row in rows)
        self._report.batches += with_batch
        self._report.records += with_batch - sum(row["offset"] is None for row in rows if "size_bytes" in row)
        self._report.bytes += trace.scanned_bytes
        return RowChunk(tables.SEEK, rows)

    def _wrong(
        self, target: SeekTarget, lookup: PartitionLookup, trace: Trace, findings: list[Finding]
    ) -> Iterator[Chunk]:
        """Damage and findings about what was looked at."""
        unit = target.unit
        numbers = {segment.log.path: number for number, segment in enumerate(lookup.segments) if segment.log}
        files = {file.path: file for file in unit.files}
        for met in trace.damages:
            file, number = files[met.path], numbers[met.path]
            severity = damage_severity(met.damage, lookup.segment(number).source, file, unit)
            self._report.add_damage(met.damage.reason, met.damage.size_bytes, severity)
            row = {
                "position": met.damage.position,
                "size_bytes": met.damage.size_bytes,
                "reason": met.damage.reason,
                "detail": met.damage.detail,
                "next_offset": met.damage.next_offset,
                "severity": severity,
            }
            yield rows_at(file.place, tables.DAMAGE, [row])
        place = {"topic": unit.topic, "partition": unit.partition}
        for doubt in trace.doubts:
            denied = denial(doubt.path)
            if denied is not None:
                findings.append(found(DENIED, doubt.path, reason=denied.message, **place))  # type: ignore[arg-type]
            elif doubt.is_missing:
                findings.append(found("segment.index-missing", doubt.path, topic=unit.topic, partition=unit.partition))
            else:
                findings.append(found("lookup.index-not-used", doubt.path, problem=doubt.problem, **place))  # type: ignore[arg-type]
        if findings:
            yield self._findings(findings)

    def _file(self, target: SeekTarget, path: str) -> LogFile:
        return next(file for file in target.unit.files if file.path == path)

    def _findings(self, findings: list[Finding]) -> Chunk:
        chunk = RowChunk(tables.FINDING, [finding.row() for finding in findings])
        for row in chunk.rows():
            self._report.add_finding(row)
        return chunk
