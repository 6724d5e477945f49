"""An ext4 of its own, in a file, that the kernel makes read-only while processes write to it, and its repair."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Ext4Disk", "ext4_disk"]

IMAGE_BYTES = 32 * 1024 * 1024


class Ext4Disk:
    """A mounted file system; `path` is its mount point."""

    def __init__(self, image: Path, path: Path) -> None:
        self.path = path
        self._image = image

    def mount(self) -> None:
        """Mount it; the test is skipped where this user may not."""
        mount = ["mount", "-o", "loop,errors=remount-ro", str(self._image), str(self.path)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("no ext4 can be mounted here, which takes root and a loop device")

    def unmount(self) -> None:
        """Unmount it, if it is mounted."""
        if self.path.is_mount():
            subprocess.run(["umount", str(self.path)], check=True)

    def turn_read_only(self) -> None:
        """Make it read-only as an error of the disk does: a remount would be refused while files are open."""
        (device,) = (
            line.split()[0] for line in Path("/proc/mounts").read_text().splitlines() if str(self.path) in line.split()
        )
        Path("/sys/fs/ext4", Path(device).name, "trigger_fs_error").write_text("1")

    def repair(self) -> None:
        """Check it, and mount it again."""
        self.unmount()
        check = ["e2fsck", "-f", "-y", str(self._image)]
        assert subprocess.run(check, capture_output=True, check=False).returncode in {0, 1}
        self.mount()


@contextmanager
def ext4_disk(place: Path) -> Iterator[Ext4Disk]:
    """An empty file system, mounted in a directory."""
    if any(shutil.which(each) is None for each in ("mkfs.ext4", "e2fsck", "mount")):
        pytest.skip("there is no mkfs.ext4 here")
    disk = Ext4Disk(place / "image", place / "disk")
    disk.path.mkdir()
    with (place / "image").open("wb") as file:
        file.truncate(IMAGE_BYTES)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(place / "image")], check=True)
    disk.mount()
    try:
        yield disk
    finally:
        disk.unmount()
