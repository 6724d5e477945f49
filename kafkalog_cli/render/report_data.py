"""What the HTML report keeps of the verdicts that pass by: the worst partitions in full, counts of all, no more."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from kafkalog_cli.render.report_blocks import Drawing, drawing_of, losses_of, lost_count, tail
from kafkalog_core.ops.verify.rows import partition_row, state_of
from kafkalog_core.ops.verify.verdict import PartitionVerdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.verify.verdict import PlaceVerdict

__all__ = ["Code", "Collected", "Detail", "Place", "RunFacts"]

DETAILED: Final = 150
"""Partitions that get a section of their own."""
LISTED: Final = 4000
"""Rows of the table of partitions that are not clean, and of that of clean ones."""
SHOWN_FINDINGS: Final = 60
"""Findings of one partition that are told in full."""
PLACE_FINDINGS: Final = 400
"""Findings about log directories and single files that are told in full."""
CODE_PLACES: Final = 12
CODE_TEXTS: Final = 4
Kept = TypeVar("Kept")
_NO_START: Final = ("Does not start.", "Does not start:", "Does not start,")
"""How an action begins that needs no condition for it."""
_RANK: Final = {"error": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What the run was asked for; `selection` is empty where everything was meant.

    `refused` are sentences about targets that could not be read.
    """

    version: str
    level: str
    targets: tuple[str, ...]
    selection: str
    started_ms: int
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """A partition that is not clean; `key` is its part of anchors, `hidden` counts findings beyond `findings`."""

    key: str
    name: str
    row: Mapping[str, object]
    drawing: Drawing
    findings: tuple[Finding, ...]
    hidden: int


@dataclass(frozen=True, slots=True)
class Place:
    """A log directory, or a file that was named itself, with findings."""

    key: str
    path: str
    findings: tuple[Finding, ...]
    hidden: int


@dataclass(slots=True)
class Code:
    """All findings of one code: how often, the first places, and the texts that differ."""

    severities: Counter[str] = field(default_factory=Counter)
    places: list[tuple[str, Finding]] = field(default_factory=list)
    actions: Counter[str] = field(default_factory=Counter)
    cures: Counter[str] = field(default_factory=Counter)

    @property
    def severity(self) -> str:
        """The worst."""
        return min(self.severities, key=lambda severity: _RANK.get(severity, 2))

    @property
    def stops_broker(self) -> bool:
        """Whether a broker does not start because of it."""
        return self.severity == "error" and any(action.startswith(_NO_START) for action in self.actions)

    def add(self, name: str, finding: Finding) -> None:
        """Count a finding of the partition or place of that name."""
        is_worst = not self.severities or _RANK[finding.severity] < _RANK[self.severity]
        self.severities[finding.severity] += 1
        for texts, said in ((self.actions, finding.broker_action), (self.cures, finding.cure)):
            if said and (said in texts or len(texts) < CODE_TEXTS):
                texts[said] += 1
        if is_worst:
            self.places.insert(0, (name, finding))
            del self.places[CODE_PLACES:]
        elif len(self.places) < CODE_PLACES:
            self.places.append((name, finding))


