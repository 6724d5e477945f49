"""Random work of transactional producers, with restarts, crashes and failed writes, against a model of its own."""

from __future__ import annotations

import random
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalog_core.kafka.rules.partitioners import partition_of_name
from kafkalog_core.structs import replace
from kafkalog_core.wire.error_codes import ErrorCode
from tests.livebroker.consuming import consumed
from tests.serve.transactions.transaction_model import LAST_EPOCH, NONE, OFFSETS, Log, Model, Place
from tests.support.live_state import NOW_MS, TRANSACTIONAL, Live, Machine, batch_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAMES: Final = ("a", "b", "c")
GROUPS: Final = ("g", "h", "i")
PLACES: Final[tuple[Place, ...]] = (("t", 0), ("t", 1), ("u", 0))
STEPS: Final = 60
TIMEOUT_MS: Final = 60_000
NOBODY: Final = (-1, -1)
_FAILURES: Final = {
    "NOT_COORDINATOR",
    "KAFKA_STORAGE_ERROR",
    "COORDINATOR_NOT_AVAILABLE",
    "CONCURRENT_TRANSACTIONS",  # a transaction is prepared, and its markers cannot be written
    "NOT_ENOUGH_REPLICAS",
}


class Client:
    """A producer of a transactional id, which may have been fenced."""

    def __init__(self, name: str, producer_id: int, epoch: int) -> None:
        self.name, self.id, self.epoch = name, producer_id, epoch
        self.sequences: dict[Place, int] = {}
        self.last: dict[Place, tuple[int, list[bytes]]] = {}

    @property
    def identity(self) -> dict[str, Any]:
        """How it names itself."""
        return {"transactional_id": self.name, "producer_id": self.id, "producer_epoch": self.epoch}


