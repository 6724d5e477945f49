"""The directory of `kafkalog freeze`: a directory for each frozen partition, and a manifest of where each is from.

A partition is frozen under the name that it had while it was served (`orders-0`), whatever its directory is called now.
Its origin is the directory itself, by device and inode, and not the path: a broker that deletes a topic renames the
directory, and a later freeze adds to what an earlier one has. Another directory that wants the same name gets it in the
numbered directory `2`, then `3`: an old and a new topic of one name are never mixed.

The manifest is written before the directory that it describes is created, so that the same command continues after a
kill at any step.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Final

from msgspec import to_builtins

from kafkalog_core.format.names import directory_name
from kafkalog_core.storage.changing.new_dir import owned
from kafkalog_core.storage.changing.writer import Attributes
from kafkalog_core.structs import Struct
from kafkalog_core.text import json_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.storage.changing.writer import Disk

__all__ = ["MANIFEST", "FrozenDir", "Origin"]

MANIFEST: Final = "kafkalog-freeze.ndjson"
_TEMPORARY: Final = ("kafkalog-", ".tmp")


class Origin(Struct, frozen=True, kw_only=True):
    """The partition directory that something was frozen from.

    `topic_id` differs where a topic was created again, in a directory with the inode of the deleted one.
    """

    device: int
    inode: int
    topic: str
    partition: int
    topic_id: str | None


class FrozenDir:
    """A directory of frozen partitions. Methods that write raise WriteError.

    Args:
        path: real path of the directory, which need not exist yet.
        disk: performs the steps.
        like: directory whose owner and permissions new directories get, as far as this process may set them.
    """

    def __init__(self, path: str, disk: Disk, like: str) -> None:
        self.path = path
        self._disk = disk
        self._of_directories = owned(Attributes.of(like))
        self._origins = dict(_read(f"{path}/{MANIFEST}"))
        self._unwritten: list[str] = []
        self._made: set[str] = set()
        self._is_new = False

    def homes(self, origin: Origin, source: str) -> Iterator[str]:
        """Yield the directories for the files of an origin: the first one, and those for what does not fit there.

        `source` is the path that the origin has now.
        """
        name = directory_name(origin.topic, origin.partition)
        for number in count(1):
            home = name if number == 1 else f"{number}/{name}"
            owner = self._origins.get(home)
            if owner is None and not os.path.lexists(f"{self.path}/{home}"):
                owner = self._origins[home] = origin
                line = {"to": home, "from": source, **to_builtins(origin)}
                self._unwritten.append(json_text(line))
            if owner == origin:
                yield f"{self.path}/{home}"

    def begin(self) -> None:
        """Create the directory, if an earlier run has not, with a manifest that is still empty."""
        self._is_new = not os.path.isdir(self.path)
        self._make(self.path)
        os.close(self._disk.open_log(f"{self.path}/{MANIFEST}"))

    def discard(self) -> None:
        """Delete what `begin` has made, where nothing was frozen."""
        if self._is_new:
            self._disk.unlink(f"{self.path}/{MANIFEST}")
            self._disk.remove_directory(self.path)

    def write_manifest(self) -> None:
        """Append the lines of the new directories, and flush them."""
        if not self._unwritten:
            return
        path = f"{self.path}/{MANIFEST}"
        descriptor = self._disk.open_log(path)
        try:
            size_bytes = os.fstat(descriptor).st_size
            # A run that was killed may have left a part of a line, which the empty line ends.
            text = "\n" * (size_bytes > 0) + "".join(f"{line}\n" for line in self._unwritten)
            self._disk.append(descriptor, path, text.encode("utf-8", "surrogateescape"), size_bytes)
            self._disk.sync(descriptor, path)
        finally:
            os.close(descriptor)
        self._unwritten.clear()

    def open_home(self, home: str) -> None:
        """Create a directory that `homes` has named, and delete what a killed run was writing in it."""
        if home in self._made:
            return
        self.write_manifest()
        if os.path.dirname(home) != self.path:
            self._make(os.path.dirname(home))
        self._make(home)
        for name in os.listdir(home):
            if name.startswith(_TEMPORARY[0]) and name.endswith(_TEMPORARY[1]):
                self._disk.unlink(f"{home}/{name}")

    def sync(self) -> None:
        """Flush the names in all directories that this run has used, the innermost first."""
        for path in sorted(self._made, key=len, reverse=True):
            self._disk.sync_directory(path)
        self._disk.sync_directory(os.path.dirname(self.path))

    def _make(self, path: str) -> None:
        if path not in self._made and not os.path.isdir(path):
            self._disk.make_directory(path, self._of_directories)
        self._made.add(path)


def _read(path: str) -> Iterator[tuple[str, Origin]]:
    """Yield the directories of a manifest; a part of a line, which a killed run has left, is none."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().split("\n")
    except FileNotFoundError:
        return
    for line in lines:
        with suppress(ValueError, KeyError, TypeError):
            fields = json.loads(line)
            yield str(fields["to"]), Origin(**{name: fields[name] for name in Origin.__struct_fields__})
