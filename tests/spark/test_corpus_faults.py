"""Over all faults of the corpus: an export ends with verify's exit status, where the fault is of the records.

An export reads logs, checkpoints of offsets and leader epochs. What is wrong with an index, a snapshot or the names in
`meta.properties` hides no record of it, and is left to verify.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import NotFoundError, RefusedError, UnknownFileError
from kafkalog_core.findings import FINDING_TYPES
from kafkalog_core.findings.logs import DAMAGE_CODES
from kafkalog_core.spark.export.export import ExportRequest, export
from kafkalog_core.spark.lake.store import Store
from tests.corpus import verifying
from tests.support.corpus import archives, faults
from tests.support.corpus.faults import BEFORE
from tests.support.inline import Inline

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.findings import Finding

pytestmark = pytest.mark.corpus

NOW_MS = 1_796_000_000_000
DIFFERENT = {
    "clean/both.same_partition_twice": "an export holds one copy of a partition: it is refused",
    "unclean/both.same_partition_twice": "an export holds one copy of a partition: it is refused",
}


def _is_of_records(finding: Finding) -> bool:
    """Whether verify's finding is an error about records of a log that a broker serves; a `.swap` file is not one."""
    is_live = finding.path.endswith(".log") or finding.code not in DAMAGE_CODES.values()
    return finding.severity == "error" and FINDING_TYPES[finding.code].is_of_records and is_live


def _wanted(directories: list[Path]) -> int:
    """The exit status of verify, as far as records are concerned."""
    try:
        return 4 if any(map(_is_of_records, verifying.findings(*directories))) else 0
    except (UnknownFileError, NotFoundError):
        return 3


def _status(directories: list[Path], output: Path) -> int:
    """The exit status of an export."""
    report = Report()
    try:
        targets = tuple(target for path in directories for target in resolve([str(path)]))
        request = ExportRequest(targets=targets, output=Store.of(str(output)))
        for _ in export(Inline(), request, report, run_id="judge", now_ms=NOW_MS):
            pass
    except (RefusedError, UnknownFileError, NotFoundError):
        return 3
    return report.exit_status


def test_the_exit_status_is_that_of_verify(corpus: Path, tmp_path: Path) -> None:
    known = verifying.faults_before()
    assert len(known) >= (360 if archives.is_whole() else 100)
    different: dict[str, tuple[int, int]] = {}
    for number, fault in enumerate(known):
        home = tmp_path / str(number)
        faults.build(corpus, fault, BEFORE, home)
        directories = verifying.log_dirs_of(home, fault)
        wanted = _wanted(directories)
        found = _status(directories, tmp_path / f"out-{number}")
        if found != wanted:
            different[verifying.name_of(fault)] = found, wanted
        shutil.rmtree(home)
    assert set(different) == set(DIFFERENT) & {verifying.name_of(fault) for fault in known}, different
    assert {found for found, _ in different.values()} <= {0, 3}


def test_lost_segments_are_errors_for_an_export(corpus: Path, tmp_path: Path) -> None:
    """Where verify's status is 4, and nothing of the logs that are there is damaged."""
    lost = ("segment.missing.", "log.zero_length.", "log.missing.index_left.")
    named = [
        fault for fault in verifying.faults_before() if verifying.name_of(fault).partition("/")[2].startswith(lost)
    ]
    assert named
    for number, fault in enumerate(named):
        home = tmp_path / str(number)
        faults.build(corpus, fault, BEFORE, home)
        directories = verifying.log_dirs_of(home, fault)
        found = verifying.findings(*directories)
        wanted = 4 if any(finding.severity == "error" for finding in found) else 0
        assert _status(directories, tmp_path / f"out-{number}") == wanted, verifying.name_of(fault)
