"""What must be on the disk before the next step: a power cut takes whatever was not brought there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.format.names import JOURNAL_PREFIX
from kafkalog_core.ops.repair.undo import apply_undo, plan_undo, scope_of
from kafkalog_core.storage.changing.writer import Disk
from tests.support.repairs import apply_to, make_dir

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("fake_planner")

NAMES = {"create", "rename", "link", "unlink", "mkdir", "rmdir"}
CONTENT = {"create", "write", "truncate", "utime", "chown", "chmod", "setxattr"}


class WatchingDisk(Disk):
    """Knows at each step what a power cut would take: contents of files, and names in directories."""

    def __init__(self) -> None:
        self.unsynced: set[str] = set()
        self.syncs = 0
        self.seen: list[tuple[str, str, frozenset[str]]] = []

    def step(self, what: str, path: str) -> None:
        self.seen.append((what, path, frozenset(self.unsynced)))
        if what == "fsync":
            self.syncs += 1
            self.unsynced.discard(path)
        if what in CONTENT:
            self.unsynced.add(path)
        means_nothing = _is_ours(path) and (path.endswith(".tmp") or what == "unlink")  # it may be there or not
        if what in NAMES and not means_nothing:
            self.unsynced.add(os.path.dirname(path))
        if what in {"unlink", "rmdir"}:
            self.unsynced.discard(path)

    def changes(self) -> list[tuple[str, str, frozenset[str]]]:
        """Steps that change a file of the broker's own, each with what was not on the disk then."""
        return [
            (what, path, unsynced)
            for what, path, unsynced in self.seen
            if what in {"rename", "unlink", "truncate", "write"} and not _is_ours(path)
        ]


def _is_ours(path: str) -> bool:
    return JOURNAL_PREFIX in path


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows by one with every fsync that the system is asked for."""
    done: list[int] = []
    really = os.fsync

    def fsync(number: int) -> None:
        done.append(number)
        really(number)

    monkeypatch.setattr(os, "fsync", fsync)
    return done


@pytest.fixture(params=["partition", "top", "elsewhere"])
def layout(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, object]:
    """Options of a run that keeps its journal there."""
    options: dict[str, object] = {"is_wide": request.param != "partition"}
    if request.param == "elsewhere":
        (tmp_path / "undo").mkdir()
        options["undo_to"] = tmp_path / "undo"
    return options


def test_nothing_is_changed_before_the_intent_is_on_the_disk_and_each_change_is_before_the_next(
    tmp_path: Path, layout: dict[str, object], syncs: list[int]
) -> None:
    root, disk = make_dir(tmp_path / "root"), WatchingDisk()
    apply_to(root, disk, **layout)
    changes = disk.changes()
    assert len(changes) > 4
    for what, path, unsynced in changes:
        assert unsynced <= {path}, (what, path)
    assert not disk.unsynced
    assert len(syncs) == disk.syncs


def test_what_is_taken_back_is_on_the_disk_before_its_copies_go(
    tmp_path: Path, layout: dict[str, object], syncs: list[int]
) -> None:
    root, disk = make_dir(tmp_path / "root"), WatchingDisk()
    apply_to(root, Disk(), **layout)
    syncs.clear()
    apply_undo(plan_undo(scope_of(str(root))), disk)
    freed = [
        (path, unsynced)
        for what, path, unsynced in disk.seen
        if what == "unlink" and os.path.basename(path).startswith(("old-", "tail-"))
    ]
    assert freed
    for path, unsynced in freed:
        assert not {each for each in unsynced if not _is_ours(each)}, path
    assert len(syncs) == disk.syncs
