"""Processes that run an export and may be killed: forks of one that has imported all, which costs a second each time.

python -m tests.spark.forking DESCRIPTOR
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from kafkalog_core.errors import KafkalogError
from kafkalog_core.spark.lake.store import Store
from tests.spark.exporting import Run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

_ROOT = Path(__file__).parents[2]
_MESSAGE_BYTES = 1 << 16
_SECONDS = 60


class Exporter:
    """A process of its own that runs an export. It has written an empty line when it begins."""

    def __init__(self, forks: Forks, pid: int, output: int) -> None:
        self.pid = pid
        self._forks = forks
        self._output = os.fdopen(output, encoding="utf-8")
        self._status: int | None = None
        assert self._output.readline() == "\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is None:
            self.kill()
        self._output.close()

    def kill(self) -> None:
        """End it, wherever it is; nothing of it is left then."""
        os.kill(self.pid, signal.SIGKILL)
        self._status = self._forks.wait(self.pid)

    def communicate(self) -> str:
        """What it has written when it has ended, standard error too."""
        assert select.select([self._output], [], [], _SECONDS)[0], "it does not end"
        said = self._output.read().strip()
        self._status = self._forks.wait(self.pid)
        return said


class Forks:
    """The process that is forked. It has no threads but those of allocators, and has called no library yet."""

    def __init__(self) -> None:
        self._line, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its_end:
            command = [sys.executable, "-m", __name__, str(its_end.fileno())]
            self._process = subprocess.Popen(command, cwd=_ROOT, pass_fds=[its_end.fileno()])

    def close(self) -> None:
        """End it."""
        self._line.close()
        assert self._process.wait(_SECONDS) == 0

    def export(self, output: str, disk: Path, number: int, options: Mapping[str, str], **given: Any) -> Exporter:
        """Run an export in a new process."""
        order = {"output": output, "disk": str(disk), "number": number, "options": dict(options), "given": given}
        reader, writer = os.pipe()
        socket.send_fds(self._line, [json.dumps(order).encode()], [writer])
        os.close(writer)
        return Exporter(self, self._answer(), reader)

    def wait(self, pid: int) -> int:
        """Return the exit status of a process that ends; a negative one is the signal that has ended it."""
        self._line.send(json.dumps({"wait": pid}).encode())
        return self._answer()

    def _answer(self) -> int:
        answer = self._line.recv(_MESSAGE_BYTES)
        assert answer, "the process that forks has ended"
        return int(answer)


# --- the process that is forked ---------------------------------------------------------------------------------------
def main(descriptor: int) -> None:
    """Fork, and wait for what was forked, as it is ordered."""
    line = socket.socket(fileno=descriptor)
    while True:
        data, descriptors, _, _ = socket.recv_fds(line, _MESSAGE_BYTES, 1)
        if not data:
            return
        order = json.loads(data)
        if "wait" in order:
            line.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1]))
            continue
        pid = os.fork()
        if pid == 0:
            line.close()
            _export(order, descriptors[0])
        os.close(descriptors[0])
        line.send(b"%d" % pid)


def _export(order: dict[str, Any], output: int) -> None:
    for standard in (1, 2):
        os.dup2(output, standard)
    os.close(output)
    status = 1
    try:
        Run.number = order["number"]
        sys.stdout.write("\n")
        sys.stdout.flush()
        Run(Store.of(order["output"], order["options"]), Path(order["disk"]), **order["given"])
        status = 0
    except KafkalogError as error:
        sys.stdout.write(f"{type(error).__name__}: {error}\n")
        status = 0
    except BaseException:  # noqa: BLE001 -- whatever it is, the process must not go on as the one that forks
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


if __name__ == "__main__":
    main(int(sys.argv[1]))
