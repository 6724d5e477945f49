"""Every byte of every log file is accounted for: batches and damage side by side, in order, from 0 to the file's end.

That holds for what brokers left when they were killed and for what a person damaged as well, searched behind damage or
not.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from tests.support.corpus import faults
from tests.support.corpus.dumping import Row, dump
from tests.support.corpus.snapshots import Snapshot, snapshots

if TYPE_CHECKING:
    from tests.support.corpus.tree import Tree

pytestmark = pytest.mark.corpus


def _damaged_or_plain() -> list[Snapshot]:
    """All directories but those that a fault did not touch: their bytes are those of the base."""
    return [snapshot for snapshot in snapshots() if snapshot.fault is None or _is_touched(snapshot, snapshot.fault)]


def _unread() -> list[Snapshot]:
    """Those that no truth is compared with."""
    return [snapshot for snapshot in _damaged_or_plain() if not snapshot.records]


def _is_touched(snapshot: Snapshot, fault: faults.Fault) -> bool:
    logs = [name for name in fault.brought(faults.BEFORE) if f"/{snapshot.partition}/" in f"/{name}" and ".log" in name]
    return snapshot.state == faults.BEFORE and bool(logs)


def _int(row: Row, name: str) -> int:
    value = row[name]
    assert isinstance(value, int)
    return value


@pytest.mark.parametrize("options", [(), ("--resync",)], ids=["plain", "resync"])
@pytest.mark.parametrize("snapshot", _damaged_or_plain(), ids=lambda snapshot: snapshot.id)
def test_every_byte_is_a_batch_or_damage(tree: Tree, snapshot: Snapshot, options: tuple[str, ...]) -> None:
    directory = tree.partition_dir(snapshot)
    ends: dict[str, int] = defaultdict(int)
    for row in dump(directory, "--batches", *options).rows:
        if row["type"] in {"batch", "damage"} and row["size_bytes"]:  # none: the batch before is whole, but odd
            file = str(row["segment"])
            assert _int(row, "position") == ends[file], f"a hole or an overlap in {file}"
            ends[file] += _int(row, "size_bytes")
    for path in directory.glob("[0-9]*.log"):
        assert ends[path.name] == path.stat().st_size, path.name


@pytest.mark.parametrize("snapshot", _unread(), ids=lambda snapshot: snapshot.id)
def test_records_of_what_nobody_read_are_shown(tree: Tree, snapshot: Snapshot) -> None:
    dump(tree.partition_dir(snapshot), "--records", "--resync")
