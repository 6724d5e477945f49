"""A disk that fails, is full or read-only under `serve --read-write`: what was acknowledged is read by a real client.

Each seed chooses what fails, how often, for how long, and how the broker ends.
"""

from __future__ import annotations

import errno
import random
import re
import time
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from tests.support.ext4_disk import ext4_disk
from tests.support.failing_disk import FailingDisk, failing_library
from tests.support.full_disk import mounted_disk
from tests.support.live import QUIET, SECONDS, LiveServer, create_topics, read_all

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.live

RUNS: Final = 180
FULL_RUNS: Final = 20
READ_ONLY_RUNS: Final = 10
FEW: Final = 6
CALLS: Final = ("w", "wt", "wt", "ws", "wts", "s", "wt")
NUMBERS: Final = (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EDQUOT)
OFFLINE: Final = "is offline for writes"


def seeds(count: int, few: int = FEW) -> list[Any]:
    """The first of them live, the others slow too."""
    return [pytest.param(seed, marks=[] if seed < few else [pytest.mark.slow]) for seed in range(count)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    return failing_library(tmp_path_factory.mktemp("library"))


class Sender:
    """A producer that notes what was acknowledged, and what was not."""

    def __init__(self, server: LiveServer, chance: random.Random) -> None:
        self._chance = chance
        self._address = {"bootstrap.servers": server.address, "linger.ms": 1, **QUIET}
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self._sent = 0

    def send(self, count: int, *, timeout_ms: int = 3000) -> int:
        """Send records; return how many were not acknowledged."""
        is_idempotent = self._chance.random() < 0.5
        waits = {"message.timeout.ms": timeout_ms, "enable.idempotence": is_idempotent, "retry.backoff.ms": 50}
        producer, failed = Producer(self._address | waits), []

        def answered(error: object, message: object) -> None:
            if error is not None:
                failed.append(error)
            else:
                place = message.partition(), message.offset()  # type: ignore[attr-defined]
                assert place not in self.acknowledged, "an offset was given twice"
                self.acknowledged[place] = message.value()  # type: ignore[attr-defined]

        for _ in range(count):
            self._sent += 1
            value = b"%06d" % self._sent + b"." * self._chance.randint(0, 3000)
            producer.produce("t", value, partition=self._chance.randint(0, 1), on_delivery=answered)
            producer.poll(0.001)
        assert producer.flush(SECONDS) == 0
        return len(failed)

    def check(self, server: LiveServer) -> None:
        """Read everything."""
        found = {
            (place[1], offset): value
            for place, records in read_all(server.address, ["t"], "read_uncommitted").items()
            for offset, _, value in records
        }
        lost = {place for place, value in self.acknowledged.items() if found.get(place) != value}
        assert not lost, f"{len(lost)} of {len(self.acknowledged)} acknowledged records are lost or changed"


def settings_of(chance: random.Random) -> tuple[str, ...]:
    return "log.segment.bytes=1048576", f"log.flush.interval.messages={chance.choice((1, 20, 10**9))}"


def end_and_start_again(server: LiveServer, sender: Sender, chance: random.Random, *, is_offline: bool) -> None:
    """A stop or a crash, and a start on a disk that works."""
    if chance.random() < 0.5:
        server.kill()
    else:
        assert server.end() == (3 if is_offline else 0)
        assert (server.directory / ".kafka_cleanshutdown").exists() != is_offline
    server.environment = {}
    server.start()
    sender.check(server)
    assert sender.send(20, timeout_ms=1000 * SECONDS) == 0
    sender.check(server)
    server.stop()


@pytest.mark.parametrize("seed", seeds(RUNS))
def test_no_acknowledged_record_is_lost_when_the_disk_fails(tmp_path: Path, library: str, seed: int) -> None:
    chance = random.Random(seed)
    disk = FailingDisk(
        tmp_path / "log", chance.choice(CALLS), chance.choice(NUMBERS), chance.choice((3, 20, 60, 100)), seed
    )
    with LiveServer(disk.directory, *settings_of(chance), environment=disk.environment(library)) as server:
        create_topics(server.address, ["t"])
        sender = Sender(server, chance)
        assert sender.send(100, timeout_ms=1000 * SECONDS) == 0
        disk.fail()
        failed = sender.send(chance.randint(50, 1500), timeout_ms=1500)
        disk.work()
        errors = server.errors()
        is_offline = OFFLINE in errors
        if "w" in disk.failed():
            assert "failed: WriteError: " in errors or "failed: OfflineError: " in errors
        if failed:
            assert re.search(r"(an append to|a change of) (t|__cluster_metadata)-\d failed: ", errors)
        missing = sender.send(20, timeout_ms=1500 if is_offline else 1000 * SECONDS)
        assert missing == (20 if OFFLINE in server.errors() else 0)  # it may say so after its first error
        sender.check(server)
        end_and_start_again(server, sender, chance, is_offline=OFFLINE in server.errors())


@pytest.mark.parametrize("seed", seeds(FULL_RUNS))
def test_no_acknowledged_record_is_lost_when_the_disk_is_full(seed: int) -> None:
    """A tmpfs fills; later there is space again."""
    chance = random.Random(seed)
    with mounted_disk("6m") as disk:
        server = LiveServer(disk.path / "log", *settings_of(chance))
        ballast = disk.path / "ballast"
        ballast.write_bytes(bytes(chance.randint(1, 4) << 20))
        with server:
            create_topics(server.address, ["t"])
            sender = Sender(server, chance)
            end_s = time.monotonic() + 4 * SECONDS
            while "failed: WriteError: " not in (errors := server.errors()):
                assert time.monotonic() < end_s, "the disk was never full"
                sender.send(400, timeout_ms=1500)
            assert "no space left on device" in errors
            ballast.unlink()
            is_offline = OFFLINE in errors
            missing = sender.send(20, timeout_ms=1500 if is_offline else 1000 * SECONDS)
            assert missing == (20 if OFFLINE in server.errors() else 0)  # it may say so after its first error
            sender.check(server)
            end_and_start_again(server, sender, chance, is_offline=OFFLINE in server.errors())


@pytest.mark.parametrize("seed", seeds(READ_ONLY_RUNS, 2))
def test_no_acknowledged_record_is_lost_when_the_disk_becomes_read_only(tmp_path: Path, seed: int) -> None:
    """The kernel makes a file system read-only when its disk fails; what was fsynced is there after a repair."""
    chance = random.Random(seed)
    with ext4_disk(tmp_path) as disk:
        settings = "log.segment.bytes=1048576", "log.flush.interval.messages=1"
        with LiveServer(disk.path, *settings) as server:
            create_topics(server.address, ["t"])
            sender = Sender(server, chance)
            assert sender.send(chance.randint(1, 200), timeout_ms=1000 * SECONDS) == 0
            disk.turn_read_only()
            count = chance.randint(1, 100)
            assert sender.send(count, timeout_ms=1500) == count
            with pytest.raises(KafkaException) as caught:
                create_topics(server.address, ["other"])
            assert caught.value.args[0].code() == KafkaError.KAFKA_STORAGE_ERROR
            errors = server.errors()
            assert "read-only file system" in errors.lower()
            assert re.search(r"an append to (t|__cluster_metadata)-\d failed: ", errors)
            assert OFFLINE in errors
            sender.check(server)
            if chance.random() < 0.5:
                server.kill()
            else:
                assert server.end() == 3
            disk.repair()
            assert not (disk.path / ".kafka_cleanshutdown").exists()
            server.start()
            sender.check(server)
            assert sender.send(20, timeout_ms=1000 * SECONDS) == 0
            sender.check(server)
            server.stop()
