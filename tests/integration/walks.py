"""A real 4.3.1 broker on disks with errors, after the walk of `tests/support/corpus/walking.py` over each.

`python -m tests.integration.walks` walks all disks on which the broker died and writes `walks.txt`: from verify, and in
turns from preflight and from what explain says of the broker's log. With `codes` it
walks from every error in the catalogue of findings, or from some codes, and writes `walked_codes.txt`; `not_walked.txt`
says of the others why not. It needs Java, Maven and a quarter of an hour.
"""

from __future__ import annotations

import sys
import tempfile
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings import FINDING_TYPES
from kafkalog_core.kafka.sim.start.partition import PartitionLoad
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source
from tests.integration import plants
from tests.integration.broker import Broker
from tests.support import jars
from tests.support.corpus import archives, walking

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from kafkalog_core.kafka.sim.start.results import LoadResult
    from tests.support.corpus.faults import Fault
    from tests.support.corpus.walking import Begin, Walk

TABLE: Final = Path(__file__).with_name("walks.txt")
CODES: Final = Path(__file__).with_name("walked_codes.txt")
NOT_PLANTED: Final = Path(__file__).with_name("not_walked.txt")
_CASE: Final = "modern/07-faults-4.3.1"
_BASE: Final = "unclean"
_FAULT_SETTINGS: Final = {
    "log.index.size.max.bytes": "10240",
    "log.initial.task.delay.ms": "600000",  # nothing is deleted while somebody looks
    "log.dir.failure.timeout.ms": "30000",
}
_Identity = tuple[int, int, int]
"""First and last offset and checksum of a batch; the first offset of a compressed message is -1."""
_INTERVAL: Final = "log.index.interval.bytes=500"  # of `Broker`, which decides whether an index goes back


class Restarted(Broker):
    """A broker on directories that are there: `Walk.homes`, and the metadata log."""

    def __init__(self, libs: Path, work_dir: Path, walk: Walk) -> None:
        self._walk = walk
        super().__init__(libs, work_dir)

    def _places(self, controller_port: int) -> dict[str, str]:
        dirs = {"log.dirs": ",".join(map(str, self._walk.homes)), "metadata.log.dir": str(self._walk.metadata)}
        return super()._places(controller_port) | dirs | _FAULT_SETTINGS

    def _format(self) -> None:
        """Everything is there."""


def judged() -> list[Fault]:
    """The faults on which the real broker died, of brokers whose metadata log is known."""
    return [fault for fault in walking.dying() if "/07-faults-4.3.1/" in fault.path]


def begun() -> list[tuple[Fault, Begin]]:
    """All walks over these: each from verify, and in turns from preflight and, where its log is there, from explain."""
    files, found = archives.contents(archives.source()).files, list[tuple["Fault", "Begin"]]()
    for number, fault in enumerate(judged()):
        other: Begin = "explain" if number % 2 and f"{fault.path}/broker.log" in files else "preflight"
        found += [(fault, "verify"), (fault, other)]
    return found


def starts(libs: Path, corpus: Path, fault: Fault, into: Path, begin: Begin = "verify") -> tuple[Walk, str]:
    """Walk over the disk of a fault and start the broker on it; the walk, and why the broker ended, or nothing."""
    walk = walking.lay(corpus, fault, into)
    walk.go(begin, corpus / fault.path / "broker.log" if begin == "explain" else None)
    return walk, _problem(libs, into, walk)


def _problem(libs: Path, into: Path, walk: Walk) -> str:
    """Start the broker; return why it ended, or nothing."""
    broker = Restarted(libs, into, walk)
    try:
        broker.start()
        broker.stop()
    except AssertionError as error:
        return str(error)[-300:]
    finally:
        broker.close()
    return ""


# --- from every error -------------------------------------------------------------------------------------------------
def planted(corpus: Path, into: Path) -> Iterator[tuple[str, str, Callable[[Path], Walk]]]:
    """Each code of severity error that can be planted, where it is from, and what lays its disk down.

    A fault of the corpus is taken before a plant by hand.
    """
    faults = {fault.path.split("/", 2)[2]: fault for fault in walking.all_faults() if _CASE in fault.path}
    found: dict[str, str] = {}
    for number, (name, fault) in enumerate(sorted(faults.items())):
        if not name.endswith(("dir_empty", "dir_missing")):
            for code in walking.lay(corpus, fault, _made(into / f"fault-{number}")).errors():
                found.setdefault(code, name)
    left_out = {line.split("\t")[0] for line in NOT_PLANTED.read_text().splitlines()}
    for code in sorted({*found, *plants.PLANTS, *plants.FILES} - left_out):
        if FINDING_TYPES[code].severity != "error" and code not in found:
            continue
        if code in found:
            yield code, found[code], lambda place, name=found[code]: walking.lay(corpus, faults[name], place)  # type: ignore[misc]
        else:
            yield code, "by hand", lambda place, code=code: _by_hand(corpus, code, place)  # type: ignore[misc]


def _made(place: Path) -> Path:
    place.mkdir(parents=True)
    return place


