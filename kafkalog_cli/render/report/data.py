"""The data of the HTML report: partitions as maps of their segments, findings by code, and the figures of the run."""

from __future__ import annotations

import heapq
from collections import Counter
from typing import TYPE_CHECKING, Final, TypeVar

from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.ops.verify.engine import partition_row, state_of
from kafkalog_core.ops.verify.verdict import PartitionVerdict, damage_map
from kafkalog_core.structs import Struct, field, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.verify.verdict import PlaceVerdict, SegmentVerdict

__all__ = [
    "CodeFindings",
    "DamageMark",
    "Discontinuity",
    "Losses",
    "PartitionDetail",
    "PartitionMap",
    "PlaceFindings",
    "ReportData",
    "RunFacts",
    "SegmentBlock",
    "base_name",
    "losses_of",
    "lost_count",
    "partition_map",
    "stem",
]


BLOCKS: Final = 160
"""Maximum number of blocks in the map of a partition."""
APART: Final = 48
"""With more segments than this, adjacent segments without findings are drawn as one block."""
MARKS: Final = 4000
"""Maximum number of damage marks in the map of a partition."""
_GAP: Final = "segment.gap"
_RANK: Final = {"error": 0, "warning": 1, "info": 2}


class DamageMark(Struct, frozen=True):
    """A damaged part of a block: start and end as fractions of its width, and the first damaged byte."""

    start: float
    end: float
    position: int


class Discontinuity(Struct, frozen=True):
    """The offsets between a block and the one before it that neither has (`is_gap`), or that both have."""

    is_gap: bool
    first_offset: int
    last_offset: int


class Losses(Struct, frozen=True):
    """Ranges of offsets of one segment that may be lost; `is_open`: an unknown number of further ones too."""

    spans: tuple[tuple[int, int], ...]
    is_open: bool


class SegmentBlock(Struct, frozen=True, kw_only=True):
    """One segment, or `count` adjacent ones: path and base offset of the first one, sizes, offsets and times of all.

    `severity` is the worst of the findings about their files; None: no findings.
    """

    path: str
    base_offset: int
    count: int
    size_bytes: int
    batches: int
    records: int
    first_offset: int | None
    last_offset: int | None
    first_timestamp_ms: int | None
    max_timestamp_ms: int | None
    is_last: bool
    severity: str | None
    marks: tuple[DamageMark, ...]
    damage_count: int
    damage_bytes: int
    lost_offsets: tuple[tuple[int, int], ...]
    gaps: int
    discontinuity: Discontinuity | None


class PartitionMap(Struct, frozen=True):
    """The blocks of a partition; `hidden` is the number of segments that are not in them."""

    blocks: tuple[SegmentBlock, ...]
    hidden: int


def base_name(path: str) -> str:
    """Return the last part of a path."""
    return path.rstrip("/").rpartition("/")[2] or path


def stem(path: str) -> str:
    """Return the path of a segment's file without its suffix, which all files of the segment share."""
    head, slash, name = path.rpartition("/")
    return f"{head}{slash}{name.partition('.')[0]}"


def losses_of(segments: Sequence[SegmentVerdict], index: int) -> Losses:
    """Return the offsets that may be lost in a segment, up to the base offset of the next one."""
    end = segments[index + 1].base_offset if index + 1 < len(segments) else None
    spans, is_open = [], False
    for first, last in segments[index].lost_offsets:
        if end is None and last >= MAX_INT64:
            is_open = True
        elif end is None or first < end:
            spans.append((first, last if end is None else min(last, end - 1)))
    return Losses(tuple(spans), is_open)


def lost_count(verdict: PartitionVerdict) -> int:
    """Return the number of offsets that are in no readable batch: in damage, and in gaps of severity error."""
    gaps = {finding.path for finding in verdict.findings if finding.code == _GAP and finding.severity == "error"}
    spans: list[tuple[int, int]] = []
    for index, segment in enumerate(verdict.segments):
        if "v07" in segment.formats:  # its offsets are bytes, not records
            continue
        spans += losses_of(verdict.segments, index).spans if segment.lost_offsets else ()
        discontinuity = _discontinuity(verdict.segments[index - 1], segment) if index and segment.path in gaps else None
        if discontinuity is not None and discontinuity.is_gap:
            spans.append((discontinuity.first_offset, discontinuity.last_offset))
    count, end = 0, -1
    for first, last in sorted(spans):
        count += max(last - max(first, end + 1) + 1, 0)
        end = max(end, last)
    return count


