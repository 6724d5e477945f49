"""What this user may do with a path, and the error that names user, owner and mode if the system denies it."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_word
from kafkalog_core.errors import AccessError, DeniedError, NotFoundError, ObjectReplacedError, StorageError
from kafkalog_core.findings import DENIED
from kafkalog_core.storage.object_paths import is_object

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "code_of_dir_error",
    "code_of_error",
    "denial",
    "denied",
    "denied_above",
    "may",
    "may_list",
    "may_read",
    "open_error",
]

try:
    import grp
    import pwd
except ImportError:  # Windows has neither: numbers are shown there
    grp = pwd = None  # type: ignore[assignment]


_EFFECTIVE: Final = os.access in os.supports_effective_ids
"""Whether `os.access` can check the effective user, as which files are opened."""


def may(path: str, mode: int) -> bool:
    """Return whether this user has the rights `mode` (`os.R_OK`, ...) for a path; false if it does not exist."""
    return os.access(path, mode, effective_ids=_EFFECTIVE)


def may_read(path: str) -> bool:
    """Return whether this user may open a file for reading; true if it does not exist or cannot be checked.

    That holds for every object: its store answers when it is read.
    """
    return is_object(path) or not os.path.lexists(path) or may(path, os.R_OK)


def may_list(path: str) -> bool:
    """Return whether this user may list a directory and open what is in it."""
    return is_object(path) or may(path, os.R_OK | os.X_OK)


def denied(path: str) -> DeniedError:
    """Return the error for a path that the system has denied: the user, the owner and the missing permission."""
    place = _closed_directory_above(path)
    what = "enter its directory"
    if place is None:
        place, what = path, "list it" if os.path.isdir(path) else "read it"
    elif place != os.path.dirname(os.path.abspath(path)):
        what = f"enter the directory {place}"
    user = _user(os.geteuid()) if hasattr(os, "geteuid") else "this user"
    try:
        status = os.stat(place)
    except OSError:
        advice = "run the command as the user that the broker runs as"
        return DeniedError(f"{user} has no permission to {what}", advice, path=path)
    owner, mode = _user(status.st_uid), stat.S_IMODE(status.st_mode)
    prefix = f"sudo -u {shell_word(_sudo_name(status.st_uid))}"
    whose = f"it belongs to {owner}, {_group(status.st_gid)}, and has mode {mode:04o}"
    facts = f"{user} has no permission to {what}: {whose}"
    if may(place, os.R_OK if place == path else os.X_OK):
        facts += ", which would permit it: an access control list or a security module denies it"
    return DeniedError(facts, "run the command as root, or as its owner", path=path, prefix=prefix)


def denial(path: str, *, is_directory: bool = False) -> DeniedError | None:
    """Return why this user may not read a file, or list a directory; `None`: the user may."""
    is_open = may_list(path) if is_directory else may_read(path)
    return None if is_open else denied(path)


def denied_above(path: str) -> DeniedError | None:
    """Return why this user cannot see whether a path exists; `None`: the user can enter every directory above it."""
    return None if is_object(path) or _closed_directory_above(path) is None else denied(path)


def _closed_directory_above(path: str) -> str | None:
    """Return the topmost directory on the way to a path that this user may not enter; `None`: there is none."""
    above: list[str] = []
    directory = os.path.dirname(os.path.abspath(path))
    while directory not in above:
        above.append(directory)
        directory = os.path.dirname(directory)
    return next((place for place in reversed(above) if not may(place, os.X_OK)), None)


def _user(uid: int) -> str:
    name = _name(lambda: pwd.getpwuid(uid).pw_name)
    return f"user {uid}" if name is None else f"user {name} ({uid})"


def _sudo_name(uid: int) -> str:
    return _name(lambda: pwd.getpwuid(uid).pw_name) or f"#{uid}"


def _group(gid: int) -> str:
    name = _name(lambda: grp.getgrgid(gid).gr_name)
    return f"group {gid}" if name is None else f"group {name} ({gid})"


def _name(ask: Callable[[], str]) -> str | None:
    try:
        return ask()
    except (KeyError, AttributeError):  # no such entry, or no such module
        return None


def open_error(path: str, error: OSError) -> StorageError:
    """Return the StorageError that gives in one sentence the reason why the operating system refused a path."""
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return NotFoundError("no such file or directory", path=path)
    if error.errno == errno.ELOOP:
        return AccessError("its symbolic links lead in a circle", path=path)
    if error.errno in {errno.EACCES, errno.EPERM}:
        return denied(path)
    return AccessError(f"the system cannot read it ({os.strerror(error.errno or 0)})", path=path)


def code_of_error(error: StorageError) -> str:
    """Return the code for a file that was listed and then not read: it vanished, or the system refuses it."""
    if isinstance(error, NotFoundError):
        return "file.vanished"
    if isinstance(error, ObjectReplacedError):
        return "object.replaced"
    return DENIED if isinstance(error, DeniedError) else "file.not-readable"


def code_of_dir_error(error: StorageError) -> str:
    """Return the code for a directory that cannot be listed."""
    return DENIED if isinstance(error, DeniedError) else "dir.unreadable"
