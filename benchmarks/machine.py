"""What a figure must name beside itself: the processor, the releases in use, and what a process of ours took."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Final

from kafkalog_core.structs import Struct

__all__ = [
    "ProcessPass",
    "compact_process",
    "description",
    "dump_process",
    "groups_process",
    "verify_process",
    "zookeeper_process",
]

_CPUINFO: Final = Path("/proc/cpuinfo")
_PACKAGES: Final = ("crc32c", "isal", "lz4", "msgspec", "python-snappy", "zstandard", "Cython", "aiokafka", "cramjam")
_BYTES_PER_RSS_UNIT: Final = 1024 if sys.platform != "darwin" else 1  # getrusage: KiB on Linux, bytes on macOS


class ProcessPass(Struct, frozen=True, kw_only=True):
    """One whole process: wall time, processor time, and the largest resident set."""

    seconds: float
    cpu_seconds: float
    peak_rss_bytes: int


def description() -> dict[str, object]:
    """Processor, system and releases."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def dump_process(path: str, *options: str) -> ProcessPass:
    """`kafkalog dump` of a file as a process of its own, its output thrown away."""
    return _process("dump", *options, path)


def verify_process(path: str, *options: str) -> ProcessPass:
    """`kafkalog verify --quiet` as a process of its own; nothing must be damaged."""
    return _process("verify", "--quiet", *options, path)


def compact_process(path: str, *options: str) -> ProcessPass:
    """`kafkalog compact` as a process of its own."""
    return _process("compact", *options, path)


def groups_process(path: str, *options: str) -> ProcessPass:
    """`kafkalog groups` as a process of its own."""
    return _process("groups", *options, path)


def zookeeper_process(path: str, *options: str) -> ProcessPass:
    """`kafkalog groups` as a process of its own."""
    return _process("zookeeper", *options, path)


def _process(*arguments: str) -> ProcessPass:
    """A command of ours, which must end with 0.

    It is started by a small process in between (this module run as a script): Linux counts the memory of whoever starts
    a process as the started one's own peak.
    """
    command = [sys.executable, "-m", "kafkalog_cli", *arguments]
    starter = [sys.executable, "-m", __name__, *command]
    done = subprocess.run(starter, stdout=subprocess.PIPE, check=True)
    exit_status, seconds, cpu_seconds, peak_rss_bytes = json.loads(done.stdout)
    if exit_status:
        raise SystemExit(f"{' '.join(command)} ended with {exit_status}")
    return ProcessPass(seconds=seconds, cpu_seconds=cpu_seconds, peak_rss_bytes=peak_rss_bytes)


def _run(command: list[str]) -> tuple[int, float, float, int]:
    """Exit status, wall time, processor time and largest resident set of a process."""
    start = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * _BYTES_PER_RSS_UNIT


def _cpu() -> str:
    try:
        lines = [line.partition(":") for line in _CPUINFO.read_text().partition("\n\n")[0].splitlines()]
        fields = {name.strip(): value.strip() for name, _, value in lines}
        return f"{fields['model name']} (family {fields['cpu family']}, model {fields['model']})"
    except (OSError, KeyError):
        return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    print(json.dumps(_run(sys.argv[1:])))
