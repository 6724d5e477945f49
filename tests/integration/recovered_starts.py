"""What real brokers do on the broken disks of the corpus that `recover --apply` has been over.

    python -m tests.integration.recovered_starts [--work DIR] [--table] [NAME...]

For each case `recover` is applied, a real broker starts on the result, and a real consumer reads
every topic. The results are kept in DIR, so that a second call makes only those that are missing; NAME: cases whose
name begins so are made again. `--table` writes them to `recovered_starts.txt`. It takes an hour. Exit status 1: a
broker that started recovered something, or did not serve what was promised.

Where the metadata log of a disk is not in the corpus, a new cluster makes topics of the same names, and
the disk's logs take the place of its empty ones, with the new topic ids: of those disks, `recover` has to bring back
the logs, not the identity. The disks of old releases go to a broker of the release that wrote them, or of a later one,
and those of `fixtures/field` to 4.3.1, which does not start on them. librdkafka, which speaks to all of them, reads.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shutil
import sys
import tarfile
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import confluent_kafka

from tests.integration import clients
from tests.integration.releases import QUIET, broker_of, has_admin, make_topic, numbers_of, write
from tests.integration.walks import Restarted
from tests.support import jars
from tests.support.corpus import archives, brought_back, recovering, walking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tests.integration.broker import Broker
    from tests.support.corpus.brought_back import Disk, Offsets
    from tests.support.corpus.faults import Fault

TABLE: Final = Path(__file__).with_suffix(".txt")
NOTHING: Final = "-"
_WITH_METADATA: Final = "/07-faults-4.3.1/"
_CRASHES: Final = {
    "modern/06-": jars.KAFKA_VERSION,
    "modern/07c-": jars.KAFKA_VERSION,
    "old/crash-0.8.0": "0.8.2.2",  # the oldest broker with a clean shutdown file and with clients that still exist
    "old/crash-0.8.2.2": "0.8.2.2",
    "old/crash-0.10.0.1": "0.10.0.1",
    "old/crash-0.11.0.3": "1.1.1",  # of 0.11 there is no jar on every machine
    "old/crash-2.8.2": "2.8.2",
}
"""Disks of killed brokers, by the beginning of their names, and the release that starts on them."""
_ASYNC_CLIENTS: Final = (2,)  # the first broker that aiokafka is used with
_ASKS_VERSIONS: Final = (0, 10)
_ERRORS: Final = 3
_POLL_SECONDS: Final = 1.0
_HEAD: Final = """\
# What real brokers did on the broken disks of the corpus after `recover --only-copy --apply`, and what a consumer read.
# Written by `python -m tests.integration.recovered_starts --table`. Columns: the case; the exit status of recover; what
# the broker did; lines of its log about a recovery outside of __cluster_metadata; records (partition and offset,
# without markers, Kafka's own topics and directories that no broker serves) that could be read past damage before; that
# recover leaves and are not below a checkpointed log start offset; and that the consumer read of these; and the errors
# that are left to a person, or why the broker ended.
"""
_RECOVERS: Final = re.compile(
    r"Recovering unflushed|[Rr]ecovering segment|[Tt]runcat|Found (?:invalid|log|no log)|[Cc]orrupt|"
    r"Rebuilding producer|Discarding|Deleting segment|[Rr]ebuilding index"
)
"""Lines of LogLoader, LogSegment, Log and LogManager about a recovery."""
_ELECTION: Final = "caused truncation of conflicting entries"
"""`LeaderEpochFileCache.assign`, when the broker has loaded the log and an election gives the partition a new epoch."""
_CAUSE: Final = re.compile(r"^(?:Caused by: )?[\w.$]+(?:Exception|Error): .*$", re.MULTILINE)
_LEFT: Final = "left: "
_ASIDE: Final = re.compile(r"\.[0-9a-f]{32}-\w+$")
"""The end of the name of a directory that a broker deletes, moved aside, or does not serve yet."""


class Row(NamedTuple):
    """A line of the table, without the name of the case."""

    exit_status: int
    outcome: str
    recovered: int
    readable: int
    promised: int
    read: int
    why: str

    @property
    def is_right(self) -> bool:
        """Whether the broker started, recovered nothing and served all that was promised, or a person has to decide."""
        is_whole = self.outcome == "starts" and not self.recovered and self.read == self.promised
        return is_whole or self.why.startswith(_LEFT)


def table() -> dict[str, Row]:
    """The kept table, by the name of the case."""
    lines = [line.split("\t") for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    return {name: _row(values) for name, *values in lines}


def _row(values: Sequence[str]) -> Row:
    status, outcome, *counts, why = values
    recovered, readable, promised, read = map(int, counts)
    return Row(int(status), outcome, recovered, readable, promised, read, why)


def restarted(fault: Fault, corpus: Path, into: Path) -> tuple[Row, str]:
    """Recover the disk of a fault and start a broker on it; its row, and the broker's log."""
    walk = walking.lay(corpus, fault, into)
    named = [*walk.homes, *([] if walk.metadata is None else [walk.metadata])]
    return _judged(Restarted(jars.fetch(), into, walk), walk.homes, named)


