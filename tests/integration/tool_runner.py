"""Kafka's command-line tools, and programs of our own over its clients, of any release: all in one Java process."""

from __future__ import annotations

import base64
import selectors
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from tests.support import jars

if TYPE_CHECKING:
    from types import TracebackType

_SOURCES: Final = Path(__file__).parent / "java"
_SECONDS: Final = 120
_LOG4J: Final = """log4j.rootLogger=WARN, err
log4j.appender.err=org.apache.log4j.ConsoleAppender
log4j.appender.err.target=System.err
log4j.appender.err.layout=org.apache.log4j.PatternLayout
log4j.appender.err.layout.ConversionPattern=%p %c %m%n
"""
_OPTIONS: Final = (
    *("-Xmx700m", *jars.QUICK, "-Djava.security.manager=allow"),
    *("--add-opens", "java.base/java.lang=ALL-UNNAMED"),
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)


class Done(NamedTuple):
    """What a tool left: exit status, and what it wrote."""

    status: int
    out: str
    err: str


class ToolRunner:
    """One Java process that runs tools, a command at a time; a context manager that ends it.

    Raises jars.MissingError without Java.
    """

    def __init__(self) -> None:
        java = shutil.which("java")
        if java is None:
            raise jars.MissingError("no java on this machine to run Kafka's tools with")
        self._place = tempfile.TemporaryDirectory()
        log4j = Path(self._place.name, "log4j.properties")
        log4j.write_text(_LOG4J)
        command = [java, *_OPTIONS, f"-Dlog4j.configuration=file:{log4j}", f"-Djava.io.tmpdir={self._place.name}"]
        command.append(str(_SOURCES / "ToolRunner.java"))
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def run(self, version: str, program: str, arguments: str, stdin: str = "") -> Done:
        """Run a class, or a source file of the directory `java`, with the jars of a release.

        arguments: separated by blanks.
        """
        name = str(_SOURCES / program) if program.endswith(".java") else program
        fields = [str(jars.fetch(version)), name, *map(_encoded, (stdin, *arguments.split()))]
        pipes = self._process
        assert pipes.stdin is not None
        assert pipes.stdout is not None
        pipes.stdin.write("\t".join(fields).encode() + b"\n")
        pipes.stdin.flush()
        with selectors.DefaultSelector() as waiting:
            waiting.register(pipes.stdout, selectors.EVENT_READ)
            assert waiting.select(_SECONDS), f"{program} {arguments} has not ended after {_SECONDS} s"
        status, out, err = pipes.stdout.readline().split(b"\t")
        return Done(int(status), _decoded(out), _decoded(err))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._place.cleanup()


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _decoded(text: bytes) -> str:
    return base64.b64decode(text).decode("utf-8", "replace")
