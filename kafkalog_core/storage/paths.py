"""Paths of a file system, and of an object store: `s3://BUCKET/PREFIX/NAME`.

These functions do for both what `os.path` does for the first. An ordinary path imports nothing for it.
"""

from __future__ import annotations

import os

from kafkalog_core.storage.object_paths import S3, is_object, object_parent
from kafkalog_core.storage.reading import READING

__all__ = ["absolute", "exists", "is_directory", "is_object", "is_there", "parent", "real"]


def absolute(path: str) -> str:
    """Return the absolute path; of an object store the path without slashes at its end."""
    return f"{S3}{path.removeprefix(S3).rstrip('/')}" if is_object(path) else os.path.abspath(path)


def real(path: str) -> str:
    """Return the absolute path without symbolic links, which an object store does not have."""
    return absolute(path) if is_object(path) else os.path.realpath(path)


def parent(path: str) -> str:
    """Return the absolute path of the directory of a path; that of a bucket is the bucket."""
    return object_parent(path) if is_object(path) else os.path.dirname(os.path.abspath(path))


def exists(path: str) -> bool:
    """Return whether there is something of this name, be it a broken link."""
    if is_object(path):
        from kafkalog_core.storage import objects  # noqa: PLC0415 -- for such a path alone

        return objects.exists(path)
    if path in READING.planned:
        return READING.planned[path] is not None
    return os.path.lexists(path)


def is_there(path: str) -> bool:
    """Return whether a path leads to something, links followed, as for Java's `File.exists`."""
    return exists(path) if is_object(path) or path in READING.planned else os.path.exists(path)


def is_directory(path: str) -> bool:
    """Return whether a path is a directory."""
    if is_object(path):
        from kafkalog_core.storage import objects  # noqa: PLC0415 -- as above

        return objects.is_directory(path)
    return os.path.isdir(path)
