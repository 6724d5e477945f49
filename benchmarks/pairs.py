"""What people do, next to what it is measured against: `python -m benchmarks.pairs DATE [--dir D] [--only PART]`.

Each pair is two whole processes over the same data, in turns (A B A B), first those of one log, then of the next. The
ratio is that of the medians; where a pair has a goal, it is printed beside it. Two dumps at once share nothing: what
they take, to what one takes, is 1 on two idle cores and 2 on one, and no work gains more from a second process. Data is
written by a real broker where Java is at hand. Prints a table, writes `results/DATE-pairs.json`, and names what got
worse by more than 10 % than in the last result file that is kept. Decides nothing. KAFKALOG names another kafkalog, as
one in an environment that has nothing else: what `pip install -e` puts there takes 30 ms of each start.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from benchmarks import machine
from benchmarks.broker import write_log_dir
from benchmarks.others import JavaTool
from benchmarks.produced import CODEC_NAMES, USERS, write_logs
from benchmarks.run import RESULTS
from kafkalog_core.structs import Struct
from tests.support.growing import GROWING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OURS: Final = os.environ.get("KAFKALOG", f"{shlex.quote(sys.executable)} -m kafkalog_cli")
RECORDS: Final = f"{OURS} dump --records --output ndjson"
VERIFY: Final = f"{OURS} verify --quiet --jobs 1"
WORSE: Final = 1.1
_PLANS: Final = {
    "reindex": "",
    "truncate": "--at-damage",
    "retain": "",
    "compact": "--force --set log.cleanup.policy=compact",
    "recover": "--only-copy --kafka 4.3",
}
_DROP: Final = Path("/proc/sys/vm/drop_caches")
_ENDS_WELL: Final = frozenset({0, 4})  # 4: damage, or a plan that loses data
_ENV: Final = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class Pair(Struct, frozen=True):
    """Two lines of a shell, and the most, or with `is_least` the least, that the ratio should be.

    goal: None: there is none. is_cold: the page cache is dropped before the left line and before the first right one;
    the right side is then the slower of the two right lines. log: a file or directory, which is read into the page
    cache before each other line: the lines of ours leave it as they have found it, and a virtual machine may take pages
    away.
    """

    name: str
    left: str
    right: str
    goal: float | None = None
    is_least: bool = False
    is_cold: bool = False
    warm: str | None = None
    log: str | None = None


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write and compare."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pairs", description=__doc__)
    parser.add_argument("date", help="names the result file, as 2026-01-31")
    parser.add_argument("--dir", help="where the data is written and kept; else a temporary directory")
    parser.add_argument("--share", type=float, default=1.0, help="of the usual number of records (default 1)")
    parser.add_argument("--turns", type=int, default=5, help="of each pair (default 5)")
    parser.add_argument("--only", action="append", default=[], help="part of a pair's name; repeatable")
    options = parser.parse_args(arguments)
    target = RESULTS / f"{options.date}-pairs.json"
    results: dict[str, Any] = json.loads(target.read_text()) if target.exists() else {"pairs": {}}
    with tempfile.TemporaryDirectory(prefix="kafkalog-bench-") as scratch:
        directory = Path(options.dir or scratch)
        directory.mkdir(exist_ok=True)
        logs = write_logs(directory, options.share)
        results["about"] = machine.description() | {"date": options.date, "share": options.share, "data": logs.writer}
        print(f"data: {logs.writer}\n{'pair':52} {'left s':>8} {'right s':>8} {'ratio':>7} {'goal':>8}")
        for pair in _pairs(logs.logs, directory, options.share):
            if not options.only or any(part in pair.name for part in options.only):
                results["pairs"][pair.name] = _measured(pair, options.turns)
                target.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written: {target}")
    _compare(target, results)


# --- the pairs --------------------------------------------------------------------------------------------------------
def _pairs(logs: dict[str, str], directory: Path, share: float) -> Iterator[Pair]:
    user, pattern = f"--value-regex user{USERS - 228:05d}", "--value-regex '[A-Z][0-9]{5}[a-z]'"
    for codec in CODEC_NAMES:
        log = shlex.quote(logs[codec])
        full = f"{RECORDS} --jobs 1 {log}"
        of_log = partial(Pair, log=logs[codec])
        yield of_log(f"filter {codec}, to verify", f"{RECORDS} --jobs 1 {user} {log}", f"{VERIFY} {log}", 1.3)
        yield of_log(f"no literal {codec}, to full", f"{RECORDS} --jobs 1 {pattern} {log}", full, 1.0)
        yield of_log(f"dump {codec}, one process to two", full, f"{RECORDS} --jobs 2 {log}", 1.7, is_least=True)
        yield of_log(f"dump {codec}, two of it at once to one", f"{full} & {full} & wait", full)
        java, goal = _java_line(log), 12.0 if codec == "none" else 8.0
        if java is not None:
            yield of_log(f"dump {codec}, Kafka's tool to ours", java, f"{RECORDS} {log}", goal, is_least=True)
    log, keyed = shlex.quote(logs["none"]), shlex.quote(logs["keyed"])
    yield Pair("head -1, to --help", f"{RECORDS} {log} | head -1", f"{OURS} --help", 1.5, log=logs["none"])
    csv = f"{OURS} dump --records --output csv --jobs 1 {log}"
    yield Pair("dump csv, to ndjson", csv, f"{RECORDS} --jobs 1 {log}", log=logs["none"])
    for given in ("--key user-000004711", "--header x"):
        line = f"{RECORDS} --jobs 1 {given} {keyed}"
        yield Pair(f"{given}, to verify", line, f"{VERIFY} {keyed}", 1.7, log=logs["keyed"])
    if os.access(_DROP, os.W_OK):
        for name, line in (("verify", f"{VERIFY} {log}"), ("filter", f"{RECORDS} --jobs 1 {user} {log}")):
            yield Pair(
                f"cold {name}, to cat or warm", line, f"cat {log}", 1.2, is_cold=True, warm=line, log=logs["none"]
            )
    yield from _of_many_files(directory, share)


def _of_many_files(directory: Path, share: float) -> Iterator[Pair]:
    headers = f"{OURS} verify --quiet --level headers"
    count = max(10, int(10_000 * share))
    segments = directory / f"segments-{count}"
    if not segments.exists():
        GROWING["segments"].make(segments, count)
    line, alone = f"{headers} {segments}", f"{headers} --jobs 1 {segments}"
    yield Pair("10,000 segments, two processes to one", line, alone, 1.1, log=str(segments))
    partitions = write_log_dir(directory, max(10, int(8_000 * share)))
    for place, what in ((segments, "10,000 segments"), (partitions, "8,000 partitions")):
        for command, given in _PLANS.items():
            line = f"{OURS} {command} {given} {place}"
            yield Pair(f"{command}, {what}, to headers", line, f"{headers} {place}", 2.0, log=str(place))


def _java_line(log: str) -> str | None:
    tool = JavaTool()
    if tool.missing:
        return None
    options = "org.apache.kafka.tools.DumpLogSegments --print-data-log --files"
    return f"java -Xmx1g -cp {shlex.quote(f'{tool.jars}/*')} {options} {log}"


# --- measuring --------------------------------------------------------------------------------------------------------
def _measured(pair: Pair, turns: int) -> dict[str, Any]:
    """Return the seconds of both sides and their ratio, and print them."""
    sides: dict[str, list[float]] = {"left": [], "right": []} | ({"warm": []} if pair.warm else {})
    lines = {"left": pair.left, "right": pair.right, "warm": pair.warm or ""}
    if not pair.is_cold:
        for side in sides:  # names and sizes, into the system's memory
            _seconds(lines[side], log=pair.log)
    for _ in range(turns):
        for side, seconds in sides.items():
            is_cold = pair.is_cold and side != "warm"
            seconds.append(_seconds(lines[side], is_cold=is_cold, log=None if is_cold else pair.log))
    medians = {side: median(seconds) for side, seconds in sides.items()}
    left, right = medians.pop("left"), max(medians.values())
    goal = "" if pair.goal is None else f"{'>=' if pair.is_least else '<='} {pair.goal}"
    print(f"{pair.name:52} {left:8.2f} {right:8.2f} {left / right:7.2f} {goal:>8}", flush=True)
    return {side: [round(each, 3) for each in seconds] for side, seconds in sides.items()} | {
        "ratio": round(left / right, 2),
        "goal": pair.goal,
        "is_least": pair.is_least,
        "load": round(os.getloadavg()[0], 1),
    }


def _seconds(line: str, *, is_cold: bool = False, log: str | None = None) -> float:
    if log is not None:
        subprocess.run(("find", log, *["-type", "f", "-exec", "cat", "{}", "+"]), stdout=subprocess.DEVNULL, check=True)
    if is_cold:
        os.sync()
        _DROP.write_text("1\n")
    start = perf_counter()
    done = subprocess.run(line, shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_ENV, check=False)  # noqa: S602
    seconds = perf_counter() - start
    if done.returncode not in _ENDS_WELL:
        raise SystemExit(f"{line} ended with {done.returncode}")
    return seconds


def _compare(target: Path, results: dict[str, Any]) -> None:
    """Name what got worse than in the last result file before this one."""
    kept = sorted(path for path in RESULTS.glob("*-pairs.json") if path.name < target.name)
    if not kept:
        return
    last = json.loads(kept[-1].read_text())
    if last["about"]["share"] != results["about"]["share"]:
        print(f"{kept[-1].name} is of another number of records")
        return
    before = last["pairs"]
    worse = [
        f"{name}: {before[name]['ratio']} before, {now['ratio']} now"
        for name, now in results["pairs"].items()
        if name in before and _grown(before[name]["ratio"], now) > WORSE
    ]
    print(f"worse than in {kept[-1].name} by more than 10 %: " + ("nothing" if not worse else ""))
    for line in worse:
        print(f"  {line}")


def _grown(before: float, now: dict[str, Any]) -> float:
    """Return how many times worse a ratio is now."""
    return before / now["ratio"] if now["is_least"] else now["ratio"] / before


if __name__ == "__main__":
    main()
