"""Records what a command asks the system for: every write, name, attribute and fsync below some directories.

The calls are taken where Python hands them to the system (`os.write`, `os.rename`, ...), one below the guarded door
(`storage/changing/writer.py`). The door itself says what it means to do, which is no evidence: a step whose fsync was
forgotten looks the same there. strace would see the same calls from outside, but takes a process of its own for each of
thousands of states, the right to trace, and cannot be combined with a patched fsync in the process. What it would see
and this does not, a file that is opened for writing by another way than `os.open`, is noticed by an audit hook of the
interpreter: such a call is an error of the recording.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from kafkalog_core.storage.changing import writer
from tests.power.tree import Attributes, Inode, Name, Operation, Tree, read_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType

__all__ = ["CHANGING", "Recording", "recorded"]

CHANGING = os.path.dirname(writer.__file__)
OPENED = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
AUDITED = frozenset({"open", "os.rename", "os.remove", "os.link", "os.mkdir", "os.rmdir", "os.truncate"})


@dataclass
class Recording:
    """The directories before, and all operations in their order."""

    before: Tree
    operations: list[Operation] = field(default_factory=list)


class _Recorder:
    """Stands in for functions of `os` while a command runs."""

    def __init__(self, devices: Mapping[str, str]) -> None:
        self._numbers = count(1)
        tree, self._known = read_tree(devices, self._numbers)
        self._device = {number: inode.device for number, inode in tree.inodes.items()}
        self.recording = Recording(tree)
        self.roots = tuple(tree.roots)
        self.is_inside = False
        self.strays: list[str] = []

    # --- which inode --------------------------------------------------------------------------------------------------
    def _of(self, target: int | str) -> int | None:
        status = os.stat(target) if isinstance(target, int) else os.lstat(target)
        return self._known.get((status.st_dev, status.st_ino))

    def _parent(self, path: str, directory: int | None) -> tuple[int | None, str]:
        around, name = os.path.split(path)
        if directory is None:
            return self._of(around or "."), name
        return (self._of(directory) if not around else None), name

    def _inner(self, path: str, directory: int | None) -> int | None:
        try:
            status = os.stat(path, dir_fd=directory, follow_symlinks=False)
        except OSError:
            return None
        return self._known.get((status.st_dev, status.st_ino))

    def _add(self, kind: str, inode: int, **fields: Any) -> None:
        self.recording.operations.append(Operation(kind, inode, self._device[inode], **fields))

    def _born(self, kind: str, target: int | str, parent: int, name: str, directory: int | None = None) -> None:
        """Note a new file or directory."""
        if isinstance(target, int):
            status, attributes = os.stat(target), Attributes.of(target)
        else:
            number = os.open(target, os.O_RDONLY | os.O_DIRECTORY, dir_fd=directory)
            status, attributes = os.stat(number), Attributes.of(number)
            os.close(number)
        inode = self._known[status.st_dev, status.st_ino] = next(self._numbers)
        self._device[inode] = self._device[parent]
        is_directory, mtime_ns = kind == "mkdir", status.st_mtime_ns
        begins = Inode(self._device[parent], attributes, is_directory=is_directory, mtime_ns=mtime_ns)
        self._add(kind, inode, names=(Name(parent, name, inode),), begins=begins)

    # --- the calls ----------------------------------------------------------------------------------------------------
    def open(self, really: Callable[..., int], path: str, flags: int, mode: int = 0o777, **more: Any) -> int:
        directory = more.get("dir_fd")
        parent, name = self._parent(path, directory) if flags & os.O_CREAT else (None, "")
        is_new = parent is not None and self._inner(path, directory) is None
        number = really(path, flags, mode, **more)
        if is_new and parent is not None:
            self._born("create", number, parent, name)
        return number

    def write(self, really: Callable[..., int], number: int, data: bytes) -> int:
        inode = self._of(number)
        position = os.lseek(number, 0, os.SEEK_CUR) if inode is not None else 0
        written = really(number, data)
        if inode is not None:
            mtime_ns = os.stat(number).st_mtime_ns
            self._add("write", inode, position=position, data=bytes(data[:written]), mtime_ns=mtime_ns)
        return written

    def ftruncate(self, really: Callable[..., None], number: int, size_bytes: int) -> None:
        really(number, size_bytes)
        inode = self._of(number)
        if inode is not None:
            self._add("truncate", inode, position=size_bytes, mtime_ns=os.stat(number).st_mtime_ns)

    def fsync(self, really: Callable[..., None], number: int) -> None:
        inode = self._of(number)
        if inode is None:
            really(number)
        else:
            self._add("fsync", inode, callers=_callers())  # the model decides what is on the disk, not the real one

    def utime(self, really: Callable[..., None], target: int | str, *rest: Any, ns: tuple[int, int]) -> None:
        really(target, *rest, ns=ns)
        inode = self._of(target)
        if inode is not None:
            self._add("utime", inode, mtime_ns=ns[1])

    def dress(self, really: Callable[..., None], number: int, *values: Any) -> None:
        really(number, *values)
        inode = self._of(number)
        if inode is not None:
            self._add("dress", inode, attributes=Attributes.of(number))

    def rename(self, really: Callable[..., None], old: str, new: str, **more: Any) -> None:
        source, name = self._parent(old, more.get("src_dir_fd"))
        target, new_name = self._parent(new, more.get("dst_dir_fd"))
        inode = self._inner(old, more.get("src_dir_fd"))
        is_same = inode == self._inner(new, more.get("dst_dir_fd"))
        really(old, new, **more)
        if inode is not None and source is not None and target is not None and not is_same:
            self._add("rename", inode, names=(Name(source, name, None), Name(target, new_name, inode)))

    def link(self, really: Callable[..., None], old: str, new: str, **more: Any) -> None:
        inode = self._inner(old, more.get("src_dir_fd"))
        really(old, new, **more)
        target, new_name = self._parent(new, more.get("dst_dir_fd"))
        if inode is not None and target is not None:
            self._add("link", inode, names=(Name(target, new_name, inode),))

    def unlink(self, really: Callable[..., None], path: str, *, dir_fd: int | None = None) -> None:
        self._gone("unlink", really, path, dir_fd)

    def rmdir(self, really: Callable[..., None], path: str, *, dir_fd: int | None = None) -> None:
        self._gone("rmdir", really, path, dir_fd)

    def _gone(self, kind: str, really: Callable[..., None], path: str, directory: int | None) -> None:
        inode = self._inner(path, directory)
        status = os.stat(path, dir_fd=directory, follow_symlinks=False) if inode is not None else None
        really(path, dir_fd=directory)
        parent, name = self._parent(path, directory)
        if inode is not None and parent is not None and status is not None:
            self._add(kind, inode, names=(Name(parent, name, None),))
            if kind == "rmdir" or status.st_nlink == 1:  # the disk gives its number to the next file
                del self._known[status.st_dev, status.st_ino]

    def mkdir(self, really: Callable[..., None], path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        really(path, mode, dir_fd=dir_fd)
        parent, name = self._parent(path, dir_fd)
        if parent is not None:
            self._born("mkdir", path, parent, name, dir_fd)


def _callers() -> tuple[tuple[str, int], ...]:
    found = []
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        directory, _, name = frame.f_code.co_filename.rpartition("/")
        if directory == CHANGING:
            found.append((name, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


_CALLS = {
    **{name: name for name in ("open", "write", "ftruncate", "fsync", "utime", "rename", "link", "unlink", "rmdir")},
    "replace": "rename",
    "remove": "unlink",
    "mkdir": "mkdir",
    "fchmod": "dress",
    "fchown": "dress",
    "setxattr": "dress",
}
_active: list[_Recorder] = []


@contextmanager
def recorded(devices: Mapping[str, str]) -> Iterator[Recording]:
    """Record all that is done below some directories while entered; `devices` as for `read_tree`.

    Raises AssertionError where something was changed there by another way than the calls that are recorded.
    """
    recorder = _Recorder(devices)
    real = {name: getattr(os, name) for name in _CALLS}

    def standing_in(name: str) -> Callable[..., Any]:
        def call(*values: Any, **more: Any) -> Any:
            if recorder.is_inside:
                return real[name](*values, **more)
            recorder.is_inside = True
            try:
                return getattr(recorder, _CALLS[name])(real[name], *values, **more)
            finally:
                recorder.is_inside = False

        return call

    _listen()
    _active.append(recorder)
    for name in _CALLS:
        setattr(os, name, standing_in(name))
    try:
        yield recorder.recording
    finally:
        for name, function in real.items():
            setattr(os, name, function)
        _active.remove(recorder)
    assert not recorder.strays, recorder.strays


def _listen() -> None:
    """Notice changes that are not recorded; an audit hook stays for the life of the process, so there is one."""
    if _listen in _HEARD:
        return
    _HEARD.append(_listen)
    sys.addaudithook(_hear)


_HEARD: list[object] = []


def _hear(event: str, values: tuple[Any, ...]) -> None:
    if not _active or event not in AUDITED or _active[-1].is_inside:
        return
    if event == "open" and (not isinstance(values[2], int) or not values[2] & OPENED):
        return
    path = values[0]
    if isinstance(path, str) and path.startswith(tuple(f"{root}/" for root in _active[-1].roots)):
        _active[-1].strays.append(f"{event} {path}")
