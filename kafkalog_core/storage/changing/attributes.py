"""Who owns a file and what may be done with it: all that a file carries beside its bytes and its times."""

from __future__ import annotations

import base64
import errno
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_path, shell_word
from kafkalog_core.errors import RefusedError
from kafkalog_core.storage.changing.trusted import ANYWHERE
from kafkalog_core.storage.source import open_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalog_core.storage.changing.journal import Entry, Journal
    from kafkalog_core.storage.changing.trusted import TrustedDirectories

__all__ = ["Attributes", "check_owners", "extended_attributes"]


_PERMISSIONS: Final = 0o777
"""Set-user-id, set-group-id and sticky mean nothing on a file of Kafka's, and are given to none."""
_NO_SUCH_THING: Final = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """Owner, group, permissions and extended attributes, access lists and security labels among them."""

    uid: int
    gid: int
    mode: int
    extended: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, path: str, trusted: TrustedDirectories = ANYWHERE) -> Attributes:
        """Those of a file or directory; bits that change the user of a program are left out.

        Raises NotFoundError or AccessError.
        """
        return _read(path, trusted)[0]

    @classmethod
    def of_new_file(cls, like: str, trusted: TrustedDirectories = ANYWHERE) -> Attributes:
        """Those that a new file gets: of a file beside it, or of the directory that it comes to lie in.

        Of a directory the owner and group, and who may read. Raises NotFoundError or AccessError.
        """
        attributes, is_directory = _read(like, trusted)
        if not is_directory:
            return attributes
        return cls(uid=attributes.uid, gid=attributes.gid, mode=0o600 | attributes.mode & 0o044)

    def to_json(self) -> dict[str, object]:
        """As JSON has it."""
        extended = {name: base64.b64encode(value).decode("ascii") for name, value in self.extended.items()}
        return {"uid": self.uid, "gid": self.gid, "mode": f"{self.mode:04o}", "extended": extended}


def extended_attributes(path: str | int) -> dict[str, bytes]:
    """Extended attributes of a file; none where the system or the file system knows none. Raises OSError."""
    if not hasattr(os, "listxattr"):
        return {}
    try:
        return {name: os.getxattr(path, name) for name in sorted(os.listxattr(path))}
    except OSError as error:
        if error.errno in _NO_SUCH_THING:
            return {}
        raise


def _read(path: str, trusted: TrustedDirectories) -> tuple[Attributes, bool]:
    """Attributes of a file or directory, and whether it is a directory."""
    try:
        number = trusted.open_anything(path)
        try:
            status = os.fstat(number)
            extended = extended_attributes(number)
        finally:
            os.close(number)
    except OSError as error:
        raise open_error(path, error) from error
    mode = status.st_mode & _PERMISSIONS
    attributes = Attributes(uid=status.st_uid, gid=status.st_gid, mode=mode, extended=extended)
    return attributes, stat.S_ISDIR(status.st_mode)


_SUPERUSER: Final = 0
_HARMLESS: Final = ("user.", "system.posix_acl_access")
"""Extended attributes that the owner of a file may set himself; `security.capability` is not one of them."""


def check_owners(journal: Journal, wanted: Iterable[tuple[Entry, Attributes | None]]) -> None:
    """Raises RefusedError where a journal would give a file what neither its directory nor a file in it has.

    The system itself keeps other users than root from it.
    """
    if os.geteuid() != _SUPERUSER:
        return
    known: dict[str, _Known] = {}
    for entry, attributes in wanted:
        if attributes is not None:
            path = journal.path_of(entry)
            directory = os.path.dirname(path)
            there = known.setdefault(directory, _Known(journal.trusted, directory))
            problem = there.problem(attributes)
            if problem is not None:
                raise RefusedError(
                    f"{journal.run} would give it {problem}; run kafkalog undo as the owner of the directory instead",
                    path=path,
                )


class _Known:
    """What a directory and its files have. What root has and is linked from elsewhere may not belong there."""

    def __init__(self, trusted: TrustedDirectories, directory: str) -> None:
        self._trusted = trusted
        self._directory = directory
        self._owners: set[tuple[int, int]] = set()
        self._labels: set[tuple[str, bytes]] = set()
        self._add(directory)

    def problem(self, attributes: Attributes) -> str | None:
        """Return which of some attributes no file here has; None: files here have all of them."""
        problem = self._missing(attributes)
        if problem is not None:
            for name in self._trusted.names(self._directory):
                path = f"{self._directory}/{name}"
                status = self._trusted.status(path)
                if status is None or not stat.S_ISREG(status.st_mode):
                    continue
                if status.st_nlink == 1:
                    self._add(path)
                elif status.st_uid != _SUPERUSER:  # a backup of hard links
                    self._owners.add((status.st_uid, status.st_gid))
            problem = self._missing(attributes)
        return problem

    def _add(self, path: str) -> None:
        attributes = Attributes.of(path, self._trusted)
        self._owners.add((attributes.uid, attributes.gid))
        self._labels.update(_guarded(attributes))

    def _missing(self, attributes: Attributes) -> str | None:
        if (attributes.uid, attributes.gid) not in self._owners:
            return (
                f"to user {attributes.uid}, group {attributes.gid}, who own neither {self._directory} nor a file in "
                f"it. If that is right, give the directory to them first: "
                f"chown {attributes.uid}:{attributes.gid} {shell_path(self._directory)}"
            )
        for name, value in _guarded(attributes):
            if (name, value) not in self._labels:
                return (
                    f"the extended attribute {name}, which no file there has with this value. If that is right, give "
                    f"it to the directory first: "
                    f"setfattr -n {shell_word(name)} -v 0x{value.hex()} {shell_path(self._directory)}"
                )
        return None


def _guarded(attributes: Attributes) -> list[tuple[str, bytes]]:
    return [each for each in attributes.extended.items() if not each[0].startswith(_HARMLESS)]
