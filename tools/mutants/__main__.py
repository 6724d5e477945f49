"""`python -m tools.mutants --seed N`: mutants by seed, the tests that cover each, and a table of what survived.

cosmic-ray makes the mutants: it changes any place of a module, and a new operator is a class, documented and installed
like its own; mutmut mutates functions only, by an interface of its own. Its runner starts the tests once for each
mutant, minutes for each here, so `running` takes its place.

Pip's extra `mutants` brings what this needs. The first run measures which test runs which line, as long as the suite
takes with coverage; `--map DIR` keeps that for the next runs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tools.mutants import making, table
from tools.mutants.choosing import Tests
from tools.mutants.operators import check_examples

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tools.mutants.making import Mutant
    from tools.mutants.table import Identity

ROOT: Final = Path(__file__).resolve().parents[2]
IDENTITY: Final = ("path", "function", "old", "new")
SURVIVORS: Final = ROOT / "docs" / "mutants.txt"
_PYTEST: Final = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
_FEWEST: Final = 20
"""Of how many mutants a share says something."""
_MARKS: Final = "not java and not spark and not live"
_ROOMS: Final = ("kafkalog_core/storage/changing", "kafkalog_core/storage", "kafkalog_core/format", "kafkalog_core/ops")


def main(arguments: Sequence[str] | None = None) -> int:
    """Make mutants, run tests against them, and say what no test noticed."""
    options = _parser().parse_args(arguments)
    check_examples()
    paths = modules(options.paths, options.since) or modules(options.paths, None)
    with tempfile.TemporaryDirectory(prefix="m", ignore_cleanup_errors=True) as name:
        scratch = Path(name)
        copy = _copy(scratch / "w0")
        where = options.map or scratch
        if not (where / ".coverage").exists():
            _measure(copy, where, options.tests)
        tests = Tests(where, options.seconds)
        mutants = _again(options.again) if options.again else _drawn(paths, options.seed, options.count)
        jobs = (_job(mutant, tests) for mutant in mutants)
        results = _run(jobs, scratch, options.workers, options.minutes, options.tests)
        _unmount(scratch)
    if options.results is not None:
        with options.results.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(result) + "\n" for result in results)
    return report(results, table.read(SURVIVORS), options.at_least)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--seed", default="1", help="which mutants are drawn")
    add("--count", type=int, default=300, help="how many")
    add("--paths", nargs="*", default=[], help="modules and folders to mutate; default: all")
    add("--since", metavar="COMMIT", help="mutate only modules that changed since this commit, if any did")
    add("--tests", nargs="*", default=[], help="files and folders of the tests that are measured and run; default: all")
    add("--map", type=Path, metavar="DIR", help="where the coverage of each test is kept")
    add(
        "--again", type=Path, metavar="FILE", help="run what survived by an earlier --results again, in place of a draw"
    )
    add("--seconds", type=float, default=40, help="how long the tests of a mutant may take")
    add("--results", type=Path, metavar="FILE", help="append each mutant's result as a line of JSON")
    add("--workers", type=int, default=2, help="processes")
    add("--minutes", type=float, default=600, help="begin no mutant after this time")
    add(
        "--at-least", type=float, default=0, metavar="PERCENT", help=f"fail where fewer of {_FEWEST} or more are killed"
    )
    return parser


def modules(prefixes: Sequence[str], since: str | None) -> list[str]:
    """Return the modules to mutate: all but spark's, and the kernels where their compiled twin runs."""
    changed = None
    if since is not None:
        command = ["git", "diff", "--name-only", since, "HEAD"]
        changed = {*subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()}
    found = []
    for path in sorted([*ROOT.glob("kafkalog_core/**/*.py"), *ROOT.glob("kafkalog_cli/**/*.py")]):
        name = str(path.relative_to(ROOT))
        is_left_out = "spark" in path.parts or any(path.parent.glob("*.so"))
        is_chosen = not prefixes or any(name.startswith(prefix) for prefix in prefixes)
        if is_chosen and not is_left_out and (changed is None or name in changed):
            found.append(name)
    return found


