"""A real ZooKeeper server of any release, and what its clients are shown."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from tests.support import jars

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["VERSIONS", "ZooKeeperServer", "libs_of"]

VERSIONS: Final = {"3.4.10": "1.1.1", "3.5.9": "2.8.2", "3.6.3": "3.3.2", "3.8.4": "3.9.2", "3.9.3": ""}
"""Releases of ZooKeeper, each with the release of Kafka that has its jars; empty: they are fetched by themselves."""
_CLIENT: Final = Path(__file__).parent / "java" / "ZooKeeperTree.java"
_SECONDS: Final = 60
_OPTIONS: Final = (
    *("-Xmx256m", *jars.QUICK),
    "-Dzookeeper.admin.enableServer=false",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dzookeeper.preAllocSize=64",
    "-Dzookeeper.snapCount=40",
    "-Dzookeeper.extendedTypesEnabled=true",
    "-Dzookeeper.4lw.commands.whitelist=srvr",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)


def libs_of(version: str) -> Path:
    """The directory with the jars of a release. Raises MissingError."""
    kafka = VERSIONS[version]
    return jars.fetch(kafka) if kafka else jars.fetch_zookeeper(version)


class ZooKeeperServer:
    """A server on a data directory; a context manager that kills it.

    Args:
        version: release of ZooKeeper.
        data_dir: where it keeps everything.
        options: of Java.
        config: the file of settings of a server of an ensemble, with a clientPort; None: the server is alone.
    """

    def __init__(self, version: str, data_dir: Path, *options: str, config: Path | None = None) -> None:
        self._java = shutil.which("java") or "java"
        self._libs = libs_of(version)
        self.data_dir = data_dir
        self.output_path = data_dir.with_name(f"{data_dir.name}-server.txt")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        program = ("org.apache.zookeeper.server.ZooKeeperServerMain", str(self.port), str(data_dir), "2000")
        if config is not None:
            self.port = int(config.read_text().partition("clientPort=")[2].split()[0])
            program = ("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config))
        with self.output_path.open("wb") as output:
            self._process = subprocess.Popen(
                [*self._command(), *options, *program],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _command(self) -> tuple[str, ...]:
        return (self._java, *_OPTIONS, "-cp", f"{self._libs}/*")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def output(self) -> str:
        """What it has logged."""
        return self.output_path.read_text(errors="replace")

    def starts(self) -> bool:
        """Wait until it answers, or has ended."""
        deadline = time.monotonic() + _SECONDS
        while self._process.poll() is None:
            if b"Zookeeper version" in self._asked(b"srvr"):
                return True
            assert time.monotonic() < deadline, self.output
            time.sleep(0.1)
        return False

    def _asked(self, word: bytes) -> bytes:
        """The answer to a command of four letters; the port is open before the tree is loaded."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(word)
                return connection.recv(4096)
        except OSError:
            return b""

    def client(self, *words: str, program: Path = _CLIENT) -> set[str]:
        """A line for each node, as a client is shown it; the session of `ZooKeeperTree.java` is left open."""
        assert self.starts(), self.output
        done = subprocess.run(
            [*self._command(), str(program), str(self.port), *words],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return set(done.stdout.splitlines())
