"""Plans of every command that repairs: planned by the name of the command, and kept as JSON.

`--plan-out` writes a plan file, for people and programs. `kafkalog apply` plans the same command with the same options
again, and applies the plan only if it has the changes that the file lists.
"""

from __future__ import annotations

import os
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from msgspec import to_builtins

from kafkalog_core.command_lines import CommandLine, current_directory
from kafkalog_core.errors import FieldError
from kafkalog_core.findings.kinds import (
    AS_BROKER,
    LEFT_BY_RECOVER,
    MOVE_PARTITION,
    RECOVER_WITH_OTHERS,
    RECOVERS,
    REPAIRED,
    WRITE_TOPIC_ID,
)
from kafkalog_core.format.names import DirectoryState, parse_directory_name
from kafkalog_core.format.strict_json import Fields, load_fields, path_problem
from kafkalog_core.ops.repair.apply import journal_stage
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import Json, Plan, PlanDraft, PlanReport, PlanRequest, obstacles_of, with_remains
from kafkalog_core.ops.repair.plan_rows import rows_of_plan
from kafkalog_core.progress import NO_PROGRESS, Progress
from kafkalog_core.storage.changing.changes import Change, ChangeKind, DryRunStage
from kafkalog_core.storage.changing.journal import parse_fingerprint
from kafkalog_core.storage.changing.journal_search import real_path
from kafkalog_core.storage.changing.space import existing_directory, free_bytes, spaces_for
from kafkalog_core.storage.changing.trusted import LinkError
from kafkalog_core.storage.changing.writer import WriteError
from kafkalog_core.structs import Struct, replace
from kafkalog_core.text import json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.repair.plan import Planner
    from kafkalog_core.storage.changing.journal import Journal
    from kafkalog_core.storage.changing.writer import Disk

__all__ = [
    "PLANNERS",
    "StoredPlan",
    "is_of_plan",
    "is_plan_file",
    "make_plan",
    "parse_plans",
    "plan_file",
    "plan_to_apply",
]

PLANNERS: Final = {
    "recover": "kafkalog_core.ops.recover.recover:plan_recover",
    "reindex": "kafkalog_core.ops.reindex.reindex:plan_reindex",
    "truncate": "kafkalog_core.ops.truncate.truncate:plan_truncate",
    "excise": "kafkalog_core.ops.recover.excise:plan_excise",
    "checkpoint": "kafkalog_core.ops.checkpoint.checkpoint:plan_checkpoint",
    "compact": "kafkalog_core.ops.compact.planning:plan_compact",
    "retain": "kafkalog_core.ops.retain.retain:plan_retain",
    "quorum": "kafkalog_core.ops.quorum.planning:plan_quorum",
    "free": "kafkalog_core.ops.usage.free:plan_free",
    "transplant": "kafkalog_core.ops.transplant.transplant:plan_transplant",
}
"""The planner of each command that repairs, imported when it is used."""
_SOURCE_BYTES: Final = {"compact": "kafkalog_core.ops.compact.planning:compacted_bytes"}
"""Commands whose new content takes long to compute, and the function that returns the size of its source in bytes."""
_ASIDE: Final = frozenset({DirectoryState.DELETE, DirectoryState.STRAY})
_IN_LOGS: Final = ("log.", "batch.", "record.", "segment.", "txn.", "reindex.")
"""Findings about the content of logs."""
_GROWTH: Final = 3
"""The space that is required before the size of the result is known, in multiples of its source: v0 grows as v2."""
_SPARE_BYTES: Final = 64 * 1024 * 1024


