"""Paths that the driver and all executors see under the same name."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["local_paths"]

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def local_paths(paths: Iterable[str]) -> tuple[str, ...]:
    """The paths as absolute ones: a task has another working directory.

    Raises UnsupportedError for a URL, as `s3a://bucket/logs`: a log is read in windows at any place of its files, and
    its locks, links and owners count, so it must be a file system that is mounted.
    """
    return tuple(map(_local, paths))


def _local(path: str) -> str:
    url = _URL.match(path)
    if url is not None and not os.path.lexists(path):
        cure = (
            "write the path without it"
            if url[1] == "file"
            else "mount it on all machines, or copy it to a disk of them"
        )
        raise UnsupportedError(f"paths of {url[1]}: are not read; {cure}", path=path)
    return os.path.abspath(path) if path else path
