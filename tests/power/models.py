"""What a loss of power may leave: two models of a file system, and every state of a recording that they allow.

`ordered`: a journal in order, as ext4 (`data=ordered`) and xfs have it. Names, sizes that shrink, attributes and times
come to the disk in the order in which they were made, as a prefix, each file system by itself. An fsync of a file or
directory brings there all up to the last one that touched it (`jbd2_log_wait_commit` of the inode's transaction, the
inode's last log sequence number on xfs), and the bytes of that file. Bytes that were not fsynced may be there, may be
missing with the size that they made (blocks are allocated late), may end at a page, and may be torn in a page that was
partly filled before: the size is there then, and zeros from a sector on, since that block was not newly allocated.

`strict`: POSIX promises no more than fsync. Each name that its directory was not fsynced after, and each change of a
file that was not fsynced after, is there or is missing whatever becomes of the others. A rename within one directory is
one of them; a rename across directories is two. A write may be torn at any sector of 512 bytes, its size being there.
Of all subsets at a moment those are made in which all, none, all but one, or one alone is there, and some by seed.

A state is made of a recording, for the moment before each operation and after the last.
"""

from __future__ import annotations

import random
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.structs import Struct, replace
from tests.power.recorder import Recording
from tests.power.tree import Operation, Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

__all__ = ["MODELS", "State", "ordered", "strict", "with_unsynced"]

PAGE = 4096
SECTOR = 512
SUBSETS = 6
"""Subsets by seed at each moment."""


class State(Struct, frozen=True, dict=True):
    """What is there afterwards.

    Args:
        label: of which moment, and what is missing.
        tree: what is there.
        is_last: whether the command has ended, and has said that it is done.
    """

    label: str
    tree: Tree
    is_last: bool


class Unit(NamedTuple):
    """The least that comes to the disk or not: one name of an operation, or its change of a file (`part` -1)."""

    operation: int
    part: int


def with_unsynced(recording: Recording, path: str, size_bytes: int) -> Recording:
    """Return the recording as if a broker had appended to a file shortly before, and had synced `size_bytes` of it."""
    tree = recording.before.copy()
    number = tree.find(path)
    assert number is not None, path
    inode = tree.inodes[number]
    tree.inodes[number] = replace(inode, data=inode.data[:size_bytes])
    write = Operation(
        "write", number, inode.device, position=size_bytes, data=inode.data[size_bytes:], mtime_ns=inode.mtime_ns
    )
    return Recording(tree, [write, *recording.operations])


