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

from kafkalog_core.command_lines import shell_path
from kafkalog_core.kafka.assumptions import refusal, with_options
from kafkalog_core.kafka.releases import LATEST
from kafkalog_core.kafka.settings import SettingsRequest
from kafkalog_core.ops.repair.context import read_context
from kafkalog_core.ops.repair.obstacles import interrupted_sentence, space_sentence, unreadable_sentence
from kafkalog_core.progress import NO_PROGRESS, Progress
from kafkalog_core.storage.changing.changes import Change, DryRunStage, Stage
from kafkalog_core.storage.changing.journal_search import find_journals, remains_bytes
from kafkalog_core.storage.changing.space import Space, place_problem, spaces_for, write_problems
from kafkalog_core.text import size

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from kafkalog_core.command_lines import CommandLine
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.assumptions import Assumption
    from kafkalog_core.kafka.evidence import ReleaseGuess
    from kafkalog_core.kafka.setting_table import Setting
    from kafkalog_core.ops.repair.context import DirContext, TargetDir
    from kafkalog_core.ops.repair.loss import Loss
    from kafkalog_core.rows.chunk import RowChunk
    from kafkalog_core.storage.changing.space import Space
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
    "obstacles_of",
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
    """The report of a planner, apart from the changes that it stages.

    Args:
        findings: what it saw, and what is mended by the changes.
        refusals: findings, mostly of severity error, about what is left as it is, each with the next command.
        losses: what is lost for good.
        settings: those that counted.
        release: whose rules counted, and the evidence; None: it made no difference.
        needs_release: the evidence is ambiguous and the releases that it leaves differ in what is done here.
        assumptions: assumed values because of which the changes lose data.
        details: rows of further tables that the command shows.
        note: what was asked for and is not done, and the next command, one sentence without its point; None: nothing.
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
        undo_to: directory that takes the journal; None: next to the files.
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
    dry_run: DryRunStage = field(repr=False)
    staging: JournalStage | None = field(default=None, repr=False)

    def discard(self) -> None:
        """Take away what is staged; the plan is not applied."""
        if self.staging is not None:
            self.staging.discard()


def planner_of(command: str) -> Planner:
    """Return the planner of a command."""
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
    dry_run = DryRunStage(request.target.root)
    report = planner_of(command)(request, dry_run, progress)
    changes = tuple(dry_run.changes)
    plan = Plan(
        command=command, request=request, changes=changes, report=report, undo_to=undo_to, keeps_undo=keeps_undo
    )
    spaces = spaces_for(changes, undo_to, keeps_old=keeps_undo, allows_direct=dry_run.is_kept)
    plan = replace(plan, spaces=_with_remains(spaces, request.target.root))
    return StagedPlan(replace(plan, obstacles=obstacles_of(plan)), dry_run)


def _with_remains(spaces: tuple[Space, ...], root: str) -> tuple[Space, ...]:
    """Count what an apply deletes first as free: new content of a run that ended before it put it in place."""
    device, more = os.stat(root).st_dev, remains_bytes(find_journals(root)) if spaces else 0
    return tuple(
        replace(space, free_bytes=space.free_bytes + more) if os.stat(space.path).st_dev == device else space
        for space in spaces
    )


_SHOWN: Final = 10


_WHOLE_FIRST: Final = "a new file is whole before it takes the place of the old one"


_WHY_ROOM: Final = {"compact": "the cleaned segments are whole before the old ones are deleted"}


def obstacles_of(plan: Plan) -> tuple[str, ...]:
    """Return the sentences; empty: it can be applied."""
    root = plan.request.target.root
    touched = {root, *(place.path for place in plan.request.target.partitions)}
    found = [*_interrupted(root, touched | {os.path.dirname(change.path) for change in plan.changes})]
    if plan.undo_to is not None and os.path.isdir(plan.undo_to):
        found += [each for each in _interrupted(plan.undo_to, of=root) if each not in found]
    if plan.changes:
        found += _of_release(plan)
        found += _of_assumptions(plan)
        found += _of_place(plan.undo_to)
        found += _of_space(plan)
        found += write_problems(plan.changes)
    more = len(found) - _SHOWN
    return tuple(found) if more <= 0 else (*found[:_SHOWN], f"and {more} more")


def _interrupted(root: str, touched: Collection[str] = (), of: str | None = None) -> Iterator[str]:
    """Yield runs in a directory that are in the way.

    Args:
        root: the directory.
        touched: directories of the plan; a journal that cannot be read in another directory does not concern them.
        of: the root of the runs that count; None: all.
    """
    found = find_journals(root)
    for journal in found.journals:
        if journal.is_interrupted and of in {None, journal.layout.root}:
            yield interrupted_sentence(journal)
    for remains in found.remains:
        if remains.is_unreadable and os.path.dirname(remains.paths[0]) in touched:
            yield unreadable_sentence(root, remains)


def _of_release(plan: Plan) -> Iterator[str]:
    report, line = plan.report, plan.request.command_line
    evidence = "; ".join(report.release.evidence) if report.release is not None else "nothing"
    if report.release is not None and report.release.is_newer:
        yield (
            f"the release of the broker is unknown: {evidence}. To apply this plan by the rules of {LATEST} "
            f"nevertheless: {with_options(line, f'--kafka {LATEST}')}"
        )
    elif report.needs_release:
        yield (
            f"the release of the broker is not certain ({evidence}), and this plan depends on it. State the release: "
            f"{with_options(line, '--kafka VERSION')}"
        )


def _of_assumptions(plan: Plan) -> Iterator[str]:
    if plan.report.assumptions and not plan.request.settings.assume_defaults:
        yield refusal(plan.report.assumptions, plan.request.command_line)


def _of_place(undo_to: str | None) -> Iterator[str]:
    problem = None if undo_to is None else place_problem(undo_to)
    if problem is not None:
        yield problem


def _of_space(plan: Plan) -> Iterator[str]:
    for space in plan.spaces:
        if not space.is_enough:
            yield f"{space_sentence(space)}{_way_out(plan, space)}"


def _way_out(plan: Plan, space: Space) -> str:
    """Return the options with which the same plan fits; where none does, how many bytes are to be freed, and how."""
    ways = []
    copies = sum(change.before.size_bytes for change in plan.changes if change.before and change.kind != "cut")
    elsewhere = spaces_for(plan.changes, None, keeps_old=True, is_other_device=True)
    without = spaces_for(plan.changes, None, keeps_old=False)
    if all(each.is_enough for each in elsewhere):
        other = "another file system" if plan.undo_to is None else "a third file system"
        ways.append(f"--undo-to DIR (a directory on {other}, which takes {size(copies)})")
    if plan.keeps_undo and all(each.is_enough for each in without):
        ways.append("--no-undo (the run cannot be undone then)")
    to_dir = "; or --to DIR in their place writes the cleaned logs elsewhere" if plan.command == "compact" else ""
    if ways:
        return f"; the same command fits with {' or with '.join(ways)}{to_dir}"
    missing = [each.needed_bytes - each.free_bytes for each in (*elsewhere, *without) if each.path == space.path]
    if not missing:
        return ": move other files away from there first, or name another directory with --undo-to"
    root, why = shell_path(plan.request.target.root), _WHY_ROOM.get(plan.command, _WHOLE_FIRST)
    retain = f", or let retention make room, which needs none: kafkalog retain {root} --undo-to DIR --apply"
    return (
        f"; with --undo-to DIR on another file system, or with --no-undo, {min(missing):,} bytes have to be freed "
        f"there first, as {why}: delete or move something else{'' if plan.command == 'retain' else retain}{to_dir}"
    )
