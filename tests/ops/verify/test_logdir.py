"""Log directories next to their partitions and next to each other."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.engine.targets import LogDirTarget, resolve
from kafkalog_core.findings import found
from kafkalog_core.ops.verify.logdir import LogDirs
from kafkalog_core.ops.verify.verdict import PartitionVerdict, SegmentVerdict
from tests.support import build
from tests.support.log_dirs import CLUSTER, DIRECTORY_IDS, Found, brief, find, write_log_dir, write_partition

if TYPE_CHECKING:
    from pathlib import Path

RECOVERY = "recovery-point-offset-checkpoint"
WATERMARK = "replication-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
CLEANER = "cleaner-offset-checkpoint"
UNCLEAN = Found("info", "dir.unclean", ".kafka_cleanshutdown", None)
UUID = "0123456789abcdef0123456789abcdef"


def checkpoint(directory: Path, name: str, *entries: tuple[str, int, int]) -> None:
    (directory / name).write_bytes(build.offset_checkpoint(entries))


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_healthy_log_dir(tmp_path: Path, is_clean: bool) -> None:
    write_log_dir(tmp_path / "a", ["t-0", "t-1", "u-0"], is_clean=is_clean)
    assert brief(find(tmp_path / "a")) == ([] if is_clean else [UNCLEAN])


# --- offsets next to the log ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "value", "is_clean", "expected"),
    [
        (RECOVERY, 101, True, [Found("error", "recovery-point.beyond-end", RECOVERY, 4)]),
        (RECOVERY, 101, False, [Found("error", "recovery-point.beyond-end", RECOVERY, 4)]),
        (RECOVERY, 99, True, [Found("error", "recovery-point.not-at-end", RECOVERY, 4)]),
        (RECOVERY, 99, False, []),
        (RECOVERY, -1, True, [Found("error", "checkpoint.negative-offset", RECOVERY, 4)]),
        (WATERMARK, 101, False, [Found("warning", "high-watermark.maybe-beyond", WATERMARK, 4)]),
        (WATERMARK, 101, True, [Found("error", "high-watermark.beyond-end", WATERMARK, 4)]),
        (WATERMARK, 40, True, [Found("info", "high-watermark.below-end", WATERMARK, 4)]),
        (WATERMARK, 40, False, []),
        (LOG_START, 100, True, []),
        (LOG_START, 101, True, [Found("error", "log-start.beyond-end", LOG_START, 4)]),
        (CLEANER, 99, True, []),
        (CLEANER, 101, True, [Found("warning", "cleaner-offset.beyond-end", CLEANER, 4)]),
    ],
)
def test_offsets(tmp_path: Path, name: str, value: int, is_clean: bool, expected: list[Found]) -> None:
    directory = write_log_dir(tmp_path / "a", is_clean=is_clean)
    checkpoint(directory, name, ("t", 0, value))
    assert [item for item in brief(find(directory)) if item != UNCLEAN] == expected


def test_a_watermark_beyond_the_end_may_be_of_a_copy_in_flight(tmp_path: Path) -> None:
    directory = write_log_dir(tmp_path / "a", is_clean=False)
    checkpoint(directory, WATERMARK, ("t", 0, 140))
    (item,) = (item for item in find(directory) if item.path.endswith(WATERMARK))
    assert (item.code, item.severity) == ("high-watermark.maybe-beyond", "warning")
    assert "this is a copy in which the log is older than the checkpoint" in item.message
    checkpoint(directory, RECOVERY, ("t", 0, 101))  # some of what is missing was flushed
    codes = [(item.severity, item.code) for item in find(directory)]
    assert ("error", "high-watermark.beyond-end") in codes


def test_the_log_start_moves_the_bounds(tmp_path: Path) -> None:
    directory = write_log_dir(tmp_path / "a")
    checkpoint(directory, LOG_START, ("t", 0, 60))
    checkpoint(directory, WATERMARK, ("t", 0, 50))
    (item,) = find(directory)
    assert (item.code, item.topic, item.partition, item.offset) == ("high-watermark.below-start", "t", 0, 50)


def test_a_partition_without_segments_has_lost_what_was_flushed(tmp_path: Path) -> None:
    directory = write_log_dir(tmp_path / "a")
    for file in (directory / "t-0").iterdir():
        file.unlink()
    assert [(item.severity, item.code) for item in find(directory)] == [
        ("info", "partition.empty"),
        ("error", "recovery-point.beyond-end"),
        ("error", "high-watermark.beyond-end"),
    ]
    assert {item.next_command for item in find(directory)} == {None}  # no end is known to which to lower them


def test_a_refused_checkpoint_says_nothing_of_partitions(tmp_path: Path) -> None:
    directory = write_log_dir(tmp_path / "a")
    (directory / RECOVERY).write_bytes(build.offset_checkpoint([("t", 0, 7)], count=9))
    assert brief(find(directory)) == [Found("error", "checkpoint.count-mismatch", RECOVERY, 2)]


@pytest.mark.parametrize(("is_clean", "severity"), [(True, "warning"), (False, "info")])
def test_a_partition_that_no_checkpoint_names(tmp_path: Path, is_clean: bool, severity: str) -> None:
    directory = write_log_dir(tmp_path / "a", ["t-0", "t-1"], is_clean=is_clean)
    checkpoint(directory, RECOVERY, ("t", 0, 100))
    assert Found(severity, "recovery-point.none", "t-1", None) in brief(find(directory))


def test_a_file_in_the_place_of_a_partition(tmp_path: Path) -> None:
    """A broker of 4.3 that leads it takes the log directory offline: it cannot create the directory."""
    directory = write_log_dir(tmp_path / "a", ["t-0"])
    (directory / "t-1").write_text("x")
    (directory / "notes-today").write_text("x")
    journal = "kafkalog-undo-20260102T030405Z-1"
    (directory / journal).write_text("x")
    assert {item for item in brief(find(directory)) if item.name in {"t-1", journal}} == {
        Found("warning", "dir.is-a-file", "t-1", None),
        Found("info", "file.journal", journal, None),
    }
    assert [item.code for item in find(directory) if item.path.endswith("notes-today")] == ["file.unknown"]


def test_a_checkpoint_that_names_what_is_not_there(tmp_path: Path) -> None:
    directory = write_log_dir(tmp_path / "a")
    for name in (RECOVERY, WATERMARK):
        checkpoint(directory, name, ("t", 0, 100), ("gone", 3, 7))
    (item,) = find(directory)
    assert brief([item]) == [Found("warning", "checkpoint.no-partition", RECOVERY, 12)]
    assert item.message == "The log directory has no directory of gone-3, which line 4 names."
    assert (item.topic, item.partition, item.offset) == ("gone", 3, 7)


def test_a_checkpoint_of_a_broker_of_which_one_partition_was_copied(tmp_path: Path) -> None:
    """One finding a file, and each partition counts once."""
    directory = write_log_dir(tmp_path / "a")
    entries = [("t", 0, 100), *(("gone", number, 7) for number in range(4000))]
    checkpoint(directory, RECOVERY, *entries)
    checkpoint(directory, WATERMARK, *entries, ("late", 1, 7), ("late", 2, 7))
    first, second = find(directory)
    assert brief([first, second]) == [
        Found("warning", "checkpoint.no-partition", RECOVERY, 15),
        Found("warning", "checkpoint.no-partition", WATERMARK, 15 + sum(len(f"gone {n} 7\n") for n in range(4000))),
    ]
    assert first.message == (
        "The log directory has no directory of gone-0, gone-1, gone-2, gone-3, gone-4 and 3,995 more partitions, which "
        "4,000 lines from line 4 on name."
    )
    assert (first.topic, first.partition, first.offset) == (None, None, None)
    assert "of late-1, late-2, which 2 lines from line 4004 on name." in second.message


def test_partitions_that_were_moved_to_other_dirs(tmp_path: Path) -> None:
    first, second = two_dirs(tmp_path, ("u-0", "u-1", "u-2"))
    for name in ("u-1", "u-2"):
        (second / name).rename(first / name)
    (item,) = (item for item in find(first, second) if item.code == "checkpoint.no-partition")
    assert f"lines from line 4 on name; 2 of them in {first}." in item.message


@pytest.mark.parametrize("name", [RECOVERY, WATERMARK, LOG_START])
@pytest.mark.parametrize(("is_clean", "severity"), [(True, "error"), (False, "warning")])
def test_emptied_checkpoints(tmp_path: Path, name: str, is_clean: bool, severity: str) -> None:
    directory = write_log_dir(tmp_path / "a", is_clean=is_clean)
    (directory / name).write_bytes(b"")
    assert Found(severity, "checkpoint.emptied", name, None) in brief(find(directory))


@pytest.mark.parametrize("name", [RECOVERY, WATERMARK, LOG_START])
def test_missing_checkpoints(tmp_path: Path, name: str) -> None:
    directory = write_log_dir(tmp_path / "a")
    (directory / name).unlink()
    (item,) = find(directory)
    assert brief([item]) == [Found("error", "checkpoint.missing", name, None)]
    mends = f"kafkalog recover {directory}"
    assert item.next_command == (mends if name == RECOVERY else None)  # of the others only a backup has the entries


def test_a_release_without_the_other_checkpoints(tmp_path: Path) -> None:
    """Kafka 0.8.0 writes high watermarks and the mark, and nothing else."""
    directory = write_log_dir(tmp_path / "a")
    for name in (RECOVERY, LOG_START, CLEANER, "meta.properties"):
        (directory / name).unlink()
    for name in ("leader-epoch-checkpoint", "partition.metadata"):
        (directory / "t-0" / name).unlink()
    assert brief(find(directory, formats=["v0"])) == []


# --- ids --------------------------------------------------------------------------------------------------------------
def meta(directory: Path, **changes: str | None) -> None:
    values: dict[str, str | None] = {
        "version": "1",
        "node.id": "1",
        "cluster.id": CLUSTER,
        "directory.id": DIRECTORY_IDS[1],
    }
    values |= {key.replace("_", "."): value for key, value in changes.items()}
    kept = {key: value for key, value in values.items() if value is not None}
    (directory / "meta.properties").write_bytes(build.meta_properties(kept))


def two_dirs(path: Path, second: tuple[str, ...] = ("u-0",)) -> tuple[Path, Path]:
    return write_log_dir(path / "a", ["t-0"]), write_log_dir(path / "b", second, number=1)


def test_two_healthy_dirs(tmp_path: Path) -> None:
    assert brief(find(*two_dirs(tmp_path))) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"cluster_id": "QmFkQ2x1c3RlcklkMTIzNA"}, [("error", "dir.other-cluster")]),
        ({"node_id": "2"}, [("info", "dir.other-node")]),
        ({"directory_id": DIRECTORY_IDS[0]}, [("error", "dir.same-directory-id")]),
        ({"directory_id": None}, [("info", "meta.no-directory-id"), ("warning", "dir.without-directory-id")]),
    ],
)
def test_meta_properties_of_two_dirs(
    tmp_path: Path, changes: dict[str, str | None], expected: list[tuple[str, str]]
) -> None:
    first, second = two_dirs(tmp_path)
    meta(second, **changes)
    findings = find(first, second)
    assert [(item.severity, item.code) for item in findings] == expected
    assert {item.path for item in findings} == {f"{second}/meta.properties"}


def test_one_dir_of_a_kraft_broker_without_meta_properties(tmp_path: Path) -> None:
    first, second = two_dirs(tmp_path)
    (second / "meta.properties").unlink()
    assert Found("error", "meta.missing-kraft", "meta.properties", None) in brief(find(first, second))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"node.id=1\ncluster.id=JP8dLpwyRqt7lTsK7P_TbQ\n", "meta.no-version"),
        (b"veRsion=0\nbroker.id=1\n", "meta.no-version"),
        (b"version= \nbroker.id=1\n", "meta.unsupported-version"),
        (b"version=0\ncluster.id=JP8dLpwyRqt7lTsK7P_TbQ\n", "meta.no-broker-id"),
    ],
)
def test_a_version_that_no_broker_writes(tmp_path: Path, text: bytes, expected: str) -> None:
    directory = write_log_dir(tmp_path / "a")
    (directory / "meta.properties").write_bytes(text)
    assert ("error", expected) in [(item.severity, item.code) for item in find(directory)]


@pytest.mark.parametrize(
    ("kept", "is_told"),
    [
        ((LOG_START,), True),
        (("leader-epoch-checkpoint",), True),
        (("partition.metadata",), True),
        ((), False),
    ],
)
def test_meta_properties_that_must_have_been_there(tmp_path: Path, kept: tuple[str, ...], is_told: bool) -> None:
    directory = write_log_dir(tmp_path / "a")
    for path in (LOG_START, "t-0/leader-epoch-checkpoint", "t-0/partition.metadata", "meta.properties"):
        if path.rpartition("/")[2] not in kept:
            (directory / path).unlink()
    found_here = [(item.severity, item.code) for item in find(directory, formats=["v0"])]
    assert (("error", "meta.missing") in found_here) == is_told
    assert len([code for _, code in found_here if code == "meta.missing"]) == is_told


def test_a_dir_that_was_not_closed(tmp_path: Path) -> None:
    first, second = two_dirs(tmp_path)
    (second / ".kafka_cleanshutdown").unlink()
    assert brief(find(first, second))[-1] == Found("warning", "dir.unclean-beside-clean", ".kafka_cleanshutdown", None)


def test_a_directory_of_the_metadata_log_alone_is_never_marked(tmp_path: Path) -> None:
    """A `metadata.log.dir` that is none of `log.dirs` has no clean shutdown file after a clean stop of 4.3.1."""
    first, second = two_dirs(tmp_path)
    (second / ".kafka_cleanshutdown").unlink()
    (second / "u-0").rename(second / "__cluster_metadata-0")
    assert "dir.unclean-beside-clean" not in {item.code for item in brief(find(first, second))}


# --- partitions in several places -------------------------------------------------------------------------------------
def test_a_partition_in_two_dirs(tmp_path: Path) -> None:
    first, second = two_dirs(tmp_path, ("t-0",))
    assert brief(find(first, second)) == [Found("error", "dir.in-two-log-dirs", "t-0", None)]


def test_a_replica_on_another_broker_is_no_second_copy(tmp_path: Path) -> None:
    first, second = two_dirs(tmp_path, ("t-0",))
    meta(second, node_id="2")
    assert [item.code for item in find(first, second)] == ["dir.other-node"]


def test_directories_of_several_brokers_are_checked_broker_by_broker(tmp_path: Path) -> None:
    dirs = [write_log_dir(tmp_path / f"{number}", ["u-0" if number % 2 else "t-0"]) for number in range(6)]
    for number, directory in enumerate(dirs):
        meta(directory, node_id=str(number // 2 + 1), directory_id="BCDEFG"[number] * 21 + "A")
    found_here = [item for item in find(*dirs) if item.code.startswith("dir.")]
    assert [(item.severity, item.code, item.path.split("/")[-2]) for item in found_here] == [
        ("info", "dir.other-node", "2"),
        ("info", "dir.other-node", "4"),
    ], "once for each further broker, and none of two replicas is a second copy"
    meta(dirs[3], node_id="2", directory_id="E" * 21 + "A", cluster_id="QmFkQ2x1c3RlcklkMTIzNA")
    wrong = [item for item in find(*dirs) if item.code == "dir.other-cluster"]
    assert [item.path for item in wrong] == [f"{dirs[3]}/meta.properties"]
    assert wrong[0].message.endswith(f"but {dirs[2]} has JP8dLpwyRqt7lTsK7P_TbQ.")


def test_a_partition_that_moves(tmp_path: Path) -> None:
    first, second = two_dirs(tmp_path)
    write_partition(second / f"t-0.{UUID}-future", topic_id="t" + "A" * 21)
    assert [(item.severity, item.code) for item in find(first, second)] == [
        ("info", "dir.future"),
        ("info", "dir.moving"),
    ]


def test_a_partition_that_moves_within_one_dir(tmp_path: Path) -> None:
    directory = write_log_dir(tmp_path / "a")
    shutil.copytree(directory / "t-0", directory / f"t-0.{UUID}-future")
    assert ("error", "dir.future-beside-current") in [(item.severity, item.code) for item in find(directory)]


def test_a_partition_that_was_moved_by_hand(tmp_path: Path) -> None:
    first, second = two_dirs(tmp_path, ("u-0", "u-1"))
    (second / "u-1").rename(first / "u-1")
    findings = find(first, second)
    assert [(item.severity, item.code) for item in findings] == [
        ("warning", "recovery-point.none"),
        ("warning", "checkpoint.no-partition"),
    ]
    assert f"there is one in {first}" in findings[1].message


def test_two_metadata_logs(tmp_path: Path) -> None:
    first, second = two_dirs(tmp_path)
    for directory in (first, second):
        write_partition(directory / "__cluster_metadata-0", topic_id="A" * 21 + "Q")
    assert Found("error", "dir.second-metadata-log", "__cluster_metadata-0", None) in brief(find(first, second))


# --- topic ids --------------------------------------------------------------------------------------------------------
def topic_id(directory: Path, value: str) -> None:
    (directory / "partition.metadata").write_bytes(build.partition_metadata(value))


def test_partitions_of_a_topic_with_different_ids(tmp_path: Path) -> None:
    directory = write_log_dir(tmp_path / "a", ["t-0", "t-1"])
    topic_id(directory / "t-1", "x" * 21 + "A")
    (item,) = find(directory)
    assert (item.severity, item.code) == ("error", "partition-metadata.other-topic-id")
    assert item.path == f"{directory}/t-1/partition.metadata"
    assert item.next_command == f"kafkalog verify {directory} OTHER_LOG_DIR"  # the metadata log has the right one


def test_topics_with_one_id(tmp_path: Path) -> None:
    directory = write_log_dir(tmp_path / "a", ["t-0", "u-0"])
    topic_id(directory / "u-0", "t" + "A" * 21)
    assert [item.code for item in find(directory)] == ["partition-metadata.shared-topic-id"]


@pytest.mark.parametrize(("version", "codes"), [(0, []), (1, ["partition-metadata.odd-version"])])
def test_the_version_of_partition_metadata(tmp_path: Path, version: int, codes: list[str]) -> None:
    directory = write_log_dir(tmp_path / "a")
    path = directory / "t-0" / "partition.metadata"
    path.write_bytes(path.read_bytes().replace(b"version: 0", b"version: %d" % version))
    assert [item.code for item in find(directory)] == codes


@pytest.mark.parametrize(
    ("formats", "text", "codes"),
    [
        (["v1", "v2"], b"0\n", ["epochs.cut"]),
        (["v1", "v2"], b"0\n0\n", []),
        (["v1", "v2"], b"", []),
        (["v1"], b"0\n", []),
    ],
)
def test_leader_epochs_that_end_behind_the_version(
    tmp_path: Path, formats: list[str], text: bytes, codes: list[str]
) -> None:
    directory = write_log_dir(tmp_path / "a")
    (directory / "t-0" / "leader-epoch-checkpoint").write_bytes(text)
    assert [item.code for item in find(directory, formats=formats)] == codes


def test_a_partition_set_aside_may_have_an_older_id(tmp_path: Path) -> None:
    directory = write_log_dir(tmp_path / "a")
    write_partition(directory / f"t-0.{UUID}-stray", topic_id="x" * 21 + "A")
    assert [item.code for item in find(directory)] == ["dir.stray"]


# --- what is missing in a partition -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "code"),
    [("leader-epoch-checkpoint", "epochs.missing"), ("partition.metadata", "partition-metadata.missing")],
)
def test_missing_small_files(tmp_path: Path, name: str, code: str) -> None:
    directory = write_log_dir(tmp_path / "a")
    (directory / "t-0" / name).unlink()
    assert brief(find(directory)) == [Found("error", code, name, None)]


def test_a_metadata_log_needs_no_file_of_its_epochs(tmp_path: Path) -> None:
    directory = write_log_dir(tmp_path / "a")
    write_partition(directory / "__cluster_metadata-0")
    (directory / "__cluster_metadata-0" / "leader-epoch-checkpoint").unlink()
    assert "epochs.missing" not in {item.code for item in find(directory)}


def test_a_bare_partition_is_not_a_brokers(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(bytes(100))
    assert [(item.severity, item.code) for item in find(tmp_path / "t-0")] == [("warning", "segment.index-missing")]


def segments(path: Path, count: int) -> Path:
    partition = write_partition(path)
    for index in range(1, count):
        for suffix in ("log", "index", "timeindex"):
            (partition / f"{index * 10:020d}.{suffix}").write_bytes(bytes(100) if suffix == "log" else b"")
    return partition


@pytest.mark.parametrize(("suffix"), ["index", "timeindex"])
def test_a_lost_index(tmp_path: Path, suffix: str) -> None:
    """That of the active segment may not have been made yet; one of a closed segment has been."""
    partition = segments(tmp_path / "t-0", 3)
    for base_offset in (10, 20):
        (partition / f"{base_offset:020d}.{suffix}").unlink()
    assert brief(find(partition)) == [
        Found("error", f"segment.{suffix}-missing", f"{10:020d}.log", None),
        Found("warning", f"segment.{suffix}-missing", f"{20:020d}.log", None),
    ]


def test_an_index_that_compaction_has_not_renamed_yet(tmp_path: Path) -> None:
    partition = segments(tmp_path / "t-0", 3)
    (partition / f"{10:020d}.index").rename(partition / f"{10:020d}.index.swap")
    assert ("warning", "segment.index-missing") in [(item.severity, item.code) for item in find(partition)]


def test_a_copy_without_any_index_is_one_finding(tmp_path: Path) -> None:
    partition = segments(tmp_path / "t-0", 4)
    for file in [*partition.glob("*.index"), *partition.glob("*.timeindex")]:
        file.unlink()
    assert brief(find(partition)) == [Found("warning", "partition.no-companions", "t-0", None)]


def test_a_replacement_without_its_index(tmp_path: Path) -> None:
    partition = segments(tmp_path / "t-0", 3)
    (partition / f"{10:020d}.log.swap").write_bytes(bytes(50))
    assert ("error", "segment.swap-index-missing") in [(item.severity, item.code) for item in find(partition)]
    (partition / f"{10:020d}.index.cleaned").touch()  # a crash between two renames
    assert ("warning", "segment.swap-index-missing") in [(item.severity, item.code) for item in find(partition)]


def test_an_index_that_would_replace_another_one(tmp_path: Path) -> None:
    """The log of a replacement is renamed before its indexes, and those that it replaces have gone by then."""
    partition = segments(tmp_path / "t-0", 3)
    (partition / f"{10:020d}.index.swap").touch()
    assert brief(find(partition)) == [Found("error", "segment.swap", f"{10:020d}.index.swap", None)]


def test_a_segment_of_redpanda(tmp_path: Path) -> None:
    partition = segments(tmp_path / "t-0", 2)
    (partition / "0-1-v1.log").touch()
    (partition / "0-1-v1.base_index").touch()
    assert brief(find(partition)) == [
        Found("info", "segment.redpanda", "0-1-v1.base_index", None),
        Found("error", "segment.redpanda", "0-1-v1.log", None),
    ]


# --- damage -----------------------------------------------------------------------------------------------------------
def segment_verdict(path: str) -> SegmentVerdict:
    return SegmentVerdict(
        path=path,
        base_offset=0,
        size_bytes=100,
        is_last=True,
        mtime_ms=0,
        batches=1,
        records=100,
        first_offset=0,
        last_offset=99,
        first_timestamp_ms=None,
        max_timestamp_ms=None,
        formats=("v2",),
        epochs=(),
        is_thinned=False,
        gaps=(),
        gap_count=0,
        damage=((40, 60),),
        lost_offsets=(),
        findings=(),
    )


def test_damage_is_told_with_what_this_broker_will_do(tmp_path: Path) -> None:
    directory = write_log_dir(tmp_path / "a")
    (target,) = resolve([str(directory)])
    assert isinstance(target, LogDirTarget)
    log_dirs = LogDirs([target])
    log_dirs.context(target, target.partitions[0])
    path = f"{directory}/t-0"
    log = directory / "t-0" / f"{0:020d}.log"
    position = log.stat().st_size
    log.write_bytes(log.read_bytes() + bytes(60))
    damage = found("log.zero-tail", str(log), position=position, size_bytes=60, lost="")
    verdict = PartitionVerdict(
        path=path,
        topic="t",
        partition=0,
        segments=(segment_verdict(f"{path}/{0:020d}.log"),),
        findings=(damage,),
        log_start_offset=0,
        log_end_offset=100,
        at_risk_bytes=0,
    )
    (item,) = log_dirs.with_findings(verdict).findings
    assert item.severity == "error"
    assert (item.broker_action or "").startswith("Does not start")
    assert "kafkalog recover" in (item.cure or "")
