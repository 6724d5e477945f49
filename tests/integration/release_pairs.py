"""What real brokers do on each other's disks, and what `preflight --compat` says of them.

    python -m tests.integration.release_pairs [--work DIR] [--table] [NAME...]

A disk is the cleanly stopped one of `release_matrix`, or one that a broker was made to change before its stop: a way
out that `--compat` names, taken. Each of the other releases starts on a copy of it, and a client lists the groups.
`release_pairs.txt` is the table. Exit status 1: a line differs from what kafkalog says.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.engine.selection import Selection
from kafkalog_core.engine.targets import resolve
from kafkalog_core.kafka.rules.coordinator_rules import coordinator_rules
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.sim.start.coordinators import GROUPS_TOPIC, load_coordinator
from kafkalog_core.ops.preflight.compat import compat
from kafkalog_core.ops.preflight.preflight import PreflightRequest, preflight
from tests.integration.listing import listed
from tests.integration.release_matrix import QUIET, make
from tests.integration.releases import broker_of, numbers_of, write

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalog_core.ops.preflight.compat import ReleaseStart
    from tests.integration.broker import Broker

TABLE: Final = Path(__file__).with_suffix(".txt")
_KRAFT: Final = (3, 3)
_OWN_VOTERS: Final = (3, 9)
_WITHOUT_ZOOKEEPER: Final = (4,)
_START_SECONDS: Final = 40
_SETTLE_SECONDS: Final = 4
_SNAPSHOT: Final = {"metadata.log.max.snapshot.interval.ms": "3000"}
_SNAPSHOT_SECONDS: Final = 12


class Disk(NamedTuple):
    """A disk of a release: `by` runs on it once more, with some settings, and a client does some steps."""

    release: str
    by: str = ""
    steps: tuple[str, ...] = ()
    settings: Mapping[str, str] = {}
    seconds: int = 1


_LARGER: Final = tuple(
    f"alter={topic}:segment.bytes=1048576" for topic in ("plain", "deleted", "compacted", "idempotent", "txn")
)
_LOWER: Final = ("downgrade=streams.version:0", "downgrade=metadata.version:27")
DISKS: Final = {
    **{each: Disk(each) for each in ("2.8.2", "3.9.2", "4.2.2", "4.3.1", "4.4.0")},
    "3.9.2, settings changed": Disk("3.9.2", "3.9.2", _LARGER),
    "4.2.2, levels lowered": Disk("4.2.2", "4.2.2", _LOWER),
    "4.2.2, levels lowered, then a snapshot": Disk("4.2.2", "4.2.2", _LOWER, _SNAPSHOT, _SNAPSHOT_SECONDS),
    "4.3.1, upgraded to 4.4.0, levels as before": Disk("4.3.1", "4.4.0", ("plain=none", "group", "modern-group")),
}
"""The disks by their names in the table."""
_MAIN: Final = ("2.8.2", "3.9.2", "4.2.2", "4.3.1", "4.4.0")
STARTS: Final = {
    **{disk: tuple(each for each in _MAIN if each != disk) for disk in _MAIN},
    "3.9.2, settings changed": ("4.2.2", "4.3.1", "4.4.0"),
    "4.2.2, levels lowered": ("4.1.1",),
    "4.2.2, levels lowered, then a snapshot": ("4.1.1",),
    "4.3.1, upgraded to 4.4.0, levels as before": ("4.3.1", "4.4.0"),
}
"""The releases that start on each disk."""
STARTS["2.8.2"] += ("2.0.1", "2.4.1", "3.2.3")
STARTS["3.9.2"] += ("3.3.2",)
STARTS["4.4.0"] += ("3.3.2",)
_HEAD: Final = """What real brokers do on each other's disks, by `python -m tests.integration.release_pairs --table`.

A line: the disk, the release that starts on it, what it did, and the groups that a client then lists; below it the line
of its log that says why. `kafkalog` is what preflight --compat says. On a disk with ZooKeeper releases up to 3.9 run
with a copy of that ZooKeeper. `waits`: the process runs, and does not serve within 40 seconds.
A line has DIFFERS where kafkalog says another outcome, another offset or level than the broker's log, or other groups.

