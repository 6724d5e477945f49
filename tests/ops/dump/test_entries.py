"""Rows of the files that are not logs, and what is said of a bad one."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkalog_core.errors import AccessError, NotFoundError, UnsupportedError
from kafkalog_core.findings import FINDING_TYPES
from kafkalog_core.findings.entries import ENTRY_DAMAGE
from kafkalog_core.format.names import FileKind, FileState, parse_file_name
from kafkalog_core.ops.dump.entries import ENTRY_KINDS, entries
from kafkalog_core.storage.source import Source
from tests.support import build

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.output.chunk import RowChunk

INDEX = "00000000000000000100.index"
TIME_INDEX = "00000000000000000100.timeindex"
TXN_INDEX = "00000000000000000100.txnindex"
SNAPSHOT = "00000000000000000100.snapshot"
PRODUCERS = [
    build.Producer(producer_id=7, epoch=1, last_sequence=9, last_offset=99, offset_delta=4, timestamp_ms=1700000000000),
    build.Producer(producer_id=8, current_txn_first_offset=42),
]


def chunks(directory: Path, name: str, data: bytes) -> list[RowChunk]:
    path = directory / name
    path.write_bytes(data)
    parsed = parse_file_name(name)
    return list(
        entries(str(path), parsed.kind, state=parsed.state, topic="t", partition=3, base_offset=parsed.base_offset)
    )


def rows(directory: Path, name: str, data: bytes) -> list[dict[str, object]]:
    return [row for chunk in chunks(directory, name, data) for row in chunk.rows()]


def brief(found: list[dict[str, object]]) -> list[tuple[object, ...]]:
    """Damage and findings alone: position, size and word."""
    shown = []
    for row in found:
        if row["type"] == "damage":
            shown.append(("damage", row["position"], row["size_bytes"], row["reason"]))
        elif row["type"] == "finding":
            shown.append((row["severity"], row["position"], row["size_bytes"], row["code"]))
    return shown


# --- indexes ----------------------------------------------------------------------------------------------------------
def test_offset_index(tmp_path: Path) -> None:
    first, second = rows(tmp_path, INDEX, build.offset_index([(8, 1378), (18, 2518)]))
    assert first == {
        "type": "index_entry",
        "topic": "t",
        "partition": 3,
        "segment": INDEX,
        "kind": "offset",
        "slot": 0,
        "position": 0,
        "offset": 108,
        "relative_offset": 8,
        "log_position": 1378,
        "timestamp_ms": None,
        "version": None,
        "producer_id": None,
        "first_offset": None,
        "last_offset": None,
        "last_stable_offset": None,
    }
    assert (second["slot"], second["position"], second["offset"], second["log_position"]) == (1, 8, 118, 2518)


def test_time_index(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, TIME_INDEX, build.time_index([(1700000000000, 8)]))
    shown = {name: value for name, value in row.items() if value is not None}
    assert shown == {
        "type": "index_entry",
        "topic": "t",
        "partition": 3,
        "segment": TIME_INDEX,
        "kind": "time",
        "slot": 0,
        "position": 0,
        "offset": 108,
        "relative_offset": 8,
        "timestamp_ms": 1700000000000,
    }


def test_txn_index(tmp_path: Path) -> None:
    _, row = rows(tmp_path, TXN_INDEX, build.txn_index([(1, 6, 8, 9), (0, 15, 17, 18)]))
    shown = {name: value for name, value in row.items() if value is not None}
    assert shown == {
        "type": "index_entry",
        "topic": "t",
        "partition": 3,
        "segment": TXN_INDEX,
        "kind": "txn",
        "slot": 1,
        "position": 34,
        "version": 0,
        "producer_id": 0,
        "first_offset": 15,
        "last_offset": 17,
        "last_stable_offset": 18,
    }


def test_an_index_of_a_name_without_offset(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, "x.index", build.offset_index([(8, 1378)]))
    assert (row["offset"], row["relative_offset"]) == (None, 8)


@pytest.mark.parametrize("name", [INDEX, TIME_INDEX, TXN_INDEX, "leader-epoch-checkpoint", ".kafka_cleanshutdown"])
def test_an_empty_file_is_legal(tmp_path: Path, name: str) -> None:
    assert rows(tmp_path, name, b"") == []


def test_the_zero_tail_is_one_finding(tmp_path: Path) -> None:
    found = rows(tmp_path, INDEX, build.offset_index([(8, 1378)]) + bytes(10 * 1024 * 1024 - 8))
    assert len(found) == 2
    assert brief(found) == [("info", 8, 10 * 1024 * 1024 - 8, "index.zero-tail")]
    assert found[1]["topic"] == "t"
    assert found[1]["file"] == str(tmp_path / INDEX)


def test_zeros_before_an_entry_are_entries(tmp_path: Path) -> None:
    zeros = 9000  # more than a run holds
    data = build.offset_index([(8, 1378), *[(0, 0)] * zeros, (18, 2518), (0, 0)])
    found = rows(tmp_path, INDEX, data)
    assert [row["slot"] for row in found[:-1]] == list(range(zeros + 2))
    assert [row["position"] for row in found[:-1]] == list(range(0, 8 * (zeros + 2), 8))
    assert found[zeros]["log_position"] == 0
    assert found[zeros + 1]["log_position"] == 2518
    assert brief(found) == [("info", 8 * (zeros + 2), 8, "index.zero-tail")]


def test_one_entry_of_zeros(tmp_path: Path) -> None:
    assert brief(rows(tmp_path, INDEX, bytes(8))) == [("info", 0, 8, "index.zero-tail")]
    (row,) = rows(tmp_path, TIME_INDEX, bytes(12))  # records of 1970
    assert (row["timestamp_ms"], row["offset"]) == (0, 100)
    assert brief(rows(tmp_path, TIME_INDEX, bytes(24))) == [("info", 0, 24, "index.zero-tail")]
    assert brief(rows(tmp_path, TXN_INDEX, bytes(34))) == [("warning", 0, 34, "txnindex.zero-tail")]


@pytest.mark.parametrize(
    ("name", "data", "size"),
    [
        (INDEX, build.offset_index([(8, 1378), (18, 2518)]), 8),
        (TIME_INDEX, build.time_index([(1700000000000, 8), (1700000000001, 9)]), 12),
        (TXN_INDEX, build.txn_index([(1, 6, 8, 9), (0, 15, 17, 18)]), 34),
    ],
)
def test_a_partial_entry_is_damage(tmp_path: Path, name: str, data: bytes, size: int) -> None:
    for left in range(1, size):
        found = rows(tmp_path, name, data[: size + left])
        assert brief(found) == [("damage", size, left, "partial-entry")]
        assert found[1]["detail"] == f"{left} bytes after entry 0, where an entry has {size}"


def test_a_version_that_stops_a_broker(tmp_path: Path) -> None:
    data = build.txn_index([(1, 6, 8, 9)]) + build.txn_index([(0, 15, 17, 18)], version=0x0100)
    found = rows(tmp_path, TXN_INDEX, data)
    assert [row["version"] for row in found[:2]] == [0, 256]
    assert brief(found) == [("error", 34, 34, "txnindex.bad-version")]
    for harmless in (0x00FF, -1):  # the first byte alone is looked at, as a signed number
        assert brief(rows(tmp_path, TXN_INDEX, build.txn_index([(1, 6, 8, 9)], version=harmless))) == []


def test_chunks_are_bounded(tmp_path: Path) -> None:
    data = build.offset_index((slot + 1, slot + 1) for slot in range(20000))
    found = chunks(tmp_path, INDEX, data)
    assert sum(chunk.count for chunk in found) == 20000
    assert max(chunk.count for chunk in found) <= 4096


@pytest.mark.parametrize("suffix", [".deleted", ".swap", ".cleaned"])
def test_files_on_their_way_out_are_read_like_others(tmp_path: Path, suffix: str) -> None:
    (row,) = rows(tmp_path, INDEX + suffix, build.offset_index([(8, 1378)]))
    assert (row["segment"], row["offset"]) == (INDEX + suffix, 108)


def test_an_index_of_tiered_storage(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, "100_AAAAAAAAAAAAAAAAAAAAAQ.timeindex", build.time_index([(1700000000000, 8)]))
    assert (row["kind"], row["offset"]) == ("time", 108)


# --- producer snapshots -----------------------------------------------------------------------------------------------
def test_snapshot(tmp_path: Path) -> None:
    first, second = rows(tmp_path, SNAPSHOT, build.snapshot(PRODUCERS))
    assert first == {
        "type": "producer",
        "topic": "t",
        "partition": 3,
        "segment": SNAPSHOT,
        "position": 10,
        "producer_id": 7,
        "producer_epoch": 1,
        "last_sequence": 9,
        "last_offset": 99,
        "offset_delta": 4,
        "timestamp_ms": 1700000000000,
        "coordinator_epoch": -1,
        "current_txn_first_offset": -1,
    }
    assert (second["position"], second["last_offset"], second["current_txn_first_offset"]) == (56, -1, 42)


def test_a_large_snapshot(tmp_path: Path) -> None:
    found = chunks(tmp_path, SNAPSHOT, build.snapshot([build.Producer(producer_id=n) for n in range(10000)]))
    ids = [row["producer_id"] for chunk in found for row in chunk.rows()]
    assert ids == list(range(10000))
    assert max(chunk.count for chunk in found) <= 4096


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: b"", "snapshot-truncated"),
        (lambda data: data[:9], "snapshot-truncated"),
        (lambda data: data[:-1], "snapshot-truncated"),
        (lambda data: data + b"\0", "snapshot-entry-count"),
        (lambda data: data[:6] + b"\xff" * 4 + data[10:], "snapshot-entry-count"),
        (lambda data: b"\0\2" + data[2:], "snapshot-version"),
        (lambda data: data[:20] + b"\x55" + data[21:], "snapshot-crc-mismatch"),
    ],
)
def test_a_snapshot_that_a_broker_throws_away(tmp_path: Path, change, reason: str) -> None:
    data = change(build.snapshot(PRODUCERS))
    assert brief(rows(tmp_path, SNAPSHOT, data)) == [("damage", 0, len(data), reason)]


# --- text files -------------------------------------------------------------------------------------------------------
def test_offset_checkpoint(tmp_path: Path) -> None:
    name = "replication-offset-checkpoint"
    first, _ = rows(tmp_path, name, b"0\n2\norders 0 140\npayments 1 335\n")
    assert first == {
        "type": "checkpoint",
        "file": str(tmp_path / name),
        "kind": "high_watermark",
        "line": 3,
        "topic": "orders",
        "partition": 0,
        "leader_epoch": None,
        "offset": 140,
    }


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("recovery-point-offset-checkpoint", "recovery_point"),
        ("log-start-offset-checkpoint", "log_start_offset"),
        ("cleaner-offset-checkpoint", "cleaner_offset"),
    ],
)
def test_the_other_offset_checkpoints(tmp_path: Path, name: str, kind: str) -> None:
    (row,) = rows(tmp_path, name, b"0\n1\norders 0 140\n")
    assert row["kind"] == kind


def test_epoch_checkpoint(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, "leader-epoch-checkpoint", b"0\n1\n5 140\n")
    assert (row["topic"], row["partition"], row["leader_epoch"], row["offset"]) == ("t", 3, 5, 140)


def test_a_checkpoint_that_a_broker_refuses(tmp_path: Path) -> None:
    data = b"0\n2\norders 0 140\nwhat\npayments 1 335\n"
    found = rows(tmp_path, "recovery-point-offset-checkpoint", data)
    assert [row["type"] for row in found] == ["checkpoint", "damage", "checkpoint", "finding"]
    assert brief(found) == [("damage", 17, 5, "malformed-line"), ("error", None, None, "checkpoint.malformed-line")]
    assert found[1]["segment"] == "recovery-point-offset-checkpoint"
    assert found[3]["message"] == ("A broker refuses the file: line 4: 1 word, not a topic, a partition and an offset.")
    assert str(found[3]["broker_action"]).startswith("Takes it for empty")


def test_what_a_refused_file_costs_depends_on_how_it_fails(tmp_path: Path) -> None:
    (*_, finding) = rows(tmp_path, "leader-epoch-checkpoint", b"0\n1\nzero 0\n")
    assert finding["broker_action"] == "Does not start."
    (*_, finding) = rows(tmp_path, "leader-epoch-checkpoint", b"0\n2\n0 0\n")
    assert finding["code"] == "checkpoint.count-mismatch"
    action = "Does not load the partition and takes the whole log directory offline. Releases before 3.2 do not start."
    assert finding["broker_action"] == action


def test_a_temporary_file_is_refused_by_nobody(tmp_path: Path) -> None:
    found = rows(tmp_path, "leader-epoch-checkpoint.tmp", b"0\n3\n0 0\n1")
    assert brief(found) == [("info", 8, 1, "file.unfinished"), ("info", None, None, "file.unfinished")]


def test_a_large_checkpoint_is_read_in_windows(tmp_path: Path) -> None:
    count = 20000
    data = f"0\n{count}\n".encode() + b"".join(b"topic-%d %d %d\n" % (n, n, n) for n in range(count))
    found = chunks(tmp_path, "recovery-point-offset-checkpoint", data)
    assert [row["offset"] for chunk in found for row in chunk.rows()] == list(range(count))
    assert max(chunk.count for chunk in found) <= 4096


@pytest.mark.parametrize(
    ("name", "data", "kind", "expected"),
    [
        ("meta.properties", b"#\nversion=0\nbroker.id=1\n", "meta", [("version", "0"), ("broker.id", "1")]),
        (
            "partition.metadata",
            b"version: 0\ntopic_id: wWOh6xzXRhuvCOO_f0luSA",
            "partition_metadata",
            [("version", "0"), ("topic_id", "wWOh6xzXRhuvCOO_f0luSA")],
        ),
        (
            ".kafka_cleanshutdown",
            b'{"version":0,"brokerEpoch":8}',
            "clean_shutdown",
            [("version", "0"), ("brokerEpoch", "8")],
        ),
        (
            "quorum-state",
            b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
            "quorum_state",
            [
                ("leaderId", "1"),
                ("leaderEpoch", "1"),
                ("votedId", "-1"),
                ("votedDirectoryId", "AAAAAAAAAAAAAAAAAAAAAA"),
                ("data_version", "1"),
            ],
        ),
    ],
)
def test_property_files(tmp_path: Path, name: str, data: bytes, kind: str, expected: list[tuple[str, str]]) -> None:
    found = rows(tmp_path, name, data)
    assert [(row["key"], row["value"]) for row in found] == expected
    assert {row["file"] for row in found} == {str(tmp_path / name)}
    assert {row["kind"] for row in found} == {kind}


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("meta.properties", b"", [("error", None, None, "meta.missing-key")]),
        (
            "meta.properties",
            b"broker.id=\\u1\n",
            [("damage", 0, 14, "malformed-line"), ("error", None, None, "meta.malformed-line")],
        ),
        ("partition.metadata", b"", [("error", None, None, "partition-metadata.too-short")]),
        ("quorum-state", b"", [("error", None, None, "quorum-state.empty")]),
        (".kafka_cleanshutdown", b"not json", [("info", 0, 8, "clean-shutdown.malformed")]),
        ("meta.properties", b"a" * 65537, [("damage", 0, 65537, "too-large")]),
    ],
)
def test_property_files_with_something_wrong(tmp_path: Path, name: str, data: bytes, expected) -> None:
    assert brief(rows(tmp_path, name, data)) == expected


# --- files and disks --------------------------------------------------------------------------------------------------
def test_errors_of_the_file_itself(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        list(entries(str(tmp_path / "missing.index"), FileKind.OFFSET_INDEX))
    with pytest.raises(AccessError):
        list(entries(str(tmp_path), FileKind.OFFSET_INDEX))
    with pytest.raises(UnsupportedError):
        list(entries(str(tmp_path), FileKind.LOG))


@pytest.fixture
def bad_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that cannot read the second block of 4 KiB of any file."""
    pread = Source._pread

    def read(self: Source, target: memoryview, position: int) -> int:
        if position < 8192 and position + len(target) > 4096:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(self, target, position)

    monkeypatch.setattr(Source, "_pread", read)


