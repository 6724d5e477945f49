"""The reader of the metadata log: from which snapshot, up to which moment, and what damage leaves."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.kafka.sim.metadata_log import Until, read_file_image, read_image
from kafkalog_core.topics.metadata_records import encode_record
from tests.support import build
from tests.support.clusters import TOPIC, config_record, partition_change_record, partition_record, topic_record

DEMO: Final = Path(__file__).parents[2] / "fixtures" / "demo" / "__cluster_metadata-0"
FIRST, SNAPSHOT = f"{0:020}.log", f"{0:020}-{0:010}.checkpoint"
TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
HEADER, FOOTER = b"\0\0\0\3", b"\0\0\0\4"


def feature(name: str, level: int) -> bytes:
    """A FeatureLevelRecord."""
    return encode_record("FeatureLevelRecord", 0, {"name": name, "feature_level": level})


def write(log: Path, *values: bytes, first: int = 0, epoch: int = 1) -> Path:
    """A segment with a batch for each value, a second apart from each other."""
    log.mkdir(parents=True, exist_ok=True)
    batches = [
        build.batch_v2(
            [build.Record(offset=offset, timestamp_ms=offset * 1000, key=None, value=value)], leader_epoch=epoch
        )
        for offset, value in enumerate(values, first)
    ]
    (log / f"{first:020}.log").write_bytes(b"".join(batches))
    return log


def snapshot(log: Path, offset: int, *values: bytes, last_ms: int = 0, is_whole: bool = True, epoch: int = 1) -> Path:
    """A snapshot with its header and footer."""
    log.mkdir(parents=True, exist_ok=True)
    header = b"\0\0" + last_ms.to_bytes(8, "big") + b"\0"
    parts = [build.batch_v2([build.Record(offset=0, timestamp_ms=0, key=HEADER, value=header)], is_control=True)]
    parts += [
        build.batch_v2([build.Record(offset=number, timestamp_ms=0, key=None, value=value)])
        for number, value in enumerate(values, 1)
    ]
    if is_whole:
        footer = [build.Record(offset=len(values) + 1, timestamp_ms=0, key=FOOTER, value=b"\0\0\0")]
        parts.append(build.batch_v2(footer, is_control=True))
    path = log / f"{offset:020}-{epoch:010}.checkpoint"
    path.write_bytes(b"".join(parts))
    return path


def test_the_newest_snapshot_and_the_log_from_its_offset_on(tmp_path: Path) -> None:
    """Records before that offset are not replayed again: each election raises the leader epoch."""
    log = write(
        tmp_path / "log",
        topic_record("t"),
        partition_record(0, (1, 2)),
        partition_change_record(0, (2,), 2),
        partition_change_record(0, (1,), 1),
    )
    whole = read_image(str(log))
    assert (whole.base_offset, whole.end_offset, whole.end_epoch, whole.records) == (0, 4, 1, 4)
    assert whole.last_ms == 3000
    snapshot(log, 3, topic_record("t"), partition_record(0, (1, 2)), partition_change_record(0, (2,), 2))
    reading = read_image(str(log))
    assert reading.is_whole
    assert reading.base_offset == 3
    assert reading.image == whole.image
    state = reading.image.partition(TOPIC_ID, 0)
    assert state is not None
    assert (state.leader, state.leader_epoch) == (1, 2)
    assert read_image(str(log), is_oldest=True).snapshot is None, "the log has everything"


@pytest.mark.parametrize(
    ("until", "value"),
    [
        (Until(offset=0), None),
        (Until(offset=2), "2"),
        (Until(offset=99), "3"),
        (Until(time_ms=999), None),
        (Until(time_ms=1000), "1"),
        (Until(time_ms=2999), "2"),
    ],
)
def test_a_moment(tmp_path: Path, until: Until, value: str | None) -> None:
    configs = [config_record(TOPIC, "t", "retention.ms", str(number)) for number in (1, 2, 3)]
    log = write(tmp_path / "log", topic_record("t"), *configs)
    snapshot(log, 4, topic_record("t"), configs[2], last_ms=3000)
    assert read_image(str(log), until=until).image.configs_of(TOPIC, "t").get("retention.ms") == value


def test_a_moment_before_all_that_is_left(tmp_path: Path) -> None:
    log = write(tmp_path / "log", topic_record("u", 2), first=7)
    snapshot(log, 7, topic_record("t"), last_ms=6000)
    reading = read_image(str(log), until=Until(offset=3), stops_at_damage=True)
    assert not reading.is_whole
    assert reading.image.topics == {}
    assert reading.damage[0].detail == "offsets 0 to 6 are missing"
    assert read_image(str(log)).is_whole
    assert sorted(read_image(str(log)).image.topic_ids) == ["t", "u"]


def test_a_damaged_snapshot_is_not_the_only_way_to_an_image(tmp_path: Path) -> None:
    log = write(tmp_path / "log", topic_record("t"), topic_record("u", 2), topic_record("v", 3))
    snapshot(log, 1, topic_record("t"))
    newest = snapshot(log, 2, topic_record("t"), is_whole=False)
    reading = read_image(str(log))
    assert sorted(reading.image.topic_ids) == ["t", "u", "v"]
    assert (reading.is_whole, reading.base_offset) == (True, 1), "the log has all that the snapshot had"
    assert ([each.path for each in reading.replaced], reading.damage) == ([str(newest)], [])
    snapshot(log, 9, topic_record("t"), is_whole=False)
    ahead = read_image(str(log))
    assert (ahead.is_whole, ahead.end_offset, sorted(ahead.image.topic_ids)) == (False, 3, ["t", "u", "v"])


def test_a_snapshot_without_any_segment(tmp_path: Path) -> None:
    log = write(tmp_path / "log", topic_record("t"), topic_record("u", 2))
    snapshot(log, 1, topic_record("t"))
    (log / FIRST).unlink()
    reading = read_image(str(log))
    assert (reading.is_whole, reading.end_offset, sorted(reading.image.topic_ids)) == (False, 1, ["t"])


def test_what_follows_damage_is_unknown_or_taken_as_evidence(tmp_path: Path) -> None:
    log = write(tmp_path / "log", topic_record("t"), topic_record("u", 2), topic_record("v", 3))
    path = log / FIRST
    data = path.read_bytes()
    at = 12 + int.from_bytes(data[8:12], "big") + 70
    path.write_bytes(data[:at] + b"\xff" + data[at + 1 :])
    stopped, further = read_image(str(log), stops_at_damage=True), read_image(str(log))
    assert sorted(stopped.image.topic_ids) == ["t"]
    assert stopped.end_offset == 1
    assert sorted(further.image.topic_ids) == ["t", "v"]
    assert not stopped.is_whole
    assert not further.is_whole
    assert [each.offset for each in stopped.damage] == [1]


def test_a_torn_end_is_named_so(tmp_path: Path) -> None:
    log = write(tmp_path / "log", topic_record("t"), topic_record("u", 2))
    (log / FIRST).write_bytes((log / FIRST).read_bytes()[:-9])
    reading = read_image(str(log))
    assert [each.is_tail for each in reading.damage] == [True]
    assert sorted(reading.image.topic_ids) == ["t"]


def test_records_that_contradict_those_before_them_are_left_out(tmp_path: Path) -> None:
    log = write(tmp_path / "log", partition_record(0, (1,)), topic_record("t"), b"\1\x63\0\0")
    reading = read_image(str(log))
    assert reading.contradicted == 1
    ((stored, reason),) = reading.contradictions
    assert (stored.offset, reason.partition(",")[0]) == (0, f"PartitionRecord is about the topic with id {TOPIC_ID}")
    assert [each.offset for each in reading.damage] == [2], "the type is unknown"
    assert sorted(reading.image.topic_ids) == ["t"]


def test_a_transaction_without_its_end(tmp_path: Path) -> None:
    begin, end = (encode_record(f"{word}TransactionRecord", 0, {}) for word in ("Begin", "End"))
    values = [topic_record("t"), begin, topic_record("u", 2), end, begin, topic_record("v", 3), topic_record("w", 4)]
    seen: list[int] = []
    reading = read_image(
        str(write(tmp_path / "log", *values)), watch=lambda _image, stored, _record: seen.append(stored.offset)
    )
    assert reading.unfinished == 2
    assert sorted(reading.image.topic_ids) == ["t", "u"]
    assert seen == [0, 2], "each at its own offset, once it takes effect"
    assert reading.is_whole


def test_one_file(tmp_path: Path) -> None:
    """bootstrap.checkpoint, and a snapshot that is named itself."""
    path = snapshot(tmp_path, 0, feature("metadata.version", 30), epoch=0)
    assert read_file_image(str(path)).image.level == 30
    assert read_image(str(tmp_path)).image.level is None, "the first controller writes these records into the log"
    missing = read_file_image(str(tmp_path / "none"))
    assert (missing.is_whole, len(missing.errors)) == (False, 1)


def test_no_directory(tmp_path: Path) -> None:
    reading = read_image(str(tmp_path / "none"))
    assert (reading.is_whole, len(reading.errors), reading.image.topics) == (False, 1, {})


@given(st.data())
def test_any_bytes_are_an_image(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    """Flipped, cut and moved bytes: a value, never an exception."""
    place = Path(tmp_path_factory.mktemp("fuzz")) / DEMO.name
    shutil.copytree(DEMO, place)
    for name in (FIRST, SNAPSHOT):
        content = bytearray((place / name).read_bytes())
        for _ in range(data.draw(st.integers(0, 3))):
            at = data.draw(st.integers(0, len(content) - 1))
            content[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=8))
        (place / name).write_bytes(content)
    for options in ({}, {"stops_at_damage": True}, {"is_oldest": True}, {"until": Until(offset=20)}):
        reading = read_image(str(place), **options)
        assert reading.is_whole is not bool(reading.damage)
