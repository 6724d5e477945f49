"""Committed offsets read from disks are those that the live clusters reported last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.ops.reading.group_offsets import read_group_offsets
from tests.support.build import ABORT, COMMIT, Record, batch_v2, txn_marker
from tests.support.corpus import archives

if TYPE_CHECKING:
    from tests.support.corpus.tree import Tree

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
STATE = "cluster_state.json"


def states() -> list[str]:
    """The files in which a case has what the admin client saw last."""
    return sorted(name for name in archives.contents(archives.source()).files if name.endswith(STATE))


@pytest.mark.corpus
@pytest.mark.parametrize("name", states())
def test_offsets_are_those_that_the_live_cluster_reported(tree: Tree, name: str) -> None:
    path = tree.corpus / name
    reported: dict[str, Any] = json.loads(path.read_text())["groups"]
    found, problems = read_group_offsets(sorted(map(str, path.parent.glob("logdir/__consumer_offsets-*"))))
    assert not problems
    for group, state in reported.items():
        if isinstance(state, str) or state.get("type") == "Share" or not isinstance(state["offsets"], list):
            continue  # the admin client of that release could not describe it, or it has no committed offsets
        expected = {
            (each["topic"], each["partition"]): (each["offset"], each.get("leader_epoch", -1), each["metadata"])
            for each in state["offsets"]
            if "offset" in each
        }
        offsets = found.offsets.get(group, {})
        assert {place: (each.offset, each.leader_epoch, each.metadata) for place, each in offsets.items()} == expected
        if state["state"] == "Stable":
            assert found.names()[group] == "consumer"


def test_offsets_of_the_demo() -> None:
    """What its consumer committed: `tools/make_demo.py`."""
    found, problems = read_group_offsets([str(FIXTURES / "demo" / "__consumer_offsets-0")])
    assert not problems
    offsets = {place: each.offset for place, each in found.offsets["billing"].items()}
    assert offsets == {("orders", 0): 17, ("orders", 1): 23}
    assert found.groups["billing"].protocol_type == "consumer"
    assert found.groups["billing"].generation == 2


# --- built logs -------------------------------------------------------------------------------------------------------
def key(group: str, topic: str, partition: int) -> bytes:
    texts = b"".join(len(each).to_bytes(2, "big") + each.encode() for each in (group, topic))
    return b"\0\1" + texts + partition.to_bytes(4, "big")


def value(offset: int, metadata: str = "", timestamp_ms: int = 5) -> bytes:
    text = len(metadata).to_bytes(2, "big") + metadata.encode()
    return b"\0\3" + offset.to_bytes(8, "big") + b"\xff" * 4 + text + timestamp_ms.to_bytes(8, "big")


class Log:
    """A partition of `__consumer_offsets` that a test writes."""

    def __init__(self, place: Path) -> None:
        self.path = place / "__consumer_offsets-0"
        self.path.mkdir()
        self._data = b""
        self._next = 0

    def commit(self, offset: int | None, *, group: str = "g", producer: int | None = None, time_ms: int = 1) -> Log:
        record = Record(
            offset=self._next,
            key=key(group, "t", 0),
            value=None if offset is None else value(offset),
            timestamp_ms=time_ms,
        )
        options: dict[str, Any] = {}
        if producer is not None:
            options = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        return self.add(batch_v2([record], **options))

    def end(self, kind: int, producer: int) -> Log:
        return self.add(txn_marker(kind, offset=self._next, producer_id=producer))

    def add(self, data: bytes) -> Log:
        self._data += data
        self._next += 1
        (self.path / f"{0:020}.log").write_bytes(self._data)
        return self

    def offset(self, **options: Any) -> int | None:
        found, _ = read_group_offsets([str(self.path)], **options)
        committed = found.offsets.get("g", {}).get(("t", 0))
        return None if committed is None else committed.offset


def test_the_last_record_counts_and_a_tombstone_deletes(tmp_path: Path) -> None:
    log = Log(tmp_path).commit(3).commit(9).commit(7)
    assert log.offset() == 7
    assert log.commit(None).offset() is None
    assert log.commit(1).offset() == 1


def test_a_transaction_counts_once_it_is_committed(tmp_path: Path) -> None:
    log = Log(tmp_path).commit(3).commit(9, producer=1)
    assert log.offset() == 3
    assert read_group_offsets([str(log.path)])[0].pending_of("g") == {("t", 0)}
    log.commit(5, producer=2).end(ABORT, 2)
    assert log.offset() == 3
    assert log.end(COMMIT, 1).offset() == 9
    assert read_group_offsets([str(log.path)])[0].pending_of("g") == set()


def test_a_transaction_can_delete(tmp_path: Path) -> None:
    assert Log(tmp_path).commit(3).commit(None, producer=1).end(COMMIT, 1).offset() is None


def test_offsets_as_they_were_at_a_time(tmp_path: Path) -> None:
    log = Log(tmp_path).commit(3, time_ms=10).commit(9, time_ms=20)
    assert [log.offset(until_ms=time_ms) for time_ms in (9, 10, 19, 20)] == [None, 3, 3, 9]


def test_damage_and_unknown_records_are_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    log = Log(tmp_path).commit(3)
    damaged = bytearray(batch_v2([Record(offset=1, key=key("g", "t", 0), value=value(4), timestamp_ms=1)]))
    damaged[70] ^= 0xFF
    log.add(bytes(damaged))
    for number, (a_key, a_value) in enumerate(
        [(b"\0\x63", b""), (b"\0", b""), (key("h", "t", 0), b"\0\3\0"), (key("h", "t", 0)[:-1], value(1)), (None, b"x")]
    ):
        log.add(batch_v2([Record(offset=2 + number, key=a_key, value=a_value, timestamp_ms=1)]))
    log.commit(8)
    found, problems = read_group_offsets([str(log.path), str(tmp_path / "gone-0")])
    assert log.offset() == 8
    assert list(found.offsets) == ["g"]
    assert len(problems) == 6
    assert "crc-mismatch" in problems[0]
    assert any("a key of version 99" in problem for problem in problems)
    assert "gone-0" in problems[-1]
