"""Where a record is: by offset, by time, by byte, or by the rules of Kafka's oldest request for offsets.

Every answer is that of a full scan, found through the indexes; where a broker would answer otherwise a finding says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kafkalog_core import tables
from kafkalog_core.errors import SelectionError, StorageError
from kafkalog_core.findings import DENIED, found
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.ops.logdirs.checkpoints import Checkpoints
from kafkalog_core.ops.reading.chunks import rows_at
from kafkalog_core.ops.reading.logreader import damage_severity
from kafkalog_core.ops.reading.rows import RowChunk
from kafkalog_core.ops.releases.release import Release
from kafkalog_core.ops.seeking.offsets_before import offsets_before
from kafkalog_core.ops.seeking.seek_answers import Answer, broker_findings, find
from kafkalog_core.ops.seeking.seek_fetch import fetch_chunks
from kafkalog_core.ops.seeking.seek_targets import Releases, SeekTarget, seek_targets
from kafkalog_core.storage.file_codes import code_of_error
from kafkalog_core.storage.lookups.lookup import PartitionLookup
from kafkalog_core.storage.lookups.trace import Trace
from kafkalog_core.storage.rights import denial
from kafkalog_core.storage.scan import ScanOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.reading.logfiles import LogFile
    from kafkalog_core.ops.reading.rows import Chunk
    from kafkalog_core.ops.releases.release_evidence import ReleaseGuess
    from kafkalog_core.ops.report import Report
    from kafkalog_core.ops.selecting.targets import Target

__all__ = ["Question", "SeekRequest", "seek"]

_FIRST_WARM: Release = Release(2, 1)  # KAFKA-6432
_FIRST_WHOLE: Release = Release(0, 10, 1)  # KIP-74


@dataclass(frozen=True, slots=True)
class Question:
    """What is looked for: `value` is an offset, a time in ms or a byte; `count` how many offsets `before` may give."""

    kind: Literal["offset", "timestamp", "position", "earliest", "latest", "before"]
    value: int = 0
    count: int = 1

    @property
    def asked(self) -> int | None:
        """The number in it, null where there is none."""
        return None if self.kind in {"earliest", "latest"} else self.value


@dataclass(frozen=True, kw_only=True)
class SeekRequest:
    """What to look for, and where.

    Args:
        targets: files, partitions and log directories, from `targets.resolve`.
        question: what is looked for.
        now_ms: the time, for the end of the log among the answers of `before`.
        read_bytes: also what a fetch of so many bytes from there on returns.
        max_read_bytes: how far a client of 0.8 to 0.10.0 doubles that for a message that is larger.
        explain: rows have their steps.
        kafka: the release whose rules count; null: told from the files.
        max_batch_bytes: the largest batch that is read, inflated too.
    """

    targets: tuple[Target, ...]
    question: Question
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
        """Rows of one target."""
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
        """Rows of one log; where a file of it cannot be read that is a finding, unless it was named itself."""
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
        trace = Trace()
        trace.add("release", f"the rules of {guess.describe()}", release=str(guess.release))
        with PartitionLookup(
            target.segments,
            is_v07=target.is_v07,
            log_start_offset=0 if target.is_file else self._checkpoints.log_start_offset(unit),
            has_warm_section=guess.release >= _FIRST_WARM,
            is_based=target.is_based,
            options=self._options,
        ) as lookup:
            if question.kind == "before":
                yield from self._before(target, lookup, guess, trace)
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
                    has_whole_first=not target.is_v07 and guess.release >= _FIRST_WHOLE,
                    trace=trace,
                ):
                    if chunk.table is tables.BATCH:
                        counted = (answer.fetch if answer.record is None else answer.record.batch).position
                        self._report.batches += sum(row["position"] != counted for row in chunk.rows())
                    yield chunk
            yield from self._wrong(target, lookup, trace, findings)

    def _before(
        self, target: SeekTarget, lookup: PartitionLookup, guess: ReleaseGuess, trace: Trace
    ) -> Iterator[Chunk]:
        question = self._request.question
        answers = offsets_before(lookup, question.value, question.count, self._request.now_ms, guess.release, trace)
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
