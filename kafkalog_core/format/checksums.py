"""Kafka's checksums: CRC-32 (IEEE; 0.7, magic 0 and 1) and CRC-32C (Castagnoli; magic 2, producer snapshots).

`crc32` and `crc32c` are functions of libraries, chosen once at import, so that a call costs no Python frame. They take
any contiguous bytes-like object (a memoryview slice too) and the checksum so far, and return an unsigned integer.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ZLIB", "crc32", "crc32c", "lz4_header_checksum"]


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


@lru_cache(maxsize=64)
def lz4_header_checksum(descriptor: bytes) -> int:
    """Return the second byte of xxHash32 (seed 0) of a descriptor, which is shorter than the hash's 16-byte stripes."""
    prime_1, prime_2, prime_3, prime_4, prime_5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    mask = 0xFFFFFFFF
    value = prime_5 + len(descriptor)
    words_end = len(descriptor) & ~3
    for i in range(0, words_end, 4):
        value = value + int.from_bytes(descriptor[i : i + 4], "little") * prime_3 & mask
        value = (value << 17 | value >> 15) * prime_4 & mask
    for byte in descriptor[words_end:]:
        value = value + byte * prime_5 & mask
        value = (value << 11 | value >> 21) * prime_1 & mask
    value = (value ^ value >> 15) * prime_2 & mask
    value = (value ^ value >> 13) * prime_3 & mask
    return (value ^ value >> 16) >> 8 & 0xFF
