"""Many seeds at once, and a file of what came of them: `python -m tests.integration.differential_report`."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.integration.differential import Verdict
from tests.integration.kinds import KINDS
from tests.integration.log_harness import running_harness
from tests.support.jars import BEFORE_TOPIC_IDS, KAFKA_VERSION, NEWEST, ZOOKEEPER_ERA
from tests.support.scratch import MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.log_harness import LogHarness

_RELEASES: Final = f"{KAFKA_VERSION}, or the kind's release: {NEWEST}, {ZOOKEEPER_ERA}, {BEFORE_TOPIC_IDS}"
_HEAD: Final = f"""Random logs through kafkalog and Kafka's classes: {_RELEASES}.
Written by: python -m tests.integration.differential_report. One line a seed: kind, seed, rounds compared, rounds that
Kafka itself gave up, logs that are the same byte for byte, logs that are the same record for record and header for
header (a codec made other bytes of them), differences.
"""
_Lines = dict[tuple[str, int], list[str]]
"""By kind and seed: its line, and one for each difference."""


def main() -> None:
    """Exit status 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=400, help="how many seeds of each kind")
    parser.add_argument("--kind", action="append", type=_kind, help="only this kind, or KIND=COUNT; repeatable")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("differential.txt"))
    parser.add_argument("--add", action="store_true", help="keep what the file has of other seeds")
    given = parser.parse_args()
    notes, lines = _kept(given.out) if given.add else ([], {})
    for kind, count in given.kind or map(_kind, KINDS):
        with running_harness(KINDS[kind].version) as harness:
            for seed in range(given.first, given.first + (count or given.count)):
                lines[kind, seed] = [*_lines(kind, seed, _verdict(harness, kind, seed))]
    totals = [_total(kind, lines) for kind in dict.fromkeys(kind for kind, _ in lines)]
    of_seeds = [each for _, own in sorted(lines.items(), key=lambda item: _place(item[0])) for each in own]
    given.out.write_text("\n\n".join((_HEAD.strip(), "\n".join(totals), *notes, "\n".join(of_seeds))) + "\n")
    raise SystemExit(any(not line.endswith(" 0") for line in totals))


def _kept(path: Path) -> tuple[list[str], _Lines]:
    """The notes of a file, and its lines by kind and seed."""
    _, _, *notes, text = path.read_text().rstrip("\n").split("\n\n")
    lines: _Lines = {}
    for line in text.splitlines():
        if not line.startswith("  "):
            kind, seed, _ = line.split(" ", 2)
            own = lines[kind, int(seed)] = []
        own.append(line)
    return notes, lines


def _kind(text: str) -> tuple[str, int]:
    """A kind, and how many seeds of it; 0: as many as of the others."""
    kind, _, count = text.partition("=")
    if kind not in KINDS:
        raise argparse.ArgumentTypeError(f"{kind} is none of {', '.join(KINDS)}")
    return kind, int(count or 0)


def _verdict(harness: LogHarness, kind: str, seed: int) -> Verdict:
    with tempfile.TemporaryDirectory(dir=MEMORY) as work_dir:
        try:
            return KINDS[kind].compare(harness, KINDS[kind].draw(seed), Path(work_dir))
        except Exception as error:  # noqa: BLE001 - whatever either side throws is a difference
            return Verdict(differences=[f"{type(error).__name__}: {error}"])


def _lines(kind: str, seed: int, verdict: Verdict) -> Iterator[str]:
    yield _line(kind, str(seed), verdict)
    yield from (f"  {each}" for each in verdict.differences)


def _line(kind: str, name: str, verdict: Verdict) -> str:
    counts = (verdict.rounds, verdict.given_up, verdict.same, verdict.recompressed, len(verdict.differences))
    return " ".join((kind, name, *map(str, counts)))


def _total(kind: str, lines: _Lines) -> str:
    """The line of all seeds of a kind."""
    rows = [map(int, own[0].split(" ")[2:]) for (of_kind, _), own in lines.items() if of_kind == kind]
    return " ".join((kind, "all", *(str(sum(column)) for column in zip(*rows, strict=True))))


def _place(key: tuple[str, int]) -> tuple[int, int]:
    return [*KINDS].index(key[0]), key[1]


if __name__ == "__main__":
    main()
