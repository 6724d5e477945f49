"""`checkpoint` on the text files of real brokers: those that are whole stay, those that a person broke are repaired.

Every fault of a text file of the corpus is there; what a broker of 4.3.1 made of it is in the corpus's own table.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.kafka.sim.logdir.top_files import OFFSET_KINDS, read_broker_dir
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.storage.logdir import is_broker_dir, read_log_dir
from tests.support.checkpoint_dirs import NOW_MS, changed, draft
from tests.support.corpus import archives, faults

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalog_core.ops.repair.plan import PlanDraft

TEXT_FAULTS = ("recovery_point.", "high_watermark.", "log_start.", "epochs.", "partition_metadata.", "meta_properties.")
LEFT = {
    "high_watermark.empty": "a broker finds high watermarks anew",
    "high_watermark.missing": "a broker finds high watermarks anew",
    "log_start.empty": "a log start is nowhere else",
    "log_start.missing": "a log start is nowhere else",
    "meta_properties.empty": "the ids are nowhere else in this directory",
    "meta_properties.missing": "the ids are nowhere else in this directory",
    "partition_metadata.empty": "the topic has one partition, and the metadata log is elsewhere",
    "partition_metadata.garbage": "the topic has one partition, and the metadata log is elsewhere",
    "partition_metadata.missing": "the topic has one partition, and the metadata log is elsewhere",
    "partition_metadata.zero_topic_id": "the topic has one partition, and the metadata log is elsewhere",
    "recovery_point.zero": "a mark of a clean stop is of other files",
}
"""Faults of which something is left, and why; some of them only after a clean stop."""
NOT_LEFT_BY_A_STOP = {"snapshot.missing", "index.zero-tail", "segment.index-missing", "recovery-point.not-at-end"}


def _faults() -> list[faults.Fault]:
    texts = archives.contents(archives.source()).texts
    sheets = [
        faults.Fault.parse(path.removesuffix(f"/{faults.SHEET}"), text)
        for path, text in sorted(texts.items())
        if path.endswith(faults.SHEET)
    ]
    return [fault for fault in sheets if _name(fault).removeprefix("B.").startswith(TEXT_FAULTS)]


def _name(fault: faults.Fault) -> str:
    return os.path.basename(fault.path)


def _log_dirs(directory: Path) -> Iterator[Path]:
    """The directory itself, or the two of a broker."""
    yield from ([directory] if is_broker_dir(str(directory)) else sorted(directory.iterdir()))


def test_there_are_faults() -> None:
    assert len(_faults()) > 10


@pytest.mark.parametrize("fault", _faults(), ids=lambda fault: fault.path)
def test_a_fault_is_mended_or_told(corpus: Path, tmp_path: Path, fault: faults.Fault) -> None:
    built, copy = tmp_path / "built", tmp_path / "copy"
    faults.build(corpus, fault, faults.BEFORE, built)
    shutil.copytree(built, copy)
    for log_dir in _log_dirs(copy):
        beside = [str(path) for path in _log_dirs(copy)]
        planned = draft(log_dir, kafka={}, beside=beside)
        intact = _intact_lines(log_dir)
        if planned.plan.changes:
            apply_plan(planned, Disk(), now_ms=NOW_MS)
        again = draft(log_dir, kafka={}, beside=beside)
        assert changed(again, log_dir) == []
        told = {finding.code for finding in planned.plan.report.refusals} - {"meta.directory-id-lost"}
        seen = {finding.code for finding in again.plan.report.refusals}
        assert seen == told or seen - told == {"recovery-point.not-at-end"}  # what a file says counts once it is read
        _check_refused(log_dir, again)
        _check_left(_name(fault).removeprefix("B."), again)
        assert _intact_lines(log_dir) >= {line for line in intact if not _is_impossible(line)}


def _intact_lines(log_dir: Path) -> set[tuple[str, str]]:
    """Entries of the checkpoints at the top that a broker can read."""
    broker_dir = read_broker_dir(read_log_dir(str(log_dir)))
    return {
        (str(kind), f"{placed.entry}")
        for kind, text in broker_dir.offsets.items()
        for placed in text.file.entries.values()
    }


def _is_impossible(line: tuple[str, str]) -> bool:
    return "999999" in line[1] or "-7" in line[1] or "line=" not in line[1]


def _check_refused(log_dir: Path, again: PlanDraft) -> None:
    """A broker reads every file that something is not left of."""
    left = {finding.path for finding in again.plan.report.refusals}
    broker_dir = read_broker_dir(read_log_dir(str(log_dir)))
    for kind in OFFSET_KINDS:
        text = broker_dir.offsets.get(kind)
        assert text is None or text.file.path in left or not text.is_refused


def _check_left(name: str, again: PlanDraft) -> None:
    codes = {finding.code for finding in again.plan.report.refusals}
    assert not codes - {"recovery-point.not-at-end"} or name in LEFT, codes


def test_healthy_directories_stay(corpus: Path) -> None:
    """Those of every release; what is wrong with the others by the way is not repaired by a change of good lines."""
    seen = 0
    for path, _, _ in os.walk(corpus):
        if not is_broker_dir(path) or not read_log_dir(path).is_clean or "faults" in path or "two-log-dirs" in path:
            continue
        seen += 1
        planned = draft(_as_path(corpus, path), kafka={})
        assert changed(planned, _as_path(corpus, path)) == [], path
    assert seen > 10


def _as_path(corpus: Path, path: str) -> Path:
    return corpus / os.path.relpath(path, corpus)


def test_what_a_clean_stop_leaves_may_be_marked(corpus: Path, tmp_path: Path) -> None:
    """Of a directory that a broker left so, the mark alone is missing once it is taken away."""
    seen = 0
    for path, _, _ in os.walk(corpus):
        if seen == 6 and not archives.is_whole():
            return
        if not is_broker_dir(path) or not read_log_dir(path).is_clean or "faults" in path or "two-log-dirs" in path:
            continue
        copy = tmp_path / str(seen)
        shutil.copytree(path, copy)
        (copy / ".kafka_cleanshutdown").unlink()
        if not is_broker_dir(str(copy)):  # of 0.7, which has no other file there
            shutil.rmtree(copy)
            continue
        planned = draft(copy, kafka={}, mark_clean=True)
        refused = {finding.code for finding in planned.plan.report.refusals}
        assert not refused & NOT_LEFT_BY_A_STOP, path
        assert changed(planned, copy) == ([] if refused else [".kafka_cleanshutdown"]), path
        shutil.rmtree(copy)
        seen += 1
    assert seen
