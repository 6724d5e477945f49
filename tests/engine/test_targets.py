"""From paths and selections to targets: what is recognised, what is refused in which words, and the order."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import crc32c
import pytest

from kafkalog_core.engine.targets import FileTarget, LogDirTarget, PartitionTarget, Target, resolve
from kafkalog_core.errors import (
    AccessError,
    KafkalogError,
    NotFoundError,
    UnknownFileError,
    UnsupportedError,
)
from kafkalog_core.format.names import FileKind
from kafkalog_core.storage.source import Source, UnreadableError

LOG = "00000000000000000000.log"
EMPTY_SNAPSHOT = bytes.fromhex("000148674bc700000000")  # written by Kafka 4.3.1
OLD_MESSAGE = bytes.fromhex("0000000701008cdc168378")  # written by Kafka 0.7.2: value "x"


def partition(path: Path, *names: str) -> Path:
    path.mkdir(parents=True)
    for name in names or (LOG, "00000000000000000000.index"):
        (path / name).write_bytes(b"\0" * 8)
    return path


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A broker's log directory with topics `orders` (0, 2, 10) and `pay.ments` (0)."""
    home = tmp_path / "data"
    for name in ("orders-10", "orders-2", "orders-0", "pay.ments-0"):
        partition(home / name)
    (home / "meta.properties").touch()
    (home / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    return home


def one(path: Path | str) -> Target:
    (target,) = resolve([str(path)])
    return target


def names(target: Target) -> list[str]:
    assert isinstance(target, LogDirTarget)
    return [place.name.raw for place in target.partitions]


# --- kinds of targets -------------------------------------------------------------------------------------------------
def test_a_log_directory(log_dir: Path) -> None:
    target = one(log_dir)
    assert names(target) == ["orders-0", "orders-2", "orders-10", "pay.ments-0"]
    assert isinstance(target, LogDirTarget)
    assert (target.path, target.is_whole, target.log_dir.is_broker_dir) == (str(log_dir), True, True)


def test_a_log_directory_without_partitions(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").touch()
    assert names(one(tmp_path)) == []


def test_partitions_that_somebody_copied_somewhere(tmp_path: Path) -> None:
    partition(tmp_path / "case" / "t-0")
    (tmp_path / "case" / "notes").mkdir()
    target = one(tmp_path / "case")
    assert names(target) == ["t-0"]


def test_a_partition(log_dir: Path) -> None:
    target = one(log_dir / "orders-2")
    assert isinstance(target, PartitionTarget)
    assert (target.path, target.log_dir) == (str(log_dir / "orders-2"), str(log_dir))
    found = target.read()
    assert (found.topic, found.partition, len(found.segments)) == ("orders", 2, 1)


def test_a_partition_by_a_link(log_dir: Path, tmp_path: Path) -> None:
    """The name given counts; where it is of no partition, that of the directory behind it."""
    for link in ("mine-5", "current"):
        (tmp_path / link).symlink_to(log_dir / "orders-2")
    for link, topic, number in (("mine-5", "mine", 5), ("current", "orders", 2)):
        target = one(tmp_path / link)
        assert isinstance(target, PartitionTarget)
        assert (target.place.name.topic, target.place.name.partition) == (topic, number)
        assert (target.read().topic, target.log_dir) == (topic, str(log_dir))
        file = one(tmp_path / link / LOG)
        assert isinstance(file, FileTarget)
        assert (file.topic, file.partition) == (topic, number)


def test_a_link_in_a_log_directory(log_dir: Path) -> None:
    (log_dir / "linked-1").symlink_to("orders-2")
    (log_dir / "orders-2").rename(log_dir.parent / "elsewhere")
    (log_dir / "linked-1").unlink()
    (log_dir / "linked-1").symlink_to(log_dir.parent / "elsewhere")
    assert names(one(log_dir)) == ["linked-1", "orders-0", "orders-10", "pay.ments-0"]


def test_a_partition_that_is_not_in_a_brokers_directory(tmp_path: Path) -> None:
    target = one(partition(tmp_path / "t-0"))
    assert isinstance(target, PartitionTarget)
    assert target.log_dir is None


@pytest.mark.parametrize("name", ["t-0", "saved", "t-0.0-delete"])
def test_a_directory_with_segments_is_a_partition_whatever_its_name(tmp_path: Path, name: str) -> None:
    assert isinstance(one(partition(tmp_path / name)), PartitionTarget)


def test_an_empty_directory_in_a_log_directory_is_a_partition(tmp_path: Path, log_dir: Path) -> None:
    for home in (tmp_path, log_dir):
        (home / "t-0").mkdir()
    assert isinstance(one(log_dir / "t-0"), PartitionTarget)
    with pytest.raises(UnknownFileError, match="empty directory"):
        resolve([str(tmp_path / "t-0")])


@pytest.mark.parametrize("name", ["kafka-1", "t-0"])
def test_a_log_directory_named_like_a_partition_is_one(log_dir: Path, name: str) -> None:
    (log_dir / "bootstrap.checkpoint").touch()
    renamed = log_dir.rename(log_dir.parent / name)
    assert len(names(one(renamed))) == 4
    (renamed / LOG).touch()
    assert len(names(one(renamed))) == 4


def test_a_partition_stays_one_whatever_is_put_into_it(tmp_path: Path) -> None:
    home = partition(tmp_path / "t-0")
    partition(home / "saved-0")
    assert isinstance(one(home), PartitionTarget)
    shutil.rmtree(home / "saved-0")
    (home / "meta.properties").touch()
    assert isinstance(one(home), PartitionTarget)


@pytest.mark.parametrize("name", ["00000000000000000000.kafka", "leader-epoch-checkpoint", "partition.metadata"])
def test_a_partition_by_any_file_of_one(tmp_path: Path, name: str) -> None:
    assert isinstance(one(partition(tmp_path / "t-0", name)), PartitionTarget)


def test_the_directory_that_one_stands_in(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(log_dir / "orders-2")
    target = one(".")
    assert isinstance(target, PartitionTarget)
    assert (target.place.name.topic, target.log_dir) == ("orders", str(log_dir))


def test_a_file(log_dir: Path) -> None:
    target = one(log_dir / "orders-2" / LOG)
    assert isinstance(target, FileTarget)
    assert (target.kind, target.topic, target.partition) == (FileKind.LOG, "orders", 2)
    assert (target.path, target.file.size_bytes) == (str(log_dir / "orders-2" / LOG), 8)


def test_a_file_at_the_top_of_a_log_directory(log_dir: Path) -> None:
    target = one(log_dir / "recovery-point-offset-checkpoint")
    assert isinstance(target, FileTarget)
    assert (target.kind, target.topic, target.partition) == (FileKind.RECOVERY_POINT, None, None)


def test_an_empty_file_is_what_its_name_says(tmp_path: Path) -> None:
    (tmp_path / LOG).touch()
    target = one(tmp_path / LOG)
    assert isinstance(target, FileTarget)
    assert target.kind is FileKind.LOG


def test_a_file_in_the_directory_that_one_stands_in(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(log_dir / "orders-2")
    (target,) = resolve([LOG, "."])
    assert isinstance(target, PartitionTarget)
    target = one(LOG)
    assert isinstance(target, FileTarget)
    assert (target.path, target.topic) == (LOG, "orders")


def test_a_cache_of_remote_indexes(tmp_path: Path) -> None:
    cache = tmp_path / "remote-log-index-cache"
    partition(cache, *(f"0_AAAAAAAAAAAAAAAAAAAAAQ.{kind}" for kind in ("index", "timeindex", "txnindex")))
    targets = resolve([str(cache)])
    assert [target.kind for target in targets if isinstance(target, FileTarget)] == [
        FileKind.REMOTE_OFFSET_INDEX,
        FileKind.REMOTE_TIME_INDEX,
        FileKind.REMOTE_TXN_INDEX,
    ]


def test_files_without_a_telling_name_are_known_by_their_content(tmp_path: Path) -> None:
    contents = {
        "snapshot.saved": (EMPTY_SNAPSHOT, FileKind.SNAPSHOT),
        "epochs.tmp": (b"0\n1\n0 0\n", FileKind.LEADER_EPOCH),
        "offsets": (b"0\n1\norders 0 17\n", FileKind.OFFSET_CHECKPOINT),
        "renamed": (OLD_MESSAGE, FileKind.LOG_V07),
    }
    for name, (content, kind) in contents.items():
        (tmp_path / name).write_bytes(content)
        target = one(tmp_path / name)
        assert isinstance(target, FileTarget)
        assert target.kind is kind


@pytest.mark.parametrize("name", [LOG, "backup.log"])
def test_a_log_of_garbage_is_a_log(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x00\x01\xff" * 40)
    target = one(tmp_path / name)
    assert isinstance(target, FileTarget)
    assert target.kind is FileKind.LOG


def test_a_log_that_begins_like_something_else_is_a_log_where_its_name_has_an_offset(tmp_path: Path) -> None:
    (tmp_path / LOG).write_bytes(b"\xff\xd8\xff\xe0\x00\x10JFIF")
    assert isinstance(one(tmp_path / LOG), FileTarget)


def test_a_log_whose_first_block_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object, position: int, size_bytes: int) -> bytes:
        raise UnreadableError(str(tmp_path / LOG), position, size_bytes)

    (tmp_path / LOG).write_bytes(bytes(100))
    monkeypatch.setattr(Source, "read", refuse)
    assert isinstance(one(tmp_path / LOG), FileTarget)


# --- what is refused --------------------------------------------------------------------------------------------------
def refusal(*paths: Path | str) -> KafkalogError:
    with pytest.raises(KafkalogError) as caught:
        resolve([str(path) for path in paths])
    assert "\n" not in str(caught.value)
    return caught.value


def test_the_others_among_several(log_dir: Path) -> None:
    """The caller learns of each path that cannot be read; patterns and what they match are several paths too."""
    (log_dir.parent / "empty").mkdir()
    gone = str(log_dir / "gone")
    told: list[str | None] = []
    paths = [gone, str(log_dir.parent / "*"), str(log_dir / "orders-0"), str(log_dir / "nothing*")]
    (target,) = resolve(paths, on_refusal=lambda error: told.append(error.path))
    assert target.path == str(log_dir)
    assert told == [gone, str(log_dir.parent / "empty"), str(log_dir / "nothing*")]
    with pytest.raises(NotFoundError, match="gone"):
        resolve(paths)


def test_none_among_several(tmp_path: Path) -> None:
    """The last one is raised: what the caller has been told of is not told twice."""
    told: list[str | None] = []
    with pytest.raises(NotFoundError, match="second"):
        resolve([str(tmp_path / "first"), str(tmp_path / "second")], on_refusal=lambda error: told.append(error.path))
    assert told == [str(tmp_path / "first")]


def test_a_missing_path(tmp_path: Path) -> None:
    error = refusal(tmp_path / "missing")
    assert isinstance(error, NotFoundError)
    assert str(error) == f"{tmp_path}/missing: no such file or directory"
    assert isinstance(refusal(tmp_path / "missing" / LOG), NotFoundError)
    assert isinstance(refusal(""), NotFoundError)


def test_a_pattern_that_matches_nothing(tmp_path: Path) -> None:
    error = refusal(tmp_path / "*.log")
    assert isinstance(error, NotFoundError)
    assert "matches this pattern" in str(error)


def test_a_link_that_leads_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    error = refusal(tmp_path / "a")
    assert isinstance(error, AccessError)
    assert "circle" in str(error)


def test_a_directory_that_may_not_be_listed(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)
    error = refusal(log_dir)
    assert isinstance(error, AccessError)
    assert "permission" in str(error)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_a_directory_that_may_be_listed_but_not_entered() -> None:
    with tempfile.TemporaryDirectory() as directory:  # pytest's own may not be entered by others
        Path(directory).chmod(0o755)
        home = partition(Path(directory) / "t-0")
        home.chmod(0o744)
        (Path(directory) / "meta.properties").touch()
        script = "import os; from kafkalog_cli.__main__ import main; import kafkalog_cli.commands.dump\n"
        script += "import kafkalog_cli.render.writers, kafkalog_cli.render.summary, kafkalog_core.ops.dump.parallel\n"
        script += "os.setegid(65534); os.seteuid(65534); main()"
        runs = [
            subprocess.run([sys.executable, "-c", script, "dump", path], capture_output=True, text=True, check=False)
            for path in (str(home), directory)
        ]
    said = [(run.returncode, "no permission to enter its directory" in run.stdout + run.stderr) for run in runs]
    assert said == [(3, True), (3, True)]
    assert "file.permission-denied" in runs[1].stdout


def test_what_is_neither_file_nor_directory(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert isinstance(refusal(tmp_path / "pipe"), AccessError)


def test_an_empty_directory(tmp_path: Path) -> None:
    error = refusal(tmp_path)
    assert isinstance(error, UnknownFileError)
    assert "empty directory" in str(error)
    assert str(error).endswith(f": find {tmp_path.parent} -name recovery-point-offset-checkpoint")


def test_a_data_directory_of_zookeeper_names_the_command_that_reads_it(tmp_path: Path) -> None:
    (tmp_path / "version-2").mkdir()
    assert str(refusal(tmp_path)).endswith(f"it is a data directory of ZooKeeper: kafkalog cluster {tmp_path}")


def test_a_directory_of_no_partition_within_a_log_directory_names_that_one(log_dir: Path) -> None:
    (log_dir / "lost+found").mkdir(exist_ok=True)
    assert str(refusal(log_dir / "lost+found")).endswith(f"it is in a log directory: kafkalog verify {log_dir}")


def test_a_directory_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "syslog.log").touch()
    partition(tmp_path / "python-3", "README")
    error = refusal(tmp_path)
    assert isinstance(error, UnknownFileError)
    assert "no partition directories and no segment files in it" in str(error)
    assert isinstance(refusal(tmp_path / "python-3"), UnknownFileError)


def test_a_directory_of_log_directories_names_them(tmp_path: Path, log_dir: Path) -> None:
    shutil.copytree(log_dir, tmp_path / "more")
    partition(tmp_path / "case" / "t-0")
    (tmp_path / "other" / "deeper").mkdir(parents=True)
    error = refusal(tmp_path)
    assert isinstance(error, UnknownFileError)
    assert str(error).endswith(", but in 'case', 'data', 'more'")
    assert error.inside == tuple(str(tmp_path / name) for name in ("case", "data", "more"))


def test_a_directory_of_volumes_names_the_log_directories_in_them(tmp_path: Path, log_dir: Path) -> None:
    shutil.copytree(log_dir, tmp_path / "disks" / "pvc-1" / "kafka-log0")
    (tmp_path / "disks" / "pvc-2").mkdir()
    error = refusal(tmp_path / "disks")
    assert isinstance(error, UnknownFileError)
    assert error.inside == (str(tmp_path / "disks" / "pvc-1" / "kafka-log0"),)


def test_a_lock(log_dir: Path) -> None:
    (log_dir / ".lock").touch()
    assert isinstance(refusal(log_dir / ".lock"), UnknownFileError)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("photo.jpg", b"\xff\xd8\xff\xe0\x00\x10JFIF", "a JPEG image"),
        ("notes.txt", b"some words\n", "text"),
        ("notes.log", b"some words\n", "text"),
        ("empty", b"", "an empty file"),
        ("zeros", bytes(100), "zeros"),
    ],
)
def test_a_file_of_something_else(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    error = refusal(tmp_path / name)
    assert isinstance(error, UnknownFileError)
    assert words in str(error)


def test_redpanda(tmp_path: Path) -> None:
    inner = partition(tmp_path / "kafka" / "orders" / "0_12", "0-1-v1.log", "0-1-v1.base_index")
    (tmp_path / "redpanda").mkdir()
    for path in (tmp_path, tmp_path / "kafka", tmp_path / "kafka" / "orders", inner, inner / "0-1-v1.log"):
        error = refusal(path)
        assert isinstance(error, UnsupportedError)
        assert "Redpanda" in str(error)


def test_a_file_of_redpanda_under_another_name(tmp_path: Path) -> None:
    body = bytes(53)
    header = struct.pack("<i", 61) + body  # sizes are little-endian there, and its header has a checksum of its own
    batch = struct.pack("<I", crc32c.crc32c(header)) + header
    for name in ("saved", LOG):
        (tmp_path / name).write_bytes(batch)
        assert isinstance(refusal(tmp_path / name), UnsupportedError)


# --- globs, repeats and order -----------------------------------------------------------------------------------------
def test_a_pattern_is_expanded(log_dir: Path) -> None:
    targets = resolve([f"{log_dir}/orders-*"])
    assert [Path(target.path).name for target in targets] == ["orders-0", "orders-2", "orders-10"]
    logs = resolve([f"{log_dir}/**/*.log"])
    assert [Path(target.path).parent.name for target in logs] == ["orders-0", "orders-2", "orders-10", "pay.ments-0"]


def test_a_path_that_looks_like_a_pattern_and_exists_is_a_path(tmp_path: Path) -> None:
    partition(tmp_path / "[t]-0")
    partition(tmp_path / "t-0")
    assert one(tmp_path / "[t]-0").path == str(tmp_path / "[t]-0")


def test_each_target_comes_once(log_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(log_dir / "orders-2")
    path = str(log_dir / "orders-2")
    assert len(resolve([path, f"{path}/", str(tmp_path / "link"), f"{path}/../orders-2"])) == 1
    assert len(resolve([f"{path}/{LOG}", f"{path}/./{LOG}"])) == 1
    assert names(one(log_dir)) == names(resolve([path, str(log_dir), str(log_dir)])[0])
    assert len(resolve([path, str(log_dir), f"{path}/{LOG}"])) == 1


def test_an_index_named_beside_its_partition_stays(log_dir: Path) -> None:
    index = log_dir / "orders-2" / "00000000000000000000.index"
    targets = resolve([str(index), str(log_dir / "orders-2")])
    assert [type(target) for target in targets] == [PartitionTarget, FileTarget]


def test_one_partition_linked_into_two_log_directories_comes_once(log_dir: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    partition(other / "t-0")
    (other / "orders-2").symlink_to(log_dir / "orders-2")
    targets = resolve([str(log_dir), str(other)])
    assert [names(target) for target in targets] == [["orders-0", "orders-2", "orders-10", "pay.ments-0"], ["t-0"]]


def test_order_does_not_follow_the_command_line(log_dir: Path) -> None:
    paths = [str(path) for path in (log_dir / "orders-10", log_dir / "orders-2", log_dir / "meta.properties")]
    expected = [target.path for target in resolve(paths)]
    assert [target.path for target in resolve(paths[::-1])] == expected
    assert [Path(path).name for path in expected][-2:] == ["orders-2", "orders-10"]


def test_segments_are_in_order_of_their_offsets(tmp_path: Path) -> None:
    home = partition(tmp_path / "t-0", "00000000000000000009.log", "10.log", "00000000000000000200.log")
    targets = resolve([str(path) for path in home.iterdir()])
    assert [target.file.name.base_offset for target in targets if isinstance(target, FileTarget)] == [9, 10, 200]
