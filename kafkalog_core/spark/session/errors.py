"""What Spark, its JVM and the bridge to it raise, as errors of ours: one sentence, and no stack trace of Java's."""

from __future__ import annotations

import os
import re
import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import KafkalogError, UnsupportedError, WorkerLostError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["SparkError", "check_master", "check_master_answers", "local_paths", "spark_errors"]


_FOREIGN: Final = ("pyspark", "py4j")
_OURS: Final = "kafkalog_core."
_PYTHON_ERROR: Final = re.compile(r"^\s*((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*): (.+)$|^\s*(MemoryError|KeyboardInterrupt)$")
_TRACEBACK: Final = "Traceback (most recent call last):"
_CONDITION: Final = re.compile(r"^\[([A-Z0-9_.]+)\]\s*")
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+.*$", re.DOTALL)
_LOST: Final = ("Job aborted", "Task failed", "exited unexpectedly", "cancelled because SparkContext was shut down")
_NO_ANSWER: Final = "Answer from Java side is empty"
_TASK_ERROR: Final = "PythonException"
_UNREACHABLE: Final = (
    "All masters are unresponsive",
    "on a stopped SparkContext",
    "Could not parse Master URL",
    "Invalid master URL",
)
_NOT_STARTED: Final = "JAVA_GATEWAY_EXITED"
_ADVICE: Final = re.compile(
    r" (?:This stopped SparkContext|Verify the spelling|If you did not|To tolerate|If necessary set|Use `try_).*$"
)
"""What Spark says of its own settings and statements behind what is wrong."""

_MEMORY: Final = ("OutOfMemoryError", "MemoryError", "maxResultSize")
_ATTEMPT: Final = re.compile(r"^Lost task \S+ in stage \S+ \(TID \d+\) \([^)]*\): ")
_LAST_LINES: Final = 20
_LONGEST: Final = 400


class SparkError(KafkalogError):
    """Spark could not be started, or would not do what it was asked for."""


@contextmanager
def spark_errors(log: str | None = None) -> Iterator[None]:
    """Turn what pyspark and py4j raise in the body into SparkError, or WorkerLostError where the work was lost.

    `log` is the file that has all that Spark itself said.
    """
    try:
        yield
    except KafkalogError:
        raise
    except Exception as error:
        if not _is_foreign(error):
            raise
        raise _ours(error, log) from error


def _is_foreign(error: Exception) -> bool:
    """Whether Spark raised it; a refused connection is the JVM's end, as the bridge sees it."""
    return type(error).__module__.partition(".")[0] in _FOREIGN or isinstance(error, ConnectionError)


def _ours(error: Exception, log: str | None) -> KafkalogError:
    text = _text(error)
    thrown = _thrown_by_python(text)
    if thrown is not None and thrown[0].startswith(_OURS) and not _is_end(error, text):
        return SparkError(thrown[1])
    place = "" if log is None else f" (what Spark said: {log})"
    lost = _lost(error, text, thrown)
    if lost is not None:
        return WorkerLostError(f"{lost}{place}")
    if any(word in text for word in _UNREACHABLE):
        return SparkError(f"no Spark master answers there; --master 'local[*]' needs none{place}")
    if _NOT_STARTED in text:
        said = _last_words(log)
        return SparkError(f"Spark's Java process did not start{f': {said}' if said else ''}{place}")
    return SparkError(f"{thrown[0]}: {thrown[1]}" if thrown else f"Spark says: {_sentence(text)}")


def _lost(error: Exception, text: str, thrown: tuple[str, str] | None) -> str | None:
    """How work was lost that had begun; null: it had not."""
    if _is_end(error, text):
        return "Spark's Java process has ended in the middle of the work"
    if any(word in text for word in _MEMORY):
        hint = "--driver-memory 4g, or --conf spark.executor.memory=4g on a cluster, gives it more"
        return f"Spark had not enough memory: {hint}"
    if type(error).__name__ == _TASK_ERROR or any(word in text for word in _LOST):
        reason = f"{thrown[0]}: {thrown[1]}" if thrown else _reason(text)
        return f"the work failed on Spark, after all its attempts: {reason}"
    return None


def _is_end(error: Exception, text: str) -> bool:
    """Whether nobody answers any more."""
    return isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError" or _NO_ANSWER in text


