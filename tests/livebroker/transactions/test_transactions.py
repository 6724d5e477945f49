"""Single rules of the transaction coordinator, each where it was once broken."""

from __future__ import annotations

import errno
import threading
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.errors import KafkalogError, StorageError
from kafkalog_core.livebroker.transactions.coordinator import (
    ProducerIdentity,
    TransactionCoordinator,
    TransactionLimits,
)
from kafkalog_core.structs import replace
from kafkalog_core.topics.transactions import TransactionPhase, TransactionValue, encode_transaction
from kafkalog_core.wire.codec import codec
from kafkalog_core.wire.error_codes import ErrorCode
from tests.livebroker.consuming import offsets
from tests.support.live_state import NOW_MS, TRANSACTIONAL, Live, Payer, batch_of, living

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

LAST = 2**15 - 2


class Memory:
    """A log and its markers in memory; writes of some names, and markers, can fail."""

    def __init__(self, *records: tuple[bytes, bytes | None]) -> None:
        self.rows = list(records)
        self.markers: list[tuple[int, int, bool]] = []
        self.failing: set[str] = set()
        self.next_id = 100

    def records(self) -> list[tuple[bytes, bytes | None]]:
        return self.rows

    def append(self, name: str, records: Sequence[tuple[bytes, bytes | None]], /) -> int:
        if name in self.failing:
            raise StorageError("no space left on device")
        self.rows += records
        return len(self.rows)

    def coordinator_epoch(self, name: str, /) -> int:
        del name
        return 0

    def write_marker(self, topic: str, partition: int, **fields: Any) -> None:
        del partition
        if topic in self.failing:
            raise StorageError("no space left on device")
        self.markers.append((fields["producer_id"], fields["producer_epoch"], fields["is_commit"]))

    def next_producer_id(self) -> int:
        self.next_id += 1
        return self.next_id


def coordinator_of(memory: Memory, now_ms: int = NOW_MS) -> TransactionCoordinator:
    """A coordinator over a log in memory."""
    return TransactionCoordinator(memory, memory, lambda: now_ms)


def value_of(**fields: Any) -> TransactionValue:
    """A value."""
    known: dict[str, Any] = {"producer_id": 7, "producer_epoch": 3, "timeout_ms": 60_000, "update_ms": NOW_MS}
    return TransactionValue(**(known | {"state": TransactionPhase.COMPLETE_COMMIT} | fields))


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    """A live broker with a topic."""
    with living(tmp_path) as found:
        found.create("t")
        yield found


def test_a_producer_with_an_id_that_was_exchanged_long_ago_does_not_abort_the_next_one() -> None:
    memory = Memory(encode_transaction("a", value_of(producer_epoch=LAST)))
    coordinator = coordinator_of(memory)
    old = ProducerIdentity(7, LAST)
    code, new = coordinator.init_producer("a", 60_000, old)
    assert (code, new) == (ErrorCode.NONE, ProducerIdentity(101, 0))
    assert coordinator.init_producer("a", 60_000, old) == (ErrorCode.NONE, new), "its answer was lost"
    assert coordinator.add_partitions("a", new, [("t", 0)]) == ErrorCode.NONE
    assert coordinator.init_producer("a", 60_000, old)[0] == ErrorCode.PRODUCER_FENCED
    assert coordinator.transactions()["a"].state is TransactionPhase.ONGOING
    assert not memory.markers


def test_a_producer_with_another_epoch_than_the_last_one_gets_no_id() -> None:
    coordinator = coordinator_of(Memory(encode_transaction("a", value_of(producer_epoch=LAST))))
    code, _ = coordinator.init_producer("a", 60_000, ProducerIdentity(7, LAST - 1))
    assert code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert coordinator.transactions()["a"].producer_epoch == LAST


