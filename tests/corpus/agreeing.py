"""What verify, dump, truncate, reindex and checkpoint say about one disk under one release, and where they disagree."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import RefusedError
from kafkalog_core.findings.catalog import SHOWN
from kafkalog_core.findings.logs import DAMAGE_REASONS, STARTS_LATER
from kafkalog_core.format.names import DirectoryState
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.ops.dump.dump import dump
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.storage.partition import partition_name
from tests.corpus.verifying import NOW_MS
from tests.support.corpus import archives, faults, recovering
from tests.support.corpus.faults import BEFORE, SHEET, Fault

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.repair.plan import Plan
    from kafkalog_core.storage.changing.changes import Change
    from tests.support.corpus.recovering import Pair

FAMILIES: Final = (
    "0.8.0",
    "0.8.2",
    "0.9",
    "0.10.0",
    "0.10.1",
    "0.11",
    "1.1",
    "2.0",
    "2.8",
    "3.0",
    "3.9",
    "4.0",
    "4.4",
)
"""One release of each family that starts on a disk in its own way."""
_OUT_OF_SERVICE: Final = ("Does not start", "log directory offline", "log directory goes offline")


@dataclass(frozen=True, slots=True)
class Case:
    """A disk of the corpus before a broker was started on it.

    Args:
        id: name of the test.
        fault: what a person did to it; None: it is that of a crash.
        pair: of a crash, with the disk that the broker left.
    """

    id: str
    fault: Fault | None = None
    pair: Pair | None = None

    def lay(self, corpus: Path, into: Path) -> list[Path]:
        """Put the disk below a directory; return its log directories that are there."""
        if self.fault is None:
            assert self.pair is not None
            before = into / "before"
            shutil.copytree(corpus / self.pair.before, before)
            return [before]
        faults.build(corpus, self.fault, BEFORE, into)
        names = archives.contents(archives.source()).files
        prefix = f"{self.fault.base}/"
        files = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
        if "meta.properties" in files:
            return [into]
        return [into / name for name in sorted({name.split("/")[0] for name in files}) if (into / name).is_dir()]

    def release(self, corpus: Path) -> str:
        """The release that wrote the disk and was started on it."""
        case = "/".join(self.id.split("/")[:2])
        sheet: dict[str, Any] = json.loads((corpus / case / "case.json").read_text())
        return str(sheet.get("kafka") or sheet["release"])


def cases() -> list[Case]:
    """All faults, those on which no broker started among them, and all crashes, in a stable order."""
    texts = archives.contents(archives.source()).texts
    found = [Fault.parse(path.removesuffix(f"/{SHEET}"), text) for path, text in texts.items() if path.endswith(SHEET)]
    some = [Case(fault.path, fault=fault) for fault in found if BEFORE in fault.states]
    crashes = [pair for pair in recovering.pairs() if pair.fault is None and not pair.is_alone]
    return sorted([*some, *(Case(pair.id, pair=pair) for pair in crashes)], key=lambda case: case.id)


def findings(directories: Sequence[Path], kafka: str) -> list[Finding]:
    """Everything that verify finds under a release."""
    targets = tuple(resolve([str(path) for path in directories]))
    request = VerifyRequest(targets=targets, now_ms=NOW_MS, kafka=SettingsRequest(kafka=kafka))
    return [finding for verdict in verify(request) for finding in verdict.findings]


def is_out_of_service(finding: Finding) -> bool:
    """Whether the broker does not start because of it, or not with this log directory."""
    return any(text in (finding.broker_action or "") for text in _OUT_OF_SERVICE)


def plan(command: str, directory: Path, kafka: str, **options: Any) -> Plan:
    """A plan of a command under a release, with its default settings."""
    given = {"kafka": kafka, "config": None, "assignments": [], "topic_assignments": []}
    request = PlanRequest(target=target_dir([str(directory)]), options={"kafka": given, **options}, now_ms=NOW_MS)
    return make_plan(command, request).plan


def disagreements(directory: Path, kafka: str) -> list[str]:
    """Where verify and `truncate --as-broker` give two answers about a log directory."""
    planned = plan("truncate", directory, kafka, as_broker=True)
    changes = {change.path: change for change in planned.changes}
    refusals: dict[tuple[str | None, int | None], set[str]] = {}
    for refusal in planned.report.refusals:
        refusals.setdefault((refusal.topic, refusal.partition), set()).add(refusal.code)
    found: list[str] = []
    for finding in findings([directory], kafka):
        if finding.code not in DAMAGE_REASONS or not finding.path.endswith(".log") or not _is_served(finding):
            continue
        refused = refusals.get((finding.topic, finding.partition), set())
        change = changes.get(finding.path)
        if not _is_planned(finding, change, refused):
            did = None if change is None else (change.kind, change.size_bytes)
            found.append(f"{finding.code} {finding.path} {finding.position}: {finding.broker_action} {did} {refused}")
    return found


def _is_planned(finding: Finding, change: Change | None, refused: set[str]) -> bool:
    """Whether the action that verify reports is what truncate plans for the file."""
    action = finding.broker_action or ""
    stops, unknown = bool(refused & _STOPS), bool(refused & _UNKNOWN)
    if action.startswith("Does not start"):
        return stops
    if action.startswith("Does something here that cannot be predicted"):
        return unknown
    if stops or unknown:  # the start ends before it comes to this place, or does not look there
        return DAMAGE_REASONS[finding.code] not in _SEEN_AT_START
    position = finding.position or 0
    if action.startswith("Truncates"):
        return change is not None and change.size_bytes == _truncated_at(finding)
    if action.startswith("Deletes the whole segment"):
        return change is not None and change.kind == "remove"
    return change is None or (change.size_bytes or 0) >= position + _size(finding)


def _truncated_at(finding: Finding) -> int:
    """The byte that the text names, which is that of the finding where it says "here"."""
    found = re.match(r"Truncates the log (?:here|at byte ([\d,]+))\b", finding.broker_action or "")
    assert found, finding.broker_action
    return int(found[1].replace(",", "")) if found[1] else finding.position or 0


def _size(finding: Finding) -> int:
    return finding.size_bytes or 1


def _is_served(finding: Finding) -> bool:
    return partition_name(str(PurePath(finding.path).parent)).state is DirectoryState.CURRENT


def other_disagreements(directory: Path, kafka: str) -> list[str]:
    """Where dump, reindex and checkpoint do not find the damage in logs that verify finds."""
    damaged = {
        (each.path, each.position or 0): each
        for each in findings([directory], kafka)
        if DAMAGE_REASONS.get(each.code) in _SEEN_AT_START and each.path.endswith(".log")
    }
    missed: list[str] = []
    shown, in_order = _damage_rows(directory)
    for path in {path for path, _ in (*shown, *damaged)}:
        mine = {_place(DAMAGE_REASONS[each.code], at) for (file, at), each in damaged.items() if file == path}
        if path in in_order:  # only other files contradict a batch of it: the next segment, the leader epochs
            mine.discard(_OUT_OF_ORDER)
        theirs = {_place(reason, at) for (file, at), reason in shown.items() if file == path}
        if mine != theirs and len(mine) < SHOWN:  # verify counts the rest of very many
            missed.append(f"dump: {path}: {theirs} and not {mine}")
    refused = plan("reindex", directory, kafka).report.refusals
    missed += [
        f"reindex: {each.path} {each.position}: {each.message}"
        for each in refused
        if each.code == "reindex.damaged" and (each.path, each.position) not in damaged
    ]
    try:
        obstacles = plan("checkpoint", directory, kafka, mark_clean=True).report.refusals
    except RefusedError:  # not a log directory of a broker
        return missed
    known = {(each.path, each.position) for each in obstacles}
    missed += [
        f"checkpoint: {each.path} {each.position}: {each.code}"
        for key, each in damaged.items()
        if key not in known and each.severity == "error" and _is_served(each)
    ]
    return missed


def _place(reason: str, position: int) -> tuple[str, int]:
    """Reason and byte; of two batches in the wrong order dump names the second, verify the one that does not fit."""
    return _OUT_OF_ORDER if reason == _OUT_OF_ORDER[0] else (reason, position)


def _damage_rows(directory: Path) -> tuple[dict[tuple[str, int], str], set[str]]:
    """Reasons of the damage that dump shows in the frames of logs, by file and byte; logs in which offsets ascend."""
    request = DumpRequest(targets=tuple(resolve([str(directory)])), level="batches", path=True)
    cells: list[tuple[str, int, str]] = []
    ends: dict[str, int] = {}
    goes_back: set[str] = set()
    for chunk in dump(request, Report()):
        for row in chunk.rows():
            if chunk.table.name == "damage":
                cells.append((str(row["path"]), int(str(row["position"])), str(row["reason"])))
            elif chunk.table.name == "batch":
                path, last = str(row["path"]), int(str(row["last_offset"]))
                first = last if row["base_offset"] is None else int(str(row["base_offset"]))
                if first < ends.get(path, int(PurePath(path).name.partition(".")[0])):
                    goes_back.add(path)
                ends[path] = last + 1
    shown = {(path, at): reason for path, at, reason in cells if reason in _SEEN_AT_START and path.endswith(".log")}
    return shown, ends.keys() - goes_back


_STOPS: Final = frozenset({"truncate.broker-stops", *STARTS_LATER.values()})
_UNKNOWN: Final = frozenset({"truncate.not-foreseen", "truncate.split-first"})
_OUT_OF_ORDER: Final = ("offset-order", -1)
_SEEN_AT_START: Final = frozenset(
    {"torn-tail", "zero-filled", "bad-length", "unknown-magic", "crc-mismatch", "offset-order"}
)
