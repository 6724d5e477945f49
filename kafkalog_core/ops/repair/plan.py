"""The plan of a repair as a value: planners return it, the CLI shows it, and `repair.apply` applies it.

A planner reads the disk and stages changes; it never writes and reads no clock. The same command on the same directory
with the same options gives the same plan, so that `kafkalog apply` finds out whether a file has changed since.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from kafkalog_core.command_lines import shell_path
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.ops.repair.assumptions import refusal, with_options
from kafkalog_core.ops.repair.context import read_context
from kafkalog_core.ops.repair.held_options import held_refusal
from kafkalog_core.progress import Progress
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.storage.changing.changes import Change, DryRunStage, Stage
from kafkalog_core.storage.changing.journal_search import (
    find_journals,
    interrupted_refusal,
    remains_bytes,
    unreadable_refusal,
)
from kafkalog_core.storage.changing.space import (
    Space,
    existing_directory,
    place_problem,
    spaces_for,
    write_problems,
)
from kafkalog_core.storage.changing.trusted import LinkError, TrustedDirectories
from kafkalog_core.structs import Struct, replace
from kafkalog_core.text import size

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from kafkalog_core.command_lines import CommandLine
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.rules.setting_table import Setting
    from kafkalog_core.kafka.sim.evidence import ReleaseGuess
    from kafkalog_core.ops.repair.assumptions import Assumption
    from kafkalog_core.ops.repair.context import DirContext, TargetDir
    from kafkalog_core.ops.repair.held_options import HeldOption
    from kafkalog_core.ops.repair.loss import Loss
    from kafkalog_core.output.chunk import RowChunk
    from kafkalog_core.storage.changing.space import Space
    from kafkalog_core.storage.changing.staging import JournalStage

__all__ = [
    "Json",
    "Plan",
    "PlanDraft",
    "PlanReport",
    "PlanRequest",
    "Planner",
    "obstacles_of",
    "with_remains",
]


Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"


class PlanRequest(Struct, frozen=True, kw_only=True):
    """The input of a planner.

    Args:
        target: the directory, and what is named in it.
        options: the options of the command, as JSON values. `kafka` holds the fields of a `SettingsRequest`, as
            `asdict` gives them; each may be absent.
        now_ms: the time that counts as now, in milliseconds since 1970.
        jobs: number of processes that read; it does not change the result.
        command_line: the command line of the user, for commands to paste; None: unknown.
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


class PlanReport(Struct, frozen=True, kw_only=True):
    """The report of a planner, apart from the changes that it stages.

    Args:
        findings: findings on the files, also those that the changes repair.
        refusals: findings, mostly of severity error, on what the plan does not change, each with the next command.
        losses: records that are lost.
        settings: the settings that were used.
        release: the release whose rules were used, and the evidence; None: the plan does not depend on it.
        needs_release: whether the evidence is ambiguous, and the plan differs between the possible releases.
        assumptions: assumed values because of which the changes lose data.
        held: options that do not act on topics that are not named.
        details: rows of further tables that the command shows.
        note: what the plan leaves out although it was requested, and the next command, as a clause; or what follows
            from it, a line for each sentence without its full stop; None: nothing.
        undecided: what the user has to decide before an apply; None: nothing.
        verdict: the first sentence of the answer, without a full stop; None: what the plan changes is enough.
        only_shows: whether no change was asked for.
        next_command: the command line that comes next if there is no change; None: that of the first refusal.
    """

    findings: tuple[Finding, ...] = ()
    refusals: tuple[Finding, ...] = ()
    losses: tuple[Loss, ...] = ()
    settings: tuple[Setting, ...] = ()
    release: ReleaseGuess | None = None
    needs_release: bool = False
    assumptions: tuple[Assumption, ...] = ()
    held: tuple[HeldOption, ...] = ()
    details: tuple[RowChunk, ...] = ()
    note: str | None = None
    undecided: Refusal | None = None
    verdict: str | None = None
    only_shows: bool = False
    next_command: str | None = None


Planner: TypeAlias = Callable[[PlanRequest, Stage, Progress], PlanReport]


