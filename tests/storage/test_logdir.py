"""A log directory by the names in it; what a broker does about each was seen with Kafka 4.3.1."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkalog_core.errors import NotFoundError
from kafkalog_core.storage import logdir as module
from kafkalog_core.storage.listing import list_directory
from kafkalog_core.storage.logdir import LogDir, holds_segments, is_broker_dir, is_redpanda, read_log_dir

BROKER_FILES = (
    ".lock",
    ".kafka_cleanshutdown",
    "meta.properties",
    "cleaner-offset-checkpoint",
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
)


def make(directory: Path, *directories: str, files: tuple[str, ...] = BROKER_FILES) -> LogDir:
    for name in directories:
        (directory / name).mkdir(parents=True)
    for name in files:
        (directory / name).touch()
    return read_log_dir(str(directory))


def codes(log_dir: LogDir) -> list[tuple[str, str]]:
    return [(Path(finding.path).name, finding.code) for finding in log_dir.findings]


def test_a_healthy_log_directory_has_no_finding(tmp_path: Path) -> None:
    found = make(tmp_path, "t-10", "t-2", "a-0", "__cluster_metadata-0", files=(*BROKER_FILES, "bootstrap.checkpoint"))
    assert [place.name.raw for place in found.partitions] == ["__cluster_metadata-0", "a-0", "t-2", "t-10"]
    assert [place.path for place in found.partitions][1] == str(tmp_path / "a-0")
    assert len({place.identity for place in found.partitions}) == 4
    assert found.is_clean
    assert found.is_broker_dir
    assert not found.findings


def test_what_has_a_partitions_name_and_is_no_directory(tmp_path: Path) -> None:
    """The whole log directory of a 4.3.1 broker went offline when it was to lead the partition of such a link."""
    (tmp_path / "t-1").symlink_to("missing")
    os.mkfifo(tmp_path / "t-2")
    (tmp_path / "notes").symlink_to("missing")
    found = make(tmp_path, "t-0")
    assert codes(found) == [("notes", "file.broken-link"), ("t-1", "dir.no-directory"), ("t-2", "dir.no-directory")]
    finding = found.findings[1]
    assert (finding.severity, finding.topic, finding.partition) == ("error", "t", 1)
    assert "a symbolic link cannot be followed: no such file or directory." in finding.message


def test_links_beside_partitions_that_somebody_copied_are_harmless(tmp_path: Path) -> None:
    (tmp_path / "t-1").symlink_to("missing")
    assert codes(make(tmp_path, "t-0", files=())) == [("t-1", "file.broken-link")]


def test_a_log_directory_of_kafka_0_7_has_no_files_of_its_own(tmp_path: Path) -> None:
    found = make(tmp_path, "t-0", files=(".kafka_cleanshutdown",))
    assert found.is_clean
    assert not found.findings


def test_a_log_directory_of_kafka_0_8_has_no_meta_properties(tmp_path: Path) -> None:
    found = make(tmp_path, "t-0", files=(".lock", "replication-offset-checkpoint"))
    assert codes(found) == [(".kafka_cleanshutdown", "dir.unclean")]
    assert not found.is_clean


def test_a_missing_meta_properties(tmp_path: Path) -> None:
    rest = tuple(name for name in BROKER_FILES if name != "meta.properties")
    found = make(tmp_path / "zk", "t-0", files=rest)
    assert [(finding.code, finding.severity) for finding in found.findings] == [("meta.missing", "info")]
    kraft = make(tmp_path / "kraft", "t-0", files=(*rest, "bootstrap.checkpoint"))
    assert [(finding.code, finding.severity) for finding in kraft.findings] == [("meta.missing-kraft", "warning")]
    metadata = make(tmp_path / "metadata", "__cluster_metadata-0", files=rest)
    assert [finding.code for finding in metadata.findings] == ["meta.missing-kraft"]


@pytest.mark.parametrize("name", ["lost+found", "tmp", ".snapshot", "foo-bar", "x-delete"])
def test_directories_that_stop_a_broker(tmp_path: Path, name: str) -> None:
    found = make(tmp_path / "broker", "t-0", name)
    assert [(finding.code, finding.severity) for finding in found.findings] == [("dir.not-a-partition", "error")]
    copied = make(tmp_path / "copy", "t-0", name, files=())
    assert [(finding.code, finding.severity) for finding in copied.findings] == [
        ("dir.not-a-partition-here", "warning")
    ]


def test_a_partition_twice(tmp_path: Path) -> None:
    found = make(tmp_path, "t-1", "t-01", "t-1.0-delete", "t-1.1-delete", "u-0.0-future", "u-0.1-future")
    twice = [finding for finding in found.findings if finding.code == "dir.duplicate-partition"]
    assert [(Path(finding.path).name, finding.severity) for finding in twice] == [
        ("t-1", "error"),
        ("u-0.1-future", "error"),
    ]
    assert "'t-01'" in twice[0].message
    assert (twice[0].topic, twice[0].partition) == ("t", 1)


def test_a_copy_to_be_filled_beside_the_partition_itself(tmp_path: Path) -> None:
    found = make(tmp_path, "t-1", "t-1.0-future", "t-2.0-future")
    assert codes(found) == [
        ("t-1.0-future", "dir.future"),
        ("t-1.0-future", "dir.future-beside-current"),
        ("t-2.0-future", "dir.future"),
    ]


def test_directories_set_aside_and_odd_names(tmp_path: Path) -> None:
    found = make(tmp_path, "t-0.0-delete", "t-0.0-stray", "u-007", "ä-0")
    assert codes(found) == [
        ("t-0.0-delete", "dir.delete"),
        ("t-0.0-stray", "dir.stray"),
        ("u-007", "dir.odd-name"),
        ("ä-0", "dir.illegal-topic"),
    ]
    assert {finding.severity for finding in found.findings} == {"info"}
    assert "partition 7" in str(found.findings[2].broker_action)


def test_files_at_the_top(tmp_path: Path) -> None:
    strange = ("meta.properties.tmp", "00000000000000000000.log", "partition.metadata", "lost+found", "x.log")
    found = make(tmp_path, "t-0", files=(*BROKER_FILES, *strange))
    assert dict(codes(found)) == {
        "meta.properties.tmp": "file.leftover",
        "00000000000000000000.log": "file.misplaced",
        "partition.metadata": "file.misplaced",
        "lost+found": "file.unknown",
        "x.log": "file.unknown",
    }


def test_the_cache_of_remote_indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "t-0", "remote-log-index-cache")
    (tmp_path / "remote-log-index-cache" / "0_AAAAAAAAAAAAAAAAAAAAAQ.index").touch()
    found = read_log_dir(str(tmp_path))
    assert [file.name.raw for file in found.remote_index_cache] == ["0_AAAAAAAAAAAAAAAAAAAAAQ.index"]
    assert [place.name.raw for place in found.partitions] == ["t-0"]
    assert not found.findings
    listed = list_directory(str(tmp_path))

    def refuse(path: str) -> None:
        raise NotFoundError("no such file or directory", path=path)

    monkeypatch.setattr(module, "list_directory", refuse)
    assert [finding.code for finding in module.log_dir_of(listed).findings] == ["dir.unreadable"]


def test_is_it_a_brokers_directory(tmp_path: Path) -> None:
    assert not is_broker_dir(str(tmp_path))
    (tmp_path / "recovery-point-offset-checkpoint").touch()
    assert is_broker_dir(str(tmp_path))
    assert not is_broker_dir(str(tmp_path / "missing"))


def test_does_it_hold_segments(tmp_path: Path) -> None:
    (tmp_path / "5.log").touch()
    (tmp_path / "server.log").touch()
    (tmp_path / "00000000000000000000.index").touch()
    assert not holds_segments(str(tmp_path))
    (tmp_path / "00000000000000000000.log.deleted").touch()
    assert holds_segments(str(tmp_path))
    assert not holds_segments(str(tmp_path / "missing"))


@pytest.mark.parametrize("inner", ["", "kafka", "kafka/orders", "kafka/orders/0_12"])
def test_directories_of_redpanda(tmp_path: Path, inner: str) -> None:
    (tmp_path / "redpanda").mkdir()
    partition = tmp_path / "kafka" / "orders" / "0_12"
    partition.mkdir(parents=True)
    (partition / "0-1-v1.log").touch()
    assert is_redpanda(list_directory(str(tmp_path / inner)))


def test_directories_of_kafka_are_not_of_redpanda(tmp_path: Path) -> None:
    make(tmp_path, "kafka-0", "redpanda-0", files=())
    assert not is_redpanda(list_directory(str(tmp_path)))
    assert not is_redpanda(list_directory(str(tmp_path / "kafka-0")))
