"""What verify and preflight say that a broker does with seeded harm, next to a real one that starts on these files.

    python -m tests.integration.mutated_starts [--first 1] [--count 20] [--release 4.3.1] [--case CASE]

Each seed harms one to three places of a log directory of the corpus, and of some the metadata log too. Both are asked,
then the broker starts. Each sentence about a file that can be judged by that file is, and each partition of preflight
by the offsets that the broker serves and by its files. Prints a line for each wrong sentence, and the counts; exit
status 1: one is wrong.
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
from kafkalog_core.format.names import METADATA_TOPIC
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.ops.preflight.preflight import PreflightRequest, preflight
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from tests.integration.walks import Restarted
from tests.support import jars
from tests.support.corpus import archives, walking
from tests.support.corpus.walking import Walk
from tests.support.judging import content_of, is_stopping, is_true
from tests.support.judging_starts import answers_of, is_stable_true, is_start_true
from tests.support.mutating import mutate, mutate_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.preflight.preflight import Preflight
    from tests.support.judging_starts import Answers, Judged

CASE: Final = "modern/07-faults-4.3.1"
_TEXTS: Final = 0.4
"""The part of the disks of which a text file is harmed too."""
_CLEANED: Final = "cleaner-offset-checkpoint"
_MAYBE: Final = " broker may start"
_METADATA: Final = 0.2
"""The part of the disks of which the metadata log is harmed too."""


def _laid(corpus: Path, case: str, rng: random.Random, into: Path) -> tuple[str, Walk]:
    """Lay down the disk of a case; how its broker was stopped."""
    if not (corpus / case / "logdir").is_dir():
        base = rng.choice(("clean", "unclean"))
        return base, walking.lay_base(corpus, case, base, into)
    shutil.copytree(corpus / case / "logdir", into / "disk")
    base = "clean" if (into / "disk" / ".kafka_cleanshutdown").exists() else "unclean"
    return base, Walk([into / "disk"], {}, into / "disk")


def sentences(
    libs: Path, corpus: Path, into: Path, seed: int, release: str, case: str = CASE
) -> tuple[str, list[tuple[str, str]]]:
    """Return what was done to the disk, and each sentence with `right`, `wrong` or `open`."""
    rng = random.Random(seed)
    base, walk = _laid(corpus, case, rng, into)
    (home,) = walk.homes
    roots = list(dict.fromkeys((home, walk.metadata or home)))
    told = f"{base}; {mutate(home, rng)}"
    if rng.random() < _TEXTS:
        told += f"; {mutate_text(home, rng)}"
    if rng.random() < _METADATA:
        told += f"; of the metadata log: {mutate(roots[-1], rng)}"
    for each in roots:
        shutil.copytree(each, into / "before" / each.name)
    broker = Restarted(libs, into, walk)
    if _CLEANED not in told:  # which only the cleaner reads
        broker.configure({"log.cleaner.enable": "false"})  # what the start leaves is looked at
    asked = {
        "targets": tuple(resolve(list(map(str, roots)))),
        "now_ms": time.time_ns() // 1_000_000,
        "kafka": SettingsRequest(kafka=release, config=str(broker.config)),
    }
    found = [
        each
        for verdict in verify(VerifyRequest(**asked))
        for each in verdict.findings
        if each.path.startswith(f"{into}/")
    ]
    start = preflight(PreflightRequest(**asked))
    answers: Mapping[str, Answers] = {}
    try:
        broker.start()
        has_started = True
    except AssertionError:
        has_started = False
    try:
        if has_started:
            answers = answers_of(broker.bootstrap, start.partitions)
    finally:
        broker.close()
    judged = [
        *_judged(
            found,
            into,
            has_started=has_started,
            output=broker.output,
            is_foretold=start.start.stop is not None or _MAYBE in start.verdict,
        ),
        *(_word(*judged) for name, answer in answers.items() if (judged := _of_stable(found, home / name, answer))),
    ]
    return told, [*judged, *_judged_start(start, into, answers, broker.output, has_started=has_started)]


def _word(truth: bool, sentence: str) -> tuple[str, str]:
    return "right" if truth else "wrong", sentence


def _of_stable(found: Sequence[Finding], partition: Path, answers: Answers) -> Judged | None:
    return is_stable_true([each for each in found if Path(each.path).parent == partition], answers)


def _judged_start(
    start: Preflight, into: Path, answers: Mapping[str, Answers], output: str, *, has_started: bool
) -> list[tuple[str, str]]:
    if _MAYBE in start.verdict:
        return [("open", start.verdict)]
    if (start.start.stop is None) is not has_started:
        return [("wrong", f"preflight: {start.verdict}")]
    if not has_started:
        return [("right", start.verdict)]
    is_metadata_cut = any(each.is_cut for each in start.partitions if each.place.name.topic == METADATA_TOPIC)
    return [
        _word(truth, f"preflight {each.name}: {what}")
        for each in start.partitions
        for truth, what in is_start_true(
            each,
            _before(into, each.place.path),
            Path(each.place.path),
            answers.get(each.name),
            output,
            are_epochs_old=is_metadata_cut,
        )
    ]


def _before(into: Path, path: Path | str) -> Path:
    return into / "before" / Path(path).relative_to(into)


def _judged(
    found: Sequence[Finding], into: Path, *, has_started: bool, output: str, is_foretold: bool
) -> list[tuple[str, str]]:
    stops = is_stopping(found)
    if not stops and not has_started and is_foretold:  # verify does not replay the metadata log
        return []
    if stops == has_started:
        what = "starts" if has_started else f"does not start: {output[-600:]}"
        told = next((each.broker_action or "" for each in found if is_stopping([each])), "nothing of that")
        return [("wrong", f"the broker {what}; verify says: {told}")]
    if stops:
        return [("right", "the broker does not start")]
    judged = []
    for each in found:
        path = Path(each.path)
        if list(path.parent.parent.glob(f"{path.parent.name}.*-stray")):  # another directory has its name now
            continue
        answer = is_true(each, content_of(_before(into, path)), content_of(path))
        word = {True: "right", False: "wrong", None: "open"}[answer]
        name = path.relative_to(into)
        judged.append((word, f"{each.code} {name} at {each.position}: {each.broker_action}"))
    return judged


def main() -> int:
    """Make the seeds; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--release", default=jars.KAFKA_VERSION)
    parser.add_argument("--case", default=CASE)
    options = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="kafkalog-mutated-") as scratch:
        corpus = Path(scratch, "corpus")
        archives.unpack(archives.source(), corpus)
        libs = jars.fetch(options.release)
        for seed in range(options.first, options.first + options.count):
            into = Path(scratch, f"seed-{seed}")
            into.mkdir()
            told, judged = sentences(libs, corpus, into, seed, options.release, options.case)
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
