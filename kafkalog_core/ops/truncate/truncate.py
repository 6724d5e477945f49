"""`kafkalog truncate`: plans where logs are cut, and lowers the checkpoints of logs that end earlier afterwards."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import SelectionError
from kafkalog_core.findings import found
from kafkalog_core.format.checkpoint import CheckpointMend, CheckpointOffset, parse_offset_entry
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind, fixed_file_name
from kafkalog_core.kafka.assumptions import assumed_of_topic
from kafkalog_core.kafka.rules import recovery_rules, rules_of
from kafkalog_core.ops.pool import run_all
from kafkalog_core.ops.repair.context import distinct_settings, waiting_replacement
from kafkalog_core.ops.repair.plan import PlanReport
from kafkalog_core.ops.truncate.as_broker import stage_completion
from kafkalog_core.ops.truncate.search import CutRequest, search
from kafkalog_core.ops.truncate.staging import stage_cut
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.source import Source
from kafkalog_core.text import first_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.assumptions import Assumption
    from kafkalog_core.kafka.logdir.top_files import BrokerDir
    from kafkalog_core.kafka.releases import Release
    from kafkalog_core.kafka.setting_table import Setting
    from kafkalog_core.ops.repair.context import PartitionFacts
    from kafkalog_core.ops.repair.plan import PlanRequest
    from kafkalog_core.ops.truncate.cut import Cut
    from kafkalog_core.ops.truncate.search import PartitionCut
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.partition import Partition

__all__ = ["FOLLOWING", "lower_offsets", "plan_truncate"]


FOLLOWING: Final = (FileKind.RECOVERY_POINT, FileKind.HIGH_WATERMARK, FileKind.CLEANER_OFFSET)
"""What is lowered after the cut; the log start is lowered before."""
_NAMES: Final = {
    FileKind.RECOVERY_POINT: "recovery point",
    FileKind.HIGH_WATERMARK: "high watermark",
    FileKind.CLEANER_OFFSET: "offset that the cleaner has come to",
    FileKind.LOG_START_OFFSET: "log start offset",
}


def lower_offsets(
    broker_dir: BrokerDir, kind: FileKind, ends: Mapping[tuple[str | None, int | None], int], stage: Stage
) -> None:
    """Lower the entries of one file that lie above the end of their log; its other lines stay as they are.

    Args:
        broker_dir: the log directory; a file that a broker refuses is left alone.
        kind: of the file.
        ends: where each log ends then, by topic and partition.
        stage: takes the change.
    """
    text = broker_dir.offsets.get(kind)
    if text is None or text.is_refused:
        return
    path = f"{broker_dir.path}/{fixed_file_name(kind)}"
    with Source.open(path) as source:
        mend = CheckpointMend[CheckpointOffset](source.read(0, source.size_bytes), parse_offset_entry)
    told: list[str] = []
    for line in mend.lines:
        entry = line.entry
        end = None if entry is None else ends.get((entry.topic, entry.partition))
        if entry is None or end is None or entry.offset <= end:
            continue
        mend.replace(line, f"{entry.topic} {entry.partition} {end}", "its log ends earlier")
        told.append(f"{entry.topic}-{entry.partition} from {entry.offset} to {end}")
    if told:
        content, _ = mend.content()
        stage.write(path, [content], why=f"{_NAMES[kind]} of {first_of(told)}", like=path)


_USED: Final = ("index.interval.bytes", "segment.index.bytes", "max.message.bytes")
_TIERED: Final = ("remote.storage.enable",)
_TOO_LARGE: Final = "over-limit"
_NOT_LOOKED_INTO: Final = (
    "every batch is whole, its checksum is right and offsets rise from batch to batch; this command does not look into "
    "batches, which kafkalog verify does"
)


def plan_truncate(request: PlanRequest, stage: Stage, progress: Progress) -> PlanReport:
    """Return the planner of `kafkalog truncate`.

    Options: `kafka` (of a SettingsRequest), and one of `to_offset` (an offset), `at_damage` and `as_broker` (true).
    Partitions that wait for their deletion are passed over.

    Raises:
        SelectionError: files by themselves were named, or several partitions for one offset.
    """
    return _Planner(request, stage, progress).plan()


class _Planner:
    def __init__(self, request: PlanRequest, stage: Stage, progress: Progress) -> None:
        self._request = request
        self._stage = stage
        self._progress = progress
        options = request.options
        to_offset = options.get("to_offset")
        self._cut_request = CutRequest(
            to_offset=to_offset if isinstance(to_offset, int) else None, as_broker=bool(options.get("as_broker"))
        )
        self._context = request.context()
        self._used: list[Setting] = []

    def plan(self) -> PlanReport:
        """Find all cuts, and stage them; `truncation.staging` has the order and its reasons."""
        target = self._request.target
        target.check_no_files("truncate works on whole partitions: name a partition directory")
        if self._cut_request.to_offset is not None and len(target.partitions) != 1:
            raise SelectionError("--to-offset applies to one log: name one partition directory", path=target.root)
        answers = list(self._cuts())
        cuts = [(answer.cut, answer.companions) for answer in answers if answer.cut is not None]
        ends = {
            (cut.partition.topic, cut.partition.partition): cut.end_offset
            for cut, _ in cuts
            if self._context.is_served(cut.partition.name)
        }
        completions = [answer.completion for answer in answers if answer.completion is not None]
        for completion in completions:
            stage_completion(completion, self._stage)
        changed = {answer.partition.path for answer in answers if answer.changes}
        # what the metadata log assigns elsewhere matters only to what a broker will do
        elsewhere = self._context.assigned_elsewhere if self._cut_request.as_broker else {}
        hidden = [each for each in cuts if self._ends_below_start(each[0])]
        for cut, companions in [each for each in cuts if each not in hidden]:
            stage_cut(cut, companions, self._stage)
        self._lower(FileKind.LOG_START_OFFSET, ends)
        for cut, companions in hidden:
            stage_cut(cut, companions, self._stage)
        for kind in FOLLOWING:
            self._lower(kind, ends)
        rules: Callable[[Release], object] = _start_rules if self._cut_request.as_broker else _has_producers
        if completions:
            rules = _replacement_rules
        is_expiration_decisive = any(each is not None and each.is_expiration_decisive for _, each in cuts)
        expiration = (self._context.settings.producer_expiration(),) if is_expiration_decisive else ()
        guess = self._context.guess
        return PlanReport(
            findings=(
                *(finding for answer in answers for finding in answer.findings),
                *(finding for path, finding in elsewhere.items() if path in changed),
                *(_of_metadata(cut.partition) for cut, _ in cuts if cut.partition.topic == METADATA_TOPIC),
            ),
            refusals=(
                *(finding for answer in answers for finding in answer.refusals),
                *(finding for path, finding in elsewhere.items() if path not in changed),
            ),
            losses=tuple(loss for answer in answers for loss in answer.losses),
            settings=(*distinct_settings(self._used), *expiration),
            note=_NOT_LOOKED_INTO if self._is_sound(answers) else None,
            release=guess if self._cut_request.as_broker or cuts else None,
            needs_release=is_expiration_decisive or (bool(cuts or completions) and not guess.agree(rules)),
            assumptions=tuple(dict.fromkeys(each for cut, _ in cuts for each in self._assumed(cut))),
        )

    def _is_sound(self, answers: list[PartitionCut]) -> bool:
        """Return whether damage was looked for, and none found."""
        is_asked = self._cut_request.to_offset is None and not self._cut_request.as_broker
        return is_asked and not any(answer.cut is not None or answer.refusals for answer in answers)

    def _ends_below_start(self, cut: Cut) -> bool:
        """Return whether a log ends below its checkpointed log start offset once it is cut."""
        start_offset = self._context.offset(FileKind.LOG_START_OFFSET, cut.partition.name)
        return start_offset is not None and start_offset > cut.end_offset

    def _assumed(self, cut: Cut) -> Iterator[Assumption]:
        """Yield what a cut rests on: up to 0.10.2 recovery takes a message above max.message.bytes for damage."""
        recoveries = (each.recovery for each in cut.segments)
        if any(each is not None and each.stop == _TOO_LARGE for each in recoveries):
            yield from assumed_of_topic(self._context.settings.for_topic(cut.partition.topic), ["max.message.bytes"])

    def _lower(self, kind: FileKind, ends: dict[tuple[str | None, int | None], int]) -> None:
        if self._context.broker_dir is not None and ends:
            lower_offsets(self._context.broker_dir, kind, ends, self._stage)

    def _cuts(self) -> Iterator[PartitionCut]:
        """Return all partitions in their order, in several processes where that is worth it."""
        partitions = [
            partition
            for place in self._request.target.partitions
            if place.name.state is not DirectoryState.DELETE and self._has_log(partition := read_partition(place.path))
        ]
        size_bytes = sum(segment.size_bytes for partition in partitions for segment in partition.segments)
        self._progress.expect(size_bytes)
        pieces = [(partition, self._cut_request, self._facts(partition)) for partition in partitions]
        return run_all(search, pieces, self._request.jobs, size_bytes, self._progress)

    def _has_log(self, partition: Partition) -> bool:
        """Return whether there is anything to cut; a start makes segments of replacements that are there alone."""
        is_waiting = self._cut_request.as_broker and waiting_replacement(partition) is not None
        return bool(partition.segments) or is_waiting

    def _facts(self, partition: Partition) -> PartitionFacts:
        facts = self._context.facts(partition.name, as_loaded=self._cut_request.as_broker)
        is_tiered = facts.settings.remote_storage_enable
        names = {*(_USED if self._cut_request.as_broker else ()), *(_TIERED if is_tiered else ())}
        self._used += [setting for setting in facts.settings.settings if setting.name in names]
        return facts


def _of_metadata(partition: Partition) -> Finding:
    return found("truncate.metadata-log", partition.path, topic=partition.topic, partition=partition.partition)


def _start_rules(release: Release) -> object:
    """Return the rules of a release that decide where its start cuts a log without replacements.

    How it looks for an offset decides whether it starts, not where it cuts.
    """
    return replace(rules_of(release), swaps="renamed", search="base"), recovery_rules(release)


def _replacement_rules(release: Release) -> object:
    """Return the same where replacements wait."""
    return rules_of(release).swaps, _start_rules(release)


def _has_producers(release: Release) -> bool:
    """Return what matters of a release where an offset or damage says where to cut: whether there are snapshots."""
    return rules_of(release).has_producers
