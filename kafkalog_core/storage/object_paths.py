"""Paths of an object store, `s3://BUCKET/PREFIX/NAME`, and the options by which this process reaches it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import SelectionError
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "ALL_NAMES",
    "AZURE_NAMES",
    "GOOGLE_NAMES",
    "OPTION_NAMES",
    "REACHING",
    "S3",
    "StorageOptions",
    "is_object",
    "known_options",
    "object_parent",
    "require_known",
]

S3: Final = "s3://"
OPTION_NAMES: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ALLOW_HTTP",
)
"""How S3 is reached, for inputs and outputs."""
AZURE_NAMES: Final = (
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_TENANT_ID",
    "AZURE_CLIENT_ID",
    "AZURE_CLIENT_SECRET",
    "AZURE_STORAGE_USE_EMULATOR",
    "AZURITE_BLOB_STORAGE_URL",
)
"""How Azure Blob Storage is reached, for outputs."""
GOOGLE_NAMES: Final = ("GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST")
"""How Google Cloud Storage is reached, for outputs."""
ALL_NAMES: Final = (*OPTION_NAMES, *AZURE_NAMES, *GOOGLE_NAMES)


def is_object(path: str) -> bool:
    """Return whether a path is of an object store."""
    return path.startswith(S3)


def object_parent(path: str) -> str:
    """Return the directory of an object or a directory; that of a bucket is the bucket."""
    bucket, _, key = path.removeprefix(S3).rstrip("/").partition("/")
    folder = key.rpartition("/")[0]
    return f"{S3}{bucket}/{folder}" if folder else f"{S3}{bucket}"


def require_known(name: str, known: tuple[str, ...] = ALL_NAMES) -> None:
    """Raise SelectionError unless there is a storage option of this name, without a name that may be a secret."""
    if name not in known:
        shown = repr(name) if name.replace("_", "").isalpha() else "of this name"
        raise SelectionError(f"there is no storage option {shown}; the options are {', '.join(known)}")


def known_options(names: tuple[str, ...], given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of these names: what is given, and what the environment adds; an empty one is not set.

    Raises SelectionError for a name that no store knows; those of other stores are left out.
    """
    for name in given:
        require_known(name)
    known = {name: os.environ[name] for name in names if name in os.environ} | dict(given)
    return {name: value for name, value in known.items() if value and name in names}


class StorageOptions(Struct, frozen=True):
    """How to reach an object store: pairs of a name and a value, by the names of `OPTION_NAMES`.

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
