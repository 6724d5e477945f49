"""`python -m tools.judges [SUITE...]`: test suites of real clients against `kafkalog serve --read-write`.

Each suite is fetched by package name and version, built in a cache outside the checkout, and run against a fresh
broker. Its results are compared with those of a real broker of 4.3.1. The exit status is 1 if a test that passes there
does not pass here and is not named in exceptions.tsv, and 2 if a suite cannot be run.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import re
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.judges import table
from tools.judges.brokers import serving
from tools.judges.packages import Cache, UnavailableError
from tools.judges.results import HERE, Kept, Result, Status, baseline, compare, exceptions
from tools.judges.running import Judged, run_all
from tools.judges.suites import SUITES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tools.judges.results import Comparison
    from tools.judges.running import Job
    from tools.judges.suites import Suite

_OURS: Final = "kafkalog"
_MACHINE: Final = re.compile(r"/(?:tmp|root|home|var)/\S*/")
"""Paths of the machine in the reasons of failures."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run suites, or write the table. Return the exit status."""
    options = _parser().parse_args(arguments)
    if options.table:
        table.write()
        return 0
    status = 0
    for name in options.suites or SUITES:
        suite, path = SUITES[name], options.results / f"{name}.tsv"
        try:
            before = {each.test: each for each in Kept.read(path).results} if options.missed else {}
            results = [*(before | {each.test: each for each in _run(suite, options, before)}).values()]
        except (UnavailableError, OSError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 2
        is_whole = not options.only
        comparison = compare(results, baseline(name), exceptions(name), is_whole=is_whole)
        _report(name, comparison)
        status |= bool(comparison.missed)
        if is_whole and not options.brief:
            version = suite.version() if callable(suite.version) else suite.version
            Kept(name, version, dt.datetime.now(tz=dt.UTC).date().isoformat(), results).write(path)
    return status


def _missed(suite: Suite, results: Iterable[Result]) -> set[str]:
    """The tests that did not pass, and do on the real broker."""
    comparison = compare(results, baseline(suite.name), exceptions(suite.name), is_whole=False)
    return {each.test for each in comparison.missed}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.judges", description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("suites", nargs="*", choices=[[], *SUITES], metavar="SUITE", help=f"default: all of {', '.join(SUITES)}")
    add("--broker", default=_OURS, metavar="HOST:PORT", help="judge this broker rather than a fresh one of kafkalog")
    add("--sasl", metavar="HOST:PORT", help="its SASL listener, with the users of tools/judges/brokers.py")
    add("--only", metavar="REGEX", help="run the tests that match, and keep no results")
    add("--missed", action="store_true", help="run again what did not pass in the results that are kept, one by one")
    add("--brief", action="store_true", help="fewer messages where a suite lets one choose; keep no results")
    add("--jobs", type=int, help="tests at a time; default: as many as the suite bears")
    add("--limit", type=float, metavar="SECONDS", help="how long one test may take")
    add("--cache", type=Path, default=_cache(), help="where sources, builds and logs are kept")
    add("--results", type=Path, default=HERE / "kept", metavar="DIR", help="where results of whole runs are kept")
    add("--table", action="store_true", help="only write the tables of docs/clients.md from the results that are kept")
    return parser


def _cache() -> Path:
    return Path(os.environ.get("KAFKALOG_JUDGES") or Path.home() / ".cache" / "kafkalog-judges")


def _run(suite: Suite, options: argparse.Namespace, before: Mapping[str, Result]) -> list[Result]:
    """Run the tests of a suite, or those of them that did not pass before.

    What does not pass, and does on the real broker, is run once more alone: tests with limits of time fail when the
    machine has too much to do. A test that then passes has the first failure as its reason.
    """
    started = time.monotonic()
    cache = Cache(options.cache)
    results: dict[str, Result] = {}
    with _broker(suite, cache, options) as (address, sasl_address):
        judged = Judged(
            address=address,
            sasl_address=sasl_address,
            cache=cache,
            limit_seconds=options.limit or suite.limit_seconds,
            is_brief=options.brief,
        )
        tests = suite.tests(judged)
        if before and not suite.is_ordered:
            missed = _missed(suite, before.values())
            tests = [each for each in tests if missed & {*each.names}]
        if options.only:
            tests = [each for each in tests if any(re.search(options.only, name) for name in each.names)]
        print(f"# {suite.name}: ready after {time.monotonic() - started:.0f} s", flush=True)
        for result in _results(tests, 1 if before else options.jobs or suite.jobs):
            results[result.test] = result
        missed = set() if suite.is_ordered else _missed(suite, results.values())
        for result in _results([each for each in tests if missed & {*each.names}], 1):
            first = results[result.test]
            reason = f"alone; at first: {first.reason}" if result.status is Status.PASSED else result.reason
            if first.status is not Status.PASSED:
                results[result.test] = result._replace(reason=reason)
    print(f"# {suite.name}: done after {time.monotonic() - started:.0f} s", flush=True)
    return [*results.values()]


def _results(tests: Sequence[Job], jobs: int) -> Iterator[Result]:
    for each in run_all(tests, jobs):
        result = each._replace(reason=_MACHINE.sub("", each.reason))
        print(result.line, flush=True)
        yield result


@contextmanager
def _broker(suite: Suite, cache: Cache, options: argparse.Namespace) -> Iterator[tuple[str, str | None]]:
    if options.broker != _OURS:
        yield options.broker, options.sasl
        return
    log = cache.log(f"{suite.name}/broker.log")
    with serving(suite.settings, log) as addresses:
        yield addresses


def _report(name: str, comparison: Comparison) -> None:
    counts = ", ".join(f"{count} {status}" for status, count in sorted(comparison.counts.items()))
    print(f"{name}: {counts}; {comparison.percent:.1f} % of {comparison.applicable} applicable tests passed")
    for each in comparison.gained:
        print(f"  passes here, and not on the real broker: {each.test}")
    for each, reason in comparison.exceptions:
        print(f"  exception: {each.test}: {reason}")
    for test in comparison.unused:
        print(f"  passes, although exceptions.tsv names it: {test}")
    for each in comparison.missed:
        print(f"  passes on the real broker, and not here: {each.test}: {each.reason}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
