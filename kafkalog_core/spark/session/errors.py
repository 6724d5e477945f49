"""Errors of Spark, its JVM and py4j, as kafkalog's own errors: one sentence, and no Java stack trace."""

from __future__ import annotations

import os
import re
import socket
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import KafkalogError, UnsupportedError, WorkerLostError
from kafkalog_core.storage.paths import absolute, is_object

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
_NO_REASON: Final = re.compile(r"An error occurred while calling \S+")
"""The whole text of py4j's error if the JVM ends before it has said anything about a call."""
_TASK_ERROR: Final = "PythonException"
_UNREACHABLE: Final = (
    "All masters are unresponsive",
    "on a stopped SparkContext",
    "Could not parse Master URL",
    "Invalid master URL",
)
_REMOVED: Final = re.compile(r"Master removed our application: (\w+)")
"""Of `StandaloneAppClient`: ten executors in turn failed (`spark.deploy.maxExecutorRetries`), or somebody killed it.
Spark then stops its context, and later calls say that it is stopped and not why: the log has the reason."""
_STOPPED: Final = ("on a stopped SparkContext", "SparkContext was shut down")
_FAILED: Final = "FAILED"
_NOT_STARTED: Final = "JAVA_GATEWAY_EXITED"
_ADVICE: Final = re.compile(
    r" (?:This stopped SparkContext|Verify the spelling|If you did not|To tolerate|If necessary set|Use `try_).*$"
)
"""Spark's advice about its own settings and statements, which follows the description of the error."""

_MEMORY: Final = ("OutOfMemoryError", "MemoryError", "maxResultSize")
_ATTEMPT: Final = re.compile(r"^Lost task \S+ in stage \S+ \(TID \d+\) \([^)]*\): ")
_LAST_LINES: Final = 20
_LINES_OF_A_STOP: Final = 1000  # with the stack traces of what fails after it
_LONGEST: Final = 400


class SparkError(KafkalogError):
    """Spark could not be started, or refused a request."""


@contextmanager
def spark_errors(log: str | None = None) -> Iterator[None]:
    """Turn errors of pyspark and py4j in the body into SparkError, or WorkerLostError if work was lost.

    One that pyspark raises while it cleans up after Ctrl-C is raised as the KeyboardInterrupt that it hides.

    `log`: path of the file with Spark's own messages; None: they were written to stderr.
    """
    try:
        yield
    except KafkalogError:
        raise
    except Exception as error:
        if not _is_foreign(error):
            raise
        if _is_interrupted(error):
            raise KeyboardInterrupt from error
        raise _ours(error, log) from error


def _is_foreign(error: Exception) -> bool:
    """Return whether Spark raised an error. A refused connection counts: py4j raises that when the JVM has ended."""
    return type(error).__module__.partition(".")[0] in _FOREIGN or isinstance(error, ConnectionError)


def _is_interrupted(error: BaseException) -> bool:
    """Return whether an error was raised while Ctrl-C was handled: it reached the JVM too, which ended first."""
    before = error.__context__
    return before is not None and (isinstance(before, KeyboardInterrupt) or _is_interrupted(before))


def _ours(error: Exception, log: str | None) -> KafkalogError:
    text = _text(error)
    thrown = _thrown_by_python(text)
    if thrown is not None and thrown[0].startswith(_OURS) and not _is_end(error, text):
        return SparkError(thrown[1])
    place = "" if log is None else f" (Spark's log: {log})"
    removed = _REMOVED.search(text)
    if removed is None and any(word in text for word in _STOPPED):
        removed = _REMOVED.search("\n".join(_last_lines(log, _LINES_OF_A_STOP)))
    if removed is not None:
        return SparkError(f"{_removal(removed[1])}{place}")
    lost = _lost(error, text, thrown)
    if lost is not None:
        return WorkerLostError(f"{lost}{place}")
    if any(word in text for word in _UNREACHABLE):
        return SparkError(f"no Spark master answers there; --master 'local[*]' needs none{place}")
    if _NOT_STARTED in text:
        reason = _last_error_line(log)
        return SparkError(f"Spark's Java process did not start{f': {reason}' if reason else ''}{place}")
    return SparkError(f"{thrown[0]}: {thrown[1]}" if thrown else f"Spark reports: {_sentence(text)}")


def _removal(state: str) -> str:
    """Return a sentence about an application that a standalone master ended in some state."""
    if state != _FAILED:
        return f"the master removed the application: it is {state.lower()} there"
    return (
        "the master removed the application: its executors failed (each worker keeps their stderr in its work "
        "directory, $SPARK_HOME/work if no other is set, below the id of the application)"
    )


