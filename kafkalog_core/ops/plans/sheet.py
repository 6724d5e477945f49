"""A plan as it is shown: a sentence that says what would be done or has been done, and rows."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core import tables
from kafkalog_core.format.names import parse_directory_name
from kafkalog_core.ops.plans.obstacles import undo_command
from kafkalog_core.ops.reading.rows import RowChunk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.ops.plans.plan import Loss, Plan
    from kafkalog_core.ops.releases.settings import Setting
    from kafkalog_core.storage.changing.changes import Change
    from kafkalog_core.storage.changing.journal import Journal
    from kafkalog_core.storage.changing.space import Space

__all__ = ["Sheet", "change_row", "counted_changes", "plan_sheet"]

Row = dict[str, object]

_VERBS: Final = {
    "create": "made",
    "replace": "rewritten",
    "cut": "cut",
    "extend": "put back to full length",
    "remove": "taken away",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """The rows of one plan, by kind; `spaces` are of its `plan` row, `details` the command's own."""

    plan: Row
    settings: tuple[Row, ...] = ()
    losses: tuple[Row, ...] = ()
    findings: tuple[Row, ...] = ()
    changes: tuple[Row, ...] = ()
    journals: tuple[Row, ...] = ()
    spaces: tuple[Space, ...] = ()
    details: tuple[RowChunk, ...] = ()

    def chunks(self) -> Iterator[RowChunk]:
        """All rows, the plan first."""
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


def plan_sheet(plan: Plan, journal: Journal | None = None) -> Sheet:
    """A plan, or, with the journal of its run, what has been done."""
    outcome, root = plan.outcome, plan.request.site.root
    state = _state(plan, journal)
    release = outcome.release
    row: Row = {
        "command": plan.command,
        "root": root,
        "state": state,
        "message": "; ".join(text for text in (outcome.note, _message(plan, state, journal)) if text is not None),
        "changes": len(plan.changes),
        "needed_bytes": sum(space.needed_bytes for space in plan.spaces) if plan.changes else None,
        "free_bytes": _tightest(plan.spaces),
        "release": None if release is None else str(release.release),
        "is_release_certain": None if release is None else release.is_certain,
        "release_evidence": None if release is None else "\n".join(release.evidence),
        "obstacles": "\n".join(plan.obstacles) or None,
        "run": None if journal is None else journal.run,
        "undo": None if journal is None else undo_command(root, journal.run),
        "undo_to": plan.undo_to,
    }
    return Sheet(
        plan=row,
        settings=tuple(_setting_row(setting) for setting in outcome.settings),
        losses=tuple(_loss_row(asdict(loss)) for loss in outcome.losses),
        findings=tuple(finding.row() for finding in (*outcome.findings, *outcome.refusals)),
        changes=tuple(change_row(change, is_done=journal is not None) for change in plan.changes),
        spaces=plan.spaces,
        details=outcome.details,
    )


def change_row(change: Change, *, is_done: bool) -> Row:
    """The `change` row."""
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
    """`3 files made, 1 cut`; `between` stands behind the first noun: `3 files would be made, 1 cut`."""
    counts = Counter(kinds)
    parts = [f"{counts[kind]} {verb}" for kind, verb in _VERBS.items() if counts[kind]]
    if not parts:
        return f"no file {between}changed"
    number, _, rest = parts[0].partition(" ")
    return ", ".join([f"{number} {'file' if number == '1' else 'files'} {between}{rest}", *parts[1:]])


def _lost(losses: Iterable[Loss]) -> str:
    """`, and 12 records (at least 3 of them committed) are lost to readers`, or nothing."""
    pieces = list(losses)
    if not pieces:
        return ""
    records = [loss.records for loss in pieces if loss.records is not None]
    committed = [loss.committed_records for loss in pieces if loss.committed_records is not None]
    known = f"{sum(records):,} records" if len(records) == len(pieces) else f"at least {sum(records):,} records"
    share = f" (at least {sum(committed):,} of them committed)" if len(committed) == len(pieces) else ""
    return f", and {known}{share} are lost to readers"


def _state(plan: Plan, journal: Journal | None) -> str:
    if journal is not None:
        return "applied"
    if plan.obstacles:
        return "refused"
    return "planned" if plan.changes else "nothing"


def _message(plan: Plan, state: str, journal: Journal | None) -> str:
    kinds = [change.kind for change in plan.changes]
    root, lost = plan.request.site.root, _lost(plan.outcome.losses)
    if journal is not None:
        return f"{counted_changes(kinds)} in {root}{lost}. Take it back: {undo_command(root, journal.run)}"
    if state == "nothing":
        left = len(plan.outcome.refusals)
        why = f"; {left} {'place is' if left == 1 else 'places are'} left as they are, see the findings" if left else ""
        return f"nothing to do in {root}{why}"
    planned = f"{counted_changes(kinds, 'would be ')} in {root}{lost}"
    if state == "refused":
        return f"{planned}, but it cannot be done as things are. Nothing has been changed"
    return (
        f"{planned}. Nothing has been changed yet: the same command with --apply does it, and kafkalog undo can take "
        "it back"
    )


def _tightest(spaces: Sequence[Space]) -> int | None:
    return min(spaces, key=lambda space: space.free_bytes - space.needed_bytes).free_bytes if spaces else None


def _setting_row(setting: Setting) -> Row:
    value = setting.value
    text = str(value).lower() if isinstance(value, bool) else ",".join(value) if isinstance(value, tuple) else value
    return {"name": setting.name, "value": str(text), "origin": setting.origin}


def _loss_row(loss: Mapping[str, object]) -> Row:
    row = dict(loss)
    row["file"] = row.pop("path")
    return row
