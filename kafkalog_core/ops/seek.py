"""`kafkalog seek`: where a broker finds an offset, a timestamp or a byte, and what a fetch from there returns."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.engine.chunks import BatchChunk, Lines, rows_at
from kafkalog_core.engine.named_dirs import NamedDirs
from kafkalog_core.engine.targets import FileTarget, LogDirTarget
from kafkalog_core.errors import NotFoundError, SelectionError, StorageError
from kafkalog_core.filters.expression import Filters
from kafkalog_core.findings import DENIED, found
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.format.names import LOG_KINDS, FileKind, fixed_file_name
from kafkalog_core.kafka.rules.rule_table import fetch_rules
from kafkalog_core.kafka.sim.evidence import ReleaseGuess, infer_release
from kafkalog_core.kafka.sim.fetch import Broker, BrokerAnswer, broker_offset, broker_time, offsets_before
from kafkalog_core.kafka.sim.logfiles import Checkpoints, Unit, damage_severity, unit_of_file, unit_of_partition
from kafkalog_core.kafka.sim.named_dirs import other_dirs
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.storage.access import code_of_error, denial
from kafkalog_core.storage.listing import FileInfo, Segment, SegmentState, stat_path
from kafkalog_core.storage.logdir import not_listed
from kafkalog_core.storage.lookup import PartitionLookup
from kafkalog_core.storage.lookup_trace import Trace
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.paths import is_there
from kafkalog_core.storage.scan import Damage, ScanOptions
from kafkalog_core.structs import Struct, field, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.engine.report import Report
    from kafkalog_core.engine.targets import Target
    from kafkalog_core.findings import Finding
    from kafkalog_core.output.chunk import Chunk
    from kafkalog_core.storage.segment_lookup import BatchPlace, RecordPlace

__all__ = ["SeekQuestion", "SeekRequest", "seek"]

_BY_OFFSET: Final = frozenset({"offset", "earliest"})
_INDEX_SUFFIXES: Final = {"index": ".index", "timeindex": ".timeindex"}


class SeekQuestion(Struct, frozen=True):
    """What is looked for.

    Args:
        kind: what `value` is, or which end of the log is asked for.
        value: an offset, a time in ms or the position of a byte; 0 for `earliest` and `latest`.
        count: the largest number of offsets that `before` returns.
    """

    kind: Literal["offset", "timestamp", "position", "earliest", "latest", "before"]
    value: int = 0
    count: int = 1

    @property
    def asked(self) -> int | None:
        """The number in the question; None if it has none."""
        return None if self.kind in {"earliest", "latest"} else self.value


class SeekRequest(Struct, frozen=True, kw_only=True, dict=True):
    """What to look for, and where.

    Args:
        targets: files, partitions and log directories, from `targets.resolve`.
        question: what is looked for.
        filters: conditions on content: the answer is the first record, from the one that is looked for on, that meets
            them.
        now_ms: the current time, in ms: `before` lists the log end offset with it.
        read_bytes: size of a fetch that starts at the answer and is shown too; None: no fetch.
        max_read_bytes: up to this size a client of 0.8 to 0.10.0 doubles `read_bytes` for a larger message.
        explain: whether rows contain their steps.
        kafka: the release whose rules apply; None: inferred from the files.
        max_batch_bytes: the largest batch that is read, also after decompression.
    """

    targets: tuple[Target, ...]
    question: SeekQuestion
    filters: Filters = field(default_factory=Filters)
    now_ms: int
    read_bytes: int | None = None
    max_read_bytes: int = MAX_BATCH_BYTES
    explain: bool = False
    kafka: str | None = None
    max_batch_bytes: int = MAX_BATCH_BYTES


def seek(request: SeekRequest, report: Report) -> Iterator[Chunk]:
    """Yield chunks of rows: the answer of each log, and what is wrong with the files that were read for it.

    Raises StorageError where a target itself cannot be read, SelectionError for a byte in more than one file.
    """
    seeker = _Seeker(request, report)
    for target in request.targets:
        for log in _logs_of(target):
            for chunk in seeker.chunks(log):
                report.rows += chunk.count
                yield chunk


# --- logs -------------------------------------------------------------------------------------------------------------
class _Log(Struct, frozen=True, kw_only=True):
    """One log to search.

    Args:
        unit: its topic, partition and files.
        segments: its segments that have a log file; empty if its directory could not be read.
        is_v07: whether it is of Kafka 0.7.
        is_file: whether it is a single file, so that offsets outside the file are unknown.
        is_based: whether the names of its files contain base offsets.
        problem: why its directory could not be read.
    """

    unit: Unit
    segments: tuple[Segment, ...] = ()
    is_v07: bool = False
    is_file: bool = False
    is_based: bool = True
    problem: Finding | None = None

    @property
    def is_clean(self) -> bool:
        """Whether a broker that starts on it skips recovery, and so uses the last indexes unchecked."""
        directory = self.unit.log_dir
        # LogLoader.recoverLog recovers nothing after a clean shutdown; otherwise it rebuilds the indexes of the last
        # segment.
        return directory is not None and is_there(f"{directory}/{fixed_file_name(FileKind.CLEAN_SHUTDOWN)}")


def _logs_of(target: Target) -> Iterator[_Log]:
    """Yield the logs of one target. Raises SelectionError for a file of another kind, StorageError for a directory."""
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
            name = place.name
            unit = Unit(topic=name.topic, partition=name.partition, path=place.path, log_dir=log_dir, files=())
            yield _Log(unit=unit, problem=not_listed(place, error))


def _of_partition(path: str, log_dir: str | None) -> _Log:
    partition = read_partition(path)
    return _Log(
        unit=unit_of_partition(partition, log_dir),
        segments=tuple(segment for segment in partition.segments if segment.log is not None),
        is_v07=partition.format == "v07",
    )


def _of_file(target: FileTarget) -> _Log:
    """Return a log file with the indexes in its directory that have its name."""
    if target.kind not in LOG_KINDS and target.kind is not FileKind.KRAFT_SNAPSHOT:
        raise SelectionError("not a log: name the .log file, or its directory", path=target.path)
    unit = unit_of_file(target)
    base = unit.files[0].base_offset
    segment = Segment(base_offset=base or 0, state=SegmentState.ACTIVE, log=target.file)
    if target.kind is FileKind.LOG and base is not None:
        stem, _, rest = target.path.rpartition(".log")
        indexes = {name: _file_at(f"{stem}{suffix}{rest}") for name, suffix in _INDEX_SUFFIXES.items()}
        segment = replace(segment, **indexes)
    is_v07 = target.kind is FileKind.LOG_V07
    return _Log(unit=unit, segments=(segment,), is_v07=is_v07, is_file=True, is_based=base is not None)


def _file_at(path: str) -> FileInfo | None:
    try:
        return FileInfo.of(path, stat_path(path))
    except NotFoundError:
        return None


class _Seeker:
    """One request: what its logs share."""

    def __init__(self, request: SeekRequest, report: Report) -> None:
        self._request = request
        self._report = report
        self._checkpoints = Checkpoints()
        self._releases: dict[str, ReleaseGuess] = {}
        self._named_dirs = next((target.named_dirs for target in request.targets), NamedDirs())
        self._options = ScanOptions(max_batch_bytes=request.max_batch_bytes)

    def chunks(self, log: _Log) -> Iterator[Chunk]:
        """Yield the rows of one log; a file of it that cannot be read is a finding, unless the user named it."""
        if log.problem is not None:
            yield self.findings([log.problem])
            return
        if self._request.question.kind == "position" and len(log.segments) > 1:
            raise SelectionError(
                f"the directory has {len(log.segments)} log files, and a position is in one file: name the file",
                path=log.unit.path,
            )
        self._report.partitions += not log.is_file
        self._report.expect(partitions=int(not log.is_file))
        try:
            yield from self._answered(log)
        except StorageError as error:
            if log.is_file or isinstance(error, SelectionError):
                raise
            unit, path = log.unit, error.path or log.unit.path
            yield self.findings(
                [found(code_of_error(error), path, reason=error.message, topic=unit.topic, partition=unit.partition)]
            )

    def findings(self, findings: list[Finding]) -> Chunk:
        """Return a chunk of findings, and count them."""
        chunk = RowChunk(tables.FINDING, [finding.row() for finding in findings])
        for row in chunk.rows():
            self._report.add_finding(row)
        return chunk

    def _answered(self, log: _Log) -> Iterator[Chunk]:
        path = log.unit.log_dir or log.unit.path
        guess = self._releases.get(path)
        if guess is None:
            # Sibling directories of the same broker may show the release where this one does not; with --kafka it is
            # known already.
            beside = () if self._request.kafka is not None else other_dirs(log.unit.log_dir, self._named_dirs, {})
            guess = self._releases[path] = infer_release(path, kafka=self._request.kafka, beside=beside)
        bounds = None if log.is_file else self._checkpoints.bounds(log.unit, guess.release)
        trace = Trace()
        trace.add("release", f"the rules of {guess.describe()}", release=str(guess.release))
        with PartitionLookup(
            log.segments,
            is_v07=log.is_v07,
            log_start_offset=None if bounds is None else bounds.local_start,
            has_warm_section=fetch_rules(guess.release).has_warm_section,
            is_based=log.is_based,
            options=self._options,
        ) as lookup:
            search = _Search(self._request, log, guess, lookup, trace)
            search.remote = "" if bounds is None else bounds.remote_part
            answers = search.answers()
            differences = search.differences(answers[0])
            answers = [search.matching(answer, self._request.filters) for answer in answers]
            # Before an answer is given
            lookup.require_same()
            yield self._rows(search, answers)
            yield from self._fetched(search, answers[0])
            yield from self._damages(search)
            findings = [*differences, *search.doubts()]
            if findings:
                yield self.findings(findings)

    def _rows(self, search: _Search, answers: list[_Answer]) -> Chunk:
        question, unit, trace = self._request.question, search.log.unit, search.trace
        common = {
            "query": question.kind,
            "asked": question.asked,
            "topic": unit.topic,
            "partition": unit.partition,
            "steps": [step.row() for step in trace.steps] if self._request.explain else None,
        }
        rows = [common | answer.row(search.lookup) for answer in answers]
        report = self._report
        report.files += len(trace.scanned_files | {name for row in rows if (name := row["segment"]) is not None})
        with_batch = [row for row in rows if "size_bytes" in row]
        report.batches += len(with_batch)
        report.records += sum(row["offset"] is not None for row in with_batch)
        report.bytes += trace.scanned_bytes
        return RowChunk(tables.SEEK, rows)

    def _fetched(self, search: _Search, answer: _Answer) -> Iterator[Chunk]:
        """Yield the batches of a fetch that starts at the answer; the answer's own batch is counted already."""
        if self._request.read_bytes is None or answer.fetch is None:
            return
        counted = (answer.fetch if answer.record is None else answer.record.batch).position
        for chunk in search.fetched(answer.fetch, self._request.read_bytes, self._request.max_read_bytes):
            if chunk.table is tables.BATCH:
                # Counted as the batch of the answer already.
                self._report.batches += sum(row["position"] != counted for row in chunk.rows())
            yield chunk

    def _damages(self, search: _Search) -> Iterator[Chunk]:
        """Yield the damage that the look-up met."""
        unit, lookup = search.log.unit, search.lookup
        numbers = {segment.log.path: number for number, segment in enumerate(lookup.segments) if segment.log}
        files = {file.path: file for file in unit.files}
        for path, damage in search.trace.damages:
            source = lookup.segment(numbers[path]).source
            severity = damage_severity(damage, source, files[path], unit)
            self._report.add_damage(damage.reason, damage.size_bytes, severity)
            row = {
                "position": damage.position,
                "size_bytes": damage.size_bytes,
                "reason": damage.reason,
                "detail": damage.detail,
                "next_offset": damage.next_offset,
                "severity": severity,
            }
            yield rows_at(files[path].place, tables.DAMAGE, [row])