def _copy(target: Path) -> Path:
    """Copy the checkout as it is, and what was compiled."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    names += [str(path.relative_to(ROOT)) for path in ROOT.glob("kafkalog_core/**/*.so")]
    for name in names:
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name, follow_symlinks=False)
    return target


def _measure(copy: Path, where: Path, chosen: Sequence[str]) -> None:
    """Run the suite once, or the chosen tests of it, and keep which test ran which line."""
    where.mkdir(parents=True, exist_ok=True)
    settings = copy / ".mutants.coveragerc"
    settings.write_text("[run]\nsource = kafkalog_core,kafkalog_cli\nrelative_files = true\n", encoding="utf-8")
    environment = _environment(copy) | {
        "COVERAGE_FILE": str(where / ".coverage"),
        "MUTANTS_DURATIONS": str(where / ".durations.json"),
    }
    options = ["-n", "2", "-p", "tools.mutants.timing", "--cov", f"--cov-config={settings}", "--cov-context=test"]
    subprocess.run([*_PYTEST, *options, "--cov-report=", "-m", _MARKS, *chosen], cwd=copy, env=environment, check=False)


def _environment(copy: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}


def _drawn(paths: Sequence[str], seed: str, count: int) -> Iterator[Mutant]:
    """Yield mutants drawn by seed; one whose code is the same is not counted."""
    places = [site for path in paths for site in making.sites(ROOT, path)]
    random.Random(seed).shuffle(places)  # noqa: S311 -- a sample
    yield from islice(filter(None, (making.mutant(ROOT, site) for site in places)), count)


def _again(results: Path) -> Iterator[Mutant]:
    """Yield the mutants that survived an earlier run, wherever their lines are now."""
    lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    wanted = [line for line in lines if line["outcome"] != "killed"]
    places = {path: making.sites(ROOT, path) for path in sorted({line["path"] for line in wanted})}
    for line in wanted:
        of_operator = (site for site in places[line["path"]] if site.operator == line["operator"])
        for site in sorted(of_operator, key=lambda each: abs(each.line - line["line"])):
            mutant = making.mutant(ROOT, site)
            if mutant is not None and mutant.identity == tuple(line[name] for name in IDENTITY):
                yield mutant
                break


def _job(mutant: Mutant, tests: Tests) -> dict[str, Any]:
    names, is_imported = tests.of(mutant)
    job = {"mutant": mutant.as_dict(), "text": mutant.text, "tests": names, "fresh": is_imported}
    return {**job, "slowest": tests.slowest(names)}


def _run(
    jobs: Iterable[dict[str, Any]], scratch: Path, workers: int, minutes: float, chosen: Sequence[str]
) -> list[dict[str, Any]]:
    """Run the tests of each mutant in one of several processes; return the results in the order of the mutants."""
    place = scratch / "c"
    place.mkdir()
    ends = time.time() + minutes * 60
    processes = [_worker(scratch, place, number, ends, chosen) for number in range(workers)]
    count = 0
    for job in jobs:
        (place / f"{count}.tmp").write_text(json.dumps(job), encoding="utf-8")
        (place / f"{count}.tmp").rename(place / f"{count}.job")
        count += 1
        if time.time() > ends:
            break
    (place / "end").write_text(str(count), encoding="utf-8")
    for process in processes:
        process.wait()
    done = (place / f"{number}.json" for number in range(count))
    return [json.loads(path.read_text(encoding="utf-8")) for path in done if path.exists()]


def _worker(scratch: Path, place: Path, number: int, ends: float, chosen: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a process that takes jobs, in a copy of its own."""
    copy = scratch / f"w{number}"
    if number:
        shutil.copytree(scratch / "w0", copy, symlinks=True)
    compiling = [sys.executable, "-m", "compileall", "-q", "kafkalog_core", "kafkalog_cli", "tests"]
    subprocess.run(compiling, cwd=copy, check=True)
    temporary = scratch / f"t{number}"
    temporary.mkdir()
    environment = _environment(copy) | {"MUTANTS_JOBS": str(place), "MUTANTS_ENDS": str(ends), "TMPDIR": str(temporary)}
    command = [*_PYTEST, "-p", "tools.mutants.running", f"--basetemp={scratch}/b{number}", "-m", _MARKS]
    command += chosen
    return subprocess.Popen(command, cwd=copy, env=environment, stdout=subprocess.DEVNULL)


def _unmount(scratch: Path) -> None:
    """Take away file systems that tests mounted which did not come to their end."""
    mounts = Path("/proc/mounts")
    lines = mounts.read_text(encoding="utf-8").splitlines() if mounts.exists() else []
    for place in (line.split()[1] for line in lines):
        if place.startswith(f"{scratch}/"):
            subprocess.run(["umount", "--lazy", place], check=False)


def report(results: Sequence[dict[str, Any]], known: dict[Identity, str], at_least: float) -> int:
    """Print the survivors and a row for each room; return the exit status.

    The share is that of the mutants that change what the program does.
    """
    rows: dict[str, Counter[str]] = {}
    for result in results:
        identity: Identity = tuple(result[name] for name in IDENTITY)
        word = known.get(identity, "")
        kind = (
            "killed"
            if result["outcome"] == "killed" or word.startswith("elsewhere")
            else word.partition(":")[0] or "new"
        )
        rows.setdefault(_room(result["path"]), Counter())[kind] += 1
        if kind == "new":
            print(f"{result['outcome']} (line {result['line']})\n{table.entry(identity, '?')}")
    total = sum(rows.values(), Counter[str]())
    kinds = ("killed", "equivalent", "left", "new")
    print(f"{'room':32}{'made':>8}" + "".join(f"{kind:>12}" for kind in kinds) + f"{'% killed':>10}")
    for room, row in [*sorted(rows.items()), ("all", total)]:
        print(f"{room:32}{row.total():8}" + "".join(f"{row[kind]:12}" for kind in kinds) + f"{_share(row):10.1f}")
    return int(total.total() >= _FEWEST and _share(total) < at_least)


def _share(row: Counter[str]) -> float:
    differing = row.total() - row["equivalent"]
    return 100 * row["killed"] / differing if differing else 100.0


def _room(path: str) -> str:
    return next((room for room in _ROOMS if path.startswith(room)), path.partition("/")[0])


if __name__ == "__main__":
    sys.exit(main())
