"""Every record of `__transaction_state` that real brokers wrote says what Kafka's own dump tool shows of it."""

from __future__ import annotations

import gzip
import json
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalog_core.errors import ProtocolError
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.kafka.sim.coordinator_logs import partition_runs, records_of
from kafkalog_core.kafka.sim.transactions import read_transactions
from kafkalog_core.topics.transactions import (
    TRANSACTIONS_TOPIC,
    TransactionPhase,
    TransactionValue,
    decode_transaction,
    encode_transaction,
    replay_transactions,
)
from tests.support.build import Record, batch_v2
from tests.support.corpus.snapshots import Snapshot, snapshots

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.corpus.tree import Tree

RECORD: Final = re.compile(r"^\| offset: (\d+) .*?CreateTime: (\d+) .*? key: (\{.*?\}\}) payload: (.*)$")
OLD_RECORD: Final = re.compile(r"^\| offset: (\d+) .* key: transaction_metadata::transactionalId=(\S+) payload: (.*)$")
OLD_VALUE: Final = re.compile(
    r"producerId:(\d+),producerEpoch:(\d+),state=(\w+),partitions=\[(.*)\],"
    r"txnLastUpdateTimestamp=(\d+),txnTimeoutMs=(\d+)"
)
LISTED: Final = [
    each for each in snapshots() if each.fault is None and each.partition.startswith(f"{TRANSACTIONS_TOPIC}-")
]


def written(tree: Tree, snapshot: Snapshot) -> list[tuple[int, int, bytes, bytes | None]]:
    """Offset, timestamp, key and value of every record in the log."""
    found = []
    for run in partition_runs(str(tree.partition_dir(snapshot)), MAX_BATCH_BYTES):
        assert not isinstance(run, str)
        for item in decode_run(run.memory, run.batches, max_bytes=MAX_BATCH_BYTES):
            assert isinstance(item, RecordRun)
            for _, offset, timestamp_ms, key, value in records_of(item):
                assert key is not None
                found.append((offset, timestamp_ms, key, value))
    return found


