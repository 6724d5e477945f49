"""`kafkalog groups` on offset commits: `python -m benchmarks.groups [--share 1.0] [--keys 100000] [--turns 3]`.

The log is that of `benchmarks.decoded`: one partition of `__consumer_offsets`, 5 million commits, drawn evenly from the
keys. Measured are the codec alone (key and value of each key's last commit, which is all that has to be decoded) and
whole processes: the table of all groups, by one process and by two. Prints records a second, the median of the turns
and the best, and the largest resident set of the first process; decides nothing.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks import decoded, machine

if TYPE_CHECKING:
    from collections.abc import Sequence

_RECORDS: Final = 5_000_000
_KEYS: Final = 100_000
_JOBS: Final = ("1", "2")


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the log, measure, print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.groups", description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of 5 million commits (default 1.0)")
    parser.add_argument("--keys", type=int, default=_KEYS, help="distinct group, topic and partition")
    parser.add_argument("--turns", type=int, default=3, help="turns of each measure (default 3)")
    parser.add_argument("--dir", help="where the log is written and kept; else a temporary directory")
    options = parser.parse_args(arguments)
    for name, value in machine.description().items():
        print(f"{name}: {value}")
    records = round(_RECORDS * options.share)
    with tempfile.TemporaryDirectory(prefix="kafkalog-bench-") as scratch:
        place = decoded.commit_log(Path(options.dir or scratch), records, options.keys)
        _measure(str(place), records, options)


def _measure(path: str, records: int, options: argparse.Namespace) -> None:
    size_bytes = sum(file.stat().st_size for file in Path(path).iterdir())
    print(f"{records} commits of {options.keys} keys, {size_bytes / 1e6:.0f} MB")
    decoded.print_heading()
    decoded.measure_codec(options.keys, options.turns)
    machine.verify_process(path, "--jobs", "1")  # into the page cache
    passes: dict[str, list[machine.ProcessPass]] = {}
    for _ in range(options.turns):
        for jobs in _JOBS:
            done = machine.groups_process(path, "--output", "table", "--jobs", jobs)
            passes.setdefault(f"groups --jobs {jobs}", []).append(done)
    for name, some in passes.items():
        decoded.print_passes(name, records, some)


if __name__ == "__main__":
    main()
