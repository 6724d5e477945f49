"""Plans as JSON: what `--plan-out` writes and `kafkalog apply` carries out.

The file says all that the plan says, for people and programs; what counts on the way back is which command was asked
for what, and what the changes are: they are planned again from the disk, and must come out the same.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, cast, get_args

from kafkalog_core.command_lines import CommandLine, current_directory
from kafkalog_core.errors import FieldError
from kafkalog_core.format.strict_json import Fields, load_fields, path_problem
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PLANNERS, Json, PlanRequest
from kafkalog_core.ops.repair.plan_rows import rows_of_plan
from kafkalog_core.storage.changing.changes import Change, ChangeKind, Fingerprint
from kafkalog_core.text import json_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkalog_core.ops.repair.plan import Plan

__all__ = ["StoredPlan", "is_plan_file", "parse_plans", "plan_file"]

_KIND: Final = "kafkalog plans"
_VERSION: Final = 1
_LAST_MS: Final = 253_402_300_799_999  # the year 9999, the last that a date can show


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlan:
    """A plan as it is in a file."""

    command: str
    root: str
    paths: tuple[str, ...]
    named_dirs: tuple[str, ...]
    options: Mapping[str, Json]
    now_ms: int
    undo_to: str | None
    keeps_undo: bool
    changes: tuple[Change, ...]
    command_line: CommandLine | None

    def request(self, jobs: int) -> PlanRequest:
        """Return what it was asked for, to be asked for again. Raises NotFoundError, AccessError, ..."""
        return PlanRequest(
            target=target_dir(self.paths, self.named_dirs),
            options=self.options,
            now_ms=self.now_ms,
            jobs=jobs,
            command_line=self.command_line,
        )


def plan_file(plans: Iterable[Plan]) -> Iterator[str]:
    """Yield the text of a file, in pieces."""
    yield f'{{"kafkalog":"{_KIND}","version":{_VERSION},"plans":['
    for number, plan in enumerate(plans):
        yield ",\n" if number else "\n"
        yield json_text(_plan(plan))
    yield "\n]}\n"


def is_plan_file(start: bytes) -> bool:
    """Return whether a file begins as those of plans do."""
    return start.startswith(f'{{"kafkalog":"{_KIND}"'.encode())


def parse_plans(text: bytes) -> list[StoredPlan]:
    """Return the plans of a file. Raises FieldError for anything else."""
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
        "beside": list(plan.request.target.named_dirs.paths),
        "options": plan.request.options,
        "now_ms": plan.request.now_ms,
        "command_line": _command_line_json(plan.request.command_line),
        "undo_to": plan.undo_to,
        "keeps_undo": plan.keeps_undo,
        "message": sheet.plan["message"],
        "obstacles": list(plan.obstacles),
        "spaces": [asdict(space) for space in plan.spaces],
        "release": sheet.plan["release"],
        "release_evidence": list(plan.report.release.evidence) if plan.report.release else [],
        "settings": list(sheet.settings),
        "losses": list(sheet.losses),
        "findings": list(sheet.findings),
        "changes": [asdict(change) for change in plan.changes],
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
    """Return what was typed when the plan was made: it is shown, quoted word by word, and never run."""
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
    """Yield all texts in a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from (name, *_texts(inner))
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _change(fields: Fields) -> Change:
    """Return a change that is compared with one planned now, and never carried out."""
    before = fields.optional_fields("before")
    return Change(
        kind=cast("ChangeKind", fields.choice("kind", get_args(ChangeKind))),
        path=fields.path("path"),
        before=None if before is None else _fingerprint(before),
        size_bytes=fields.optional_integer("size_bytes"),
        sha256=fields.optional_sha256("sha256"),
        why=fields.text("why"),
        swap=fields.optional_integer("swap"),
    )


def _fingerprint(fields: Fields) -> Fingerprint:
    mtime_ns = fields.integer("mtime_ns", -(2**63))
    return Fingerprint(fields.integer("size_bytes"), mtime_ns, fields.sha256("sha256"))
