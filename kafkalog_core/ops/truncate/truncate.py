"""`kafkalog truncate`: plans where logs end, and lowers the checkpoints of those that end earlier afterwards."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kafkalog_core.engine.pool import run_all
from kafkalog_core.errors import SelectionError
from kafkalog_core.findings import found
from kafkalog_core.findings.catalog import Sink
from kafkalog_core.format.checkpoint import CheckpointMend, CheckpointOffset, parse_offset_entry
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind, fixed_file_name
from kafkalog_core.kafka.rules.rule_table import recovery_rules, rules_of
from kafkalog_core.kafka.sim.logdir.bounds import log_bounds
from kafkalog_core.ops.repair.assumptions import assumed_of_topic
from kafkalog_core.ops.repair.context import distinct_settings, waiting_replacement
from kafkalog_core.ops.repair.loss import measure_loss
from kafkalog_core.ops.repair.plan import PlanReport
from kafkalog_core.ops.truncate.as_broker import stage_completion, truncate_as_broker
from kafkalog_core.ops.truncate.truncation import (
    HiddenOffset,
    companion_files,
    stage_truncation,
    truncate_at_damage,
    truncate_at_offset,
)
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, field, replace
from kafkalog_core.text import count_of, first_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.rules.rule_table import LoaderRules, RecoveryRules
    from kafkalog_core.kafka.rules.setting_table import Setting
    from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir
    from kafkalog_core.ops.repair.assumptions import Assumption
    from kafkalog_core.ops.repair.context import PartitionFacts
    from kafkalog_core.ops.repair.loss import Loss
    from kafkalog_core.ops.repair.plan import PlanRequest
    from kafkalog_core.ops.truncate.as_broker import SwapCompletion
    from kafkalog_core.ops.truncate.truncation import CompanionFiles, Truncation
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.partition import Partition

__all__ = ["cuts_of", "plan_truncate", "stage_lower_offsets", "start_rules", "what_is_deleted"]

_LOWERED_AFTERWARDS: Final = (FileKind.RECOVERY_POINT, FileKind.HIGH_WATERMARK, FileKind.CLEANER_OFFSET)
"""The checkpoints that are lowered after the logs are truncated; log start offsets are lowered before."""
_NAMES: Final = {
    FileKind.RECOVERY_POINT: "recovery point",
    FileKind.HIGH_WATERMARK: "high watermark",
    FileKind.CLEANER_OFFSET: "cleaner offset",
    FileKind.LOG_START_OFFSET: "log start offset",
}
_USED: Final = ("index.interval.bytes", "segment.index.bytes", "max.message.bytes")
_TIERED: Final = ("remote.storage.enable",)
_TOO_LARGE: Final = "over-limit"
_NOT_LOOKED_INTO: Final = (
    "every batch is whole, its checksum is right and offsets rise from batch to batch; this command does not look into "
    "batches, which kafkalog verify does"
)


# --- one partition ----------------------------------------------------------------------------------------------------
class _PartitionPlan(Struct):
    """What is planned for one partition; it is left as it is if both `truncation` and `completion` are None.

    Args:
        partition: its files as they are.
        findings: what is reported about it.
        refusals: why nothing is done.
        truncation: the part of the log that is deleted.
        companions: the small files after the truncation.
        completion: replacements that are put in place first.
        losses: what is lost for good.
    """

    partition: Partition
    findings: Sink
    refusals: Sink
    truncation: Truncation | None = None
    companions: CompanionFiles | None = None
    completion: SwapCompletion | None = None
    losses: list[Loss] = field(default_factory=list)

    @property
    def is_changed(self) -> bool:
        """Whether something is done here."""
        return self.truncation is not None or self.completion is not None

    def add_losses(self, cuts_of_losses: Iterable[list[tuple[str, int]]], facts: PartitionFacts) -> None:
        """Measure what is lost with these parts of logs."""
        losses = (measure_loss(self.partition, cuts, facts.high_watermark) for cuts in cuts_of_losses)
        self.losses += [loss for loss in losses if loss is not None]


def plan_partition(
    partition: Partition, facts: PartitionFacts, to_offset: int | None, as_broker: bool, advance: Callable[[int], None]
) -> _PartitionPlan:
    """Find where one partition is truncated; it may run in another process.

    Args:
        partition: has segments.
        facts: its log directory, the release and the settings.
        to_offset: the first offset to delete; None: a broker or the damage decides.
        as_broker: whether the log is truncated where a broker would; else at the first damage.
        advance: called with the bytes that are read.
    """
    # A plan of truncation stops reading at the place it finds; the rest still has to be counted, or the bar would end
    # short.
    unread_bytes = sum(segment.size_bytes for segment in partition.segments)

    def read(size_bytes: int) -> None:
        nonlocal unread_bytes
        unread_bytes -= size_bytes
        advance(size_bytes)

    topic, number = partition.topic, partition.partition
    plan = _PartitionPlan(partition, Sink(topic, number), Sink(topic, number))
    truncation, companions = None, None
    if as_broker:
        truncation, companions = _as_broker(plan, facts, read)
    elif to_offset is None:
        truncation = truncate_at_damage(partition, read)
    else:
        truncation = _at_offset(plan, to_offset, facts, read)
    # A start completes a waiting replacement first, so only the plan that follows a start may go on with one there.
    if truncation is not None and not truncation.is_empty and (as_broker or not _is_blocked(plan)):
        plan.truncation, plan.companions = truncation, companions or companion_files(truncation, facts)
        _report(plan, truncation, plan.companions, facts)
    advance(unread_bytes)
    return plan


def _as_broker(
    plan: _PartitionPlan, facts: PartitionFacts, advance: Callable[[int], None]
) -> tuple[Truncation | None, CompanionFiles | None]:
    """Return what the next start truncates; report the replacements that it puts in place first."""
    result = truncate_as_broker(plan.partition, facts, advance)
    if result.refusal is not None:
        plan.refusals.put(result.refusal)
    if result.completion is not None:
        plan.completion = completion = result.completion
        path = plan.partition.path
        logs = [os.path.basename(file.path) for file in completion.moved if file.name.kind is FileKind.LOG]
        replaced = [file.name.raw for file, _ in completion.replaced if file.name.kind is FileKind.LOG]
        plan.findings.add(
            "truncate.completes",
            path,
            names=", ".join(logs) or os.path.basename(completion.moved[0].path),
            replaced=", ".join(replaced) or "no log",
        )
        # Each replaced log has a loss of its own: replacements in between may hold the offsets that separate two of
        # them.
        plan.add_losses(([cut] for cut in completion.lost), facts)
        if result.truncates_more:
            plan.findings.add("truncate.cuts-more", path)
    return result.truncation, result.companions


def _at_offset(
    plan: _PartitionPlan, offset: int, facts: PartitionFacts, advance: Callable[[int], None]
) -> Truncation | None:
    partition = plan.partition
    # UnifiedLog.truncateTo falls back to truncateFullyAndStartAt below the first segment: that deletes everything, and
    # is refused here. With tiered storage the local log start is the bound.
    start = log_bounds(partition.segments[0].base_offset, facts.context, rules_of(facts.release)).local_start
    if offset < start:
        plan.refusals.add("truncate.outside", partition.path, offset=start, wanted=offset, start=start)
        return None
    truncation = truncate_at_offset(partition, offset, advance)
    if isinstance(truncation, HiddenOffset):
        place = truncation
        plan.refusals.add("truncate.hidden", place.path, position=place.position, damage=place.reason, wanted=offset)
        return None
    end = truncation.end_offset
    # UnifiedLog.truncateTo returns false for an offset at or after the log end offset; equality is not an error there
    # either.
    if truncation.is_empty and offset > end:
        plan.refusals.add("truncate.beyond-end", partition.path, offset=end, wanted=offset, end=end)
        return None
    if truncation.inside is not None:
        first, last = truncation.inside
        plan.findings.add("truncate.whole-batch", partition.path, wanted=offset, first=first, last=last)
    return truncation


def _is_blocked(plan: _PartitionPlan) -> bool:
    """Return whether a finished replacement waits, which would bring back what is truncated."""
    # LogLoader.completeSwapOperations would put the replacement in place at the next start, with the records that the
    # plan deletes.
    waiting = waiting_replacement(plan.partition)
    if waiting is not None:
        plan.refusals.add("truncate.replacement", waiting.path, name=os.path.basename(waiting.path))
    return waiting is not None


def _report(plan: _PartitionPlan, truncation: Truncation, companions: CompanionFiles, facts: PartitionFacts) -> None:
    path = plan.partition.path
    plan.findings.add("truncate.cut", path, offset=truncation.end_offset, what=what_is_deleted(truncation))
    plan.add_losses(cuts_of(truncation), facts)
    # An unreadable record leaves the state of producers unknown. The truncation is planned all the same, because the
    # snapshots after the end must be deleted in any case.
    if companions.obstacle is not None:
        log_path, obstacle = companions.obstacle
        plan.findings.add("truncate.snapshot-not-made", log_path, position=obstacle.position, damage=obstacle.reason)
    if companions.open_transactions:
        first = min(each.first_offset for each in companions.open_transactions)
        plan.findings.add("truncate.open-transactions", path, offset=first, count=len(companions.open_transactions))


def what_is_deleted(truncation: Truncation) -> str:
    """Return what is deleted, as clauses."""
    parts = []
    for each in truncation.segments:
        lost_bytes = each.segment.size_bytes - each.size_bytes
        name = os.path.basename(each.segment.files[0].path)
        verb = "is" if lost_bytes == 1 else "are"
        lost = f"{lost_bytes:,} byte{'' if lost_bytes == 1 else 's'}"
        parts.append(f"{lost} of {name} {verb} deleted, from byte {each.size_bytes} on ({each.why})")
    if truncation.removed:
        count = len(truncation.removed)
        size_bytes = sum(segment.size_bytes for segment in truncation.removed)
        verb = "is" if count == 1 else "are"
        parts.append(
            f"{count_of(count, 'segment')} {verb} deleted, with {size_bytes:,} bytes ({truncation.why_removed})"
        )
    return "; ".join(parts)


def cuts_of(truncation: Truncation) -> Iterator[list[tuple[str, int]]]:
    """Yield the deleted parts, each a list of logs that follow each other, with the byte from which each is deleted."""
    shorter = [(each.segment.files[0].path, each.size_bytes) for each in truncation.segments]
    removed = [(segment.files[0].path, 0) for segment in truncation.removed]
    apart = len(shorter) - bool(removed)
    # A log that becomes shorter and the segments removed after it lose one contiguous range of offsets; shorter logs
    # before it lose ranges of their own.
    yield from ([cut] for cut in shorter[:apart])
    if removed:
        yield [*shorter[apart:], *removed]


# --- all partitions ---------------------------------------------------------------------------------------------------
def plan_truncate(request: PlanRequest, stage: Stage, progress: Progress) -> PlanReport:
    """Plan `kafkalog truncate`: stage the changes and return the report.

    Options: `kafka` (of a SettingsRequest), and one of `to_offset` (an offset), `as_broker` (true) and `at_damage`
    (true), which also holds without any of them. Partitions that wait for their deletion are skipped.

    Raises:
        SelectionError: The request names single files, or several partitions for one offset.
    """
    return _Planner(request, stage, progress).plan()


class _Planner:
    def __init__(self, request: PlanRequest, stage: Stage, progress: Progress) -> None:
        self._request = request
        self._stage = stage
        self._progress = progress
        to_offset = request.options.get("to_offset")
        self._to_offset = to_offset if isinstance(to_offset, int) else None
        self._is_as_broker = bool(request.options.get("as_broker"))
        self._context = request.context()
        self._used: list[Setting] = []

    def plan(self) -> PlanReport:
        """Find all truncations, and stage them; `stage_truncation` has the order in a partition and its reasons."""
        target = self._request.target
        target.check_no_files("truncate works on whole partitions: name a partition directory")
        # One offset has a meaning in one log only.
        if self._to_offset is not None and len(target.partitions) != 1:
            raise SelectionError("--to-offset applies to one log: name one partition directory", path=target.root)
        plans = list(self._plans())
        done = [(each.truncation, each.companions) for each in plans if each.truncation and each.companions]
        completions = [each.completion for each in plans if each.completion is not None]
        self._stage_all(done, completions)
        # what the metadata log assigns elsewhere matters only to what a broker will do
        elsewhere = self._context.assigned_elsewhere if self._is_as_broker else {}
        changed = {each.partition.path for each in plans if each.is_changed}
        rules: Callable[[Release], object] = start_rules if self._is_as_broker else _has_producers
        if completions:
            rules = _replacement_rules
        is_expiration_decisive = any(companions.is_expiration_decisive for _, companions in done)
        expiration = (self._context.settings.producer_expiration(),) if is_expiration_decisive else ()
        guess = self._context.guess
        return PlanReport(
            findings=(
                *(finding for each in plans for finding in each.findings.findings),
                *(finding for path, finding in elsewhere.items() if path in changed),
                *(_of_metadata(each.partition) for each, _ in done if each.partition.topic == METADATA_TOPIC),
            ),
            refusals=(
                *(finding for each in plans for finding in each.refusals.findings),
                *(finding for path, finding in elsewhere.items() if path not in changed),
            ),
            losses=tuple(loss for each in plans for loss in each.losses),
            settings=(*distinct_settings(self._used), *expiration),
            note=_NOT_LOOKED_INTO if self._is_sound(plans) else None,
            release=guess if self._is_as_broker or done else None,
            needs_release=is_expiration_decisive or (bool(done or completions) and not guess.agree(rules)),
            assumptions=tuple(dict.fromkeys(each for truncation, _ in done for each in self._assumed(truncation))),
        )

    def _stage_all(
        self, truncations: list[tuple[Truncation, CompanionFiles]], completions: list[SwapCompletion]
    ) -> None:
        """Stage the changes of all partitions and of the checkpoints.

        A log start offset is lowered after the logs that keep it, and before those that then end below it: a broker
        that starts in between never finds a log start offset after the end, at which it would delete the whole log.
        """
        # Replacements first: they do not depend on a checkpoint, and what is truncated below is a log that a start has
        # loaded.
        for completion in completions:
            stage_completion(completion, self._stage)
        ends = {
            (each.partition.topic, each.partition.partition): each.end_offset
            for each, _ in truncations
            # Directories that a broker does not serve have no entry in its checkpoints (`-future` and `-stray`
            # directories share the key of the partition).
            if self._context.is_served(each.partition.name)
        }
        below_start = [self._ends_below_start(each) for each, _ in truncations]
        for (truncation, companions), is_below in zip(truncations, below_start, strict=True):
            if not is_below:
                stage_truncation(truncation, companions, self._stage)
        self._lower(FileKind.LOG_START_OFFSET, ends)
        for (truncation, companions), is_below in zip(truncations, below_start, strict=True):
            if is_below:
                stage_truncation(truncation, companions, self._stage)
        # Recovery point, high watermark and cleaner offset are only ever too high in between: a start takes the smaller
        # of each and the log end offset (LogLoader.recoverLog, UnifiedLog.updateHighWatermark; from 2.8 on
        # LogCleanerManager.cleanableOffsets).
        for kind in _LOWERED_AFTERWARDS:
            self._lower(kind, ends)

    def _is_sound(self, plans: list[_PartitionPlan]) -> bool:
        """Return whether damage was looked for, and none found."""
        is_asked = self._to_offset is None and not self._is_as_broker
        return is_asked and not any(each.truncation is not None or each.refusals.findings for each in plans)

    def _ends_below_start(self, truncation: Truncation) -> bool:
        """Return whether a log ends below its checkpointed log start offset afterwards."""
        start_offset = self._context.offset(FileKind.LOG_START_OFFSET, truncation.partition.name)
        return start_offset is not None and start_offset > truncation.end_offset

    def _assumed(self, truncation: Truncation) -> Iterator[Assumption]:
        """Yield the assumed settings of a truncation: up to 0.10.2 recovery stops at a message over the limit."""
        recoveries = (each.recovery for each in truncation.segments)
        if any(each is not None and each.stop == _TOO_LARGE for each in recoveries):
            settings = self._context.settings.for_topic(truncation.partition.topic)
            yield from assumed_of_topic(settings, ["max.message.bytes"])

    def _lower(self, kind: FileKind, ends: Mapping[tuple[str | None, int | None], int]) -> None:
        if self._context.broker_dir is not None and ends:
            stage_lower_offsets(self._context.broker_dir, kind, ends, self._stage)

    def _plans(self) -> Iterator[_PartitionPlan]:
        """Yield the plans of all partitions in their order, from several processes where that is faster."""
        partitions = [
            partition
            for place in self._request.target.partitions
            # LogManager deletes `-delete` directories soon after a start (file.delete.delay.ms), so nothing in them is
            # worth a plan.
            if place.name.state is not DirectoryState.DELETE and self._has_log(partition := read_partition(place.path))
        ]
        size_bytes = sum(segment.size_bytes for partition in partitions for segment in partition.segments)
        self._progress.expect(size_bytes)
        tasks = [(each, self._facts(each), self._to_offset, self._is_as_broker) for each in partitions]
        return run_all(plan_partition, tasks, self._request.jobs, size_bytes, self._progress)

    def _has_log(self, partition: Partition) -> bool:
        """Return whether there is anything to truncate; a start makes segments even if only replacements are there."""
        # A directory with nothing but a `.swap` file is a log after the start, not an empty directory.
        is_waiting = self._is_as_broker and waiting_replacement(partition) is not None
        return bool(partition.segments) or is_waiting

    def _facts(self, partition: Partition) -> PartitionFacts:
        facts = self._context.facts(partition.name, as_loaded=self._is_as_broker)
        is_tiered = facts.settings.remote_storage_enable
        names = {*(_USED if self._is_as_broker else ()), *(_TIERED if is_tiered else ())}
        self._used += [setting for setting in facts.settings.settings if setting.name in names]
        return facts


def stage_lower_offsets(
    broker_dir: BrokerDir, kind: FileKind, ends: Mapping[tuple[str | None, int | None], int], stage: Stage
) -> None:
    """Stage the entries of one checkpoint that are above the end of their log; its other lines stay as they are.

    Args:
        broker_dir: the log directory; a file that a broker refuses is left alone.
        kind: of the file.
        ends: log end offsets afterwards, by topic and partition.
        stage: receives the change.
    """
    text = broker_dir.offsets.get(kind)
    # A file that a broker cannot parse counts as empty at the start (LogManager.loadLogs); to rewrite it would drop the
    # lines that a person could still read.
    if text is None or text.is_refused:
        return
    path = f"{broker_dir.path}/{fixed_file_name(kind)}"
    with Source.open(path) as source:
        mend = CheckpointMend[CheckpointOffset](source.read(0, source.size_bytes), parse_offset_entry)
    lowered: list[str] = []
    for line in mend.lines:
        entry = line.entry
        end = None if entry is None else ends.get((entry.topic, entry.partition))
        # Never raised: an offset below the end is as valid after the truncation as it was before.
        if entry is None or end is None or entry.offset <= end:
            continue
        mend.replace(line, f"{entry.topic} {entry.partition} {end}", "its log ends earlier")
        lowered.append(f"{entry.topic}-{entry.partition} from {entry.offset} to {end}")
    if lowered:
        content, _ = mend.content()
        stage.write(path, [content], why=f"{_NAMES[kind]} of {first_of(lowered)}", like=path)


def _of_metadata(partition: Partition) -> Finding:
    return found("truncate.metadata-log", partition.path, topic=partition.topic, partition=partition.partition)


def start_rules(release: Release) -> tuple[LoaderRules, RecoveryRules]:
    """Return the rules of a release that decide where its start truncates a log without replacements.

    How it looks for an offset decides whether it starts, not where it truncates.
    """
    # Two releases that differ in these two fields only still truncate at the same byte, so the user need not choose
    # one.
    return replace(rules_of(release), swaps="renamed", search="base"), recovery_rules(release)


def _replacement_rules(release: Release) -> object:
    """Return the same where replacements wait."""
    return rules_of(release).swaps, start_rules(release)


def _has_producers(release: Release) -> bool:
    """Return whether the release has snapshots: all that matters where an offset or damage decides."""
    return rules_of(release).has_producers
