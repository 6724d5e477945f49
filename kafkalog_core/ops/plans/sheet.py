"""A plan as it is shown: a sentence that says what would be done or has been done, and rows."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core import tables
from kafkalog_core.format.names import parse_directory_name
from kafkalog_core.ops.reading.rows import RowChunk
from kafkalog_core.storage.changing.journals import leading_directory, undo_command
from kafkalog_core.words import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.plans.plan import Loss, Plan
    from kafkalog_core.ops.releases.setting_values import Setting
    from kafkalog_core.storage.changing.changes import Change
    from kafkalog_core.storage.changing.journal import Journal
    from kafkalog_core.storage.changing.space import Space

__all__ = ["MENDED_BY_PLAN", "Sheet", "change_row", "counted_changes", "plan_sheet"]

MENDED_BY_PLAN: Final = "This plan mends it."
"""The cure of a finding that the changes of the same plan put right."""

Row = dict[str, object]

_VERBS: Final = {
    "create": "made",
    "replace": "rewritten",
    "cut": "cut",
    "extend": "put back to full length",
    "remove": "taken away",
}


_FOR_GOOD: Final = "nothing is kept to take it back"


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
    """Return the rows of a plan, or, with the journal of its run, of what has been done."""
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
        "assumptions": "\n".join(each.sentence for each in outcome.assumptions) or None if plan.changes else None,
        "obstacles": "\n".join(plan.obstacles) or None,
        "run": None if journal is None or not plan.keeps_undo else journal.run,
        "undo": None if journal is None or not plan.keeps_undo else undo_command(leading_directory(journal), journal),
        "undo_to": plan.undo_to,
        "keeps_undo": plan.keeps_undo,
        "next_command": _refused_command(plan),
    }
    return Sheet(
        plan=row,
        settings=tuple(_setting_row(setting) for setting in outcome.settings),
        losses=tuple(_loss_row(asdict(loss)) for loss in outcome.losses),
        findings=tuple(
            _finding_row(finding, is_done=journal is not None) for finding in (*outcome.findings, *outcome.refusals)
        ),
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


def _finding_row(finding: Finding, *, is_done: bool) -> Row:
    """Return the `finding` row; a finding that an applied plan has mended describes the state before."""
    row = finding.row()
    if is_done and finding.cure == MENDED_BY_PLAN:
        row |= {"severity": "info", "broker_action": None, "cure": "This run has mended it.", "next_command": None}
        row["message"] = f"Before this run: {finding.message}"
    return row


def _state(plan: Plan, journal: Journal | None) -> str:
    if journal is not None:
        return "applied"
    if plan.obstacles or (plan.outcome.refusals and not plan.changes):
        return "refused"
    return "planned" if plan.changes else "nothing"


def _refused_command(plan: Plan) -> str | None:
    """Return the command that the first refusal names; that which applies a plan is known to the command line only."""
    named = (refusal.next_command for refusal in plan.outcome.refusals)
    return next((command for command in named if command is not None), None)


def _message(plan: Plan, state: str, journal: Journal | None) -> str:
    kinds = [change.kind for change in plan.changes]
    root, lost = plan.request.site.root, _lost(plan.outcome.losses)
    if journal is not None:
        done = f"{counted_changes(kinds)} in {root}{lost}"
        if not plan.keeps_undo:
            return f"{done}. With --no-undo {_FOR_GOOD}"
        return f"{done}. Take it back: {undo_command(leading_directory(journal), journal)}"
    if not plan.changes:
        return _nothing_done(plan, state)
    planned = f"{counted_changes(kinds, 'would be ')} in {root}{lost}"
    if state == "refused":
        return f"{planned}, but it cannot be done as things are. Nothing has been changed"
    back = "kafkalog undo can take it back" if plan.keeps_undo else f"with --no-undo {_FOR_GOOD}"
    if plan.undo_to is not None:
        back = f"{back} by its journal in {plan.undo_to}"
    return f"{planned}. Nothing has been changed yet: --apply does it, and {back}"


def _nothing_done(plan: Plan, state: str) -> str:
    root, left = plan.request.site.root, len(plan.outcome.refusals)
    if state == "nothing":
        return f"nothing to do in {root}"
    if not left:
        return f"nothing can be done in {root} as things are"
    return f"nothing can be done in {root}: {count_of(left, 'place')} {'is' if left == 1 else 'are'} left unchanged"


def _tightest(spaces: Sequence[Space]) -> int | None:
    return min(spaces, key=lambda space: space.free_bytes - space.needed_bytes).free_bytes if spaces else None


def _setting_row(setting: Setting) -> Row:
    return {"name": setting.name, "value": setting.text, "origin": setting.source}


def _loss_row(loss: Mapping[str, object]) -> Row:
    row = dict(loss)
    row["file"] = row.pop("path")
    return row
