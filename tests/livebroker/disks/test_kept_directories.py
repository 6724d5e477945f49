"""What clients of a live broker cannot destroy: directories that were there, what links lead to, reserved names."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from kafkalog_core.errors import RefusedError
from kafkalog_core.wire.error_codes import ErrorCode
from tests.support.live import QUIET, SECONDS, LiveServer, read_all
from tests.support.live_state import Live, batch_of, living
from tests.support.repairs import DyingDisk, Killed, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafkalog_core.livebroker.disks.live_disks import LiveDisks


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log directory with two topics, which was stopped cleanly."""
    directory = tmp_path / "log"
    directory.mkdir()
    with living(directory) as live:
        live.create("orders", 2)
        live.create("keep")
        for number in (0, 1):
            assert live.produce("orders", batch_of(b"a", b"b"), number)["error_code"] == 0
    return directory


def metadata(live: Live, name: str) -> int:
    """The error of a topic in a Metadata request that may create it."""
    answer = live.ask("Metadata", 7, topics=[{"name": name}], allow_auto_topic_creation=True)
    code: int = answer["topics"][0]["error_code"]
    return code


def create(live: Live, name: str) -> int:
    """Create a topic of two partitions."""
    code: int = live.create(name, 2)["error_code"]
    return code


def grow(live: Live, name: str) -> int:
    """Give a topic a third partition."""
    topics = [{"name": name, "count": 3, "assignments": None}]
    answer = live.ask("CreatePartitions", 2, topics=topics, timeout_ms=0, validate_only=False)
    code: int = answer["results"][0]["error_code"]
    return code


def delete(live: Live, name: str) -> int:
    """Delete a topic."""
    code: int = live.ask("DeleteTopics", 4, topic_names=[name], timeout_ms=0)["responses"][0]["error_code"]
    return code


def produce(live: Live, name: str) -> int:
    """Send a batch to partition 0."""
    code: int = live.produce(name, batch_of(b"x"))["error_code"]
    return code


# --- names ------------------------------------------------------------------------------------------------------------
def test_no_client_touches_the_metadata_log(root: Path) -> None:
    """`ControllerApis.createTopics`; to brokers it is no topic."""
    with living(root) as live:
        old = snapshot(root / "__cluster_metadata-0")
        assert live.create("__cluster_metadata")["error_code"] == ErrorCode.INVALID_REQUEST
        for act in (metadata, produce, delete):
            assert act(live, "__cluster_metadata") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert snapshot(root / "__cluster_metadata-0") == old
        assert live.failures == []
        assert create(live, "more") == 0
    with living(root) as live:
        assert {"orders", "keep", "more"} <= live.disks.topics.keys()


def test_a_topic_cannot_have_the_name_of_an_undo_journal(root: Path) -> None:
    with living(root) as live:
        for name in ("kafkalog-undo-20260102T030405Z", "kafkalog-undo-20260102T030405Z-1"):
            assert create(live, name) == ErrorCode.INVALID_REQUEST
            assert metadata(live, name) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert create(live, "kafkalog-undo") == 0
    assert not list(root.glob("kafkalog-undo-2*"))