def _lost(error: Exception, text: str, thrown: tuple[str, str] | None) -> str | None:
    """Return a sentence about work that had begun and was lost; None: no work was lost."""
    if _is_end(error, text):
        return "Spark's Java process has ended in the middle of the work"
    if any(word in text for word in _MEMORY):
        hint = "run the command again with --driver-memory 4g, or on a cluster with --conf spark.executor.memory=4g"
        return f"Spark ran out of memory: {hint}"
    if type(error).__name__ == _TASK_ERROR or any(word in text for word in _LOST):
        reason = f"{thrown[0]}: {thrown[1]}" if thrown else _reason(text)
        return f"the work failed on Spark in every attempt: {reason}"
    return None


def _is_end(error: Exception, text: str) -> bool:
    """Return whether the error means that the JVM has ended."""
    is_lost = isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError"
    if is_lost or _NO_ANSWER in text or _NO_REASON.fullmatch(text) is not None:
        return True
    return _NOT_STARTED not in text and _has_jvm_ended()


def _has_jvm_ended() -> bool:
    """Return whether the JVM of this process has ended: then py4j's errors say of anything that it does not exist."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    process = getattr(getattr(context, "_gateway", None), "proc", None)
    return process is not None and process.poll() is not None


def _text(error: Exception) -> str:
    """Return the whole text of an error, with that of its Java exception."""
    java = getattr(error, "java_exception", None)
    if java is None:
        return str(error)
    try:
        return f"{java.toString()}\n{error}"
    except Exception:  # noqa: BLE001 -- the JVM may have ended, and that error must still be reported
        return str(error)


def _last_error_line(log: str | None) -> str:
    """Return the line of the log that shows why a JVM ended: the last line with an error, else the last line."""
    texts = [
        line.strip()
        for line in _last_lines(log, _LAST_LINES)
        if line.strip() and not line.startswith(("\tat ", "    at "))
    ]
    errors = [line for line in texts if any(word in line for word in ("Error", "Exception", "Invalid"))]
    return _short((errors or texts or [""])[-1])


def _last_lines(log: str | None, count: int) -> list[str]:
    """Return the last lines of a log; None, or one that cannot be read, has none."""
    if log is None:
        return []
    try:
        return Path(log).read_text(encoding="utf-8", errors="replace").splitlines()[-count:]
    except OSError:
        return []


def _thrown_by_python(text: str) -> tuple[str, str] | None:
    """Return kind and message of the exception that ends the last Python traceback in a text; None: there is none."""
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
    """Return why the last attempt at a task failed, from Spark's report about all attempts."""
    _, found, last = text.partition("most recent failure: ")
    if found:
        text = _ATTEMPT.sub("", last)
    return _sentence(text).rstrip(":")


def _sentence(text: str) -> str:
    """Return the message of a Spark exception, without its class, error code and query plan."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    message: list[str] = []
    for line in lines:
        if line.startswith(("at ", "Caused by:", "JVM stacktrace", "== SQL", "'", "+-", ":-")):
            break
        message.append(line)
    joined = _CONDITION.sub("", _without_class(" ".join(message)))
    return _short(_ADVICE.sub("", _STATE.sub("", joined)))


def _without_class(text: str) -> str:
    return re.sub(r"^(?:[a-z_]\w*\.)+[A-Z]\w*: ", "", text)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


_MASTER: Final = re.compile(
    r"local(\[\s*(\d+|\*)\s*(,\s*\d+\s*)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    r"|spark://[^/\s]+|yarn|k8s://\S+"
)
_STANDALONE: Final = "spark://"
_PORT: Final = 7077
_SECONDS: Final = 5


def check_master(master: str) -> None:
    """Raise SparkError if a text is not the URL of a Spark master."""
    if _MASTER.fullmatch(master) is None:
        raise SparkError(
            f"{master!r} is not a Spark master; name local[*], local[N], spark://HOST:7077, yarn or k8s://URL"
        )


def check_master_answers(master: str) -> None:
    """Raise SparkError if a standalone master does not answer; Spark itself would try for more than a minute."""
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
        raise SparkError(f"{text!r} is not HOST:PORT of a Spark master")
    return host.strip("[]"), int(port)


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), _SECONDS).close()
    except (OSError, OverflowError, UnicodeError):
        return False
    return True


_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def local_paths(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the paths as absolute paths, because tasks have another working directory; `s3://` paths as they are.

    Raises UnsupportedError for another URL, such as `hdfs://host/logs`: kafkalog reads windows anywhere in a file.
    """
    return tuple(map(_local, paths))


def _local(path: str) -> str:
    if is_object(path):
        return absolute(path)
    url = _URL.match(path)
    if url is not None and not os.path.lexists(path):
        cure = (
            f"write the path without {url[1]}:"
            if url[1] == "file"
            else "mount the file system on all machines, copy the files to their disks, or name them as s3://BUCKET/PREFIX"
        )
        raise UnsupportedError(f"kafkalog does not read {url[1]}: URLs; {cure}", path=path)
    return os.path.abspath(path) if path else path
