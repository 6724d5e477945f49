"""The other readers, measured on the same bytes: aiokafka's C parser, and the stock Java tool DumpLogSegments.

aiokafka gets windows of whole batches that are in memory already: reading the file is not counted for it. The Java
tool prints to /dev/null, with the heap and collector that Kafka's own start script gives it; its start is measured
apart on a log of one batch. Its jars come through Maven into a cache outside of the project; without Java or Maven it
is left out, and that is said.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final

from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka.record import memory_records

from kafkalog_core.format import layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.data import LogFile

__all__ = ["AIOKAFKA", "JavaTool", "aiokafka_seconds"]

WINDOW_BYTES: Final = 1024 * 1024
PRINT: Final = ("--print-data-log",)
KAFKA_VERSION: Final = "4.3.1"
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "kafkalog-bench"
_JVM: Final = (
    "-Xmx256M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
)
_POM: Final = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>kafkalog</groupId><artifactId>benchmarks</artifactId><version>1</version>
<dependencies><dependency>
<groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{KAFKA_VERSION}</version>
</dependency></dependencies></project>
"""
_IS_COMPILED: Final = memory_records.MemoryRecords.__module__.endswith("_crecords.memory_records")
AIOKAFKA: Final = f"aiokafka {version('aiokafka')}, {'compiled' if _IS_COMPILED else 'INTERPRETED'} parser"


def aiokafka_seconds(log: LogFile) -> float | None:
    """Seconds to check and parse every record; None where this reader refuses the format."""
    seconds, records = 0.0, 0
    for window in _windows(log.path):
        start = perf_counter()
        try:
            records += _parse(window)
        except (CorruptRecordException, UnsupportedCodecError, RuntimeError):
            return None
        seconds += perf_counter() - start
    if records != log.record_count:
        raise SystemExit(f"aiokafka read {records} records of {log.record_count} in {log.path}")
    return seconds


def _parse(window: bytes) -> int:
    reader = memory_records.MemoryRecords(window)
    count = 0
    while (batch := reader.next_batch()) is not None:
        if not batch.validate_crc():
            raise SystemExit("aiokafka finds a wrong checksum")
        for _ in batch:
            count += 1
    return count


def _windows(path: str) -> Iterator[bytes]:
    """Runs of whole batches, about `WINDOW_BYTES` each."""
    rest = b""
    size_of = layout.ENVELOPE.struct.unpack_from
    with Path(path).open("rb") as file:
        while piece := file.read(WINDOW_BYTES):
            data = rest + piece
            position = 0
            while position + layout.LOG_OVERHEAD <= len(data):
                end = position + layout.LOG_OVERHEAD + size_of(data, position)[1]
                if end > len(data):
                    break
                position = end
            rest = data[position:]
            yield data[:position]


class JavaTool:
    """DumpLogSegments of one Kafka release. `missing` says why it cannot be run, or is empty."""

    def __init__(self) -> None:
        self.jars = CACHE / f"kafka-tools-{KAFKA_VERSION}"
        self.missing = self._resolve()
        self.name = f"DumpLogSegments {KAFKA_VERSION}, {self._jvm_name()}" if not self.missing else self.missing

    def _resolve(self) -> str:
        if not shutil.which("java"):
            return "no Java at hand"
        if list(self.jars.glob("kafka-tools-*.jar")):
            return ""
        if not shutil.which("mvn"):
            return "no Maven at hand to fetch Kafka's jars"
        pom = CACHE / "pom.xml"
        pom.parent.mkdir(parents=True, exist_ok=True)
        pom.write_text(_POM)
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={self.jars}"]
        done = subprocess.run(command, capture_output=True, check=False)
        return "" if done.returncode == 0 else "Maven could not fetch Kafka's jars"

    @staticmethod
    def _jvm_name() -> str:
        told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
        return told.stderr.splitlines()[0]

    def seconds(self, path: str, options: Sequence[str] = PRINT) -> float:
        """Wall time of one run over a file, start included."""
        seconds = self.seconds_within(None, path, options)
        return 0.0 if seconds is None else seconds

    def seconds_within(self, limit_seconds: float | None, path: str, options: Sequence[str]) -> float | None:
        """Wall time of one run over a file, start included; null: it was stopped at the limit."""
        command = ["java", *_JVM, "-cp", f"{self.jars}/*", "org.apache.kafka.tools.DumpLogSegments"]
        start = perf_counter()
        try:
            subprocess.run(
                [*command, *options, "--files", path],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=True,
                timeout=limit_seconds,
            )
        except subprocess.TimeoutExpired:
            return None
        return perf_counter() - start
