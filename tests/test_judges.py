"""The judges: results are compared with those of the real broker, and the page of clients has what is kept."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.for_each import for_each
from tools.judges import table
from tools.judges.results import HERE, Kept, Result, Status, baseline, compare, exceptions
from tools.judges.running import Job, run, run_all
from tools.judges.suites import SUITES

if TYPE_CHECKING:
    from pathlib import Path


def result(test: str, status: Status, reason: str = "") -> Result:
    return Result("suite", test, status, 1.0, reason)


def names(results: list[Result]) -> list[str]:
    return [each.test for each in results]


def test_the_page_has_the_results_that_are_kept() -> None:
    text = table.PAGE.read_text(encoding="utf-8")
    assert table.page_with(text) == text, "run `python -m tools.judges --table`"


@for_each(SUITES)
def test_every_suite_has_a_baseline(suite: str) -> None:
    assert any(each.status is Status.PASSED for each in baseline(suite).values())


@for_each(SUITES)
def test_exceptions_are_tests_that_pass_on_the_real_broker(suite: str) -> None:
    passing = {name for name, each in baseline(suite).items() if each.status is Status.PASSED}
    assert exceptions(suite).keys() <= passing
    assert all(exceptions(suite).values())


def test_exceptions_are_of_suites() -> None:
    lines = (HERE / "exceptions.tsv").read_text(encoding="utf-8").splitlines()
    assert {line.split("\t")[0] for line in lines if not line.startswith("#")} <= SUITES.keys()


def test_what_passes_on_the_real_broker_is_missed_here() -> None:
    real = {each: result(each, Status.PASSED) for each in ("a", "b", "c", "d", "gone")}
    real |= {"e": result("e", Status.FAILED), "f": result("f", Status.FLAKY), "g": result("g", Status.NOT_APPLICABLE)}
    found = [
        result("a", Status.PASSED),
        result("b", Status.FAILED),
        result("c", Status.SKIPPED),
        result("d", Status.FAILED),
        result("e", Status.PASSED),
        result("f", Status.FAILED),
        result("new", Status.FAILED),
    ]
    excepted = {"a": "it was", "d": "it is"}
    whole = compare(found, real, excepted, is_whole=True)
    assert names(whole.missed) == ["b", "c", "gone"]
    assert [(each.test, reason) for each, reason in whole.exceptions] == [("d", "it is")]
    assert (names(whole.gained), whole.unused) == (["e"], ["a"])
    assert whole.applicable == len("abcdef") + len(["new", "gone"])
    assert whole.percent == pytest.approx(100 * 2 / 8)
    assert whole.counts[Status.NOT_APPLICABLE] == 0
    part = compare(found[:2], real, {}, is_whole=False)
    assert (names(part.missed), part.applicable) == (["b"], 2)


def test_a_result_is_one_line() -> None:
    line = result("t", Status.FAILED, "a\tb\n c" + "x" * 300).line
    assert Result.of(line) == Result("suite", "t", Status.FAILED, 1.0, "a b c" + "x" * 235)


def test_results_are_kept_in_order(tmp_path: Path) -> None:
    kept = Kept("suite", "1", "2026-11-25", [result("b", Status.PASSED), result("a", Status.FAILED, "r")])
    kept.write(tmp_path / "suite.tsv")
    again = Kept.read(tmp_path / "suite.tsv")
    assert (again.suite, again.version, again.day, names(list(again.results))) == (
        "suite",
        "1",
        "2026-11-25",
        ["a", "b"],
    )


@pytest.mark.live
def test_a_program_is_killed_at_its_limit(tmp_path: Path) -> None:
    program = "import time; print('here', flush=True); time.sleep(60)"
    ended = run([sys.executable, "-c", program], tmp_path / "log", 1)
    assert (ended.status, ended.text) == (None, "here\n")
    assert ended.seconds < 30


@pytest.mark.live
def test_a_program_that_never_ends_has_done_its_work(tmp_path: Path) -> None:
    program = "import time; print('done', flush=True); time.sleep(60)"
    ended = run([sys.executable, "-c", program], tmp_path / "log", 30, until=lambda text: "done" in text)
    assert (ended.status, ended.text) == (0, "done\n")


def test_tests_run_side_by_side() -> None:
    tests = [Job((name,), lambda name=name: [result(name, Status.PASSED)]) for name in "abc"]
    assert sorted(names(list(run_all(tests, 2)))) == ["a", "b", "c"]