class Plan(Struct, frozen=True, kw_only=True):
    """The changes that one command makes in one directory, and what they need.

    Args:
        command: the name of the command.
        request: the input of its planner.
        changes: the changes in the order in which they are made.
        report: the report of the planner.
        spaces: the space that each file system needs and has.
        obstacles: why the plan cannot be applied as things are, with the ways out; empty: it can.
        undo_to: directory of the undo journal; None: next to the files.
        keeps_undo: whether the run can be undone; false: `--no-undo`.
    """

    command: str
    request: PlanRequest
    changes: tuple[Change, ...]
    report: PlanReport
    spaces: tuple[Space, ...] = ()
    obstacles: tuple[Refusal, ...] = ()
    undo_to: str | None = None
    keeps_undo: bool = True

    @property
    def loses_data(self) -> bool:
        """Whether the plan loses records."""
        return bool(self.report.losses)

    @property
    def is_alarming(self) -> bool:
        """Whether the exit status is 4 as long as the plan is not applied."""
        findings = (*self.report.findings, *self.report.refusals)
        return self.loses_data or any(finding.severity == "error" for finding in findings)


class PlanDraft(Struct, frozen=True):
    """A plan, and what stages its changes in the journal.

    Args:
        plan: the plan.
        planner: the planner, which can stage the same changes again.
        dry_run: the stage that recorded the changes, which can replay them if it has kept the new content.
        staging: the stage that has written the changes into the journal already; None: they are not staged yet.
    """

    plan: Plan
    planner: Planner
    dry_run: DryRunStage
    staging: JournalStage | None = None

    def discard(self) -> None:
        """Delete the staged files of a plan that is not applied."""
        if self.staging is not None:
            self.staging.discard()


def with_remains(spaces: tuple[Space, ...], root: str) -> tuple[Space, ...]:
    """Return spaces with the bytes that an apply frees first: new content that earlier runs never put in place."""
    device, more = os.stat(root).st_dev, remains_bytes(find_journals(root)) if spaces else 0
    return tuple(
        replace(space, free_bytes=space.free_bytes + more) if os.stat(space.path).st_dev == device else space
        for space in spaces
    )


_SHOWN: Final = 10


_WHOLE_FIRST: Final = "a new file is complete before it replaces the old one"
_WHY_SPACE: Final = {"compact": "the cleaned segments are complete before the old ones are deleted"}


def obstacles_of(plan: Plan) -> tuple[Refusal, ...]:
    """Return why a plan cannot be applied as things are, with the ways out; empty: it can."""
    root = plan.request.target.root
    touched = {root, *(place.path for place in plan.request.target.partitions)}
    # An interrupted run first: a second one on its half-changed files would make both impossible to undo.
    found = [*_interrupted(root, touched | {os.path.dirname(change.path) for change in plan.changes})]
    # Journals elsewhere may be of runs in this directory.
    if plan.undo_to is not None and os.path.isdir(plan.undo_to):
        found += [each for each in _interrupted(plan.undo_to, of=root) if each not in found]
    if plan.report.held and not plan.request.settings.topics:  # also without changes: not what was asked for
        found.append(held_refusal(plan.report.held, plan.request.command_line))
    if plan.changes:
        found += [] if plan.report.undecided is None else [plan.report.undecided]
        found += _of_links(plan)
        found += _of_release(plan)
        # A deletion by an assumed retention has to be wanted.
        if plan.report.assumptions and not plan.request.settings.assume_defaults:
            found.append(refusal(plan.report.assumptions, plan.request.command_line))
        problem = None if plan.undo_to is None else place_problem(plan.undo_to)
        found += [] if problem is None else [Refusal(problem)]
        found += _of_space(plan)
        found += map(Refusal, write_problems(plan.changes))
    # A disk with thousands of links or shortages would fill the screen.
    more = len(found) - _SHOWN
    return tuple(found) if more <= 0 else (*found[:_SHOWN], Refusal(f"and {more} more"))


def trusted_of(target: TargetDir, undo_to: str | None = None) -> TrustedDirectories:
    """Return the directories that the user named, from which every file that a plan changes is reached.

    Below them no symbolic link is followed: the owner of a log directory could lead a repair by root to any directory.
    Only a partition that the user named itself may be a link.

    Args:
        target: the directory, and what is named in it.
        undo_to: the directory of the undo journal; None: it is next to the files.
    """
    # Only what was named, not what was found in it.
    named = [target.root, *(place.path for place in target.partitions if place.is_named)]
    named += [os.path.dirname(file.path) for file in target.files]
    if undo_to is not None:
        named.append(existing_directory(undo_to))
    return TrustedDirectories(dict.fromkeys(named))