class Collected:
    """Takes verdicts one by one, in memory that does not grow with the number of partitions."""

    def __init__(self) -> None:
        self.states: Counter[str] = Counter()
        self.codes: dict[str, Code] = {}
        self.clean: list[Mapping[str, object]] = []
        self.places: list[Place] = []
        self.place_count = 0
        self.lost_offsets = 0
        self.has_open_losses = False
        self.at_risk_bytes = 0
        self.formats: set[str] = set()
        self._details: list[tuple[tuple[int, ...], Detail]] = []
        self._listed: list[tuple[tuple[int, ...], Mapping[str, object]]] = []
        self._seen = 0
        self._place_findings = 0

    def add(self, verdict: PartitionVerdict | PlaceVerdict) -> None:
        """Count a verdict and keep what of it is to be shown."""
        name = tail(verdict.path)
        is_partition = isinstance(verdict, PartitionVerdict)
        for finding in verdict.findings:
            place = name if is_partition or finding.path == verdict.path else f"{name}/{tail(finding.path)}"
            self.codes.setdefault(finding.code, Code()).add(place, finding)
        if isinstance(verdict, PartitionVerdict):
            self._add_partition(verdict, name)
        elif verdict.findings:
            self.place_count += 1
            room = max(PLACE_FINDINGS - self._place_findings, 1)
            findings = _worst(verdict.findings, room)
            self._place_findings += len(findings)
            key = f"d{len(self.places)}"
            if len(self.places) < PLACE_FINDINGS:
                self.places.append(Place(key, verdict.path, findings, len(verdict.findings) - len(findings)))

    @property
    def details(self) -> list[Detail]:
        """The partitions that are told in full, the worst first."""
        return [detail for _, detail in sorted(self._details, key=_badness, reverse=True)]

    @property
    def listed(self) -> list[Mapping[str, object]]:
        """Rows of the partitions that are not clean, the worst first."""
        return [row for _, row in sorted(self._listed, key=_badness, reverse=True)]

    @property
    def partitions(self) -> int:
        """How many there were."""
        return self.states.total()

    def codes_by_rank(self) -> list[tuple[str, Code]]:
        """The worst first: what keeps a broker from starting, then by how often it was found."""

        def rank(item: tuple[str, Code]) -> tuple[int, bool, int, str]:
            code, group = item
            return _RANK[group.severity], not group.stops_broker, -group.severities.total(), code

        return sorted(self.codes.items(), key=rank)

    def _add_partition(self, verdict: PartitionVerdict, name: str) -> None:
        state = state_of(verdict)
        self._seen += 1
        self.states[state] += 1
        self.at_risk_bytes += verdict.at_risk_bytes or 0
        for index, segment in enumerate(verdict.segments):
            self.formats.update(segment.formats)
            if state == "damaged":  # elsewhere it is what a crash leaves, which was not acknowledged
                self.has_open_losses |= bool(segment.lost_offsets) and losses_of(verdict.segments, index).is_open
        self.lost_offsets += lost_count(verdict) if state == "damaged" else 0
        row = partition_row(verdict) | {"name": name, "key": f"p{self._seen}"}
        if state == "clean":
            if len(self.clean) < LISTED:
                self.clean.append(row)
            return
        badness = _badness_of(row, self._seen)
        _keep(self._listed, (badness, row), LISTED)
        if len(self._details) < DETAILED or badness > self._details[0][0]:
            findings = _worst(verdict.findings, SHOWN_FINDINGS)
            detail = Detail(
                key=f"p{self._seen}",
                name=name,
                row=row,
                drawing=drawing_of(verdict),
                findings=findings,
                hidden=len(verdict.findings) - len(findings),
            )
            _keep(self._details, (badness, detail), DETAILED)


def _badness_of(row: Mapping[str, object], seen: int) -> tuple[int, ...]:
    """What decides which partition is worse; the earlier one where nothing else does."""
    counts = [int(str(row[name])) for name in ("errors", "damage_bytes", "warnings")]
    return (int(bool(counts[0])), counts[1], counts[0], counts[2], -seen)


def _badness(item: tuple[tuple[int, ...], object]) -> tuple[int, ...]:
    return item[0]


def _keep(heap: list[tuple[tuple[int, ...], Kept]], item: tuple[tuple[int, ...], Kept], limit: int) -> None:
    """Put an item in and the least bad one out where there are too many."""
    if len(heap) < limit:
        heapq.heappush(heap, item)
    else:
        heapq.heappushpop(heap, item)


def _worst(findings: Iterable[Finding], limit: int) -> tuple[Finding, ...]:
    """The first ones of the worst severities; the order of the files stays."""
    return tuple(sorted(findings, key=lambda finding: _RANK[finding.severity])[:limit])