def shown(tree: Tree, snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """The records in the texts of the dump tools, with the name of the text."""
    for golden in snapshot.goldens:
        with gzip.open(tree.corpus / golden, "rt") as stream:
            for line in stream:
                if line.startswith("| offset:") and (".decoded." in golden or ".dump." in golden):
                    yield golden, line.rstrip("\n")


def value_of(data: dict[str, Any]) -> TransactionValue:
    """A value from the text of 4.3.1; fields with a tag are there where they differ from their defaults."""
    return TransactionValue(
        producer_id=data["producerId"],
        producer_epoch=data["producerEpoch"],
        timeout_ms=data["transactionTimeoutMs"],
        state=TransactionPhase(data["transactionStatus"]),
        partitions=frozenset(
            (each["topic"], number) for each in data["transactionPartitions"] or () for number in each["partitionIds"]
        ),
        update_ms=data["transactionLastUpdateTimestampMs"],
        start_ms=data["transactionStartTimestampMs"],
        previous_producer_id=data.get("previousProducerId", -1),
        next_producer_id=data.get("nextProducerId", -1),
        client_version=data.get("clientTransactionVersion", 0),
    )


@pytest.mark.corpus
@pytest.mark.parametrize("snapshot", LISTED, ids=lambda each: each.id)
def test_records_are_what_the_dump_tools_show(tree: Tree, snapshot: Snapshot) -> None:
    records = {offset: decode_transaction(key, value) for offset, _, key, value in written(tree, snapshot)}
    seen = set()
    for _, line in shown(tree, snapshot):
        if match := RECORD.match(line):
            offset, name = int(match[1]), json.loads(match[3])["data"]["transactionalId"]
            value = None if match[4] == "<DELETE>" or match[4] == "null" else value_of(json.loads(match[4])["data"])
            assert records[offset] == (name, value)
            seen.add(offset)
        elif match := OLD_RECORD.match(line):
            offset = int(match[1])
            name, found = records[offset]
            assert name == match[2]
            if fields := OLD_VALUE.match(match[3]):
                assert found is not None
                places = ",".join(sorted(f"{topic}-{number}" for topic, number in found.partitions))
                assert (found.producer_id, found.producer_epoch) == (int(fields[1]), int(fields[2]))
                assert (found.state.text, places) == (fields[3], ",".join(sorted(re.split(",", fields[4]))))
                assert (found.update_ms, found.timeout_ms) == (int(fields[5]), int(fields[6]))
            else:
                assert found is None
            seen.add(offset)
    if any(".decoded." in each or ".dump." in each for each in snapshot.goldens):
        assert seen == records.keys()


@pytest.mark.corpus
@pytest.mark.parametrize("snapshot", LISTED, ids=lambda each: each.id)
def test_values_are_written_as_brokers_of_version_0_write_them(tree: Tree, snapshot: Snapshot) -> None:
    for _, _, key, value in written(tree, snapshot):
        name, decoded = decode_transaction(key, value)
        ours = encode_transaction(name, decoded)
        assert ours[0] == key
        if value is None or value[:2] == b"\0\0":
            is_ordered = decoded is None or len(decoded.partitions) < 2  # Kafka writes them in the order of a hash map
            assert ours[1] == value if is_ordered else len(ours[1] or b"") == len(value or b"")
        assert decoded is None or decode_transaction(*ours)[1] is not None


@pytest.mark.corpus
@pytest.mark.parametrize("snapshot", LISTED, ids=lambda each: each.id)
def test_the_last_record_of_an_id_counts_at_every_time(tree: Tree, snapshot: Snapshot) -> None:
    records, directory = written(tree, snapshot), str(tree.partition_dir(snapshot))
    for until_ms in [*sorted({timestamp_ms for _, timestamp_ms, _, _ in records})[::9], 2**62]:
        expected: dict[str, TransactionValue] = {}
        for _, timestamp_ms, key, value in records:
            name, decoded = decode_transaction(key, value)
            if timestamp_ms <= until_ms:
                expected.pop(name, None)
                expected |= {} if decoded is None else {name: decoded}
        found, problems = read_transactions([directory], until_ms=until_ms)
        assert found == expected
        assert not problems


# --- built logs -------------------------------------------------------------------------------------------------------
ONGOING: Final = TransactionValue(
    producer_id=7,
    producer_epoch=1,
    timeout_ms=60_000,
    state=TransactionPhase.ONGOING,
    partitions=frozenset({("t", 0), ("t", 3), ("u", 1)}),
    update_ms=1000,
    start_ms=900,
)


def log_of(directory: Path, *batches: bytes) -> Path:
    """A partition with some batches."""
    place = directory / f"{TRANSACTIONS_TOPIC}-0"
    place.mkdir()
    (place / f"{0:020}.log").write_bytes(b"".join(batches))
    return place


def batch(offset: int, *pairs: tuple[bytes, bytes | None]) -> bytes:
    """A batch of records."""
    return batch_v2([Record(key=key, value=value) for key, value in pairs], base_offset=offset)


def test_a_tombstone_deletes_and_what_is_unknown_or_damaged_is_named(tmp_path: Path) -> None:
    kept, gone = encode_transaction("kept", ONGOING), encode_transaction("gone", ONGOING)
    damaged = bytearray(batch(2, encode_transaction("lost", ONGOING)))
    damaged[-1] ^= 0xFF
    later = [encode_transaction("gone", None), (b"\0\x09", b"x"), (kept[0], b"\0\x07" + (kept[1] or b"")[2:])]
    place = log_of(tmp_path, batch(0, kept, gone), bytes(damaged), batch(3, *later))
    found, problems = read_transactions([str(place)])
    assert found == {"kept": ONGOING}
    assert len(problems) == 3
    assert "byte" in problems[0]
    assert "type 9" in problems[1]


def test_other_bytes_are_refused() -> None:
    key, value = encode_transaction("a", ONGOING)
    assert value is not None
    with pytest.raises(ProtocolError):
        decode_transaction(key, value + b"x")
    with pytest.raises(ProtocolError):
        decode_transaction(b"\0\1" + key[2:], value)
    state = bytearray(value)
    state[16] = 9  # after version, producer id, epoch and timeout
    with pytest.raises(ProtocolError, match="unknown state 9"):
        decode_transaction(key, bytes(state))
    assert replay_transactions([(key, bytes(state)), (key, value)]) == {"a": ONGOING}
