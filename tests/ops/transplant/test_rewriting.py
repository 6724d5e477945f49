"""Batches, committed offsets, epochs and producer snapshots of a new cluster, from bytes whose meaning is known."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.errors import FormatError
from kafkalog_core.format.batch_writer import BatchHeader, NewRecord, encode_batch
from kafkalog_core.format.snapshot import ProducerEntry, decode_snapshot, encode_snapshot
from kafkalog_core.ops.transplant.destination import read_described
from kafkalog_core.ops.transplant.rewriting import (
    LogEdit,
    OffsetEdit,
    needs_edit,
    rewritten_log,
    with_epoch_0,
    without_ended_producers,
)
from kafkalog_core.storage.partition import read_partition

if TYPE_CHECKING:
    from kafkalog_core.storage.listing import FileInfo

KEY = b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00"
"""OffsetCommitKey version 1: group g, partition 0 of topic t."""
OLD_ID, NEW_ID = bytes(range(16)), "EBESExQVFhcYGRobHB0eHw"
VALUE_3 = b"\x00\x03" + (5).to_bytes(8, "big") + (7).to_bytes(4, "big") + b"\x00\x00" + bytes(8)
VALUE_4 = VALUE_3[:1] + b"\x04" + VALUE_3[2:14] + b"\x03md" + bytes(8) + b"\x01\x00\x10" + OLD_ID
VALUE_1 = b"\x00\x01" + (5).to_bytes(8, "big") + b"\x00\x00" + bytes(16)


def log_of(place: Path, content: bytes) -> FileInfo:
    """A partition's only log."""
    place.mkdir()
    (place / f"{0:020}.log").write_bytes(content)
    log = read_partition(str(place)).segments[0].log
    assert log is not None
    return log


def edited(log: FileInfo, edit: LogEdit) -> bytes:
    return b"".join(rewritten_log(log, edit))


def batch(offset: int, epoch: int, *values: bytes, codec: int = 0) -> bytes:
    records = [NewRecord(KEY, value, 1000) for value in values]
    return bytes(encode_batch(records, BatchHeader(base_offset=offset, leader_epoch=epoch), codec=codec))


def test_only_the_epoch_of_whole_batches_changes(tmp_path: Path) -> None:
    """Damage between batches and at the end stays as it is; -1 and 0 do too."""
    wanted = [batch(0, 0, b"a"), batch(1, -1, b"b"), b"\xee" * 100, batch(2, 0, b"c"), b"\x00" * 40]
    log = log_of(tmp_path / "t-0", b"".join([batch(0, 3, b"a"), wanted[1], wanted[2], batch(2, 9, b"c"), wanted[4]]))
    edit = LogEdit()
    assert needs_edit(log, edit, lambda size_bytes: None)
    assert (edit.batches, edit.highest) == (2, 9)
    assert edited(log, LogEdit()) == b"".join(wanted)
    other = log_of(tmp_path / "t-1", wanted[0] + wanted[1])
    assert not needs_edit(other, LogEdit(), lambda size_bytes: None)


def test_committed_offsets_lose_epoch_and_topic_id(tmp_path: Path) -> None:
    """Versions 3 and 4; older ones have no epoch. The same records give the same bytes, the checksum too."""
    log = log_of(tmp_path / "__consumer_offsets-0", batch(0, 0, VALUE_3, VALUE_4, VALUE_1))
    new_3, new_4 = (value.replace(b"\0\0\0\7", b"\xff\xff\xff\xff") for value in (VALUE_3, VALUE_4))
    new_4 = new_4.replace(OLD_ID, bytes(range(16, 32)))
    offsets = OffsetEdit({"t": NEW_ID})
    assert edited(log, LogEdit(offsets)) == batch(0, 0, new_3, new_4, VALUE_1)
    assert offsets.changed == 2
    assert edited(log, LogEdit(OffsetEdit({}))) == batch(
        0, 0, new_3, VALUE_4.replace(b"\0\0\0\7", b"\xff\xff\xff\xff"), VALUE_1
    )


def test_compressed_offsets_are_counted(tmp_path: Path) -> None:
    """They keep what they have, but for the leader epoch of their batch."""
    log = log_of(tmp_path / "__consumer_offsets-0", batch(0, 4, VALUE_3, codec=1))
    offsets = OffsetEdit({"t": NEW_ID})
    assert edited(log, LogEdit(offsets)) == batch(0, 0, VALUE_3, codec=1)
    assert (offsets.changed, offsets.compressed) == (0, 1)


