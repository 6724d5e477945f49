"""The replay of producer state: every anomaly by hand, and any sequence of batches against the rules by the book."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core import kernels
from kafkalog_core.errors import FieldError
from kafkalog_core.format.layout import MAX_INT32
from kafkalog_core.format.snapshot import ProducerEntry, decode_snapshot
from kafkalog_core.kafka.rules.producer_anomalies import ANOMALIES
from kafkalog_core.kafka.rules.producers import (
    Anomaly,
    CompletedTxn,
    Marker,
    ProducerStates,
    SnapshotStyle,
    sequences_of,
)
from kafkalog_core.kernels import constants
from tests.kafka.producers_model import CONTROL, TRANSACTIONAL, Batch, Model, columns_of
from tests.support.build import Producer, snapshot
from tests.support.twins import TWINS, all_agree, twin

P, Q = 1000, 2000
ABORT, COMMIT = 0, 1


class Log:
    """Batches at ascending offsets."""

    def __init__(self, first: int = 0) -> None:
        self.next = first
        self.batches: list[Batch] = []

    def data(self, producer_id: int, sequence: int, count: int = 1, *, epoch: int = 0, txn: bool = False) -> Log:
        attributes = TRANSACTIONAL if txn else 0
        return self.add(count, producer_id, epoch, sequence, attributes)

    def txn(self, producer_id: int, sequence: int, count: int = 1, *, epoch: int = 0) -> Log:
        return self.data(producer_id, sequence, count, epoch=epoch, txn=True)

    def end(self, producer_id: int, kind: int, *, epoch: int = 0, coordinator: int = 0) -> Log:
        attributes = CONTROL | TRANSACTIONAL
        return self.add(1, producer_id, epoch, -1, attributes, marker=Marker(kind, coordinator))

    def add(
        self,
        count: int,
        producer_id: int,
        epoch: int,
        sequence: int,
        attributes: int,
        *,
        record_count: int | None = None,
        marker: Marker | None = None,
    ) -> Log:
        self.batches.append(
            Batch(
                base_offset=self.next,
                last_offset=self.next + count - 1,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                attributes=attributes,
                max_timestamp_ms=1000 + self.next,
                record_count=count if record_count is None else record_count,
                marker=marker,
            )
        )
        self.next += count
        return self


def replay(log: Log, states: ProducerStates | None = None, **options: str) -> list[CompletedTxn | Anomaly]:
    states = states or ProducerStates(**options)  # type: ignore[arg-type]
    return states.replay(*columns_of(log.batches))


def odd(log: Log, states: ProducerStates | None = None, **options: str) -> list[tuple[str, int]]:
    return [(one.kind, one.offset) for one in replay(log, states, **options) if isinstance(one, Anomaly)]


# --- state ------------------------------------------------------------------------------------------------------------
def test_nothing_is_known_of_an_empty_log() -> None:
    states = ProducerStates()
    assert replay(Log(), states) == []
    assert states.count == 0
    assert list(states.snapshot_entries()) == states.open_transactions() == []
    assert states.entry(P) is None


def test_the_state_is_what_a_broker_wrote_after_these_batches() -> None:
    """Two producers of 4.3.1 with transaction version 2; entries of its snapshot at the clean stop."""
    log = Log()
    for producer_id in (0, 1):
        for epoch in (0, 1):
            log.txn(producer_id, 0, epoch=epoch).end(producer_id, COMMIT, epoch=epoch + 1)
    states = ProducerStates()
    assert odd(log, states) == []
    wanted = [
        Producer(producer_id=number, epoch=2, timestamp_ms=time, coordinator_epoch=0)
        for number, time in ((0, 1003), (1, 1007))
    ]
    assert tuple(states.snapshot_entries()) == tuple(decode_snapshot(snapshot(wanted)))


def test_sequences_wrap_at_their_end() -> None:
    log = Log().data(P, MAX_INT32 - 1, 2).data(P, 0, 3).data(P, 3).data(Q, MAX_INT32, 5).data(Q, 4)
    states = ProducerStates()
    assert odd(log, states) == []
    entry = states.entry(Q)
    assert entry is not None
    assert (entry.last_sequence, entry.first_sequence, entry.last_offset, entry.offset_delta) == (4, 4, 11, 0)


def test_a_wrap_inside_of_a_batch() -> None:
    states = ProducerStates()
    replay(Log(10).data(P, MAX_INT32, 5), states)
    entry = states.entry(P)
    assert entry is not None
    assert (entry.last_sequence, entry.first_sequence, entry.first_offset) == (3, MAX_INT32, 10)


def test_aborted_transactions_are_what_the_index_lists() -> None:
    """0 P, 1 Q, 2 Q aborts, 3 P, 4 P aborts, 5 Q, 6 Q commits."""
    log = Log().txn(P, 0).txn(Q, 0).end(Q, ABORT).txn(P, 1).end(P, ABORT).txn(Q, 1).end(Q, COMMIT)
    assert replay(log) == [
        CompletedTxn(Q, 1, 2, is_aborted=True, last_stable_offset=0),
        CompletedTxn(P, 0, 4, is_aborted=True, last_stable_offset=5),
        CompletedTxn(Q, 5, 6, is_aborted=False, last_stable_offset=7),
    ]


@pytest.mark.parametrize("name", TWINS)
def test_offsets_below_zero_open_no_transaction(name: str) -> None:
    """Twice the same one would be a list of transactions without an end."""
    columns, markers = columns_of(Log(-9).txn(P, 0, 2).txn(P, 2, 2).txn(P, 4, 5).txn(P, 9, 2).end(P, ABORT).batches)
    states = ProducerStates()
    with mock.patch.object(kernels, "replay", twin(name).replay):
        assert states.replay(columns, markers, last=3) == []
        assert states.open_transactions() == []
        states.replay(columns, markers, first=3, last=4)
        assert [one.first_offset for one in states.open_transactions()] == [0]
        assert states.replay(columns, markers, first=4) == [
            CompletedTxn(P, 0, 2, is_aborted=True, last_stable_offset=3)
        ]


@pytest.mark.parametrize("name", TWINS)
def test_a_transaction_that_ends_at_the_largest_offset(name: str) -> None:
    """What comes behind it wraps, as in a broker."""
    log = Log(2**63 - 2).txn(P, 0).end(P, ABORT)
    columns, markers = columns_of([batch._replace(max_timestamp_ms=0) for batch in log.batches])
    with mock.patch.object(kernels, "replay", twin(name).replay):
        assert ProducerStates().replay(columns, markers) == [
            CompletedTxn(P, 2**63 - 2, 2**63 - 1, is_aborted=True, last_stable_offset=-(2**63))
        ]


def test_open_transactions() -> None:
    states = ProducerStates()
    replay(Log().txn(P, 0).txn(Q, 0).txn(3, 0).end(Q, COMMIT).txn(Q, 1), states)
    assert [(one.producer_id, one.first_offset, one.timestamp_ms) for one in states.open_transactions()] == [
        (P, 0, 1000),
        (3, 2, 1002),
        (Q, 4, 1004),
    ]
    assert not any(one.is_behind_hole for one in states.open_transactions())


def test_an_emptied_marker_says_nothing() -> None:
    log = Log().txn(P, 0).add(1, P, 3, -1, CONTROL | TRANSACTIONAL, record_count=0).txn(P, 1)
    assert replay(log) == []


def test_an_emptied_marker_makes_its_producer_known() -> None:
    """`UnifiedLog.updateProducers` puts every producer of an append into the map, whatever it has appended."""
    states = ProducerStates()
    replay(Log().add(1, P, 3, -1, CONTROL | TRANSACTIONAL, record_count=0), states)
    entry = states.entry(P)
    assert entry is not None
    assert (entry.producer_epoch, entry.timestamp_ms, entry.last_offset) == (-1, -1, -1)


def after_a_marker(style: SnapshotStyle, *, epoch: int) -> tuple[int, int, int, int]:
    """Sequence, offset, delta and timestamp of a producer after two records (offsets 0 and 1) and a marker (2)."""
    states = ProducerStates()
    replay(Log().txn(P, 0, 2).end(P, ABORT, epoch=epoch), states)
    entry = states.entry(P, style)
    assert entry is not None
    assert [*states.snapshot_entries(style)] == [entry]
    return entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp_ms


def test_what_a_marker_changes_in_a_snapshot_is_of_the_release() -> None:
    assert after_a_marker("marker-is-batch", epoch=0) == (1, 2, 0, 1002)
    assert after_a_marker("data-time", epoch=0) == (1, 1, 1, 1000)
    assert after_a_marker("marker-time", epoch=0) == (1, 1, 1, 1002)
    assert after_a_marker("marker-is-batch", epoch=1) == (-1, 2, 0, 1002)
    assert after_a_marker("data-time", epoch=1) == (-1, -1, 0, -1)
    assert after_a_marker("marker-time", epoch=1) == (-1, -1, 0, 1002)


def test_a_marker_without_data_ends_an_empty_transaction_where_that_is_asked_for() -> None:
    log = Log().txn(Q, 0).end(P, ABORT).end(P, COMMIT).end(Q, ABORT)
    states = ProducerStates()
    states.ends_empty = True
    ended = [event for event in replay(log, states) if isinstance(event, CompletedTxn)]
    assert ended == [
        CompletedTxn(P, 1, 1, is_aborted=True, last_stable_offset=0),
        CompletedTxn(P, 2, 2, is_aborted=False, last_stable_offset=0),
        CompletedTxn(Q, 0, 3, is_aborted=True, last_stable_offset=4),
    ]
    assert [event.is_empty for event in ended] == [True, True, False]
    assert [event for event in replay(log) if isinstance(event, CompletedTxn)] == ended[2:]


def test_an_emptied_batch_counts() -> None:
    log = Log().data(P, 0).add(5, P, 0, 1, 0, record_count=0).data(P, 6)
    assert replay(log) == []


def test_other_formats_have_no_producers() -> None:
    columns, _ = columns_of([Batch(0, 0, P, 0, 9, format=1), Batch(1, 1, P, 0, 3, format=7)])
    states = ProducerStates()
    assert states.replay(columns) == []
    assert states.count == 0


def test_any_number_of_producers() -> None:
    log = Log()
    for number in range(5000):
        log.txn(7919 * number, 0)
    states = ProducerStates()
    assert replay(log, states) == []
    assert [entry.producer_id for entry in states.snapshot_entries()] == [7919 * number for number in range(5000)]
    assert len(states.open_transactions()) == states.count == 5000


# --- anomalies --------------------------------------------------------------------------------------------------------
CASES: list[tuple[Log, list[tuple[str, int]]]] = [
    (Log().data(P, 0).data(P, 2), [("sequence-gap", 1)]),
    (
        Log().data(P, 0).end(P, COMMIT, epoch=1).data(P, 3, epoch=1),
        [("marker-without-transaction", 1), ("sequence-gap", 2)],
    ),
    (Log().data(P, 9).data(P, 5), [("sequence-back", 1)]),
    (Log().data(P, 0, 2).data(P, 2).data(P, 0, 2), [("duplicate-batch", 3)]),
    (Log().data(P, 0, 2).data(P, 0, 1), [("sequence-back", 2)]),
    (Log().data(P, 0, epoch=1).data(P, 0, epoch=0), [("epoch-back", 1)]),
    (Log().txn(P, 0, epoch=1).end(P, ABORT, epoch=0), [("epoch-back", 1)]),
    (Log().data(P, 0).data(P, 0, epoch=1), []),
    (Log().data(P, 0).data(P, 1, epoch=1), [("epoch-start", 1)]),
    (
        Log().txn(P, 0).end(P, COMMIT, coordinator=5).txn(P, 1).end(P, COMMIT, coordinator=4),
        [("coordinator-epoch-back", 3)],
    ),
    (Log().txn(P, 0).txn(P, 0, epoch=1), [("transaction-cut", 1)]),
    (Log().txn(P, 0).data(P, 1), [("plain-in-transaction", 1)]),
    (Log().data(P, 0).txn(P, 1), []),
    (Log().end(P, ABORT), [("marker-without-transaction", 0)]),
    (Log().end(P, ABORT).txn(P, 77), [("marker-without-transaction", 0)]),
    (Log().data(P, 77), []),
    (Log().add(1, P, 0, -1, CONTROL | TRANSACTIONAL), [("marker-unreadable", 0)]),
    (Log().end(P, 2), [("marker-unreadable", 0)]),
    (Log().data(P, 0, epoch=-1), [("epoch-missing", 0)]),
    (Log().data(P, -1), [("sequence-missing", 0)]),
    (Log().txn(P, 0).add(1, P, 0, 1, CONTROL | TRANSACTIONAL, marker=Marker(COMMIT, 0)), [("control-fields", 1)]),
    (Log().txn(P, 0).add(1, P, 0, -1, CONTROL, marker=Marker(COMMIT, 0)), [("control-fields", 1)]),
    (Log().add(1, P, 0, 5, CONTROL | TRANSACTIONAL, record_count=0), [("control-fields", 0)]),
    (Log().add(1, -1, -1, -1, TRANSACTIONAL), [("producer-missing", 0)]),
    (Log().add(1, -2, -1, -1, 0), [("producer-missing", 0)]),
    (Log().add(1, -1, 0, 0, 0).add(1, -1, -1, 0, 0).add(1, -1, -1, -1, CONTROL), []),
    (Log().add(1, -1, -1, 7, 0).add(1, -1, 3, -1, 0), [("stranger-fields", 0), ("stranger-fields", 1)]),
]


@pytest.mark.parametrize(("log", "kinds"), CASES)
def test_what_is_odd(log: Log, kinds: list[tuple[str, int]]) -> None:
    assert odd(log) == kinds


def test_every_kind_is_in_the_catalog() -> None:
    kinds = [kind for _, kinds in CASES for kind, _ in kinds]
    assert {*kinds, "hole-in-transaction"} == set(ANOMALIES)


def test_what_an_anomaly_says() -> None:
    log = Log().data(P, 0, 10).data(P, 25)
    assert replay(log) == [
        Anomaly(kind="sequence-gap", producer_id=P, producer_epoch=0, offset=10, position=100, expected=10, actual=25)
    ]
    (gap,) = replay(log)
    assert isinstance(gap, Anomaly)
    assert gap.missing == 15
    (again,) = replay(Log(5).data(P, 0, 10).data(P, 0, 10))
    assert isinstance(again, Anomaly)
    assert (again.kind, again.related_offset, again.missing) == ("duplicate-batch", 5, None)


def test_the_last_five_batches_are_remembered() -> None:
    log = Log()
    for sequence in range(6):
        log.data(P, sequence)
    assert odd(log.data(P, 1)) == [("duplicate-batch", 6)]
    log.batches.pop()
    assert odd(log.data(P, 0)) == [("sequence-back", 7)]


def test_odd_batches_change_the_state_as_in_a_broker() -> None:
    log = Log().data(P, 0).data(P, 7, 3).data(P, 10).data(P, 4, epoch=2)
    states = ProducerStates()
    assert odd(log, states) == [("sequence-gap", 1), ("epoch-start", 5)]
    entry = states.entry(P)
    assert entry is not None
    assert (entry.producer_epoch, entry.last_sequence, entry.last_offset) == (2, 4, 5)


def test_gaps_of_a_compacted_log() -> None:
    log = Log().data(P, 5).data(P, 9).data(P, 30, epoch=2).data(P, 29, epoch=2).data(P, 30, epoch=2)
    assert odd(log, sequences="gaps") == [("sequence-back", 3)]
    assert odd(log, sequences="unchecked") == []


def test_commits_of_offsets_have_no_sequence() -> None:
    log = Log().txn(P, 0).txn(P, 0).end(P, COMMIT).txn(P, 0)
    assert odd(log, sequences=sequences_of("__consumer_offsets", is_compacted=True)) == []
    assert sequences_of("t", is_compacted=True) == "gaps"
    assert sequences_of(None, is_compacted=False) == "continuous"


# --- holes ------------------------------------------------------------------------------------------------------------
def test_a_hole_explains_gaps_once() -> None:
    states = ProducerStates()
    replay(Log().data(P, 0).data(Q, 0), states)
    states.hole()
    events = replay(Log(10).data(P, 5).data(P, 9), states)
    assert [(one.kind, one.behind_hole) for one in events if isinstance(one, Anomaly)] == [
        ("sequence-gap", True),
        ("sequence-gap", False),
    ]
    assert odd(Log(20).data(Q, 1), states) == []


def test_a_hole_in_a_transaction() -> None:
    states = ProducerStates()
    replay(Log().txn(P, 0).txn(Q, 0), states)
    states.hole()
    assert [one.is_behind_hole for one in states.open_transactions()] == [True, True]
    events = replay(Log(10).txn(P, 1).end(P, COMMIT).end(Q, ABORT), states)
    assert [(one.kind, one.offset, one.related_offset) for one in events if isinstance(one, Anomaly)] == [
        ("hole-in-transaction", 10, 0),
        ("hole-in-transaction", 12, 1),
    ]
    assert [one.first_offset for one in events if isinstance(one, CompletedTxn)] == [0, 1]


# --- any batches ------------------------------------------------------------------------------------------------------
SEQUENCES = st.sampled_from([-1, 0, 1, 2, 3, 4, 5, 6, 7, MAX_INT32 - 1, MAX_INT32])


@st.composite
def batches(draw: st.DrawFn) -> list[Batch]:
    """Batches of few producers, mostly as these would send them."""
    made: list[Batch] = []
    offset = draw(st.integers(0, 5))
    following: dict[int, tuple[int, int]] = {}
    for _ in range(draw(st.integers(0, 40))):
        producer_id = draw(st.sampled_from([-2, -1, 3, 4, 1003, 2**62]))
        epoch, sequence = following.get(producer_id, (0, 0))
        is_odd = draw(st.integers(0, 9)) == 0
        is_control = draw(st.integers(0, 3)) == 0
        count = draw(st.integers(1, 3))
        if is_odd:
            epoch, sequence = draw(st.integers(-1, 3)), draw(SEQUENCES)
        marker = None
        if is_control:
            epoch += draw(st.integers(0, 1))
            marker = draw(st.builds(Marker, st.integers(0, 2 if is_odd else 1), st.integers(0, 2)) | st.none())
            following[producer_id] = (epoch, 0) if epoch != following.get(producer_id, (0, 0))[0] else (epoch, sequence)
        else:
            following[producer_id] = epoch, (sequence + count) & MAX_INT32
        made.append(
            Batch(
                base_offset=offset,
                last_offset=offset + count - 1,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=-1 if is_control and not is_odd else sequence,
                attributes=(CONTROL if is_control else 0) | draw(st.sampled_from([TRANSACTIONAL, TRANSACTIONAL, 0])),
                max_timestamp_ms=draw(st.integers(-1, 2**40)),
                record_count=draw(st.sampled_from([0, 1, 1, 1])),
                format=draw(st.sampled_from([1, 2, 2, 2, 2, 2])),
                marker=marker,
            )
        )
        offset += draw(st.sampled_from([count, count, count + 4, -3])) if offset > 9 else count
    return made


@given(
    batches(),
    st.sampled_from(["continuous", "gaps", "unchecked"]),
    st.sampled_from(["marker-is-batch", "data-time", "marker-time"]),
    st.booleans(),
)
def test_state_by_the_book(made, sequences, style, ends_empty):
    model = Model(style, ends_empty=ends_empty)
    for batch in made:
        model.append(batch)
    states = ProducerStates(sequences=sequences)
    states.ends_empty = ends_empty
    events = states.replay(*columns_of(made))
    assert list(states.snapshot_entries(style)) == model.entries()
    assert [event for event in events if isinstance(event, CompletedTxn)] == model.completed
    found = [(one.producer_id, one.first_offset) for one in states.open_transactions()]
    assert [first for _, first in found] == [first for _, first in model.open()]
    assert set(found) == set(model.open())
    assert states.first_unstable_offset == min((first for _, first in found), default=None)


def _one_by_one(
    columns: object, markers: object, holes: object, first: int, last: int, mode: int, *arrays: object
) -> int:
    """A kernel that asks about every row: then all go the way of the odd ones."""
    if mode == constants.ANY:
        return kernels.loops.replay(columns, markers, holes, first, last, mode, *arrays)
    state = arrays[0]
    state[constants.G_ENDED] = 0
    return first


@given(batches(), st.sampled_from(["continuous", "gaps", "unchecked"]), st.sampled_from([None, 0, 3, 11]))
def test_plain_rows_are_those_of_which_nothing_is_odd(made, sequences, hole):
    """The fast way and the one that asks about each row give the same events and leave the same state."""
    outcomes = []
    made = [batch for batch in made if batch.format == 2]
    for function in (kernels.replay, _one_by_one):
        with mock.patch.object(kernels, "replay", function):
            states = ProducerStates(sequences=sequences)
            columns, markers = columns_of(made)
            split = min(hole or 0, len(made))
            events = states.replay(columns, markers, last=split)
            if hole is not None:
                states.hole()
            events += states.replay(columns, markers, first=split)
            outcomes.append((events, states.state_bytes()))
    assert outcomes[0] == outcomes[1]


@given(batches(), st.integers(0, 40), st.booleans())
def test_replay_can_be_split_and_resumed_anywhere(made, split, is_stored):
    columns, markers = columns_of(made)
    whole = ProducerStates()
    wanted = whole.replay(columns, markers)
    states = ProducerStates()
    split = min(split, len(made))
    events = states.replay(columns, markers, last=split)
    if is_stored:
        states = ProducerStates.from_state(states.state_bytes())
    events += states.replay(columns, markers, first=split)
    assert events == wanted
    assert list(states.snapshot_entries()) == list(whole.snapshot_entries())
    assert {one[:2] for one in states.open_transactions()} == {one[:2] for one in whole.open_transactions()}


@given(batches(), st.integers(0, 3))
def test_twins_leave_the_same_cells(made, mode):
    outcomes = []
    columns, markers = columns_of(made)
    for name in TWINS:
        states = ProducerStates()
        with mock.patch.object(kernels, "replay", twin(name).replay):
            events: list[CompletedTxn | Anomaly] = []
            states._mode = mode
            events += states.replay(columns, markers)
        outcomes.append((events, states._state.tolist(), states._producers.tolist(), states._slots.tolist()))
    all_agree(outcomes)


# --- from and to elsewhere --------------------------------------------------------------------------------------------
def test_a_snapshot_goes_on_where_it_was_taken() -> None:
    log = Log().txn(P, 0, 5).data(Q, 0).txn(3, 0).end(3, ABORT, epoch=1)
    states = ProducerStates()
    replay(log, states)
    loaded = ProducerStates.from_snapshot(states.snapshot_entries())
    assert list(loaded.snapshot_entries()) == list(states.snapshot_entries())
    rest = Log(log.next).txn(P, 5).end(P, ABORT).data(Q, 7).txn(3, 4, epoch=1)
    assert replay(rest, loaded) == [
        CompletedTxn(P, 0, 9, is_aborted=True, last_stable_offset=10),
        Anomaly(kind="sequence-gap", producer_id=Q, producer_epoch=0, offset=10, position=200, expected=1, actual=7),
    ]


@given(batches(), st.integers(0, 40))
def test_a_replay_of_the_last_batches_gives_a_snapshot_what_it_lacks(made, begin):
    columns, markers = columns_of(made)
    whole, last = ProducerStates(sequences="unchecked"), ProducerStates(sequences="unchecked")
    whole.replay(columns, markers)
    last.replay(columns, markers, first=min(begin, len(made)))
    loaded = ProducerStates.from_snapshot(whole.snapshot_entries())
    entries = list(loaded.snapshot_entries())
    loaded.recall(last)
    assert list(loaded.snapshot_entries()) == entries  # a snapshot from it is the same
    for entry in entries:
        known, found = whole.known(entry.producer_id), loaded.known(entry.producer_id)
        replayed = last.known(entry.producer_id)
        seen = () if replayed is None or replayed.epoch != entry.producer_epoch else replayed.recent
        if entry.has_batch:
            assert found.recent == known.recent[: max(1, len(seen))]
        else:
            assert not found.recent


@given(batches(), st.integers(0, 40), st.integers(0, 40))
def test_a_replay_of_the_last_batches_takes_nothing_from_who_knows_more(made, snapshot, begin):
    """The snapshot is older than the segment that is replayed, or there is none."""
    columns, markers = columns_of(made)
    whole, last = ProducerStates(sequences="unchecked"), ProducerStates(sequences="unchecked")
    whole.replay(columns, markers)
    first = min(begin, len(made))
    last.replay(columns, markers, first=first)
    before = ProducerStates(sequences="unchecked")
    if cut := min(snapshot, first):
        before.replay(columns, markers, last=cut)
    loaded = ProducerStates.from_snapshot(before.snapshot_entries(), sequences="unchecked")
    loaded.replay(columns, markers, first=cut)
    known = {entry.producer_id: loaded.known(entry.producer_id).recent for entry in whole.snapshot_entries()}
    loaded.recall(last)
    for producer_id, recent in known.items():
        found = loaded.known(producer_id).recent
        assert found[: len(recent)] == recent
        assert found == whole.known(producer_id).recent[: len(found)]


@pytest.mark.parametrize("data", [b"", bytes(31), bytes(32), b"\x01" + bytes(31), bytes(33)])
def test_what_is_no_state_is_refused(data: bytes) -> None:
    with pytest.raises(FieldError, match="producer state"):
        ProducerStates.from_state(data)


@given(st.binary(max_size=500) | st.integers(0, 6).map(lambda n: bytes(8 * n)), st.integers(0, 300))
def test_any_bytes_give_a_state_or_an_error(data, at):
    states = ProducerStates()
    replay(Log().txn(P, 0).data(Q, 0), states)
    good = bytes(states.state_bytes())
    for bad in (data, good[:at] + data[:8] + good[at + len(data[:8]) :]):
        try:
            loaded = ProducerStates.from_state(bad)
        except FieldError:
            continue
        replay(Log(9).txn(P, 1).end(P, COMMIT).txn(7, 0), loaded)
        assert len(list(loaded.snapshot_entries())) == loaded.count


def test_a_producer_stands_in_a_state_once() -> None:
    entry = ProducerEntry(
        producer_id=P,
        producer_epoch=0,
        last_sequence=0,
        last_offset=0,
        offset_delta=0,
        timestamp_ms=0,
        coordinator_epoch=-1,
        current_txn_first_offset=-1,
    )
    with pytest.raises(FieldError, match="twice"):
        ProducerStates.from_snapshot([entry, entry])
