"""`python -m tools.full [LEG]...`: every test with every case, leg by leg, and a file that keeps what each leg gave.

A leg takes at most an hour. Its line in docs/full-run.txt has the commit that it ran on. A leg that passed on the tree
of today does not run again, so a run that was interrupted continues where it ended. The run is whole when the lines of
all legs are of one tree, which may differ in that file alone. KAFKALOG_CORPUS names the whole corpus.

    python -m tools.full               all legs that have not passed on this tree
    python -m tools.full corpus slow   these two
    python -m tools.full --again twin  this one, although it has passed
    python -m tools.full --list        the legs, and what each runs
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).resolve().parents[1]
KEPT: Final = ROOT / "docs" / "full-run.txt"
MOST_SECONDS: Final = 3600
_BUT_KEPT: Final = f":!{KEPT.relative_to(ROOT)}"
PASSED: Final = "passed"
_OF_CORPUS: Final = frozenset({"corpus", "spark"})
_HEAD: Final = """\
# What `python -m tools.full` gave: a line a leg, by the commit that it ran on. The run is whole when all lines are of
# one tree, which may differ in this file alone.
"""


class Leg(NamedTuple):
    """A part of the full run.

    Args:
        command: its words. `python` is the interpreter of this environment or of the clone, `{commit}` the commit,
            `{scratch}` a directory for what is not kept.
        counts: a pattern of the lines of its output that count what ran.
        is_interpreted: whether it runs in a clone of its own, whose kernels are not compiled.
    """

    command: str
    counts: str = r"^=* ?(\d+ \w+.*) in [\d.]+s"
    is_interpreted: bool = False


_PYTEST: Final = "python -m pytest -q -n 2"
LEGS: Final = {
    "quick": Leg(f"{_PYTEST} --cov --cov-fail-under=88", r"^(?:TOTAL.* (?=[\d.]+%)|=* ?(?=\d+ passed))(.*)"),
    "live": Leg(f"{_PYTEST} -m 'live and not java and not spark' tests"),
    "slow": Leg(f"{_PYTEST} -m 'slow and not live and not java and not spark' tests"),
    "corpus": Leg(f"{_PYTEST} -m 'corpus and not spark' tests"),
    "brokers": Leg(f"{_PYTEST} --dist loadfile -m java tests/integration"),
    "spark": Leg(f"{_PYTEST} --dist loadfile -m spark tests"),
    "twin": Leg(_PYTEST, is_interpreted=True),
    "power": Leg("python -m tests.power {scratch}/power-loss.txt", r"^(.* in all.*)$"),
    "releases": Leg("python -m tests.integration.release_matrix --work {scratch}/releases", r"^(\d+ .*)$"),
    "clients": Leg(
        "python -m tools.judges --results {scratch} kcat franz-go java rdkafka rskafka kafka-go",
        r"^(\S+: \d+ .* passed)$",
    ),
    "librdkafka": Leg(
        "python -m tools.judges --results {scratch} librdkafka librdkafka-noautocreate librdkafka-848"
        " librdkafka-2.15.1",
        r"^(\S+: \d+ .* passed)$",
    ),
    "mutants": Leg("python -m tools.mutants --seed {commit} --count 60 --minutes 30", r"^(?=all )(.*)$"),
}
"""In the order in which they run: those that find most in a minute come first."""


class Line(NamedTuple):
    """What a leg gave."""

    leg: str
    commit: str
    date: str
    seconds: int
    result: str
    counts: str
    machine: str

    def __str__(self) -> str:
        row = f"{self.leg:10}  {self.commit}  {self.date}  {self.seconds:5} s  {self.result:6}  {self.counts}"
        return f"{row}  ({self.machine})"

    @classmethod
    def of(cls, text: str) -> Line:
        """Return the line of a text. Raises ValueError."""
        leg, commit, date, seconds, _, result, rest = text.split(None, 6)
        counts, _, machine = rest.rpartition("  (")
        return cls(leg, commit, date, int(seconds), result, counts, machine.removesuffix(")"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run legs and keep their lines. Return 1 if one failed, 3 where none can run."""
    options = _parser().parse_args(arguments)
    if options.list:
        for name, leg in LEGS.items():
            print(f"{name:10}  {leg.command}")
        return 0
    if _git("status", "--porcelain", "--", ".", _BUT_KEPT):
        print("error: the checkout has uncommitted changes, so no line could name what it ran on", file=sys.stderr)
        return 3
    commit, status = _git("rev-parse", "HEAD"), 0
    options.logs.mkdir(parents=True, exist_ok=True)
    for name in options.legs or LEGS:
        line = _kept().get(name)
        if line is None or line.result != PASSED or options.again or not _is_same_tree(line.commit, commit):
            line = _run(name, commit, options.logs)
            _keep(line)
        print(line, flush=True)
        status |= line.result != PASSED
    lines = _kept()
    missing = [name for name in LEGS if name not in lines or not _is_same_tree(lines[name].commit, commit)]
    print(f"not of this tree: {', '.join(missing)}" if missing else "whole: all legs are of this tree")
    return status


