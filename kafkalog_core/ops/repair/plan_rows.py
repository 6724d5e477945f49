"""The rows of plans, undos and journals: one row with a sentence that sums up, and rows of its changes and findings."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_path
from kafkalog_core.format.names import journal_run, parse_directory_name
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.storage.changing.journal_search import (
    Remains,
    held_bytes,
    interrupted_refusal,
    leading_directory,
    undo_command,
)
from kafkalog_core.structs import Struct
from kafkalog_core.text import count_of
from kafkalog_core.topics.group_offsets import OFFSETS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.command_lines import CommandLine
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.rules.setting_table import Setting
    from kafkalog_core.ops.repair.assumptions import Assumption
    from kafkalog_core.ops.repair.context import TargetDir
    from kafkalog_core.ops.repair.loss import Loss
    from kafkalog_core.ops.repair.plan import Plan
    from kafkalog_core.ops.repair.undo import GivenUp, PrunePlan, Scope, UndoPlan
    from kafkalog_core.refusals import Refusal
    from kafkalog_core.storage.changing.changes import Change
    from kafkalog_core.storage.changing.journal import Journal
    from kafkalog_core.storage.changing.space import Space

__all__ = [
    "ACTIONS",
    "MENDED_BY_PLAN",
    "PlanRows",
    "change_row",
    "counted_changes",
    "impact_command",
    "rows_of_list",
    "rows_of_plan",
    "rows_of_prune",
    "rows_of_undo",
]


MENDED_BY_PLAN: Final = "This plan repairs it."
"""The cure of a finding that the changes of the same plan repair."""

Row = dict[str, object]

ACTIONS: Final = {
    "create": ("create", "created"),
    "replace": ("replace", "replaced"),
    "cut": ("truncate", "truncated"),
    "extend": ("extend", "restored to full length"),
    "remove": ("delete", "deleted"),
    "keep": ("keep", "kept"),
}
"""The verb and its participle for each kind of a change."""
_NO_UNDO: Final = "with --no-undo it cannot be undone"


class PlanRows(Struct, frozen=True, kw_only=True):
    """The rows of one plan, by table; `details` are of the command's own tables.

    Shown to people, without a row of their own: `refusals`, of which the plan's row has the text, `spaces`, what is
    `assumed`, the `note` and the `verdict` of the planner, and the command that shows the `impact` on groups of
    consumers.
    """

    plan: Row
    refusals: tuple[Refusal, ...] = ()
    settings: tuple[Row, ...] = ()
    losses: tuple[Row, ...] = ()
    findings: tuple[Row, ...] = ()
    changes: tuple[Row, ...] = ()
    journals: tuple[Row, ...] = ()
    spaces: tuple[Space, ...] = ()
    details: tuple[RowChunk, ...] = ()
    assumed: tuple[Assumption, ...] = ()
    note: str | None = None
    verdict: str | None = None
    impact: str | None = None

    def chunks(self) -> Iterator[RowChunk]:
        """Yield all rows, the plan first."""
        yield RowChunk(tables.PLAN, [self.plan])
        yield from self.details
        for table, rows in (
            (tables.SETTING, self.settings),
            (tables.JOURNAL, self.journals),
            (tables.LOSS, self.losses),
            (tables.FINDING, self.findings),
            (tables.CHANGE, self.changes),
        ):
            if rows:
                yield RowChunk(table, rows)


def rows_of_plan(plan: Plan, journal: Journal | None = None) -> PlanRows:
    """Return the rows of a plan; with the journal of its run, those of an applied plan."""
    report, root = plan.report, plan.request.target.root
    state = _state(plan, journal)
    release = report.release
    row: Row = {
        "command": plan.command,
        "root": root,
        "state": state,
        "message": "; ".join(
            text for text in (report.verdict, *(report.note or "").split("\n"), _message(plan, state, journal)) if text
        ),
        "changes": len(plan.changes),
        "needed_bytes": sum(space.needed_bytes for space in plan.spaces) if plan.changes else None,
        "free_bytes": _tightest(plan.spaces),
        "release": None if release is None else str(release.release),
        "is_release_certain": None if release is None else release.is_certain,
        "release_evidence": None if release is None else "\n".join(release.evidence),
        "assumptions": "\n".join(each.sentence for each in report.assumptions) or None if plan.changes else None,
        **_obstacle_columns(plan.obstacles),
        "run": None if journal is None or not plan.keeps_undo else journal.run,
        "undo": None if journal is None or not plan.keeps_undo else undo_command(leading_directory(journal), journal),
        "undo_to": plan.undo_to,
        "keeps_undo": plan.keeps_undo,
        "next_command": None if state == "planned" else _refused_command(plan),
    }
    return PlanRows(
        plan=row,
        settings=tuple(_setting_row(setting) for setting in report.settings),
        losses=tuple(loss.row() for loss in report.losses),
        findings=tuple(
            _finding_row(finding, is_done=journal is not None) for finding in (*report.findings, *report.refusals)
        ),
        changes=tuple(change_row(change, is_done=journal is not None) for change in plan.changes),
        refusals=plan.obstacles,
        spaces=plan.spaces,
        details=report.details,
        assumed=report.assumptions,
        note=report.note,
        verdict=report.verdict,
        impact=impact_command([plan.request.target], plan.request.command_line)
        if plan.changes and state in {"planned", "refused"}
        else None,
    )


def impact_command(targets: Iterable[TargetDir], line: CommandLine | None) -> str | None:
    """Return the command that shows what a plan means for groups; None: their offsets are on no disk that is named.

    Only the names of the directories are looked at.

    Args:
        targets: the directories of the plan.
        line: what was typed, for a plan or for the forecast of one; None: unknown.
    """
    listed = [(*each.partitions, *(() if each.log_dir is None else each.log_dir.partitions)) for each in targets]
    if line is None or not any(place.name.topic == OFFSETS_TOPIC for places in listed for place in places):
        return None
    file = line.value_of(_PLAN_OUT)
    if file is not None:
        return f"kafkalog impact {shell_path(file)}"
    return f"{line.with_options(f'{_PLAN_OUT} {_PLAN_FILE}')}; kafkalog impact {_PLAN_FILE}"


_PLAN_OUT: Final = "--plan-out"
_PLAN_FILE: Final = "plan.json"


def change_row(change: Change, *, is_done: bool) -> Row:
    """Return the `change` row of a change that is planned or done."""
    before = change.before
    around = parse_directory_name(os.path.basename(os.path.dirname(change.path)))
    return {
        "file": change.path,
        "topic": around.topic,
        "partition": around.partition,
        "kind": change.kind,
        "state": "done" if is_done else "planned",
        "bytes_before": before and before.size_bytes,
        "mtime_before_ms": before and before.mtime_ns // 1_000_000,
        "sha256_before": before and before.sha256,
        "bytes_after": change.size_bytes,
        "sha256_after": change.sha256,
        "why": change.why,
    }


def counted_changes(kinds: Iterable[str], between: str = "") -> str:
    """Return `3 files created, 1 truncated`; with `between` after the noun: `3 files would be created, 1 truncated`."""
    counts = Counter(kinds)
    parts = [f"{counts[kind]} {participle}" for kind, (_, participle) in ACTIONS.items() if counts[kind]]
    if not parts:
        return f"no file {between}changed"
    number, _, rest = parts[0].partition(" ")
    return ", ".join([f"{number} {'file' if number == '1' else 'files'} {between}{rest}", *parts[1:]])


def _lost(losses: Iterable[Loss]) -> str:
    """Return `, and 12 records (at least 3 of them committed) are lost to readers`; empty if none are."""
    pieces = list(losses)
    if not pieces:
        return ""
    records = [loss.records for loss in pieces if loss.records is not None]
    committed = [loss.committed_records for loss in pieces if loss.committed_records is not None]
    known = f"{sum(records):,} records" if len(records) == len(pieces) else f"at least {sum(records):,} records"
    if not records:
        known = "an unknown number of records"
    share = f" (at least {sum(committed):,} of them committed)" if len(committed) == len(pieces) else ""
    return f", and {known}{share} are lost to readers"


def _finding_row(finding: Finding, *, is_done: bool) -> Row:
    """Return the `finding` row; a finding that the applied plan has repaired describes the state before."""
    row = finding.row()
    if is_done and finding.cure == MENDED_BY_PLAN:
        row |= {"severity": "info", "broker_action": None, "cure": "This run has repaired it.", "next_command": None}
        row["message"] = f"Before this run: {finding.message}"
    return row


def _state(plan: Plan, journal: Journal | None) -> str:
    if journal is not None:
        return "applied"
    if plan.obstacles or (plan.report.refusals and not plan.changes):
        return "refused"
    if plan.report.only_shows:
        return "shown"
    return "planned" if plan.changes else "nothing"


def _refused_command(plan: Plan) -> str | None:
    """Return the command that the report or the first refusal names."""
    if plan.report.next_command is not None:
        return plan.report.next_command
    named = (refusal.next_command for refusal in plan.report.refusals)
    return next((command for command in named if command is not None), None)


def _message(plan: Plan, state: str, journal: Journal | None) -> str:
    kinds = [change.kind for change in plan.changes]
    root, lost = plan.request.target.root, _lost(plan.report.losses)
    if journal is not None:
        done = f"{counted_changes(kinds)} in {root}{lost}"
        if not plan.keeps_undo:
            return f"{done}. W{_NO_UNDO[1:]}"
        return f"{done}. To undo it: {undo_command(leading_directory(journal), journal)}"
    if not plan.changes:
        return _nothing_done(plan, state)
    planned = f"{counted_changes(kinds, 'would be ')} in {root}{lost}"
    if state == "refused":
        return f"{planned}, but the plan cannot be applied as things are. Nothing has been changed"
    undo = "kafkalog undo can undo it" if plan.keeps_undo else _NO_UNDO
    if plan.undo_to is not None:
        undo = f"{undo} with its journal in {plan.undo_to}"
    return f"{planned}. Nothing has been changed yet: --apply applies the plan, and {undo}"


def _nothing_done(plan: Plan, state: str) -> str:
    root, left = plan.request.target.root, len(plan.report.refusals)
    if state in {"nothing", "shown"}:
        return f"nothing {'to do' if state == 'nothing' else 'is changed'} in {root}"
    if not left:
        return f"nothing can be done in {root} as things are"
    return f"nothing can be done in {root}: {count_of(left, 'place')} {'is' if left == 1 else 'are'} left unchanged"


def _tightest(spaces: Sequence[Space]) -> int | None:
    return min(spaces, key=lambda space: space.free_bytes - space.needed_bytes).free_bytes if spaces else None


def _setting_row(setting: Setting) -> Row:
    return {"name": setting.name, "value": setting.text, "origin": setting.source}


_UNDO: Final = "undo"
_PRUNE: Final = "prune"


def rows_of_undo(plan: UndoPlan, *, is_done: bool) -> PlanRows:
    """Return the rows of the undo of a run, planned or done."""
    journal, root = plan.journal, plan.scope.root
    counts = counted_changes(plan.kinds, "" if is_done else "would be ")
    what = f"{counts}, so that {root} is as it was before {journal.command} ({journal.run})"
    if plan.left:
        files = count_of(len(plan.left), "file")
        what = f"{counts} of {journal.command} ({journal.run}) in {root}; {files} cannot be restored and "
        is_one = len(plan.left) == 1
        what += f"{'is' if is_one else 'are'} left as {'it is' if is_one else 'they are'}"
    if is_done and plan.left:
        state, message = "applied", f"{what}. Their saved content is kept until kafkalog undo --prune deletes it"
    elif is_done:
        state, message = "applied", f"{what}. Its journal is kept until kafkalog undo --prune deletes it"
    elif plan.obstacles:
        state, message = "refused", f"{journal.run} cannot be undone as things are. Nothing has been changed"
    else:
        state, message = "planned", f"{what}. Nothing has been changed yet: --apply does it"
    row = _plan_row(_UNDO, root, state, message, len(plan.changes), plan.obstacles)
    if state == "planned":  # as the run itself prints it
        row["next_command"] = undo_command(root, journal, *(["--partial"] if plan.left else []))
    row["needed_bytes"] = sum(space.needed_bytes for space in plan.spaces)
    row["run"] = journal.run
    rows = (change_row(change, is_done=is_done) for change in plan.changes)
    kinds = zip(rows, plan.kinds, strict=True)
    changes = tuple(change | {"kind": kind} for change, kind in kinds)
    left = tuple(_kept_row(path, size_bytes, why, is_done=is_done) for path, size_bytes, why in plan.left)
    return PlanRows(plan=row, refusals=plan.obstacles, changes=(*changes, *left), spaces=plan.spaces)


def rows_of_prune(plan: PrunePlan, *, is_done: bool, freed_bytes: int | None = None) -> PlanRows:
    """Return the rows of journals that are to be freed, or were. `freed_bytes`: what their deletion has freed."""
    root = plan.scope.root
    journals = (*(_journal_row(journal) for journal in plan.journals), *(_remains_row(each) for each in plan.remains))
    held = sum(int(str(row["held_bytes"])) for row in journals) if freed_bytes is None else freed_bytes
    count = len(journals)
    what = f"{count} {'journal' if count == 1 else 'journals'} in {root}, {held:,} bytes"
    if not count:
        state, message = "nothing", f"nothing to free in {root}"
    elif is_done:
        state, message = "applied", f"freed {what}. These runs can no longer be undone"
    else:
        state = "planned"
        message = (
            f"would free {what}; these runs could no longer be undone. Nothing has been changed yet: --apply does it"
        )
    for each in plan.given_up:
        message += f". {_given_up_sentence(each, is_done=is_done)}"
    if plan.kept:
        message += ". " + "; ".join(plan.kept)
    return PlanRows(
        plan=_plan_row(_PRUNE, root, state, message, count, ()),
        journals=() if is_done else journals,
        changes=tuple(row for each in plan.given_up for row in _given_up_rows(each, is_done=is_done)),
    )


def _given_up_sentence(given_up: GivenUp, *, is_done: bool) -> str:
    """Return a sentence on the files of an interrupted run whose journal is deleted."""
    journal, left, deleted = given_up.journal, len(given_up.left), len(given_up.deleted)
    are = ("has been" if left == 1 else "have been") if is_done else ("is" if left == 1 else "are")
    were = ("was" if deleted == 1 else "were") if is_done else "would be"
    return (
        f"The {journal.command} of {journal.run} was interrupted, and can be neither finished nor undone: "
        f"{count_of(left, 'file')} {are} left as {'it is' if left == 1 else 'they are'}, and "
        f"{count_of(deleted, 'saved file')} {were} deleted"
    )


def _given_up_rows(given_up: GivenUp, *, is_done: bool) -> Iterator[Row]:
    command = given_up.journal.command
    how = {
        "before": f"as it was before {command}",
        "after": f"as it is after {command}",
        "halfway": f"{command} or a broker has left it halfway; a broker that starts rebuilds it from the log",
        "neither": f"neither as it was before {command} nor as it is after it",
    }
    state = "done" if is_done else "planned"
    for path, size_bytes, is_now in given_up.left:
        yield _kept_row(path, size_bytes, how[is_now], is_done=is_done)
    for path, size_bytes, of in given_up.deleted:
        row = _file_row(path) | {"kind": "remove", "state": state, "why": f"saved content of {os.path.basename(of)}"}
        yield row | {"bytes_before": size_bytes}


def _kept_row(path: str, size_bytes: int | None, why: str, *, is_done: bool) -> Row:
    row = _file_row(path) | {"kind": "keep", "state": "done" if is_done else "planned", "why": why}
    return row | {"bytes_before": size_bytes, "bytes_after": size_bytes}


def _file_row(path: str) -> Row:
    directory = os.path.dirname(path)
    if journal_run(os.path.basename(directory)) is not None:  # a file of the journal is of the partition that holds it
        directory = os.path.dirname(directory)
    around = parse_directory_name(os.path.basename(directory))
    return {"file": path, "topic": around.topic, "partition": around.partition}


def rows_of_list(scope: Scope) -> PlanRows:
    """Return the rows of all journals in a scope."""
    root = scope.root if scope.partition is None else scope.partition
    rows = [_journal_row(journal) for journal in scope.found.journals]
    rows += [_remains_row(each) for each in scope.found.remains]
    rows.sort(key=lambda row: str(row["run"]))
    count = len(rows)
    message = f"{count} {'journal' if count == 1 else 'journals'} in {root}" if count else f"no journal in {root}"
    obstacles = tuple(interrupted_refusal(journal) for journal in scope.interrupted())
    row = _plan_row("list", root, "listed", message, 0, obstacles)
    return PlanRows(plan=row, refusals=obstacles, journals=tuple(rows))


def _obstacle_columns(obstacles: Sequence[Refusal]) -> Row:
    commands = (command for each in obstacles for command in each.commands)
    return {"obstacles": "\n".join(map(str, obstacles)) or None, "ways_out": "\n".join(dict.fromkeys(commands)) or None}


def _plan_row(command: str, root: str, state: str, message: str, changes: int, obstacles: tuple[Refusal, ...]) -> Row:
    return {
        "command": command,
        "root": root,
        "state": state,
        "message": message,
        "changes": changes,
        **_obstacle_columns(obstacles),
    }


def _journal_row(journal: Journal) -> Row:
    state = "interrupted" if journal.is_interrupted else journal.state
    messages = {
        "complete": "Can be undone as long as its files have not changed since.",
        "undone": "Has been undone.",
        "pruning": "Is partly deleted; prune it again.",
        "interrupted": str(interrupted_refusal(journal)),
    }
    return {
        "run": journal.run,
        "root": journal.layout.root,
        "command": journal.command,
        "created_ms": journal.created_ms,
        "state": state,
        "files": len(journal.entries),
        "held_bytes": held_bytes(journal),
        "path": journal.layout.intent,
        "message": messages[state],
    }


def _remains_row(remains: Remains) -> Row:
    sizes = [os.lstat(path) for path in remains.paths if os.path.isfile(path)]
    return {
        "run": remains.run,
        "root": os.path.dirname(remains.paths[0]),
        "state": "unreadable" if remains.is_unreadable else "nothing",
        "files": 0,
        "held_bytes": sum(status.st_size for status in sizes if status.st_nlink == 1),
        "path": remains.paths[0],
        "message": f"{remains.reason[:1].upper()}{remains.reason[1:]}.",
    }