"""
_CAUSES: Final = (
    re.compile(r"Found unexpected version in loaded `meta.properties`"),
    re.compile(
        r"Tried to apply FeatureLevelRecord FeatureLevelRecord\(.*?\), but this controller only supports versions \S+"
    ),
    re.compile(r"No MetadataVersion with (?:feature level|metadata version) \d+"),
    re.compile(r"Can't read version \d+ of \w+"),
    re.compile(r"Invalid value \S+ for configuration [\w.]+: .*"),
    re.compile(r"QuorumStateData: unable to locate field .*"),
)
_RECORD: Final = re.compile(r"FeatureLevelRecord record at offset (\d+)")
_LEVEL: Final = re.compile(r"(?:feature ?[lL]evel[ =]|metadata version )(\d+)")
_LOAD_ERROR: Final = re.compile(r"Error loading offsets from __consumer_offsets-\d+")


class Seen(NamedTuple):
    """What a broker did: `starts`, `dies` or `waits`; the groups; and the line of its log that says why."""

    outcome: str
    groups: frozenset[str]
    cause: str
    offset: int | None


# --- disks ------------------------------------------------------------------------------------------------------------
def disk_of(name: str, work: Path) -> Path:
    """The directory of a disk, which is made by the first call."""
    disk, place = DISKS[name], work / name.replace(", ", "-").replace(" ", "-")
    if (place / "made").exists() or (not disk.by and (work / disk.release / "made").exists()):
        return place
    if not disk.by:
        make(disk.release, place)
        return place
    origin = disk_of(disk.release, work)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    broker = _broker_on(disk.by, origin, place, disk.settings)
    try:
        broker.start()
        time.sleep(_SETTLE_SECONDS)
        write(disk.by, broker.bootstrap, 1, disk.steps)
        time.sleep(disk.seconds)
        broker.stop()
    finally:
        broker.close()
    broker.log_dir.rename(place / "clean")
    shutil.copy(origin / "server.properties", place)
    (place / "made").touch()
    return place


def _broker_on(version: str, origin: Path, work: Path, settings: Mapping[str, str]) -> Broker:
    """A broker of a release over a copy of a disk, with the ports of the one that made it."""
    given = dict(line.split("=", 1) for line in (origin / "server.properties").read_text().splitlines() if "=" in line)
    is_kraft = "process.roles" in given
    has_zookeeper = not is_kraft and numbers_of(version) < _WITHOUT_ZOOKEEPER
    if has_zookeeper:
        shutil.copytree(origin / "zookeeper", work / "zookeeper")
    broker = broker_of(version, work, with_zookeeper=has_zookeeper)
    changes = {**QUIET, **settings}
    if is_kraft and numbers_of(version) >= _KRAFT:
        controller = given["listeners"].rpartition("://")[2]
        changes |= {name: given[name] for name in ("listeners", "advertised.listeners")}
        has_own = numbers_of(version) >= _OWN_VOTERS
        changes |= {"controller.quorum.bootstrap.servers": controller} if has_own else {}
        changes |= {} if has_own else {"controller.quorum.voters": f"1@{controller}"}
        broker.bootstrap = given["advertised.listeners"].rpartition("://")[2]
    broker.configure(changes)
    shutil.rmtree(broker.log_dir, ignore_errors=True)
    shutil.copytree(origin / "clean", broker.log_dir)
    return broker


# --- starts -----------------------------------------------------------------------------------------------------------
def seen_on(version: str, origin: Path, work: Path) -> Seen:
    """What a broker of a release does on a copy of a disk."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    broker = _broker_on(version, origin, work, {})
    try:
        broker.start_without_waiting()
        outcome = _outcome(broker)
        groups = listed(broker.bootstrap).groups if outcome == "starts" else frozenset()
        return _seen(outcome, groups, broker.output)
    finally:
        broker.close()


