"""No false alarm: nothing of severity error is said of a healthy log directory, and what is damaged is named.

Which directories are healthy is known from the sheets of the cases. What is odd in them on purpose is in
`verify_warnings.txt`; what a person damaged in `verify_damaged.txt`, or in the case's own sheet.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.corpus import damage_sheets, verifying
from tests.support.corpus import archives
from tests.support.corpus.snapshots import snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.findings import Finding
    from tests.corpus.damage_sheets import Hurt

pytestmark = pytest.mark.corpus

ANYWHERE = "*"
WHOLE_FILE = "-"
_WARNINGS = verifying.lines("verify_warnings.txt", 3)
_DAMAGED = verifying.lines("verify_damaged.txt", 4)
_CODES = {
    "zeroed": ("batch.crc-mismatch", "log.*"),
    "changed": ("batch.*", "record.*", "log.*"),
    "overwritten": ("index.*",),
}


def _log_dirs() -> list[str]:
    """Log directories of the corpus that are not made of a base and a fault."""
    return sorted({snapshot.log_dir for snapshot in snapshots() if snapshot.fault is None})


def _earlier(log_dir: str) -> list[str]:
    """Damaged stages of the case that a log directory is of."""
    case = log_dir.split("/")[:2]
    return [other for other in damage_sheets.hurts() if other.split("/")[:2] == case and other != log_dir]


def _hurts(corpus: Path, log_dir: str) -> list[Hurt]:
    """What is damaged in a directory: by a person, or earlier so that a broker has left it."""
    hurts = list(damage_sheets.hurts().get(log_dir, ()))
    for earlier in _earlier(log_dir):
        hurts += [
            hurt
            for hurt in damage_sheets.hurts()[earlier]
            if hurt.is_left(corpus / earlier, corpus / log_dir) and "recovered" in log_dir
        ]
    return hurts


def _is_known(finding: Finding, corpus: Path) -> bool:
    path = finding.path.removeprefix(f"{corpus}/")
    return any(verifying.is_like(path, glob) and finding.code == code for glob, code, _ in _WARNINGS)


def _said(findings: list[Finding]) -> list[tuple[str, str, str, int | None]]:
    return [(finding.severity, finding.code, finding.path, finding.position) for finding in findings]


@pytest.mark.parametrize("log_dir", _log_dirs())
def test_a_directory_is_as_healthy_as_its_case_says(corpus: Path, log_dir: str) -> None:
    found = verifying.findings(corpus / log_dir)
    hurts = _hurts(corpus, log_dir)
    lines = [line for line in _DAMAGED if verifying.is_like(log_dir, line[0])]
    if lines:
        _check_lines(found, corpus / log_dir, lines)
    elif hurts:
        _check_hurts(found, corpus / log_dir, hurts)
    else:
        alarms = [one for one in found if one.severity != "info" and not _is_known(one, corpus)]
        errors = [one for one in found if one.severity == "error"]
        assert _said(alarms + errors) == []


@pytest.mark.parametrize("log_dir", _log_dirs())
def test_a_partition_that_was_copied_alone_has_no_other_error(corpus: Path, tmp_path: Path, log_dir: str) -> None:
    """Without the checkpoints it is unknown whether the cleaner ran and where the log starts: no error is a guess."""
    known = {_error(one, corpus / log_dir) for one in verifying.findings(corpus / log_dir)}
    names = sorted(snapshot.partition for snapshot in snapshots() if snapshot.log_dir == log_dir)
    for name in dict.fromkeys(names):
        shutil.copytree(corpus / log_dir / name, tmp_path / name, copy_function=os.link)
        alone = verifying.findings(tmp_path / name)
        found = {_error(one, tmp_path) for one in alone if one.severity == "error"}
        assert found <= known
        shutil.rmtree(tmp_path / name)


def _error(finding: Finding, directory: Path) -> tuple[str, str, int | None]:
    return finding.code, os.path.relpath(finding.path, directory), finding.position


def _check_lines(found: list[Finding], log_dir: Path, lines: list[tuple[str, ...]]) -> None:
    errors = [finding for finding in found if finding.severity == "error"]
    matches = {line: [error for error in errors if _is_meant(error, line, log_dir)] for line in lines}
    meant = [error for matching in matches.values() for error in matching]
    assert _said([error for error in errors if error not in meant]) == []
    assert [line for line, matching in matches.items() if not matching] == []


def _is_meant(error: Finding, line: tuple[str, ...], log_dir: Path) -> bool:
    _, code, file, place = line
    position = None if place == WHOLE_FILE else place
    return (
        verifying.is_like(error.code, code)
        and error.path == f"{log_dir}/{file}"
        and (place == ANYWHERE or (None if error.position is None else str(error.position)) == position)
    )


def _check_hurts(found: list[Finding], log_dir: Path, hurts: list[Hurt]) -> None:
    """Every damaged place is reported, and no other; checkpoints may know of offsets that went with it."""
    partitions = {hurt.partition for hurt in hurts}
    told: list[Finding] = []
    for hurt in hurts:
        matching = [finding for finding in found if _is_told(finding, hurt, log_dir)]
        assert matching, hurt
        told += matching
    others = [
        finding
        for finding in found
        if finding.severity == "error"
        and finding not in told
        and not (finding.code.endswith(".beyond-end") and f"{finding.topic}-{finding.partition}" in partitions)
    ]
    assert _said(others) == []


def _is_told(finding: Finding, hurt: Hurt, log_dir: Path) -> bool:
    """A crash leaves a cut tail too; indexes that were not copied are an error if the broker refused to start."""
    directory = log_dir / hurt.partition
    if hurt.kind == "removed":
        severity = "error" if hurt.is_fatal else "warning"
        return (finding.severity, finding.code, finding.path) == (severity, "partition.no-companions", str(directory))
    path = directory / hurt.file
    if finding.path != str(path) or finding.position is None:
        return False
    end = finding.position + (finding.size_bytes or path.stat().st_size)
    if hurt.kind == "cut":
        return (finding.severity, finding.code, end) == ("info", "log.torn-tail", path.stat().st_size)
    is_like = any(verifying.is_like(finding.code, code) for code in _CODES[hurt.kind])
    return is_like and finding.severity == "error" and finding.position <= hurt.byte(log_dir) < end


def test_what_the_lists_name_is_there(corpus: Path) -> None:
    """Every line of the lists is of something: in the whole corpus, that is."""
    names = _log_dirs()
    stale = [line for line in _DAMAGED if not any(verifying.is_like(name, line[0]) for name in names)]
    said = [
        (one.code, one.path.removeprefix(f"{corpus}/")) for name in names for one in verifying.findings(corpus / name)
    ]
    stale += [
        line
        for line in _WARNINGS
        if not any(code == line[1] and verifying.is_like(path, line[0]) for code, path in said)
    ]
    assert not stale or not archives.is_whole(), "a part of the corpus may leave lines unused, the whole may not"


def test_the_demo_is_healthy() -> None:
    demo = verifying.findings(archives.FIXTURES / "demo")
    assert _said([finding for finding in demo if finding.severity == "error"]) == []


def test_the_damaged_example_is_damaged() -> None:
    damaged = verifying.findings(archives.FIXTURES / "damaged" / "orders-0")
    assert [finding for finding in damaged if finding.severity == "error"]
