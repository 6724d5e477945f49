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
from tools.judges.results import HERE, Kept, Result, baseline, compare, exceptions
from tools.judges.running import Judged, run_all
from tools.judges.suites import SUITES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tools.judges.results import Comparison
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
        try:
            results = _run(SUITES[name], options)
        except UnavailableError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 2
        is_whole = not options.only
        comparison = compare(results, baseline(name), exceptions(name), is_whole=is_whole)
        _report(name, comparison)
        status |= bool(comparison.missed)
        if is_whole and not options.brief:
            version = SUITES[name].version
            day = dt.datetime.now(tz=dt.UTC).date().isoformat()
            kept = Kept(name, version() if callable(version) else version, day, results)
            kept.write(options.results / f"{name}.tsv")
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.judges", description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("suites", nargs="*", choices=[[], *SUITES], metavar="SUITE", help=f"default: all of {', '.join(SUITES)}")
    add("--broker", default=_OURS, metavar="HOST:PORT", help="judge this broker rather than a fresh one of kafkalog")
    add("--sasl", metavar="HOST:PORT", help="its SASL listener, with the users of tools/judges/brokers.py")
    add("--only", metavar="REGEX", help="run the tests that match, and keep no results")
    add("--brief", action="store_true", help="fewer messages where a suite lets one choose; keep no results")
    add("--jobs", type=int, help="tests at a time; default: as many as the suite bears")
    add("--limit", type=float, metavar="SECONDS", help="how long one test may take")
    add("--cache", type=Path, default=_cache(), help="where sources, builds and logs are kept")
    add("--results", type=Path, default=HERE / "kept", metavar="DIR", help="where results of whole runs are kept")
    add("--table", action="store_true", help="only write the tables of docs/clients.md from the results that are kept")
    return parser


def _cache() -> Path:
    return Path(os.environ.get("KAFKALOG_JUDGES") or Path.home() / ".cache" / "kafkalog-judges")


def _run(suite: Suite, options: argparse.Namespace) -> list[Result]:
    started = time.monotonic()
    cache = Cache(options.cache)
    results = []
    with _broker(suite, cache, options) as (address, sasl_address):
        judged = Judged(
            address=address,
            sasl_address=sasl_address,
            cache=cache,
            limit_seconds=options.limit or suite.limit_seconds,
            is_brief=options.brief,
        )
        tests = suite.tests(judged)
        if options.only:
            tests = [each for each in tests if any(re.search(options.only, name) for name in each.names)]
        print(f"# {suite.name}: ready after {time.monotonic() - started:.0f} s", flush=True)
        for each in run_all(tests, options.jobs or suite.jobs):
            result = each._replace(reason=_MACHINE.sub("", each.reason))
            results.append(result)
            print(result.line, flush=True)
    print(f"# {suite.name}: done after {time.monotonic() - started:.0f} s", flush=True)
    return results


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
