"""What a repair would do, as a value: made by a planner, shown, kept as JSON, and carried out by `apply`.

A planner reads the disk and stages changes; it never writes and knows no clock. From its name, the site and its options
the same plan comes out again, which is how `kafkalog apply` finds out that nothing has changed since.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from kafkalog_core.kafka.settings import SettingsRequest
from kafkalog_core.ops.repair.context import read_context
from kafkalog_core.ops.repair.obstacles import obstacles_of
from kafkalog_core.progress import NO_PROGRESS, Progress
from kafkalog_core.storage.changing.changes import Change, DryRunStage, Stage
from kafkalog_core.storage.changing.journal_search import find_journals, remains_bytes
from kafkalog_core.storage.changing.space import Space, spaces_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.command_lines import CommandLine
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.assumptions import Assumption
    from kafkalog_core.kafka.evidence import ReleaseGuess
    from kafkalog_core.kafka.setting_table import Setting
    from kafkalog_core.ops.repair.context import DirContext, TargetDir
    from kafkalog_core.ops.repair.loss import Loss
    from kafkalog_core.rows.chunk import RowChunk
    from kafkalog_core.storage.changing.staging import JournalStage

__all__ = [
    "PLANNERS",
    "Json",
    "Plan",
    "PlanReport",
    "PlanRequest",
    "Planner",
    "StagedPlan",
    "make_plan",
    "planner_of",
]


Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

PLANNERS: Final = {
    "reindex": "kafkalog_core.ops.reindex.reindex:plan_reindex",
    "truncate": "kafkalog_core.ops.truncate.truncate:plan_truncate",
    "checkpoint": "kafkalog_core.ops.checkpoint.checkpoint:plan_checkpoint",
    "compact": "kafkalog_core.ops.compact.planning:plan_compact",
    "retain": "kafkalog_core.ops.retain.retain:plan_retain",
}
"""The planner of each command that repairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What a planner is asked for.

    Args:
        target: the directory, and what is named in it.
        options: what the command line says, in values that JSON has; with the site and the time all that matters.
            `kafka` holds the fields of a `SettingsRequest`, as `dataclasses.asdict` gives them; each may be absent.
        now_ms: the time that counts as now.
        jobs: processes that may read at the same time; of no influence on the result.
        command_line: what was typed, for commands to paste; None: unknown.
    """

    target: TargetDir
    options: Mapping[str, Json]
    now_ms: int
    jobs: int = 1
    command_line: CommandLine | None = None

    @property
    def settings(self) -> SettingsRequest:
        """The release and the settings of the option `kafka`. Raises SettingError if it does not have that form."""
        return SettingsRequest.from_json(self.options.get("kafka"))

    def context(self) -> DirContext:
        """Return what is known of the target directory. Raises SettingError and StorageError."""
        return read_context(self.target, self.settings, self.now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReport:
    """What a planner says beside the changes that it stages.

    Args:
        findings: what it saw, and what is mended by the changes.
        refusals: findings, mostly of severity error, about what is left as it is, each with the next command.
        losses: what goes away for good.
        settings: those that counted.
        release: whose rules counted, and the evidence; null: it made no difference.
        needs_release: the evidence is ambiguous and the releases that it leaves differ in what is done here.
        assumptions: assumed values because of which the changes lose data.
        details: rows of further tables that the command shows.
        note: what was asked for and is not done, and the next command, one sentence without its point; null: nothing.
    """

    findings: tuple[Finding, ...] = ()
    refusals: tuple[Finding, ...] = ()
    losses: tuple[Loss, ...] = ()
    settings: tuple[Setting, ...] = ()
    release: ReleaseGuess | None = None
    needs_release: bool = False
    assumptions: tuple[Assumption, ...] = ()
    details: tuple[RowChunk, ...] = ()
    note: str | None = None


Planner: TypeAlias = Callable[[PlanRequest, Stage, Progress], PlanReport]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would be done at one site, and what that takes.

    Args:
        command: the name of its planner.
        request: what was asked for.
        changes: in the order in which they are made.
        report: what the planner reports besides the changes.
        spaces: room that is needed and that there is, for each file system that is written to.
        obstacles: why it cannot be applied as things are, a sentence each; empty: it can.
        undo_to: directory that takes the journal; null: beside the files.
        keeps_undo: whether it can be taken back; false: `--no-undo`.
    """

    command: str
    request: PlanRequest
    changes: tuple[Change, ...]
    report: PlanReport
    spaces: tuple[Space, ...] = ()
    obstacles: tuple[str, ...] = ()
    undo_to: str | None = None
    keeps_undo: bool = True

    @property
    def loses_data(self) -> bool:
        """Whether records go away for good."""
        return bool(self.report.losses)

    @property
    def is_alarming(self) -> bool:
        """Whether the exit status is 4 as long as it has not been applied."""
        findings = (*self.report.findings, *self.report.refusals)
        return self.loses_data or any(finding.severity == "error" for finding in findings)


@dataclass(frozen=True, slots=True)
class StagedPlan:
    """A plan, and what it takes to stage the same changes once more; `staging`: they are staged already."""

    plan: Plan
    outline: DryRunStage = field(repr=False)
    staging: JournalStage | None = field(default=None, repr=False)

    def discard(self) -> None:
        """Take away what is staged; the plan is not applied."""
        if self.staging is not None:
            self.staging.discard()


def planner_of(command: str) -> Planner:
    """The planner of a command."""
    module, _, name = PLANNERS[command].partition(":")
    return cast("Planner", getattr(import_module(module), name))


def make_plan(
    command: str,
    request: PlanRequest,
    *,
    undo_to: str | None = None,
    keeps_undo: bool = True,
    progress: Progress = NO_PROGRESS,
) -> StagedPlan:
    """Plan a command at one site: reads, and changes nothing. Raises what reading raises."""
    outline = DryRunStage(request.target.root)
    report = planner_of(command)(request, outline, progress)
    changes = tuple(outline.changes)
    plan = Plan(
        command=command, request=request, changes=changes, report=report, undo_to=undo_to, keeps_undo=keeps_undo
    )
    spaces = spaces_for(changes, undo_to, keeps_old=keeps_undo, allows_direct=outline.is_kept)
    plan = replace(plan, spaces=_with_remains(spaces, request.target.root))
    return StagedPlan(replace(plan, obstacles=obstacles_of(plan)), outline)


def _with_remains(spaces: tuple[Space, ...], root: str) -> tuple[Space, ...]:
    """Count what an apply deletes first as free: new content of a run that ended before it put it in place."""
    device, more = os.stat(root).st_dev, remains_bytes(find_journals(root)) if spaces else 0
    return tuple(
        replace(space, free_bytes=space.free_bytes + more) if os.stat(space.path).st_dev == device else space
        for space in spaces
    )