def _by_hand(corpus: Path, code: str, place: Path) -> Walk:
    walk = walking.lay_base(corpus, _CASE, _BASE, place)
    plants.plant(code, place / "disk")
    return walk


def walk_from(libs: Path, code: str, lay: Callable[[Path], Walk], into: Path) -> tuple[Walk, list[str]]:
    """Walk from an error and start the broker; return the walk, and what is wrong with it.

    The loss is the least: what is left after the start has every whole batch that the broker would keep without the
    walk, or every one before the place at which it would die.
    """
    walk = lay(into)
    problems = [] if code in walk.errors() else [f"{code} is not there"]
    kept = len(set().union(*map(_kept, walk.homes)))
    walk.go()
    problem = _problem(libs, into, walk)
    # a directory that was moved aside, or that the broker renamed, is not lost
    logs = [path for path in into.rglob("*-*/*.log") if walk.metadata not in path.parents]
    left = len(set().union(*map(_whole, logs)))
    problems += [problem] if problem else []
    return walk, problems if problem or left >= kept else [*problems, f"{left} batches are left of {kept}"]


def _kept(home: Path) -> set[_Identity]:
    """Whole batches that a start keeps of all partitions, or that are before the place at which it ends."""
    return set().union(*(_kept_of(str(path)) for path in sorted({log.parent for log in home.glob("*-*/*.log")})))


def _kept_of(path: str) -> set[_Identity]:
    result = _started(path, walking.RELEASE, _INTERVAL)
    problem = result.problem
    if problem is None:
        left = [(each.segment.log, each.size_bytes) for each in result.segments if each.segment is not None]
    else:
        left = [(each.log, each.size_bytes) for each in read_partition(path).segments if each.log is not None]
        if problem.position is not None:
            stop = next(number for number, (log, _) in enumerate(left) if log is not None and log.path == problem.path)
            left = [*left[:stop], (left[stop][0], problem.position)]
    return set().union(*(_whole(Path(log.path), size) for log, size in left if log is not None))


def size_after_start(path: Path, version: str) -> int | None:
    """The size of all logs of a partition after the simulated start of a release; null: it does not start."""
    result = _started(str(path), version)
    return None if result.problem is not None else sum(each.size_bytes for each in result.segments)


def _started(path: str, version: str, *assignments: str) -> LoadResult:
    """The simulated start of a release with some settings on a partition."""
    given = {"kafka": version, "config": None, "assignments": list(assignments), "topic_assignments": []}
    request = PlanRequest(target=target_dir([path]), options={"kafka": given}, now_ms=0)
    partition = read_partition(path)
    facts = request.context().facts(partition.name, as_loaded=True)
    load = PartitionLoad(partition, facts.context, facts.load_options)
    deque(load.run(), maxlen=0)
    return load.result


def _whole(log: Path, end: int | None = None) -> set[_Identity]:
    """Whole batches with a right checksum and with records, up to a byte; a copy counts once."""
    found = set()
    with Source.open(str(log)) as source:
        options = ScanOptions(resync=True)
        for item in scan(source, base_offset=None, options=options, end=source.size_bytes if end is None else end):
            if isinstance(item, Run):
                columns = map(item.batches.column, ("base_offset", "last_offset", "crc_stored", "record_count"))
                found |= {(base, last, crc) for base, last, crc, count in zip(*columns, strict=True) if count}
    return found


def _codes_main(libs: Path, corpus: Path, scratch: Path, wanted: Collection[str]) -> None:
    kept = CODES.read_text().splitlines(keepends=True) if wanted else []
    lines = [line for line in kept if line.split("\t")[0] not in wanted]
    for number, (code, source, lay) in enumerate(planted(corpus, scratch / "faults")):
        if wanted and code not in wanted:
            continue
        into = _made(scratch / f"code-{number}")
        walk, problems = walk_from(libs, code, lay, into)
        steps = " ; ".join(command.replace(f"{into}/", "") for command, _ in walk.steps) or "no command is named"
        lines.append(f"{code}\t{source}\t{'starts' if not problems else ' '.join(problems)[:200]}\t{steps}\n")
        sys.stderr.write(lines[-1])
    CODES.write_text("".join(sorted(lines)))


def main() -> None:
    """Walk over all of them, and keep a line of each."""
    libs = jars.fetch()
    lines = []
    with tempfile.TemporaryDirectory() as scratch:
        corpus = Path(scratch) / "corpus"
        corpus.mkdir()
        archives.unpack(archives.source(), corpus)
        if sys.argv[1:2] == ["codes"]:
            _codes_main(libs, corpus, Path(scratch), sys.argv[2:])
            return
        for number, (fault, begin) in enumerate(begun()):
            into = Path(scratch) / str(number)
            into.mkdir()
            walk, problem = starts(libs, corpus, fault, into, begin)
            steps = " ; ".join(command.replace(f"{into}/", "") for command, _ in walk.steps)
            lines.append(f"{fault.path.split('/', 2)[2]}\t{begin}\t{'starts' if not problem else 'dies'}\t{steps}\n")
            sys.stderr.write(lines[-1] + problem)
    TABLE.write_text("".join(lines))


if __name__ == "__main__":
    main()
