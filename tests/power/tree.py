"""Directories as values: inodes and the names that lead to them, read from a disk, changed by operations, and written.

A file system keeps the names of a file apart from the file, and loses them apart. So a tree is a table of inodes, and
each operation says which inode it changes: a name belongs to its directory, bytes and attributes to the file.
"""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from kafkalog_core.format.names import journal_run
from kafkalog_core.storage.changing.journal import INTENT
from kafkalog_core.structs import Struct, field, replace

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

__all__ = ["BLOCK", "Attributes", "Inode", "Name", "Operation", "Tree", "is_of_journal", "read_tree"]

BLOCK = 4096


class Attributes(Struct, frozen=True, dict=True):
    """What `stat` and `listxattr` show of a file, without its times."""

    uid: int
    gid: int
    mode: int
    extended: tuple[tuple[str, bytes], ...] = ()

    @classmethod
    def of(cls, target: str | int) -> Attributes:
        """Return those of a path, or of an open file."""
        status = os.stat(target)
        extended: list[tuple[str, bytes]] = []
        with suppress(OSError):
            extended = [(name, os.getxattr(target, name)) for name in sorted(os.listxattr(target))]
        return cls(status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode), tuple(extended))


class Inode(Struct, frozen=True, dict=True):
    """A file or a directory. `device`: the file system that it is on; `data`: of a file; `names`: of a directory."""

    device: str
    attributes: Attributes
    is_directory: bool = False
    data: bytes = b""
    mtime_ns: int = 0
    names: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def key(self) -> int:
        """The same number for files with the same bytes, attributes and time."""
        return hash((self.is_directory, self.attributes, self.data, self.mtime_ns))

    @cached_property
    def untimed_key(self) -> int:
        """The same, whatever their times are."""
        return hash((self.is_directory, self.attributes, self.data))


class Name(Struct, frozen=True, dict=True):
    """A name in a directory, and the inode that it leads to from now on; `None`: the name is gone."""

    directory: int
    name: str
    inode: int | None


class Operation(Struct, frozen=True, dict=True):
    """One call of the system.

    Args:
        kind: `create`, `mkdir`, `link`, `unlink`, `rmdir`, `rename`, `write`, `truncate`, `dress` (owner, permissions,
            extended attributes), `utime`, `fsync`, or `lost`: an fsync that is left out.
        inode: the file or directory that it is about.
        device: the file system.
        names: the names that change, in order.
        begins: the inode as it was created, for `create` and `mkdir`.
        position: where the bytes were written, or the size that the file was truncated to.
        data: the bytes.
        attributes: those that the inode has now.
        mtime_ns: the modification time of the file from now on.
        callers: of an fsync: the modules of `storage/changing` and their lines that lead to it, the nearest first.
    """

    kind: str
    inode: int
    device: str
    names: tuple[Name, ...] = ()
    begins: Inode | None = None
    position: int = 0
    data: bytes = b""
    attributes: Attributes | None = None
    mtime_ns: int = 0
    callers: tuple[tuple[str, int], ...] = ()

    @property
    def is_of_content(self) -> bool:
        """Whether it changes the inode itself and no name."""
        return self.kind in {"write", "truncate", "dress", "utime"}


