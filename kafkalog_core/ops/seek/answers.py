"""One answer to one question about one log, and how a broker's would differ from it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import found
from kafkalog_core.format.names import FileKind, fixed_file_name
from kafkalog_core.kafka.fetch import Broker, BrokerAnswer, broker_offset, broker_time
from kafkalog_core.kafka.rules import fetch_rules

if TYPE_CHECKING:
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.releases import Release
    from kafkalog_core.ops.reading.logfiles import Unit
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.lookup import PartitionLookup
    from kafkalog_core.storage.lookup_trace import Trace
    from kafkalog_core.storage.segment_lookup import BatchPlace, RecordPlace

__all__ = ["Answer", "Outcome", "SeekTarget", "broker_findings", "find"]

Outcome = Literal["found", "end", "none", "out-of-range"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was found; `log_end_offset` is None where it was not needed.

    `fetch` is the batch at which a fetch starts, the record's own but where compaction has emptied one before it.
    """

    outcome: Outcome
    record: RecordPlace | None = None
    fetch: BatchPlace | None = None
    segment: str | None = None
    position: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None
    log_end_offset: int | None = None
    detail: str | None = None

    def row(self, lookup: PartitionLookup) -> dict[str, object]:
        """Return columns of the `seek` row, but for the place of the log and the question."""
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
                "segment": _name(batch),
                "position": batch.position,
                "size_bytes": batch.size_bytes,
                "base_offset": batch.base_offset,
                "last_offset": batch.last_offset,
                "fetch_position": None if self.fetch is None else self.fetch.position,
            }
        if self.record is not None:
            row |= {"offset": self.record.offset, "timestamp_ms": self.record.timestamp_ms}
        return row


def find(lookup: PartitionLookup, kind: str, value: int, trace: Trace, *, is_file: bool) -> Answer:
    """Answer a question about one log; `is_file`: other files of it are not known. Raises StorageError."""
    if not lookup.segments:
        return Answer(outcome="none", detail="no segment")
    if kind == "timestamp":
        return _by_time(lookup, value, trace)
    if kind == "position":
        return _by_position(lookup, value, trace)
    if kind == "latest":
        return _at_end(lookup, trace)
    return _by_offset(lookup, lookup.log_start_offset if kind == "earliest" else value, trace, is_file=is_file)


def _by_time(lookup: PartitionLookup, time_ms: int, trace: Trace) -> Answer:
    record = lookup.find_time(time_ms, trace)
    if record is not None:
        return Answer(outcome="found", record=record, fetch=record.batch)
    if trace.has_times:
        return Answer(outcome="none", detail="no record is so late")
    what = "no record has a timestamp; --before uses the modification times of the files"
    return Answer(outcome="none", detail=what)


def _by_offset(lookup: PartitionLookup, offset: int, trace: Trace, *, is_file: bool) -> Answer:
    log = "file" if is_file else "log"
    if offset < lookup.log_start_offset:
        end, _ = lookup.log_end(trace)
        detail = f"offsets of this {log} are {lookup.log_start_offset} to {end - 1}"
        located = lookup.find_offset(offset, trace)
        if located is not None and located.record is not None and located.record.offset < lookup.log_start_offset:
            place = located.record
            detail += (
                f"; below its start, offset {place.offset} is still on the disk at byte {place.batch.position} of "
                f"{_name(place.batch)}"
            )
        return Answer(outcome="out-of-range", log_end_offset=end, detail=detail)
    located = lookup.find_offset(offset, trace)
    if located is not None and located.record is not None:
        beside = _beside(located.record, offset, trace, is_v07=lookup.is_v07)
        return Answer(outcome="found", record=located.record, fetch=located.batch, detail=beside)
    end, _ = lookup.log_end(trace)
    if offset == end:
        return _at_end(lookup, trace)
    if offset > end:
        detail = f"offsets of this {log} are {lookup.log_start_offset} to {end - 1}"
        return Answer(outcome="out-of-range", log_end_offset=end, detail=detail)
    if located is not None:
        detail = "no record from it on can be read: the batch is empty, or what is in it is damaged"
        return Answer(outcome="none", fetch=located.batch, log_end_offset=end, detail=detail)
    return Answer(outcome="none", log_end_offset=end, detail="no record from it on")