@pytest.mark.parametrize("place", [0, 16, 70, 200])
def test_batches_after_damage_change_as_without_it(tmp_path: Path, place: int) -> None:
    """A bit of the first or the second batch is wrong: it stays, and the others get what they would get alone."""
    batches = [batch(0, 3, VALUE_3, VALUE_4), batch(2, 4, VALUE_3), batch(3, 5, VALUE_4)]
    wanted = [
        edited(log_of(tmp_path / f"t-{i}", each), LogEdit(OffsetEdit({"t": NEW_ID}))) for i, each in enumerate(batches)
    ]
    number, at = (0, place) if place < len(batches[0]) else (1, place - len(batches[0]))
    batches[number] = wanted[number] = bytes(b ^ (i == at) for i, b in enumerate(batches[number]))
    log = log_of(tmp_path / "__consumer_offsets-0", b"".join(batches))
    once = edited(log, LogEdit(OffsetEdit({"t": NEW_ID})))
    if place:  # the base offset is not covered by the checksum: such a batch is whole, and changes too
        assert once == b"".join(wanted)
    assert once[len(batches[0]) :] == b"".join(wanted[1:])


@given(st.data())
def test_of_any_bytes_the_size_stays(data: st.DataObject) -> None:
    """Where a log is damaged anyhow, no byte is lost or added, and a second run changes nothing."""
    content = bytearray(batch(0, 3, VALUE_3, VALUE_4) + batch(2, 0, b"x") + batch(3, 5, VALUE_4))
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.just(len(content)) | st.integers(0, len(content))) :]
    with TemporaryDirectory() as place:
        log = log_of(Path(place, "__consumer_offsets-0"), bytes(content))
        once = edited(log, LogEdit(OffsetEdit({"t": NEW_ID})))
        Path(log.path).write_bytes(once)
        assert len(once) == len(content)
        assert edited(log, LogEdit(OffsetEdit({"t": NEW_ID}))) == once


@given(st.text(alphabet=st.sampled_from("Topic: Id\tPartionReplcas,0123\nx"), max_size=200))
def test_any_text_is_read_as_described_topics(text: str) -> None:
    assert isinstance(read_described(text), dict)


@pytest.mark.parametrize("size", range(10, len(VALUE_4)))
def test_a_value_that_ends_early(tmp_path: Path, size: int) -> None:
    """No byte after the value changes."""
    log = log_of(tmp_path / "__consumer_offsets-0", batch(0, 0, VALUE_4[:size], b"next"))
    offsets = OffsetEdit({"t": NEW_ID})
    assert len(edited(log, LogEdit(offsets))) == log.size_bytes
    assert edited(log, LogEdit(offsets)).endswith(batch(0, 0, b"next")[-6:])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"0\n2\n3 10\n5 20\n", b"0\n1\n0 10\n"),
        (b"0\n1\n4 0\n", b"0\n1\n0 0\n"),
        (b"0\n1\n0 7\n", b"0\n1\n0 7\n"),
        (b"0\n0\n", b"0\n0\n"),
        (b"", b""),
    ],
)
def test_epochs(old: bytes, new: bytes) -> None:
    assert with_epoch_0(old) == new


def test_producers_of_open_transactions_stay() -> None:
    """Without their coordinator's epoch; a damaged snapshot is an error."""
    fields = {"last_sequence": 3, "last_offset": 9, "offset_delta": 1, "timestamp_ms": 5, "coordinator_epoch": 8}
    done = ProducerEntry(producer_id=1, producer_epoch=0, current_txn_first_offset=-1, **fields)
    still = ProducerEntry(producer_id=2, producer_epoch=0, current_txn_first_offset=8, **fields)
    data = encode_snapshot([done, still], order="java")
    content, ended = without_ended_producers(data, "java")
    (kept,) = decode_snapshot(content)
    assert (ended, kept.producer_id, kept.coordinator_epoch, kept.current_txn_first_offset) == (1, 2, -1, 8)
    with pytest.raises(FormatError):
        without_ended_producers(data[:-1], "java")


def test_described_topics() -> None:
    """Lines of other tools, and topics of clusters without ids, are passed over."""
    text = (
        "Topic: a\tTopicId: EBESExQVFhcYGRobHB0eHw\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: x=y\n"
        "\tTopic: a\tPartition: 0\tLeader: 3\tReplicas: 3,1\tIsr: 3,1\tElr: \tLastKnownElr: \n"
        "Topic: old\tPartitionCount: 1\n[main] INFO nothing: here\n"
    )
    (topic,) = read_described(text).items()
    assert topic[0] == "a"
    assert topic[1].topic_id == NEW_ID
    assert topic[1].replicas == {0: [3, 1]}
