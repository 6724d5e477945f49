"""Names as brokers of Kafka 0.7.2 to 4.3.1 write them, and odd ones as 4.3.1 was seen to read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.format.names import (
    INDEX_KINDS,
    LOG_KINDS,
    SEGMENT_KINDS,
    DirectoryState,
    FileKind,
    FileState,
    directory_name,
    fixed_file_name,
    is_redpanda_directory_name,
    kraft_snapshot_file_name,
    parse_directory_name,
    parse_file_name,
    segment_file_name,
    topic_name_problem,
)

OFFSETS = st.integers(min_value=0, max_value=2**63 - 1)
TOPICS = st.text(alphabet="abcXYZ019._-", min_size=1, max_size=60)
UUIDS = st.uuids().map(lambda value: value.hex)


@pytest.mark.parametrize(
    ("name", "kind", "state", "base_offset", "canonical"),
    [
        ("00000000000000000000.log", FileKind.LOG, FileState.LIVE, 0, True),
        ("00000000000000000076.log.deleted", FileKind.LOG, FileState.DELETED, 76, True),
        ("00000000000000000076.log.swap", FileKind.LOG, FileState.SWAP, 76, True),
        ("00000000000000000076.index.cleaned", FileKind.OFFSET_INDEX, FileState.CLEANED, 76, True),
        ("00000000000000000076.timeindex", FileKind.TIME_INDEX, FileState.LIVE, 76, True),
        ("00000000000000000076.txnindex", FileKind.TXN_INDEX, FileState.LIVE, 76, True),
        ("00000000000000000140.snapshot", FileKind.SNAPSHOT, FileState.LIVE, 140, True),
        ("00000000000000000140.snapshot.deleted", FileKind.SNAPSHOT, FileState.DELETED, 140, True),
        ("09223372036854775807.log", FileKind.LOG, FileState.LIVE, 2**63 - 1, True),
        ("09223372036854775808.log", FileKind.LOG, FileState.LIVE, None, False),
        ("00000000000000033333.kafka", FileKind.LOG_V07, FileState.LIVE, 33333, True),
        ("5.log", FileKind.LOG, FileState.LIVE, 5, False),
        ("+5.log", FileKind.LOG, FileState.LIVE, 5, False),
        ("-5.log", FileKind.LOG, FileState.LIVE, -5, False),
        ("-9223372036854775808.log", FileKind.LOG, FileState.LIVE, -(2**63), False),
        ("-9223372036854775809.log", FileKind.LOG, FileState.LIVE, None, False),
        ("5.copy.log", FileKind.LOG, FileState.LIVE, 5, False),
        ("5 .log", FileKind.LOG, FileState.LIVE, None, False),
        ("5_0.log", FileKind.LOG, FileState.LIVE, None, False),
        ("abc.log", FileKind.LOG, FileState.LIVE, None, False),
        (".log", FileKind.LOG, FileState.LIVE, None, False),
        ("x.snapshot", FileKind.SNAPSHOT, FileState.LIVE, None, False),
        ("x.swap", FileKind.UNKNOWN, FileState.SWAP, None, False),
        ("7.notes.deleted", FileKind.UNKNOWN, FileState.DELETED, 7, False),
        ("00000000000000000000.log.bak", FileKind.UNKNOWN, FileState.LIVE, None, False),
        ("notes.txt", FileKind.UNKNOWN, FileState.LIVE, None, False),
        ("log", FileKind.UNKNOWN, FileState.LIVE, None, False),
        ("", FileKind.UNKNOWN, FileState.LIVE, None, False),
        ("something.tmp", FileKind.TEMPORARY, FileState.TEMPORARY, None, False),
        ("leader-epoch-checkpoint", FileKind.LEADER_EPOCH, FileState.LIVE, None, True),
        ("leader-epoch-checkpoint.tmp", FileKind.LEADER_EPOCH, FileState.TEMPORARY, None, True),
        ("recovery-point-offset-checkpoint", FileKind.RECOVERY_POINT, FileState.LIVE, None, True),
        ("replication-offset-checkpoint", FileKind.HIGH_WATERMARK, FileState.LIVE, None, True),
        ("log-start-offset-checkpoint", FileKind.LOG_START_OFFSET, FileState.LIVE, None, True),
        ("cleaner-offset-checkpoint", FileKind.CLEANER_OFFSET, FileState.LIVE, None, True),
        ("partition.metadata", FileKind.PARTITION_METADATA, FileState.LIVE, None, True),
        ("meta.properties", FileKind.META_PROPERTIES, FileState.LIVE, None, True),
        ("meta.properties.tmp", FileKind.META_PROPERTIES, FileState.TEMPORARY, None, True),
        (".kafka_cleanshutdown", FileKind.CLEAN_SHUTDOWN, FileState.LIVE, None, True),
        ("quorum-state", FileKind.QUORUM_STATE, FileState.LIVE, None, True),
        (".lock", FileKind.LOCK, FileState.LIVE, None, True),
        ("bootstrap.checkpoint", FileKind.KRAFT_SNAPSHOT, FileState.LIVE, None, True),
        ("0_AAAAAAAAAAAAAAAAAAAAAQ.index", FileKind.REMOTE_OFFSET_INDEX, FileState.LIVE, 0, True),
        ("97_AAAAAAAAAAAAAAAAAAAAAQ.timeindex.deleted", FileKind.REMOTE_TIME_INDEX, FileState.DELETED, 97, True),
        ("097_AAAAAAAAAAAAAAAAAAAAAQ.txnindex", FileKind.REMOTE_TXN_INDEX, FileState.LIVE, 97, False),
        ("0-1-v1.log", FileKind.REDPANDA, FileState.LIVE, 0, False),
        ("12-3-v1.base_index", FileKind.REDPANDA, FileState.LIVE, 12, False),
        ("0-1-v1.log.compaction.staging", FileKind.REDPANDA, FileState.LIVE, 0, False),
    ],
)
def test_file_names(name: str, kind: FileKind, state: FileState, base_offset: int | None, *, canonical: bool) -> None:
    parsed = parse_file_name(name)
    assert (parsed.kind, parsed.state, parsed.base_offset) == (kind, state, base_offset)
    assert parsed.canonical is canonical
    assert parsed.raw == name


@pytest.mark.parametrize(
    ("name", "state", "end_offset", "epoch", "canonical"),
    [
        ("00000000000000000537-0000000001.checkpoint", FileState.LIVE, 537, 1, True),
        ("00000000000000000537-0000000001.checkpoint.deleted", FileState.DELETED, 537, 1, True),
        ("00000000000000000537-0000000001-8273645.checkpoint.part", FileState.PARTIAL, 537, 1, True),
        ("537-1.checkpoint", FileState.LIVE, None, None, False),
        ("00000000000000000537-000000000x.checkpoint", FileState.LIVE, None, None, False),
        ("0000000000000000053x-0000000001.checkpoint", FileState.LIVE, None, None, False),
    ],
)
def test_snapshots_of_the_metadata_log(
    name: str, state: FileState, end_offset: int | None, epoch: int | None, *, canonical: bool
) -> None:
    parsed = parse_file_name(name)
    assert parsed.kind is FileKind.KRAFT_SNAPSHOT
    assert (parsed.state, parsed.base_offset, parsed.epoch, parsed.canonical) == (state, end_offset, epoch, canonical)


@pytest.mark.parametrize(
    ("name", "topic", "partition", "state", "uuid", "canonical"),
    [
        ("orders-0", "orders", 0, DirectoryState.CURRENT, None, True),
        ("t-x-0", "t-x", 0, DirectoryState.CURRENT, None, True),
        ("t--5", "t-", 5, DirectoryState.CURRENT, None, True),
        ("__cluster_metadata-0", "__cluster_metadata", 0, DirectoryState.CURRENT, None, True),
        ("t-00", "t", 0, DirectoryState.CURRENT, None, False),
        ("t-+1", "t", 1, DirectoryState.CURRENT, None, False),
        ("-foo-1", "-foo", 1, DirectoryState.CURRENT, None, True),
        ("gone-0.d5d39e59-delete", "gone", 0, DirectoryState.DELETE, "d5d39e59", True),
        ("a.b-3.0123-future", "a.b", 3, DirectoryState.FUTURE, "0123", True),
        ("a-b-3.0123-stray", "a-b", 3, DirectoryState.STRAY, "0123", True),
        ("a-b-03.0123-stray", "a-b", 3, DirectoryState.STRAY, "0123", False),
        ("remote-log-index-cache", None, None, DirectoryState.REMOTE_INDEX_CACHE, None, True),
    ],
)
def test_directory_names(
    name: str, topic: str | None, partition: int | None, state: DirectoryState, uuid: str | None, *, canonical: bool
) -> None:
    parsed = parse_directory_name(name)
    assert (parsed.topic, parsed.partition, parsed.state, parsed.uuid) == (topic, partition, state, uuid)
    assert parsed.problem is None
    assert parsed.canonical is canonical
    assert parsed.is_partition is (partition is not None)


@pytest.mark.parametrize(
    "name",
    [
        "lost+found",
        "tmp",
        ".snapshot",
        "0_12",
        "-1",
        "t-",
        "foo-bar",
        "t-2147483648",
        "t-1 ",
        "x-delete",
        "t-1-delete",
        "t-1.-delete",
        "a b-1.0-stray",
        "t-x.0-future",
        "",
    ],
)
def test_directory_names_that_stop_a_broker(name: str) -> None:
    parsed = parse_directory_name(name)
    assert parsed.problem
    assert not parsed.is_partition
    assert not parsed.canonical


@given(OFFSETS, st.sampled_from(sorted(SEGMENT_KINDS)), st.sampled_from(FileState))
def test_segment_names_round_trip(base_offset: int, kind: FileKind, state: FileState) -> None:
    parsed = parse_file_name(segment_file_name(base_offset, kind, state))
    assert (parsed.kind, parsed.base_offset, parsed.state) == (kind, base_offset, state)
    assert parsed.canonical


@given(OFFSETS, st.integers(min_value=0, max_value=2**31 - 1))
def test_snapshot_names_round_trip(end_offset: int, epoch: int) -> None:
    parsed = parse_file_name(kraft_snapshot_file_name(end_offset, epoch))
    assert (parsed.kind, parsed.base_offset, parsed.epoch) == (FileKind.KRAFT_SNAPSHOT, end_offset, epoch)
    assert parsed.canonical


@given(
    TOPICS,
    st.integers(min_value=0, max_value=2**31 - 1),
    st.sampled_from([DirectoryState.DELETE, DirectoryState.FUTURE, DirectoryState.STRAY]),
    UUIDS,
)
def test_directory_names_round_trip(topic: str, partition: int, state: DirectoryState, uuid: str) -> None:
    parsed = parse_directory_name(directory_name(topic, partition, state, uuid))
    assert (parsed.topic, parsed.partition, parsed.state, parsed.uuid) == (topic, partition, state, uuid)
    plain = parse_directory_name(directory_name(topic, partition))
    assert (plain.topic, plain.partition, plain.state) == (topic, partition, DirectoryState.CURRENT)


def test_a_long_topic_is_cut_in_the_name_of_a_deletion_and_not_in_that_of_a_move() -> None:
    uuid = "0" * 32
    deleted = directory_name("t" * 249, 10, DirectoryState.DELETE, uuid)
    assert len(deleted) == 255
    assert parse_directory_name(deleted).partition == 10
    assert parse_directory_name(directory_name("t" * 249, 10, DirectoryState.FUTURE, uuid)).topic == "t" * 249


@given(st.text(max_size=300))
def test_any_text_is_a_name(name: str) -> None:
    assert parse_file_name(name).raw == name
    parsed = parse_directory_name(name)
    assert parsed.raw == name
    assert (parsed.problem is None) is (parsed.is_partition or parsed.state is DirectoryState.REMOTE_INDEX_CACHE)


@given(st.binary(max_size=300))
def test_any_bytes_of_a_file_system_are_a_name(name: bytes) -> None:
    text = name.decode("utf-8", "surrogateescape")
    assert parse_file_name(text).raw == text
    assert parse_directory_name(text).raw == text


def test_a_number_longer_than_any_name_is_no_number() -> None:
    assert parse_file_name("0" * 5000 + ".log").base_offset is None


@pytest.mark.parametrize("topic", ["orders", "a.b_c-D9", "t" * 249])
def test_legal_topics(topic: str) -> None:
    assert topic_name_problem(topic) is None


@pytest.mark.parametrize("topic", ["", ".", "..", "a b", "ä", "t" * 250])
def test_illegal_topics(topic: str) -> None:
    assert topic_name_problem(topic)


def test_directories_of_redpanda() -> None:
    assert is_redpanda_directory_name("0_12")
    assert not is_redpanda_directory_name("t-0")


def test_fixed_names_are_what_they_parse_to() -> None:
    kinds = [FileKind.META_PROPERTIES, FileKind.CLEAN_SHUTDOWN, FileKind.HIGH_WATERMARK, FileKind.LEADER_EPOCH]
    assert [parse_file_name(fixed_file_name(kind)).kind for kind in kinds] == kinds


def test_groups_of_kinds() -> None:
    assert LOG_KINDS < SEGMENT_KINDS
    assert INDEX_KINDS < SEGMENT_KINDS
