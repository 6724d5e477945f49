"""The segments of real brokers follow each other: no gap and no overlap is said of a healthy directory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.dump.dump import dump
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.storage.logdir import holds_segments
from tests.support.corpus import archives, faults
from tests.support.corpus.faults import BEFORE, SHEET, Fault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.corpus

BREAKS_THE_CHAIN = {
    "leftover.swap_without_original.below": "segment.gap",
    "log.length.huge.above": "segment.gap",
    "log.length.huge.below": "segment.gap",
    "log.length.small.below": "segment.gap",
    "log.missing.index_left.above": "segment.gap",
    "log.missing.index_left.below": "segment.gap",
    "log.zero_length.above": "segment.gap",
    "log.zero_length.below": "segment.gap",
    "segment.missing.above": "segment.gap",
    "segment.missing.below": "segment.gap",
    "segment.overlapping_copy.above": "segment.overlap",
    "segment.overlapping_copy.below": "segment.overlap",
}  # a renamed segment breaks nothing: its offsets are there, under another name, which verify reports


def _partitions(tree: Path) -> Iterator[str]:
    for path, _, _ in os.walk(tree):
        is_layer_of_a_fault = "/before/" in f"{path}/" and "/07" in path
        if holds_segments(path) and not is_layer_of_a_fault:
            yield path


def _alarms(path: str) -> set[str]:
    """Codes of severity warning or error about gaps and overlaps; the harmless ones are shown with the segments."""
    request = DumpRequest(targets=tuple(resolve([path])), level="segments")
    rows = [row for chunk in dump(request, Report()) if chunk.table.name == "finding" for row in chunk.rows()]
    codes = {str(row["code"]) for row in rows if row["severity"] != "info"}
    return {code for code in codes if code.startswith(("segment.gap", "segment.overlap"))}


def test_healthy_partitions_raise_no_alarm(corpus: Path) -> None:
    paths = list(_partitions(corpus))
    assert paths
    assert {path: codes for path in paths if (codes := _alarms(path))} == {}


def _faults() -> list[Fault]:
    texts = archives.contents(archives.source()).texts
    found = [Fault.parse(path.removesuffix(f"/{SHEET}"), text) for path, text in texts.items() if path.endswith(SHEET)]
    return [fault for fault in found if BEFORE in fault.states]


def test_faults_break_the_chain_where_segments_are_concerned(corpus: Path, tmp_path: Path) -> None:
    for number, fault in enumerate(_faults()):
        name = os.path.basename(fault.path)
        expected = {BREAKS_THE_CHAIN[name]} if name in BREAKS_THE_CHAIN else set()
        home = tmp_path / str(number)
        faults.build(corpus, fault, BEFORE, home)
        found = {code for path in _partitions(home) for code in _alarms(path)}
        assert found == expected, fault.path