def _text(error: Exception) -> str:
    """All of what an error says, Java's part of it too."""
    java = getattr(error, "java_exception", None)
    if java is None:
        return str(error)
    try:
        return f"{java.toString()}\n{error}"
    except Exception:  # noqa: BLE001 -- the JVM may be gone, which is no reason to fail at telling so
        return str(error)


def _last_words(log: str | None) -> str:
    """The line of the log that says why a JVM ended: the last one of its errors, else the last one."""
    if log is None:
        return ""
    try:
        lines = Path(log).read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
    except OSError:
        return ""
    told = [line.strip() for line in lines if line.strip() and not line.startswith(("\tat ", "    at "))]
    errors = [line for line in told if any(word in line for word in ("Error", "Exception", "Invalid"))]
    return _short((errors or told or [""])[-1])


def _thrown_by_python(text: str) -> tuple[str, str] | None:
    """Kind and message of the exception at the end of the last traceback of Python in the text."""
    _, found, trace = text.rpartition(_TRACEBACK)
    if not found:
        return None
    for line in trace.splitlines()[1:]:
        if line.strip() and not line.startswith((" " * 2, "\t")):
            match = _PYTHON_ERROR.match(line)
            if match is not None:
                return match[1] or match[3], _short(match[2] or "no memory")
    return None


def _reason(text: str) -> str:
    """Why the last attempt at a task failed, out of Spark's account of all of them."""
    _, found, last = text.partition("most recent failure: ")
    if found:
        text = _ATTEMPT.sub("", last)
    return _sentence(text).rstrip(":")


def _sentence(text: str) -> str:
    """What an exception of Spark's says, without its class, code and plan."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told: list[str] = []
    for line in lines:
        if line.startswith(("at ", "Caused by:", "JVM stacktrace", "== SQL", "'", "+-", ":-")):
            break
        told.append(line)
    joined = _CONDITION.sub("", _without_class(" ".join(told)))
    return _short(_ADVICE.sub("", _STATE.sub("", joined)))


def _without_class(text: str) -> str:
    return re.sub(r"^(?:[a-z_]\w*\.)+[A-Z]\w*: ", "", text)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


_SPELLINGS: Final = re.compile(
    r"local(\[\s*(\d+|\*)\s*(,\s*\d+\s*)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    r"|spark://[^/\s]+|yarn|k8s://\S+"
)
_STANDALONE: Final = "spark://"
_PORT: Final = 7077
_SECONDS: Final = 5


def check_master(master: str) -> None:
    """Raises SparkError where it is none of Spark's spellings."""
    if _SPELLINGS.fullmatch(master) is None:
        raise SparkError(f"{master!r} is no master of Spark: local[*], local[N], spark://HOST:7077, yarn or k8s://URL")


def check_master_answers(master: str) -> None:
    """Raises SparkError where a standalone master does not answer: Spark itself would try for more than a minute."""
    if not master.startswith(_STANDALONE):
        return
    places = [_place(text) for text in master.removeprefix(_STANDALONE).split(",")]
    if not any(_answers(host, port) for host, port in places):
        raise SparkError(f"no Spark master answers at {master}; --master 'local[*]' needs none")


def _place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host:
        return text, _PORT
    if not port.isdigit():
        raise SparkError(f"{text!r} is no HOST:PORT of a Spark master")
    return host.strip("[]"), int(port)


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), _SECONDS).close()
    except (OSError, OverflowError, UnicodeError):
        return False
    return True


_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def local_paths(paths: Iterable[str]) -> tuple[str, ...]:
    """The paths as absolute ones: a task has another working directory.

    Raises UnsupportedError for a URL, as `s3a://bucket/logs`: a log is read in windows at any place of its files, and
    its locks, links and owners count, so it must be a file system that is mounted.
    """
    return tuple(map(_local, paths))


def _local(path: str) -> str:
    url = _URL.match(path)
    if url is not None and not os.path.lexists(path):
        cure = (
            "write the path without it"
            if url[1] == "file"
            else "mount it on all machines, or copy it to a disk of them"
        )
        raise UnsupportedError(f"paths of {url[1]}: are not read; {cure}", path=path)
    return os.path.abspath(path) if path else path