class Run:
    """One random schedule."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.machine = Machine(directory)
        self.live.create("t", 2)
        self.live.create("u")
        self.model = Model(NOW_MS, 2, {place: Log() for place in PLACES})
        self.clients: list[Client] = []
        self.values = count()
        self.history: list[str] = []
        self.fails = False
        for name in NAMES:
            self.init(name, None)
        for group in GROUPS:
            self.commit_plainly(group, ("u", 0), 1)

    @property
    def live(self) -> Live:
        """The broker that runs."""
        return self.machine.live

    def offsets_at(self, group: str) -> Place:
        """The partition of the offsets' topic of a group."""
        return OFFSETS, partition_of_name(group, self.model.offset_partitions)

    # --- requests -----------------------------------------------------------------------------------------------------
    def init(self, name: str, asked: tuple[int, int] | None) -> str:
        """InitProducerId."""
        producer_id, epoch = asked or NOBODY
        body = {"transactional_id": name, "transaction_timeout_ms": TIMEOUT_MS}
        answer = self.live.ask("InitProducerId", 4, producer_id=producer_id, producer_epoch=epoch, **body)
        error = ErrorCode(answer["error_code"]).name
        if error == NONE:
            self.clients.append(Client(name, answer["producer_id"], answer["producer_epoch"]))
        self.expect(
            error,
            lambda model: self._agreed(model.init(name, TIMEOUT_MS, asked, answer["producer_id"]), answer),
            failed=lambda model: self._failed_fence(model, name),
        )
        return error

    @staticmethod
    def _agreed(expected: tuple[str, int, int], answer: dict[str, Any]) -> str:
        error, producer_id, epoch = expected
        if error == NONE and answer["error_code"] == 0:
            assert (answer["producer_id"], answer["producer_epoch"]) == (producer_id, epoch)
        return error

    @staticmethod
    def _failed_fence(model: Model, name: str) -> None:
        found = model.known.get(name)
        if found is not None and found.state == "Ongoing":
            model.fence(name, is_written=False)

    def add(self, client: Client, places: list[Place]) -> str:
        """AddPartitionsToTxn."""
        fields = {f"v3_and_below_{key}": value for key, value in client.identity.items()}
        rows = [
            {"name": topic, "partitions": [number for name, number in places if name == topic]}
            for topic in sorted({name for name, _ in places})
        ]
        answer = self.live.ask("AddPartitionsToTxn", 3, v3_and_below_topics=rows, **fields)
        (code,) = {
            each["partition_error_code"]
            for topic in answer["results_by_topic_v3_and_below"]
            for each in topic["results_by_partition"]
        }
        error = ErrorCode(code).name
        self.expect(error, lambda model: model.add(client.name, client.id, client.epoch, frozenset(places)))
        return error

    def send(self, client: Client, place: Place, *, kind: str) -> str:
        """Produce the next batch, the last one again, or one after a gap."""
        sequence, values = client.sequences.get(place, 0), [b"%d" % next(self.values)]
        if self.chance.random() < 0.3:
            values.append(b"%d" % next(self.values))
        if kind == "again" and place in client.last:
            sequence, values = client.last[place]
        elif kind == "gap":
            sequence += 3
        batch = batch_of(
            *values,
            producer_id=client.id,
            producer_epoch=client.epoch,
            base_sequence=sequence,
            attributes=TRANSACTIONAL,
        )
        topic, number = place
        answer = self.live.produce(topic, batch, number, transactional_id=client.name)
        error = ErrorCode(answer["error_code"]).name
        if error == NONE:
            client.sequences[place], client.last[place] = sequence + len(values), (sequence, values)
        self.expect(
            error,
            lambda model: model.send(
                client.name, client.id, client.epoch, place, sequence, values, answer["base_offset"]
            ),
        )
        return error

    def add_group(self, client: Client, group: str) -> str:
        """AddOffsetsToTxn."""
        answer = self.live.ask("AddOffsetsToTxn", 3, group_id=group, **client.identity)
        error = ErrorCode(answer["error_code"]).name
        place = self.offsets_at(group)
        self.expect(error, lambda model: model.add(client.name, client.id, client.epoch, frozenset({place})))
        return error

    def commit(self, client: Client, group: str, place: Place, offset: int) -> str:
        """TxnOffsetCommit."""
        error = self._committed("TxnOffsetCommit", group, place, offset, **client.identity)
        at = self.offsets_at(group)
        self.expect(
            error,
            lambda model: model.commit_offset(client.name, client.id, client.epoch, group, at, place, offset),
        )
        return error

    def commit_plainly(self, group: str, place: Place, offset: int) -> str:
        """OffsetCommit."""
        error = self._committed("OffsetCommit", group, place, offset)

        def apply(model: Model) -> str:
            model.commit_plainly(group, place, offset)
            return NONE

        self.expect(error, apply)
        return error

    def _committed(self, api: str, group: str, place: Place, offset: int, **fields: Any) -> str:
        partition = {
            "partition_index": place[1],
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        body = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
        topics = [{"name": place[0], "partitions": [partition]}]
        version = 3 if api == "TxnOffsetCommit" else 7
        answer = self.live.ask(api, version, topics=topics, **body, **fields)
        return ErrorCode(answer["topics"][0]["partitions"][0]["error_code"]).name

    def end(self, client: Client, *, is_commit: bool) -> str:
        """EndTxn."""
        answer = self.live.ask("EndTxn", 3, committed=is_commit, **client.identity)
        error = ErrorCode(answer["error_code"]).name
        self.expect(error, lambda model: model.end(client.name, client.id, client.epoch, is_commit=is_commit))
        return error

    # --- what is expected ---------------------------------------------------------------------------------------------
    def expect(
        self,
        error: str,
        apply: Callable[[Model], str],
        failed: Callable[[Model], None] | None = None,
    ) -> None:
        """Apply a request to the model, and compare the errors; where writes fail it may not have been done."""
        after = self.model.copy()
        expected = apply(after)
        if not self.fails or error == expected:
            assert error == expected, self.history
            self.model = after
            return
        assert error in _FAILURES, self.history
        if failed is not None:
            failed(self.model)

    def check(self) -> None:
        """Compare all that clients see."""
        model, live = self.model, self.live
        for (topic, number), log in model.logs.items():
            opened, values = live.log(topic, number), {each.offset: each.value for each in log.records}
            every, committed, limit = log.visible()
            for is_committed, expected in ((False, every), (True, committed)):
                found = [values[offset] for offset in consumed(opened, 1 << 20, is_committed=is_committed)]
                assert found == expected, self.history
            assert opened.last_stable_offset() == (opened.log_end_offset if limit is None else limit), self.history
        names = sorted(model.known)
        answer = live.ask("DescribeTransactions", 0, transactional_ids=names)
        for name, state in zip(names, answer["transaction_states"], strict=True):
            known = model.known[name]
            places = {(topic["topic"], number) for topic in state["topics"] for number in topic["partitions"]}
            seen = state["transaction_state"], state["producer_id"], state["producer_epoch"], places
            assert seen == (known.state, known.producer_id, known.epoch, known.places), self.history
            assert state["transaction_start_time_ms"] == known.start_ms, self.history
        self._check_offsets()

    def _check_offsets(self) -> None:
        unstable = {key for pending in self.model.pending.values() for key in pending}
        for group in GROUPS:
            topics = [{"name": topic, "partition_indexes": [number]} for topic, number in PLACES]
            for is_stable in (False, True):
                answer = self.live.ask("OffsetFetch", 7, group_id=group, topics=topics, require_stable=is_stable)
                for place, topic in zip(PLACES, answer["topics"], strict=True):
                    (found,) = topic["partitions"]
                    is_unstable = is_stable and (group, place) in unstable
                    _, expected = (0, -1) if is_unstable else self.model.committed.get((group, place), (0, -1))
                    code = ErrorCode.UNSTABLE_OFFSET_COMMIT if is_unstable else ErrorCode.NONE
                    assert (found["committed_offset"], found["error_code"]) == (expected, code), self.history

    # --- a schedule ---------------------------------------------------------------------------------------------------
    def client(self) -> Client:
        """A producer: mostly one of the last ones, sometimes one that was fenced long ago."""
        chance = self.chance
        return self.clients[-1 - min(int(chance.expovariate(0.5)), len(self.clients) - 1)]

    def step(self) -> str:
        """Do something."""
        chance, client = self.chance, self.client()
        places = chance.sample(PLACES, chance.randint(1, len(PLACES)))
        actions: list[tuple[int, Callable[[], object]]] = [
            (2, lambda: self.init(client.name, None)),
            (3, lambda: self.init(client.name, (client.id, client.epoch))),
            (6, lambda: self.add(client, places)),
            (12, lambda: self.send(client, places[0], kind=chance.choice(["next"] * 7 + ["again"] * 2 + ["gap"]))),
            (6, lambda: self._group(client, places[0])),
            (7, lambda: self.end(client, is_commit=chance.random() < 0.6)),
            (1, lambda: [self.end(client, is_commit=True) for _ in range(2)]),
            (2, lambda: self.commit_plainly(chance.choice(GROUPS), places[0], chance.randint(0, 99))),
            (2, lambda: self._wait(chance.choice((100, TIMEOUT_MS // 2, TIMEOUT_MS + 1)))),
            (1, lambda: self._jump(client)),
            (5, lambda: self._whole(client.name, places)),
        ]
        number = chance.choices(range(len(actions)), [weight for weight, _ in actions])[0]
        return f"{number} {client.identity} {places}: {actions[number][1]()}"

    def _group(self, client: Client, place: Place) -> list[str]:
        group = self.chance.choice(GROUPS)
        added = self.add_group(client, group) if self.chance.random() < 0.8 else "not added"
        return [group, added, self.commit(client, group, place, self.chance.randint(0, 99))]

    def _wait(self, time_ms: int) -> str:
        self.machine.clock.now_ms += time_ms
        self.model.clock_ms += time_ms
        self.live.broker.sweep()
        self.disk_works_again()
        self.model.sweep()
        return f"wait {time_ms}"

    def _jump(self, client: Client) -> str:
        """Bring an idle id near to its last epoch, which would take thousands of requests."""
        known = self.model.known.get(client.name)
        if self.fails or known is None or known.state == "Ongoing" or known.epoch > LAST_EPOCH - 3:
            return "no jump"
        coordinator = self.live.broker._transactions
        found = coordinator._known[client.name]
        epoch = LAST_EPOCH - self.chance.randint(0, 2)
        coordinator._set(client.name, found, replace(found.value, producer_epoch=epoch))
        known.epoch, known.previous_id = epoch, known.producer_id
        self.model.in_log[client.name].epoch = epoch
        fresh = Client(client.name, known.producer_id, epoch)
        self.clients.append(fresh)
        return f"jump {client.name} to {epoch}"

    def _whole(self, name: str, places: list[Place]) -> str:
        """A transaction as a client makes it, up to its end or not."""
        for _ in range(2):
            if self.init(name, None) == NONE:
                break
        client, group = self.clients[-1], self.chance.choice(GROUPS)
        done = [client.name, self.add(client, places), *(self.send(client, place, kind="next") for place in places)]
        done += [self.add_group(client, group), self.commit(client, group, places[0], self.chance.randint(0, 99))]
        if self.chance.random() < 0.8:
            done.append(self.end(client, is_commit=self.chance.random() < 0.7))
        return f"whole {done}"

    def disk_works_again(self) -> None:
        """Let writes succeed, and let the broker do what it could not; or crash before that."""
        if not self.fails:
            return
        self.fails, self.machine.disk.left = False, None
        if self.chance.random() < 0.4:
            self.machine.restart(is_crash=True)
            self.model.restart()
            self.history.append("crash with a full disk")
        self.live.broker.sweep()

    def run(self) -> None:
        """Do all steps."""
        for _ in range(STEPS):
            if self.chance.random() < 0.12:
                self.fails, self.machine.disk.left = True, self.chance.randint(0, 5)
            self.history.append(self.step())
            self.disk_works_again()
            if self.chance.random() < 0.06:
                is_crash = self.chance.random() < 0.5
                self.machine.restart(is_crash=is_crash)
                self.model.restart()
                self.live.broker.sweep()
                self.history.append("crash" if is_crash else "restart")
            self.check()
        self.machine.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_clients_see_what_the_model_says(tmp_path: Path, seed: int) -> None:
    Run(tmp_path, seed).run()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_schedules(tmp_path: Path, seed: int) -> None:
    Run(tmp_path, seed).run()