def partition_map(verdict: PartitionVerdict) -> PartitionMap:
    """Return the map of a partition, with a bounded number of blocks."""
    severities: dict[str, str] = {}
    for finding in verdict.findings:
        key = stem(finding.path)
        severities[key] = min(severities.get(key, "info"), finding.severity, key=lambda name: _RANK[name])
    segments = verdict.segments
    cells = min(max(MARKS // max(min(len(segments), BLOCKS), 1), 16), 200)
    singles = [_block(segments, index, severities, cells) for index in range(len(segments))]
    blocks = singles if len(singles) <= APART else _merged(singles)
    shown = blocks[:BLOCKS]
    return PartitionMap(tuple(shown), sum(block.count for block in blocks[BLOCKS:]))


def _block(segments: Sequence[SegmentVerdict], index: int, severities: dict[str, str], cells: int) -> SegmentBlock:
    segment = segments[index]
    return SegmentBlock(
        path=segment.path,
        base_offset=segment.base_offset,
        count=1,
        size_bytes=segment.size_bytes,
        batches=segment.batches,
        records=segment.records,
        first_offset=segment.first_offset,
        last_offset=segment.last_offset,
        first_timestamp_ms=segment.first_timestamp_ms,
        max_timestamp_ms=segment.max_timestamp_ms,
        is_last=segment.is_last,
        severity=severities.get(stem(segment.path)),
        marks=_marks(segment, cells),
        damage_count=segment.damage_count,
        damage_bytes=segment.damage_bytes,
        lost_offsets=losses_of(segments, index).spans[:cells],
        gaps=segment.gap_count,
        discontinuity=_discontinuity(segments[index - 1], segment) if index else None,
    )


def _marks(segment: SegmentVerdict, cells: int) -> tuple[DamageMark, ...]:
    """Return the runs of damaged cells, each with its first damaged byte."""
    if not segment.damage:
        return ()
    marks: list[DamageMark] = []
    shown = [*damage_map(segment, cells), False]
    start: int | None = None
    size_bytes = max(segment.size_bytes, 1)
    positions = iter(segment.damage)
    for cell, is_damaged in enumerate(shown):
        if is_damaged and start is None:
            start = cell
        elif not is_damaged and start is not None:
            from_byte = start * size_bytes // cells
            position = next((at for at, length in positions if at + max(length, 1) > from_byte), from_byte)
            marks.append(DamageMark(start / cells, cell / cells, position))
            start = None
    return tuple(marks)


def _discontinuity(before: SegmentVerdict, segment: SegmentVerdict) -> Discontinuity | None:
    if before.last_offset is None:
        return None
    is_v07 = "v07" in before.formats  # its last offset is the byte address after the last message
    expected = before.last_offset + (0 if is_v07 else 1)
    first = segment.base_offset
    if first > expected:
        return Discontinuity(True, expected, first - 1)
    return Discontinuity(False, first, expected - 1) if first < expected else None


def _merged(singles: Sequence[SegmentBlock]) -> list[SegmentBlock]:
    """Join adjacent blocks without findings; blocks with damage, those after a gap, and the last one are not joined."""
    result: list[SegmentBlock] = []
    for block in singles:
        if result and _is_plain(block) and _is_plain(result[-1]):
            result[-1] = _joined(result[-1], block)
        else:
            result.append(block)
    return result


def _is_plain(block: SegmentBlock) -> bool:
    return not (block.marks or block.is_last or block.discontinuity or block.severity in {"warning", "error"})


def _joined(first: SegmentBlock, second: SegmentBlock) -> SegmentBlock:
    times = [time for time in (first.max_timestamp_ms, second.max_timestamp_ms) if time is not None]
    return replace(
        first,
        count=first.count + second.count,
        size_bytes=first.size_bytes + second.size_bytes,
        batches=first.batches + second.batches,
        records=first.records + second.records,
        first_offset=second.first_offset if first.first_offset is None else first.first_offset,
        last_offset=first.last_offset if second.last_offset is None else second.last_offset,
        first_timestamp_ms=(
            second.first_timestamp_ms if first.first_timestamp_ms is None else first.first_timestamp_ms
        ),
        max_timestamp_ms=max(times, default=None),
        severity=first.severity or second.severity,
        damage_count=0,
        damage_bytes=0,
        lost_offsets=(),
        gaps=first.gaps + second.gaps,
    )


DETAILED: Final = 150
"""Maximum number of partitions with a section of their own."""
LISTED: Final = 4000
"""Maximum number of rows in the table of partitions that are not clean, and in that of clean ones."""
SHOWN_FINDINGS: Final = 60
"""Maximum number of findings of one partition."""
PLACE_FINDINGS: Final = 400
"""Maximum number of findings about log directories and single files."""
CODE_PLACES: Final = 12
CODE_TEXTS: Final = 4
Kept = TypeVar("Kept")
_NO_START: Final = ("Does not start.", "Does not start:", "Does not start,")
"""The first words of an unconditional action of a broker that does not start."""


class RunFacts(Struct, frozen=True, kw_only=True):
    """The facts of a run: version, level, targets, start.

    `selection` is empty if all partitions were selected; `refused` has sentences about targets that could not be read.
    """

    version: str
    level: str
    targets: tuple[str, ...]
    selection: str
    started_ms: int
    refused: tuple[str, ...] = ()


class PartitionDetail(Struct, frozen=True, kw_only=True):
    """A partition that is not clean; `key` is the prefix of its anchors, `hidden` the number of further findings."""

    key: str
    name: str
    row: Mapping[str, object]
    drawing: PartitionMap
    findings: tuple[Finding, ...]
    hidden: int


class PlaceFindings(Struct, frozen=True):
    """The findings about a log directory, or about a file in PATH."""

    key: str
    path: str
    findings: tuple[Finding, ...]
    hidden: int


class CodeFindings(Struct):
    """The findings of one code: their number, the first places, and their texts."""

    severities: Counter[str] = field(default_factory=Counter)
    places: list[tuple[str, Finding]] = field(default_factory=list)
    actions: Counter[str] = field(default_factory=Counter)
    cures: Counter[str] = field(default_factory=Counter)

    @property
    def severity(self) -> str:
        """The worst severity of the findings."""
        return min(self.severities, key=lambda severity: _RANK.get(severity, 2))

    @property
    def stops_broker(self) -> bool:
        """Whether a broker does not start because of it."""
        return self.severity == "error" and any(action.startswith(_NO_START) for action in self.actions)

    def add(self, name: str, finding: Finding) -> None:
        """Count a finding of the partition or place of that name."""
        is_worst = not self.severities or _RANK[finding.severity] < _RANK[self.severity]
        self.severities[finding.severity] += 1
        for texts, text in ((self.actions, finding.broker_action), (self.cures, finding.cure)):
            if text and (text in texts or len(texts) < CODE_TEXTS):
                texts[text] += 1
        if is_worst:
            self.places.insert(0, (name, finding))
            del self.places[CODE_PLACES:]
        elif len(self.places) < CODE_PLACES:
            self.places.append((name, finding))


class ReportData:
    """The data of the report, collected from verdicts in memory that does not grow with the number of partitions."""

    def __init__(self) -> None:
        self.states: Counter[str] = Counter()
        self.codes: dict[str, CodeFindings] = {}
        self.clean: list[Mapping[str, object]] = []
        self.places: list[PlaceFindings] = []
        self.place_count = 0
        self.lost_offsets = 0
        self.has_open_losses = False
        self.at_risk_bytes = 0
        self.formats: set[str] = set()
        self._details: list[tuple[tuple[int, ...], PartitionDetail]] = []
        self._listed: list[tuple[tuple[int, ...], Mapping[str, object]]] = []
        self._seen = 0
        self._place_findings = 0

    def add(self, verdict: PartitionVerdict | PlaceVerdict) -> None:
        """Count a verdict, and keep the part of it that the report shows."""
        name = base_name(verdict.path)
        is_partition = isinstance(verdict, PartitionVerdict)
        for finding in verdict.findings:
            place = name if is_partition or finding.path == verdict.path else f"{name}/{base_name(finding.path)}"
            self.codes.setdefault(finding.code, CodeFindings()).add(place, finding)
        if isinstance(verdict, PartitionVerdict):
            self._add_partition(verdict, name)
        elif verdict.findings:
            self.place_count += 1
            room = max(PLACE_FINDINGS - self._place_findings, 1)
            findings = _worst(verdict.findings, room)
            self._place_findings += len(findings)
            key = f"d{len(self.places)}"
            if len(self.places) < PLACE_FINDINGS:
                self.places.append(PlaceFindings(key, verdict.path, findings, len(verdict.findings) - len(findings)))

    @property
    def details(self) -> list[PartitionDetail]:
        """The partitions with a section of their own, the worst first."""
        return [detail for _, detail in sorted(self._details, key=_badness, reverse=True)]

    @property
    def listed(self) -> list[Mapping[str, object]]:
        """Rows of the partitions that are not clean, the worst first."""
        return [row for _, row in sorted(self._listed, key=_badness, reverse=True)]

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return self.states.total()

    def codes_by_rank(self) -> list[tuple[str, CodeFindings]]:
        """Return the codes, the worst first: those that stop a broker, then by number of findings."""

        def rank(item: tuple[str, CodeFindings]) -> tuple[int, bool, int, str]:
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
            if state == "damaged":  # otherwise a crash left it, and no producer got an acknowledgement
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
            detail = PartitionDetail(
                key=f"p{self._seen}",
                name=name,
                row=row,
                drawing=partition_map(verdict),
                findings=findings,
                hidden=len(verdict.findings) - len(findings),
            )
            _keep(self._details, (badness, detail), DETAILED)


def _badness_of(row: Mapping[str, object], seen: int) -> tuple[int, ...]:
    """Return the key that orders partitions by severity; the earlier partition is worse if all else is equal."""
    counts = [int(str(row[name])) for name in ("errors", "damage_bytes", "warnings")]
    return (int(bool(counts[0])), counts[1], counts[0], counts[2], -seen)


def _badness(item: tuple[tuple[int, ...], object]) -> tuple[int, ...]:
    return item[0]


def _keep(heap: list[tuple[tuple[int, ...], Kept]], item: tuple[tuple[int, ...], Kept], limit: int) -> None:
    """Add an item, and remove the least bad one if there are too many."""
    if len(heap) < limit:
        heapq.heappush(heap, item)
    else:
        heapq.heappushpop(heap, item)


def _worst(findings: Iterable[Finding], limit: int) -> tuple[Finding, ...]:
    """Return up to `limit` findings of the worst severities, in their order within a severity."""
    return tuple(sorted(findings, key=lambda finding: _RANK[finding.severity])[:limit])
