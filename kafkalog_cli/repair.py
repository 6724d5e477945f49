"""What all commands that repair have in common: their options, and the way from a command line to a changed disk."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import reduce, update_wrapper
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from kafkalog_cli.command import ExitStatus, command_line
from kafkalog_cli.options import common as shared
from kafkalog_cli.options.common import resolve_all
from kafkalog_cli.outfile import OutFile
from kafkalog_cli.render.writers import PLANS, open_results
from kafkalog_cli.running import clock_ms, cores, watched
from kafkalog_core.errors import RefusedError
from kafkalog_core.kafka.settings import SettingsRequest
from kafkalog_core.ops.reading.report import Report
from kafkalog_core.ops.reading.targets import check_topics, resolve
from kafkalog_core.ops.repair.apply import apply_plan, stage_plan
from kafkalog_core.ops.repair.context import target_dirs
from kafkalog_core.ops.repair.plan import PlanRequest, make_plan
from kafkalog_core.ops.repair.plan_file import is_plan_file, plan_file
from kafkalog_core.ops.repair.plan_rows import rows_of_plan
from kafkalog_core.storage.changing.journal_search import untrusted_places
from kafkalog_core.storage.changing.lock import LogDirLocks, lock_holder, locked_dirs, unlocked_dirs
from kafkalog_core.storage.changing.writer import Disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.ops.reading.selection import Selection
    from kafkalog_core.ops.repair.context import TargetDir
    from kafkalog_core.ops.repair.plan import Json, Plan, StagedPlan
    from kafkalog_core.ops.repair.plan_rows import PlanRows
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.changing.journal import Journal

__all__ = [
    "Manner",
    "Showing",
    "apply_all",
    "locked",
    "places_of_journal",
    "repair_options",
    "run_repair",
]

_HELD_BACK: Final = "not applied, because another plan of this command is refused: kafkalog applies all of them or none"
Decorated = TypeVar("Decorated", bound="Callable[..., object]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a repair is to be done: `output` is a form; `jobs` are the cores where none were `asked_jobs`."""

    apply: bool
    plan_out: str | None
    undo_to: str | None
    keeps_undo: bool
    jobs: int
    asked_jobs: int | None
    output: str


def repair_options(function: Decorated) -> Decorated:
    """--apply, --plan-out, --undo-to, --no-undo, --jobs, --output: the command gets them as `manner`, a `Manner`."""

    def with_manner(*arguments: object, **given: Any) -> object:
        undo_to, no_undo, asked_jobs = given.pop("undo_to"), given.pop("no_undo"), given.pop("jobs")
        if no_undo and undo_to is not None:
            raise click.UsageError(
                "--undo-to keeps the undo journal in a directory, and --no-undo keeps no journal; give only one of them"
            )
        manner = Manner(
            apply=given.pop("apply"),
            plan_out=given.pop("plan_out"),
            undo_to=None if undo_to is None else os.path.abspath(undo_to),
            keeps_undo=not no_undo,
            jobs=asked_jobs or cores(),
            asked_jobs=asked_jobs,
            output=shared.chosen_output(given.pop("output")),
        )
        return function(*arguments, manner=manner, **given)

    wrapped = cast("Decorated", update_wrapper(with_manner, function))
    return reduce(lambda inner, decorator: decorator(inner), reversed(_OPTIONS), wrapped)


def run_repair(
    command: str,
    paths: Sequence[str],
    selection: Selection,
    options: Mapping[str, Json],
    manner: Manner,
    *,
    now_ms: int | None = None,
) -> int:
    """Plan a command for all that the paths name, one plan a log directory; show it, or apply it and show that.

    With `--apply` all that a plan is made of is read after the locks are taken: what was read before only tells where
    they are. Nothing is written unless every plan can be applied. `now_ms`: the time that plans are made for, by
    default the clock's; a journal always names the clock's. The exit status.
    """
    targets = resolve_all(paths, selection)
    check_topics(SettingsRequest.from_json(options.get("kafka")).topics, targets)
    plan_out = None if manner.plan_out is None else OutFile(manner.plan_out, targets, is_ours=is_plan_file)
    showing = Showing(manner.output)
    with ExitStack() as stack:
        sites = target_dirs(targets)
        places = [path for site in sites for path in places_of(site)]
        if manner.apply:
            stack.enter_context(locked(places))
            sites = target_dirs(resolve(paths, selection))
            _check_locked(places, sites)
        else:
            _warn_of_brokers(places)
        progress = stack.enter_context(watched())
        moment = clock_ms()
        drafts: list[StagedPlan] = []
        requests = [
            PlanRequest(
                target=site,
                options=options,
                now_ms=moment if now_ms is None else now_ms,
                jobs=manner.jobs,
                command_line=command_line(),
            )
            for site in sites
        ]
        stack.callback(_discard, drafts)
        drafts.extend(_draft(command, request, manner, moment, progress) for request in requests)
        if plan_out is not None:
            plan_out.write(plan_file(draft.plan for draft in drafts))
        if manner.apply:
            apply_all(drafts, showing, moment, progress)
        else:
            for draft in drafts:
                showing.show_plan(draft.plan)
    return showing.finish()


