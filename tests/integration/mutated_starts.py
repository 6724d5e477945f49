"""What verify says that a broker does with seeded harm, next to a real broker that starts on the same files.

    python -m tests.integration.mutated_starts [--first 1] [--count 20] [--release 4.3.1]

Each seed harms one to three places of a log directory of the corpus. verify is asked, the broker starts on a copy, and
each sentence about a file that can be judged by that file is. Prints a line for each wrong sentence, and the counts;
exit status 1: one is wrong.
"""

from __future__ import annotations

import argparse
import collections
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkalog_core.engine.targets import resolve
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from tests.integration.walks import Restarted
from tests.support import jars
from tests.support.corpus import archives, walking
from tests.support.judging import content_of, is_stopping, is_true
from tests.support.mutating import mutate, mutate_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.findings import Finding

_CASE: Final = "modern/07-faults-4.3.1"
_TEXTS: Final = 0.4
"""The part of the disks of which a text file is harmed too."""


def sentences(libs: Path, corpus: Path, into: Path, seed: int, release: str) -> tuple[str, list[tuple[str, str]]]:
    """Return what was done to the disk, and each sentence with `right`, `wrong` or `open`."""
    rng = random.Random(seed)
    base = rng.choice(("clean", "unclean"))
    walk = walking.lay_base(corpus, _CASE, base, into)
    (home,) = walk.homes
    told = f"{base}; {mutate(home, rng)}"
    if rng.random() < _TEXTS:
        told += f"; {mutate_text(home, rng)}"
    shutil.copytree(home, into / "before")
    broker = Restarted(libs, into, walk)
    request = VerifyRequest(
        targets=tuple(resolve([str(home), str(walk.metadata)])),
        now_ms=time.time_ns() // 1_000_000,
        kafka=SettingsRequest(kafka=release, config=str(broker.config)),
    )
    found = [each for verdict in verify(request) for each in verdict.findings if each.path.startswith(f"{home}/")]
    try:
        broker.start()
        has_started = True
    except AssertionError:
        has_started = False
    finally:
        broker.close()
    return told, list(_judged(found, home, into / "before", has_started=has_started, output=broker.output))


def _judged(
    found: Sequence[Finding], home: Path, before: Path, *, has_started: bool, output: str
) -> list[tuple[str, str]]:
    stops = is_stopping(found)
    if stops == has_started:
        what = "starts" if has_started else f"does not start: {output[-600:]}"
        told = next((each.broker_action or "" for each in found if is_stopping([each])), "nothing of that")
        return [("wrong", f"the broker {what}; verify says: {told}")]
    if stops:
        return [("right", "the broker does not start")]
    judged = []
    for each in found:
        name = each.path.removeprefix(f"{home}/")
        if list(home.glob(f"{name.split('/')[0]}.*-stray")):  # another directory has its name now
            continue
        answer = is_true(each, content_of(before / name), content_of(home / name))
        word = {True: "right", False: "wrong", None: "open"}[answer]
        judged.append((word, f"{each.code} {name} at {each.position}: {each.broker_action}"))
    return judged


def main() -> int:
    """Make the seeds; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--release", default=jars.KAFKA_VERSION)
    options = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="kafkalog-mutated-") as scratch:
        corpus = Path(scratch, "corpus")
        archives.unpack(archives.source(), corpus)
        libs = jars.fetch(options.release)
        for seed in range(options.first, options.first + options.count):
            into = Path(scratch, f"seed-{seed}")
            into.mkdir()
            told, judged = sentences(libs, corpus, into, seed, options.release)
            counts.update(word for word, _ in judged)
            for word, sentence in judged:
                if word == "wrong":
                    sys.stdout.write(f"{seed}\t{told}\t{sentence}\n")
                    sys.stdout.flush()
            shutil.rmtree(into)
    told = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
    sys.stdout.write(f"{options.count} disks: {told}\n")
    return int(bool(counts["wrong"]))


if __name__ == "__main__":
    sys.exit(main())