def test_a_transaction_that_a_broker_prepared_ends_with_the_producer_id_that_it_chose() -> None:
    """KIP-890: its epochs were exhausted, and the marker has the last one."""
    fields = {
        "producer_id": 7,
        "producer_epoch": LAST + 1,
        "transaction_timeout_ms": 60_000,
        "transaction_status": int(TransactionPhase.PREPARE_COMMIT),
        "transaction_partitions": [{"topic": "t", "partition_ids": [0]}],
        "transaction_last_update_timestamp_ms": NOW_MS,
        "transaction_start_timestamp_ms": NOW_MS,
        "next_producer_id": 55,
        "client_transaction_version": 2,
    }
    content = b"".join(bytes(piece) for piece in codec("TransactionLogValue", 1).encode(fields))  # type: ignore[call-overload]
    memory = Memory((encode_transaction("a", None)[0], b"\0\1" + content))
    coordinator = coordinator_of(memory)
    coordinator.expire()
    assert memory.markers == [(7, LAST + 1, True)]
    done = coordinator.transactions()["a"]
    assert (done.state, done.producer_id, done.producer_epoch) == (TransactionPhase.COMPLETE_COMMIT, 55, 0)
    assert (done.next_producer_id, done.previous_producer_id) == (-1, 7)


def test_a_fence_that_cannot_be_written_keeps_the_epoch_that_it_raised() -> None:
    ongoing = value_of(state=TransactionPhase.ONGOING, partitions=frozenset({("t", 0)}), start_ms=NOW_MS)
    memory = Memory(encode_transaction("a", ongoing))
    coordinator = coordinator_of(memory)
    memory.failing = {"a"}
    for _ in range(2):
        with pytest.raises(KafkalogError):
            coordinator.init_producer("a", 60_000)
    assert coordinator.transactions()["a"].producer_epoch == 4, "it is raised once"
    assert coordinator.end("a", ProducerIdentity(7, 3), is_commit=True) == ErrorCode.PRODUCER_FENCED
    memory.failing = set()
    assert coordinator.init_producer("a", 60_000)[0] == ErrorCode.CONCURRENT_TRANSACTIONS
    assert memory.markers == [(7, 4, False)]
    assert coordinator.init_producer("a", 60_000) == (ErrorCode.NONE, ProducerIdentity(7, 5))


def test_an_id_that_cannot_be_written_does_not_hold_up_others() -> None:
    late = value_of(state=TransactionPhase.ONGOING, partitions=frozenset({("t", 0)}), start_ms=NOW_MS - 60_001)
    memory = Memory(*(encode_transaction(name, replace(late, producer_id=at)) for at, name in enumerate("abc")))
    memory.failing = {"b"}
    coordinator = coordinator_of(memory)
    with pytest.raises(KafkalogError):
        coordinator.expire()
    states = {name: value.state for name, value in coordinator.transactions().items()}
    assert states["a"] is states["c"] is TransactionPhase.COMPLETE_ABORT
    assert states["b"] is TransactionPhase.ONGOING


def test_a_transaction_of_two_phases_has_no_timeout() -> None:
    """KIP-939: its timeout is the largest number."""
    ongoing = value_of(state=TransactionPhase.ONGOING, timeout_ms=2**31 - 1, start_ms=0)
    coordinator = coordinator_of(Memory(encode_transaction("a", ongoing)), now_ms=2**40)
    coordinator.expire()
    assert coordinator.transactions()["a"].state is TransactionPhase.ONGOING


def test_idle_ids_are_forgotten_when_it_is_time_for_that() -> None:
    """A real broker looks for them once an hour, not when it starts."""
    week_ms = TransactionLimits().expiration_ms
    ended_ms = {"over": NOW_MS - week_ms, "within": NOW_MS - week_ms + 1, "open": NOW_MS - week_ms}
    states = {
        "over": TransactionPhase.EMPTY,
        "within": TransactionPhase.COMPLETE_ABORT,
        "open": TransactionPhase.ONGOING,
    }
    memory = Memory(
        *(
            encode_transaction(name, value_of(update_ms=at_ms, start_ms=NOW_MS, state=states[name]))
            for name, at_ms in ended_ms.items()
        )
    )
    coordinator = coordinator_of(memory)
    coordinator.expire()
    assert set(coordinator.transactions()) == {"over", "within", "open"}
    coordinator.forget()
    assert set(coordinator.transactions()) == {"within", "open"}
    assert memory.rows[3:] == [encode_transaction("over", None)]


