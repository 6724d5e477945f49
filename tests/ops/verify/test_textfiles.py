"""Text files with something wrong in them: the code, the line and the byte of each fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkalog_core.findings.catalog import SHOWN
from kafkalog_core.format.names import FileKind
from kafkalog_core.kafka.sim.logdir.faults import EntryFile
from kafkalog_core.kafka.sim.logdir.text_files import read_epochs, read_offsets, read_properties
from tests.support import build

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.kafka.sim.logdir.text_files import OffsetText

RECOVERY_POINT = FileKind.RECOVERY_POINT
Place = tuple[str, int | None, int | None]


def offsets(directory: Path, data: bytes, kind: FileKind = RECOVERY_POINT) -> OffsetText:
    path = directory / "checkpoint"
    path.write_bytes(data)
    text = read_offsets(str(path), kind)
    assert text is not None
    return text


def places(text: OffsetText) -> list[Place]:
    return [(finding.code, finding.position, finding.size_bytes) for finding in text.findings]


# --- offset checkpoints -----------------------------------------------------------------------------------------------
def test_a_healthy_checkpoint(tmp_path: Path) -> None:
    text = offsets(tmp_path, b"0\n2\norders 0 335\npay-ments 12 9223372036854775807\n")
    assert not text.findings
    assert not text.is_refused
    assert text.file.offset("orders", 0) == 335
    assert text.file.offset("pay-ments", 12) == 2**63 - 1
    assert text.file.offset("orders", 1) is None
    placed = text.file.entries["pay-ments", 12]
    assert (placed.entry.line, placed.position, placed.size_bytes) == (4, 17, 33)


def test_no_checkpoint(tmp_path: Path) -> None:
    assert read_offsets(str(tmp_path / "none"), RECOVERY_POINT) is None


@pytest.mark.parametrize("data", [b"", b"0\n", b"0\n0\n"])
def test_checkpoints_of_nothing(tmp_path: Path, data: bytes) -> None:
    text = offsets(tmp_path, data)
    assert (text.findings, text.is_refused, text.file.entries) == ((), False, {})


@pytest.mark.parametrize(
    ("data", "code", "position", "size_bytes"),
    [
        (b"3\n1\nt 0 5\n", "checkpoint.unsupported-version", 0, 2),
        (b"0\n99\nt 0 5\n", "checkpoint.count-mismatch", 2, 3),
        (b"0\n-1\n", "checkpoint.negative-count", 2, 3),
        (b"x\n1\nt 0 5\n", "checkpoint.malformed-line", 0, 2),
        (b"0\n1\nt 0\n", "checkpoint.malformed-line", 4, 4),
        (b"0\r\n1\r\nt 0 five\r\n", "checkpoint.malformed-line", 6, 10),
        (b"0\n1\n\xff 0 5\n", "checkpoint.invalid-utf8", 4, 6),
        (b"0\n2\nt 0 5\n\n", "checkpoint.malformed-line", 10, 1),
    ],
)
def test_what_a_broker_refuses(tmp_path: Path, data: bytes, code: str, position: int, size_bytes: int) -> None:
    text = offsets(tmp_path, data)
    assert text.is_refused
    assert places(text)[0] == (code, position, size_bytes)
    assert text.findings[0].severity == "error"
    assert "0.8.2" in (text.findings[0].broker_action or "")


def test_every_malformed_line_is_told(tmp_path: Path) -> None:
    text = offsets(tmp_path, b"0\n4\na 0 1\nnonsense\nb 0 2\n\xfe 0 3\n")
    # A broker decodes the bytes before it looks at the first line
    assert places(text) == [("checkpoint.invalid-utf8", 25, 6), ("checkpoint.malformed-line", 10, 9)]
    assert len({finding.broker_action for finding in text.findings}) == 1
    assert "line 6:" in text.findings[0].message
    assert "line 4:" in text.findings[1].message


def test_a_file_full_of_garbage_is_told_in_some_findings(tmp_path: Path) -> None:
    text = offsets(tmp_path, b"garbage\n" * 50_000)
    assert len(text.findings) == 1 + SHOWN - 1
    assert "more of these" in text.findings[-1].message


def test_a_file_without_a_line_end_is_not_kept(tmp_path: Path) -> None:
    text = offsets(tmp_path, b"\x00" * 5_000_000)
    assert places(text) == [("checkpoint.malformed-line", 0, 5_000_000)]


def test_a_repeated_partition(tmp_path: Path) -> None:
    text = offsets(tmp_path, b"0\n3\nt 0 5\nu 0 1\nt 0 7\n")
    assert places(text) == [("checkpoint.repeated", 16, 6)]
    assert text.findings[0].topic == "t"
    assert text.file.offset("t", 0) == 7
    assert not text.is_refused


def test_negative_numbers(tmp_path: Path) -> None:
    text = offsets(tmp_path, b"0\n2\nt 0 -7\nt -1 7\n")
    assert places(text) == [("checkpoint.negative-offset", 4, 7), ("checkpoint.negative-offset", 11, 7)]
    assert "gives -7 for t-0" in text.findings[0].message


def test_a_temporary_file_is_refused_by_nobody(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint.tmp"
    path.write_bytes(b"0\n2\nnonsense\nmore\n")
    text = read_offsets(str(path), RECOVERY_POINT)
    assert text is not None
    assert [(finding.severity, finding.code) for finding in text.findings] == [("info", "file.unfinished")]


# --- leader epochs ----------------------------------------------------------------------------------------------------
def epochs(directory: Path, data: bytes) -> list[Place]:
    path = directory / "leader-epoch-checkpoint"
    path.write_bytes(data)
    text = read_epochs(EntryFile(path=str(path), kind=FileKind.LEADER_EPOCH, topic="t", partition=0))
    assert all((finding.topic, finding.partition) == ("t", 0) for finding in text.findings)
    return [(finding.code, finding.position, finding.size_bytes) for finding in text.findings]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (build.epoch_checkpoint([(0, 0), (2, 140), (4, 335)]), []),
        (b"", []),
        (b"0\n3\n5 0\n3 40\n2 335\n", [("epochs.not-ascending", 8, 5), ("epochs.not-ascending", 13, 6)]),
        (b"0\n2\n1 50\n2 50\n", [("epochs.not-ascending", 9, 5)]),
        (b"0\n2\n0 0\n-1 50\n", [("checkpoint.negative-epoch", 8, 6), ("epochs.not-ascending", 8, 6)]),
        (b"0\n7\n0 0\n", [("checkpoint.count-mismatch", 2, 2)]),
        (b"9\n1\n0 0\n", [("checkpoint.unsupported-version", 0, 2)]),
        (b"0\n1\nzero 0\n", [("checkpoint.malformed-line", 4, 7)]),
    ],
)
def test_leader_epochs(tmp_path: Path, data: bytes, expected: list[Place]) -> None:
    assert epochs(tmp_path, data) == expected


# --- property files ---------------------------------------------------------------------------------------------------
def properties(directory: Path, kind: FileKind, data: bytes) -> list[tuple[str, str, int | None]]:
    path = directory / "file"
    path.write_bytes(data)
    text = read_properties(EntryFile(path=str(path), kind=kind))
    assert text is not None
    return [(finding.severity, finding.code, finding.position) for finding in text.findings]


META = FileKind.META_PROPERTIES
METADATA = FileKind.PARTITION_METADATA
QUORUM = b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        (META, build.meta_properties({"version": "0", "broker.id": "1"}), []),
        (META, b"", [("error", "meta.missing-key", 0)]),
        (META, b"#\nversion=7\nnode.id=1\n", [("error", "meta.unsupported-version", 2)]),
        (META, b"version=1\ncluster.id=c\nnode.id=one\n", [("error", "meta.bad-node-id", 23)]),
        (META, b"version=1\ncluster.id=c\nnode.id=1\ndirectory.id=x\n", [("error", "meta.bad-directory-id", 33)]),
        (METADATA, build.partition_metadata("dY86piI2T52nV-5FQRA3tA"), []),
        (METADATA, b"", [("error", "partition-metadata.too-short", 0)]),
        (METADATA, b"banana\n", [("error", "partition-metadata.malformed-line", 0)]),
        (METADATA, build.partition_metadata("A" * 22), [("error", "partition-metadata.zero-topic-id", 11)]),
        (METADATA, build.partition_metadata("short"), [("error", "partition-metadata.bad-topic-id", 11)]),
        (METADATA, build.partition_metadata("dY86piI2T52nV-5FQRA3tA") + b"\nx", [("warning", "file.more-lines", 44)]),
        (FileKind.CLEAN_SHUTDOWN, b"", []),
        (FileKind.CLEAN_SHUTDOWN, b'{"version":0,"brokerEpoch":81}', []),
        (FileKind.CLEAN_SHUTDOWN, b"garbage!", [("warning", "clean-shutdown.malformed", 0)]),
        (FileKind.QUORUM_STATE, QUORUM, []),
        (FileKind.QUORUM_STATE, b"", [("error", "quorum-state.empty", 0)]),
        (FileKind.QUORUM_STATE, QUORUM[:-2] + b"2}", [("error", "quorum-state.unsupported-version", 0)]),
        (META, b"#" * 100_000, [("error", "file.too-large", None)]),
    ],
)
def test_property_files(
    tmp_path: Path, kind: FileKind, data: bytes, expected: list[tuple[str, str, int | None]]
) -> None:
    assert properties(tmp_path, kind, data) == expected


LINES = st.sampled_from(
    [b"0", b"1", b"-1", b"t 0 5", b"t 0 6", b" t 0 5", b"t 0", b"", b"3 40", b"2 30", b"\xff", b"x=1"]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r", b""])
TEXTS = st.lists(st.tuples(LINES, ENDS), max_size=12).map(lambda parts: b"".join(line + end for line, end in parts))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=TEXTS | st.binary(max_size=200))
def test_whatever_is_in_a_file_its_findings_lie_in_it(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    text = read_offsets(str(path), RECOVERY_POINT)
    assert text is not None
    findings = [*text.findings, *read_epochs(EntryFile(path=str(path), kind=FileKind.LEADER_EPOCH)).findings]
    for kind in (META, METADATA, FileKind.CLEAN_SHUTDOWN, FileKind.QUORUM_STATE):
        properties_text = read_properties(EntryFile(path=str(path), kind=kind))
        assert properties_text is not None
        findings += properties_text.findings
    for finding in findings:
        if finding.position is not None:
            assert 0 <= finding.position <= finding.position + (finding.size_bytes or 0) <= len(data)
    if text.is_refused:
        assert any(finding.severity == "error" for finding in text.findings)


def test_a_long_file_can_be_stopped(tmp_path: Path) -> None:
    """Of a file that is no longer what it was, somebody who waits may have enough."""
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_bytes(build.epoch_checkpoint([(number, number) for number in range(50_000)]))
    place = EntryFile(path=str(path), kind=FileKind.LEADER_EPOCH)
    looks: list[int] = []

    def look() -> None:
        looks.append(len(looks))
        if len(looks) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_epochs(place, look)
    assert len(looks) == 3
    assert len(read_epochs(place, lambda: looks.append(0)).entries) == 50_000
    assert len(looks) == 3 + path.stat().st_size // 65536 + 2