def _parser() -> argparse.ArgumentParser:
    summary, _, examples = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m tools.full",
        description=summary,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("legs", nargs="*", choices=[[], *LEGS], metavar="LEG", help=f"default: all of {', '.join(LEGS)}")
    add("--again", action="store_true", help="run legs that have passed on this tree too")
    add("--list", action="store_true", help="only list the legs")
    add("--logs", type=Path, default=Path(tempfile.gettempdir()) / "kafkalog-full", help="where outputs are kept")
    return parser


def _run(name: str, commit: str, logs: Path) -> Line:
    """Run a leg, for an hour at most."""
    leg, log = LEGS[name], logs / f"{name}.txt"
    print(f"{name}: its output is in {log}", file=sys.stderr, flush=True)
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="kafkalog-full-", ignore_cleanup_errors=True) as scratch,
        log.open("wb") as output,
    ):
        root, python = ROOT, sys.executable
        environment = {**os.environ, "KAFKALOG_EXPECT_NO_SKIPS": "1", "COVERAGE_FILE": f"{scratch}/.coverage"}
        environment["KAFKALOG_REQUIRE_COMPILED"] = str(int(not leg.is_interpreted))
        environment["KAFKALOG_EXAMPLES"] = "25" if leg.is_interpreted else "200"
        environment["KAFKALOG_FUZZ_SECONDS"] = "300"
        script = shlex.join([python if word == "python" else word for word in shlex.split(leg.command)])
        script = script.format(commit=commit, scratch=scratch)
        if leg.is_interpreted:
            root, environment["KAFKALOG_NO_COMPILE"] = Path(scratch), "1"
            make = f"git clone -q {shlex.quote(str(ROOT))} kafkalog && cd kafkalog && python3 -m venv .venv"
            script = f"{make} && .venv/bin/python -m pip install -q -e '.[test]' && .venv/bin/{leg.command}"
        result = _ended(script, root, environment, output.fileno())
    text = log.read_text(encoding="utf-8", errors="replace")
    counts = "; ".join(" ".join(match[1].split()) for match in re.finditer(leg.counts, text, re.MULTILINE))
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    if name in _OF_CORPUS and not os.environ.get("KAFKALOG_CORPUS"):
        counts += "; fixtures/ alone, KAFKALOG_CORPUS is not set"
    return Line(name, commit[:10], today, round(time.monotonic() - began), result, counts or "no counts", _machine())


def _ended(script: str, root: Path, environment: dict[str, str], output: int) -> str:
    """Run a script with all that it starts, for an hour at most, and return how it ended."""
    words = ["bash", "-c", script]
    process = subprocess.Popen(words, cwd=root, env=environment, stdout=output, stderr=output, start_new_session=True)
    try:
        return "failed" if process.wait(MOST_SECONDS) else PASSED
    except subprocess.TimeoutExpired:
        return "ended"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, Python {sys.version.split()[0]}"


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _is_same_tree(one: str, other: str) -> bool:
    """Whether two commits differ in the kept file alone; a commit that is not in this clone differs."""
    words = ["git", "diff", "--quiet", one, other, "--", ".", _BUT_KEPT]
    return subprocess.run(words, cwd=ROOT, capture_output=True, check=False).returncode == 0


def _kept() -> dict[str, Line]:
    lines = KEPT.read_text(encoding="utf-8").splitlines() if KEPT.exists() else []
    return {line.leg: line for line in map(Line.of, (each for each in lines if each and not each.startswith("#")))}


def _keep(line: Line) -> None:
    """Put a line into the file, in the place of an older one of its leg."""
    lines = _kept() | {line.leg: line}
    rows = [str(lines[name]) for name in LEGS if name in lines]
    KEPT.write_text("\n".join([_HEAD, *rows, ""]), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
