"""Codes of what happens to a file while a command reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import NotFoundError
from kafkalog_core.storage.source import Change

if TYPE_CHECKING:
    from kafkalog_core.errors import StorageError

__all__ = ["CHANGE_CODES", "code_of_error"]

CHANGE_CODES: Final = {
    Change.GREW: "file.grew",
    Change.SHRANK: "file.shrank",
    Change.REPLACED: "file.replaced",
    Change.MODIFIED: "file.modified",
}


def code_of_error(error: StorageError) -> str:
    """The code of a file that was listed and cannot be opened or read: it went away, or the system refuses it."""
    return "file.vanished" if isinstance(error, NotFoundError) else "file.not-readable"
