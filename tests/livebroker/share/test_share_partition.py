"""One partition of a share group: the rules of delivery, by cases and against a model that knows each offset."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kafkalog_core.livebroker.share.share_partition import (
    Acknowledgement,
    AcknowledgeType,
    Acquired,
    AcquireRequest,
    InvalidAcknowledgementError,
    SharePartition,
)
from kafkalog_core.topics.share_state_records import DeliveryState, ShareState, StateBatch, combined, updated
from kafkalog_core.wire.error_codes import ErrorCode

BATCHES: Final = [(0, 9), (10, 19), (20, 29)]
LIMIT: Final = 5
LOCK_MS: Final = 30_000


def wants(member: str = "a", most: int = 500, *, now_ms: int = 0, batch_size: int = 500, **more: int) -> AcquireRequest:
    """What a member asks for."""
    fields = {"max_in_flight": 2000, "max_deliveries": LIMIT, "is_strict": False, **more}
    return AcquireRequest(
        member=member,
        max_records=most,
        batch_size=batch_size,
        until_ms=now_ms + LOCK_MS,
        max_in_flight=fields["max_in_flight"],
        max_deliveries=fields["max_deliveries"],
        is_strict=bool(fields["is_strict"]),
    )


def took(
    partition: SharePartition, request: AcquireRequest, batches: list[tuple[int, int]]
) -> tuple[SharePartition, list[Acquired]]:
    """What a member gets from the next offset on."""
    return partition.acquire(request, partition.next_fetch_offset, batches)


def said(
    partition: SharePartition, first: int, last: int, *types: int, member: str = "a"
) -> tuple[SharePartition, list[StateBatch]]:
    """What follows from an acknowledgement."""
    return partition.acknowledge(
        member, [Acknowledgement(first, last, types)], max_deliveries=LIMIT, renewed_until_ms=99
    )


# --- acquire ----------------------------------------------------------------------------------------------------------
def test_whole_batches_are_acquired() -> None:
    after, got = took(SharePartition(0), wants(most=5), BATCHES)
    assert got == [Acquired(0, 9, 1)]
    assert after.next_fetch_offset == 10
    again, got = took(after, wants("b", most=11), BATCHES)
    assert got == [Acquired(10, 29, 1)]
    assert took(again, wants("c"), BATCHES) == (again, [])


def test_a_strict_member_gets_no_more_than_it_wants() -> None:
    after, got = took(SharePartition(3), wants(most=5, is_strict=True), BATCHES)
    assert got == [Acquired(3, 7, 1)]
    assert after.next_fetch_offset == 8


def test_what_is_acquired_comes_in_parts_at_the_ends_of_batches() -> None:
    _, got = took(SharePartition(0), wants(batch_size=15), BATCHES)
    assert got == [Acquired(0, 19, 1), Acquired(20, 29, 1)]


def test_no_more_is_in_flight_than_the_limit_but_what_is_released_is_delivered() -> None:
    after, _ = took(SharePartition(0), wants(max_in_flight=20), BATCHES[:2])
    assert not after.can_acquire(20)
    assert took(after, wants("b", max_in_flight=20), BATCHES) == (after, [])
    released, _ = said(after, 5, 6, 2)
    assert released.can_acquire(20)
    _, got = took(released, wants("b", max_in_flight=20), BATCHES)
    assert got == [Acquired(5, 6, 2)]


def test_a_record_that_was_often_delivered_comes_in_ever_smaller_parts() -> None:
    partition, sizes = SharePartition(0), []
    for _ in range(LIMIT):
        partition, got = took(partition, wants(), BATCHES)
        sizes.append([each.last - each.first + 1 for each in got])
        partition, _ = partition.release("a", max_deliveries=LIMIT)
    assert sizes == [[30], [30], [30], [15], [1]]
    assert partition.start == 1  # offset 0 has been delivered five times


def test_offsets_without_records_are_skipped() -> None:
    partition = SharePartition(0).skip([(0, 19)])
    assert (partition.start, partition.runs) == (20, ())
    after, _ = took(SharePartition(0), wants(most=1), BATCHES)
    after = after.skip([(5, 19)])  # those that are acquired remain so
    assert after.next_fetch_offset == 20


def test_a_delivery_that_is_not_sent_does_not_count() -> None:
    after, got = took(SharePartition(0), wants(), BATCHES)
    _, again = took(after.give_back("a", got), wants("b"), BATCHES)
    assert again == got


# --- acknowledge ------------------------------------------------------------------------------------------------------
def test_the_start_offset_follows_what_is_done_with() -> None:
    after, _ = took(SharePartition(0), wants(), BATCHES)
    after, changed = said(after, 10, 29, 1)
    assert changed == [StateBatch(10, 29, DeliveryState.ACKNOWLEDGED, 1)]
    assert (after.start, after.complete_count) == (0, 20)
    after, changed = said(after, 0, 9, 3)
    assert changed == [StateBatch(0, 9, DeliveryState.ARCHIVED, 1)]
    assert after == SharePartition(30)


def test_each_record_has_a_type_of_its_own() -> None:
    after, _ = took(SharePartition(0), wants(), BATCHES[:1])
    after, changed = said(after, 0, 9, 1, 1, 2, 3, 0, 4, 1, 1, 1, 1)
    assert [(each.first, each.last, each.state) for each in changed] == [
        (0, 1, 2),
        (2, 2, 0),
        (3, 4, 4),
        (6, 9, 2),
    ]
    assert after.next_fetch_offset == 2
    assert after.first_expiry_ms() == 99  # of the record whose lock was renewed


@pytest.mark.parametrize(
    ("first", "last", "member", "code"),
    [
        (0, 9, "b", ErrorCode.INVALID_RECORD_STATE),
        (10, 19, "a", ErrorCode.INVALID_RECORD_STATE),
        (0, 35, "a", ErrorCode.INVALID_REQUEST),
    ],
)
def test_nothing_is_acknowledged_that_a_member_does_not_have(
    first: int, last: int, member: str, code: ErrorCode
) -> None:
    after, _ = took(SharePartition(0), wants(most=1), BATCHES)
    after, _ = took(after, wants("b", most=1), BATCHES)
    with pytest.raises(InvalidAcknowledgementError) as raised:
        said(after, first, last, 1, member=member)
    assert raised.value.code == code


def test_locks_are_renewed_only_where_that_is_allowed() -> None:
    after, _ = took(SharePartition(0), wants(), BATCHES)
    with pytest.raises(InvalidAcknowledgementError, match="Renewing acquisition locks is not enabled"):
        after.acknowledge("a", [Acknowledgement(0, 9, (4,))], max_deliveries=LIMIT, renewed_until_ms=None)


def test_what_is_below_the_start_offset_is_ignored() -> None:
    after, _ = took(SharePartition(0), wants(), BATCHES)
    after = after.advance(15)
    after, changed = said(after, 0, 19, 1)
    assert changed == [StateBatch(15, 19, DeliveryState.ACKNOWLEDGED, 1)]
    assert after.start == 20
    assert said(after, 0, 9, 1) == (after, [])


def test_locks_end() -> None:
    after, _ = took(SharePartition(0), wants(most=1), BATCHES)
    after, _ = took(after, wants("b", most=1, now_ms=5), BATCHES)
    assert after.first_expiry_ms() == LOCK_MS
    after, changed = after.expire(LOCK_MS, max_deliveries=LIMIT)
    assert changed == [StateBatch(0, 9, DeliveryState.AVAILABLE, 1)]
    assert after.next_fetch_offset == 0
    after, changed = after.expire(LOCK_MS, max_deliveries=LIMIT)
    assert not changed


def test_a_stop_releases_what_was_acquired() -> None:
    after, _ = took(SharePartition(0), wants(), BATCHES)
    _, changed = said(after, 10, 19, 1)
    loaded = SharePartition.of(0, changed)
    assert loaded.next_fetch_offset == 0
    loaded, got = took(loaded, wants("b", most=500), BATCHES)
    assert got == [Acquired(0, 9, 1), Acquired(20, 29, 1)]
    assert SharePartition.of(0, [StateBatch(0, 9, 2, 1)]) == SharePartition(10)


# --- a model ----------------------------------------------------------------------------------------------------------
LOG: Final = [(first, first + 3) for first in range(0, 60, 4)]
MEMBERS: Final = st.sampled_from("ab")
OFFSETS: Final = st.integers(0, 59)
FINAL: Final = {DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED}
NEW: Final = (DeliveryState.AVAILABLE, 0, "")


class EachOffset(RuleBasedStateMachine):
    """A partition next to a table of every offset of a log of 60, and next to what the log of states says."""

    def __init__(self) -> None:
        super().__init__()
        self.partition = SharePartition(0)
        self.start = 0
        self.states: dict[int, tuple[DeliveryState, int, str]] = {}
        self.log = ShareState(start=0)

    def write(self, found: tuple[SharePartition, list[StateBatch]]) -> None:
        """Take a new value, once it is in the log."""
        self.partition, changed = found
        if changed:
            batches = tuple(each for each in changed if each.last >= self.partition.start)
            self.log = updated(self.log, ShareState(start=self.partition.start, batches=batches))

    def end(self, offset: int, kind: AcknowledgeType) -> None:
        """Note what becomes of an offset that was acquired."""
        deliveries = self.states[offset][1]
        state = DeliveryState.ARCHIVED
        if kind is AcknowledgeType.ACCEPT:
            state = DeliveryState.ACKNOWLEDGED
        elif kind is AcknowledgeType.RELEASE and deliveries < LIMIT:
            state = DeliveryState.AVAILABLE
        self.states[offset] = state, deliveries, ""

    def held(self, member: str | None = None) -> list[int]:
        """The offsets that a member has, or anyone."""
        return [
            offset
            for offset, (state, _, owner) in self.states.items()
            if state is DeliveryState.ACQUIRED and member in {None, owner}
        ]

    @rule(member=MEMBERS, most=st.integers(1, 20), is_strict=st.booleans())
    def fetch(self, member: str, most: int, *, is_strict: bool) -> None:
        """A member gets records."""
        offset = self.partition.next_fetch_offset
        batches = [each for each in LOG if each[1] >= offset]
        request = wants(member, most, is_strict=int(is_strict), max_in_flight=30)
        self.partition, got = self.partition.acquire(request, offset, batches)
        taken = [(offset, each.deliveries) for each in got for offset in range(each.first, each.last + 1)]
        assert len({offset for offset, _ in taken}) == len(taken) <= most + (0 if is_strict else 3)
        for each, deliveries in taken:
            state, before, _ = self.states.get(each, NEW)
            assert (state, before + 1) == (DeliveryState.AVAILABLE, deliveries)
            self.states[each] = DeliveryState.ACQUIRED, deliveries, member

    @rule(member=MEMBERS, first=OFFSETS, last=OFFSETS, kind=st.sampled_from(list(AcknowledgeType)[:4]))
    def say(self, member: str, first: int, last: int, kind: AcknowledgeType) -> None:
        """A member says something of any records."""
        first, last = sorted((first, last))
        wanted = [offset for offset in range(first, last + 1) if offset >= self.start]
        is_valid = set(wanted) <= set(self.held(member))
        try:
            found = said(self.partition, first, last, kind, member=member)
        except InvalidAcknowledgementError:
            assert not is_valid
            return
        assert is_valid
        self.write(found)
        for offset in wanted:
            self.end(offset, kind)

    @rule(member=MEMBERS, kind=st.sampled_from(list(AcknowledgeType)[:4]))
    def finish(self, member: str, kind: AcknowledgeType) -> None:
        """A member says something of the first records that it has."""
        held = self.held(member)[:5]
        given = [Acknowledgement(offset, offset, (kind,)) for offset in held if offset >= self.start]
        self.write(self.partition.acknowledge(member, given, max_deliveries=LIMIT, renewed_until_ms=None))
        for offset in held:
            self.end(offset, kind)

    @rule(member=MEMBERS)
    def leave(self, member: str) -> None:
        """The session of a member ends."""
        self.write(self.partition.release(member, max_deliveries=LIMIT))
        for offset in self.held(member):
            self.end(offset, AcknowledgeType.RELEASE)

    @rule()
    def expire(self) -> None:
        """All locks end."""
        self.write(self.partition.expire(LOCK_MS, max_deliveries=LIMIT))
        for offset in self.held():
            self.end(offset, AcknowledgeType.RELEASE)

    @rule(offset=st.integers(0, 40))
    def delete(self, offset: int) -> None:
        """The log start offset moves."""
        self.partition = self.partition.advance(offset)
        if offset > self.start:
            self.start = offset
            self.states = {each: state for each, state in self.states.items() if each >= offset}

    @invariant()
    def agrees(self) -> None:
        """Compare every offset."""
        while self.states.get(self.start, NEW)[0] in FINAL:
            del self.states[self.start]
            self.start += 1
        assert self.partition.start == self.start
        runs = self.partition.runs
        found = {
            offset: (run.state, run.deliveries, run.member) for run in runs for offset in range(run.first, run.last + 1)
        }
        assert len(found) == sum(run.size for run in runs)
        assert found == self.states
        assert list(found) == sorted(found)
        first = next(each for each in range(self.start, 61) if self.states.get(each, NEW)[0] is NEW[0])
        assert self.partition.next_fetch_offset == first
        assert self.partition.complete_count == sum(state in FINAL for state, _, _ in self.states.values())

    @invariant()
    def is_in_the_log(self) -> None:
        """After a stop, what is done with is done with, and nothing else is."""
        loaded = SharePartition.of(self.log.start, self.log.batches).advance(self.partition.start)
        then = {offset: (run.state, run.deliveries) for run in loaded.runs for offset in range(run.first, run.last + 1)}
        for offset, (state, deliveries, _) in self.states.items():
            if state is DeliveryState.ACQUIRED:
                assert then.get(offset, NEW[:2])[0] is DeliveryState.AVAILABLE
            else:
                assert then[offset] == (state, deliveries)


TestEachOffset = EachOffset.TestCase
TestEachOffset.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


def test_states_are_combined_by_deliveries() -> None:
    before = [StateBatch(0, 9, 0, 1), StateBatch(10, 19, 2, 1)]
    after = [StateBatch(5, 12, 2, 2), StateBatch(13, 14, 0, 1), StateBatch(30, 31, 4, 1)]
    assert combined(before, after, 3) == (
        StateBatch(3, 4, 0, 1),
        StateBatch(5, 12, 2, 2),
        StateBatch(13, 19, 2, 1),
        StateBatch(30, 31, 4, 1),
    )


BATCH: Final = st.builds(
    lambda first, size, state, deliveries: StateBatch(first, first + size, state, deliveries),
    st.integers(0, 40),
    st.integers(0, 8),
    st.sampled_from([0, 2, 4]),
    st.integers(0, 3),
)


@given(st.lists(st.lists(BATCH, max_size=4), max_size=4), st.integers(0, 20))
def test_combined_states_are_those_of_each_offset(updates: list[list[StateBatch]], start: int) -> None:
    found: tuple[StateBatch, ...] = ()
    best: dict[int, tuple[int, int]] = {}
    for number, batches in enumerate(updates):
        first = start if number else 0
        found = combined(found, batches, first)
        for each in batches:
            for offset in range(each.first, each.last + 1):
                best[offset] = max(best.get(offset, (-1, -1)), (each.deliveries, each.state))
        best = {offset: value for offset, value in best.items() if offset >= first}
        assert best == {
            offset: (each.deliveries, each.state) for each in found for offset in range(each.first, each.last + 1)
        }
        assert list(found) == sorted(found)
        assert all(each.last + 1 < later.first or each[2:] != later[2:] for each, later in pairwise(found))
