"""The partition directories in the log directory of a live broker: which are there, new ones, and their deletion.

Whatever clients ask for, what was there before is not deleted, except by the deletion of its topic, and no symbolic
link below the log directory is followed to change anything: its owner can put one there, while root serves it.

The directories of a new topic are made first, empty, then the metadata log gets the topic, and its id is written into
them last. So a crash leaves empty directories without a topic, which the next topic of that name takes over, or a topic
whose directories lack the id, which is written before the first append. A broker takes such directories over too
(`LogManager.createLogDirectory`), and replaces those that lack the id (`LogManager.isStrayKraftReplica`).
"""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_path
from kafkalog_core.errors import NotFoundError, RefusedError, StorageError
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind, fixed_file_name
from kafkalog_core.format.properties import encode_partition_metadata
from kafkalog_core.format.textfile import uuid_text
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.serve.disks.start_notes import is_text
from kafkalog_core.storage.changing.trusted import TrustedDirectories
from kafkalog_core.storage.changing.writer import SUPERUSER, Attributes, Disk
from kafkalog_core.storage.logdir import PartitionPath
from kafkalog_core.storage.partition import partition_name
from kafkalog_core.structs import replace
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.livebroker.logs.log_dir_failure import LogDirFailure
    from kafkalog_core.storage.logdir import LogDir

__all__ = ["BrokerDisk", "Key", "PartitionDirs"]

_DELETED: Final = "-delete"
_MAX_NAME: Final = 255
_MOST_NOTES: Final = 5

Key = tuple[str, int]
"""A topic and a partition number."""


class BrokerDisk(Disk):
    """The steps of a broker: a new file gets the group of its directory where this user may set it.

    A repair refuses to change the group of a file; a broker creates its files with the group of its process.
    """

    def _set_attributes(self, descriptor: int, path: str, attributes: Attributes) -> None:
        if os.geteuid() != SUPERUSER and attributes.gid not in {os.getegid(), *os.getgroups()}:
            attributes = replace(attributes, gid=os.fstat(descriptor).st_gid)
        super()._set_attributes(descriptor, path, attributes)