def _interrupted(root: str, touched: Collection[str] = (), of: str | None = None) -> Iterator[Refusal]:
    """Yield a refusal for each interrupted run in a directory, and for each journal that cannot be read.

    Args:
        root: the directory.
        touched: the directories of the plan; a journal that cannot be read counts only in one of these.
        of: the root of the runs that count; None: any.
    """
    found = find_journals(root)
    for journal in found.journals:
        # The directory of journals may hold runs of other log directories.
        if journal.is_interrupted and of in {None, journal.layout.root}:
            yield interrupted_refusal(journal)
    for remains in found.remains:
        if remains.is_unreadable and os.path.dirname(remains.paths[0]) in touched:
            yield unreadable_refusal(root, remains)


def _of_links(plan: Plan) -> Iterator[Refusal]:
    """Yield a refusal for each partition that is a symbolic link which the user did not name."""
    trusted = trusted_of(plan.request.target)
    for path in dict.fromkeys(os.path.dirname(change.path) for change in plan.changes):
        try:
            trusted.directory(path)
        except LinkError as error:
            named = with_options(plan.request.command_line, shell_path(path))
            yield Refusal(
                f"{path} is a symbolic link to {error.target}, and kafkalog changes nothing through a link below the "
                "directory that you named",
                (WayOut("if the link is right, name the partition too", named),),
            )


def _of_release(plan: Plan) -> Iterator[Refusal]:
    report, line = plan.report, plan.request.command_line
    evidence = "; ".join(report.release.evidence) if report.release is not None else "nothing"
    # Rules of a later release are not known, so its plan would be a guess.
    if report.release is not None and report.release.is_newer:
        nevertheless = with_options(line, f"--kafka {LATEST}")
        yield Refusal(
            f"the release of the broker is unknown: {evidence}",
            (WayOut(f"apply this plan by the rules of {LATEST} nevertheless", nevertheless),),
        )
    elif report.needs_release:
        yield Refusal(
            f"the release of the broker is not certain ({evidence}), and this plan depends on it",
            (WayOut("state the release", with_options(line, "--kafka VERSION")),),
        )


def _of_space(plan: Plan) -> Iterator[Refusal]:
    yield from (_of_shortage(plan, space) for space in plan.spaces if not space.is_enough)


def _of_shortage(plan: Plan, space: Space) -> Refusal:
    """Return the refusal with the commands that fit; if there are none, with how many bytes to free, and how."""
    line = plan.request.command_line
    ways: list[WayOut] = []
    copies = sum(change.before.size_bytes for change in plan.changes if change.before and change.kind != "cut")
    # What would fit decides which ways out are worth naming.
    elsewhere = spaces_for(plan.changes, None, keeps_old=True, is_other_device=True)
    without = spaces_for(plan.changes, None, keeps_old=False)
    if all(each.is_enough for each in elsewhere):
        other = "another file system" if plan.undo_to is None else "a third file system"
        purpose = f"keep the undo journal in a directory on {other}, where it takes {size(copies)}"
        # one of the two options alone is taken
        ways.append(WayOut(purpose, with_options(line and line.without("--no-undo"), "--undo-to DIR")))
    if plan.keeps_undo and all(each.is_enough for each in without):
        ways.append(WayOut("keep none, so that the run cannot be undone", with_options(line, "--no-undo")))
    to_dir: tuple[WayOut, ...] = ()
    if plan.command == "compact":
        to_dir = (WayOut("write the cleaned logs elsewhere", with_options(line, "--to DIR")),)
    if ways:
        return Refusal(space.shortage, (*ways, *to_dir))
    missing = [each.needed_bytes - each.free_bytes for each in (*elsewhere, *without) if each.path == space.path]
    if not missing:
        return Refusal(
            space.shortage,
            (WayOut("move other files away from there first"), WayOut("name another directory with --undo-to")),
        )
    root, why = shell_path(plan.request.target.root), _WHY_SPACE.get(plan.command, _WHOLE_FIRST)
    retain = WayOut("free space by retention, which needs none", f"kafkalog retain {root} --undo-to DIR --apply")
    return Refusal(
        f"{space.shortage}; with --undo-to DIR on another file system, or with --no-undo, {min(missing):,} bytes have "
        f"to be freed first, because {why}",
        (WayOut("delete or move other files"), *(() if plan.command == "retain" else (retain,)), *to_dir),
    )
