"""Workers that do tasks at the same time, and whether a run is worth starting any.

The processes themselves are in `processes`, which is imported when a run starts them: most runs end before that.
"""

from __future__ import annotations

import os
import platform
import sys
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkalog_core.progress import Progress

__all__ = ["SHARED_BYTES", "Workers", "give_way", "run_all", "wants_processes"]

_LOWEST: Final = 19
_IOPRIO_SET: Final = {"x86_64": 251, "aarch64": 30}
"""Numbers of the call in Linux, by the machine: the C library has no function for it."""
_WHO_PROCESS: Final = 1
_IDLE: Final = 3 << 13  # IOPRIO_CLASS_IDLE

_Result = TypeVar("_Result")


class Workers(Protocol):
    """Workers that do tasks in parallel: processes on this machine, or on others."""

    @property
    def jobs(self) -> int:
        """Number of tasks that are done at the same time."""

    def map(self, work_of: Callable[..., _Result], tasks: Iterable[tuple[Any, ...]]) -> Iterator[_Result]:
        """Return the results of `work_of(*task, advance)` in the order of `tasks`, which are read lazily.

        Several maps may run at the same time. Raises WorkerLostError, and the errors of this project that `work_of`
        raises.
        """


SHARED_BYTES: Final = 64 * 1024 * 1024
"""Bytes of log that one process reads in the time that other processes need to start."""


def wants_processes(jobs: int, tasks: int, size_bytes: int) -> bool:
    """Return whether several processes do this work sooner than one: more than one task, and enough bytes to read."""
    return min(jobs, tasks) > 1 and size_bytes >= SHARED_BYTES


def run_all(
    work_of: Callable[..., _Result], tasks: Sequence[tuple[Any, ...]], jobs: int, size_bytes: int, progress: Progress
) -> Iterator[_Result]:
    """Yield `work_of(*task, advance)` for each task in order, in this process or, if that is faster, in several.

    Args:
        work_of: a function of a module; it calls its last argument with the bytes that it has read.
        tasks: arguments of each call, picklable.
        jobs: the most processes.
        size_bytes: bytes that all tasks read together.
        progress: is shown the bytes that are read.

    Raises WorkerLostError, and what `work_of` raises.
    """
    if not wants_processes(jobs, len(tasks), size_bytes):
        yield from (work_of(*task, progress.advance) for task in tasks)
        return
    from kafkalog_core.engine.processes import Pool  # noqa: PLC0415 -- see above

    with Pool(min(jobs, len(tasks)), progress) as pool:
        yield from pool.map(work_of, tasks)


def give_way() -> None:
    """Give way to all other processes, for processors and for disks, as `nice -n 19 ionice -c 3` does."""
    if hasattr(os, "nice"):
        os.nice(_LOWEST)
    # Not on all machines: without the number of the call, only the processors are given way.
    number = _IOPRIO_SET.get(platform.machine())
    if sys.platform == "linux" and number is not None:
        import ctypes  # noqa: PLC0415 -- see above

        ctypes.CDLL(None).syscall(number, _WHO_PROCESS, 0, _IDLE)
