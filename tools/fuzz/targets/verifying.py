"""`verify` over a directory whose files are the input."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from kafkalog_cli.render.summary import finding_lines
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import KafkalogError
from kafkalog_core.findings import FINDING_TYPES
from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.kafka.rules import producers
from kafkalog_core.ops.verify import engine, indexes, work
from kafkalog_core.ops.verify.engine import count, rows_of_verdict
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict
from tools.fuzz.directories import MTIME_MS, PARTITIONS, SPOOL, unpack, written_paths
from tools.fuzz.memory import check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.verify.request import Level
    from kafkalog_core.ops.verify.verdict import SegmentVerdict

__all__ = ["verification"]

Verdicts = list[PartitionVerdict | PlaceVerdict]

_LEVELS: Final[tuple[Level, ...]] = ("records", "records", "checksums", "headers")
_NOW_MS: Final = (MTIME_MS + 60_000, 0, MAX_INT64, 1_500_000_000_000)
_LIMITS: Final = (1024 * 1024, 1024 * 1024, 1024 * 1024, 300)
_WIDTH: Final = 100
_NOT_FILLED: Final = re.compile(r"\{[a-z_]+(?::[^}]*)?\}")

# Windows, tables and parts are so small that their borders are within inputs.
vars(indexes).update(WINDOW_ENTRIES=4, WINDOW_BYTES=64)
vars(producers).update(_FIRST_CAPACITY=2)


class _Pool:
    """A pool without processes: the pieces are done here, one after another."""

    scratch = SPOOL
    jobs = 2

    def __init__(self, *_: object) -> None:
        """As Pool's."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""

    def map(self, work_of: Callable[..., Any], pieces: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """As Pool's."""
        return (work_of(*piece, lambda _: None) for piece in pieces)


vars(engine).update(Pool=_Pool)


class _Keeper:
    """Lines of a run for the next one."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def lines_of(self, partition: str) -> Sequence[str]:
        """As Keeper's."""
        return tuple(self._lines.get(partition, ()))

    def keep(self, partition: str, index: int, line: str) -> None:
        """As Keeper's."""
        lines = self._lines.setdefault(partition, [])
        check(len(lines) >= index, f"line {index} after {len(lines)}")
        lines[index:] = [line]

    def skipped(self, size_bytes: int) -> None:
        """As Keeper's."""
        check(size_bytes > 0, f"{size_bytes} bytes skipped")


class _Options(NamedTuple):
    """What the first two bytes of an input say; all zero is the most common run."""

    first: int
    second: int

    @property
    def partition(self) -> str:
        return PARTITIONS[self.first >> 2 & 3]

    @property
    def resumes(self) -> bool:
        return bool(self.first & 32)

    @property
    def splits(self) -> bool:
        return bool(self.first & 64)

    def request(self, paths: list[str], jobs: int = 1) -> VerifyRequest:
        return VerifyRequest(
            targets=tuple(resolve(paths)),
            level=_LEVELS[self.first & 3],
            now_ms=_NOW_MS[self.second >> 2 & 3],
            max_batch_bytes=_LIMITS[self.second >> 4 & 3],
            jobs=jobs,
        )


def verification(data: bytes) -> object:
    """Return verdicts whose findings are within their files; pieces, and what a run has kept, give the same ones."""
    head, files = unpack(data)
    options = _Options(*head.ljust(2, b"\0"))
    paths = written_paths(options.partition, files, options.second)
    try:
        verdicts = list(engine.verify(options.request(paths)))
    except KafkalogError as error:
        return type(error).__name__, str(error)
    for verdict in verdicts:
        _check_verdict(verdict)
    rows = _rows(verdicts)
    if options.splits:
        _check_split(options, paths, rows)
    if options.resumes:
        keeper = _Keeper()
        for when in ("kept", "resumed"):
            again = list(engine.verify(options.request(paths), keeper=keeper))
            check(_rows(again) == rows, f"{when}: {again}, else {verdicts}")
    return rows


def _check_split(options: _Options, paths: list[str], rows: list[bytes]) -> None:
    before = work.SHARED_PARTITION_BYTES
    for module in (work, engine):
        vars(module).update(SHARED_PARTITION_BYTES=200)
    try:
        apart = list(engine.verify(options.request(paths, jobs=2)))
    finally:
        for module in (work, engine):
            vars(module).update(SHARED_PARTITION_BYTES=before)
    check(_rows(apart) == rows, f"in pieces {_rows(apart)}, else {rows}")


def _rows(verdicts: Verdicts) -> list[bytes]:
    """All rows as JSON lines."""
    report = Report()
    lines: list[bytes] = []
    for verdict in verdicts:
        count(verdict, report)
        for chunk in rows_of_verdict(verdict):
            lines += bytes(chunk.ndjson("auto")).splitlines(keepends=True)
    lines.append(json.dumps(report.summary_row()).encode())
    for line in lines:
        json.loads(line)
    return lines


def _check_verdict(verdict: PartitionVerdict | PlaceVerdict) -> None:
    for finding in verdict.findings:
        _check_finding(finding)
    for line in finding_lines([finding.row() for finding in verdict.findings], _WIDTH):
        check(line.plain.isprintable(), f"a line that does not print: {line.plain!r}")
    if isinstance(verdict, PartitionVerdict):
        for segment in verdict.segments:
            _check_segment(segment)
        if verdict.at_risk_bytes is not None:
            size_bytes = sum(segment.size_bytes for segment in verdict.segments)
            check(0 <= verdict.at_risk_bytes <= size_bytes, f"{verdict.at_risk_bytes} of {size_bytes} bytes at risk")


def _check_finding(finding: Finding) -> None:
    check(finding.code in FINDING_TYPES, f"{finding.code} is not in the catalog")
    for text in (finding.message, finding.broker_action, finding.cure):
        check(text is None or (bool(text) and text == text.strip()), f"{finding.code}: {text!r}")
    check(not _NOT_FILLED.search(finding.cure or ""), f"{finding.code}: {finding.cure}")
    if finding.position is None:
        return
    check(os.path.isfile(finding.path), f"a position in something that is not a file: {finding}")
    file_bytes = os.stat(finding.path).st_size
    end = finding.position + (finding.size_bytes or 0)
    check(0 <= finding.position <= end <= file_bytes, f"outside of {file_bytes} bytes: {finding}")


def _check_segment(segment: SegmentVerdict) -> None:
    end = 0
    for position, size_bytes in segment.damage:
        check(position >= end and size_bytes > 0, f"damage {segment.damage}")
        end = position + size_bytes
    check(end <= segment.size_bytes, f"damage {segment.damage} of {segment.size_bytes} bytes")
    for first, last in segment.lost_offsets:
        check(first <= MAX_INT64 and last <= MAX_INT64, f"lost offsets {segment.lost_offsets}")
