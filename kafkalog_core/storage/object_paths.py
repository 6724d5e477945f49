"""Paths of an object store, `s3://BUCKET/PREFIX/NAME`, and the options by which this process reaches it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["REACHING", "S3", "StorageOptions", "is_object", "object_parent"]

S3: Final = "s3://"


def is_object(path: str) -> bool:
    """Return whether a path is of an object store."""
    return path.startswith(S3)


def object_parent(path: str) -> str:
    """Return the directory of an object or a directory; that of a bucket is the bucket."""
    bucket, _, key = path.removeprefix(S3).rstrip("/").partition("/")
    folder = key.rpartition("/")[0]
    return f"{S3}{bucket}/{folder}" if folder else f"{S3}{bucket}"


class StorageOptions(Struct, frozen=True):
    """How to reach an object store: pairs of a name and a value, by the names of `objects.OPTION_NAMES`.

    `is_complete`: whether they contain what the environment of the process that was started by the user adds.
    """

    pairs: tuple[tuple[str, str], ...] = ()
    is_complete: bool = False

    def __repr__(self) -> str:
        return "StorageOptions(...)"  # they may be secret


def _nothing() -> None:
    pass


class _Reaching(Struct):
    """How this process reaches an object store, and whether it has done so since the last paths were resolved.

    `waiting`: the requests that a thread waits for. A process ends without them, but not in the usual way.
    `check`: is called while a request is waited for, and may raise what ends the wait.
    """

    options: StorageOptions = StorageOptions()
    is_used: bool = False
    waiting: set[object] = field(default_factory=set)
    check: Callable[[], None] = _nothing


REACHING: Final = _Reaching()
"""Of every object that is read from now on: a command sets it once, before it reads."""