def adopted(disk: Disk | _Archived, version: str, corpus: Path, into: Path) -> tuple[Row, str]:
    """The same with the logs of a disk whose metadata log is not known, in a new cluster of a release."""
    laid, work = disk.lay(corpus, into), into / "work"
    work.mkdir()
    broker = broker_of(version, work)
    broker.configure(QUIET)
    try:
        broker.start()
        for place in sorted(laid.glob("*-0")):
            _make_topic(broker, place.name.removesuffix("-0"))
        broker.stop()
        for place in sorted(laid.iterdir()):
            _replace(broker.log_dir / place.name, place)
        (broker.log_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)
        return _judged(broker, [broker.log_dir], [broker.log_dir])
    finally:
        broker.close()


class _Archived(NamedTuple):
    """A log directory in an archive of the fixtures."""

    path: Path

    def lay(self, _: Path, into: Path) -> Path:
        """Unpack it below a directory."""
        with tarfile.open(self.path) as tar:
            tar.extractall(into / "disk", filter="data")
        return into / "disk" / self.path.stem


def _make_topic(broker: Broker, name: str) -> None:
    """A topic of one partition."""
    if numbers_of(broker.release) >= _ASYNC_CLIENTS:
        asyncio.run(clients.create_topic(broker, name, {}))
        return
    if has_admin(broker.release):
        write(broker.release, broker.bootstrap, 0, [f"topic={name}:retention.ms=-1"])
    else:
        make_topic(broker, name, {})
    deadline = time.monotonic() + clients.READ_SECONDS
    while not broker.partition_dir(name).is_dir():
        assert time.monotonic() < deadline, f"no directory of {name}"
        time.sleep(0.05)


def _replace(target: Path, place: Path) -> None:
    """Put a file or a partition of a disk in the place of the cluster's own, but for the identities."""
    if place.is_dir():
        for own in target.iterdir():
            if own.name != "partition.metadata":
                own.unlink()
        for file in place.iterdir():
            if file.name != "partition.metadata":
                shutil.copy2(file, target)
    elif place.name not in {"meta.properties", "bootstrap.checkpoint"}:
        shutil.copy2(place, target)


def _judged(broker: Broker, homes: Iterable[Path], named: Iterable[Path]) -> tuple[Row, str]:
    """Recover directories, start the broker on them and read."""
    readable = _readable(homes)
    words = f"--kafka {broker.release} --only-copy --apply {' '.join(map(str, named))}"
    done = walking.invoke(f"kafkalog recover {words}")
    starts = _starts(homes)
    promised = {each for each in _readable(homes) if each[1] >= starts.get(each[0], 0)}
    left = sorted(_left(done.output))
    outcome, why, read = "starts", f"{_LEFT}{', '.join(left)}" if left else NOTHING, set[tuple[str, int]]()
    try:
        broker.start()
        started = broker.output
        read = {each for topic in sorted({_topic(each) for each, _ in promised}) for each in _read(broker, topic)}
        broker.stop()
    except AssertionError as error:
        started = broker.output
        causes = _CAUSE.findall(started)
        outcome, why = (
            "dies",
            (why if left else (causes[-1] if causes else str(error)).replace(str(broker.work_dir), "")),
        )
    finally:
        broker.close()
    row = Row(
        exit_status=int(done.exit_code),
        outcome=outcome,
        recovered=len(recoveries(started)),
        readable=len(readable),
        promised=len(promised),
        read=len(read & promised),
        why=why.replace("\t", " ").replace(f"{broker.work_dir}/", ""),
    )
    return row, started


