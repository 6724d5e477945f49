"""Owner, group, permissions and extended attributes of a file."""

from __future__ import annotations

import base64
import errno
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kafkalog_core.storage.changing.trusted import ANYWHERE
from kafkalog_core.storage.source import open_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.storage.changing.trusted import TrustedDirectories

__all__ = ["SUPERUSER", "Attributes", "extended_attributes"]


SUPERUSER: Final = 0
_PERMISSIONS: Final = 0o777
"""The permission bits that are copied: set-user-id, set-group-id and sticky have no use on a file of Kafka's."""
_NO_SUCH_THING: Final = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """Owner, group, permissions and extended attributes, which include access control lists and security labels."""

    uid: int
    gid: int
    mode: int
    extended: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, path: str, trusted: TrustedDirectories = ANYWHERE) -> Attributes:
        """Return those of a file or directory, without the set-user-id, set-group-id and sticky bits.

        Raises NotFoundError or AccessError.
        """
        return _read(path, trusted)[0]

    @classmethod
    def of_new_file(cls, like: str, trusted: TrustedDirectories = ANYWHERE) -> Attributes:
        """Return those that a new file gets.

        They are all those of a file next to it, or owner, group and read permissions of its directory. Raises
        NotFoundError or AccessError.
        """
        attributes, is_directory = _read(like, trusted)
        if not is_directory:
            return attributes
        return cls(uid=attributes.uid, gid=attributes.gid, mode=0o600 | attributes.mode & 0o044)

    def to_json(self) -> dict[str, object]:
        """Return them as a JSON object of the journal."""
        extended = {name: base64.b64encode(value).decode("ascii") for name, value in self.extended.items()}
        return {"uid": self.uid, "gid": self.gid, "mode": f"{self.mode:04o}", "extended": extended}


def extended_attributes(path: str | int) -> dict[str, bytes]:
    """Return the extended attributes of a file, none where the system or the file system has none. Raises OSError."""
    if not hasattr(os, "listxattr"):
        return {}
    try:
        return {name: os.getxattr(path, name) for name in sorted(os.listxattr(path))}
    except OSError as error:
        if error.errno in _NO_SUCH_THING:
            return {}
        raise


def _read(path: str, trusted: TrustedDirectories) -> tuple[Attributes, bool]:
    """Return the attributes of a file or directory, and whether it is a directory."""
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