def _beside(record: RecordPlace, offset: int, trace: Trace, *, is_v07: bool) -> str | None:
    """Return what to say where it is another offset that was found."""
    if record.offset == offset:
        return None
    if is_v07:
        return f"no message starts at address {offset}: a fetch from there returns bytes that are none"
    for met in trace.damages:
        expected = met.damage.next_offset
        if expected is not None and expected <= offset:
            where = f"byte {met.damage.position} of {os.path.basename(met.path)} ({met.damage.reason})"
            return f"offset {offset} is lost, or in the damage at {where}; {record.offset} is the next one"
    return f"there is no record of offset {offset}; {record.offset} is the next one"


def _by_position(lookup: PartitionLookup, position: int, trace: Trace) -> Answer:
    size = lookup.segment(0).source.size_bytes
    if position >= size:
        return Answer(outcome="out-of-range", detail=f"the file has {size} bytes")
    located = lookup.batch_at(0, position, trace)
    if located is None:
        return Answer(outcome="none", detail=f"byte {position} is in no whole batch")
    if located.record is None:
        return Answer(outcome="found", fetch=located.batch, detail="no record of the batch can be read")
    return Answer(outcome="found", record=located.record, fetch=located.batch)


def _at_end(lookup: PartitionLookup, trace: Trace) -> Answer:
    end, position = lookup.log_end(trace)
    log = lookup.segments[-1].log
    return Answer(
        outcome="end",
        segment=None if log is None else log.name.raw,
        position=position,
        offset=end,
        log_end_offset=end,
    )


# --- what a broker answers --------------------------------------------------------------------------------------------
def broker_findings(
    answer: Answer,
    kind: str,
    value: int,
    lookup: PartitionLookup,
    target: SeekTarget,
    release: Release,
    trace: Trace,
) -> list[Finding]:
    """Return how a broker's answer differs from the right one, where it does."""
    rules = fetch_rules(release)
    is_checked = rules.checks_indexes  # all indexes, at every start: wrong ones are rebuilt
    is_out = lookup.is_v07 or not target.is_based or not lookup.segments
    if is_out or (is_checked and trace.doubts):
        return []
    broker = Broker(
        has_warm_section=lookup.has_warm_section,
        recovers_from=len(lookup.segments) if target.is_clean else len(lookup.segments) - 1,
    )
    try:
        if kind == "timestamp" and rules.has_times:
            theirs = broker_time(lookup, value, broker, trace)
            same = theirs.outcome != "fails" and _offset(theirs.record) == _offset(answer.record)
        elif kind in {"offset", "earliest"} and answer.outcome in {"found", "none"} and _is_doubtful(trace):
            theirs = broker_offset(lookup, lookup.log_start_offset if kind == "earliest" else value, broker)
            same = theirs.outcome != "fails" and theirs.batch == answer.fetch
        else:
            return []
    except StorageError as error:
        trace.add("broker", f"the answer of a broker is unknown: {error.message}")
        return []
    return [] if same else [_difference(answer, theirs, target, release, trace)]


def _difference(answer: Answer, theirs: BrokerAnswer, target: SeekTarget, release: Release, trace: Trace) -> Finding:
    text = f"an error, {theirs.why}" if theirs.outcome == "fails" else f"nothing; {theirs.why}"
    if theirs.batch is not None:
        first = "" if theirs.record is None else f"offset {theirs.record.offset}, in "
        text = f"{first}the batch at byte {theirs.batch.position} of {_name(theirs.batch)}"
    trace.add("broker", f"a broker of {release} answers otherwise: {text}")
    unit = target.unit
    return found(
        "lookup.broker-differs",
        unit.files[0].path if target.is_file else unit.path,
        topic=unit.topic,
        partition=unit.partition,
        offset=_offset(answer.record),
        release=release,
        answer=text,
    )


def _is_doubtful(trace: Trace) -> bool:
    return trace.has_zero_tail or trace.has_overlap or any(not doubt.is_missing for doubt in trace.doubts)


def _offset(record: RecordPlace | None) -> int | None:
    return None if record is None else record.offset


def _name(batch: BatchPlace) -> str:
    return os.path.basename(batch.segment.log.path) if batch.segment.log is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeekTarget:
    """One log. `is_file`: a file by itself, so that nothing is known of offsets outside of it.

    `problem`: why its directory could not be read; there are no segments then.
    """

    unit: Unit
    segments: tuple[Segment, ...]
    is_v07: bool
    is_file: bool = False
    is_based: bool = True
    problem: Finding | None = None

    @property
    def is_clean(self) -> bool:
        """Whether a broker that starts on it skips recovery, and so takes the last indexes as they are."""
        directory = self.unit.log_dir
        return directory is not None and os.path.exists(f"{directory}/{fixed_file_name(FileKind.CLEAN_SHUTDOWN)}")
