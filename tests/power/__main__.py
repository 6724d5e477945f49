"""`python -m tests.power FILE [MOST]` checks the states of every scenario: all, or MOST of each model by seed.

The table goes to FILE, the problems to stderr. docs/power-loss.txt is what a run wrote last, and says how many it has
checked.
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
from tests.support.power_scenarios import SCENARIOS, Place, Scenario

PROCESSES = 2
FIRST = 10
"""States of each model that are checked first."""
SHM = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: S108 -- a quick file system, and another one


def run(scenario: Scenario, most: int | None) -> tuple[str, Counter[str], list[str]]:
    """Check a scenario: its line of the table, its counts, and the problems in words."""
    top, other = Path(tempfile.mkdtemp(dir=SHM)), Path(tempfile.mkdtemp())
    counts: Counter[str] = Counter()
    messages = []
    try:
        checker = Checker(scenario, Place(top, other))
        counts["operations"] = len(checker.recording.operations)
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
    except AssertionError as error:
        counts["problems"] += 1
        messages.append(f"{scenario}: {error}")
    finally:
        shutil.rmtree(top)
        shutil.rmtree(other)
    return _line(counts, str(scenario)), counts, messages


def _line(counts: Counter[str], name: str) -> str:
    models = "  ".join(f"{counts[model]:7} of {counts[f'{model} of']:6}" for model in MODELS)
    return f"{counts['operations']:10}  {models}  {counts['problems']:8}  {name}\n"


def main(file: str, most: str | None = None) -> None:
    """The long run: a sample of all scenarios first, so that a run that is ended has some of each."""
    lines = dict.fromkeys(SCENARIOS, "")
    totals: dict[Scenario, Counter[str]] = {}
    head = f"operations  {'ordered journal':>17}  {'strict POSIX':>17}  problems  scenario\n"
    with ProcessPoolExecutor(PROCESSES) as pool:
        for each in [FIRST, None] if most is None else [int(most)]:
            results = pool.map(run, SCENARIOS, [each] * len(SCENARIOS))
            for scenario, (line, counts, messages) in zip(SCENARIOS, results, strict=True):
                totals[scenario], lines[scenario] = counts, line
                sys.stderr.write(line)
                sys.stderr.writelines(f"    {message}\n" for message in messages[:20])
                in_all = _line(sum(totals.values(), Counter()), f"in all, {len(totals)} scenarios")
                Path(file).write_text("".join([head, *lines.values(), in_all]), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
