"""The own log and cleaner of a release of Kafka in one Java process, without a broker: hundreds of rounds a minute."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.support.jars import BEFORE_TOPIC_IDS, KAFKA_VERSION, NEWEST, QUICK, ZOOKEEPER_ERA, fetch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_SOURCES: Final = Path(__file__).parent / "java"
_CLASSES: Final = {
    KAFKA_VERSION: "LogHarness",
    NEWEST: "LogHarness",
    ZOOKEEPER_ERA: "LogHarnessOf28",
    BEFORE_TOPIC_IDS: "LogHarnessOf28",
}
_SMALL_SEGMENTS: Final = 4  # from this release on another setting than segment.bytes takes any size
_COMPILE_SECONDS: Final = 60
_OPTIONS: Final = ("-Xmx512m", *QUICK, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")


class HarnessError(Exception):
    """What Kafka's classes threw."""


class LogHarness:
    """The classes of one release at work; `LogCommands.java` describes the commands."""

    def __init__(self, process: subprocess.Popen[str], scratch: Path, version: str) -> None:
        self.version = version
        self._process = process
        self._sets = scratch / "sets"

    def append(
        self, partition_dir: Path, sets: Sequence[bytes], now_ms: int, settings: Mapping[str, str]
    ) -> dict[str, str]:
        """Append each set of batches."""
        self._sets.write_bytes(b"".join(len(each).to_bytes(4, "big") + each for each in sets))
        return self.run("append", partition_dir, now_ms, settings, sets=self._sets)

    def run(
        self, command: str, partition_dir: Path, now_ms: int, settings: Mapping[str, str], **words: object
    ) -> dict[str, str]:
        """The answer to one command; empty where there was nothing to do. Raises HarnessError."""
        line = [command, f"dir={partition_dir}", f"now={now_ms}"]
        line += [f"set.{name}={value}" for name, value in self.spell(settings).items()]
        line += [f"{name}={value}" for name, value in words.items()]
        assert self._process.stdin, self._process.stdout
        self._process.stdin.write("\t".join(line) + "\n")
        self._process.stdin.flush()
        kind, *answer = self.read_line().split("\t")
        if kind != "ok":
            raise HarnessError("\t".join(answer))
        return {} if answer == ["none"] else dict(word.split("=", 1) for word in answer)

    def spell(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Settings of a topic as the release wants them for segments smaller than anybody has."""
        is_apart = int(self.version.partition(".")[0]) >= _SMALL_SEGMENTS
        name = "internal.segment.bytes" if is_apart else "segment.bytes"
        return {name if each == "segment.bytes" else each: value for each, value in settings.items()}

    def read_line(self) -> str:
        """One line of what it says."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise HarnessError(f"the Java process ended with {self._process.wait()}")
        return line.rstrip("\n")


@contextlib.contextmanager
def running_harness(version: str = KAFKA_VERSION, *, options: Sequence[str] = _OPTIONS) -> Iterator[LogHarness]:
    """A harness over a release's jars; its process ends with the context. Raises jars.MissingError.

    `options` are those of Java.
    """
    libs = fetch(version)
    with tempfile.TemporaryDirectory() as scratch:
        path = os.pathsep.join((scratch, f"{libs}/*"))
        sources = [str(_SOURCES / f"{name}.java") for name in ("LogCommands", _CLASSES[version])]
        subprocess.run(["javac", "-d", scratch, "-cp", path, *sources], check=True, timeout=_COMPILE_SECONDS)
        command = ["java", *options, f"-Djava.io.tmpdir={scratch}", "-cp", path, _CLASSES[version]]
        with (
            Path(scratch, "errors").open("w+") as errors,
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            ) as process,
        ):
            harness = LogHarness(process, Path(scratch), version)
            try:
                assert harness.read_line() == "ready"
                yield harness
            except HarnessError as error:
                errors.seek(0)
                error.add_note(errors.read()[-4000:])
                raise
            finally:
                process.kill()
