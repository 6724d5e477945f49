"""Commands as functions of directories: what each leaves of a tree. Of trees that look the same it is played once.

What a command does depends on the files that it finds, and on nothing else here: the clock only names the next run, and
no other process holds a lock. So thousands of states after a loss of power share the few trees that recovery leads to.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.storage import locks
from kafkalog_core.storage.changing import changes
from kafkalog_core.storage.changing.writer import Disk
from tests.power.tree import BLOCK, Tree, read_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

__all__ = ["Played", "Player", "command", "full", "sampled", "used_bytes"]


@dataclass(frozen=True)
class Played:
    """What a command answered, and what it left."""

    status: int
    output: str
    tree: Tree

    @property
    def last_line(self) -> str:
        """The last of what it printed."""
        return self.output.strip().rpartition("\n")[2][-400:]


class Player:
    """Plays commands on trees.

    Args:
        devices: the file systems, as for `read_tree`.
        conditions: what is entered around each command.
    """

    def __init__(
        self, devices: Mapping[str, str], conditions: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        self._devices = devices
        self._conditions = conditions
        self._played: dict[tuple[int, tuple[str, ...]], Played] = {}
        self._there: Tree | None = None

    def play(self, tree: Tree, *line: str) -> Played:
        """Return what a command line makes of a tree."""
        key = tree.key(), line
        played = self._played.get(key)
        if played is None:
            self.write(tree)
            self._there = None
            with self._conditions():
                status, output = command(*line)
            self._there, _ = read_tree(self._devices, count(1))
            played = self._played[key] = Played(status, output, self._there)
        return played

    def forget(self) -> None:
        """Note that somebody else has changed the disk."""
        self._there = None

    def write(self, tree: Tree) -> None:
        """Make the directories on the disk those of a tree."""
        there, self._there = self._there, None
        if there is None or tree.key() != there.key():
            tree.write(there)
        self._there = tree


def command(*line: str) -> tuple[int, str]:
    """Run the command line in this process; its exit status and what it printed.

    Nobody else locks anything here, and a list of all locks of the machine takes long to read.
    """
    really, locks._LOCKS = locks._LOCKS, os.devnull  # type: ignore[misc]
    try:
        result = CliRunner().invoke(cli, list(line))
    finally:
        locks._LOCKS = really  # type: ignore[misc]
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


@contextmanager
def sampled(size_bytes: int | None) -> Iterator[None]:
    """Hash only that many bytes at both ends of each larger file while entered, as of logs of many megabytes."""
    if size_bytes is None:
        yield
        return
    whole, sample = changes.WHOLE_BYTES, changes.SAMPLE_BYTES
    changes.WHOLE_BYTES = 2 * size_bytes  # type: ignore[misc]
    changes.SAMPLE_BYTES = size_bytes  # type: ignore[misc]
    try:
        yield
    finally:
        changes.WHOLE_BYTES = whole  # type: ignore[misc]
        changes.SAMPLE_BYTES = sample  # type: ignore[misc]


# --- full disks -------------------------------------------------------------------------------------------------------
def used_bytes(top: Path) -> int:
    """Return what a directory and all below it take, in blocks of 4096 bytes."""
    sizes: dict[str | int, int] = {str(top): BLOCK}
    for around, directories, names in os.walk(top):
        sizes.update({f"{around}/{name}": BLOCK for name in directories})
        for name in names:
            status = os.lstat(f"{around}/{name}")
            sizes[status.st_ino] = _rounded(status.st_size)  # a file with two names is there once
    return sum(sizes.values())


@contextmanager
def full(top: Path | None, room_bytes: int) -> Iterator[None]:
    """Let the file system of a directory have that many bytes, used and free, while entered."""
    if top is None:
        yield
        return
    statvfs, put, make = os.statvfs, Disk._put, Disk._mkdir

    def free_bytes() -> int:
        return max(0, room_bytes - used_bytes(top))

    def asked(path: str) -> os.statvfs_result:
        status = list(statvfs(path))
        if f"{path}/".startswith(f"{top}/"):
            status[0:5] = [BLOCK, BLOCK, room_bytes // BLOCK, free_bytes() // BLOCK, free_bytes() // BLOCK]
        return os.statvfs_result(status)

    def is_here(number: int) -> bool:
        return os.readlink(f"/proc/self/fd/{number}").startswith(f"{top}/")

    def written(disk: Disk, number: int, data: memoryview) -> int:
        size, position = os.fstat(number).st_size, os.lseek(number, 0, os.SEEK_CUR)
        grown = _rounded(max(size, position + len(data))) - _rounded(size)
        if is_here(number) and grown > free_bytes():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return put(disk, number, data)

    def made(disk: Disk, path: str, mode: int) -> None:
        if path.startswith(f"{top}/") and free_bytes() < BLOCK:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        make(disk, path, mode)

    os.statvfs, Disk._put, Disk._mkdir = asked, written, made  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        os.statvfs, Disk._put, Disk._mkdir = statvfs, put, make  # type: ignore[method-assign]


def _rounded(size_bytes: int) -> int:
    return -(-size_bytes // BLOCK) * BLOCK
