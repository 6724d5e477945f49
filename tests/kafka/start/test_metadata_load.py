"""Loads of the cluster metadata log by release: what ends them, by records of real logs and by small ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.kafka.rules.metadata_rules import can_downgrade, metadata_rules
from kafkalog_core.kafka.rules.releases import KNOWN, parse_release
from kafkalog_core.kafka.sim.start.metadata_load import NO_RECORD, SnapshotPlace, compare_snapshots, load_metadata
from kafkalog_core.topics.metadata_records import encode_record
from tests.support import build
from tests.support.clusters import (
    TOPIC,
    config_record,
    partition_change_record,
    partition_record,
    registered_record,
    removed_record,
    topic_record,
)
from tests.support.clusters import write_metadata_log as write

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.kafka.sim.start.metadata_load import MetadataLoad


def level(name: str, number: int) -> bytes:
    """A FeatureLevelRecord."""
    return b"\1\x0c\0" + bytes([len(name) + 1]) + name.encode() + number.to_bytes(2, "big") + b"\0"


def loads(path: Path, *releases: str) -> list[MetadataLoad]:
    """What releases make of a log."""
    found = load_metadata(str(path), [parse_release(each) for each in releases])
    return [each for each in found if each is not None]


def stops(path: Path, *releases: str) -> list[int | None]:
    """The offsets at which they stop."""
    return [None if each.stop is None else each.stop.offset for each in loads(path, *releases)]


def snapshot(log: Path, offset: int, epoch: int, *values: bytes, suffix: str = ".checkpoint") -> Path:
    """A snapshot of some records."""
    records = [build.Record(offset=n, timestamp_ms=1, key=None, value=value) for n, value in enumerate(values)]
    path = log / f"{offset:020}-{epoch:010}{suffix}"
    path.write_bytes(build.batch_v2(records) if records else b"")
    return path


def test_the_rollback_from_4_4_to_4_3(tmp_path: Path) -> None:
    """Seen of 4.3.1 on the disk of 4.4.0: offset, level and range are in the line with which it ends."""
    log = write(tmp_path, topic_record("t"), level("metadata.version", 33))
    refused, taken = loads(log, "4.3.1", "4.4.0")
    assert refused.stop is not None
    assert (refused.stop.offset, refused.stop.feature) == (1, ("metadata.version", 33, 7, 30))
    assert refused.stop.reason == "metadata.version has level 33, and the release supports 7 to 30"
    assert taken.stop is None


@pytest.mark.parametrize(
    "known", [each for each in KNOWN if metadata_rules(each.release)], ids=lambda each: str(each[0])
)
def test_each_release_takes_its_own_levels_and_none_above(
    tmp_path: Path, known: tuple[object, tuple[int, int]]
) -> None:
    release, (first, last) = str(known[0]), known[1]
    log = write(tmp_path, level("metadata.version", last), level("metadata.version", first))
    assert stops(log, release) == [None]
    assert stops(write(tmp_path / "above", level("metadata.version", last + 1)), release) == [0]


def test_4_0_takes_no_level_of_the_time_of_zookeeper(tmp_path: Path) -> None:
    assert stops(write(tmp_path, level("metadata.version", 6)), "3.9", "4.0") == [None, 0]


@pytest.mark.parametrize(
    ("name", "number", "refused", "taken"),
    [
        ("kraft.version", 1, "3.8", "3.9"),
        ("transaction.version", 2, "3.9", "4.0"),
        ("group.version", 1, "3.9", "4.0"),
        ("streams.version", 1, "4.1", "4.2"),
        ("share.version", 1, "4.0", "4.1"),
        ("share.version", 2, "4.3", "4.4"),
        ("eligible.leader.replicas.version", 1, "3.9", "4.0"),
    ],
)
def test_levels_of_other_features(tmp_path: Path, name: str, number: int, refused: str, taken: str) -> None:
    log = write(tmp_path, level(name, 0), level(name, number))
    assert stops(log, refused, taken) == [1, None]
    assert loads(log, refused)[0].stop.feature[:2] == (name, number)  # type: ignore[union-attr,index]


def test_a_record_that_is_not_known_comes_before_a_level_since_3_8(tmp_path: Path) -> None:
    """Seen of 4.2.2 on the disk of 4.4.0: it ends at the registration, and not at the level before it."""
    registered = bytearray(registered_record(1))
    registered[2] = 4
    log = write(tmp_path, level("metadata.version", 33), bytes(registered))
    found = loads(log, "4.2", "3.7", "4.3")
    assert [each.stop.offset for each in found if each.stop] == [1, 0, 0]
    assert found[0].stop is not None
    assert found[0].stop.reason == "RegisterBrokerRecord has version 4, and the last known one is 3"


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (b"\1\x1d\0\0", "records of type 29 (UnregisterControllerRecord) are unknown"),
        (b"\1\x63\0\0", "records of type 99 (unknown) are unknown"),
        (b"\0\2\0\0", "the frame version 0 is unknown"),
        (b"\1\2\0\x09ab", "TopicRecord does not decode"),
    ],
)
def test_records_that_no_release_of_4_3_decodes(tmp_path: Path, value: bytes, what: str) -> None:
    stop = loads(write(tmp_path, topic_record("t"), value), "4.3")[0].stop
    assert stop is not None
    assert stop.offset == 1
    assert stop.reason.startswith(what)


def test_a_setting_that_a_later_release_does_not_accept(tmp_path: Path) -> None:
    """Seen of 4.2.2, 4.3.1 and 4.4.0 on the disk of 3.9.2: Invalid value 3000 for configuration segment.bytes."""
    small = config_record(TOPIC, "t", "segment.bytes", "3000")
    log = write(tmp_path, topic_record("t"), small)
    found = loads(log, "3.9.2", "4.0", "4.1")
    assert [each.stop is None for each in found] == [True, True, False]
    assert found[2].stop is not None
    assert found[2].stop.setting == ("t", "segment.bytes")
    assert found[2].stop.offset == 1
    unknown = config_record(TOPIC, "t", "some.thing", "x")
    larger = config_record(TOPIC, "t", "segment.bytes", "1048576")
    assert stops(write(tmp_path / "altered", topic_record("t"), small, larger, unknown), "4.1") == [None]
    assert stops(write(tmp_path / "removed", topic_record("t"), small, removed_record()), "4.1") == [None]


def test_quorum_state_of_a_later_version(tmp_path: Path) -> None:
    log = write(tmp_path, topic_record("t"))
    (log / "quorum-state").write_text(json.dumps({"leaderId": 1, "data_version": 1}))
    before, after = loads(log, "3.7", "3.8")
    assert before.stop is not None
    assert before.stop.path.endswith("/quorum-state")
    assert "data_version is 1" in before.stop.reason
    assert after.stop is None


def test_bootstrap_checkpoint_up_to_3_9(tmp_path: Path) -> None:
    """Seen of 3.9.2 on the disks of 4.2.2 and 4.3.1: No MetadataVersion with feature level 30."""
    log = write(tmp_path, topic_record("t"))
    batch = build.batch_v2([build.Record(offset=0, timestamp_ms=1, key=None, value=level("metadata.version", 30))])
    (tmp_path / "bootstrap.checkpoint").write_bytes(batch)
    before, after = loads(log, "3.9.2", "4.0")
    assert before.stop is not None
    assert before.stop.path == f"{tmp_path}/bootstrap.checkpoint"
    assert after.stop is None


def test_a_snapshot_is_read_first_and_the_log_from_its_offset_on(tmp_path: Path) -> None:
    log = write(tmp_path, level("metadata.version", 33), topic_record("t"), topic_record("u", 2))
    snapshot(log, 2, 0, level("metadata.version", 30), topic_record("t"))
    assert stops(log, "4.3") == [None], "the downgraded level is what counts"
    snapshot(log, 3, 0, level("metadata.version", 33))
    assert loads(log, "4.3")[0].stop.path.endswith("0000000003-0000000000.checkpoint")  # type: ignore[union-attr]


def test_the_snapshot_of_the_formatting_is_not_replayed(tmp_path: Path) -> None:
    log = write(tmp_path, topic_record("t"))
    snapshot(log, 0, 0, level("metadata.version", 33))
    assert stops(log, "4.3") == [None]


def test_a_log_without_its_snapshot_and_unfinished_ones(tmp_path: Path) -> None:
    log = write(tmp_path, topic_record("t"), topic_record("u", 2))
    (log / f"{0:020}.log").rename(log / f"{7:020}.log")
    part = snapshot(log, 9, 0, suffix="-123.checkpoint.part")
    found = loads(log, "4.3")[0]
    assert found.stop is not None
    assert found.stop.path == str(log)
    assert "starts at offset 7" in found.stop.reason
    assert found.deleted == (str(part),)


def test_a_snapshot_without_its_log_replaces_the_log(tmp_path: Path) -> None:
    log = write(tmp_path, level("metadata.version", 33))
    path = snapshot(log, 50, 3, topic_record("t"))
    found = loads(log, "4.3")[0]
    assert (found.stop, found.replaced_by) == (None, str(path))


def test_offsets_that_the_log_does_not_have(tmp_path: Path) -> None:
    log = write(tmp_path, topic_record("t"), topic_record("u", 2))
    batch = build.batch_v2([build.Record(offset=9, timestamp_ms=1, key=None, value=topic_record("w", 3))])
    (log / f"{9:020}.log").write_bytes(batch)
    assert loads(log, "4.3")[0].missing == ((2, 8),)


def test_a_gap_ends_the_load_where_a_record_is_about_what_is_missing(tmp_path: Path) -> None:
    """Seen of 4.3.1: without a registration it ends at the change after it; without a NoOpRecord it starts."""
    fence = b"\1\7\0" + (1).to_bytes(4, "big") + bytes(8) + b"\0"
    assert stops(write(tmp_path / "whole", registered_record(1), fence), "4.3") == [None]
    found = loads(write(tmp_path / "gap", topic_record("t"), fence), "4.3")[0]
    assert found.stop is not None
    assert found.stop.offset == 1
    assert found.stop.reason == "FenceBrokerRecord is about broker 1, which no record before it registers"
    change = partition_change_record(0, (1,), 1)
    assert stops(write(tmp_path / "a", topic_record("t"), partition_record(0, (1,)), change), "4.3") == [None]
    assert stops(write(tmp_path / "b", topic_record("t"), change), "4.3") == [1]
    assert stops(write(tmp_path / "c", partition_record(0, (1,))), "4.3") == [0]
    assert stops(write(tmp_path / "d", removed_record()), "4.3") == [0]
    assert stops(write(tmp_path / "e", fence, level("metadata.version", 33)), "4.3") == [0]


def test_only_what_recovery_keeps_is_loaded(tmp_path: Path) -> None:
    log = write(tmp_path, topic_record("t"), topic_record("u", 2), level("metadata.version", 33))
    assert stops(log, "4.3") == [2]
    segment = log / f"{0:020}.log"
    data = segment.read_bytes()
    at = data.index(topic_record("u", 2))
    segment.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    assert stops(log, "4.3") == [None]


def test_a_record_whose_offset_goes_back_is_replayed_where_it_is(tmp_path: Path) -> None:
    """Seen of 4.3.1: RegisterBrokerRecord at offset 8 after 12 counts for the BrokerRegistrationChangeRecord at 16."""
    fence = b"\1\7\0" + (1).to_bytes(4, "big") + bytes(8) + b"\0"
    log = write(tmp_path, topic_record("t"), registered_record(1), fence)
    segment = log / f"{0:020}.log"
    data = segment.read_bytes()
    size = 12 + int.from_bytes(data[8:12], "big")
    segment.write_bytes(data[:size] + (0).to_bytes(8, "big") + data[size + 8 :])
    assert stops(log, "4.3") == [None]


def test_releases_without_kraft_are_not_followed(tmp_path: Path) -> None:
    log = write(tmp_path, topic_record("t"))
    releases = [parse_release(each) for each in ("2.7", "2.8", "3.2", "3.3")]
    assert [each is None for each in load_metadata(str(log), releases)] == [True, True, True, False]


def test_the_newest_snapshot_counts_and_older_ones_than_the_start_do_not() -> None:
    places = [SnapshotPlace(1, 5, "old"), SnapshotPlace(2, 20, "new")]
    assert compare_snapshots(places, start=10, end=30, last_epoch=2) == (False, places[1], False)
    assert compare_snapshots(places[:1], start=10, end=30, last_epoch=2).is_missing


@pytest.mark.parametrize(
    ("high", "low", "is_possible"), [(33, 30, False), (31, 30, True), (30, 29, False), (29, 27, True), (21, 20, True)]
)
def test_a_downgrade_over_a_level_with_new_records_is_refused(high: int, low: int, *, is_possible: bool) -> None:
    """Seen of 4.4.0 (33 to 30 refused) and 4.2.2 (29 to 27 done)."""
    assert can_downgrade(high, low) is is_possible


def test_a_batch_without_records_ends_the_load_of_every_release(tmp_path: Path) -> None:
    """Seen of 4.3.1 (`tests/integration/test_excise.py`); those before have the same `Batch.data`."""
    log = write(tmp_path, topic_record("t"))
    (path,) = log.glob("*.log")
    unknown = build.batch_v2([build.Record(offset=4, timestamp_ms=1, key=None, value=b"\1\x7f\0")])
    path.write_bytes(path.read_bytes() + build.empty_batch(1, 3) + unknown)
    found = loads(log, "3.3", "3.9", "4.3")
    assert [each.stop.offset for each in found if each.stop] == [1, 1, 1]
    assert {each.stop.reason for each in found if each.stop} == {NO_RECORD}
    assert [each.missing for each in found] == [()] * 3


def test_a_batch_without_records_before_the_snapshot_is_not_read(tmp_path: Path) -> None:
    log = write(tmp_path, topic_record("t"))
    (path,) = log.glob("*.log")
    path.write_bytes(path.read_bytes() + build.empty_batch(1, 3))
    snapshot(log, 4, 0, topic_record("t"))
    assert stops(log, "3.3", "4.3") == [None, None]


def test_a_record_about_another_registration_of_a_broker(tmp_path: Path) -> None:
    """Seen of 4.3.1: the loader ends the process, as the given epoch, 999, did not match the current one."""
    fence = [encode_record("FenceBrokerRecord", 0, {"id": 1, "epoch": epoch}) for epoch in (0, 999)]
    log = write(tmp_path, registered_record(1), *fence)
    (stop,) = (each.stop for each in loads(log, "4.3"))
    assert stop is not None
    assert stop.offset == 2
    assert stop.reason.startswith(
        "FenceBrokerRecord is about broker 1 with epoch 999, but its registration has epoch 0"
    )
