"""What carrying a compaction out changes on the disk: the planner of `kafkalog compact --apply`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from kafkalog_core.errors import CleanError, RefusedError
from kafkalog_core.findings import found
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.ops.cleaning.assumed import assumptions_of
from kafkalog_core.ops.cleaning.config import cleaner_settings
from kafkalog_core.ops.cleaning.forecast_rows import watermark_findings
from kafkalog_core.ops.cleaning.last_clean import Cleaning, last_clean
from kafkalog_core.ops.cleaning.log import read_clean_log
from kafkalog_core.ops.cleaning.rules import cleaning_rules
from kafkalog_core.ops.cleaning.staging import stage_checkpoint, stage_clean
from kafkalog_core.ops.compact import CompactRequest, tasks_of
from kafkalog_core.ops.logdirs.segment_views import check_now
from kafkalog_core.ops.plans.plan import Outcome
from kafkalog_core.ops.recovery.loader_rules import rules_of
from kafkalog_core.ops.releases.setting_table import producer_expiration_name
from kafkalog_core.ops.rolling.rules import append_rules
from kafkalog_core.storage.segment import SegmentState

if TYPE_CHECKING:
    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.cleaning.mapping import KnownMap
    from kafkalog_core.ops.cleaning.simulation import CompactTask
    from kafkalog_core.ops.logdirs.brokerdir import BrokerDir, Key
    from kafkalog_core.ops.logdirs.segment_views import PartitionView
    from kafkalog_core.ops.plans.plan import PlanRequest
    from kafkalog_core.ops.progress import Progress
    from kafkalog_core.ops.releases.assumptions import Assumption
    from kafkalog_core.ops.releases.release import Release
    from kafkalog_core.ops.releases.release_evidence import ReleaseGuess
    from kafkalog_core.ops.releases.setting_values import Setting
    from kafkalog_core.storage.changing.changes import Stage

__all__ = [
    "cleaning_of",
    "compacted_bytes",
    "is_certain",
    "key_of",
    "plan_compact",
    "replacement_finding",
    "retention_findings",
]

_SHOWN: Final = 3
_READS: Final = 2


def plan_compact(request: PlanRequest, stage: Stage, progress: Progress) -> Outcome:
    """The planner of `kafkalog compact --apply`.

    Options: `kafka` (of a SettingsRequest), `memory_bytes`, `max_passes`, `max_batch_bytes` (each may be null) and
    `force`. Logs that a broker would not clean now are left alone, and named in the note.

    Raises:
        SelectionError: files by themselves were named.
        SettingError: no broker takes these settings.
        RefusedError: a clean would fail.
    """
    return _Planner(request, stage, progress).plan()


def compacted_bytes(request: PlanRequest) -> int:
    """Bytes of the logs that are compacted at all."""
    return sum(task.size_bytes for task in _tasks(request) if task.view is not None)


def _tasks(request: PlanRequest) -> list[CompactTask]:
    options = request.options
    asked = CompactRequest(
        targets=(),
        now_ms=request.now_ms,
        kafka=request.settings,
        memory_bytes=cast("int | None", options.get("memory_bytes")),
        max_passes=cast("int | None", options.get("max_passes")),
        force=bool(options.get("force")),
        max_batch_bytes=cast("int", options.get("max_batch_bytes") or MAX_BATCH_BYTES),
    )
    return list(tasks_of(request.site, asked))


class _Planner:
    def __init__(self, request: PlanRequest, stage: Stage, progress: Progress) -> None:
        self._request = request
        self._stage = stage
        self._progress = progress
        self._cleaned: dict[Key, int] = {}
        self._left: list[str] = []
        self._findings: list[Finding] = []
        self._refusals: list[Finding] = []
        self._settings: dict[tuple[str, object, str], Setting] = {}
        self._assumptions: dict[Assumption, None] = {}

    def plan(self) -> Outcome:
        """One log after another, and what the checkpoint says of them in the end."""
        tasks = _tasks(self._request)
        check_now([task.view for task in tasks if task.view is not None], self._request.now_ms)
        self._progress.expect(_READS * sum(task.size_bytes for task in tasks if task.view is not None))
        for task in tasks:
            self._clean(task)
        guess = tasks[0].guess if tasks else None
        broker_dir = tasks[0].broker_dir if tasks else None
        if broker_dir is not None and self._cleaned:
            stage_checkpoint(broker_dir, self._cleaned, self._stage)
        return Outcome(
            findings=tuple(self._findings),
            refusals=tuple(self._refusals),
            settings=tuple(self._settings.values()),
            release=guess,
            needs_release=guess is not None and not is_certain(guess),
            assumptions=tuple(self._assumptions),
            note=self._note(),
        )

    def _clean(self, task: CompactTask) -> None:
        name = f"{task.topic}-{task.partition}"
        self._findings += () if task.stray is None else (task.stray,)
        if task.never is not None or task.view is None:
            self._left.append(f"{name}: {'no segment can be read' if task.never is None else task.never[1]}")
            return
        finding = replacement_finding(task.view)
        if finding is not None:
            self._refusals.append(finding)
            return
        for setting in task.of_topic.settings:
            if setting.name in cleaner_settings(task.guess.release):
                self._settings[setting.name, setting.value, setting.origin] = setting
        cleaning = cleaning_of(task, self._progress)
        log = read_clean_log(task.view, task.broker_dir, cleaning.rules, cleaning.config, task.now_ms)
        try:
            with last_clean(log, cleaning) as (before, work):
                if work is not None:
                    stage_clean(work, task.view.partition, cleaning, self._stage)
                    self._note_end(task, work.end_offset)
                    self._assumptions.update(dict.fromkeys(assumptions_of(task, task.view)))
                    self._findings += (*watermark_findings(task, task.view), *retention_findings(task))
                    return
                self._left.append(f"{name}: {before.why}")
                if before.resets_checkpoint:  # as soon as a cleaner looks at the log, whether it cleans it or not
                    self._note_end(task, before.first_dirty)
        except CleanError as error:
            raise RefusedError(
                f"a clean of {name} fails here: {error.message}; nothing has been changed. Leave it out with --exclude "
                "to clean the others",
                path=error.path or task.path,
            ) from error

    def _note_end(self, task: CompactTask, offset: int) -> None:
        key = None if task.view is None else key_of(task.broker_dir, task.view)
        if key is not None:
            self._cleaned[key] = offset

    def _note(self) -> str | None:
        if not self._left:
            return None
        more = len(self._left) - _SHOWN
        shown = [
            *self._left[:_SHOWN],
            *([f"and {more} more (kafkalog compact without --apply names them)"] if more > 0 else []),
        ]
        return f"left as they are: {'; '.join(shown)}"


def cleaning_of(task: CompactTask, progress: Progress, known: KnownMap | None = None) -> Cleaning:
    """How a partition is cleaned; `known`: its first map. Raises SettingError for what no setting can be."""
    return Cleaning(
        config=task.config(),
        rules=cleaning_rules(task.guess.release),
        now_ms=task.now_ms,
        force=task.force,
        max_passes=task.max_passes,
        max_batch_bytes=task.max_batch_bytes,
        biggest=task.biggest,
        progress=progress,
        known=known,
    )


def key_of(broker_dir: BrokerDir | None, view: PartitionView) -> Key | None:
    """The entry of a partition in the checkpoints; null: they have none, or that of another directory of its name."""
    if broker_dir is None or view.topic is None or view.number is None:
        return None
    return (view.topic, view.number) if broker_dir.is_served(view.partition.name) else None


def replacement_finding(view: PartitionView) -> Finding | None:
    """That a finished replacement of segments waits, which a clean beside it would mix with; null: none does."""
    partition = view.partition
    for segment in partition.other_segments:
        if segment.state is SegmentState.SWAP:
            path = segment.files[0].path
            name = path.rpartition("/")[2]
            return found("compaction.replacement", path, topic=view.topic, partition=view.number, name=name)
    return None


def retention_findings(task: CompactTask) -> tuple[Finding, ...]:
    """That retention is to follow a clean, where the policy has both."""
    if "delete" not in task.of_topic.cleanup_policy:
        return ()
    return (found("compaction.retention-follows", task.path, topic=task.topic, partition=task.partition),)


def is_certain(guess: ReleaseGuess) -> bool:
    """Whether it is known, or makes no difference, which release cleans."""
    return guess.agree(_rules)


def _rules(release: Release) -> object:
    """What matters of a release: its cleaner, indexes and snapshots, and how long it remembers producers by default."""
    return (
        replace(cleaning_rules(release), release=release.__class__(0, 8)),
        append_rules(release).bits,
        rules_of(release).removes_stray_snapshots,
        producer_expiration_name(release),
    )
