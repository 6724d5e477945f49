"""What the transactions of a broker have to do, in a model that knows no log, no file and no lock.

Written from KIP-98 (transactions), KIP-360 (what a producer with a known epoch gets), KIP-447 (offsets of groups) and
KIP-890 (a batch needs a transaction that the coordinator knows), for transaction.version 0. Errors are named as clients
see them in the versions that `test_transaction_model` uses.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Final, Self

NONE: Final = "NONE"
LAST_EPOCH: Final = 32766
Place = tuple[str, int]
Offset = tuple[int, int]  # the number of its commit, and the offset
OFFSETS: Final = "__consumer_offsets"


@dataclass
class Producer:
    """What a partition knows of a producer: its epoch, its last batches, and whether it has a transaction open."""

    epoch: int
    recent: list[tuple[int, int]] = field(default_factory=list)
    first_offset: int | None = None


@dataclass
class Stored:
    """A record in a partition; `outcome`: None while its transaction is open."""

    offset: int
    value: bytes
    producer_id: int = -1
    outcome: bool | None = True


@dataclass
class Log:
    """A partition."""

    records: list[Stored] = field(default_factory=list)
    producers: dict[int, Producer] = field(default_factory=dict)

    def visible(self) -> tuple[list[bytes], list[bytes], int | None]:
        """What consumers of both isolation levels read, and the first offset that is held back; None: none is."""
        open_ones = [each.first_offset for each in self.producers.values() if each.first_offset is not None]
        limit = min(open_ones, default=None)
        read = [each.value for each in self.records if each.outcome and (limit is None or each.offset < limit)]
        return [each.value for each in self.records], read, limit

    def end(self, producer_id: int, epoch: int, *, is_commit: bool) -> None:
        """A marker."""
        known = self.producers.setdefault(producer_id, Producer(epoch))
        if known.epoch != epoch:
            known.epoch, known.recent = epoch, []
        known.first_offset = None
        for each in self.records:
            if each.producer_id == producer_id and each.outcome is None:
                each.outcome = is_commit


@dataclass
class Transaction:
    """A transactional id."""

    producer_id: int
    epoch: int
    timeout_ms: int
    state: str = "Empty"
    places: frozenset[Place] = frozenset()
    start_ms: int = -1
    last_epoch: int = -1
    previous_id: int = -1
    has_failed_fence: bool = False


@dataclass
class Model:
    """A broker. `ids`: those that it has given; it gives any other one next."""

    clock_ms: int
    offset_partitions: int
    logs: dict[Place, Log] = field(default_factory=dict)
    known: dict[str, Transaction] = field(default_factory=dict)
    in_log: dict[str, Transaction] = field(default_factory=dict)
    committed: dict[tuple[str, Place], Offset] = field(default_factory=dict)
    pending: dict[int, dict[tuple[str, Place], Offset]] = field(default_factory=dict)
    commits: int = 0
    ids: set[int] = field(default_factory=set)

    def copy(self) -> Self:
        """The same, to try something with."""
        return copy.deepcopy(self)

    # --- InitProducerId -----------------------------------------------------------------------------------------------
    def init(self, name: str, timeout_ms: int, asked: tuple[int, int] | None, given_id: int) -> tuple[str, int, int]:
        """The error, producer id and epoch; `given_id`: what the broker answers with, if it may give a new one."""
        found = self.known.get(name)
        if found is None:
            found = Transaction(self._fresh(given_id), -1, timeout_ms)
        if asked is not None and not self._may_ask(found, *asked):
            return "PRODUCER_FENCED", -1, -1
        if found.state.startswith("Prepare"):
            return "CONCURRENT_TRANSACTIONS", -1, -1
        if found.state == "Ongoing":
            self.fence(name)
            return "CONCURRENT_TRANSACTIONS", -1, -1
        before = found.producer_id, found.epoch
        if found.epoch >= LAST_EPOCH:
            if asked is not None and asked[1] != found.epoch:
                return "UNKNOWN_SERVER_ERROR", -1, -1
            found.producer_id, found.epoch = self._fresh(given_id), 0
            found.last_epoch = before[1] if asked is not None else -1
        elif asked is None:
            found.epoch, found.last_epoch = found.epoch + 1, -1
        elif found.epoch in {-1, asked[1]}:
            found.epoch, found.last_epoch = found.epoch + 1, found.epoch
        elif asked[1] != found.last_epoch:
            return "PRODUCER_FENCED", -1, -1
        found.state, found.places, found.start_ms, found.timeout_ms = "Empty", frozenset(), -1, timeout_ms
        found.previous_id = before[0]
        self.known[name] = found
        self._write(name)
        return NONE, found.producer_id, found.epoch

    def _fresh(self, given_id: int) -> int:
        assert given_id not in self.ids, "an id for two producers"
        self.ids |= {given_id} - {-1}
        return given_id

    @staticmethod
    def _may_ask(found: Transaction, producer_id: int, epoch: int) -> bool:
        if found.epoch == -1 or producer_id == found.producer_id:
            return True
        return producer_id == found.previous_id and epoch >= LAST_EPOCH

    def fence(self, name: str, *, is_written: bool = True) -> None:
        """Abort with a higher epoch."""
        found = self.known[name]
        if not found.has_failed_fence:
            found.epoch = min(found.epoch + 1, 32767)
        found.last_epoch = -1
        if is_written:
            self._complete(name, is_commit=False)
        else:
            found.has_failed_fence = True

    # --- within a transaction -----------------------------------------------------------------------------------------
    def _check(self, name: str, producer_id: int, epoch: int) -> str:
        found = self.known.get(name)
        if found is None or found.producer_id != producer_id:
            return "INVALID_PRODUCER_ID_MAPPING"
        if found.epoch != epoch:
            return "PRODUCER_FENCED"
        return "CONCURRENT_TRANSACTIONS" if found.state.startswith("Prepare") else NONE

    def add(self, name: str, producer_id: int, epoch: int, places: frozenset[Place]) -> str:
        """AddPartitionsToTxn and AddOffsetsToTxn."""
        error = self._check(name, producer_id, epoch)
        if error != NONE:
            return error
        found = self.known[name]
        if found.state == "Ongoing" and places <= found.places:
            return NONE
        if found.state != "Ongoing":
            found.state, found.places, found.start_ms = "Ongoing", frozenset(), self.clock_ms
        found.places |= places
        found.previous_id = found.producer_id
        self._write(name)
        return NONE

    def _verify(self, name: str, producer_id: int, epoch: int, place: Place) -> str:
        error = self._check(name, producer_id, epoch)
        if error == "PRODUCER_FENCED":
            return "INVALID_PRODUCER_EPOCH"
        return error if error != NONE or place in self.known[name].places else "INVALID_TXN_STATE"

    def send(
        self, name: str, producer_id: int, epoch: int, place: Place, sequence: int, values: list[bytes], base: int
    ) -> str:
        """Produce; `base`: the offset that the broker gave."""
        log = self.logs[place]
        known = log.producers.get(producer_id)
        if known is not None and epoch < known.epoch:
            return "INVALID_PRODUCER_EPOCH"
        if known is None or known.epoch != epoch or known.first_offset is None:
            error = self._verify(name, producer_id, epoch, place)
            if error != NONE:
                return "NOT_ENOUGH_REPLICAS" if error == "CONCURRENT_TRANSACTIONS" else error
        last = sequence + len(values) - 1
        if known is not None:
            if known.epoch == epoch and (sequence, last) in known.recent:
                return NONE
            expected = known.recent[-1][1] + 1 if known.epoch == epoch and known.recent else 0
            if sequence != expected:
                return "OUT_OF_ORDER_SEQUENCE_NUMBER"
        else:
            known = log.producers[producer_id] = Producer(epoch)
        if known.epoch != epoch:
            known.epoch, known.recent = epoch, []
        known.recent = [*known.recent, (sequence, last)][-5:]
        known.first_offset = base if known.first_offset is None else known.first_offset
        log.records += [Stored(base + at, value, producer_id, None) for at, value in enumerate(values)]
        return NONE

    def commit_offset(
        self, name: str, producer_id: int, epoch: int, group: str, offsets_at: Place, place: Place, offset: int
    ) -> str:
        """TxnOffsetCommit."""
        error = self._verify(name, producer_id, epoch, offsets_at)
        if error == NONE:
            self.commits += 1
            self.pending.setdefault(producer_id, {})[group, place] = self.commits, offset
        return error

    def commit_plainly(self, group: str, place: Place, offset: int) -> None:
        """OffsetCommit."""
        self.commits += 1
        self.committed[group, place] = self.commits, offset

    # --- the end ------------------------------------------------------------------------------------------------------
    def end(self, name: str, producer_id: int, epoch: int, *, is_commit: bool) -> str:
        """EndTxn."""
        error = self._check(name, producer_id, epoch)
        if error not in {NONE, "CONCURRENT_TRANSACTIONS"}:
            return error
        found = self.known[name]
        if found.state == "Ongoing":
            self._complete(name, is_commit=is_commit)
            return NONE
        wanted = "Commit" if is_commit else "Abort"
        if found.state == f"Complete{wanted}":
            return NONE
        return "CONCURRENT_TRANSACTIONS" if found.state == f"Prepare{wanted}" else "INVALID_TXN_STATE"

    def _complete(self, name: str, *, is_commit: bool) -> None:
        found = self.known[name]
        for place in found.places:
            if place[0] != OFFSETS:
                self.logs[place].end(found.producer_id, found.epoch, is_commit=is_commit)
        pending = self.pending.pop(found.producer_id, {})
        for key, (number, offset) in pending.items() if is_commit else ():
            if number > self.committed.get(key, (0, 0))[0]:  # a later commit without a transaction is kept
                self.committed[key] = number, offset
        found.state, found.places = ("CompleteCommit" if is_commit else "CompleteAbort"), frozenset()
        found.previous_id, found.has_failed_fence = found.producer_id, False
        self._write(name)

    def _write(self, name: str) -> None:
        self.in_log[name] = copy.deepcopy(self.known[name])

    # --- time ---------------------------------------------------------------------------------------------------------
    def sweep(self) -> None:
        """Abort what takes too long."""
        for name, found in self.known.items():
            if found.state == "Ongoing" and self.clock_ms > found.start_ms + found.timeout_ms:
                self.fence(name)

    def restart(self) -> None:
        """What is not in the log is forgotten."""
        self.known = copy.deepcopy(self.in_log)
        for found in self.known.values():
            found.last_epoch = found.previous_id = -1
            found.has_failed_fence = False
        for log in self.logs.values():
            for known in log.producers.values():
                del known.recent[:-1]  # a snapshot has the last batch of each
