"""One real broker (KRaft, one node, loopback) in a process of its own."""

from __future__ import annotations

import ctypes
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tests.support import jars

if TYPE_CHECKING:
    from collections.abc import Mapping

_CLUSTER_ID: Final = "aW50ZWdyYXRpb24tdGVzdA"
_START_SECONDS: Final = 180  # a busy machine takes long; one that does not start is noticed when it ends
_STOP_SECONDS: Final = 60
_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None)
_KRAFT_SETTINGS: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "broker.session.timeout.ms": "3000",  # until it ends, nobody starts in the place of a broker that was killed
    "broker.heartbeat.interval.ms": "500",
    "controller.performance.always.log.threshold.ms": "600000",  # else slow events, as on a busy machine, are errors
}
_SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.index.interval.bytes": "500",  # so that small segments have entries
    "log.index.size.max.bytes": "1048576",  # preallocated for each partition, and copied by tests
}


class Broker:
    """A broker and its log directory; it is stopped, killed and started again at will.

    Args:
        libs: directory with the release's jars.
        work_dir: where it keeps everything.
        user: number of the user (and group) that it runs as; null: who runs the tests.
        java: the program that runs it.
    """

    release = "4.3"
    ready = re.compile(rb"Kafka Server started")
    extra: Mapping[str, str] = MappingProxyType({})
    format_options: tuple[str, ...] = ("--standalone",)
    segment_bytes = "internal.segment.bytes"  # the topic's setting that takes any size
    roll_bytes = "6000"
    java_options: tuple[str, ...] = ("-Xmx256m", *jars.QUICK)

    def __init__(self, libs: Path, work_dir: Path, *, user: int | None = None, java: Path = Path("java")) -> None:
        self.work_dir = work_dir
        self._user = user
        self.log_dir = work_dir / "log-dir"
        port, controller_port = free_ports()
        self.bootstrap = f"127.0.0.1:{port}"
        self._output = work_dir / "broker.txt"
        archive = _archive_of(libs)
        options = [f"-XX:SharedArchiveFile={archive}"] if archive.exists() and user is None else []
        self.java_command = [str(java), *self.java_options, *options, "-cp", f"{libs}/*"]
        self.config = work_dir / "server.properties"
        self._settings = _SETTINGS | self.extra | {"log.dirs": str(self.log_dir)} | self._places(controller_port)
        self.configure({})
        self._process: subprocess.Popen[bytes] | None = None
        self._format()

    @property
    def output(self) -> str:
        """What it has written since its last start."""
        return self._output.read_text()

    @property
    def pid(self) -> int:
        """Its process id; -1: it does not run."""
        return -1 if self._process is None else self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether its process has not ended."""
        return self._process is not None and self._process.poll() is None

    def _places(self, controller_port: int) -> dict[str, str]:
        """Settings of who it is and where it is found."""
        return _KRAFT_SETTINGS | {
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        }

    def configure(self, changes: Mapping[str, str]) -> None:
        """Other settings from its next start on."""
        settings = self._settings | changes
        self.config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def partition_dir(self, topic: str, partition: int = 0) -> Path:
        """The directory of one partition."""
        return self.log_dir / f"{topic}-{partition}"

    def start_without_waiting(self) -> None:
        """Start it; it may end, or never serve."""
        self._process = self._spawn(self._output, "kafka.Kafka", str(self.config))

    def start(self) -> None:
        """Start it and wait until it serves."""
        self.start_without_waiting()
        assert self._process is not None
        deadline = time.monotonic() + _START_SECONDS
        while not self.ready.search(self._output.read_bytes()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"the broker did not start:\n{self._output.read_text()[-4000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """A clean stop."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """A crash."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """End all that runs for it."""
        self.kill()

    @classmethod
    def archive_classes(cls, libs: Path) -> None:
        """Keep the classes that Java loads for this broker, once on a machine: each start then takes half the time."""
        archive = _archive_of(libs)
        if archive.exists():
            return
        with jars.alone() as cache, tempfile.TemporaryDirectory(dir=cache) as scratch:
            if archive.exists():
                return
            broker = cls(libs, Path(scratch))
            made = Path(scratch, archive.name)
            broker.java_command.insert(1, f"-XX:ArchiveClassesAtExit={made}")
            try:
                broker.start()
                broker.stop()
            finally:
                broker.close()
            made.rename(archive)

    def _spawn(self, output_path: Path, *command: str) -> subprocess.Popen[bytes]:
        """A process of its own, whose output goes to a file."""
        with output_path.open("wb") as output:
            return subprocess.Popen(
                [*self.java_command, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                user=self._user,
                group=self._user,
                start_new_session=True,  # a Ctrl-C is for the tests, which then stop it
                preexec_fn=_die_with_the_tests,  # noqa: PLW1509 - one call of the system, which takes no lock
            )

    def _end(self, signal_number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal_number)
        try:
            process.wait(timeout=_STOP_SECONDS)
        finally:
            process.kill()  # does nothing where it has ended
            process.wait()

    def _format(self) -> None:
        options = ["format", "-t", _CLUSTER_ID, "-c", str(self.config), *self.format_options]
        command = [*self.java_command, "kafka.tools.StorageTool", *options]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=_START_SECONDS,
            user=self._user,
            group=self._user,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def _archive_of(libs: Path) -> Path:
    return libs.with_name(f"{libs.name}.jsa")


def _die_with_the_tests() -> None:
    """Leave no broker behind where the tests themselves are killed."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def free_ports() -> tuple[int, int]:
    """Two ports that were free a moment ago."""
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


class TwoLogDirs(Broker):
    """A broker that puts new partitions into the emptier one of two log directories; the first has the metadata log."""

    def configure(self, changes: Mapping[str, str]) -> None:
        """Other settings from its next start on."""
        self.second = self.work_dir / "second"
        places = {"log.dirs": f"{self.log_dir},{self.second}", "metadata.log.dir": str(self.log_dir)}
        super().configure({**places, **changes})
