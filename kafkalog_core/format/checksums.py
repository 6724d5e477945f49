"""Kafka's checksums: CRC-32 (IEEE; 0.7, magic 0 and 1) and CRC-32C (Castagnoli; magic 2, producer snapshots).

Both names are functions of libraries, chosen once at import, so that a call costs no Python frame. They take any
contiguous bytes-like object (a memoryview slice too) and the checksum so far, and return an unsigned 32-bit integer.
"""

from __future__ import annotations

from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ZLIB", "crc32", "crc32c"]


def _zlib() -> Any:
    """Return the module with zlib's interface: isal's if it is installed (4 times as fast), else zlib."""
    try:
        return import_module("isal.isal_zlib")
    except ImportError:
        return import_module("zlib")


def _castagnoli() -> Any:
    """Return the extension module of the package crc32c.

    The package's `__init__` looks up its version with importlib.metadata, which takes 50 ms, three times the start of
    Python. The whole package is imported only if the extension is not in the same directory as that `__init__`.
    """
    package = PathFinder.find_spec("crc32c")
    if package is not None:
        extension = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
        if extension is not None and extension.loader is not None:
            module = module_from_spec(extension)
            extension.loader.exec_module(module)
            return module
    return import_module("crc32c")


ZLIB: Final = _zlib()
crc32: Final[Callable[..., int]] = ZLIB.crc32
crc32c: Final[Callable[..., int]] = _castagnoli().crc32c
