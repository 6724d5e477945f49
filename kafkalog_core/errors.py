"""The exception hierarchy of kafkalog.

Every error that kafkalog raises on purpose is a `KafkalogError`. `__str__` builds the text from the attributes, which
a caller can read. Damage in a log is not an error: `storage.scan` turns what is not a batch into a `Damage`, and raises
no `FormatError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkalog_core.refusals import Refusal

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
    "ObjectReplacedError",
    "ProtocolError",
    "RefusedError",
    "SelectionError",
    "SettingError",
    "StorageError",
    "StoreLostError",
    "TruncatedError",
    "UnfinishedError",
    "UnknownFileError",
    "UnsupportedError",
    "WorkerLostError",
]


class KafkalogError(Exception):
    """The root of all errors of kafkalog. `path` is that of the affected file, if there is one.

    `refusal` is the message with its ways out, which the CLI shows a line each; None: the message is a sentence.
    """

    def __init__(self, message: str | Refusal, *, path: str | None = None) -> None:
        super().__init__(message)
        self.message = str(message)
        self.refusal = None if isinstance(message, str) else message
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        """Return a form that pickles with any constructor, because errors are sent between processes."""
        return _made_again, (type(self), self.args, vars(self))


def _made_again(kind: type[KafkalogError], arguments: tuple[Any, ...], attributes: dict[str, Any]) -> KafkalogError:
    error = kind.__new__(kind, *arguments)
    vars(error).update(attributes)
    return error


class FormatError(KafkalogError):
    """Invalid bytes; `position` is a byte in the buffer or file."""

    def __init__(self, message: str, *, position: int | None = None, path: str | None = None) -> None:
        super().__init__(message, path=path)
        self.position = position

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.position is None else f"{text} (at byte {self.position})"


class TruncatedError(FormatError):
    """Bytes that end before the value does."""


class ChecksumError(FormatError):
    """A stored checksum that differs from the one computed over the bytes."""

    def __init__(
        self, message: str, *, stored: int, computed: int, position: int | None = None, path: str | None = None
    ) -> None:
        super().__init__(message, position=position, path=path)
        self.stored = stored
        self.computed = computed

    def __str__(self) -> str:
        return f"{super().__str__()}: stored {self.stored:#010x}, computed {self.computed:#010x}"


class FieldError(FormatError):
    """A field with an impossible value."""


class UnsupportedError(FormatError):
    """What kafkalog cannot read or do, whatever the bytes are.

    A magic, version or codec that no known release writes, another product's format, a kind of file or of URL that it
    does not read, or a library that is not installed.
    """


class LimitError(FormatError):
    """A declared or decompressed size over the limit, refused before the memory is allocated."""


class ProtocolError(KafkalogError):
    """Bytes that do not form a message of Kafka's protocol, or a value that a message cannot hold."""


class StorageError(KafkalogError):
    """A failed operation on a file or directory."""


class NotFoundError(StorageError):
    """A file or directory that does not exist, or a glob that matches nothing."""


class AccessError(StorageError):
    """A file that the operating system refuses to open or read, or symbolic links that form a circle."""


class ObjectReplacedError(AccessError):
    """An object of an object store that another one replaced while it was read: their rows may be mixed."""


class DeniedError(AccessError):
    """A file that this user may not read, or a directory that this user may not list.

    `message` names the user, the owner and the mode; `advice` names the user to run the command as. `prefix`, such as
    `sudo -u kafka`, precedes the command line, which `with_command` sets; None: the owner is unknown.
    """

    def __init__(self, message: str, advice: str, *, path: str | None = None, prefix: str | None = None) -> None:
        super().__init__(message, path=path)
        self.advice = advice
        self.prefix = prefix

    def with_command(self, line: str) -> None:
        """Set the refused command line, ready to paste: run by another user, it is the way out."""
        from kafkalog_core.refusals import Refusal, WayOut  # noqa: PLC0415 -- `kafkalog --help` needs the errors alone

        command = None if self.prefix is None else f"{self.prefix} {line}"
        self.refusal = Refusal(self.message, (WayOut(self.advice, command),))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return a form that pickles with all arguments."""
        return _denied_again, (self.message, self.advice, self.path, self.prefix)

    def __str__(self) -> str:
        if self.refusal is not None:
            return f"{self.path}: {self.refusal}" if self.path else str(self.refusal)
        text = f"{super().__str__()}; {self.advice}"
        return text if self.prefix is None else f"{text} ({self.prefix})"


def _denied_again(message: str, advice: str, path: str | None, prefix: str | None) -> DeniedError:
    return DeniedError(message, advice, path=path, prefix=prefix)


class UnknownFileError(StorageError):
    """A file whose name and content match no kind of file that Kafka writes, or a directory without such files.

    `inside` are the directories in it that could be named instead.
    """

    def __init__(self, message: str, *, path: str | None = None, inside: tuple[str, ...] = ()) -> None:
        super().__init__(message, path=path)
        self.inside = inside

    def with_command(self, line: str) -> None:
        """Set the refused command line with the directories inside instead, ready to paste."""
        from kafkalog_core.refusals import Refusal, WayOut  # noqa: PLC0415 -- `kafkalog --help` needs the errors alone

        self.refusal = Refusal(self.message, (WayOut("name what is in there", line),))


class SelectionError(StorageError):
    """A selection that cannot be used.

    A topic, partition or target that matches nothing or does not fit the command, a filter, size, time or range that is
    not valid, or values of options and of the environment that do not go together.
    """


class SettingError(KafkalogError):
    """A setting of Kafka, or a release, that does not exist or has an invalid value."""


class LockedError(StorageError):
    """A log directory whose lock another process, most likely a running broker, holds."""


class RefusedError(StorageError):
    """A change that kafkalog refuses; nothing has been written."""


class CleanError(StorageError):
    """A log that cannot be compacted, because a broker's cleaner would stop there. Nothing has been changed.

    `reason` is a stable word: a damage reason, or map-too-small, not-a-segment, null-key, empty-legacy, empty-marker,
    too-large, index-full, index-order, offset-range; `position` is a byte in the file; None: there is no single one.
    """

    def __init__(self, reason: str, message: str, *, path: str | None, position: int | None = None) -> None:
        super().__init__(message, path=path)
        self.reason = reason
        self.position = position


class UnfinishedError(KafkalogError):
    """A change that stopped before all its files were changed; its journal can finish or undo it."""


class StoreLostError(KafkalogError):
    """An object store that did not answer, in all attempts, so that the result is incomplete.

    It is not a StorageError, which is about one file: the next object could not be read either.
    """


class WorkerLostError(KafkalogError):
    """Work of another process that is lost, so that the result is incomplete.

    A process was killed or could not be started, a task of Spark failed, or a temporary file for its output could not
    be written, such as on a full disk.

    `wrote_rows`: rows of the lost task were written to the output, which may end inside a line, and were not counted.
    """

    wrote_rows = False
