"""Power is lost on real ext4: images of the disk at every step of a command, mounted again and recovered.

A file system is in a file; a copy of that file at some moment is what a disk would hold if power were lost then: what
ext4 has given to the disk, and nothing that it still keeps in memory. The journal of ext4 is replayed when it is
mounted. Left out where this user may not mount a loop device.
"""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.storage.changing.writer import Disk
from tests.support.power_player import command
from tests.support.power_scenarios import PARTITIONS, Place, Scenario, write_patient
from tests.support.repairs import names_of_ours, snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

IMAGE_BYTES = 2 * 1024 * 1024
TRUNCATE = Scenario("truncate")


class Disks:
    """A log directory on one ext4, its second partition on another."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.place = Place(top / "first")
        self.mounts = {"first": self.place.top, "second": self.place.root / PARTITIONS[1]}
        self.copies: list[str] = []

    def image(self, name: str, copy: str = "") -> Path:
        return self.top / f"{name}{copy}.ext4"

    @contextmanager
    def mounted(self, copy: str = "") -> Iterator[None]:
        """Mount both, the second in the first."""
        done: list[Path] = []
        try:
            for name, where in self.mounts.items():
                where.mkdir(parents=True, exist_ok=True)
                mount = ["mount", "-o", "loop", str(self.image(name, copy)), str(where)]
                if subprocess.run(mount, capture_output=True, check=False).returncode:
                    pytest.skip("no ext4 can be mounted here, which takes root and a loop device")
                done.append(where)
            yield
        finally:
            for where in reversed(done):
                subprocess.run(["umount", str(where)], check=True)

    def copy(self) -> None:
        """Keep what the disks hold at this moment."""
        number = f"-{len(self.copies)}"
        for name in self.mounts:
            subprocess.run(["cp", "--sparse=always", str(self.image(name)), str(self.image(name, number))], check=True)
        self.copies.append(number)


@pytest.fixture
def disks(tmp_path: Path) -> Disks:
    if shutil.which("mkfs.ext4") is None or shutil.which("mount") is None:
        pytest.skip("there is no mkfs.ext4 here")
    disks = Disks(tmp_path)
    for name in disks.mounts:
        with open(disks.image(name), "wb") as file:
            file.truncate(IMAGE_BYTES)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-O", "has_journal", str(disks.image(name))], check=True)
    return disks


def _recorded(disks: Disks, monkeypatch: pytest.MonkeyPatch, *line: str) -> None:
    """Run a command, and keep the disks before each of its steps and after the last."""
    with monkeypatch.context() as patch:
        patch.setattr(Disk, "step", lambda *_: disks.copy())
        assert command(*line)[0] == 0
    disks.copy()


def _written(disks: Disks) -> None:
    write_patient(TRUNCATE, disks.place)
    subprocess.run(["sync", "-f", str(disks.place.top)], check=True)
    subprocess.run(["sync", "-f", str(disks.mounts["second"])], check=True)


def _shown(disks: Disks) -> dict[str, tuple[object, ...]]:
    return {name: row for name, row in snapshot(disks.place.root).items() if "lost+found" not in name}


def test_an_undo_that_loses_power_is_finished(disks: Disks, monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(disks.place.root)
    with disks.mounted():
        _written(disks)
        before = _shown(disks)
        assert command(*TRUNCATE.arguments(disks.place))[0] == 0
        _recorded(disks, monkeypatch, "undo", root, "--apply")
    assert len(disks.copies) > 20
    for number in disks.copies:
        with disks.mounted(number):
            status, output = command("undo", root, "--apply")
            done = status == 0 or "has been undone already" in output or "there is no kafkalog run" in output
            assert done, output
            assert _shown(disks) == before, number


def test_a_prune_that_loses_power_leaves_nothing_in_the_way(disks: Disks, monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(disks.place.root)
    with disks.mounted():
        _written(disks)
        assert command(*TRUNCATE.arguments(disks.place))[0] == 0
        after = _shown(disks)
        _recorded(disks, monkeypatch, "undo", root, "--prune", "--apply")
    assert len(disks.copies) > 5
    for number in disks.copies:
        with disks.mounted(number):
            assert command("undo", root, "--prune", "--apply")[0] == 0
            assert names_of_ours(disks.place.root) == [], number
            assert _shown(disks) == after
            status, output = command("reindex", root, "--kafka", "4.3", "--all", "--jobs", "1", "--apply")
            assert status in {0, 4}, output