def ordered(recording: Recording, seed: int = 0) -> Iterator[State]:
    """Yield the states that an ordered journal leaves. `seed` is of no use here."""
    del seed
    operations = recording.operations
    done_at = _synced(operations)
    floors: dict[str, int] = {inode.device: 0 for inode in recording.before.inodes.values()}
    for moment in range(len(operations) + 1):
        if moment and operations[moment - 1].kind == "fsync":
            last = operations[moment - 1]
            floors[last.device] = max(floors[last.device], _last_touch(operations[:moment], last.inode))
        kept = [range(floor, moment + 1) for floor in floors.values()]
        for prefixes in dict.fromkeys(product(*({each.start, (each.start + moment) // 2, moment} for each in kept))):
            prefix = dict(zip(floors, prefixes, strict=True))
            for name, writes in _variants(recording, moment, done_at, _torn_in_page):
                tree = recording.before.copy()
                for at, operation in enumerate(operations[:moment]):
                    if operation.kind == "write":
                        _write(tree, operation, writes.get(at, operation.data))
                    elif at < prefix[operation.device]:
                        tree.apply(operation)
                    else:
                        tree.begin(operation)
                yield State(f"{moment}: names up to {prefixes}, {name}", tree, moment == len(operations))


def strict(recording: Recording, seed: int = 0) -> Iterator[State]:
    """Yield states that POSIX allows."""
    operations = recording.operations
    done_at = _synced(operations)
    base, start = recording.before.copy(), 0
    for moment in range(len(operations) + 1):
        pending = [unit for unit, at in done_at.items() if start <= unit.operation < moment and at >= moment]
        first = min((unit.operation for unit in pending), default=moment)
        for operation in operations[start:first]:
            base.apply(operation)
        start = max(start, first)
        chance, is_last = random.Random(f"{seed} {moment}"), moment == len(operations)
        for name, missing in _subsets(pending, chance):
            yield State(f"{moment}: {name}", _built(base, operations, start, moment, missing, {}), is_last)
        for name, writes in _variants(recording, moment, done_at, _torn_anywhere):
            if writes:
                names = {unit for unit in pending if unit.part >= 0}
                yield State(f"{moment}: {name}", _built(base, operations, start, moment, set(), writes), is_last)
                yield State(
                    f"{moment}: {name}, no names", _built(base, operations, start, moment, names, writes), is_last
                )


MODELS: Mapping[str, Callable[[Recording, int], Iterator[State]]] = {"ordered": ordered, "strict": strict}


# --- what is on the disk ----------------------------------------------------------------------------------------------
def _units(operations: Sequence[Operation]) -> Iterator[tuple[Unit, int]]:
    """Yield each unit and the inode whose fsync brings it to the disk."""
    for at, operation in enumerate(operations):
        if operation.kind == "rename" and operation.names[0].directory == operation.names[1].directory:
            yield Unit(at, 0), operation.names[0].directory
            continue
        for part, name in enumerate(operation.names):
            yield Unit(at, part), name.directory
        if operation.is_of_content:
            yield Unit(at, -1), operation.inode


def _synced(operations: Sequence[Operation]) -> dict[Unit, int]:
    """Return the fsync that brings each unit to the disk; the number of operations where none does."""
    found = {}
    for unit, inode in _units(operations):
        later = range(unit.operation + 1, len(operations))
        syncs = (at for at in later if operations[at].kind == "fsync" and operations[at].inode == inode)
        found[unit] = next(syncs, len(operations))
    return found


def _last_touch(operations: Sequence[Operation], inode: int) -> int:
    """Return how many operations an ordered journal has committed once an inode is synced."""
    for at in range(len(operations) - 1, -1, -1):
        operation = operations[at]
        if operation.kind not in {"fsync", "lost", "write"} and (
            operation.inode == inode or any(name.directory == inode for name in operation.names)
        ):
            return at + 1
    return 0


# --- what is not ------------------------------------------------------------------------------------------------------
Writes = dict[int, bytes | None]
"""Of writes by their operation: what is there; `None`: nothing, and not their size either."""


def _variants(
    recording: Recording,
    moment: int,
    done_at: Mapping[Unit, int],
    tear: Callable[[Operation], Iterable[tuple[str, bytes]]],
) -> Iterator[tuple[str, Writes]]:
    """Yield what may be there of the bytes that were written and not synced."""
    operations = recording.operations
    pending = [
        at
        for at in range(moment)
        if operations[at].kind == "write" and operations[at].data and done_at[Unit(at, -1)] >= moment
    ]
    yield "all bytes", {}
    if not pending:
        return
    yield "no bytes", dict.fromkeys(pending, None)
    for at in pending:
        for name, data in tear(operations[at]):
            yield f"write {at} {name}", {at: data}


def _torn_in_page(operation: Operation) -> Iterator[tuple[str, bytes]]:
    """Yield what an ordered journal leaves of a write: whole pages, or a page that was partly filled, torn."""
    position, data = operation.position, operation.data
    in_page = -position % PAGE
    if in_page:
        page = data[:in_page]
        yield "torn from its first byte on", bytes(len(page))
        sector = -position % SECTOR + (len(page) // 2 // SECTOR) * SECTOR
        if 0 < sector < len(page):
            yield "torn in its page", page[:sector].ljust(len(page), b"\0")
    whole = in_page + (len(data) - in_page) // 2 // PAGE * PAGE
    if 0 < whole < len(data):
        yield "ends at a page", data[:whole]


def _torn_anywhere(operation: Operation) -> Iterator[tuple[str, bytes]]:
    """Yield what sectors leave of a write."""
    position, data = operation.position, operation.data
    yield "is zeros", bytes(len(data))
    sector = -position % SECTOR + (len(data) // 2 // SECTOR) * SECTOR
    if 0 < sector < len(data):
        yield "torn", data[:sector].ljust(len(data), b"\0")
        yield "torn at its begin", data[sector:].rjust(len(data), b"\0")
        yield "short", data[:sector]


def _subsets(pending: Sequence[Unit], chance: random.Random) -> Iterator[tuple[str, set[Unit]]]:
    """Yield names of what is missing, and it."""
    yield "all", set()
    if not pending:
        return
    every = set(pending)
    yield "none", every
    if len(pending) == 1:
        return
    for unit in pending:
        yield f"without {tuple(unit)}", {unit}
        yield f"{tuple(unit)} alone", every - {unit}
    for number in range(SUBSETS):
        yield f"subset {number}", {unit for unit in pending if chance.random() < 0.5}


def _built(
    base: Tree, operations: Sequence[Operation], start: int, moment: int, missing: set[Unit], writes: Writes
) -> Tree:
    tree = base.copy()
    for at in range(start, moment):
        operation = operations[at]
        tree.begin(operation)
        if operation.is_of_content:
            if Unit(at, -1) in missing:
                continue
            if operation.kind == "write":
                _write(tree, operation, writes.get(at, operation.data))
            else:
                tree.set_content(operation)
        is_one = operation.kind == "rename" and operation.names[0].directory == operation.names[1].directory
        for part, name in enumerate(operation.names):
            if Unit(at, 0 if is_one else part) not in missing:
                tree.set_name(name)
    return tree


def _write(tree: Tree, operation: Operation, data: bytes | None) -> None:
    if data is not None:
        tree.set_content(operation, data)