class Tree:
    """Inodes by number, and the directories from which they are reached.

    Args:
        roots: inode numbers by absolute paths.
        inodes: by number.
    """

    def __init__(self, roots: Mapping[str, int], inodes: dict[int, Inode]) -> None:
        self.roots = roots
        self.inodes = inodes
        self._key: int | None = None

    def copy(self) -> Tree:
        """Return a tree that changes by itself."""
        return Tree(self.roots, dict(self.inodes))

    # --- operations ---------------------------------------------------------------------------------------------------
    def begin(self, operation: Operation) -> None:
        """Add the inode that an operation makes, which no name leads to yet."""
        self._key = None
        if operation.begins is not None:
            self.inodes[operation.inode] = operation.begins

    def set_name(self, name: Name) -> None:
        """Let a name lead to an inode, or to nothing."""
        self._key = None
        directory = self.inodes[name.directory]
        names = dict(directory.names)
        if name.inode is None:
            names.pop(name.name, None)
        else:
            names[name.name] = name.inode
        self.inodes[name.directory] = replace(directory, names=names)

    def set_content(self, operation: Operation, data: bytes | None = None) -> None:
        """Change an inode as an operation did; `data`: what of the bytes of a write came to the disk."""
        self._key = None
        inode = self.inodes[operation.inode]
        if operation.kind == "write":
            piece = operation.data if data is None else data
            old, position = inode.data.ljust(operation.position, b"\0"), operation.position
            data = old[:position] + piece + old[position + len(piece) :]
            inode = replace(inode, data=data, mtime_ns=operation.mtime_ns)
        elif operation.kind == "truncate":
            size = operation.position
            inode = replace(inode, data=inode.data[:size].ljust(size, b"\0"), mtime_ns=operation.mtime_ns)
        elif operation.kind == "dress" and operation.attributes is not None:
            inode = replace(inode, attributes=operation.attributes)
        elif operation.kind == "utime":
            inode = replace(inode, mtime_ns=operation.mtime_ns)
        self.inodes[operation.inode] = inode

    def apply(self, operation: Operation) -> None:
        """Do all of an operation."""
        self.begin(operation)
        for name in operation.names:
            self.set_name(name)
        if operation.is_of_content:
            self.set_content(operation)

    def without(self, root: str, names: Iterable[str]) -> Tree:
        """Return a tree in which these names of a root are gone."""
        tree = self.copy()
        for name in names:
            tree.set_name(Name(self.roots[root], name, None))
        return tree

    def with_content(self, path: str, data: bytes) -> Tree:
        """Return a tree in which a file that is there has this content."""
        tree, number = self.copy(), self.find(path)
        assert number is not None, path
        tree.inodes[number] = replace(tree.inodes[number], data=data)
        return tree

    # --- disks --------------------------------------------------------------------------------------------------------
    def key(self) -> int:
        """Return the same number for trees that a command cannot tell apart.

        Those are their names, links, bytes and attributes, and the times of all files but those of journals, which are
        never compared.
        """
        if self._key is None:
            numbers: dict[int, int] = {}
            seen = []
            for path, number in self.walk():
                inode = self.inodes[number]
                key = inode.untimed_key if is_of_journal(path.rpartition("/")[2]) else inode.key
                seen.append((path, numbers.setdefault(number, len(numbers)), key))
            self._key = hash(tuple(seen))
        return self._key

    def find(self, path: str) -> int | None:
        """Return the inode that a path leads to; `None`: there is none."""
        for root, number in self.roots.items():
            if path == root:
                return number
            if path.startswith(f"{root}/"):
                found: int | None = number
                for name in path.removeprefix(f"{root}/").split("/"):
                    found = None if found is None else self.inodes[found].names.get(name)
                return found
        return None

    def used_bytes(self, device: str) -> int:
        """Return what files and directories take on a file system with blocks of 4096 bytes."""
        numbers = {number for _, number in self.walk()}
        inodes = [self.inodes[number] for number in numbers]
        return sum(blocks_of(inode) for inode in inodes if inode.device == device)

    def walk(self) -> Iterator[tuple[str, int]]:
        """Yield every path and its inode, directories before what is in them."""
        waiting = sorted(self.roots.items(), reverse=True)
        while waiting:
            path, number = waiting.pop()
            yield path, number
            names = self.inodes[number].names
            waiting += [(f"{path}/{name}", names[name]) for name in sorted(names, reverse=True)]

    def write(self, there: Tree | None = None) -> None:
        """Make the directories on the disk what the tree says; what else is in them is deleted.

        `there`: what is on the disk, where that is known: what is the same is left.
        """
        if there is None:
            for root in self.roots:
                _empty(root)
            there = Tree({}, {})
        now, wanted = there._seen(), self._seen()
        same = {path for path, seen in wanted.items() if now.get(path) == seen} | {*self.roots}
        kept = {path for path in now if path in same or (there._is_directory(path) and self._is_directory(path))}
        for path in reversed([path for path in now if path not in kept]):
            (os.rmdir if there._is_directory(path) else os.unlink)(path)
        self._make([(path, number) for path, number in self.walk() if path not in same or path in self.roots], kept)

    def _make(self, paths: Sequence[tuple[str, int]], kept: Container[str]) -> None:
        made: dict[int, str] = {}
        for path, number in paths:
            inode = self.inodes[number]
            if inode.is_directory:
                if path not in kept and path not in self.roots:
                    os.mkdir(path)
            elif number in made:
                os.link(made[number], path)
            else:
                made[number] = path
                with open(path, "wb") as file:
                    file.write(inode.data)
                _set_attributes(path, inode)
                os.utime(path, ns=(inode.mtime_ns, inode.mtime_ns))
        for path, number in reversed(paths):
            if self.inodes[number].is_directory:
                _set_attributes(path, self.inodes[number])

    def _seen(self) -> dict[str, tuple[int, tuple[str, ...]]]:
        """Return what is at each path, directories first, and its names."""
        walked, names = list(self.walk()), dict[int, list[str]]()
        for path, number in walked:
            names.setdefault(number, []).append(path)
        return {path: (self.inodes[number].key, tuple(names[number])) for path, number in walked}

    def _is_directory(self, path: str) -> bool:
        number = self.find(path)
        return number is not None and self.inodes[number].is_directory