def test_the_settings_say_when_ids_are_forgotten(tmp_path: Path) -> None:
    names = "transaction.remove.expired.transaction.cleanup.interval.ms", "transactional.id.expiration.ms"
    with living(tmp_path, None, f"{names[0]}=2000", f"{names[1]}=5000") as live:
        Payer(live, "idle")
        states = []
        for _ in range(4):
            live.clock.now_ms += 2000
            live.broker._upkeep.run()
            (found,) = live.ask("DescribeTransactions", 0, transactional_ids=["idle"])["transaction_states"]
            states.append(found["transaction_state"])
    assert states == ["Empty", "Empty", "", ""]


# --- requests ---------------------------------------------------------------------------------------------------------
def test_a_transaction_keeps_its_start_after_its_end(live: Live) -> None:
    payer = Payer(live)
    payer.add("t")
    live.clock.now_ms += 500
    payer.end(is_commit=True)
    (state,) = live.ask("DescribeTransactions", 0, transactional_ids=["payer"])["transaction_states"]
    assert (state["transaction_state"], state["transaction_start_time_ms"]) == ("CompleteCommit", NOW_MS)
    Payer(live, "other")
    body = {"state_filters": [], "producer_id_filters": []}
    listed = live.ask("ListTransactions", 1, duration_filter=400, **body)["transaction_states"]
    assert [each["transactional_id"] for each in listed] == ["payer", "other"], "one without a transaction too"
    assert not live.ask("ListTransactions", 1, duration_filter=2**62, **body)["transaction_states"]
    for pattern in ("[", r"(a)\1"):  # RE2, as brokers have it, whose time is linear: no back references
        answer = live.ask("ListTransactions", 2, duration_filter=-1, transactional_id_pattern=pattern, **body)
        assert answer["error_code"] == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_batch_that_was_verified_is_appended_before_the_marker(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """KIP-890: a marker in between would leave a transaction that never ends."""
    payer = Payer(live)
    payer.add("t")
    coordinator = live.broker._transactions
    check = coordinator.is_in_transaction
    ends: list[threading.Thread] = []

    def checked(*arguments: Any) -> ErrorCode:
        code = check(*arguments)
        ends.append(threading.Thread(target=payer.end, kwargs={"is_commit": True}))
        ends[0].start()
        ends[0].join(0.3)
        return code

    monkeypatch.setattr(coordinator, "is_in_transaction", checked)
    assert payer.send("t", b"a") == 0
    ends[0].join()
    assert live.log("t").last_stable_offset() == live.log("t").log_end_offset == 2
    assert offsets(live, "t", is_committed=True) == [0]


def test_a_late_batch_is_refused_by_the_name_that_its_client_knows(live: Live) -> None:
    payer = Payer(live)
    payer.add("t")
    assert payer.send("t", b"a") == 0
    assert payer.end(is_commit=True) == 0
    for version, expected in ((9, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)):
        for sequence in (0, 1):  # one that it has, and the next one
            batch = batch_of(
                b"a", producer_id=payer.id, producer_epoch=payer.epoch, base_sequence=sequence, attributes=TRANSACTIONAL
            )
            answer = live.produce("t", batch, transactional_id="payer", version=version)
            assert answer["error_code"] == expected
    assert live.log("t").log_end_offset == 2


def test_a_coordinator_that_cannot_write_is_not_the_coordinator(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    payer = Payer(live)

    def full(descriptor: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(live.disks._disk, "_put", full)
        assert payer.add("t") == ErrorCode.NOT_COORDINATOR
        assert Payer(live).answer["error_code"] == ErrorCode.NOT_COORDINATOR
        assert Payer(live, "new").answer["error_code"] == ErrorCode.NOT_COORDINATOR
    assert payer.add("t") == 0


def test_a_damaged_snapshot_is_not_read_and_the_one_before_is(tmp_path: Path) -> None:
    """`ProducerStateManager.loadFromSnapshot`: else the partition could not be opened after a clean stop."""
    with living(tmp_path) as live:
        live.create("t")
        payer = Payer(live)
        payer.add("t")
        payer.send("t", b"a")
        known = live.log("t").active_producers()
    (snapshot,) = (tmp_path / "t-0").glob("*.snapshot")
    snapshot.write_bytes(snapshot.read_bytes()[:-1] + b"x")
    with living(tmp_path) as live:
        assert live.log("t").active_producers() == known
        assert live.log("t").last_stable_offset() == 0
