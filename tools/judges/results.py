"""Results of tests as lines of TSV, and their comparison with those of a real broker.

`baseline.tsv` holds the results of a single broker of Apache Kafka 4.3.1 on loopback, with the settings that each suite
asks for, as it was measured in November 2026: suite, test, status, seconds, reason. "flaky" is a test that both passed
and failed in several runs. `exceptions.tsv` names the tests that pass there and are not expected to pass here, with the
reason: suite, test, reason. `kept/` keeps the last whole run of each suite, from which the table in docs/clients.md
is made.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["HERE", "Comparison", "Kept", "Result", "Status", "baseline", "compare", "exceptions"]

HERE: Final = Path(__file__).resolve().parent
_REASON_CHARACTERS: Final = 240


class Status(StrEnum):
    """How a test ended."""

    PASSED = "passed"
    FAILED = "failed"
    FLAKY = "flaky"
    SKIPPED = "skipped"
    """The test itself decided, at run time, that it does not fit."""
    NOT_APPLICABLE = "not-applicable"
    """It uses no broker, or needs what no single plaintext broker offers."""


class Result(NamedTuple):
    """The result of one test. reason: one line; empty when the test passed."""

    suite: str
    test: str
    status: Status
    seconds: float
    reason: str = ""

    @classmethod
    def of(cls, line: str) -> Self:
        """Return the result in a line of TSV. Raises ValueError."""
        suite, test, status, seconds, reason = line.split("\t")
        return cls(suite, test, Status(status), float(seconds), reason)

    @property
    def line(self) -> str:
        """A line of TSV, without its end."""
        reason = re.sub(r"\s+", " ", self.reason).strip()
        return f"{self.suite}\t{self.test}\t{self.status}\t{self.seconds:.1f}\t{reason[:_REASON_CHARACTERS].rstrip()}"

    @property
    def is_applicable(self) -> bool:
        """Whether the test ran."""
        return self.status not in {Status.SKIPPED, Status.NOT_APPLICABLE}


@dataclass(frozen=True, slots=True)
class Kept:
    """The results of a whole suite, as a file keeps them. day: of the run, as 2026-11-25."""

    suite: str
    version: str
    day: str
    results: Sequence[Result]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the results in a file. Raises ValueError and OSError."""
        first, *lines = path.read_text(encoding="utf-8").splitlines()
        suite, version, day = first.removeprefix("# ").split("\t")
        return cls(suite, version, day, [Result.of(line) for line in lines])

    def write(self, path: Path) -> None:
        """Write them, ordered by the names of the tests, so that two runs can be compared line by line."""
        lines = [f"# {self.suite}\t{self.version}\t{self.day}"]
        lines += [each.line for each in sorted(self.results, key=lambda each: each.test)]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def baseline(suite: str) -> dict[str, Result]:
    """Return the results of the real broker in a suite, by the names of the tests."""
    lines = (HERE / "baseline.tsv").read_text(encoding="utf-8").splitlines()
    return {each.test: each for each in map(Result.of, lines) if each.suite == suite}


def exceptions(suite: str) -> dict[str, str]:
    """Return why tests of a suite are not expected to pass here, by their names."""
    lines = (HERE / "exceptions.tsv").read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return {test: reason for name, test, reason in rows if name == suite}


@dataclass(slots=True)
class Comparison:
    """A suite's results next to those of the real broker.

    missed: tests that pass there and not here, without an exception; exceptions: those with one, and its reason;
    gained: tests that pass here and not there; unused: exceptions whose test passes.
    """

    counts: Counter[Status] = field(default_factory=Counter)
    missed: list[Result] = field(default_factory=list)
    exceptions: list[tuple[Result, str]] = field(default_factory=list)
    gained: list[Result] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    applicable: int = 0

    @property
    def percent(self) -> float:
        """How many of the applicable tests passed."""
        return 100 * self.counts[Status.PASSED] / self.applicable if self.applicable else 100.0


def compare(
    results: Iterable[Result], real: Mapping[str, Result], excepted: Mapping[str, str], *, is_whole: bool
) -> Comparison:
    """Compare a run with the baseline.

    is_whole: whether a test that passes on the real broker and is not among the results counts as failed. A test is
    applicable if it ran here, or passes on the real broker.
    """
    found = {each.test: each for each in results}
    if is_whole:
        for name, each in real.items():
            if each.status is Status.PASSED:
                found.setdefault(name, Result(each.suite, name, Status.FAILED, 0.0, "did not run"))
    comparison = Comparison()
    for name, each in found.items():
        there = real[name].status if name in real else None
        comparison.counts[each.status] += 1
        comparison.applicable += each.is_applicable or there is Status.PASSED
        if each.status is Status.PASSED:
            comparison.gained += [each] if there is not Status.PASSED else []
            comparison.unused += [name] if name in excepted else []
        elif there is Status.PASSED and name in excepted:
            comparison.exceptions.append((each, excepted[name]))
        elif there is Status.PASSED:
            comparison.missed.append(each)
    return comparison
