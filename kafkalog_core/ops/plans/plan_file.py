"""Plans as JSON: what `--plan-out` writes and `kafkalog apply` carries out.

The file says all that the plan says, for people and programs; what counts on the way back is which command was asked
for what, and what the changes are: they are planned again from the disk, and must come out the same.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FieldError
from kafkalog_core.format.json_form import json_text
from kafkalog_core.ops.plans.plan import PLANNERS, Json, PlanRequest
from kafkalog_core.ops.plans.sheet import plan_sheet
from kafkalog_core.ops.plans.sites import site_of
from kafkalog_core.storage.changing.changes import Change, Fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkalog_core.ops.plans.plan import Plan

__all__ = ["StoredPlan", "is_plan_file", "parse_plans", "plan_file"]

_KIND: Final = "kafkalog plans"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlan:
    """A plan as it stands in a file."""

    command: str
    root: str
    paths: tuple[str, ...]
    options: Mapping[str, Json]
    now_ms: int
    undo_to: str | None
    changes: tuple[Change, ...]

    def request(self, jobs: int) -> PlanRequest:
        """What it was asked for, to be asked for again. Raises NotFoundError, AccessError, ..."""
        return PlanRequest(site=site_of(self.paths), options=self.options, now_ms=self.now_ms, jobs=jobs)


def plan_file(plans: Iterable[Plan]) -> Iterator[str]:
    """The text of a file, in pieces."""
    yield f'{{"kafkalog":"{_KIND}","version":{_VERSION},"plans":['
    for number, plan in enumerate(plans):
        yield ",\n" if number else "\n"
        yield json_text(_plan(plan))
    yield "\n]}\n"


def is_plan_file(start: bytes) -> bool:
    """Whether a file begins as those of plans do."""
    return start.startswith(f'{{"kafkalog":"{_KIND}"'.encode())


def parse_plans(text: bytes) -> list[StoredPlan]:
    """The plans of a file. Raises FieldError for anything else."""
    try:
        value = json.loads(text)
        if value["kafkalog"] != _KIND or value["version"] != _VERSION:
            raise FieldError("is a file of another version of kafkalog")
        return [_stored(each) for each in value["plans"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FieldError(f"is no file of plans as --plan-out writes it: {error}") from error


def _plan(plan: Plan) -> dict[str, object]:
    sheet = plan_sheet(plan)
    return {
        "command": plan.command,
        "root": plan.request.site.root,
        "paths": list(plan.request.site.paths),
        "options": plan.request.options,
        "now_ms": plan.request.now_ms,
        "undo_to": plan.undo_to,
        "message": sheet.plan["message"],
        "obstacles": list(plan.obstacles),
        "spaces": [asdict(space) for space in plan.spaces],
        "release": sheet.plan["release"],
        "release_evidence": list(plan.outcome.release.evidence) if plan.outcome.release else [],
        "settings": list(sheet.settings),
        "losses": list(sheet.losses),
        "findings": list(sheet.findings),
        "changes": [asdict(change) for change in plan.changes],
    }


def _stored(value: Mapping[str, object]) -> StoredPlan:
    command, options, paths, changes = value["command"], value["options"], value["paths"], value["changes"]
    if command not in PLANNERS:
        raise ValueError(f"unknown command {command!r}")
    if not isinstance(options, dict) or not isinstance(paths, list) or not isinstance(changes, list) or not paths:
        raise TypeError("options, paths or changes are not what they should be")
    undo_to = value["undo_to"]
    return StoredPlan(
        command=str(command),
        root=str(value["root"]),
        paths=tuple(str(path) for path in paths),
        options=options,
        now_ms=int(str(value["now_ms"])),
        undo_to=None if undo_to is None else str(undo_to),
        changes=tuple(_change(change) for change in changes),
    )


def _change(value: Mapping[str, object]) -> Change:
    fields = dict(value)
    before = fields.pop("before")
    fingerprint = Fingerprint(**before) if isinstance(before, dict) else None
    return Change(**fields, before=fingerprint)  # type: ignore[arg-type]  # compared with ours, never carried out
