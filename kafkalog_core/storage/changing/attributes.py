"""Who owns a file and what may be done with it: all that a file carries beside its bytes and its times."""

from __future__ import annotations

import base64
import errno
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kafkalog_core.storage.source import open_error

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Attributes", "extended_attributes"]

_NO_SUCH_THING: Final = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """Owner, group, permissions and extended attributes, access lists and security labels among them."""

    uid: int
    gid: int
    mode: int
    extended: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, path: str) -> Attributes:
        """Those of a file or directory. Raises NotFoundError or AccessError."""
        try:
            status = os.stat(path)
            extended = extended_attributes(path)
        except OSError as error:
            raise open_error(path, error) from error
        return cls(uid=status.st_uid, gid=status.st_gid, mode=stat.S_IMODE(status.st_mode), extended=extended)

    @classmethod
    def of_new_file(cls, like: str) -> Attributes:
        """Those that a new file gets: of a file beside it, or of the directory that it comes to lie in.

        Of a directory the owner and group, and who may read. Raises NotFoundError or AccessError.
        """
        attributes = cls.of(like)
        if not os.path.isdir(like):
            return attributes
        return cls(uid=attributes.uid, gid=attributes.gid, mode=0o600 | attributes.mode & 0o044)

    def to_json(self) -> dict[str, object]:
        """As JSON has it."""
        extended = {name: base64.b64encode(value).decode("ascii") for name, value in self.extended.items()}
        return {"uid": self.uid, "gid": self.gid, "mode": f"{self.mode:04o}", "extended": extended}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> Attributes:
        """Raises KeyError, TypeError or ValueError for anything else than `to_json` gave."""
        extended = value["extended"]
        if not isinstance(extended, dict):
            raise TypeError("extended attributes are no object")
        return cls(
            uid=int(str(value["uid"])),
            gid=int(str(value["gid"])),
            mode=int(str(value["mode"]), 8),
            extended={str(name): base64.b64decode(str(text), validate=True) for name, text in extended.items()},
        )


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