def _draft(command: str, request: PlanRequest, manner: Manner, moment: int, progress: Progress) -> StagedPlan:
    where, keeps_undo = manner.undo_to, manner.keeps_undo
    if manner.apply:
        return stage_plan(
            command, request, Disk(), undo_to=where, keeps_undo=keeps_undo, now_ms=moment, progress=progress
        )
    return make_plan(command, request, undo_to=where, keeps_undo=keeps_undo, progress=progress)


def _discard(drafts: Iterable[StagedPlan]) -> None:
    """Take away what is staged of plans that were not applied."""
    for draft in drafts:
        draft.discard()


def apply_all(drafts: list[StagedPlan], showing: Showing, moment: int, progress: Progress) -> None:
    """Apply plans, none unless all can be; what has been done is shown as it is done. The locks are held.

    Those that are left in the list were not applied.
    """
    refused = [draft.plan for draft in drafts if draft.plan.obstacles]
    if refused:
        for draft in drafts:
            is_held_back = draft.plan.changes and not draft.plan.obstacles
            showing.show_plan(replace(draft.plan, obstacles=(_HELD_BACK,)) if is_held_back else draft.plan)
        showing.finish(ExitStatus.REFUSED)
        raise RefusedError(f"{refused[0].obstacles[0]}; nothing has been changed")
    while drafts:
        draft = drafts.pop(0)
        if draft.plan.changes:
            journal = apply_plan(draft, Disk(), now_ms=moment, progress=progress)
            showing.show(rows_of_plan(draft.plan, journal), is_alarming=bool(draft.plan.report.refusals))
        else:
            showing.show_plan(draft.plan)


class Showing:
    """Sheets on their way out, and what the exit status and the summary will be."""

    def __init__(self, output: str) -> None:
        self._writer = open_results(PLANS, output)
        self._report = Report()
        self._is_alarming = False

    def show_plan(self, plan: Plan) -> None:
        """Show a plan that is not applied."""
        self.show(rows_of_plan(plan), is_alarming=plan.is_alarming)

    def show(self, sheet: PlanRows, *, is_alarming: bool = False) -> None:
        """Show a sheet; `is_alarming`: the exit status will be 4."""
        self._is_alarming |= is_alarming
        if sheet.plan["state"] == "planned":
            line = command_line()
            sheet.plan["next_command"] = None if line is None else line.with_options("--apply")
        for row in sheet.findings:
            self._report.add_finding(row)
        self._report.files += len(sheet.changes)
        self._report.partitions += len({(row["topic"], row["partition"]) for row in sheet.changes} - {(None, None)})
        self._report.rows += sum(chunk.count for chunk in sheet.chunks())
        self._writer.write(sheet)

    def finish(self, status: ExitStatus | None = None) -> int:
        """Show the summary; the exit status."""
        known = ExitStatus.DAMAGE if self._is_alarming else ExitStatus.CLEAN
        result = int(known if status is None else status)
        self._writer.finish(self._report.summary_row() | {"exit_status": result})
        return result


def _warn_of_brokers(places: Iterable[str]) -> None:
    """Say where a plan is made of files that a broker is at work on."""
    for directory in locked_dirs(places):
        holder = lock_holder(directory)
        if holder is not None:
            click.echo(
                f"kafkalog: {directory}: {holder.sentence}, holds its lock: this plan is of a moment and cannot be "
                "applied until that process has ended",
                err=True,
            )


def _check_locked(places: Iterable[str], sites: Iterable[TargetDir]) -> None:
    """Raises RefusedError where something leads, now that locks are held, into a log directory that is not locked."""
    missing = set(locked_dirs(path for site in sites for path in places_of(site))) - set(locked_dirs(places))
    if missing:
        raise RefusedError(
            "has come to what is to be repaired only now, and is not locked; nothing has been changed. Run the same "
            "command again",
            path=min(missing),
        )


def places_of(site: TargetDir) -> Iterator[str]:
    """Paths whose log directories are to be locked."""
    yield site.root
    yield from (place.path for place in site.partitions)


def places_of_journal(journal: Journal) -> Iterator[str]:
    """Paths whose log directories are to be locked: where files are changed, which may be far from the journal.

    Nothing is locked where only the journal leads: nothing is changed there either.
    """
    if not untrusted_places(journal):
        yield journal.layout.root
        yield from {os.path.dirname(journal.path_of(entry)) for entry in journal.entries}


@contextmanager
def locked(paths: Iterable[str]) -> Iterator[None]:
    """Hold the locks of all log directories that paths are in, and of paths that are in none.

    Raises LockedError or AccessError.
    """
    places = list(paths)
    with LogDirLocks(locked_dirs(places), Disk(), unlocked_dirs(places)):
        yield


_OPTIONS = (
    click.option(
        "--apply",
        is_flag=True,
        help="Do it. Without this the plan is shown and nothing is changed. The broker must be stopped.",
    ),
    click.option(
        "--plan-out",
        metavar="FILE",
        help="Also write the plan as JSON, for kafkalog apply FILE. Not among the files of a broker.",
    ),
    click.option(
        "--undo-to",
        metavar="DIR",
        type=click.Path(readable=False),
        help=(
            "Keep the undo journal in this directory, which is created if it is missing. A directory on another file "
            "system also helps if the disk is full: nothing is written to the full disk before space has been freed.  "
            "[default: next to the files, where brokers do not look]"
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
    shared.jobs_option,
    shared.output_option,
)