# --- one log ----------------------------------------------------------------------------------------------------------
class _Answer(Struct, frozen=True, kw_only=True):
    """The answer of one log.

    Args:
        outcome: `end` if the answer is the log end offset, `next` if the record is not that of the offset asked for.
        record: the record that was found.
        fetch: the batch at which a fetch starts: the record's own, unless compaction has emptied a batch before it.
        segment: name of the log file, where no batch names it.
        position: of a byte in that file.
        offset: where no record has it.
        timestamp_ms: where no record has it.
        log_end_offset: None where it was not needed.
        detail: why there is no answer, or how the answer differs from what was asked for.
    """

    outcome: Literal["found", "next", "end", "none", "out-of-range"]
    record: RecordPlace | None = None
    fetch: BatchPlace | None = None
    segment: str | None = None
    position: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None
    log_end_offset: int | None = None
    detail: str | None = None

    def row(self, lookup: PartitionLookup) -> dict[str, object]:
        """Return the columns of the `seek` row, except the question and the names of topic and partition."""
        batch = self.record.batch if self.record is not None else self.fetch
        row: dict[str, object] = {
            "segment": self.segment,
            "outcome": self.outcome,
            "position": self.position,
            "offset": self.offset,
            "timestamp_ms": self.timestamp_ms,
            "log_start_offset": lookup.log_start_offset if lookup.segments else None,
            "log_end_offset": self.log_end_offset,
            "detail": self.detail,
        }
        if batch is not None:
            row |= {
                "segment": batch.log_name,
                "position": batch.position,
                "size_bytes": batch.size_bytes,
                "base_offset": batch.base_offset,
                "last_offset": batch.last_offset,
                "fetch_position": None if self.fetch is None else self.fetch.position,
            }
        if self.record is not None:
            row |= {"offset": self.record.offset, "timestamp_ms": self.record.timestamp_ms}
        return row


