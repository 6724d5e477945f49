"""The attributes that a journal may give to files: only those that a file in the same directory has.

A journal records the owner, permissions and extended attributes of a file, and root could give a file any of them. A
forged journal could make root create files of another user, or programs with capabilities.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_path, shell_word
from kafkalog_core.errors import RefusedError
from kafkalog_core.storage.changing.attributes import Attributes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.storage.changing.journal import Entry, Journal
    from kafkalog_core.storage.changing.trusted import TrustedDirectories

__all__ = ["check_owners"]

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
