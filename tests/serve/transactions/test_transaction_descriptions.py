"""What a dead disk says of producers and transactions is what the live cluster's tools said last."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalog_core.format.snapshot import encode_snapshot
from kafkalog_core.serve.logs.partition_view import ServedPartition, ViewOptions
from kafkalog_core.topics.transactions import TransactionPhase, TransactionValue, encode_transaction
from kafkalog_core.wire.error_codes import ErrorCode
from tests.support.asking import ask
from tests.support.build import ABORT, COMMIT, Record, batch_v2, txn_marker
from tests.support.corpus import archives
from tests.support.serving import serving

if TYPE_CHECKING:
    from kafkalog_core.serve.server import ReadOnlyBroker
    from tests.support.corpus.tree import Tree

STATE: Final = "cluster_state.json"
DEMO: Final = Path(__file__).resolve().parents[3] / "fixtures" / "demo"
NO_DURATION: Final = -1


def states() -> list[str]:
    """The files in which a case has what the admin client saw last."""
    return sorted(name for name in archives.contents(archives.source()).files if name.endswith(STATE))


def described_producers(broker: ReadOnlyBroker, topic: str, number: int) -> dict[int, dict[str, int]]:
    """The producers of a partition by their ids."""
    answer = ask(
        broker.dispatcher, "DescribeProducers", 0, {"topics": [{"name": topic, "partition_indexes": [number]}]}
    )
    (found,) = answer["topics"][0]["partitions"]
    assert found["error_code"] == ErrorCode.NONE
    return {each["producer_id"]: each for each in found["active_producers"]}


def listed(broker: ReadOnlyBroker, **filters: Any) -> dict[str, tuple[str, int]]:
    """State and producer id of the transactional ids that filters leave."""
    every: dict[str, Any] = {
        "state_filters": [],
        "producer_id_filters": [],
        "duration_filter": NO_DURATION,
        "transactional_id_pattern": None,
    }
    answer = ask(broker.dispatcher, "ListTransactions", 2, every | filters)
    assert answer["error_code"] == ErrorCode.NONE
    return {
        each["transactional_id"]: (each["transaction_state"], each["producer_id"])
        for each in answer["transaction_states"]
    }


def described(broker: ReadOnlyBroker, *names: str) -> list[dict[str, Any]]:
    """The descriptions of transactional ids."""
    answer = ask(broker.dispatcher, "DescribeTransactions", 0, {"transactional_ids": list(names)})
    found: list[dict[str, Any]] = answer["transaction_states"]
    return found


@pytest.mark.corpus
@pytest.mark.parametrize("name", states())
def test_producers_and_transactions_are_those_that_the_live_cluster_reported(tree: Tree, name: str) -> None:
    path = tree.corpus / name
    reported: dict[str, Any] = json.loads(path.read_text())
    log_dir = next(each for each in (path.parent / "logdir", path.parent / "after") if each.is_dir())
    with serving(log_dir) as broker:
        assert not [each for each in broker.notes if "transaction" in each]
        for place, producers in reported.get("producers", {}).items():
            topic, _, number = place.rpartition("-")
            found = described_producers(broker, topic, int(number))
            unset = {"coordinator_epoch": -1, "current_txn_start_offset": -1}
            assert found == {each["producer_id"]: unset | each for each in producers}, place
        transactions = {each["transactional_id"]: each for each in reported.get("transactions", [])}
        assert listed(broker) == {each: (state["state"], state["producer_id"]) for each, state in transactions.items()}
        for each in described(broker, *transactions):
            state = transactions[each["transactional_id"]]
            places = [f"{topic['topic']}-{number}" for topic in each["topics"] for number in topic["partitions"]]
            assert sorted(places) == sorted(state["partitions"])
            assert each["transaction_state"] == state["state"]
            assert each["transaction_timeout_ms"] == state["timeout_ms"]
            assert (each["producer_id"], each["producer_epoch"]) == (state["producer_id"], state["producer_epoch"])
            if state["state"] != "Empty":  # 3.9 kept the former start in memory, and wrote -1
                assert each["transaction_start_time_ms"] == state["start_time_ms"]


# --- built disks ------------------------------------------------------------------------------------------------------
VALUE: Final = TransactionValue(
    producer_id=7,
    producer_epoch=1,
    timeout_ms=60_000,
    state=TransactionPhase.ONGOING,
    partitions=frozenset({("t", 0)}),
    update_ms=2000,
    start_ms=2000,
)
DONE: Final = TransactionValue(
    producer_id=8,
    producer_epoch=0,
    timeout_ms=60_000,
    state=TransactionPhase.COMPLETE_ABORT,
    update_ms=1500,
    start_ms=1000,
)


def partition(directory: Path, name: str, *batches: bytes, base: int = 0) -> Path:
    """A partition directory with one segment."""
    place = directory / name
    place.mkdir()
    (place / f"{base:020}.log").write_bytes(b"".join(batches))
    return place


def data(offset: int, producer_id: int, sequence: int, time_ms: int = 1000, *, is_transactional: bool = True) -> bytes:
    """A batch of one record."""
    return batch_v2(
        [Record(offset=offset, timestamp_ms=time_ms, value=b"v")],
        producer_id=producer_id,
        producer_epoch=1,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )


def state_batch(offset: int, name: str, value: TransactionValue | None, time_ms: int) -> bytes:
    """A batch of `__transaction_state`."""
    key, content = encode_transaction(name, value)
    return batch_v2([Record(offset=offset, timestamp_ms=time_ms, key=key, value=content)])


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A log directory with a transaction that is open, one that was aborted, and one that hangs."""
    partition(
        tmp_path,
        "t-0",
        data(0, 8, 0),
        txn_marker(ABORT, offset=1, producer_id=8, producer_epoch=1, timestamp_ms=1500),
        data(2, 7, 0, 2000),
        data(3, 9, 4, 2500),
    )
    partition(
        tmp_path,
        "__transaction_state-0",
        state_batch(0, "done", DONE, 1500),
        state_batch(1, "open", VALUE, 2000),
    )
    return tmp_path