@pytest.mark.usefixtures("bad_block")
def test_an_index_that_the_disk_cannot_read_in_the_middle(tmp_path: Path) -> None:
    found = rows(tmp_path, TIME_INDEX, build.time_index((slot + 1, slot) for slot in range(1000)))
    lost = [(row["position"], row["size_bytes"]) for row in found if row["type"] == "damage"]
    assert {row["reason"] for row in found if row["type"] == "damage"} == {"unreadable"}
    shown = {row["slot"] for row in found if row["type"] == "index_entry"}
    missing = {(position + byte) // 12 for position, size in lost for byte in range(size)}
    assert shown | missing == set(range(1000))
    assert not shown & missing
    assert min(missing) == 4096 // 12
    assert max(missing) == 8191 // 12


@pytest.mark.usefixtures("bad_block")
def test_other_files_that_the_disk_cannot_read(tmp_path: Path) -> None:
    data = build.snapshot([build.Producer(producer_id=n) for n in range(1000)])
    assert brief(rows(tmp_path, SNAPSHOT, data)) == [("damage", 0, len(data), "unreadable")]
    data = b"0\n2000\n" + b"orders 0 140\n" * 2000
    found = rows(tmp_path, "recovery-point-offset-checkpoint", data)
    assert brief(found)[-1] == ("damage", 4096, len(data) - 4096, "unreadable")
    assert len([row for row in found if row["type"] == "checkpoint"]) == (4096 - 7) // 13
    assert brief(rows(tmp_path, "meta.properties", b"#" * 9000))[-1] == ("damage", 4096, 4904, "unreadable")


def test_a_file_that_becomes_shorter_under_our_hands(tmp_path: Path) -> None:
    path = tmp_path / INDEX
    path.write_bytes(build.offset_index((slot + 1, slot + 1) for slot in range(20000)))
    found = entries(str(path), FileKind.OFFSET_INDEX)
    assert next(found).count == 4096
    os.truncate(path, 8 * 5000 + 3)
    rest = [row for chunk in found for row in chunk.rows()]
    assert [row["slot"] for row in rest if row["type"] == "index_entry"] == list(range(4096, 5000))
    assert brief(rest) == [("warning", 40003, None, "file.shrank")]


# --- whatever the bytes -----------------------------------------------------------------------------------------------
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(ENTRY_KINDS)), st.sampled_from(FileState), st.binary(max_size=300))
def test_any_bytes(tmp_path: Path, kind: FileKind, state: FileState, data: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    covered = 0
    for chunk in entries(str(path), kind, state=state, base_offset=2**63 - 1):
        assert chunk.ndjson("auto").endswith(b"\n")
        for row in chunk.rows():
            if row["type"] == "damage":
                assert row["reason"] in ENTRY_DAMAGE
                covered += int(str(row["size_bytes"]))
            elif row["type"] == "finding":
                assert row["code"] in FINDING_TYPES
    assert covered <= len(data)
