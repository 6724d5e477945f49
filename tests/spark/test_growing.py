"""Incremental export of a log that grows, rolls and loses its oldest segments between the runs.

Whatever happened in between: each record is there exactly once, or its offset is named in a hole.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.spark.export.export import ExportRequest, export
from kafkalog_core.spark.lake.store import Store
from tests.spark.growing import GrowingLog
from tests.spark.judging import Row, parquet_rows
from tests.support.inline import Inline

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.build import Record

NOW_MS = 1_796_000_000_000
HOLE = "export.gone-before"


class Exporting:
    """Exports one log again and again into the same directory."""

    def __init__(self, log: GrowingLog, output: Path) -> None:
        self.log = log
        self.output = output
        self.runs = 0
        self.told: list[Row] = []

    def run(self, workers: Inline | None = None, **options: object) -> list[Row]:
        """The rows of one more run."""
        self.runs += 1
        targets = tuple(resolve([str(self.log.directory)]))
        request = ExportRequest(targets=targets, output=Store.of(str(self.output)), **options)  # type: ignore[arg-type]
        chunks = export(workers or Inline(), request, Report(), run_id=f"run-{self.runs:03}", now_ms=NOW_MS + self.runs)
        rows = [{"type": chunk.table.name, **row} for chunk in chunks for row in chunk.rows()]
        self.told += rows
        return rows

    def data(self) -> dict[int, Row]:
        """The data records in Parquet by offset, each of them once and in order."""
        rows = parquet_rows(self.output).get(("grown", 0), [])
        offsets = [int(str(row["offset"])) for row in rows]
        assert offsets == sorted(set(offsets))
        return {int(str(row["offset"])): row for row in rows if row["control_type"] is None}

    def files(self) -> dict[str, int]:
        """Every file of the output with its time of modification."""
        return {str(path): path.stat().st_mtime_ns for path in self.output.rglob("*") if path.is_file()}


@pytest.fixture
def exporting(tmp_path: Path, request: pytest.FixtureRequest) -> Exporting:
    seed = getattr(request, "param", 0)
    return Exporting(GrowingLog(tmp_path / "disk" / "grown-0", seed=seed), tmp_path / "out")


def _same(row: Row, record: Record) -> bool:
    headers = [(key.decode(), value) for key, value in record.headers]
    wanted = (record.timestamp_ms, record.key, record.value, headers)
    return (row["timestamp_ms"], row["key"], row["value"], row["headers"]) == wanted


def _assert_exactly(exporting: Exporting, missing: set[int] = frozenset()) -> None:  # type: ignore[assignment]
    found, wanted = exporting.data(), exporting.log.truth
    assert set(found) == set(wanted) - missing
    assert [offset for offset, row in found.items() if not _same(row, wanted[offset])] == []


def test_what_is_appended_comes_with_the_next_run(exporting: Exporting) -> None:
    for _ in range(4):
        exporting.log.append(5)
        exporting.run()
        _assert_exactly(exporting)


def test_a_run_without_news_writes_nothing(exporting: Exporting) -> None:
    exporting.log.append(5)
    exporting.run()
    before = exporting.files()
    exporting.run()
    assert exporting.files() == before


def test_a_batch_that_is_being_written_comes_once_it_is_whole(exporting: Exporting) -> None:
    exporting.log.append(3)
    exporting.log.begin()
    whole = set(exporting.log.truth)
    exporting.run()
    assert set(exporting.data()) < whole
    exporting.log.append(2)
    exporting.run()
    _assert_exactly(exporting)


def test_rolls_between_runs(exporting: Exporting) -> None:
    for _ in range(3):
        exporting.log.append(4)
        exporting.run()
        exporting.log.roll()
        exporting.run()
        exporting.log.append(2)
    exporting.run()
    _assert_exactly(exporting)


def test_segments_that_retention_took_after_their_export_are_no_hole(exporting: Exporting) -> None:
    for _ in range(3):
        exporting.log.append(4)
        exporting.log.roll()
    exporting.run()
    exporting.log.retain(2)
    exporting.log.append(3)
    told = exporting.run()
    _assert_exactly(exporting)
    assert [row for row in told if row["type"] == "finding"] == []


def test_segments_that_retention_took_before_their_export_are_a_hole_with_its_offsets(exporting: Exporting) -> None:
    exporting.log.append(4)
    exporting.run()
    done = exporting.log.end
    exporting.log.append(4)
    exporting.log.roll()
    exporting.log.append(2)
    exporting.log.retain(1)
    start = exporting.log.start
    told = exporting.run()
    _assert_exactly(exporting, {offset for offset in exporting.log.truth if done <= offset < start})
    [hole] = [row for row in told if row["type"] == "finding"]
    assert hole["code"] == HOLE
    assert _span(hole) == range(done, start)
    assert [row for row in exporting.run() if row["type"] == "finding"] == [], "a hole is told once"


class Meanwhile(Inline):
    """Something happens on the disk between the planning of a run and each piece of its work."""

    def __init__(self, event) -> None:
        super().__init__()
        self._event = event

    def map(self, work_of, pieces) -> Iterator[object]:
        def after(pieces):
            for piece in pieces:
                self._event()
                yield piece

        return super().map(work_of, after(pieces))


def test_a_log_that_grows_and_rolls_under_a_run(exporting: Exporting) -> None:
    log = exporting.log
    log.append(5)

    def event() -> None:
        log.append(2)
        log.roll()
        log.begin()

    exporting.run(Meanwhile(event))
    seen = set(exporting.data())
    assert seen <= set(log.truth)
    assert seen, "what was there before the run"
    log.append(1)
    exporting.run()
    _assert_exactly(exporting)


def test_retention_that_comes_under_a_run(exporting: Exporting) -> None:
    """A segment that is gone when its turn comes is a hole with a name, then or in the next run, never silence."""
    log = exporting.log
    for _ in range(3):
        log.append(4)
        log.roll()
    log.append(1)
    told = exporting.run(Meanwhile(lambda: log.retain(1)))
    told += exporting.run()
    missing = set(log.truth) - set(exporting.data())
    assert missing <= set(range(log.start))
    assert not missing or [row for row in told if row["type"] == "finding"]


@pytest.mark.parametrize("exporting", range(12), indirect=True)
def test_any_course_of_events(exporting: Exporting) -> None:
    """Seeded courses of appends, half written batches, rolls, retention and exports."""
    log = exporting.log
    log.append(2)
    exporting.run()
    lost: set[int] = set()
    for _ in range(25):
        event = log.chance.choice(["append", "append", "begin", "roll", "retain", "run", "run"])
        if event == "run":
            exporting.run()
            continue
        before = set(range(log.start))
        getattr(log, event)()
        lost |= {offset for offset in set(range(log.start)) - before if offset in log.truth}
    log.roll()
    exporting.run()
    lost -= set(exporting.data())
    _assert_exactly(exporting, lost)
    holes = [row for row in exporting.told if row.get("code") == HOLE]
    assert bool(holes) == bool(lost)
    assert {offset for row in holes for offset in _span(row)} >= lost


def _span(row: Row) -> range:
    """The offsets that a hole's sentence names: its first one, and the last number in it."""
    numbers = [int(word) for word in re.findall(r"\d+", str(row["message"]))]
    return range(int(str(row["offset"])), max(numbers) + 1)