def recoveries(log: str) -> list[str]:
    """The lines of a broker's log about a recovery, outside of the metadata log, which it recovers at every start."""
    lines = [line for line in log.splitlines() if _RECOVERS.search(line)]
    return [line for line in lines if "__cluster_metadata" not in line and _ELECTION not in line]


def _readable(homes: Iterable[Path]) -> Offsets:
    found = set().union(*(brought_back.readable(home) for home in homes if home.is_dir()))
    return {each for each in found if not recovering.is_own(each[0]) and not _ASIDE.search(each[0])}


def _starts(homes: Iterable[Path]) -> dict[str, int]:
    """The checkpointed log start offsets, by partition; records below them are not served."""
    found = {}
    for path in (home / "log-start-offset-checkpoint" for home in homes):
        lines = path.read_text().splitlines()[2:] if path.exists() else []
        for topic, partition, offset in map(str.split, lines):
            found[f"{topic}-{partition}"] = int(offset)
    return found


def _left(output: str) -> set[str]:
    """The codes of errors that are left after the plan, each with the name of its file."""
    found = (row for row in walking.rows_of(output) if row["type"] == "finding" and row["severity"] == "error")
    return {f"{row['code']} {Path(row['file']).name}" for row in found}


def _topic(partition: str) -> str:
    return partition.rpartition("-")[0]


def _read(broker: Broker, topic: str) -> Iterator[tuple[str, int]]:
    """Partition and offset of each record that a consumer gets; none of a topic that the cluster does not know."""
    asks = numbers_of(broker.release) >= _ASKS_VERSIONS
    settings = {
        "log_level": _ERRORS,
        "bootstrap.servers": broker.bootstrap,
        "group.id": "recovered-starts",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_uncommitted",  # records of open and aborted transactions are promised too
        "api.version.request": asks,
        "broker.version.fallback": broker.release,
    }
    consumer = confluent_kafka.Consumer(settings)
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
        last = time.monotonic()
        # What is missing after this time without a record counts. Errors pass: the broker may still elect its leaders.
        while time.monotonic() - last < clients.READ_SECONDS:
            message = consumer.poll(_POLL_SECONDS)
            error = None if message is None else message.error()
            if error is not None and error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                return
            if message is None or error is not None:
                continue
            last = time.monotonic()
            offset = message.offset()
            assert offset is not None
            yield f"{topic}-0", offset
    finally:
        consumer.close()


# --- all cases --------------------------------------------------------------------------------------------------------
def cases() -> dict[str, Callable[[Path, Path], tuple[Row, str]]]:
    """What makes the row of each case, by name: the faults of a known metadata log, and the disks of killed brokers.

    The arguments are the unpacked corpus, and an empty directory.
    """
    faults = {fault.path: partial(restarted, fault) for fault in walking.all_faults() if _WITH_METADATA in fault.path}
    crashes = {
        disk.id: partial(adopted, disk, version)
        for disk in brought_back.disks()
        for start, version in _CRASHES.items()
        if disk.id.startswith(start)
    }
    archived = {
        f"field/{path.stem}": partial(adopted, _Archived(path), jars.KAFKA_VERSION)
        for path in archives.FIXTURES.glob("field/c24-*.tgz")
    }
    return {**faults, **crashes, **archived}


def main() -> int:
    """Make the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir(), "recovered-starts"))
    parser.add_argument("--table", action="store_true")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    rows, corpus, known = given.work / "rows", given.work / "corpus", cases()
    rows.mkdir(parents=True, exist_ok=True)
    if not corpus.exists():
        archives.unpack(archives.source(), corpus)
    for name in sorted(known):
        kept = rows / name.replace("/", "_")
        if kept.exists() and not any(map(name.startswith, given.names)):
            continue
        with tempfile.TemporaryDirectory(dir=given.work) as scratch:
            row, log = known[name](corpus, Path(scratch))
        kept.write_text("\t".join(map(str, (name, *row))))
        sys.stdout.write("\n".join([kept.read_text(), *([] if row.is_right else recoveries(log)), ""]))
        sys.stdout.flush()
    lines = [kept.read_text() for kept in sorted(rows.iterdir())]
    if given.table:
        TABLE.write_text(_HEAD + "".join(f"{line}\n" for line in lines))
    return 0 if all(_row(line.split("\t")[1:]).is_right for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
