"""Who may read what: the sentence that names the user, the owner and the mode where the system denies a path."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_word
from kafkalog_core.errors import DeniedError

if TYPE_CHECKING:
    from collections.abc import Callable

try:
    import grp
    import pwd
except ImportError:  # Windows has neither: numbers are shown there
    grp = pwd = None  # type: ignore[assignment]

__all__ = ["denial", "denied", "denied_above", "may_list", "may_read"]

_EFFECTIVE: Final = os.access in os.supports_effective_ids
"""Whether `os.access` can ask for the effective user, who is the one that opens files."""


def may_read(path: str) -> bool:
    """Return whether this user may open a file for reading; true where it does not exist or cannot be asked about."""
    return not os.path.lexists(path) or os.access(path, os.R_OK, effective_ids=_EFFECTIVE)


def may_list(path: str) -> bool:
    """Return whether this user may list a directory and open what is in it."""
    return os.access(path, os.R_OK | os.X_OK, effective_ids=_EFFECTIVE)


def denied(path: str) -> DeniedError:
    """Return the error for a path that the system has denied: the user, the owner, and the right that is missing."""
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
    if os.access(place, os.R_OK if place == path else os.X_OK, effective_ids=_EFFECTIVE):
        facts += ", which would permit it: an access control list or a security module denies it"
    return DeniedError(facts, "run the command as root, or as its owner", path=path, prefix=prefix)


def denial(path: str, *, is_directory: bool = False) -> DeniedError | None:
    """Return why this user may not read a file, or list a directory; None: the user may."""
    is_open = may_list(path) if is_directory else may_read(path)
    return None if is_open else denied(path)


def denied_above(path: str) -> DeniedError | None:
    """Return why this user cannot see whether a path exists; None: the user can enter every directory above it."""
    return None if _closed_directory_above(path) is None else denied(path)


def _closed_directory_above(path: str) -> str | None:
    """Return the topmost directory on the way to a path that this user may not enter; None: there is none."""
    above: list[str] = []
    directory = os.path.dirname(os.path.abspath(path))
    while directory not in above:
        above.append(directory)
        directory = os.path.dirname(directory)
    return next((place for place in reversed(above) if not os.access(place, os.X_OK, effective_ids=_EFFECTIVE)), None)


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