def make_plan(
    command: str,
    request: PlanRequest,
    *,
    undo_to: str | None = None,
    keeps_undo: bool = True,
    progress: Progress = NO_PROGRESS,
) -> PlanDraft:
    """Plan a command for one directory: read the disk and change nothing. Raises what reading raises.

    Args:
        command: the name of the command, a key of `PLANNERS`.
        request: what to plan.
        undo_to: directory that is to hold the undo journal; None: next to the changed files.
        keeps_undo: whether the run will keep an undo journal.
        progress: receives the progress of reading.
    """
    planner, dry_run = planner_of(command), DryRunStage(request.target.root)
    report = _with_ways(command, planner(request, dry_run, progress), request)
    changes = tuple(dry_run.changes)
    plan = Plan(
        command=command, request=request, changes=changes, report=report, undo_to=undo_to, keeps_undo=keeps_undo
    )
    spaces = spaces_for(changes, undo_to, keeps_old=keeps_undo, allows_direct=dry_run.is_kept)
    plan = replace(plan, spaces=with_remains(spaces, request.target.root))
    return PlanDraft(replace(plan, obstacles=obstacles_of(plan)), planner, dry_run)


def _with_ways(command: str, report: PlanReport, request: PlanRequest) -> PlanReport:
    """Return a report whose findings and refusals name the log directories that their next commands need.

    What recover leaves is not led back to recover: the command is the one that ends the log before it, or recover with
    another log directory where this one alone does not show what is lost, and only one is named.
    """
    findings, refusals = report.findings, report.refusals
    if command == "recover":
        beyond = partial(_beyond_recover, is_alone=len(request.target.named_dirs.paths) < 2)
        findings, refusals = tuple(map(beyond, findings)), tuple(map(beyond, refusals))
    if all(each.next_step not in {*RECOVERS, AS_BROKER} for each in (*findings, *refusals)):
        return replace(report, findings=findings, refusals=refusals)
    with_dirs = request.context().with_dirs
    return replace(report, findings=tuple(map(with_dirs, findings)), refusals=tuple(map(with_dirs, refusals)))


def _beyond_recover(finding: Finding, *, is_alone: bool) -> Finding:
    cure = None if finding.cure is None else finding.cure.replace(REPAIRED, LEFT_BY_RECOVER)
    if cure is not None and "kafkalog recover" in cure:
        cure = "Recover leaves it as it is."
    state = parse_directory_name(os.path.basename(os.path.dirname(finding.path))).state
    if state in _ASIDE and finding.severity == "error" and finding.code.startswith("partition-metadata."):
        cure = "Recover leaves it as it is. No broker serves the directory: move it out of the log directory."
        return replace(finding, cure=cure, next_step=MOVE_PARTITION)
    if finding.next_step not in RECOVERS or (is_alone and finding.next_step == RECOVER_WITH_OTHERS):
        return replace(finding, cure=cure)
    others = WRITE_TOPIC_ID if finding.code == "partition-metadata.no-id" else None
    return replace(finding, cure=cure, next_step=AS_BROKER if finding.code.startswith(_IN_LOGS) else others)


def plan_to_apply(
    command: str,
    request: PlanRequest,
    disk: Disk,
    *,
    undo_to: str | None,
    keeps_undo: bool = True,
    now_ms: int,
    progress: Progress,
) -> PlanDraft:
    """Plan a command that is about to be applied. The caller holds the locks, and applies or discards the draft.

    New content that takes long to compute is written into the journal at once, where no broker looks, if there is
    certainly enough space. Otherwise it is computed twice: first to count and hash it before anything is written.
    Raises what `make_plan` raises.
    """
    if command in _SOURCE_BYTES:
        places = _places(request, undo_to)
        needed = _SPARE_BYTES + _GROWTH * _named(_SOURCE_BYTES[command])(request)
        if all(free_bytes(place) >= needed for place in places):
            plan = Plan(
                command=command,
                request=request,
                changes=(),
                report=PlanReport(),
                undo_to=undo_to,
                keeps_undo=keeps_undo,
            )
            draft = _staged(plan, disk, now_ms=now_ms, progress=progress)
            if draft is not None:
                return draft
    return make_plan(command, request, undo_to=undo_to, keeps_undo=keeps_undo, progress=progress)


