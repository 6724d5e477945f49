"""`kafkalog excise`: the places of single offsets, and the plan that excises them.

The log is read as a whole, because the batches around a place decide what it can become. A readable batch is excised
only if `verify` calls it an error, or if the user says that it may be healthy.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from kafkalog_core.errors import SelectionError, StorageError
from kafkalog_core.findings import found
from kafkalog_core.findings.catalog import Sink
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState
from kafkalog_core.kafka.rules.rule_table import recovery_rules
from kafkalog_core.kafka.sim.batch_faults import BatchFaults
from kafkalog_core.kafka.sim.batch_places import partition_bounds
from kafkalog_core.kafka.sim.copies import PartitionCopy
from kafkalog_core.kafka.sim.logdir.bounds import read_extent
from kafkalog_core.kafka.sim.logdir.top_files import read_broker_dir
from kafkalog_core.ops.recover.excised import is_lost_marker, offsets_of
from kafkalog_core.ops.recover.excision import excise, stage_excision
from kafkalog_core.ops.recover.places import find_places
from kafkalog_core.ops.recover.segment_reading import BadBatch, neighbour
from kafkalog_core.ops.repair.context import distinct_settings, waiting_replacement
from kafkalog_core.ops.repair.plan import PlanReport
from kafkalog_core.ops.transactions.coordinator import read_coordinators
from kafkalog_core.ops.transactions.judgement import Judge, abort_command
from kafkalog_core.ops.transactions.open_transactions import OpenTransaction
from kafkalog_core.storage.logdir import read_log_dir
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import replace
from kafkalog_core.text import count_of, first_of
from kafkalog_core.topics.transactions import TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.ops.recover.excised import ExcisedPlace
    from kafkalog_core.ops.recover.excision import Excision
    from kafkalog_core.ops.recover.places import DamagedPlace
    from kafkalog_core.ops.repair.context import PartitionFacts
    from kafkalog_core.ops.repair.loss import Loss
    from kafkalog_core.ops.repair.plan import PlanRequest
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.scan import Run

__all__ = ["findings_of", "plan_excise", "transaction_copies"]

_USED: Final = ("index.interval.bytes", "segment.index.bytes")
_HEALTHY: Final = "healthy"
"""The reason of a place that is a readable batch without a fault."""
_READS: Final = 2
"""The log is read for its places, and the segments from the first place on again, as a broker would recover them."""


def plan_excise(request: PlanRequest, stage: Stage, progress: Progress) -> PlanReport:
    """Plan `kafkalog excise`: stage the segments without the batches of some offsets, and return the report.

    Options: `kafka` (of a SettingsRequest), `offsets` (a list of offsets) and `healthy` (whether a batch that is not
    damaged is excised too).

    Raises:
        SelectionError: The request names single files, or not exactly one partition.
    """
    target = request.target
    target.check_no_files("excise works on whole partitions: name a partition directory")
    places = [each for each in target.partitions if each.name.state is not DirectoryState.DELETE]
    if len(places) != 1:
        raise SelectionError("an offset belongs to one log: name one partition directory", path=target.root)
    return _Planner(request, read_partition(places[0].path), stage, progress).plan()


class _Planner:
    def __init__(self, request: PlanRequest, partition: Partition, stage: Stage, progress: Progress) -> None:
        self._request = request
        self._partition = partition
        self._stage = stage
        self._progress = progress
        self._context = request.context()
        self._facts = self._context.facts(partition.name)
        self._offsets = sorted({*cast("Sequence[int]", request.options.get("offsets") or ())})
        self._takes_healthy = bool(request.options.get("healthy"))
        self._counts: dict[tuple[str, int], int] = {}
        self._findings = Sink(partition.topic, partition.partition)
        self._refusals = Sink(partition.topic, partition.partition)

    def plan(self) -> PlanReport:
        """Find the places of the offsets, and stage what takes their place."""
        excision: Excision | None = None
        if not self._is_impossible():
            size_bytes = sum(segment.size_bytes for segment in self._partition.segments)
            self._progress.expect(_READS * size_bytes)
            chosen = self._chosen()
            found = find_places(self._partition, self._facts, self._progress.advance, chosen=chosen)
            wanted = self._wanted(found)
            if wanted and not self._refusals.findings:
                bases = {each.segment.base_offset for each in wanted}
                tails = [each for each in found if each.is_tail and each.segment.base_offset in bases]
                copies = transaction_copies(self._request)
                excision = excise(
                    self._partition,
                    self._facts,
                    [*wanted, *tails],
                    self._progress.advance,
                    transaction_logs=[each.place.path for each in copies],
                )
                self._report_left(excision)
        losses: list[Loss] = []
        # All offsets or none: a plan that does a part of what was asked for would be taken for the whole
        if excision is not None and not self._refusals.findings:
            findings_of(excision, self._facts, self._findings, _judge(self._request))
            losses = [*excision.losses]
            stage_excision(excision, self._stage)
        guess = self._context.guess
        settings = [each for each in self._facts.settings.settings if each.name in _USED]
        return PlanReport(
            findings=self._findings.findings,
            refusals=self._refusals.findings,
            losses=tuple(losses),
            settings=distinct_settings(settings),
            release=guess,
            needs_release=excision is not None and not guess.agree(_rules),
        )

    def _is_impossible(self) -> bool:
        """Return whether nothing can be excised from this log at all, and report why."""
        path = self._partition.path
        if self._partition.format == "v07":
            self._refusals.add("excise.old-format", path)
        elif self._partition.topic == METADATA_TOPIC:
            self._refusals.add("excise.metadata-log", path)
        elif (waiting := waiting_replacement(self._partition)) is not None:
            # LogLoader.completeSwapOperations would put it in place of the new segment
            self._refusals.add("excise.replacement", waiting.path, name=os.path.basename(waiting.path))
        return bool(self._refusals.findings)

    # --- the offsets --------------------------------------------------------------------------------------------------
    def _chosen(self) -> dict[str, dict[int, BadBatch]]:
        """Return the readable batches that hold the offsets, by path and position."""
        chosen: dict[str, dict[int, BadBatch]] = {}
        for offset in self._offsets:
            segment = self._segment_of(offset)
            held = None if segment is None else _batch_with(segment, offset)
            if segment is None or held is None:
                continue
            path, (position, size_bytes, count) = segment.files[0].path, held
            self._counts[path, position] = count
            fault = _fault(self._partition, segment, position, size_bytes)
            reason, detail = (_HEALTHY, "nothing is wrong with it") if fault is None else (fault.reason, fault.detail)
            chosen.setdefault(path, {})[position] = BadBatch("chosen", reason, detail, "serves")
        return chosen

    def _segment_of(self, offset: int) -> Segment | None:
        """Return the segment whose offsets an offset is among, by the names of all (`LogSegments.floorSegment`)."""
        below = [each for each in self._partition.segments if each.base_offset <= offset and each.log is not None]
        return below[-1] if below else None

    def _wanted(self, found: tuple[DamagedPlace, ...]) -> list[DamagedPlace]:
        """Return the places that hold the offsets; report offsets without one, and places that belong with them."""
        wanted: list[DamagedPlace] = []
        for offset in self._offsets:
            place = next((each for each in found if _holds(each, offset)), None)
            if place is not None and place.reason == _HEALTHY and not self._takes_healthy:
                self._refuse_healthy(place, offset)
            elif place is not None and not place.is_tail and not _is_last_message(place):
                wanted += [] if place in wanted else [place]
            elif place is not None or self._is_behind(found, offset):
                end = place or next(each for each in found if each.is_tail)
                self._refusals.add("excise.at-end", end.path, position=end.start, offset=offset, damage=end.reason)
            else:
                self._refusals.add(
                    "excise.no-batch", self._partition.path, offset=offset, what=self._what_is_at(offset)
                )
        bases = {each.segment.base_offset for each in wanted}
        others = [
            each
            for each in found
            if each.segment.base_offset in bases and each not in wanted and not each.is_tail
            if each.kind not in {"chosen", "closed"}
        ]
        if others:
            texts = [
                f"--offset {each.first_offset} (byte {each.start}, {each.reason})"
                if each.first_offset is not None
                else f"byte {each.start} ({each.reason}), between two offsets"
                for each in others
            ]
            self._refusals.add("excise.others", others[0].path, position=others[0].start, what=first_of(texts))
        return wanted

    def _refuse_healthy(self, place: DamagedPlace, offset: int) -> None:
        count = self._counts[place.path, place.start]
        records = "an unknown number of records" if count < 0 else count_of(count, "record")
        self._refusals.add(
            "excise.healthy",
            place.path,
            position=place.start,
            offset=offset,
            first=place.first_offset,
            last=place.last_offset,
            records=records,
        )

    def _is_behind(self, found: tuple[DamagedPlace, ...], offset: int) -> bool:
        """Return whether an offset is after the last readable batch, where unreadable bytes follow."""
        tail = next((each for each in found if each.is_tail), None)
        if tail is None:
            return False
        return offset >= (tail.segment.base_offset if tail.before is None else tail.before.last_offset + 1)

    def _what_is_at(self, offset: int) -> str:
        """Return why no batch holds an offset, as a clause."""
        segments = [each for each in self._partition.segments if each.log is not None]
        if not segments:
            return "it has no segment"
        if offset < segments[0].base_offset:
            return f"it starts at offset {segments[0].base_offset}"
        extent = read_extent(self._partition)
        if extent is not None and offset >= extent.end:
            return f"it ends at offset {extent.end}"
        return "the offset is missing between two batches"

    def _report_left(self, excision: Excision) -> None:
        for place, refusal in excision.left:
            self._refusals.add(
                "excise.left", place.path, position=place.start, damage=place.reason, problem=refusal.rstrip(".")
            )


def _rules(release: Release) -> object:
    """Return the rules of a release that decide what can take a place, and how its indexes are built."""
    rules = recovery_rules(release)
    return rules.has_producers, rules.has_time_index, rules.names_last_offset, rules.reads_empty_markers


def _is_last_message(place: DamagedPlace) -> bool:
    """Return whether a place is a message that does not open, at the end of the log: its offsets are assigned again."""
    return place.kind == "closed" and place.after is None


def _holds(place: DamagedPlace, offset: int) -> bool:
    first, last = place.first_offset, place.last_offset
    return first is not None and last is not None and first <= offset <= last


def _batch_with(segment: Segment, offset: int) -> tuple[int, int, int] | None:
    """Return the readable batch that holds an offset: its position, size and record count.

    None: there is none. Raises StorageError.
    """
    previous: int | None = segment.base_offset - 1
    with Source.open(segment.files[0].path) as source:
        for item in scan(source, base_offset=segment.base_offset, options=ScanOptions(resync=True)):
            if isinstance(item, Damage):
                previous = None if item.size_bytes else previous
                continue
            held = _row_with(item, offset, previous)
            if held is not None:
                return held
            previous = item.batches.column("last_offset")[-1]
    return None


def _row_with(run: Run, offset: int, previous: int | None) -> tuple[int, int, int] | None:
    """Return the batch of a run that holds an offset; `previous`: the last offset before the run; None: unknown."""
    batches = run.batches
    for row, (base, last) in enumerate(zip(batches.column("base_offset"), batches.column("last_offset"), strict=True)):
        first = base
        if base < 0 and offset <= last:
            found = neighbour(run, row)
            # One that does not open has the offsets after the message before it
            first = found.first_offset if found.is_open or previous is None else min(previous + 1, last)
        if 0 <= first <= offset <= last:
            return batches.cell("position", row), batches.cell("size_bytes", row), batches.cell("record_count", row)
        previous = last
    return None


def _fault(partition: Partition, segment: Segment, position: int, size_bytes: int) -> Damage | None:
    """Return what `verify` calls an error in a readable batch; None: nothing. Raises StorageError."""
    bounds = partition_bounds(partition)[segment.base_offset]
    options, end = ScanOptions(), position + size_bytes
    with Source.open(segment.files[0].path) as source:
        faults = BatchFaults(source, bounds, options, opens_batches=True, start=position)
        items = scan(source, base_offset=segment.base_offset, options=options, start=position, end=end)
        for _ in faults.watched(items):
            pass
        return next((each for each in faults.wrong() if each.position == position), None)


# --- what is reported -------------------------------------------------------------------------------------------------
def findings_of(excision: Excision, facts: PartitionFacts, sink: Sink, judge: Judge | None = None) -> None:
    """Report what takes each place, and what is open or broken afterwards.

    Args:
        excision: the excision.
        facts: the release.
        sink: receives the findings.
        judge: knows what becomes of open transactions; None: nothing is known.
    """
    for segment in excision.segments:
        for each in segment.places:
            _report_place(each, sink)
        if segment.tail is not None:
            code = "excise.refused-tail" if segment.tail.kind == "refused" else "excise.tail"
            sink.add(code, segment.tail.path, position=segment.tail.start, damage=segment.tail.reason)
    for transaction in excision.open_transactions:
        topic, number = excision.partition.topic or "", excision.partition.partition or 0
        verdict = None if judge is None else judge.of_open(topic, number, transaction.producer_id)
        known = OpenTransaction(
            producer_id=transaction.producer_id,
            producer_epoch=-1,
            coordinator_epoch=-1,
            first_offset=transaction.first_offset,
            first_timestamp_ms=None,
            last_timestamp_ms=transaction.timestamp_ms,
            records=0,
            is_certain=False,
        )
        finding = found(
            "excise.transaction-open",
            excision.partition.path,
            topic=topic,
            partition=number,
            offset=transaction.first_offset,
            producer_id=transaction.producer_id,
        )
        command = abort_command(topic, number, known, facts.release)
        finding = replace(finding, next_step=command.replace("{", "{{").replace("}", "}}"))
        if verdict is not None:
            finding = replace(finding, broker_action=f"{finding.broker_action} {verdict.action}")
        sink.put(finding)
    problem = None
    if excision.problem is not None:
        problem = excision.problem.sentence.removesuffix(".")
    elif excision.still_truncates is not None:
        base, position = excision.still_truncates
        problem = f"it truncates segment {base} at byte {position}"
    if problem is not None:
        sink.add("excise.still-broken", excision.partition.path, problem=problem)


def _report_place(excised: ExcisedPlace, sink: Sink) -> None:
    place, choice = excised
    first, last, fields = place.first_offset, place.last_offset, "; ".join(choice.reconstructed)
    add = partial(sink.add, path=place.path, position=place.start, size_bytes=place.size_bytes, offset=first)
    if choice.way == "mended":
        add("excise.mended", first=first, last=last, fields=fields)
        return
    if choice.way == "ordered":
        add("excise.ordered", first=first, last=last, end=place.end - 1)
        return
    if choice.way == "moved":
        add("excise.moved", first=first, last=last, end=place.end - 1, problem=place.detail)
        return
    if choice.way == "unlinked" and place.header is not None:
        producer_id = place.header.producer_id
        add("excise.unlinked", first=first, last=last, producer_id=producer_id, problem=place.detail)
        return
    if choice.way == "marker":
        add("excise.marker", proof=choice.proof)
    elif choice.way == "removed":
        lost = offsets_of(place)
        fate = "assigned again" if _is_last_message(place) else "missing afterwards"
        what = "no offset is lost" if lost is None else f"offsets {lost[0]} to {lost[1]} are {fate}"
        add("excise.removed", end=place.end - 1, damage=place.reason, what=what)
        return
    else:
        add("excise.emptied", end=place.end - 1, damage=place.reason, first=first, last=last)
    if fields:
        add("excise.reconstructed", fields=fields)
    if is_lost_marker(excised) and place.header is not None:
        add("excise.marker-lost", producer_id=place.header.producer_id)
    if not choice.keeps_sequence:
        add("excise.producer-forgotten", first=first, last=last)


# --- transactions -----------------------------------------------------------------------------------------------------
def transaction_copies(request: PlanRequest) -> list[PartitionCopy]:
    """Return the copies of partitions of `__transaction_state` in the log directories of the same cluster.

    Those that cannot be listed are left out: they prove nothing.
    """
    found: list[PartitionCopy] = []
    try:
        related = [each.path for each in request.context().related_dirs]
    except StorageError:
        return found
    for path in related:
        try:
            broker_dir = read_broker_dir(read_log_dir(path))
        except StorageError:
            continue
        found += [
            PartitionCopy(place, path, broker_dir.context(place.name))
            for place in broker_dir.log_dir.partitions
            if place.name.topic == TRANSACTIONS_TOPIC and place.name.state is DirectoryState.CURRENT
        ]
    return found


def _judge(request: PlanRequest) -> Judge | None:
    copies = transaction_copies(request)
    return Judge(read_coordinators(copies, None, MAX_BATCH_BYTES), request.now_ms) if copies else None