class _Search:
    """One question about one log."""

    def __init__(
        self, request: SeekRequest, log: _Log, guess: ReleaseGuess, lookup: PartitionLookup, trace: Trace
    ) -> None:
        self.log = log
        self.lookup = lookup
        self.trace = trace
        self.remote = ""
        self._question = request.question
        self._now_ms = request.now_ms
        self._release = guess.release
        self._rules = fetch_rules(guess.release)

    def answers(self) -> list[_Answer]:
        """Return the answers: one, except for `before`. Raises StorageError."""
        kind, value = self._question.kind, self._question.value
        if kind == "before":
            return self._before()
        # An empty directory: a start creates a segment in it (LogLoader.recoverLog), but today there is nothing to
        # find.
        if not self.lookup.segments:
            return [_Answer(outcome="none", detail="the log has no segment")]
        if kind == "timestamp":
            return [self._by_time(value)]
        if kind == "position":
            return [self._by_position(value)]
        if kind == "latest":
            return [self._at_end()]
        return [self._by_offset(self._asked_offset)]

    @property
    def _asked_offset(self) -> int:
        return self.lookup.log_start_offset if self._question.kind == "earliest" else self._question.value

    def _before(self) -> list[_Answer]:
        entries = offsets_before(self.lookup, self._question.value, self._question.count, self._now_ms, self.trace)
        if not entries:
            return [_Answer(outcome="none", detail="a broker returns no offset: no segment was last modified by then")]
        return [
            _Answer(
                outcome="end" if entry.is_log_end else "found",
                segment=entry.log_name,
                position=entry.position,
                offset=entry.offset,
                timestamp_ms=entry.modified_ms,
            )
            for entry in entries
        ]

    def _by_time(self, time_ms: int) -> _Answer:
        record = self.lookup.find_time(time_ms, self.trace)
        if record is not None:
            return _Answer(outcome="found", record=record, fetch=record.batch)
        if self.trace.has_times:
            return _Answer(outcome="none", detail="no record has this timestamp or a later one")
        what = "no record has a timestamp; --before uses the modification times of the files"
        return _Answer(outcome="none", detail=what)

    def _by_offset(self, offset: int) -> _Answer:
        lookup, start_offset = self.lookup, self.lookup.log_start_offset
        located = lookup.find_offset(offset, self.trace)
        record = None if located is None else located.record
        if offset >= start_offset and located is not None and record is not None:
            if record.offset == offset:
                detail = self.remote if self._question.kind == "earliest" else ""
                return _Answer(outcome="found", record=record, fetch=located.batch, detail=detail or None)
            detail = self._other_offset(record, offset)
            return _Answer(outcome="next", record=record, fetch=located.batch, detail=detail)
        end, _ = lookup.log_end(self.trace)
        # UnifiedLog.read accepts the log end offset as a start, and returns nothing there.
        if start_offset <= offset == end:
            return self._at_end()
        if not start_offset <= offset < end:
            log = "file" if self.log.is_file else "log"
            detail = f"this {log} has no offset"
            if start_offset < end:
                detail = f"offsets of this {log} are {start_offset} to {end - 1}"
            if offset < start_offset and self.remote:
                detail += f", and {self.remote}"
            # Retention by DeleteRecords raises the log start offset before it deletes segments (KIP-107), so the
            # records are still on disk.
            if offset < start_offset and record is not None and record.offset < start_offset:
                batch = record.batch
                detail += (
                    f"; offset {record.offset}, below the log start offset, is still on the disk at byte "
                    f"{batch.position} of {batch.log_name}"
                )
            return _Answer(outcome="out-of-range", log_end_offset=end, detail=detail)
        fetch, detail = None, "there is no record at or after this offset"
        if located is not None:
            fetch, detail = located.batch, "its batch is empty or damaged, and no record after it can be read"
        return _Answer(outcome="none", fetch=fetch, log_end_offset=end, detail=detail)

    def _other_offset(self, record: RecordPlace, offset: int) -> str:
        """Return why a record of another offset was found."""
        if self.lookup.is_v07:
            return f"no message starts at address {offset}: a fetch from there returns bytes that are not messages"
        for path, damage in self.trace.damages:
            if damage.next_offset is not None and damage.next_offset <= offset:
                where = f"{damage.reason} at byte {damage.position} of {os.path.basename(path)}"
                return f"offset {offset} is lost or damaged, and the next record has offset {record.offset}: {where}"
        return f"no record has offset {offset}; the next record has offset {record.offset}"

    def _by_position(self, position: int) -> _Answer:
        size_bytes = self.lookup.segment(0).source.size_bytes
        if position >= size_bytes:
            return _Answer(outcome="out-of-range", detail=f"the file has {size_bytes} bytes")
        located = self.lookup.batch_at(0, position, self.trace)
        if located is None:
            return _Answer(outcome="none", detail=f"byte {position} is in no whole batch")
        detail = "no record of the batch can be read" if located.record is None else None
        return _Answer(outcome="found", record=located.record, fetch=located.batch, detail=detail)

    def _at_end(self) -> _Answer:
        end, position = self.lookup.log_end(self.trace)
        log = self.lookup.segments[-1].log
        return _Answer(
            outcome="end",
            segment=None if log is None else log.name.raw,
            position=position,
            offset=end,
            log_end_offset=end,
        )

    def matching(self, answer: _Answer, filters: Filters) -> _Answer:
        """Return the answer that meets conditions on content: the first record from the answer's on."""
        if answer.record is None or not filters.looks_at_content:
            return answer
        record = self.lookup.find_match(answer.record, filters, self.trace)
        if record is None:
            detail = f"no record from offset {answer.record.offset} on meets the filters"
            return _Answer(outcome="none", detail=detail)
        return _Answer(outcome="found", record=record, fetch=record.batch)

    # --- what a broker answers ----------------------------------------------------------------------------------------
    def differences(self, answer: _Answer) -> list[Finding]:
        """Return how the answer of a broker differs from the right one; empty if it does not, or is unknown."""
        log, lookup, rules, trace = self.log, self.lookup, self._rules, self.trace
        if log.is_v07 or not log.is_based or not lookup.segments:
            return []
        # Every start of 0.9 to 0.11 checks all indexes, and rebuilds the wrong ones (LogSegment.sanityCheck)
        if rules.checks_indexes and trace.doubts:
            return []
        broker = Broker(
            has_warm_section=lookup.has_warm_section,
            # After an unclean shutdown the last segment is recovered, and its indexes are rebuilt from the log.
            recovers_from=len(lookup.segments) if log.is_clean else len(lookup.segments) - 1,
        )
        try:
            if self._question.kind == "timestamp" and rules.has_times:
                theirs = broker_time(lookup, self._question.value, broker, trace)
                is_same = _offset(theirs.record) == _offset(answer.record)
            # `earliest` and an offset are one look-up for a broker; out of range is decided by log start and end,
            # without an index.
            elif (
                self._question.kind in {"offset", "earliest"} and answer.outcome != "out-of-range" and self._is_doubtful
            ):
                theirs = broker_offset(lookup, self._asked_offset, broker)
                is_same = theirs.batch == answer.fetch
            else:
                return []
        except StorageError as error:
            trace.add("broker", f"the answer of a broker is unknown: {error.message}")
            return []
        return [] if is_same and theirs.outcome != "fails" else [self._difference(answer, theirs)]

    @property
    def _is_doubtful(self) -> bool:
        trace = self.trace
        return trace.has_zero_tail or trace.has_overlap or any(not doubt.is_missing for doubt in trace.doubts)

    def _difference(self, answer: _Answer, theirs: BrokerAnswer) -> Finding:
        text = f"an error, {theirs.why}" if theirs.outcome == "fails" else f"nothing; {theirs.why}"
        if theirs.batch is not None:
            first = "" if theirs.record is None else f"offset {theirs.record.offset}, in "
            text = f"{first}the batch at byte {theirs.batch.position} of {theirs.batch.log_name}"
        self.trace.add("broker", f"a broker of Kafka {self._release} answers differently: {text}")
        unit = self.log.unit
        return found(
            "lookup.broker-differs",
            unit.files[0].path if self.log.is_file else unit.path,
            topic=unit.topic,
            partition=unit.partition,
            offset=_offset(answer.record),
            release=self._release,
            answer=text,
        )

    def doubts(self) -> Iterator[Finding]:
        """Yield a finding for each index that the look-up could not use."""
        topic, partition = self.log.unit.topic, self.log.unit.partition
        for doubt in self.trace.doubts:
            denied = denial(doubt.path)
            if denied is not None:
                yield found(DENIED, doubt.path, reason=denied.message, topic=topic, partition=partition)
            elif doubt.is_missing:
                yield found("segment.index-missing", doubt.path, topic=topic, partition=partition)
            else:
                yield found(
                    "lookup.index-not-used", doubt.path, problem=doubt.problem, topic=topic, partition=partition
                )

    # --- a fetch ------------------------------------------------------------------------------------------------------
    def fetched(self, batch: BatchPlace, size_bytes: int, max_bytes: int) -> Iterator[Chunk]:
        """Yield the whole batches that a fetch from a batch returns, then its `fetch` row. Raises StorageError."""
        log, lookup, trace = self.log, self.lookup, self.trace
        # KIP-74 (0.10.1): the first batch of a fetch is returned whole, also if it is larger than the limit.
        has_whole_first = not log.is_v07 and self._rules.has_whole_first
        cut = lookup.fetch(batch, size_bytes, max_bytes=max_bytes, has_whole_first=has_whole_first, trace=trace)
        end = cut.position + cut.size_bytes
        segment = lookup.segment_of(batch)
        place = next(file.place for file in log.unit.files if file.path == segment.path)
        lines = Lines(place)
        batches, whole_end, last_offset = 0, cut.position, None
        for item in segment.scan(cut.position, ScanOptions(), end=end):
            if isinstance(item, Damage):
                # Otherwise it is the cut batch, or the end of the log
                if item.position + item.size_bytes < end:
                    trace.met(segment.path, item)
                    whole_end = max(whole_end, item.position + item.size_bytes)
                continue
            columns = item.batches
            batches += columns.count
            last_offset = columns.column("base_offset" if log.is_v07 else "last_offset")[-1]
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


def _offset(record: RecordPlace | None) -> int | None:
    return None if record is None else record.offset