def _staged(plan: Plan, disk: Disk, *, now_ms: int, progress: Progress) -> PlanDraft | None:
    """Stage the changes of a plan that has none yet; None: `make_plan` shows why they cannot be staged."""
    request, undo_to = plan.request, plan.undo_to
    if obstacles_of(plan):
        return None
    planner = planner_of(plan.command)
    # Free bytes before staging: what is staged is a part of what the plan needs.
    free = {os.stat(place).st_dev: free_bytes(place) for place in _places(request, undo_to)}
    staging = journal_stage(plan, disk, now_ms)
    try:
        report = _with_ways(plan.command, planner(request, staging, progress), request)
        changes = tuple(staging.changes)
        spaces = (
            replace(space, free_bytes=free.get(os.stat(space.path).st_dev, space.free_bytes))
            for space in spaces_for(changes, undo_to, keeps_old=plan.keeps_undo)
        )
        plan = replace(plan, report=report, changes=changes, spaces=tuple(spaces))
        plan = replace(plan, obstacles=obstacles_of(plan))
    except (WriteError, LinkError):
        staging.discard()
        return None
    except BaseException:
        staging.discard()
        raise
    if plan.obstacles or not changes:
        staging.discard()
        return PlanDraft(plan, planner, staging)
    return PlanDraft(plan, planner, staging, staging)


def _places(request: PlanRequest, undo_to: str | None) -> list[str]:
    """Return a directory on each file system that a run writes to."""
    return [request.target.root, *([] if undo_to is None else [existing_directory(undo_to)])]


def planner_of(command: str) -> Planner:
    """Return the planner of a command, a key of `PLANNERS`."""
    return cast("Planner", _named(PLANNERS[command]))


def _named(name: str) -> Callable[..., Any]:
    """Import and return the function that a `module:name` names."""
    module, _, function = name.partition(":")
    return cast("Callable[..., Any]", getattr(import_module(module), function))


_KIND: Final = "kafkalog plans"
_VERSION: Final = 1
_LAST_MS: Final = 253_402_300_799_999  # the year 9999, the last that a date can show


class StoredPlan(Struct, frozen=True, kw_only=True):
    """The part of a plan file that `kafkalog apply` needs to plan the command again and to compare the changes."""

    command: str
    root: str
    paths: tuple[str, ...]
    named: tuple[str, ...]
    named_dirs: tuple[str, ...]
    options: Mapping[str, Json]
    now_ms: int
    undo_to: str | None
    keeps_undo: bool
    changes: tuple[Change, ...]
    command_line: CommandLine | None

    def request(self, jobs: int) -> PlanRequest:
        """Return the request to plan it again. Raises StorageError."""
        target = target_dir(self.paths, self.named_dirs)
        if target.root != self.root:  # some partitions were selected in a directory that is not a broker's
            target = replace(target_dir([self.root], self.named_dirs), is_whole=False)
            places = (place for place in target.partitions if place.path in self.paths)
            target = replace(target, partitions=tuple(places))
        partitions = tuple(replace(place, is_named=place.path in self.named) for place in target.partitions)
        return PlanRequest(
            target=replace(target, partitions=partitions),
            options=self.options,
            now_ms=self.now_ms,
            jobs=jobs,
            command_line=self.command_line,
        )


def plan_file(plans: Iterable[Plan]) -> Iterator[str]:
    """Yield the text of a plan file, in pieces."""
    yield f'{{"kafkalog":"{_KIND}","version":{_VERSION},"plans":['
    for number, plan in enumerate(plans):
        yield ",\n" if number else "\n"
        yield json_text(_plan(plan))
    yield "\n]}\n"


def is_plan_file(start: bytes) -> bool:
    """Return whether the first bytes of a file are those of a plan file."""
    return start.startswith(f'{{"kafkalog":"{_KIND}"'.encode())


def parse_plans(text: bytes) -> list[StoredPlan]:
    """Return the plans in the text of a plan file. Raises FieldError if it is not one."""
    try:
        fields = load_fields(text)
        fields.choice("kafkalog", (_KIND,))
        fields.integer("version", _VERSION, _VERSION)
        return [_stored(each) for each in fields.objects("plans")]
    except FieldError as error:
        raise FieldError(f"is not a plan file that --plan-out wrote: {error.message}") from error


