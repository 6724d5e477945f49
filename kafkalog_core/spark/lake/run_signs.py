"""The runs that write into an output now: each has a small file that says where it runs.

No run waits for another, and no file locks anything. The next run needs to know only whose unfinished files it may
delete. A run's files may be deleted when it has ended. Nobody sees that of a run on another machine: it writes its
sign again before each commit, and is taken for ended when the sign is a day old. Then it can no longer commit.
"""

from __future__ import annotations

import errno
import json
import os
import platform
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Self

from kafkalog_core.errors import NotFoundError, StorageError
from kafkalog_core.spark.lake.store import small_name
from kafkalog_core.storage.changing.writer import WriteError

if TYPE_CHECKING:
    from kafkalog_core.spark.lake.store import Store

__all__ = ["FOLDER", "LiveRun", "is_dead", "is_silent", "sign_name"]

FOLDER: Final = "_kafkalog/runs"
_SILENT_S: Final = 24 * 3600
"""Longer than the work between two commits; whatever it is, no record is lost or doubled: see `OutputRun`."""
_ATTEMPTS: Final = 20
_here: set[str] = set()
"""The runs of this process."""


class LiveRun:
    """The sign of a run; a context manager that deletes it."""

    def __init__(self, store: Store, run: str) -> None:
        self._store = store
        self._run = run

    def __enter__(self) -> Self:
        self.renew()
        _here.add(self._run)
        return self

    def __exit__(self, *error: object) -> None:
        _here.discard(self._run)
        with suppress(StorageError):
            self._store.delete([sign_name(self._run)])

    def renew(self) -> None:
        """Write the sign, perhaps again: the run goes on. Raises WriteError."""
        for attempt in count(1):
            try:
                self._store.replace(sign_name(self._run), _sign())
                break
            except WriteError as error:
                # Another run has deleted the sign before it had its name: it took that for left by one that ended.
                if error.errno != errno.ENOENT or attempt == _ATTEMPTS:
                    raise


def is_dead(store: Store, run: str) -> bool:
    """Return whether a run has surely ended: it has no sign, or its process on this machine is gone."""
    # In the same process a run is alive by definition.
    if run in _here:
        return False
    try:
        sign = json.loads(store.read(sign_name(run)))
        is_here = all(sign[name] == value for name, value in _machine().items())
        # The start time too: process ids are used again.
        return is_here and (sign["pid"] == os.getpid() or _started(sign["pid"]) != sign["started"])
    except NotFoundError:
        return True
    except (StorageError, ValueError, KeyError, TypeError):
        # Somebody else's, or not to be read now
        return False


def is_silent(store: Store, run: str, now_s: float) -> bool:
    """Return whether a run, perhaps on another machine, has a sign that is more than a day old by the store's clock.

    A run without a sign has ended by itself: it is not silent, and needs no commit that fences it. Raises AccessError.
    """
    written_s = store.written_s(sign_name(run))
    return written_s is not None and now_s - written_s > _SILENT_S


def sign_name(run: str) -> str:
    """Return the name of a run's sign."""
    return f"{FOLDER}/{small_name(run, 0)}"


def _sign() -> bytes:
    pid = os.getpid()
    sign: dict[str, Any] = {**_machine(), "pid": pid, "started": _started(pid)}
    return json.dumps(sign).encode()


def _machine() -> dict[str, str]:
    """Return what the processes of this machine, since its start and in one container, have in common."""
    try:
        processes = os.readlink("/proc/self/ns/pid")
    except OSError:
        processes = ""
    return {"host": platform.node(), "boot": _boot(), "processes": processes}


def _boot() -> str:
    """Return the id of this start of the machine."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """Return when a process started, in ticks since the machine did; None: there is no such process."""
    try:
        with open(f"/proc/{int(pid)}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except OSError:
        return None
