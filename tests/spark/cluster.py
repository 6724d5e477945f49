"""A real standalone cluster on this machine, out of the Spark that pip has installed: a master and two workers.

The machines of a cluster have nothing of ours: the daemons run in directories of their own, without PYTHONPATH.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyspark

from kafkalog_core.spark.session.session import java_environment

if TYPE_CHECKING:
    from types import TracebackType

SPARK_HOME = Path(pyspark.__file__).parent
MASTER, WORKER = (f"org.apache.spark.deploy.{name}" for name in ("master.Master", "worker.Worker"))
EXECUTOR, PYTHON = "CoarseGrainedExecutorBackend", "pyspark.daemon"
PORTS = ("--port", "0", "--webui-port", "0")
SECONDS = 90
URL = re.compile(r"Starting Spark master at (spark://\S+)")


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    command: str


def processes() -> list[Process]:
    """All processes of this machine that are not over."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = entry.joinpath("stat").read_text().rpartition(")")[2].split()
                command = entry.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if fields[0] != "Z":
                found.append(Process(int(entry.name), int(fields[1]), command))
    return found


class Cluster:
    """To be entered; `url` is its master. Workers have one core each."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.url = ""

    def __enter__(self) -> Self:
        try:
            self._start("master", MASTER)
            self.url = self._said("master", URL)[1]
            self.start_workers()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def start_workers(self) -> None:
        """Those that do not run."""
        for name in ("worker-1", "worker-2"):
            if name not in self.daemons or self.daemons[name].poll() is not None:
                options = ("--cores", "1", "--memory", "1g", "--work-dir", str(self.directory / f"work-of-{name}"))
                self._start(name, WORKER, *options, self.url)
        for name in ("worker-1", "worker-2"):
            self._said(name, re.compile("Successfully registered with master"))

    def _start(self, name: str, main: str, *options: str) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK", "SPARK"))}
        with (self.directory / f"{name}.log").open("wb") as log:
            self.daemons[name] = subprocess.Popen(
                [SPARK_HOME / "bin" / "spark-class", main, "--host", "127.0.0.1", *PORTS, *options],
                cwd=self.directory,
                env=kept | java_environment(kept) | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _said(self, name: str, what: re.Pattern[str]) -> re.Match[str]:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            text = (self.directory / f"{name}.log").read_text(errors="replace")
            found = what.search(text)
            if found is not None:
                return found
            assert self.daemons[name].poll() is None, text
            time.sleep(0.1)
        raise TimeoutError(text)

    def _stop(self) -> None:
        """Workers end their executors."""
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
        for daemon in self.daemons.values():
            daemon.wait(SECONDS)

    # --- who may be killed --------------------------------------------------------------------------------------------
    def executors(self) -> list[Process]:
        """The JVMs that the workers have started."""
        parents = {daemon.pid for name, daemon in self.daemons.items() if name.startswith("worker")}
        return [process for process in processes() if process.parent in parents and EXECUTOR in process.command]

    def pythons(self) -> list[Process]:
        """The processes that run Python tasks: children of each executor's daemon."""
        everybody = processes()
        executors = {process.pid for process in self.executors()}
        daemons = {process.pid for process in everybody if process.parent in executors and PYTHON in process.command}
        return [process for process in everybody if process.parent in daemons]

    def kill_worker(self) -> None:
        """A worker daemon, whose executor goes with it."""
        self.daemons["worker-1"].send_signal(signal.SIGKILL)
        self.daemons["worker-1"].wait(SECONDS)
