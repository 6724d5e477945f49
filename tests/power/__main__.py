"""`python -m tests.power FILE [SCENARIO...]` checks every state of every scenario.

The table goes to FILE, the problems to stderr. It takes about an hour with two processes. docs/power-loss.txt is what
it wrote last.
"""

from __future__ import annotations

import os
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

Row = tuple[Scenario, int, dict[str, tuple[int, int]], list[str]]


def run(scenario: Scenario) -> Row:
    """Check every state of a scenario: operations, states and problems by model, the first problems in words."""
    top, other = Path(tempfile.mkdtemp(dir=SHM)), Path(tempfile.mkdtemp())
    try:
        checker = Checker(scenario, Place(top, other))
        found: dict[str, tuple[int, int]] = {}
        messages = []
        for model in MODELS:
            states, bad = 0, 0
            for state in checker.states(model):
                problems = checker.check(model, state)
                states, bad = states + 1, bad + bool(problems)
                messages += [str(problem) for problem in problems]
            found[model] = states, bad
        return scenario, len(checker.recording.operations), found, messages
    finally:
        shutil.rmtree(top)
        shutil.rmtree(other)


def main(file: str, *names: str) -> None:
    """The long run."""
    chosen = [each for each in SCENARIOS if not names or str(each) in names]
    lines = [f"{'operations':>10}  {'ordered':>7}  {'strict':>6}  {'problems':>8}  scenario\n"]
    totals: Counter[str] = Counter()
    with ProcessPoolExecutor(PROCESSES) as pool:
        for scenario, operations, found, messages in pool.map(run, chosen):
            states = {model: count for model, (count, _) in found.items()}
            bad = sum(count for _, count in found.values())
            totals.update({**states, "bad": bad, "operations": operations})
            lines.append(
                f"{operations:10}  {states['ordered']:7}  {states['strict']:6}  {bad:8}  {scenario}\n",
            )
            sys.stderr.write(lines[-1])
            sys.stderr.writelines(f"    {message}\n" for message in messages[:20])
    total = f"{totals['operations']:10}  {totals['ordered']:7}  {totals['strict']:6}  {totals['bad']:8}"
    lines.append(f"{total}  in all, {len(chosen)} scenarios\n")
    Path(file).write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
