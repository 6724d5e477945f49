"""A disk that fails under a live broker: what was acknowledged stays, and nothing is acknowledged that may be lost."""

from __future__ import annotations

import errno
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.livebroker.logs.log_dir_failure import OfflineError
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.wire.error_codes import ErrorCode
from tests.support.live_state import Live, Payer, batch_of, living, sent_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class BadDisk(Disk):
    """A disk on which steps on some files fail; half of an append that fails is written."""

    def __init__(self) -> None:
        self.failing: dict[str, int] = {}
        self.place = ""
        self._fails_to_write = False

    def step(self, what: str, path: str) -> None:
        if what != "write" and what in self.failing and self.place in path:
            raise OSError(self.failing[what], "it fails")

    def append(self, descriptor: int, path: str, data: bytes | memoryview, size_bytes: int) -> None:
        self._fails_to_write = "write" in self.failing and self.place in path
        super().append(descriptor, path, data, size_bytes)

    def _put(self, descriptor: int, data: memoryview) -> int:
        if not self._fails_to_write:
            return super()._put(descriptor, data)
        if len(data) > 60:
            return super()._put(descriptor, data[: len(data) // 2])
        self._fails_to_write = False
        raise OSError(self.failing["write"], "it fails")


STORAGE = ErrorCode.KAFKA_STORAGE_ERROR
EIO, ENOSPC, EROFS = errno.EIO, errno.ENOSPC, errno.EROFS


@contextmanager
def going_offline(directory: Path, disk: Disk) -> Iterator[Live]:
    """A live broker that does not stop cleanly, because its disk has failed."""
    with ExitStack() as stack:
        live = stack.enter_context(living(directory, disk=disk))
        try:
            yield live
        finally:
            with pytest.raises(OfflineError, match="is offline for writes"):
                stack.close()


def send(live: Live, topic: str = "t", value: bytes = b"v" * 50) -> int:
    code: int = live.produce(topic, batch_of(value))["error_code"]
    return code


@pytest.mark.parametrize(
    "failing",
    [
        {"write": EIO, "truncate": EIO},
        {"write": ENOSPC, "truncate": EIO},
        {"write": EIO},
        {"write": EROFS},
        {"fsync": EIO},
        {"fsync": ENOSPC},
    ],
    ids=str,
)
def test_after_a_disk_error_nothing_is_acknowledged_that_recovery_would_cut(
    tmp_path: Path, failing: dict[str, int]
) -> None:
    disk = BadDisk()
    with going_offline(tmp_path, disk) as live:
        live.create("t", flush_messages="1")
        live.create("u")
        assert [send(live, "t", b"old"), send(live, "u", b"old")] == [0, 0]
        disk.failing, disk.place = failing, "/t-0/"
        assert send(live) == STORAGE
        disk.failing = {}  # the disk works again, but what it holds is not known
        assert live.disks.is_offline
        codes = [send(live), send(live, "u"), live.create("new")["error_code"]]
        assert codes == [STORAGE] * 3, "the log directory is offline, as a broker's"
        assert live.ask("DeleteTopics", 4, topic_names=["u"], timeout_ms=0)["responses"][0]["error_code"] == STORAGE
        assert b"old" in sent_bytes(live.fetch("t")), "it can still be read"
        appends = [each for each in live.failures if each.startswith(("an append to", "a change of"))]
        assert len(appends) == 3, "each failed append is reported"
        assert [each for each in live.failures if "all further writing" in each]
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    with living(tmp_path) as live:
        assert any("kafkalog recover" in note for note in live.notes)
        for topic in ("t", "u"):
            assert b"old" in sent_bytes(live.fetch(topic))
            assert send(live, topic) == 0


def test_a_full_disk_refuses_what_does_not_fit_and_goes_on_when_there_is_space(tmp_path: Path) -> None:
    """An append that was undone leaves nothing behind; each that fails is reported."""
    disk = BadDisk()
    with living(tmp_path, disk=disk) as live:
        live.create("t")
        assert send(live, value=b"old") == 0
        disk.failing = {"write": ENOSPC}
        assert [send(live) for _ in range(3)] == [STORAGE] * 3
        assert len(live.failures) == 3
        assert all(each.startswith(f"an append to t-0: {tmp_path}/t-0/0") for each in live.failures)
        assert not live.disks.is_offline
        disk.failing = {}
        assert send(live, value=b"new") == 0
        assert live.log("t").log_end_offset == 2
    assert (tmp_path / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("failing", [{"write": EIO, "truncate": EIO}, {"fsync": EIO}], ids=str)
def test_a_topic_whose_record_may_be_in_the_metadata_log_keeps_its_directories(
    tmp_path: Path, failing: dict[str, int]
) -> None:
    disk = BadDisk()
    with going_offline(tmp_path, disk) as live:
        live.create("old")
        disk.failing, disk.place = failing, "/__cluster_metadata-0/"
        assert live.create("new", 2)["error_code"] == STORAGE
        disk.failing = {}
        assert live.create("newer")["error_code"] == STORAGE
    assert (tmp_path / "new-1").is_dir()
    assert not list(tmp_path.glob("newer*"))
    with living(tmp_path) as live:
        assert ("new" in live.disks.topics) == ("fsync" in failing)
        assert [send(live, name) for name in live.disks.topics] == [0] * len(live.disks.topics)


def test_transactions_and_groups_get_errors_from_a_directory_that_is_offline(tmp_path: Path) -> None:
    disk = BadDisk()
    with going_offline(tmp_path, disk) as live:
        live.create("t")
        payer = Payer(live)
        assert payer.add("t") == 0
        assert payer.send("t", b"a") == 0
        disk.failing, disk.place = {"write": EIO, "truncate": EIO}, "/t-0/"
        assert payer.send("t", b"b" * 100) == STORAGE
        disk.failing = {}
        assert payer.end(is_commit=True) != 0
        live.clock.now_ms += 10_000_000
        live.broker.sweep()  # the transaction is over, and its end cannot be written
        live.broker._upkeep.run()
    with living(tmp_path) as live:
        assert live.log("t").last_stable_offset() == 0, "it was never committed"
        live.clock.now_ms += 10_000_000
        live.broker.sweep()
        assert live.log("t").last_stable_offset() == live.log("t").log_end_offset


def test_a_base_offset_that_no_log_can_have_hides_no_other_topic(tmp_path: Path) -> None:
    """No checksum covers it."""
    with living(tmp_path) as live:
        for name in ("t", "u"):
            live.create(name)
            assert send(live, name) == 0
    log = tmp_path / "t-0" / f"{0:020}.log"
    log.write_bytes((-(2**63) + 15).to_bytes(8, "big", signed=True) + log.read_bytes()[8:])
    old = log.read_bytes()
    with living(tmp_path) as live:
        topics = live.ask("Metadata", 7, topics=None, allow_auto_topic_creation=False)["topics"]
        assert {each["name"]: each["error_code"] for each in topics} == {"t": 0, "u": 0}
        assert [send(live), send(live, "u")] == [STORAGE, 0]
        assert len(live.failures) == 1
        assert f"kafkalog verify {tmp_path}/t-0" in live.failures[0]
    assert log.read_bytes() == old


def asked_to_create(live: Live, name: str, count: int) -> set[int]:
    """The errors of one request that creates many topics."""
    fields = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    topics = [{"name": f"{name}-{number}", **fields} for number in range(count)]
    answer = live.ask("CreateTopics", 7, topics=topics, timeout_ms=0, validate_only=False)
    return {each["error_code"] for each in answer["topics"]}


def test_clients_do_not_fill_the_memory_or_stderr_of_a_broker_that_is_offline(tmp_path: Path) -> None:
    """Each names other topics, and nothing succeeds any more; that it is offline was reported once."""
    disk = BadDisk()
    with going_offline(tmp_path, disk) as live:
        live.create("t")
        disk.failing, disk.place = {"write": EIO, "truncate": EIO}, "/t-0/"
        assert send(live) == STORAGE
        disk.failing = {}
        reported = list(live.failures)
        assert [each for each in reported if "all further writing" in each]
        assert [asked_to_create(live, name, 300) for name in "ab"] == [{STORAGE}] * 2
        assert live.failures == reported
        assert len(live.disks._failures) == 0


def test_only_the_latest_failures_of_a_full_disk_are_kept(tmp_path: Path) -> None:
    disk = BadDisk()
    with living(tmp_path, disk=disk) as live:
        disk.failing, disk.place = {"mkdir": ENOSPC}, "/new"
        assert asked_to_create(live, "new", 300) == {STORAGE}
        assert len(live.failures) == 300
        assert len(live.disks._failures) == 100
        assert live.create("new-299")["error_code"] == STORAGE
        assert len(live.failures) == 300, "the same one again"
        disk.failing = {}
        assert live.create("new-299")["error_code"] == 0
        assert len(live.disks._failures) == 99


class FullForCheckpoints(Disk):
    """A disk whose last block had room for a record of the metadata log, and has none for a new file."""

    is_full = False

    def step(self, what: str, path: str) -> None:
        if self.is_full and what == "write" and path.endswith(".tmp"):
            raise OSError(ENOSPC, "No space left on device")


def deleted(live: Live, name: str) -> int:
    """The error of a request that deletes a topic."""
    code: int = live.ask("DeleteTopics", 4, topic_names=[name], timeout_ms=0)["responses"][0]["error_code"]
    return code


def test_a_topic_is_deleted_from_a_full_disk(tmp_path: Path) -> None:
    """The space of its directories is what the disk lacks, so nothing that needs space comes before that."""
    disk = FullForCheckpoints()
    with living(tmp_path, disk=disk) as live:
        live.create("t", 2)
        assert send(live, value=b"v" * 50_000) == 0
        live.disks.checkpoint()
        assert send(live) == 0
        disk.is_full = True
        assert deleted(live, "t") == 0
        assert not list(tmp_path.glob("t-*"))
        assert "the checkpoints without topic t" in live.failures[-1]
        disk.is_full = False
        live.disks.checkpoint()
        assert b"t 0" not in (tmp_path / "recovery-point-offset-checkpoint").read_bytes()
        assert live.create("t")["error_code"] == 0
        assert send(live) == 0
    with living(tmp_path) as live:
        assert not [each for each in live.notes if "warning" in each]
        assert live.log("t").log_end_offset == 1


def test_a_directory_that_cannot_be_deleted_keeps_no_other_and_is_named_at_the_next_start(tmp_path: Path) -> None:
    disk = BadDisk()
    with living(tmp_path, disk=disk) as live:
        live.create("t", 3)
        disk.failing, disk.place = {"rename": EIO}, "/t-1"
        assert deleted(live, "t") == STORAGE
        assert [each.name for each in tmp_path.glob("t-*")] == ["t-1"]
        assert f"{tmp_path}/t-1" in live.failures[-1]
    for number in range(6):
        (tmp_path / f"u-{number}").mkdir()
        (tmp_path / f"u-{number}" / "partition.metadata").write_bytes(b"version: 0\n")
    (tmp_path / "empty-0").mkdir()
    with living(tmp_path) as live:
        found = [each for each in live.notes if each.startswith("warning")]
        assert f"{tmp_path}/t-1: belongs to no partition of the metadata log" in found[0]
        assert f"kafkalog verify {tmp_path}/t-1" in found[0]
        assert found[5:] == ["warning: 2 more directories of no partition"]
        assert live.create("t", 2)["error_code"] == STORAGE
        (tmp_path / "t-1").rename(tmp_path.parent / "aside")
        assert live.create("t", 2)["error_code"] == 0
