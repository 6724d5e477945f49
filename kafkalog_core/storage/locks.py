"""Who holds the lock of a log directory: a live broker, another run of kafkalog, or nobody. Nothing is locked here."""

from __future__ import annotations

import os
from threading import Event
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.format.names import FileKind, fixed_file_name
from kafkalog_core.storage.framing import count_zeros
from kafkalog_core.storage.logdir import OWN_LOCK, is_broker_dir
from kafkalog_core.storage.source import FileChange
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog_core.storage.source import Source

__all__ = [
    "OWN_LOCK",
    "Holder",
    "file_lock_holder",
    "holder_at_work",
    "is_being_written",
    "lock_holder",
    "locked_dirs",
    "unlocked_dirs",
]

_NAME: Final = fixed_file_name(FileKind.LOCK)
_LOCKS: Final = "/proc/locks"
_BROKER: Final = "kafka.Kafka"
_PROGRAM: Final = "kafkalog"
_TRIES: Final = 250
_PAUSE_SECONDS: Final = 0.02


def locked_dirs(paths: Iterable[str]) -> list[str]:
    """Return the log directories that paths are, or are in, links resolved: those that have a lock file or need one.

    Without other files of a broker, a lock file counts only in the path itself or directly above it: other programs use
    that name too.
    """
    near: set[str] = set()
    above: set[str] = set()
    for path in paths:
        # Links are resolved: brokers follow them, and the lock is in the real directory.
        for spelling in (os.path.abspath(path), os.path.realpath(path)):
            near |= {spelling, os.path.dirname(spelling)}
            around = os.path.dirname(spelling)
            while around not in above:
                above.add(around)
                around = os.path.dirname(around)
    found: dict[tuple[int, int], str] = {}
    for directory in sorted(near | above):
        # A `.lock` alone proves nothing: other programs use the name.
        if is_broker_dir(directory) or (directory in near and os.path.lexists(f"{directory}/{_NAME}")):
            status = os.stat(directory)
            found.setdefault((status.st_dev, status.st_ino), directory)
    return list(found.values())


def unlocked_dirs(paths: Iterable[str]) -> list[str]:
    """Return those of some directories that are outside a log directory, where no broker takes a lock."""
    found: dict[tuple[int, int], str] = {}
    for path in paths:
        if os.path.isdir(path) and not locked_dirs([path]):
            status = os.stat(path)
            found.setdefault((status.st_dev, status.st_ino), os.path.abspath(path))
    return list(found.values())


class Holder(Struct, frozen=True):
    """A process that holds a lock.

    Args:
        name: `process 4711 (java)`, or `another process` if the system does not show which.
        kind: what it is, as far as its command line shows.
    """

    name: str
    kind: Literal["kafkalog", "broker", "other"] = "other"

    def __str__(self) -> str:
        """Return its name."""
        return self.name

    @property
    def sentence(self) -> str:
        """Name and kind: `process 4711 (java), most likely a running broker`."""
        kinds = {"kafkalog": ", another run of kafkalog", "broker": ", most likely a running broker"}
        return f"{self.name}{kinds.get(self.kind, '')}"

    @property
    def advice(self) -> str:
        """What to do about it, the start of a sentence."""
        return "Wait until it ends" if self.kind == "kafkalog" else "Stop it"


def lock_holder(directory: str) -> Holder | None:
    """Return the process that holds the lock of a log directory; None: there is none, or it is unknown."""
    return file_lock_holder(f"{directory}/{_NAME}")


def holder_at_work(directory: str) -> Holder | None:
    """Return the other process that holds the lock which a repair of a directory takes; None: there is none."""
    names = [f"{each}/{_NAME}" for each in locked_dirs([directory])]
    names += [f"{each}/{OWN_LOCK}" for each in unlocked_dirs([directory])]
    return next((holder for holder in map(file_lock_holder, names) if holder is not None), None)


def file_lock_holder(path: str) -> Holder | None:
    """Return the process that holds a POSIX lock of a file; None: there is none, or the system does not show it."""
    try:
        status = os.stat(path)
        # /proc/locks names holders without taking a lock; to try the lock would stop a broker that starts at this
        # moment.
        with open(_LOCKS, encoding="ascii") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    # As the kernel prints device and inode there.
    name = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in lines:
        words = line.split()
        # `->` marks a waiting process, which holds nothing.
        if name in words and "POSIX" in words and "->" not in words:
            pid = words[words.index(name) - 1]
            # A lock of our own process is not a conflict.
            return None if pid == str(os.getpid()) else _process(pid)
    return None


def _process(pid: str) -> Holder:
    """Return a process by its number; one of another PID namespace has no `/proc` entry here."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="backslashreplace") as file:
            comm = file.read().strip()
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            line = os.fsdecode(file.read()).split("\0")
    # A process in another PID namespace is shown as 0 or not at all.
    except OSError:
        return Holder(f"process {pid}" if pid.isdigit() and pid != "0" else "another process")
    name, kind = _kind_of(comm, line)
    return Holder(f"process {pid} ({name})", kind)


def _kind_of(comm: str, line: Sequence[str]) -> tuple[str, Literal["kafkalog", "broker", "other"]]:
    """Return the name and the kind of a process, by its command line."""
    if comm == "java" or _BROKER in line:
        return comm, "broker"
    own = _own_arguments(line)
    if own is None:
        return comm, "other"
    command = next((word for word in own if word and not word.startswith("-")), "")
    return f"kafkalog {command}".strip(), "kafkalog"


def _own_arguments(line: Sequence[str]) -> Sequence[str] | None:
    """Return the arguments of a command line of kafkalog, a script or a module; None: it is another program."""
    for number, word in enumerate(line):
        if word == "-m":
            is_own = any(name.startswith(f"{_PROGRAM}_") for name in line[number + 1 : number + 2])
            return line[number + 2 :] if is_own else None
        if os.path.basename(word) == _PROGRAM:
            return line[number + 1 :]
        if number and not word.startswith("-"):
            return None
    return None


def is_being_written(source: Source, position: int) -> bool:
    """Return whether a broker appends to a segment that ends within the batch at a position: the file grew, or grows.

    A process can stand still in the middle of a write, on a busy machine for longer than this one reads. So a file
    whose log directory a live process has locked is watched for a few seconds; not where only zeros are left, as in
    preallocated space.
    """
    change, rest = source.refresh(), source.size_bytes - position
    # Preallocated space is all zeros, and a broker writes there without a change of size.
    if change is not FileChange.NONE or count_zeros(source, position, source.size_bytes) == rest:
        return change is FileChange.GREW
    if lock_holder(os.path.dirname(os.path.dirname(os.path.abspath(source.path)))):
        pause = Event()
        for _ in range(_TRIES):
            pause.wait(_PAUSE_SECONDS)
            change = source.refresh()
            if change is not FileChange.NONE:
                break
    return change is FileChange.GREW
