"""The end of a broker while clients are at work: what is on the disk then, how long it takes, and what is left over."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import pytest
from confluent_kafka import Consumer, Producer

from kafkalog_core.errors import StorageError
from kafkalog_core.livebroker import live_server
from kafkalog_core.livebroker.disks import live_disks
from kafkalog_core.livebroker.disks.upkeep import Upkeep
from kafkalog_core.serve.network import request_threads
from kafkalog_core.wire.frames import encode_request
from tests.support.asking import FROM
from tests.support.live import QUIET, LiveServer, create_topics, read_all
from tests.support.live_state import batch_of, living
from tests.support.serving import serving

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.live

ROOT: Final = Path(__file__).parents[2]
GRACE_S: Final = 5.0
"""What clients have for their answers in flight (`NetworkServer.close`)."""
MARGIN_S: Final = 30.0
"""For writing the files, on a machine that does other things too; the clients would wait for 60 s."""
MARK: Final = ".kafka_cleanshutdown"


def connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    found.connect((host, int(port)))
    return found


def send(connection: socket.socket, name: str, version: int, body: dict[str, Any]) -> None:
    pieces = encode_request(name, version, body, correlation_id=1, client_id="test")
    connection.sendall(b"".join(bytes(piece) for piece in pieces))  # type: ignore[call-overload]


def join(connection: socket.socket) -> None:
    """Ask to join a group that waits for more members for a minute."""
    body = {
        "group_id": "waits",
        "session_timeout_ms": 60_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\0\0\0\0\0"}],
    }
    send(connection, "JoinGroup", 2, body)


def fetch(connection: socket.socket, topic: str, offset: int, *, max_wait_ms: int = 0) -> None:
    partition = {"partition": 0, "fetch_offset": offset, "log_start_offset": -1, "partition_max_bytes": 1 << 26}
    body = {
        "replica_id": -1,
        "max_wait_ms": max_wait_ms,
        "min_bytes": 1,
        "max_bytes": 1 << 26,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [partition]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    send(connection, "Fetch", 11, body)


class Working:
    """Threads that produce and consume until they are stopped; their errors at its end do not matter."""

    def __init__(self, address: str) -> None:
        self.acknowledged = 0
        self._address = address
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._produce, self._consume)]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for each in self._threads:
            each.join()

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._address, "message.timeout.ms": 2000, **QUIET})

        def delivered(error: object, _: object) -> None:
            self.acknowledged += error is None

        while not self._stopped.is_set():
            for _ in range(100):
                producer.produce("busy", b"x" * 200, on_delivery=delivered)
            producer.flush(3)

    def _consume(self) -> None:
        settings = {"bootstrap.servers": self._address, "group.id": "g", "auto.offset.reset": "earliest", **QUIET}
        consumer = Consumer(settings)
        consumer.subscribe(["busy"])
        while not self._stopped.is_set():
            consumer.poll(0.1)
        consumer.close()


@pytest.mark.parametrize("signals", [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)])
def test_signals_while_clients_are_at_work(tmp_path: Path, signals: tuple[signal.Signals, ...]) -> None:
    directory = tmp_path / "logs"
    with LiveServer(directory, "group.initial.rebalance.delay.ms=60000") as server:
        create_topics(server.address, ["busy", "large"], 1)
        large = Producer({"bootstrap.servers": server.address, **QUIET})
        for _ in range(30):
            large.produce("large", b"x" * 900_000)
        assert large.flush(60) == 0
        with (
            Working(server.address) as working,
            closing(connected(server.address)) as joining,
            closing(connected(server.address)) as waiting,
            closing(connected(server.address)) as unread,
        ):
            join(joining)
            fetch(waiting, "large", 30, max_wait_ms=60_000)
            fetch(unread, "large", 0)
            assert unread.recv(100)
            while working.acknowledged < 300:
                time.sleep(0.05)
            begun_s = time.monotonic()
            for number in signals:
                os.kill(server.pid, number)
                time.sleep(0.2)
            server.stop()
            assert time.monotonic() - begun_s < GRACE_S + MARGIN_S
        acknowledged = working.acknowledged
        mark = (directory / MARK).stat().st_mtime_ns
        assert [str(each) for each in directory.rglob("*") if each.is_file() and each.stat().st_mtime_ns > mark] == []
        assert "stopped after" in (tmp_path / "logs.log").read_text()
        server.start()
        assert "not a clean one" not in (tmp_path / "logs.log").read_text()
        assert len(read_all(server.address, ["busy"], "read_uncommitted")["busy", 0]) >= acknowledged
        server.stop()


def test_a_signal_while_the_disks_are_closed(tmp_path: Path) -> None:
    """Nothing may end the process between the last connection and the clean shutdown file."""
    program = (
        "import os, signal, sys, time\n"
        "from kafkalog_core.livebroker.disks.live_disks import LiveDisks\n"
        "from kafkalog_cli.main import cli\n"
        "close = LiveDisks.close\n"
        "def slow(self):\n"
        "    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):\n"
        "        os.kill(os.getpid(), number)\n"
        "    close(self)\n"
        "LiveDisks.close = slow\n"
        "cli(prog_name='kafkalog')\n"
    )
    command = [sys.executable, "-c", program, "serve", "--read-write", str(tmp_path), "--for", "0.1"]
    ran = subprocess.run(
        [*command, "--listen", "127.0.0.1:0"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert (ran.returncode, "Traceback" in ran.stderr) == (0, False), ran.stderr
    assert ran.stderr.splitlines()[-1] == "kafkalog: stopped after 0 requests and 0 B sent"
    assert (tmp_path / MARK).exists()


@pytest.mark.parametrize("count", [1, 2])
def test_signals_during_the_start(tmp_path: Path, count: int) -> None:
    """The first one ends the broker once it has started, a second one at once."""
    program = (
        "import os, signal, sys\n"
        "from kafkalog_core.livebroker.disks.live_disks import LiveDisks\n"
        "from kafkalog_cli.main import cli\n"
        "start = LiveDisks.__init__\n"
        "def interrupted(self, *given, **named):\n"
        "    start(self, *given, **named)\n"
        f"    for _ in range({count}):\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "LiveDisks.__init__ = interrupted\n"
        "cli(prog_name='kafkalog')\n"
    )
    command = [sys.executable, "-c", program, "serve", "--read-write", str(tmp_path), "--listen", "127.0.0.1:0"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, "Traceback" in ran.stderr) == (count - 1, False), ran.stderr
    assert (tmp_path / MARK).exists() == (count == 1)


def test_a_signal_during_the_start_over_a_dead_disk() -> None:
    program = (
        "import os, signal\n"
        "from kafkalog_core.serve.disks.served_disks import ServedDisks\n"
        "from kafkalog_cli.main import cli\n"
        "ServedDisks.__init__ = lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM)\n"
        "cli(prog_name='kafkalog')\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, "serve", "fixtures/demo"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    said = [line for line in ran.stderr.splitlines() if "no compiled kernels" not in line]
    assert (ran.returncode, said) == (1, ["kafkalog: interrupted"])


def test_a_dead_disk_ends_as_soon_as_its_clients_have_their_answers() -> None:
    """A client that does not read has the time of grace, no more; no thread is left over."""
    running = set(threading.enumerate())
    with serving(ROOT / "fixtures" / "demo") as broker:
        found = broker.addresses[0]
        address = f"{found.host}:{found.port}"
        with closing(connected(address)) as waiting, closing(connected(address)) as joining:
            fetch(waiting, "orders", 0, max_wait_ms=60_000)
            join(joining)
            deadline_s = time.monotonic() + 20
            while broker.requests()[0] < 2:
                assert time.monotonic() < deadline_s
                time.sleep(0.01)
            begun_s = time.monotonic()
            broker.__exit__(None, None, None)
            assert time.monotonic() - begun_s < GRACE_S + MARGIN_S
    assert set(threading.enumerate()) <= running


def test_a_clean_in_progress_is_abandoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"cleanup_policy": "compact", "segment_bytes": "1048576", "min_cleanable_dirty_ratio": "0.01"}
    with living(tmp_path) as live:
        live.create("c", **settings)
        for number in range(12):
            live.produce("c", batch_of(b"x" * 300_000, key=f"k{number % 3}".encode()))
        bases = [each.base_offset for each in live.log("c").segments]
        failures: list[str] = []
        upkeep = Upkeep(live.disks, live.clock, failed=lambda what, _: failures.append(what))
        live.clock.now_ms += 10**6
        for stops_at in range(3, 30):
            monkeypatch.setattr(upkeep, "_check_stopped", _stopping_at(stops_at, upkeep, upkeep._check_stopped))
            upkeep.run()
            upkeep._is_stopped = False
            monkeypatch.undo()
            assert [each.name for each in tmp_path.rglob("*") if each.suffix in {".cleaned", ".swap"}] == []
            upkeep._due_ms["compaction"] = 0
        assert failures == []
        assert [each.base_offset for each in live.log("c").segments] != bases, "the last attempts are not stopped"


def _stopping_at(number: int, upkeep: Upkeep, check: Callable[[int], None]) -> Callable[..., None]:
    left = [number]

    def counted(size_bytes: int = 0) -> None:
        left[0] -= 1
        if left[0] <= 0:
            upkeep.stop()
        check(size_bytes)

    return counted


@pytest.mark.parametrize("has_lock", [False, True], ids=["a change", "a change that holds the lock"])
def test_what_may_still_write_leaves_no_clean_shutdown_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_lock: bool
) -> None:
    for module in (request_threads, live_server, live_disks):
        monkeypatch.setattr(module, "CHANGE_S", 0.2)
    gate = threading.Event()
    with pytest.raises(StorageError, match="without the clean shutdown file"):
        _stop_while_a_change_hangs(tmp_path, gate, has_lock=has_lock)
    assert not (tmp_path / MARK).exists()
    gate.set()


def _stop_while_a_change_hangs(directory: Path, gate: threading.Event, *, has_lock: bool) -> None:
    begun = threading.Event()
    config = {"name": "retention.ms", "value": "5"}
    body = {"resources": [{"resource_type": 2, "resource_name": "t", "configs": [config]}], "validate_only": False}
    pieces = encode_request("AlterConfigs", 1, body, correlation_id=1, client_id="test")
    frame = b"".join(bytes(piece) for piece in pieces)  # type: ignore[call-overload]
    with living(directory) as live:

        def hang(*_: object) -> None:
            with live.disks.changing() if has_lock else nullcontext():
                begun.set()
                assert gate.wait(60)

        live.create("t")
        live.disks.set_configs = hang  # type: ignore[method-assign]
        live.broker.dispatcher.handle(memoryview(frame)[4:], FROM)
        assert begun.wait(60)