def test_a_dead_disk_lists_and_describes_transactions(disk: Path) -> None:
    with serving(disk) as broker:
        assert listed(broker) == {"done": ("CompleteAbort", 8), "open": ("Ongoing", 7)}
        assert listed(broker, state_filters=["Ongoing"]) == {"open": ("Ongoing", 7)}
        assert listed(broker, producer_id_filters=[8]) == {"done": ("CompleteAbort", 8)}
        assert listed(broker, transactional_id_pattern="o.*") == {"open": ("Ongoing", 7)}
        assert listed(broker, duration_filter=2**62) == {}
        found, unknown, empty = described(broker, "open", "none", "")
        assert (found["topics"], found["transaction_start_time_ms"]) == ([{"topic": "t", "partitions": [0]}], 2000)
        assert unknown["error_code"] == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert empty["error_code"] == ErrorCode.INVALID_REQUEST
        producers = described_producers(broker, "t", 0)
        assert {each: row["current_txn_start_offset"] for each, row in producers.items()} == {8: -1, 7: 2, 9: 3}
        assert producers[8]["coordinator_epoch"] == 0
        assert producers[9]["last_sequence"] == 4
        body = {"topics": [{"name": "t", "partition_indexes": [1]}, {"name": "u", "partition_indexes": [0]}]}
        answer = ask(broker.dispatcher, "DescribeProducers", 0, body)
        codes = [each["partitions"][0]["error_code"] for each in answer["topics"]]
        assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2


def test_at_a_time_before_the_abort_the_transaction_is_open(disk: Path) -> None:
    with serving(disk, view=ViewOptions(until_ms=1400)) as broker:
        assert listed(broker) == {}
        producers = described_producers(broker, "t", 0)
        assert {each: row["current_txn_start_offset"] for each, row in producers.items()} == {8: 0}
    with serving(disk, view=ViewOptions(until_ms=2100)) as broker:
        assert listed(broker, duration_filter=99) == {"done": ("CompleteAbort", 8), "open": ("Ongoing", 7)}
        assert listed(broker, duration_filter=100) == {"done": ("CompleteAbort", 8)}, "until then it lasted 100 ms"
        assert described_producers(broker, "t", 0).keys() == {7, 8}


def test_the_newest_snapshot_that_can_be_read_is_where_the_replay_begins(tmp_path: Path) -> None:
    batches = [
        data(0, 7, 0),
        txn_marker(COMMIT, offset=1, producer_id=7, producer_epoch=1),
        data(2, 8, 0),
        data(3, 9, 0, is_transactional=False),
    ]
    place = partition(tmp_path, "t-0", *batches)
    whole = {each.producer_id: each for each in ServedPartition.open(str(place)).active_producers()}
    assert whole.keys() == {7, 8, 9}
    (place / f"{3:020}.snapshot").write_bytes(encode_snapshot([whole[8]], order="java"))
    found = ServedPartition.open(str(place)).active_producers()
    assert list(found) == [whole[8], whole[9]], "a snapshot lacks those that had expired"
    (place / f"{4:020}.snapshot").write_bytes(b"torn")
    (place / f"{9:020}.snapshot").write_bytes(encode_snapshot([], order="java"))
    assert ServedPartition.open(str(place)).active_producers() == found, "one is damaged, one is of a longer log"


def test_an_empty_partition_directory_has_no_producers(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    assert not ServedPartition.open(str(tmp_path / "t-0")).active_producers()


def test_damaged_batches_of_transactions_are_named(disk: Path) -> None:
    log = disk / "__transaction_state-0" / f"{0:020}.log"
    content = bytearray(log.read_bytes())
    content[-1] ^= 0xFF
    log.write_bytes(content)
    with serving(disk) as broker:
        (note,) = (each for each in broker.notes if "transaction" in each)
        assert str(log) in note
        assert listed(broker) == {"done": ("CompleteAbort", 8)}


def test_partitions_of_transactions_that_no_disk_has_are_named(disk: Path) -> None:
    shutil.copytree(disk / "__transaction_state-0", disk / "__transaction_state-3")
    with serving(disk) as broker:
        assert any("__transaction_state-1, __transaction_state-2" in each for each in broker.notes)


def test_transactions_of_several_disks_come_from_the_best_copy_of_each_partition(disk: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    partition(other, "__transaction_state-1", state_batch(0, "elsewhere", VALUE, 2000))
    partition(other, "__transaction_state-0", state_batch(0, "done", DONE, 1500))
    for paths in ((disk, other), (other, disk)):
        with serving(*paths) as broker:
            assert listed(broker).keys() == {"done", "open", "elsewhere"}, "the other copy is shorter"
            assert not [each for each in broker.notes if "transaction" in each]
