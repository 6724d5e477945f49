"""Damaged log directories through a real client: librdkafka gets every record of a whole batch, and no other.

`dump` and `dump --committed` say which records there are, `verify` which batches are errors: those are holes, and named
on stderr. Whatever is damaged, a consumer of either isolation level comes to the end of every partition.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, NamedTuple

import confluent_kafka
import pytest

from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import NotFoundError
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.serve.logs.partition_view import ServedPartition
from tests.ops.verify.injected_log import TOPICS
from tests.serve.damaging import damaged_directory
from tests.support.corpus.dumping import dump
from tests.support.live import QUIET, LiveServer, create_topics, read_all

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.live

CHOSEN = 20
ALL = 300
AT_ONCE = 10
SECONDS = 20
NOW_MS = 1_800_000_000_000
LEVELS = ("read_uncommitted", "read_committed")
Batch = tuple[str, str, int]  # topic, name of the log, byte
HOLE = re.compile(r"hole: (\S+): bytes (\d+) to \d+ are damaged, and not served")
OF_NEIGHBOURS = frozenset({"batch.offset-order", "batch.epoch-back"})


class Record(NamedTuple):
    """What a client and `dump` both show."""

    offset: int
    key: bytes | None
    value: bytes | None


Read = tuple[dict[str, list[Record]], set[str]]


def consumed(server: str, isolation: str, starts: dict[str, int]) -> Read:
    """All records of partition 0 of each topic, and the topics without an end."""
    options = {
        "bootstrap.servers": server,
        "group.id": "damaged",
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 5,
        "check.crcs": True,
    }
    consumer = confluent_kafka.Consumer(options)
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, start) for topic, start in starts.items()])
    found: dict[str, list[Record]] = {topic: [] for topic in starts}
    waiting, deadline_s = set(starts), time.monotonic() + SECONDS
    try:
        while waiting:
            if time.monotonic() > deadline_s:
                return found, waiting
            message = consumer.poll(0.5)
            if message is None:
                continue
            if message.error() is None:
                found[message.topic()].append(Record(message.offset(), message.key(), message.value()))
                continue
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
            waiting.discard(message.topic())
    finally:
        consumer.close()
    return found, waiting


def error_batches(path: Path) -> tuple[set[Batch], set[Batch]]:
    """The batches that `verify` calls errors, and those of them that may be right.

    The first batch of a segment contradicts the name of its file, if that was renamed, or the leader epoch of the
    segment before it: it is named, and served if the batches after it do not contradict it.
    """
    request = VerifyRequest(targets=tuple(resolve([str(path)])), now_ms=NOW_MS)
    found = [
        (finding.code, (finding.topic or "", finding.path.rpartition("/")[2], finding.position))
        for verdict in verify(request)
        for finding in verdict.findings
        if finding.severity == "error"
        and finding.position is not None
        and finding.path.endswith(".log")
        and finding.code.startswith(("batch.", "record."))
        and finding.code != "batch.gap"  # what is missing before a batch
    ]
    doubtful = {batch for code, batch in found if code in OF_NEIGHBOURS and batch[2] == 0}
    return {batch for _, batch in found}, doubtful


Offsets = set[tuple[str, int]]
Dumped = dict[str, list[tuple[Batch, Record]]]


def dumped(path: Path, *options: str) -> tuple[Dumped, Offsets, Offsets]:
    """The records of a directory, with their batches; the offsets of control records; and those in two segments."""
    found: Dumped = {topic: [] for topic in TOPICS}
    control: Offsets = set()
    twice: Offsets = set()
    segments: dict[tuple[str, int], str] = {}
    for row in dump(path, "--records", "--resync", *options).live("record"):
        topic, name, offset = str(row["topic"]), str(row["segment"]), int(str(row["offset"]))
        if segments.setdefault((topic, offset), name) != name:
            twice.add((topic, offset))
        if row["control_type"] is not None:
            control.add((topic, offset))
        else:
            batch = (topic, name, int(str(row["position"])))
            found[topic].append((batch, Record(offset, row["key"], row["value"])))  # type: ignore[arg-type]
    return found, control, twice


def _start(path: Path, topic: str) -> int | None:
    """The log start offset, for which librdkafka would ask half a second; None: the partition is gone."""
    try:
        return ServedPartition.open(str(path / f"{topic}-0")).log_start_offset
    except NotFoundError:
        return None


def holes_in(errors: str) -> set[Batch]:
    """The holes that stderr names."""
    paths = [(match[1].split("/"), int(match[2])) for match in HOLE.finditer(errors)]
    return {(parts[-2].rpartition("-")[0], parts[-1], position) for parts, position in paths}


def check_directory(path: Path, seed: int) -> None:
    """Damage one directory, and compare what a client reads with what is there."""
    words = damaged_directory(path, seed)
    (errors, doubtful), (records, control, twice) = error_batches(path), dumped(path)
    committed, _, _ = dumped(path, "--committed")
    starts = {topic: start for topic in TOPICS if (start := _start(path, topic)) is not None}
    with LiveServer(path, is_read_only=True) as server:
        read = {level: consumed(server.address, level, starts) for level in LEVELS}
        named = holes_in(server.errors())
        server.stop()
    context = f"seed {seed}: {words}"
    assert not {*read["read_uncommitted"][1], *read["read_committed"][1]}, f"{context}: no end"
    for topic in starts:
        for level, expected in (("read_uncommitted", records[topic]), ("read_committed", committed[topic])):
            got, whole = read[level][0][topic], {record for batch, record in expected if batch not in errors}
            where = f"{context}: {topic}, {level}"
            more = {*got} - whole - {record for batch, record in expected if batch in doubtful}
            assert not more, f"{where}: what is in no whole batch: {sorted(record.offset for record in more)}"
            missing = {record.offset for batch, record in expected if batch not in errors} - {
                each.offset for each in got
            }
            # no client shows a control record, and of two segments one may be read, where the records are not committed
            excused = control if level == "read_uncommitted" else control | twice
            missing = {offset for offset in missing if (topic, offset) not in excused}
            assert not missing, f"{where}: missing: {sorted(missing)}"
        unnamed = {batch for batch, _ in records[topic] if batch in errors} - named - doubtful
        assert not unnamed, f"{context}: {topic}: holes that are not named: {unnamed}"


@pytest.mark.parametrize("first", range(0, CHOSEN, AT_ONCE))
def test_a_client_reads_what_is_whole_by_chosen_seeds(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        check_directory(tmp_path / str(seed), seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(CHOSEN, ALL, AT_ONCE))
def test_a_client_reads_what_is_whole_by_all_seeds(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        check_directory(tmp_path / str(seed), seed)


def test_a_live_broker_leaves_damaged_batches_out_and_names_them(tmp_path: Path) -> None:
    """One in a segment that was rolled, one at the end of the active segment; then it appends after them."""
    with LiveServer(tmp_path / "log", "log.segment.bytes=1048576") as server:
        create_topics(server.address, ["t"], 1)
        values = [b"%05d" % number + bytes(20_000) for number in range(80)]
        produced(server.address, "t", values)
        server.stop()
        logs = sorted((tmp_path / "log" / "t-0").glob("*.log"))
        assert len(logs) == 2
        for path, position in ((logs[0], 1000), (logs[1], logs[1].stat().st_size - 100)):
            data = bytearray(path.read_bytes())
            data[position] ^= 1
            path.write_bytes(data)
        server.start()
        found = read_all(server.address, ["t"], "read_committed")["t", 0]
        assert [value for _, _, value in found] == values[1:-1]
        produced(server.address, "t", [b"more"])
        found = read_all(server.address, ["t"], "read_committed")["t", 0]
        assert [value for _, _, value in found] == [*values[1:-1], b"more"]
        holes = holes_in(server.errors())
        assert {name for _, name, _ in holes} == {path.name for path in logs}
        assert len(holes) == 2
        server.stop()


def produced(server: str, topic: str, values: list[bytes]) -> None:
    """Send records to partition 0, each in a batch of its own."""
    producer = confluent_kafka.Producer({"bootstrap.servers": server, "batch.num.messages": 1, **QUIET})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(SECONDS) == 0
