"""What is to be done to the files of a partition, as values that go between processes, and onto a stage."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.errors import StorageError
from kafkalog_core.storage.source import WINDOW_BYTES, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.storage.changing.changes import Stage

__all__ = ["FileSlice", "Spool", "Step", "stage_step"]

_MEMORY_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileSlice:
    """Bytes of a file; `is_temporary`: the file is removed when they have been taken."""

    path: str
    start: int
    end: int
    is_temporary: bool = False

    def pieces(self) -> Iterator[bytes]:
        """All of them, a window at a time.

        Raises NotFoundError, AccessError or UnreadableError, and StorageError where the file ends before `end`.
        """
        position = self.start
        with Source.open(self.path) as source:
            if self.is_temporary:
                os.unlink(self.path)  # freed when it is closed, whatever happens meanwhile
            while position < self.end:
                window = source.window(position, min(WINDOW_BYTES, self.end - position))
                if not window:
                    raise StorageError(
                        f"it has become shorter while it was read: byte {position} is gone", path=self.path
                    )
                yield bytes(window)
                position += len(window)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One change.

    Args:
        kind: `write` a whole file, `cut` it in place, or `remove` it.
        path: of the file.
        why: one sentence, without its full stop.
        content: of a `write`.
        size_bytes: of a `cut`.
        like: of a `write`: path of the log beside it.
        mtime_ns: of a `write`; null: the time of writing.
    """

    kind: Literal["write", "cut", "remove"]
    path: str
    why: str
    content: bytes | FileSlice = b""
    size_bytes: int = 0
    like: str = ""
    mtime_ns: int | None = None


def stage_step(step: Step, stage: Stage) -> None:
    """Put it onto a stage."""
    if step.kind == "cut":
        stage.cut(step.path, step.size_bytes, why=step.why)
    elif step.kind == "remove":
        stage.remove(step.path, why=step.why)
    else:
        pieces = step.content.pieces() if isinstance(step.content, FileSlice) else [step.content]
        stage.write(step.path, pieces, why=step.why, like=step.like, mtime_ns=step.mtime_ns)


class Spool:
    """Holds the new content of many steps: in memory while it is little, else in temporary files.

    Args:
        directory: for the files.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._kept_bytes = 0

    def keep(self, step: Step) -> Step:
        """The same step, its content perhaps in a file."""
        if not isinstance(step.content, bytes):
            return step
        self._kept_bytes += len(step.content)
        if self._kept_bytes <= _MEMORY_BYTES:
            return step
        with tempfile.NamedTemporaryFile(dir=self._directory, delete=False) as file:
            file.write(step.content)
        return replace(step, content=FileSlice(file.name, 0, len(step.content), is_temporary=True))