def _plan(plan: Plan) -> dict[str, object]:
    sheet = rows_of_plan(plan)
    return {
        "command": plan.command,
        "root": plan.request.target.root,
        "paths": list(plan.request.target.paths),
        "named": [place.path for place in plan.request.target.partitions if place.is_named],
        "beside": list(plan.request.target.named_dirs.paths),
        "options": plan.request.options,
        "now_ms": plan.request.now_ms,
        "command_line": _command_line_json(plan.request.command_line),
        "undo_to": plan.undo_to,
        "keeps_undo": plan.keeps_undo,
        "message": sheet.plan["message"],
        "obstacles": [*map(str, plan.obstacles)],
        "spaces": to_builtins(plan.spaces),
        "release": sheet.plan["release"],
        "release_evidence": list(plan.report.release.evidence) if plan.report.release else [],
        "settings": list(sheet.settings),
        "losses": list(sheet.losses),
        "findings": list(sheet.findings),
        "changes": to_builtins(plan.changes),
    }


def _stored(fields: Fields) -> StoredPlan:
    paths, options = _paths(fields, "paths"), fields.fields("options").value
    if not paths:
        raise FieldError("it names no paths")
    if not all(path_problem(text) is None for text in _texts(options) if text):
        raise FieldError("its options contain a character that no option can have")
    command = fields.choice("command", tuple(PLANNERS))
    return StoredPlan(
        command=command,
        root=fields.path("root"),
        paths=paths,
        named=_paths(fields, "named") if "named" in fields.value else (),
        named_dirs=_paths(fields, "beside"),
        options=cast("Mapping[str, Json]", options),
        now_ms=fields.integer("now_ms", 0, _LAST_MS),
        undo_to=None if fields.any("undo_to") is None else fields.path("undo_to"),
        keeps_undo=fields.flag("keeps_undo"),
        changes=tuple(_change(change) for change in fields.objects("changes")),
        command_line=_command_line(command, fields.optional_fields("command_line")),
    )


def _command_line_json(line: CommandLine | None) -> Json:
    directory = None if line is None else line.directory or current_directory()
    return None if line is None else {"arguments": line.arguments, "directory": directory}


def _command_line(command: str, fields: Fields | None) -> CommandLine | None:
    """Return the command line of a stored plan. It is only shown, quoted word by word, and never run."""
    if fields is None:
        return None
    arguments = fields.items("arguments")
    if not all(isinstance(word, str) and (not word or path_problem(word) is None) for word in arguments):
        raise FieldError("its command line contains a character that no option can have")
    return CommandLine(
        program=f"kafkalog {command}",
        arguments=tuple(map(str, arguments)),
        directory=None if fields.any("directory") is None else fields.path("directory"),
    )


def _paths(fields: Fields, name: str) -> tuple[str, ...]:
    paths = fields.items(name)
    if not all(isinstance(path, str) and path_problem(path) is None for path in paths):
        raise FieldError(f"its {name} cannot be those of files")
    return tuple(str(path) for path in paths)


def _texts(value: object) -> Iterator[str]:
    """Yield every string in a JSON value, member names too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from (name, *_texts(inner))
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _change(fields: Fields) -> Change:
    """Return a change of a stored plan. It is only compared with a new plan, and never applied."""
    before = fields.optional_fields("before")
    return Change(
        kind=cast("ChangeKind", fields.choice("kind", get_args(ChangeKind))),
        path=fields.path("path"),
        before=None if before is None else parse_fingerprint(before),
        size_bytes=fields.optional_integer("size_bytes"),
        sha256=fields.optional_sha256("sha256"),
        why=fields.text("why"),
        swap=fields.optional_integer("swap"),
    )


def is_of_plan(journal: Journal, plan: StoredPlan) -> bool:
    """Return whether a run that can be finished, or is complete, has exactly the changes of a stored plan."""
    done = [(entry.kind, real_path(journal.path_of(entry)), entry.before) for entry in journal.entries]
    planned = [(change.kind, real_path(change.path), change.before) for change in plan.changes]
    return journal.command == plan.command and done == planned and journal.state in {"prepared", "complete"}
