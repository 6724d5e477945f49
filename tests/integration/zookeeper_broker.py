"""One real broker of the ZooKeeper era, with a ZooKeeper of its own."""

from __future__ import annotations

import re
import socket
import time
from typing import TYPE_CHECKING, Final

from tests.integration.broker import Broker

if TYPE_CHECKING:
    import subprocess

_START_SECONDS: Final = 30
_TICK_MS: Final = 500
_SESSION_MS: Final = 3000


class ZooKeeperBroker(Broker):
    """A broker of release 2.8 and the ZooKeeper that it needs, which runs until `close`."""

    release = "2.8"
    ready = re.compile(rb"\[Kafka ?Server (id=)?1\],? [Ss]tarted")
    segment_bytes = "segment.bytes"

    def _places(self, controller_port: int) -> dict[str, str]:
        self._zookeeper_port = controller_port
        return {
            "broker.id": "1",
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "zookeeper.connect": f"127.0.0.1:{controller_port}",
            "zookeeper.session.timeout.ms": str(_SESSION_MS),
        }

    def _format(self) -> None:
        """Nothing is formatted; ZooKeeper is started instead."""
        command = ("org.apache.zookeeper.server.ZooKeeperServerMain", str(self._zookeeper_port))
        options = (str(self.work_dir / "zookeeper"), str(_TICK_MS))
        self._zookeeper: subprocess.Popen[bytes] = self._spawn(self.work_dir / "zookeeper.txt", *command, *options)
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            assert self._zookeeper.poll() is None, (self.work_dir / "zookeeper.txt").read_text()[-4000:]
            assert time.monotonic() < deadline, "ZooKeeper does not answer"
            time.sleep(0.1)

    def _answers(self) -> bool:
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", self._zookeeper_port)) == 0

    def kill(self) -> None:
        """A crash. The next start would meet the session of the dead broker until that has ended."""
        super().kill()
        time.sleep(_SESSION_MS / 1000 + 1)

    def close(self) -> None:
        """End the broker, then ZooKeeper."""
        super().close()
        self._zookeeper.kill()
        self._zookeeper.wait()