def _outcome(broker: Broker) -> str:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if broker.ready.search(broker.output.encode()):
            time.sleep(_SETTLE_SECONDS)
            return "starts"
        if not broker.is_running:
            return "dies"
        time.sleep(0.2)
    return "waits"


def _seen(outcome: str, groups: frozenset[str], output: str) -> Seen:
    causes = [match[0] for pattern in _CAUSES for match in pattern.finditer(output)] if outcome == "dies" else []
    failed = _LOAD_ERROR.search(output)
    record = _RECORD.search(output)
    cause = causes[0] if causes else "" if failed is None else failed[0]
    return Seen(outcome, groups, cause, None if record is None else int(record[1]))


# --- what kafkalog says -----------------------------------------------------------------------------------------------
def foretold(origin: Path, releases: Sequence[str]) -> dict[str, tuple[ReleaseStart, frozenset[str]]]:
    """What kafkalog says of releases on a disk: the outcome, and the groups that are known."""
    log_dir = origin / "clean"
    request = PreflightRequest(targets=tuple(resolve([str(log_dir)], Selection())), now_ms=int(time.time() * 1000))
    rows = compat(request, preflight(request)).starts
    found = {}
    for version in releases:
        release = parse_release(version)
        row = [each for each in rows if each.release[:2] == release[:2] and each.release <= release][-1]
        rules = coordinator_rules(release)
        assert rules is not None
        found[version] = (row, load_coordinator(GROUPS_TOPIC, str(log_dir / f"{GROUPS_TOPIC}-0"), [rules])[0].names)
    return found


def differs(seen: Seen, row: ReleaseStart, groups: frozenset[str]) -> bool:
    """Whether kafkalog is wrong."""
    outcome = "starts" if row.outcome == "harmed" else row.outcome
    if outcome == "unknown":
        return False
    if outcome != seen.outcome or (seen.outcome == "starts" and seen.groups != groups):
        return True
    level = _LEVEL.search(seen.cause)
    is_other_offset = seen.offset is not None and seen.offset != row.offset
    return is_other_offset or (level is not None and f"level {level[1]}" not in row.why)


# --- the table --------------------------------------------------------------------------------------------------------
def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path.home() / ".cache" / "kafkalog-releases")
    parser.add_argument("--table", action="store_true", help=f"write {TABLE.name}, where all disks are asked for")
    parser.add_argument("disks", nargs="*", default=list(STARTS))
    wanted = parser.parse_args()
    paragraphs = []
    for name in wanted.disks:
        origin = disk_of(name, wanted.work)
        said = foretold(origin, STARTS[name])
        lines = [
            _lines(name, version, seen_on(version, origin, wanted.work / "pair"), *said[version])
            for version in STARTS[name]
        ]
        paragraphs.append("\n".join(lines))
        sys.stdout.write(f"{paragraphs[-1]}\n")
        sys.stdout.flush()
    text = _HEAD + "\n\n".join(paragraphs) + "\n"
    if wanted.table:
        TABLE.write_text(text)
    raise SystemExit("DIFFERS" in "".join(paragraphs))


def _lines(name: str, version: str, seen: Seen, row: ReleaseStart, groups: frozenset[str]) -> str:
    mark = " DIFFERS" if differs(seen, row, groups) else ""
    listed = f": {', '.join(sorted(seen.groups)) or 'no groups'}" if seen.outcome == "starts" else ""
    place = "" if row.path is None else row.path.partition("/clean/")[2]
    at = "" if row.offset is None else f", offset {row.offset}"
    said = f"  kafkalog: {row.outcome}{f', {place}{at}' if place else ''}{f': {row.why}' if row.why else ''}"
    cause = f"  its log: {seen.cause}\n" if seen.cause else ""
    way_out = f"\n  way out: {row.way_out}" if row.way_out and not row.way_out.startswith("kafkalog") else ""
    return f"{name} -> {version}: {seen.outcome}{listed}{mark}\n{cause}{said}{way_out}"


if __name__ == "__main__":
    main()
