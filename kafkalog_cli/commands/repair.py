"""What the commands that repair have in common: their options, plans for all paths, locks, and the output of plans."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from functools import reduce, update_wrapper
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from kafkalog_cli.command import ExitStatus, command_line, refusal_lines
from kafkalog_cli.commands.running import clock_ms, cores, watched
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_all
from kafkalog_cli.options.details import DETAIL_OPTIONS, Detail
from kafkalog_cli.output_file import OutputFile
from kafkalog_cli.render.writers import PLANS, open_results
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import check_topics, resolve
from kafkalog_core.errors import RefusedError
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.ops.planners import is_plan_file, make_plan, plan_file, plan_to_apply
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import target_dirs
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.ops.repair.plan_rows import rows_of_plan
from kafkalog_core.refusals import Refusal
from kafkalog_core.storage.changing.journal_search import untrusted_places
from kafkalog_core.storage.changing.lock import LogDirLocks
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.storage.locks import lock_holder, locked_dirs, unlocked_dirs
from kafkalog_core.structs import Struct, field, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.engine.selection import Selection
    from kafkalog_core.engine.targets import Target
    from kafkalog_core.ops.repair.context import TargetDir
    from kafkalog_core.ops.repair.plan import Json, Plan, PlanDraft
    from kafkalog_core.ops.repair.plan_rows import PlanRows
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.changing.journal import Journal

__all__ = ["PlanOutput", "RepairOptions", "apply_all", "locked", "places_of_journal", "repair_options", "run_repair"]


_HELD_BACK: Final = Refusal(
    "not applied, because another plan of this command is refused: kafkalog applies all of them or none"
)


def run_repair(
    command: str,
    paths: Sequence[str],
    selection: Selection,
    options: Mapping[str, Json],
    repair: RepairOptions,
    *,
    now_ms: int | None = None,
    empty_dirs: bool = False,
) -> int:
    """Plan a command for all paths, one plan for each log directory; show the plans or apply them.

    With `--apply` everything that a plan depends on is read after the locks are taken; reading before that only finds
    the log directories to lock. Nothing is written unless every plan can be applied.

    Args:
        command: the name of the command.
        paths: as the user gave them.
        selection: topics and partitions.
        options: options of the planner, as values that JSON has.
        repair: how the repair is done.
        now_ms: the time that the plans assume, in milliseconds since 1970; None: that of the clock. Journals are
            always dated by the clock.
        empty_dirs: as of `resolve`.

    Returns the exit status.
    """
    targets = resolve_all(paths, selection, empty_dirs=empty_dirs)
    check_topics(SettingsRequest.from_json(options.get("kafka")).topics, targets)
    plan_out, detail = _plan_file(repair.plan_out, targets), repair.detail
    plan_output = PlanOutput(repair.output, has_details=detail.shows(paths, selection), explains=detail.explains)
    with ExitStack() as stack:
        log_dirs = target_dirs(targets)
        places = [path for target in log_dirs for path in places_of(target)]
        if repair.apply:
            stack.enter_context(locked(places))
            log_dirs = target_dirs(resolve(paths, selection, empty_dirs=empty_dirs))
            _check_locked(places, log_dirs)
        else:
            _warn_of_brokers(places)
        progress = stack.enter_context(watched())
        started_ms = clock_ms()
        drafts: list[PlanDraft] = []
        stack.callback(_discard, drafts)
        for target in log_dirs:
            request = PlanRequest(
                target=target,
                options=options,
                now_ms=started_ms if now_ms is None else now_ms,
                jobs=repair.jobs,
                command_line=command_line(),
            )
            drafts.append(_draft(command, request, repair, started_ms, progress))
        if plan_out is not None:
            plan_out.write(plan_file(draft.plan for draft in drafts))
        if repair.apply:
            apply_all(drafts, plan_output, started_ms, progress)
        else:
            for draft in drafts:
                plan_output.show_plan(draft.plan)
    return plan_output.finish()


def _plan_file(path: str | None, targets: Iterable[Target]) -> OutputFile | None:
    """Return the file of --plan-out; None without it."""
    return None if path is None else OutputFile(path, (each.path for each in targets), is_ours=is_plan_file)


def _draft(command: str, request: PlanRequest, repair: RepairOptions, now_ms: int, progress: Progress) -> PlanDraft:
    where, keeps_undo = repair.undo_to, repair.keeps_undo
    if repair.apply:
        disk = Disk()  # one for each plan: staging restricts it to the directories of the plan
        return plan_to_apply(
            command, request, disk, undo_to=where, keeps_undo=keeps_undo, now_ms=now_ms, progress=progress
        )
    return make_plan(command, request, undo_to=where, keeps_undo=keeps_undo, progress=progress)


def _discard(drafts: Iterable[PlanDraft]) -> None:
    """Delete the staged files of plans that were not applied."""
    for draft in drafts:
        draft.discard()


def apply_all(drafts: list[PlanDraft], plan_output: PlanOutput, now_ms: int, progress: Progress) -> None:
    """Apply all plans, or show all of them if one is refused. The caller holds the locks.

    Each draft is removed from the list before it is applied; those that remain in the list were not applied.
    """
    refused = [draft.plan for draft in drafts if draft.plan.obstacles]
    if refused:
        for draft in drafts:
            is_held_back = draft.plan.changes and not draft.plan.obstacles
            plan_output.show_plan(replace(draft.plan, obstacles=(_HELD_BACK,)) if is_held_back else draft.plan)
        plan_output.refuse(refused[0].obstacles[0])
        return
    while drafts:
        draft = drafts.pop(0)
        if draft.plan.changes:
            journal = apply_plan(draft, Disk(), now_ms=now_ms, progress=progress)
            plan_output.show(rows_of_plan(draft.plan, journal), is_alarming=bool(draft.plan.report.refusals))
        else:
            plan_output.show_plan(draft.plan)


class PlanOutput:
    """The writer of plans, with the exit status and the summary of all of them."""

    def __init__(self, output: str, *, has_details: bool = True, explains: bool = False) -> None:
        self._writer = open_results(PLANS, output, has_details=has_details, explains=explains)
        self._is_text = output == "table"
        self._report = Report()
        self._is_alarming = False
        self._refusal: Refusal | None = None

    def show_plan(self, plan: Plan) -> None:
        """Show a plan that is not applied; one that cannot be is refused, whether or not that was asked for."""
        if plan.obstacles and self._refusal is None:
            self.refuse(plan.obstacles[0])
        self.show(rows_of_plan(plan), is_alarming=plan.is_alarming)

    def show(self, rows: PlanRows, *, is_alarming: bool = False) -> None:
        """Show the rows of a plan. `is_alarming`: it loses data, so the exit status is 4."""
        self._is_alarming |= is_alarming
        if (
            rows.plan["state"] == "planned" and rows.plan.get("next_command") is None
        ):  # only the CLI knows what was typed
            line = command_line()
            rows.plan["next_command"] = None if line is None else line.with_options("--apply")
        for row in rows.findings:
            self._report.add_finding(row)
        self._report.files += len(rows.changes)
        self._report.partitions += len({(row["topic"], row["partition"]) for row in rows.changes} - {(None, None)})
        self._report.rows += sum(chunk.count for chunk in rows.chunks())
        self._writer.write(rows)

    def refuse(self, refusal: Refusal) -> None:
        """Note why a change cannot be made; the plan that was shown has the refusal."""
        self._refusal = refusal

    def finish(self, status: ExitStatus | None = None) -> int:
        """Show the summary, and for programs also the refusal, on stderr; return the exit status."""
        known = ExitStatus.DAMAGE if self._is_alarming else ExitStatus.CLEAN
        result = int(ExitStatus.REFUSED if self._refusal is not None else known if status is None else status)
        self._writer.finish(self._report.summary_row() | {"exit_status": result})
        if self._refusal is not None:
            refused = ["kafkalog: refused, as the result shows; nothing has been changed"]
            for line in refused if self._is_text else refusal_lines(self._refusal.before_any_change()):
                click.echo(line, err=True)
        return result


def _warn_of_brokers(places: Iterable[str]) -> None:
    """Warn on stderr of log directories whose lock another process holds."""
    for directory in locked_dirs(places):
        holder = lock_holder(directory)
        if holder is not None:
            click.echo(
                f"kafkalog: {directory}: {holder.sentence}, holds the lock of this directory. Its files may change; "
                "this plan cannot be applied until that process has ended",
                err=True,
            )


def _check_locked(places: Iterable[str], log_dirs: Iterable[TargetDir]) -> None:
    """Raise RefusedError if a partition is now in a log directory that is not locked."""
    missing = set(locked_dirs(path for target in log_dirs for path in places_of(target))) - set(locked_dirs(places))
    if missing:
        raise RefusedError(
            "appeared while the locks were taken, so it is not locked; nothing has been changed. Run the same command "
            "again",
            path=min(missing),
        )


def places_of(target: TargetDir) -> Iterator[str]:
    """Yield the paths whose log directories must be locked."""
    yield target.root
    yield from (place.path for place in target.partitions)


def places_of_journal(journal: Journal) -> Iterator[str]:
    """Yield the paths whose log directories must be locked: those of changed files, which may be far from the journal.

    If the journal leads to a directory that the user did not name, there are none: nothing is changed then.
    """
    if not untrusted_places(journal):
        yield journal.layout.root
        yield from {os.path.dirname(journal.path_of(entry)) for entry in journal.entries}


@contextmanager
def locked(paths: Iterable[str]) -> Iterator[None]:
    """Hold the locks of the log directories that contain the paths, and of paths outside log directories.

    Raises LockedError or AccessError.
    """
    places = list(paths)
    with LogDirLocks(locked_dirs(places), Disk(), unlocked_dirs(places)):
        yield


Decorated = TypeVar("Decorated", bound="Callable[..., object]")


class RepairOptions(Struct, frozen=True, kw_only=True):
    """How a repair is done.

    apply: whether the plan is applied.
    plan_out: the file that gets the plan; None: none.
    undo_to: the absolute path of the directory of the undo journal; None: next to the changed files.
    keeps_undo: whether an undo journal is kept.
    jobs: number of processes; without --jobs the number of cores.
    asked_jobs: the number of --jobs; None: not given.
    output: the form of the result.
    detail: how much of the plan is shown.
    """

    apply: bool
    plan_out: str | None
    undo_to: str | None
    keeps_undo: bool
    jobs: int
    asked_jobs: int | None
    output: str
    detail: Detail = field(default_factory=Detail)


def repair_options(function: Decorated) -> Decorated:
    """Add --apply, --plan-out, --undo-to, --no-undo, --details, --explain, --jobs and --output: a `RepairOptions`."""

    def with_repair(*arguments: object, **given: Any) -> object:
        undo_to, no_undo, asked_jobs = given.pop("undo_to"), given.pop("no_undo"), given.pop("jobs")
        if no_undo and undo_to is not None:
            raise click.UsageError(
                "--undo-to keeps the undo journal in a directory, and --no-undo keeps no journal; give only one of them"
            )
        repair = RepairOptions(
            apply=given.pop("apply"),
            plan_out=given.pop("plan_out"),
            undo_to=None if undo_to is None else os.path.abspath(undo_to),
            keeps_undo=not no_undo,
            jobs=asked_jobs or cores(),
            asked_jobs=asked_jobs,
            output=given.pop("output"),
            detail=Detail(is_asked=given.pop("details"), explains=given.pop("explain")),
        )
        return function(*arguments, repair=repair, **given)

    wrapped = cast("Decorated", update_wrapper(with_repair, function))
    return reduce(lambda inner, decorator: decorator(inner), reversed(_OPTIONS), wrapped)


_OPTIONS = (
    click.option(
        "--apply",
        is_flag=True,
        help="Apply the plan. Without this option the plan is only shown. The broker must be stopped.",
    ),
    click.option(
        "--plan-out",
        metavar="FILE",
        help="Also write the plan as JSON, for kafkalog apply FILE. FILE must be outside log directories.",
    ),
    click.option(
        "--undo-to",
        metavar="DIR",
        type=click.Path(readable=False),
        help=(
            "Keep the undo journal in this directory, which is created if it is missing. A directory on another file "
            "system also helps if the disk is full: nothing is written to the full disk before space has been freed.  "
            "[default: next to the changed files, where brokers ignore it]"
        ),
    ),
    click.option(
        "--no-undo",
        is_flag=True,
        help=(
            "Keep no undo journal, for a full disk if no other disk is available: the run cannot be undone. A run that "
            "is interrupted can still be finished, with kafkalog apply --resume or, if it was interrupted before its "
            "intent, with the same command again."
        ),
    ),
    *DETAIL_OPTIONS,
    common.jobs_option,
    common.output_option,
)
