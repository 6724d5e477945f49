"""Transactions go on from broker to broker: what one has written the other reads, and ends what was prepared."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalog_core.errors import StorageError
from kafkalog_core.kafka.sim.transactions import read_transactions
from kafkalog_core.topics.transactions import TRANSACTIONS_TOPIC, TransactionPhase
from tests.integration.successor import Successor
from tests.integration.transactions import LOADS_ALONE, described, kill_within_a_commit
from tests.support.live import LiveServer, read_all
from tests.support.live_state import Machine, Payer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.java, pytest.mark.slow]

COMMITTED: Final = "read_committed"
SECONDS: Final = 60


def ended(address: str, names: list[str]) -> list[dict[str, Any]]:
    """The descriptions of transactional ids, once none is prepared any more."""
    deadline = time.monotonic() + SECONDS
    while True:
        states = described(address, names)
        is_busy = any(each["error_code"] in {14, 15, 16} for each in states)  # it still loads
        if not is_busy and not any(each["transaction_state"].startswith("Prepare") for each in states):
            return states
        assert time.monotonic() < deadline, states
        time.sleep(0.2)


@pytest.fixture
def successor(libs: Path, tmp_path: Path) -> Iterator[Successor]:
    """A real broker over the directory `data`."""
    (tmp_path / "data").mkdir()
    broker = Successor(libs, tmp_path / "real", tmp_path / "data")
    broker.configure(LOADS_ALONE)
    yield broker
    broker.close()


# --- ours, then Kafka's -----------------------------------------------------------------------------------------------
def write_transactions(directory: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Transactions in every state, written by our broker, which is killed; what it says of them."""
    machine = Machine(directory)
    live = machine.live
    live.create("t")
    live.create("u")
    payers = {name: Payer(live, name) for name in ("empty", "open", "committed", "aborted", "prepared", "half")}
    for name, payer in payers.items():
        if name == "empty":
            continue
        assert payer.add("t", "u") == 0
        assert payer.send("t", name.encode()) == 0
        payer.sequence = 0
        assert payer.send("u", name.encode()) == 0
    assert payers["committed"].end(is_commit=True) == payers["aborted"].end(is_commit=False) == 0
    markers = live.broker._transactions._markers
    write = markers.write_marker

    def fail(topic: str, partition: int, **fields: Any) -> None:
        if fields["producer_id"] == payers["half"].id and topic == "t":
            write(topic, partition, **fields)
            return
        raise StorageError("no space left on device")

    monkeypatch.setattr(markers, "write_marker", fail)
    assert payers["prepared"].end(is_commit=False) == payers["half"].end(is_commit=True) == 0
    (answer,) = live.ask("DescribeTransactions", 0, transactional_ids=["half"])["transaction_states"]
    assert answer["transaction_state"] == "PrepareCommit"
    states = live.ask("DescribeTransactions", 0, transactional_ids=list(payers))["transaction_states"]
    machine.close(is_crash=True)
    return list(states)


def test_a_real_broker_ends_what_ours_had_prepared(successor: Successor, monkeypatch: pytest.MonkeyPatch) -> None:
    states = write_transactions(successor.log_dir, monkeypatch)
    names = [each["transactional_id"] for each in states]
    successor.start()
    found = ended(successor.bootstrap, names)
    expected = {"prepared": "CompleteAbort", "half": "CompleteCommit"}
    for before, after in zip(states, found, strict=True):
        assert after["transaction_state"] == expected.get(before["transactional_id"], before["transaction_state"])
        for field in ("producer_id", "producer_epoch", "transaction_timeout_ms", "transaction_start_time_ms"):
            assert after[field] == before[field], before["transactional_id"]
    assert next(each["topics"] for each in found if each["transactional_id"] == "open") == [("t", 0), ("u", 0)]
    # the transaction that is open was begun second, before all others of these
    assert read_all(successor.bootstrap, ["t", "u"], COMMITTED) == {("t", 0): [], ("u", 0): []}
    successor.stop()
    with LiveServer(successor.log_dir) as server:  # and ours goes on with what that one wrote
        assert [strip(each) for each in ended(server.address, names)] == [strip(each) for each in found]


def strip(state: dict[str, Any]) -> dict[str, Any]:
    """A description; a start of -1 is that of an id without a transaction."""
    return {key: value for key, value in state.items() if key != "error_code"}


# --- Kafka's, then either ---------------------------------------------------------------------------------------------
def test_ours_ends_what_a_real_broker_had_prepared_as_that_broker_does(
    corpus: Path, successor: Successor, tmp_path: Path
) -> None:
    shutil.rmtree(successor.log_dir)
    shutil.copytree(corpus / "modern" / "03-transactions-4.3.1" / "logdir", successor.log_dir, symlinks=True)
    names = kill_within_a_commit(successor.log_dir)
    shutil.copytree(successor.log_dir, tmp_path / "ours", symlinks=True)
    topics = sorted({place.name.rpartition("-")[0] for place in successor.log_dir.glob("tx.*-[0-9]*")})
    before, _ = read_transactions(sorted(map(str, successor.log_dir.glob(f"{TRANSACTIONS_TOPIC}-*"))))
    assert any(each.state.name.startswith("PREPARE") for each in before.values())
    successor.start()
    theirs = ended(successor.bootstrap, names), read_all(successor.bootstrap, topics, COMMITTED)
    successor.stop()
    waits = "transaction.max.timeout.ms=7200000"
    with LiveServer(tmp_path / "ours", waits) as server:
        ours = ended(server.address, names), read_all(server.address, topics, COMMITTED)
    is_late = {name for name, each in before.items() if each.state is TransactionPhase.ONGOING}  # ours aborts those
    for number, name in enumerate(names):
        if name not in is_late:
            assert ours[0][number] == theirs[0][number]
    late_places = {place for name in is_late for place in before[name].partitions}
    for place, rows in theirs[1].items():
        assert place in late_places or ours[1][place] == rows
