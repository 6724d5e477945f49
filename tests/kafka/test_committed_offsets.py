"""Committed offsets read from disks are those that the live clusters reported last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.kafka.sim.group_states import read_groups
from tests.support.build import ABORT, COMMIT, Record, batch_v2
from tests.support.committed import CommitLog as Log
from tests.support.committed import commit_key, commit_value
from tests.support.corpus import archives

if TYPE_CHECKING:
    from tests.support.corpus.tree import Tree

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
STATE = "cluster_state.json"


def states() -> list[str]:
    """The files in which a case has what the admin client saw last."""
    return sorted(name for name in archives.contents(archives.source()).files if name.endswith(STATE))


@pytest.mark.corpus
@pytest.mark.parametrize("name", states())
def test_offsets_are_those_that_the_live_cluster_reported(tree: Tree, name: str) -> None:
    path = tree.corpus / name
    reported: dict[str, Any] = json.loads(path.read_text())["groups"]
    found, problems = read_groups(sorted(map(str, path.parent.glob("logdir/__consumer_offsets-*"))))
    assert not problems
    for group, state in reported.items():
        if isinstance(state, str) or state.get("type") == "Share" or not isinstance(state["offsets"], list):
            continue  # the admin client of that release could not describe it, or it has no committed offsets
        expected = {
            (each["topic"], each["partition"]): (each["offset"], each.get("leader_epoch", -1), each["metadata"])
            for each in state["offsets"]
            if "offset" in each
        }
        offsets = found.offsets.offsets.get(group, {})
        assert {place: (each.offset, each.leader_epoch, each.metadata) for place, each in offsets.items()} == expected
        if state["state"] == "Stable":
            assert found.protocol_types()[group] == "consumer"


def test_offsets_of_the_demo() -> None:
    """What its consumer committed: `tools/make_demo.py`."""
    found, problems = read_groups([str(FIXTURES / "demo" / "__consumer_offsets-0")])
    assert not problems
    offsets = {place: each.offset for place, each in found.offsets.offsets["billing"].items()}
    assert offsets == {("orders", 0): 17, ("orders", 1): 23}
    assert found.classic["billing"].protocol_type == "consumer"
    assert found.classic["billing"].generation == 2


# --- built logs -------------------------------------------------------------------------------------------------------
def test_the_last_record_counts_and_a_tombstone_deletes(tmp_path: Path) -> None:
    log = Log(tmp_path).commit(3).commit(9).commit(7)
    assert log.offset() == 7
    assert log.commit(None).offset() is None
    assert log.commit(1).offset() == 1


def test_a_transaction_counts_once_it_is_committed(tmp_path: Path) -> None:
    log = Log(tmp_path).commit(3).commit(9, producer=1)
    assert log.offset() == 3
    assert read_groups([str(log.path)])[0].offsets.pending_of("g") == {("t", 0)}
    log.commit(5, producer=2).end(ABORT, 2)
    assert log.offset() == 3
    assert log.end(COMMIT, 1).offset() == 9
    assert read_groups([str(log.path)])[0].offsets.pending_of("g") == set()


def test_a_transaction_can_delete(tmp_path: Path) -> None:
    assert Log(tmp_path).commit(3).commit(None, producer=1).end(COMMIT, 1).offset() is None


def test_offsets_as_they_were_at_a_time(tmp_path: Path) -> None:
    log = Log(tmp_path).commit(3, time_ms=10).commit(9, time_ms=20)
    assert [log.offset(until_ms=time_ms) for time_ms in (9, 10, 19, 20)] == [None, 3, 3, 9]


def test_damage_and_unknown_records_are_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    log = Log(tmp_path).commit(3)
    damaged = bytearray(
        batch_v2([Record(offset=1, key=commit_key("g", "t", 0), value=commit_value(4), timestamp_ms=1)])
    )
    damaged[70] ^= 0xFF
    log.add(bytes(damaged))
    for number, (a_key, a_value) in enumerate(
        [
            (b"\0\x63", b""),
            (b"\0", b""),
            (commit_key("h", "t", 0), b"\0\3\0"),
            (commit_key("h", "t", 0)[:-1], commit_value(1)),
            (None, b"x"),
        ]
    ):
        log.add(batch_v2([Record(offset=2 + number, key=a_key, value=a_value, timestamp_ms=1)]))
    log.commit(8)
    found, problems = read_groups([str(log.path), str(tmp_path / "gone-0")])
    assert log.offset() == 8
    assert list(found.offsets.offsets) == ["g"]
    assert len(problems) == 6
    assert "crc-mismatch" in problems[0]
    assert any("a key of version 99" in problem for problem in problems)
    assert "gone-0" in problems[-1]