class PartitionDirs:
    """The directories, by topic and number. The owner serializes calls.

    Attributes:
        trusted: the log directory, held open; every change starts there.
        places: the directories that are served.
        links: symbolic links of the name of a partition, which are not.
    """

    def __init__(self, path: str, disk: Disk, new_id: Callable[[], bytes], failure: LogDirFailure) -> None:
        """Take the log directory. Raises StorageError if it cannot be opened.

        disk: performs the steps. new_id: returns a random id of 16 bytes. failure: of the log directory.
        """
        self._path = path
        self._disk = disk
        self._new_id = new_id
        self._failure = failure
        self.trusted = TrustedDirectories([path])
        self.places: dict[Key, PartitionPath] = {}
        self.links: dict[Key, PartitionPath] = {}

    def read(self, log_dir: LogDir) -> None:
        """Take what a listing found. Raises RefusedError if the metadata log is a link."""
        for each in log_dir.partitions:
            name = each.name
            is_current = name.state is DirectoryState.CURRENT and is_text(name.raw)
            if is_current and name.topic and name.partition is not None and not self.is_link(each):
                self.places[name.topic, name.partition] = each
        self._read_links()
        if (METADATA_TOPIC, 0) in self.links:
            raise _link_error(self.links[METADATA_TOPIC, 0])

    def _read_links(self) -> None:
        """Find the links, of which a listing lacks those that lead nowhere, such as to a disk that is not mounted."""
        for raw in filter(is_text, self.trusted.names(self._path)):
            path = f"{self._path}/{raw}"
            name = partition_name(path)
            if name.state is not DirectoryState.CURRENT or not name.topic or name.partition is None:
                continue
            # By the link itself and not its target, which may be absent.
            status = self.trusted.status(path)
            if status is not None and stat.S_ISLNK(status.st_mode):
                place = PartitionPath(path=path, name=name, device=status.st_dev, inode=status.st_ino)
                self.links[name.topic, name.partition] = place

    def is_link(self, place: PartitionPath) -> bool:
        """Return whether a directory is reached by a symbolic link of this name."""
        status = self.trusted.status(place.path)
        return status is not None and stat.S_ISLNK(status.st_mode)

    def notes(self) -> Iterator[str]:
        """Yield a warning for each link."""
        for place in self.links.values():
            yield f"warning: {_link_error(place)}; until then it has no leader"

    def stray_notes(self, is_known: Callable[[str, int], bool]) -> Iterator[str]:
        """Yield a warning for each of the first directories that are not empty and of no known partition."""
        strays = [
            place.path
            for key, place in sorted(self.places.items())
            if key[0] != METADATA_TOPIC and not is_known(*key) and not self._is_usable(place.path)
        ]
        for path in strays[:_MOST_NOTES]:
            yield (
                f"warning: {path}: belongs to no partition of the metadata log, so it is not served, and no topic of "
                f"its name can be created. See what is in it (kafkalog verify {shell_path(path)}), and move it out of "
                "the log directory, or delete it if its topic was deleted"
            )
        if len(strays) > _MOST_NOTES:
            yield f"warning: {count_of(len(strays) - _MOST_NOTES, 'more directory')} of no partition"

    def _is_usable(self, path: str) -> bool:
        """Return whether a new topic can have a directory that is there."""
        with suppress(StorageError):
            return self._is_empty(path)
        return False

    # --- new directories ----------------------------------------------------------------------------------------------
    def make_first(self) -> None:
        """Make the directory of the metadata log in an empty log directory. Raises StorageError."""
        self._disk.make_directory(f"{self._path}/{METADATA_TOPIC}-0", self._like())

    @contextmanager
    def made(self, topic: str, numbers: Iterable[int]) -> Iterator[None]:
        """Make directories of partitions; if they do not become part of the cluster, they are deleted again.

        Raises RefusedError, before any is made, if there is something of a name already that is not an empty directory:
        it is kept, whatever it is.
        """
        paths = {(topic, number): f"{self._path}/{topic}-{number}" for number in numbers}
        # Looked at before any is made, so a name that is taken refuses all of them.
        new = {key for key, path in paths.items() if not self._is_empty(path)}
        with ExitStack() as undo:
            for key, path in paths.items():
                if key in new:
                    self._disk.make_directory(path, self._like())
                undo.callback(self._take_back, key, path, is_new=key in new)
                self._add(key, path)
            self._disk.sync_directory(self._path)  # a topic without its directories could neither be used nor deleted
            yield
            undo.pop_all()

    def _is_empty(self, path: str) -> bool:
        """Return whether there is an empty directory of this name; False: nothing has it. Raises RefusedError."""
        status = self.trusted.status(path)
        if status is None:
            return False
        if stat.S_ISDIR(status.st_mode) and not self.trusted.names(path):
            return True
        look = WayOut("see what is in it", f"kafkalog verify {shell_path(path)}")
        move = WayOut("move it out of the log directory, then create the topic again")
        reason = (
            "is there already, and belongs to no topic of the metadata log, so kafkalog neither uses nor deletes it"
        )
        raise RefusedError(Refusal(reason, (look, move)), path=path)

    def _add(self, key: Key, path: str) -> None:
        status = self.trusted.status(path)
        if status is None:
            raise NotFoundError("another process has just deleted it", path=path)
        self.places[key] = PartitionPath(
            path=path, name=partition_name(path), device=status.st_dev, inode=status.st_ino
        )

    def _take_back(self, key: Key, path: str, *, is_new: bool) -> None:
        """Delete a directory that was just made, if nothing has been put into it."""
        self.places.pop(key, None)
        # A directory that was there before is somebody else's.
        if not is_new or self._failure.is_offline:
            return  # the metadata log may have the topic, which then needs its directories after the next start
        with suppress(StorageError):
            self._disk.remove_directory(path)

    def identify(self, key: Key, topic_id: bytes) -> None:
        """Write the id of its topic into a directory that lacks it. Raises StorageError."""
        path = self.places[key].path
        file = f"{path}/{fixed_file_name(FileKind.PARTITION_METADATA)}"
        # Written once: the id of a topic never changes.
        if not self.trusted.exists(file):
            self._disk.replace_file(file, encode_partition_metadata(uuid_text(topic_id)), path)

    def _like(self) -> Attributes:
        """Return the attributes of a new directory: those of the log directory."""
        attributes = Attributes.of(self._path, self.trusted)
        # The owner may write, whatever mode the log directory has.
        return Attributes(uid=attributes.uid, gid=attributes.gid, mode=attributes.mode | 0o700)

    # --- deletion -----------------------------------------------------------------------------------------------------
    def of_topic(self, topic: str, numbers: Iterable[int]) -> list[Key]:
        """Return the partitions of a topic that are here and may be deleted.

        numbers: its partitions; any other directory of its name belongs to no topic, and is kept.

        Raises RefusedError if a directory is a link, or has been replaced since the start or since it was made.
        """
        keys = [(topic, number) for number in numbers]
        for key in keys:
            if key in self.links:
                raise _link_error(self.links[key])
        keys = [key for key in keys if key in self.places]
        for key in keys:
            place = self.places[key]
            status = self.trusted.status(place.path)
            # Device and inode: a path alone does not show that somebody has put another directory there.
            if status is not None and (status.st_dev, status.st_ino) != place.identity:
                look = WayOut("see what it is", f"ls -ld {shell_path(place.path)}")
                reason = (
                    "is not the directory that kafkalog has served: somebody has put another one, or a link, in its "
                    "place. Stop kafkalog before you replace a directory"
                )
                raise RefusedError(Refusal(reason, (look,)), path=place.path)
        return keys

    def delete(self, places: Iterable[PartitionPath]) -> None:
        """Delete directories, all that can be. Raises the first StorageError of one that is kept."""
        kept: list[StorageError] = []
        # All of them are tried: one that cannot be deleted does not keep the others.
        for place in places:
            try:
                self._delete(place)
            except StorageError as error:
                kept.append(error)
        if kept:
            raise kept[0]

    def _delete(self, place: PartitionPath) -> None:
        """Rename a directory as a broker does, and delete it: a broker that finds it renamed deletes the rest."""
        if not self.trusted.exists(place.path):
            return  # somebody has deleted it
        # As `UnifiedLog.logDeleteDirName`: the name of the topic is cut so that the whole fits a file system's 255
        # bytes.
        stem = place.name.raw[: _MAX_NAME - 1 - 32 - len(_DELETED)]
        gone = f"{self._path}/{stem}.{self._new_id().hex()}{_DELETED}"
        self._disk.rename(place.path, gone)
        # On disk before the files go: half-deleted under its old name, a broker would load it as a log.
        self._disk.sync_directory(self._path)
        self._disk.delete_directory(gone)


def _link_error(place: PartitionPath) -> RefusedError:
    reason = (
        f"is a symbolic link to {os.path.realpath(place.path)}, and a broker that writes follows no link below the "
        "directory that you named"
    )
    ways = (
        WayOut("if that is the partition, delete the link and move the directory itself here"),
        WayOut("serve it as it is, without --read-write", f"kafkalog serve {shell_path(os.path.dirname(place.path))}"),
    )
    return RefusedError(Refusal(reason, ways), path=place.path)
