"""The tables of docs/clients.md, from the results that are kept."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from tools.judges.results import HERE, Kept, Status, baseline, compare, exceptions
from tools.judges.suites import SUITES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tools.judges.results import Comparison

__all__ = ["PAGE", "page_with", "tables", "write"]

PAGE: Final = HERE.parents[1] / "docs" / "clients.md"
_MARKED: Final = re.compile(r"(<!-- judges -->\n).*(<!-- end -->)", re.DOTALL)
_HEAD: Final = """| Suite | Version | Run on | Passed | Failed | Skipped | Not applicable | Passed on 4.3.1 |
|---|---|---|---|---|---|---|---|
"""
_FAILED: Final = """| Suite | Test that fails | Reason |
|---|---|---|
"""
_NOT_RUN: Final = frozenset({Status.NOT_APPLICABLE, Status.SKIPPED})
_UNFIT: Final = """| Suite | Tests | Status | Reason |
|---|---|---|---|
"""


def write() -> None:
    """Replace the tables in the page."""
    PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def page_with(text: str) -> str:
    """Return the text of the page with tables of the results that are kept."""
    return _MARKED.sub(lambda match: f"{match[1]}{tables(HERE / 'kept')}{match[2]}", text)


def tables(folder: Path) -> str:
    """Return tables of the counts of each suite, of the tests that did not pass, and of those that do not fit."""
    kept = [Kept.read(path) for name in SUITES if (path := folder / f"{name}.tsv").exists()]
    compared = [compare(each.results, baseline(each.suite), exceptions(each.suite), is_whole=True) for each in kept]
    rows = "".join(_row(each, comparison) for each, comparison in zip(kept, compared, strict=True))
    applicable = sum(each.applicable for each in compared)
    passed = sum(each.counts[Status.PASSED] for each in compared)
    share = (
        f"\n{passed} of {applicable} applicable tests pass: {100 * passed / applicable:.1f} %.\n" if applicable else ""
    )
    failed = "".join(line for each in kept for line in _failed(each))
    unfit = "".join(line for each in kept for line in _unfit(each))
    return f"\n{_HEAD}{rows}{share}\n{_FAILED}{failed}\n{_UNFIT}{unfit}\n"


def _row(kept: Kept, comparison: Comparison) -> str:
    counts = comparison.counts
    real = sum(each.status is Status.PASSED for each in baseline(kept.suite).values())
    numbers = (counts[each] for each in (Status.PASSED, Status.FAILED, Status.SKIPPED, Status.NOT_APPLICABLE))
    title = SUITES[kept.suite].title
    return f"| {title} | {kept.version} | {kept.day} | {' | '.join(map(str, numbers))} | {real} |\n"


def _failed(kept: Kept) -> Iterator[str]:
    """The tests that failed, with the reason."""
    real = baseline(kept.suite)
    named = exceptions(kept.suite)
    for each in kept.results:
        if each.status is not Status.FAILED:
            continue
        there = real.get(each.test)
        reason = each.reason
        if each.test in named:
            reason = named[each.test]
        elif there is not None and there.status in {Status.FAILED, Status.FLAKY}:
            reason = f"{each.reason} (a broker of 4.3.1: {there.status}: {there.reason})"
        yield f"| {kept.suite} | {each.test} | {_cell(reason)} |\n"


def _unfit(kept: Kept) -> Iterator[str]:
    """How many tests do not fit or skipped themselves, by reason."""
    reasons = Counter((each.status, each.reason) for each in kept.results if each.status in _NOT_RUN)
    for (status, reason), count in reasons.most_common():
        yield f"| {kept.suite} | {count} | {status} | {_cell(reason)} |\n"


def _cell(text: str) -> str:
    return re.sub(r"([|<>*_`\[\]])", r"\\\1", text)
