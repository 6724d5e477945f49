"""Codes of what happens to a file while a command reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import DeniedError, NotFoundError
from kafkalog_core.findings import DENIED
from kafkalog_core.storage.source import Change

if TYPE_CHECKING:
    from kafkalog_core.errors import StorageError

__all__ = ["CHANGE_CODES", "code_of_dir_error", "code_of_error"]

CHANGE_CODES: Final = {
    Change.GREW: "file.grew",
    Change.SHRANK: "file.shrank",
    Change.REPLACED: "file.replaced",
    Change.MODIFIED: "file.modified",
}


def code_of_error(error: StorageError) -> str:
    """Return the code for a file that was listed and then not read: it vanished, or the system refuses it."""
    if isinstance(error, NotFoundError):
        return "file.vanished"
    return DENIED if isinstance(error, DeniedError) else "file.not-readable"


def code_of_dir_error(error: StorageError) -> str:
    """Return the code for a directory that cannot be listed."""
    return DENIED if isinstance(error, DeniedError) else "dir.unreadable"
