"""Every fault that leaves a trace is found with its code, its file and its place; the others have their reasons.

What is to be found is in `verify_faults.txt`, what is not in `verify_no_trace.txt`. Both were written from what the
faults' own sheets say was done.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.errors import NotFoundError, UnknownFileError
from tests.corpus import verifying
from tests.support.corpus import archives, faults
from tests.support.corpus.dumping import CLEAN, DAMAGED
from tests.support.corpus.faults import BEFORE, Fault

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.corpus

REFUSED = "refused"
WHOLE_FILE = "-"
ANYWHERE = "*"
_PLACES = {"batch": re.compile(r"\(batch \d+ at (\d+),"), "appended": re.compile(r"bytes appended at (\d+)")}
_EXPECTED = verifying.lines("verify_faults.txt", 4)
_NO_TRACE = verifying.lines("verify_no_trace.txt", 2)


def _errors(home: Path, fault: Fault) -> list[tuple[str, str, int | None]]:
    """Code, file and byte of everything of severity error."""
    directories = verifying.log_dirs_of(home, fault)
    try:
        found = verifying.findings(*directories)
    except (UnknownFileError, NotFoundError) as error:
        return [(REFUSED, _below(str(error.path), home), None)]
    return [(one.code, _below(one.path, home), one.position) for one in found if one.severity == "error"]


def _below(path: str, home: Path) -> str:
    return path.removeprefix(f"{home}/")


def _is_meant(error: tuple[str, str, int | None], line: tuple[str, ...], fault: Fault) -> bool:
    _, code, file, place = line
    return (
        verifying.is_like(error[0], code)
        and verifying.is_like(error[1], file)
        and (place == ANYWHERE or error[2] == _byte(place, fault))
    )


def _byte(place: str, fault: Fault) -> int | None:
    """What a place of the list means: a byte, the one that the fault's sheet names, or the file as a whole."""
    if place == WHOLE_FILE:
        return None
    if place not in _PLACES:
        return int(place)
    match = _PLACES[place].search(str(fault.sheet["what"]))
    assert match, f"the sheet of {fault.path} names no byte"
    return int(match[1])


def _lines(fault: Fault, lines: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [line for line in lines if verifying.is_like(verifying.name_of(fault), line[0])]


@pytest.mark.parametrize("fault", verifying.faults_before(), ids=verifying.name_of)
def test_a_fault_is_found_where_it_is(corpus: Path, tmp_path: Path, fault: Fault) -> None:
    faults.build(corpus, fault, BEFORE, tmp_path)
    expected = _lines(fault, _EXPECTED)
    errors = _errors(tmp_path, fault)
    assert bool(expected) != bool(_lines(fault, _NO_TRACE)), "in both lists, or in none"
    unexpected = [error for error in errors if not any(_is_meant(error, line, fault) for line in expected)]
    missed = [line[1:] for line in expected if not any(_is_meant(error, line, fault) for error in errors)]
    assert (unexpected, missed) == ([], [])


def test_every_line_is_of_a_fault() -> None:
    names = {verifying.name_of(fault) for fault in verifying.faults_before()}
    lines = [*_EXPECTED, *_NO_TRACE]
    stale = [line for line in lines if not any(verifying.is_like(name, line[0]) for name in names)]
    assert not stale or not archives.is_whole(), "a part of the corpus may leave lines unused, the whole may not"


@pytest.mark.parametrize(("name", "exit_status"), [("control", CLEAN), ("log.flip.value.last", DAMAGED)])
def test_the_exit_status_says_whether_anything_is_damaged(
    corpus: Path, tmp_path: Path, name: str, exit_status: int
) -> None:
    fault = next(
        fault
        for fault in verifying.faults_before()
        if verifying.name_of(fault).endswith(f"/{name}") and "two-log-dirs" not in fault.path
    )
    faults.build(corpus, fault, BEFORE, tmp_path)
    result = CliRunner().invoke(cli, ["verify", "--quiet", str(tmp_path)], catch_exceptions=False)
    assert result.exit_code == exit_status
