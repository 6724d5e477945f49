"""The exception hierarchy of kafkalog.

Every error that kafkalog raises on purpose descends from `KafkalogError`. Texts are built in `__str__` from the
attributes, so that a caller can read the numbers and a person the sentence. Damage in a log is not an error:
`storage.scan` catches `FormatError` and yields it as data.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "AccessError",
    "ChecksumError",
    "CleanError",
    "DeniedError",
    "FieldError",
    "FormatError",
    "KafkalogError",
    "LimitError",
    "LockedError",
    "NotFoundError",
    "RefusedError",
    "SelectionError",
    "SettingError",
    "StorageError",
    "TruncatedError",
    "UnfinishedError",
    "UnknownFileError",
    "UnsupportedError",
    "WorkerLostError",
]


class KafkalogError(Exception):
    """Root of all errors of kafkalog. `path` names the file that it is about, if there is one."""

    def __init__(self, message: str, *, path: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle errors whole, whatever arguments their class takes: they travel between processes."""
        return _made_again, (type(self), self.args, vars(self))


def _made_again(kind: type[KafkalogError], arguments: tuple[Any, ...], attributes: dict[str, Any]) -> KafkalogError:
    error = kind.__new__(kind, *arguments)
    vars(error).update(attributes)
    return error


class FormatError(KafkalogError):
    """Bytes that are not valid in their place; `position` is a byte in the buffer or file."""

    def __init__(self, message: str, *, position: int | None = None, path: str | None = None) -> None:
        super().__init__(message, path=path)
        self.position = position

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.position is None else f"{text} (at byte {self.position})"


class TruncatedError(FormatError):
    """The bytes end before the value does."""


class ChecksumError(FormatError):
    """A stored checksum differs from the one computed over the bytes."""

    def __init__(
        self, message: str, *, stored: int, computed: int, position: int | None = None, path: str | None = None
    ) -> None:
        super().__init__(message, position=position, path=path)
        self.stored = stored
        self.computed = computed

    def __str__(self) -> str:
        return f"{super().__str__()}: stored {self.stored:#010x}, computed {self.computed:#010x}"


class FieldError(FormatError):
    """A field holds an impossible value."""


class UnsupportedError(FormatError):
    """A magic, version or codec that no known release writes, or another product's format."""


class LimitError(FormatError):
    """A declared or decompressed size is over the limit; it is refused before the memory is allocated."""


class StorageError(KafkalogError):
    """An operation on a file or directory failed."""


class NotFoundError(StorageError):
    """No such file or directory, or a glob that matches nothing."""


class AccessError(StorageError):
    """The operating system refused to open or read a file, or symbolic links form a circle."""


class DeniedError(AccessError):
    """This user has no permission to read a file or to list a directory.

    `message` names the user, the owner and the mode; `advice` names the user to run the command as, which
    `with_command` names. `prefix` precedes that command, quoted; None: the owner is unknown.
    """

    def __init__(self, message: str, advice: str, *, path: str | None = None, prefix: str | None = None) -> None:
        super().__init__(message, path=path)
        self.advice = advice
        self.prefix = prefix
        self._command: str | None = None

    def with_command(self, line: str) -> None:
        """Set the command line that was refused, ready to paste."""
        self._command = line

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it with all its arguments."""
        return _denied_again, (self.message, self.advice, self.path, self.prefix)

    def __str__(self) -> str:
        text = f"{super().__str__()}; {self.advice}"
        if self.prefix is None:
            return text
        return f"{text} ({self.prefix})" if self._command is None else f"{text}: {self.prefix} {self._command}"


def _denied_again(message: str, advice: str, path: str | None, prefix: str | None) -> DeniedError:
    return DeniedError(message, advice, path=path, prefix=prefix)


class UnknownFileError(StorageError):
    """A file whose name and content are of no kind that Kafka writes."""


class SelectionError(StorageError):
    """A selection by topic, partition or filter that matches nothing."""


class SettingError(KafkalogError):
    """A setting of Kafka, or a release, that does not exist or has an invalid value."""


class LockedError(StorageError):
    """Another process, most likely a running broker, holds the lock of a log directory."""


class RefusedError(StorageError):
    """A change that kafkalog does not make: nothing has been written."""


class CleanError(StorageError):
    """A compaction of a log that cannot be done: a broker's cleaner would stop there. Nothing has been changed.

    `reason` is a stable word: one of damage's, or map-too-small, not-a-segment, null-key, empty-legacy, empty-marker,
    too-large, index-full, index-order, offset-range; `position` is a byte in the file, None if no single one is meant.
    """

    def __init__(self, reason: str, message: str, *, path: str | None, position: int | None = None) -> None:
        super().__init__(message, path=path)
        self.reason = reason
        self.position = position


class UnfinishedError(KafkalogError):
    """A change that ended before all its files were changed; its journal can finish or undo it."""


class WorkerLostError(KafkalogError):
    """A worker process ended before its work was done, so that the result is not complete."""
