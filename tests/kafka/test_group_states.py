"""The state of groups: what parts give of a log decides the same state as all of its records."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.kafka.sim import group_states
from kafkalog_core.kafka.sim.group_states import (
    GroupRecords,
    Moment,
    group_history,
    joined,
    parts_of,
    read_part,
    replay,
)
from kafkalog_core.kafka.sim.logfiles import unit_of_partition
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import ScanOptions
from kafkalog_core.topics.group_states import GroupStates, group_bytes
from kafkalog_core.topics.modern_group_records import CONSUMER_RECORDS, CurrentAssignment, MemberSubscription
from tests.support.build import ABORT, COMMIT
from tests.support.groups import GroupLog, classic, member

if TYPE_CHECKING:
    import pytest

GROUPS = ("a", "b", "é")
OPTIONS = ScanOptions(max_batch_bytes=MAX_BATCH_BYTES)


def read(path: Path, moment: Moment | None = None, *names: str) -> GroupRecords:
    """What the parts of a partition give."""
    groups = tuple(group_bytes(name) for name in names) or None
    parts = parts_of(unit_of_partition(read_partition(str(path)), None).files, OPTIONS)
    return joined(read_part(part, moment or Moment(), groups, MAX_BATCH_BYTES, lambda _: None) for part in parts)


def full(path: Path, moment: Moment | None = None) -> GroupStates:
    """The state after all records, one after the other."""
    states = GroupStates()
    groups = tuple(group_bytes(name) for name in GROUPS)
    parts = parts_of(unit_of_partition(read_partition(str(path)), None).files, OPTIONS)
    for some in group_history(parts, moment or Moment(), groups, MAX_BATCH_BYTES, lambda _: None):
        for record in some.ordered:
            replay(states, record)
    return states


def facts(states: GroupStates) -> dict[str, Any]:
    """What people see of a state."""
    pending = {producer: offsets for producer, offsets in states.offsets.pending.items() if offsets}
    return {
        "offsets": states.offsets.offsets,
        "pending": pending,
        "groups": {name: states.describe(name) for name in states.names()},
    }


_GROUP = st.sampled_from(GROUPS)
_STEP = st.one_of(
    st.tuples(st.just("commit"), _GROUP, st.integers(0, 1), st.one_of(st.none(), st.integers(0, 99))),
    st.tuples(st.just("pending"), _GROUP, st.integers(0, 1), st.integers(0, 2)),
    st.tuples(st.just("end"), st.integers(0, 2), st.sampled_from((COMMIT, ABORT))),
    st.tuples(st.just("group"), _GROUP, st.one_of(st.none(), st.integers(0, 2))),
    st.tuples(st.just("consumer"), _GROUP, st.booleans()),
)


def write(place: Path, steps: list[tuple[Any, ...]]) -> Path:
    """Write a log of these steps."""
    log = GroupLog(place)
    for number, (kind, *values) in enumerate(steps):
        if kind == "commit":
            group, partition, offset = values
            log.commit(offset, group=group, partition=partition, time_ms=number)
        elif kind == "pending":
            group, partition, producer = values
            log.commit(number, group=group, partition=partition, producer=producer, time_ms=number)
        elif kind == "end":
            log.end(values[1], values[0])
        elif kind == "group":
            group, members = values
            value = None if members is None else classic(*(member(f"m{each}", t=[each]) for each in range(members)))
            log.group(group, value, time_ms=number)
        else:
            group, is_there = values
            for key, value in consumer_group(group, is_there=is_there):
                log.record(key, value, time_ms=number)
    return log.path


def consumer_group(group: str, *, is_there: bool) -> list[tuple[bytes, bytes | None]]:
    """The records of a consumer group with a member, or its tombstones in the order of a broker."""
    records = CONSUMER_RECORDS
    subscription = MemberSubscription(client_id="c", client_host="h", topics=frozenset({"t"}))
    current = CurrentAssignment(epoch=1, previous_epoch=0, state=0, assigned={b"i" * 16: (0,)}, revoking={})
    if is_there:
        return [
            records.subscription(group, "m", subscription),
            records.epoch(group, 1),
            records.target(group, "m", {b"i" * 16: (0,)}),
            records.target_epoch(group, 1),
            records.current(group, "m", current),
        ]
    return [
        records.current(group, "m", None),
        records.target(group, "m", None),
        records.subscription(group, "m", None),
        records.target_epoch(group, None),
        records.epoch(group, None),
    ]


@given(st.lists(_STEP, min_size=1, max_size=30))
def test_parts_decide_the_state_of_all_records(steps: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = write(Path(place), steps)
        expected = facts(full(path))
        assert facts(group_states.replayed(read(path))) == expected
        assert facts(group_states.replayed(read(path, None, *GROUPS))) == expected
        for name in GROUPS:
            states = group_states.replayed(read(path, None, name))
            assert states.describe(name) == full(path).describe(name)


@given(st.lists(_STEP, min_size=1, max_size=30), st.integers(0, 30))
def test_a_moment_is_the_state_of_the_records_until_then(steps: list[tuple[Any, ...]], end: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = write(Path(place), steps)
        moment = Moment(end_offset=end)
        assert facts(group_states.replayed(read(path, moment))) == facts(full(path, moment))


def test_small_parts_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = GroupLog(tmp_path)
    for number in range(200):
        log.commit(number, group=GROUPS[number % 3], partition=number % 7, time_ms=number)
        if not number % 10:
            log.commit(None, group="a", partition=number % 7).commit(number, producer=1, group="b")
            log.end(COMMIT, 1)
    expected = facts(full(log.path))
    for size in (300, 5000):
        monkeypatch.setattr(group_states, "_PART_BYTES", size)
        assert facts(group_states.replayed(read(log.path))) == expected


def test_a_group_without_offsets_exists_until_its_own_tombstone(tmp_path: Path) -> None:
    log = GroupLog(tmp_path).commit(1).commit(None)
    states = group_states.replayed(read(log.path))
    assert states.names() == ["g"]
    assert states.describe("g").state == "Empty"
    log.group("g", None)
    states = group_states.replayed(read(log.path))
    assert states.names() == []
    assert states.describe("g").state == "Dead"
    assert states.deleted == {"g"}


def test_a_tombstone_that_a_later_commit_replaces_still_deletes_what_is_pending(tmp_path: Path) -> None:
    log = GroupLog(tmp_path).commit(1, producer=7).commit(None).commit(5)
    assert not group_states.replayed(read(log.path)).offsets.pending_of("g")


_FIELD = st.one_of(st.none(), st.binary(max_size=40))


@given(st.lists(st.tuples(st.integers(0, 25), _FIELD, _FIELD, st.booleans()), max_size=12))
def test_garbage_is_counted_and_never_raises(records: list[tuple[int, bytes | None, bytes | None, bool]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        log = GroupLog(Path(place)).commit(3)
        for number, tail, value, is_whole in records:
            key = None if tail is None else number.to_bytes(2, "big") + tail if is_whole else tail
            log.record(key, value)
        states = group_states.replayed(read(log.path))
        assert [states.describe(name).name for name in states.names()] == states.names()
        assert group_states.replayed(read(log.path, None, "g")).offsets.offsets.keys() <= {"g"}


def test_damage_is_a_problem_and_the_rest_is_read(tmp_path: Path) -> None:
    log = GroupLog(tmp_path)
    for number in range(9):
        log.commit(number, partition=number)
    file = log.path / f"{0:020}.log"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    found = read(log.path)
    assert len(found.problems) == 1
    assert "crc" in found.problems[0]
    assert found.newest.count == 8
