"""What real coordinators make of logs that releases load differently, and what kafkalog says of them.

    python -m tests.integration.coordinator_table [--work DIR] [--table] [RELEASE...]

For each release a real broker makes `__consumer_offsets` and `__transaction_state`, and stops. The logs of
`tests/support/coordinator_cases.py` replace theirs, a case a partition, and it starts again. Its log says which
partitions it could not load, and at which record; a client lists the groups. `coordinator_table.txt` is the result.
Exit status 1: a case differs from what kafkalog says.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.kafka.rules.coordinator_rules import coordinator_rules
from kafkalog_core.kafka.rules.partitioners import partition_of_name
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.sim.start.coordinators import GROUPS_TOPIC, load_coordinator
from kafkalog_core.text import count_of
from kafkalog_core.topics.transactions import TRANSACTIONS_TOPIC
from tests.integration.listing import listed
from tests.integration.release_matrix import QUIET
from tests.integration.releases import broker_of, write
from tests.support.coordinator_cases import GROUP_CASES, TRANSACTION_CASES, case_group
from tests.support.groups import GroupLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalog_core.kafka.sim.start.coordinators import CoordinatorLoad
    from tests.integration.broker import Broker

TABLE: Final = Path(__file__).with_suffix(".txt")
RELEASES: Final = ("2.8.2", "3.3.2", "3.9.2", "4.1.1", "4.2.0", "4.2.2", "4.3.1", "4.4.0")
_CASES: Final = {GROUPS_TOPIC: GROUP_CASES, TRANSACTIONS_TOPIC: TRANSACTION_CASES}
_LOAD_SECONDS: Final = 60
_SETTINGS: Final = {
    **QUIET,
    "offsets.topic.num.partitions": str(len(GROUP_CASES)),
    "transaction.state.log.num.partitions": str(len(TRANSACTION_CASES)),
    "offsets.retention.check.interval.ms": "3600000",
    "unstable.api.versions.enable": "true",
}
_STOPPED: Final = {
    GROUPS_TOPIC: re.compile(r"(?:Error loading offsets from|Failed to load metadata from) __consumer_offsets-(\d+)\b"),
    TRANSACTIONS_TOPIC: re.compile(r"Error loading transactions from transaction log __transaction_state-(\d+)\b"),
}
_AT: Final = re.compile(r"Replaying record .* from __consumer_offsets-(\d+) at offset (\d+) with .* failed")
_ENDED: Final = {
    GROUPS_TOPIC: re.compile(r"Finished loading (?:of metadata from|offsets and group metadata from) (\S+)-(\d+)\b"),
    TRANSACTIONS_TOPIC: re.compile(r"Finished loading \d+ transaction metadata from (\S+)-(\d+)\b"),
}
_IDS: Final = re.compile(r"Finished loading (\d+) transaction metadata from \S+-(\d+)\b")
_HEAD: Final = """What coordinators make of logs that releases load differently.

By `python -m tests.integration.coordinator_table --table`.

Each cell: `loads`, or `stops` where the broker's log has an error of the partition (`at N`: the offset that it names);
the groups that a client then lists, or how many transactional ids the broker's log counts; of stopped partitions what a
client is told that asks for the offsets of a group: `no offset`, or the error. kafkalog foretells whether it stops,
where (if the broker says where), the groups, and the number. Where that is not so, DIFFERS is added.

"""


class Seen(NamedTuple):
    """What a broker made of one case: whether and where it stops, and the groups that clients list.

    The groups of `__transaction_state` are None, and so are the `ids` of `__consumer_offsets`: the number of
    transactional ids that the broker's log counts. `answer` is what it says of the committed offset of a group in a
    partition whose load stopped.
    """

    stops: bool
    offset: int | None
    groups: frozenset[str] | None
    ids: int | None
    answer: str


def seen_by(version: str, work: Path) -> dict[tuple[str, int], Seen]:
    """What a broker of a release makes of each case, by its topic and partition."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    broker = broker_of(version, work)
    try:
        broker.configure(_SETTINGS)
        broker.start()
        topics = [f"topic={name}:retention.ms=-1" for name in ("plain", "txn")]
        write(version, broker.bootstrap, 1, [*topics, "plain=none", "group", "group-transactions"])
        broker.stop()
        _plant(broker)
        broker.start()
        return _loaded(broker)
    finally:
        broker.close()


def _plant(broker: Broker) -> None:
    """Replace the logs of the coordinators by those of the cases."""
    for topic, cases in _CASES.items():
        for number, write_log in enumerate(cases.values()):
            place = broker.partition_dir(topic, number)
            for path in place.iterdir():
                if path.suffix in {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}:
                    path.unlink()
            (place / "leader-epoch-checkpoint").unlink(missing_ok=True)
            shutil.copy(_log(write_log, broker.work_dir / "made", number), place)
            (place / f"{0:020}.index").touch()  # without one a start recovers the segment, and truncates it at damage
            shutil.rmtree(broker.work_dir / "made")
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (broker.log_dir / name).unlink()