# --- directories that were there --------------------------------------------------------------------------------------
@pytest.mark.parametrize("act", [create, metadata])
def test_a_directory_that_the_metadata_log_does_not_know_is_kept(root: Path, act: Callable[[Live, str], int]) -> None:
    shutil.copytree(root / "orders-0", root / "old-1")
    old = snapshot(root / "old-1")
    with living(root, None, "num.partitions=2") as live:
        codes = {act(live, "old") for _ in range(3)}
        assert codes == {ErrorCode.KAFKA_STORAGE_ERROR if act is create else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert len(live.failures) == 1
        assert f"{root}/old-1: is there already" in live.failures[0]
        assert snapshot(root / "old-1") == old
        assert sorted(path.name for path in root.glob("old-*")) == ["old-1"], "what was made is taken back"
        (root / "old-1").rename(root.parent / "old-1")
        act(live, "old")
        assert produce(live, "old") == 0
    assert snapshot(root.parent / "old-1") == old


def test_a_topic_that_grows_keeps_what_is_in_its_way(root: Path) -> None:
    shutil.copytree(root / "orders-0", root / "orders-2")
    (root / "keep-2").write_bytes(b"a file")
    old = snapshot(root / "orders-2")
    with living(root) as live:
        assert grow(live, "orders") == ErrorCode.KAFKA_STORAGE_ERROR
        assert grow(live, "keep") == ErrorCode.KAFKA_STORAGE_ERROR
        assert snapshot(root / "orders-2") == old
        assert (root / "keep-2").read_bytes() == b"a file"
        assert [produce(live, name) for name in ("orders", "keep")] == [0, 0]


def test_a_topic_whose_directories_are_gone_is_not_created_a_second_time(root: Path) -> None:
    """Two topics of one name in a metadata log stop a controller."""
    shutil.rmtree(root / "keep-0")
    with living(root) as live:
        assert live.create("keep")["error_code"] == ErrorCode.TOPIC_ALREADY_EXISTS
        assert metadata(live, "keep") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not (root / "keep-0").exists()


def test_a_topic_that_is_deleted_takes_no_directory_along_that_is_not_its_own(root: Path) -> None:
    shutil.copytree(root / "orders-0", root / "orders-2")
    (root / "orders-3").symlink_to(root / "keep-0")
    old = snapshot(root / "orders-2"), snapshot(root / "keep-0")
    with living(root) as live:
        assert delete(live, "orders") == 0
        assert sorted(path.name for path in root.glob("orders-*")) == ["orders-2", "orders-3"]
        assert (snapshot(root / "orders-2"), snapshot(root / "keep-0")) == old


def test_partitions_whose_directories_are_gone_are_counted(root: Path) -> None:
    """Producers choose a partition by the number of them, which the metadata log knows."""
    (root / "orders-1").rename(root.parent / "moved")
    with living(root) as live:
        answer = live.ask("Metadata", 7, topics=[{"name": "orders"}], allow_auto_topic_creation=False)
        (topic,) = answer["topics"]
        found = [(each["partition_index"], each["error_code"]) for each in topic["partitions"]]
        assert sorted(found) == [(0, 0), (1, ErrorCode.LEADER_NOT_AVAILABLE)]
        topics = [{"name": "orders", "count": 2, "assignments": None}]
        answer = live.ask("CreatePartitions", 2, topics=topics, timeout_ms=0, validate_only=False)
        assert answer["results"][0]["error_code"] == ErrorCode.INVALID_PARTITIONS


# --- crashes ----------------------------------------------------------------------------------------------------------
def crashes(root: Path, act: Callable[[LiveDisks], object]) -> Iterator[Path]:
    """Copies of a log directory, each as it is when the process ends before a step of a change."""
    for at in range(1000):
        copy = root.parent / f"crash{at}"
        shutil.copytree(root, copy)
        disk = DyingDisk(10**9)
        with living(copy, disk=disk) as live:
            disk._left = at
            try:
                act(live.disks)
            except Killed:
                live.disks._is_closed = True  # it writes nothing at its end, but for the lock
                disk._left = 10**9
                live.disks._at_end.close()
            else:
                disk._left = 10**9
                return
        yield copy


@pytest.mark.parametrize(("name", "partitions"), [("new", 2), ("orders", 4)])
def test_a_crash_in_the_middle_blocks_no_name(root: Path, name: str, partitions: int) -> None:
    """The directories are taken over if they are empty; those of a topic that is known get its id."""

    def make(disks: LiveDisks) -> None:
        if name == "new":
            disks.create_topic(name, partitions, {})
        else:
            disks.add_partitions(name, partitions)

    states = set()
    for copy in crashes(root, make):
        old = {each: row for each, row in snapshot(copy).items() if each.startswith(("orders-0", "keep"))}
        with living(copy) as live:
            there = live.disks.topics.get(name)
            is_known = there is not None and there.partition_count == partitions
            states.add(is_known)
            if not is_known:
                make(live.disks)
            assert live.produce(name, batch_of(b"x"), partitions - 1)["error_code"] == 0
            assert (copy / f"{name}-{partitions - 1}" / "partition.metadata").exists()
        new = snapshot(copy)
        assert {each: new.get(each) for each in old} == old
    assert states == {False, True}


@pytest.mark.parametrize("is_empty", [True, False])
def test_an_empty_directory_is_taken_over_and_no_other(root: Path, *, is_empty: bool) -> None:
    (root / "new-1").mkdir(mode=0o750)
    if not is_empty:
        (root / "new-1" / ".hidden").touch()
    number = (root / "new-1").stat().st_ino
    with living(root) as live:
        assert create(live, "new") == (0 if is_empty else ErrorCode.KAFKA_STORAGE_ERROR)
        assert (root / "new-0").exists() == is_empty
        assert (root / "new-1").stat().st_ino == number
        if is_empty:
            assert live.produce("new", batch_of(b"x"), 1)["error_code"] == 0


def test_an_empty_directory_that_was_there_is_kept_if_the_topic_cannot_be_made(root: Path) -> None:
    (root / "new-0").mkdir()
    (root / "new-1").write_bytes(b"in the way")
    with living(root) as live:
        assert create(live, "new") == ErrorCode.KAFKA_STORAGE_ERROR
    assert (root / "new-0").is_dir()


# --- links ------------------------------------------------------------------------------------------------------------
def test_a_link_that_leads_nowhere_is_a_link_too(root: Path) -> None:
    """It may lead to a disk that is not mounted: its partition has no leader until then, and is not deleted."""
    (root / "orders-1").rename(root.parent / "elsewhere")
    (root / "orders-1").symlink_to(root.parent / "nowhere")
    with living(root) as live:
        assert [f"{root}/orders-1: is a symbolic link to" in note for note in live.notes] == [True]
        assert delete(live, "orders") == ErrorCode.KAFKA_STORAGE_ERROR
        assert produce(live, "orders") == 0
    (root / "__cluster_metadata-0").rename(root.parent / "far")
    (root / "__cluster_metadata-0").symlink_to(root.parent / "nowhere")
    with pytest.raises(RefusedError, match="__cluster_metadata-0: is a symbolic link"), living(root):
        pass


@pytest.mark.parametrize("act", [produce, delete, create, metadata, grow])
def test_a_link_in_place_of_a_partition_is_not_followed(root: Path, act: Callable[[Live, str], int]) -> None:
    outside = root.parent / "outside"
    (root / "orders-0").rename(outside)
    (root / "orders-0").symlink_to(outside)
    old = snapshot(outside)
    with living(root) as live:
        (note,) = [each for each in live.notes if "symbolic link" in each]
        assert f"{root}/orders-0: is a symbolic link to {outside}" in note
        code = act(live, "orders")
        expected = {
            produce: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            delete: ErrorCode.KAFKA_STORAGE_ERROR,
            create: ErrorCode.TOPIC_ALREADY_EXISTS,
        }
        assert code == expected.get(act, ErrorCode.NONE)
        assert live.produce("orders", batch_of(b"x"), 1)["error_code"] == 0, "nothing of it was deleted"
    assert snapshot(outside) == old
    assert (root / "orders-0").is_symlink()
    (root / "orders-0").unlink()
    outside.rename(root / "orders-0")
    with living(root) as live:
        assert live.log("orders").log_end_offset == 2


def test_a_link_of_a_name_that_is_no_topic_yet_is_not_followed(root: Path) -> None:
    outside = root.parent / "outside"
    shutil.copytree(root / "orders-0", outside)
    (root / "zz-0").symlink_to(outside)
    (root / "yy-1").symlink_to(root.parent / "nowhere")
    old = snapshot(outside)
    with living(root) as live:
        assert [create(live, name) for name in ("zz", "yy")] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        assert metadata(live, "zz") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [each.partition(":")[0][-2:] for each in live.failures] == ["zz", "yy"], "each once"
    assert snapshot(outside) == old
    assert (root / "zz-0").is_symlink()
    assert (root / "yy-1").is_symlink()


@pytest.mark.parametrize("is_opened", [False, True])
def test_a_link_that_comes_while_the_broker_runs_is_not_followed(root: Path, is_opened: bool) -> None:
    outside = root.parent / "outside"
    with living(root) as live:
        if is_opened:
            assert produce(live, "orders") == 0
        (root / "orders-0").rename(outside)
        (root / "orders-0").symlink_to(outside)
        old = snapshot(outside)
        assert delete(live, "orders") == ErrorCode.KAFKA_STORAGE_ERROR
        assert f"{root}/orders-0: is not the directory that kafkalog has served" in live.failures[-1]
        if not is_opened:
            assert produce(live, "orders") == ErrorCode.KAFKA_STORAGE_ERROR
        assert live.produce("orders", batch_of(b"x"), 1)["error_code"] == 0
        assert snapshot(outside) == old
        (root / "orders-0").unlink()
        outside.rename(root / "orders-0")
        assert [delete(live, "orders"), create(live, "orders"), produce(live, "orders")] == [0, 0, 0]


def test_a_metadata_log_that_is_a_link_is_refused_and_the_directory_may_be_reached_by_one(root: Path) -> None:
    alias = root.parent / "alias"
    alias.symlink_to(root)
    with living(alias) as live:
        assert produce(live, "orders") == 0
        assert create(live, "new") == 0
        assert delete(live, "new") == 0
    (root / "__cluster_metadata-0").rename(root.parent / "far")
    (root / "__cluster_metadata-0").symlink_to(root.parent / "far")
    old = snapshot(root), snapshot(root.parent / "far")
    with pytest.raises(RefusedError, match="__cluster_metadata-0: is a symbolic link"), living(root):
        pass
    assert (snapshot(root), snapshot(root.parent / "far")) == old


# --- a real client ----------------------------------------------------------------------------------------------------
@pytest.mark.live
def test_a_client_asks_for_all_of_it(tmp_path: Path) -> None:
    """After each request of a real client the files are what they were, and stderr names the place."""
    root, outside = tmp_path / "log", tmp_path / "outside"
    server = LiveServer(root)
    server.start()
    with_server: dict[str, Any] = {"bootstrap.servers": server.address, **QUIET}
    admin = AdminClient(with_server)
    for future in admin.create_topics([NewTopic("orders", 2, 1), NewTopic("moved", 1, 1)]).values():
        future.result(SECONDS)
    producer = Producer(with_server)
    for number in range(20):
        producer.produce("orders", b"%d" % number, partition=number % 2)
        producer.produce("moved", b"%d" % number)
    assert producer.flush(SECONDS) == 0
    server.stop()
    (root / "moved-0").rename(outside)
    (root / "moved-0").symlink_to(outside)
    (root / "zz-0").symlink_to(outside)
    for name in ("old-0", "orders-2"):
        shutil.copytree(root / "orders-0", root / name)
    kept = [outside, root / "old-0", root / "orders-2"]
    before = [snapshot(each) for each in kept]
    server.start()
    for future in [
        *admin.create_topics([NewTopic(name, 1, 1) for name in ("__cluster_metadata", "old", "zz")]).values(),
        *admin.create_partitions([NewPartitions("orders", 3)]).values(),
        *admin.delete_topics(["moved"]).values(),
    ]:
        with pytest.raises(KafkaException):
            future.result(SECONDS)
    failed: list[str] = []
    brief = Producer({**with_server, "message.timeout.ms": 3000})
    for name in ("__cluster_metadata", "old", "zz", "moved"):
        brief.produce(name, b"x", on_delivery=lambda error, message: failed.append(message.topic() if error else ""))
    assert brief.flush(SECONDS) == 0
    assert sorted(failed) == ["__cluster_metadata", "moved", "old", "zz"]
    assert [snapshot(each) for each in kept] == before
    assert {each[2] for each in read_all(server.address, ["orders"], "read_committed")["orders", 1]} == {
        b"%d" % number for number in range(1, 20, 2)
    }
    errors = server.errors()
    for place in ("old-0", "zz-0", "orders-2", "moved-0"):
        assert f"{root}/{place}: is" in errors
    server.stop()
    server.start()
    assert set(admin.list_topics(timeout=SECONDS).topics) >= {"orders"}
    server.stop()
