"""`python -m tests.power FILE [MOST]` checks the states of every scenario: all, or MOST of each model by seed.

The table goes to FILE, the problems to stderr. All of them take two processes some hours; docs/power-loss.txt is what a
run wrote last, and says how many it has checked.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.power.checker import Checker
from tests.power.models import MODELS
from tests.power.scenarios import SCENARIOS, Place, Scenario

PROCESSES = 2
SHM = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: S108 -- a quick file system, and another one


def run(scenario: Scenario, most: int | None) -> tuple[str, Counter[str], list[str]]:
    """Check a scenario: its line of the table, its counts, and the problems in words."""
    top, other = Path(tempfile.mkdtemp(dir=SHM)), Path(tempfile.mkdtemp())
    try:
        checker = Checker(scenario, Place(top, other))
        counts: Counter[str] = Counter(operations=len(checker.recording.operations))
        messages = []
        for model in MODELS:
            states = list(checker.states(model))
            counts[f"{model} of"] = len(states)
            if most is not None and most < len(states):
                states = random.Random(f"{scenario} {model}").sample(states, most)
            counts[model] = len(states)
            for state in states:
                problems = checker.check(model, state)
                counts["problems"] += bool(problems)
                messages += [str(problem) for problem in problems]
        return _line(counts, str(scenario)), counts, messages
    finally:
        shutil.rmtree(top)
        shutil.rmtree(other)


def _line(counts: Counter[str], name: str) -> str:
    models = "  ".join(f"{counts[model]:7} of {counts[f'{model} of']:6}" for model in MODELS)
    return f"{counts['operations']:10}  {models}  {counts['problems']:8}  {name}\n"


def main(file: str, most: str | None = None) -> None:
    """The long run."""
    lines = [f"operations  {'ordered journal':>17}  {'strict POSIX':>17}  problems  scenario\n"]
    totals: Counter[str] = Counter()
    with ProcessPoolExecutor(PROCESSES) as pool:
        for line, counts, messages in pool.map(run, SCENARIOS, [None if most is None else int(most)] * len(SCENARIOS)):
            totals += counts
            lines.append(line)
            sys.stderr.write(line)
            sys.stderr.writelines(f"    {message}\n" for message in messages[:20])
    lines.append(_line(totals, f"in all, {len(SCENARIOS)} scenarios"))
    Path(file).write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