def _log(write_log: Callable[[GroupLog], object], place: Path, number: int) -> Path:
    log = GroupLog(place, number)
    write_log(log)
    return log.path / f"{0:020}.log"


def _loaded(broker: Broker) -> dict[tuple[str, int], Seen]:
    """Wait until each partition is loaded, or is not."""
    wanted = {(topic, number) for topic, cases in _CASES.items() for number in range(len(cases))}
    deadline = time.monotonic() + _LOAD_SECONDS
    while True:
        output = broker.output
        stopped = {(topic, int(number)) for topic, line in _STOPPED.items() for number in line.findall(output)}
        ended = {(topic, int(number)) for line in _ENDED.values() for topic, number in line.findall(output)}
        if wanted <= stopped | ended or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    assert wanted <= stopped | ended, f"not loaded: {sorted(wanted - stopped - ended)}\n{output[-3000:]}"
    # On a busy machine a leader may be elected again during a load, which then begins again; a coordinator of
    # transactions has both lines where it stops
    stopped -= {place for place in ended if place[0] == GROUPS_TOPIC}
    time.sleep(1)
    offsets = {(GROUPS_TOPIC, int(number)): int(offset) for number, offset in _AT.findall(broker.output)}
    ids = {(TRANSACTIONS_TOPIC, int(number)): int(count) for count, number in _IDS.findall(output)}
    groups = [case_group(number, "g") for topic, number in stopped if topic == GROUPS_TOPIC]
    listing = listed(broker.bootstrap, *groups)
    found = {}
    for topic, number in sorted(wanted):
        place, is_group = (topic, number), topic == GROUPS_TOPIC
        own = frozenset(each for each in listing.groups if partition_of_name(each, len(GROUP_CASES)) == number)
        answer = listing.answers.get(case_group(number, "g"), "") if is_group else ""
        found[place] = Seen(place in stopped, offsets.get(place), own if is_group else None, ids.get(place), answer)
    return found


def foretold(version: str, work: Path) -> dict[tuple[str, int], CoordinatorLoad]:
    """What kafkalog says of each case."""
    rules = coordinator_rules(parse_release(version))
    assert rules is not None
    shutil.rmtree(work, ignore_errors=True)
    found = {}
    for topic, cases in _CASES.items():
        for number, write_log in enumerate(cases.values()):
            path = _log(write_log, work / topic, number).parent
            found[topic, number] = load_coordinator(topic, str(path), [rules])[0]
    return found


def differs(seen: Seen, load: CoordinatorLoad) -> bool:
    """Whether kafkalog is wrong."""
    if seen.stops != (load.stop is not None and not load.stop.is_silent):
        return True
    is_elsewhere = seen.offset is not None and load.stop is not None and seen.offset != load.stop.offset
    found = seen.groups if seen.ids is None else seen.ids
    return is_elsewhere or found not in {None, load.names, len(load.names)}


def _cell(seen: Seen, load: CoordinatorLoad) -> str:
    at = "" if seen.offset is None else f" at {seen.offset}"
    loaded = ", ".join(sorted(seen.groups or ())) if seen.ids is None else count_of(seen.ids, "transactional id")
    words = [f"stops{at}" if seen.stops else "loads", loaded, seen.answer]
    return "; ".join(word for word in words if word) + (" DIFFERS" if differs(seen, load) else "")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path.home() / ".cache" / "kafkalog-coordinators")
    parser.add_argument("--table", action="store_true", help=f"write {TABLE.name}, where all releases are asked for")
    parser.add_argument("releases", nargs="*", default=list(RELEASES))
    wanted = parser.parse_args()
    cells: dict[tuple[str, int], list[tuple[str, str]]] = {}
    for version in wanted.releases:
        seen, said = seen_by(version, wanted.work / version), foretold(version, wanted.work / "foretold")
        for place, each in seen.items():
            cell = _cell(each, said[place])
            cells.setdefault(place, []).append((version, cell))
            sys.stdout.write(f"{version} {place[0]}-{place[1]} {cell}\n")
            sys.stdout.flush()
    text = table_of(cells)
    if wanted.table:
        TABLE.write_text(text)
    raise SystemExit("DIFFERS" in text.removeprefix(_HEAD))


def table_of(cells: Mapping[tuple[str, int], Sequence[tuple[str, str]]]) -> str:
    """The text of the result file: a paragraph a case, releases with the same cell on one line."""
    lines = []
    for (topic, number), each in sorted(cells.items()):
        lines.append(f"{topic}-{number}: {list(_CASES[topic])[number]}")
        by_cell: dict[str, list[str]] = {}
        for version, cell in each:
            by_cell.setdefault(cell, []).append(version)
        lines += [f"  {', '.join(versions)}: {cell}" for cell, versions in by_cell.items()]
        lines.append("")
    return _HEAD + "\n".join(lines)


if __name__ == "__main__":
    main()