def is_of_journal(name: str) -> bool:
    """Whether a name is that of an intent or a pointer, whose times nothing reads."""
    return name == INTENT or journal_run(name) == name


def blocks_of(inode: Inode) -> int:
    """Return the bytes of the blocks of a file or directory."""
    return BLOCK if inode.is_directory else -(-len(inode.data) // BLOCK) * BLOCK


def _set_attributes(path: str, inode: Inode) -> None:
    if os.geteuid() == 0:
        os.chown(path, inode.attributes.uid, inode.attributes.gid)
    os.chmod(path, inode.attributes.mode)
    for name, value in inode.attributes.extended:
        os.setxattr(path, name, value)


def _empty(directory: str) -> None:
    for entry in list(os.scandir(directory)):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def read_tree(devices: Mapping[str, str], numbers: Iterator[int]) -> tuple[Tree, dict[tuple[int, int], int]]:
    """Return what is below some directories, and the number of each inode by its device and inode on the disk.

    Args:
        devices: the file system of each root, by absolute path, and of each directory below that counts as another one.
        numbers: those of inodes that are free.
    """
    inodes: dict[int, Inode] = {}
    known: dict[tuple[int, int], int] = {}

    def read(path: str, device: str) -> int:
        status = os.stat(path)
        identity = status.st_dev, status.st_ino
        if identity in known:
            return known[identity]
        number = known[identity] = next(numbers)
        device = devices.get(path, device)
        if stat.S_ISDIR(status.st_mode):
            names = {name: read(f"{path}/{name}", device) for name in sorted(os.listdir(path))}
            inodes[number] = Inode(device, Attributes.of(path), is_directory=True, names=names)
        else:
            with open(path, "rb") as file:
                data = file.read()
            inodes[number] = Inode(device, Attributes.of(path), data=data, mtime_ns=status.st_mtime_ns)
        return number

    roots = {path: read(path, device) for path, device in devices.items() if not _is_below(path, devices)}
    return Tree(roots, inodes), known


def _is_below(path: str, others: Iterable[str]) -> bool:
    return any(path.startswith(f"{other}/") for other in others)
