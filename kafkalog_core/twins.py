"""Which twin of the kernels runs: the compiled one, or its interpreted source.

The compiled twin carries a hash of the text that it was built from. Where that text stands beside it and has another
hash, the import fails: an old extension must not run in place of what somebody reads and tests. The build (setup.py)
reads this file, so it imports nothing of ours.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import source_hash, spec_from_file_location
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

__all__ = [
    "LAYOUT",
    "LOOPS",
    "MODULES",
    "NATIVE",
    "NUMBERS",
    "PACKAGE",
    "REQUIRE",
    "interpreted",
    "runs_compiled",
    "text_hash",
]

PACKAGE: Final = "kafkalog_core.format.kernels"
LOOPS: Final = "loops"  # its module that is compiled
MODULES: Final = (
    LOOPS,
    "constants",
    "programs",
    "gather_numbers",
    "integers",
    "checksum",
    "json_text",
    "bounds",
    "log_walk",
    "v07_walk",
    "search",
    "damaged_walk",
    "v2_records",
    "legacy_records",
    "v07_records",
    "inflate",
    "json_members",
    "csv_text",
    "record_values",
    "ndjson",
    "gather",
    "gather_texts",
    "headers",
    "batch_checks",
    "record_checks",
    "markers",
    "producer_table",
    "producers",
    "index_order",
    "index_faults",
    "index_checks",
    "timeindex_checks",
    "rebuild",
    "clean_numbers",
    "key_map",
    "map_merge",
    "clean_judge",
    "heavy_keys",
    "clean_records",
    "clean_header",
    "clean_write",
    "lz4_block",
)
"""All whose text is compiled with it."""
NUMBERS: Final = ("constants", "programs", "clean_numbers", "gather_numbers")
"""Of them, those that hold nothing but numbers."""
NATIVE: Final = (
    "short_crc.h",
    "short_crc.pxd",
    "json_copy.h",
    "json_copy.pxd",
    "inflate_copy.h",
    "inflate_copy.pxd",
    "inflate_snappy.h",
    "inflate_snappy.pxd",
    "inflate_lz4.h",
    "inflate_lz4.pxd",
    "inflate_gzip.h",
    "inflate_gzip.pxd",
    "key_digests.h",
    "key_digests.pxd",
)
"""C, and how Cython is told of it."""
LAYOUT: Final = ("../layout.py", "../columns.py")  # where the numbers come from

REQUIRE: Final = "KAFKALOG_REQUIRE_COMPILED"
_REBUILD: Final = "build it again with `python -m pip install -e .`"


def text_hash(directory: str) -> str | None:
    """Hash of all text that is compiled, as Python hashes sources for its caches; None where some is not there."""
    text = b""
    for name in (*(f"{module}.py" for module in MODULES), *NATIVE, *LAYOUT):
        try:
            with open(os.path.join(directory, name), "rb") as source:
                text += source.read()
        except FileNotFoundError:
            return None
    return source_hash(text).hex()


def runs_compiled(loops: ModuleType) -> bool:
    """Whether the loops at hand are compiled.

    Raises:
        ImportError: they were compiled from another text, or are interpreted and must not be.
    """
    path = str(loops.__file__)
    if not loops.COMPILED:
        if os.environ.get(REQUIRE) == "1" and not _loads_interpreted():
            raise ImportError(f"{REQUIRE} is 1, but {loops.__name__} is not compiled: {_REBUILD}", name=loops.__name__)
        return False
    if text_hash(os.path.dirname(path)) not in {None, loops.SOURCE_HASH}:
        text = f"{path} was compiled from another text than its source has now: {_REBUILD}, or delete it"
        raise ImportError(text, name=loops.__name__, path=path)
    return True


def _loads_interpreted() -> bool:
    """Whether `interpreted` is at work."""
    return any(isinstance(finder, _SourceFinder) for finder in sys.meta_path)


def interpreted() -> ModuleType:
    """The package of the kernels, loaded once more from its sources whatever was compiled: the interpreted twin."""
    with _without_compiled():
        return import_module(PACKAGE)


@contextmanager
def _without_compiled() -> Iterator[None]:
    """Imports of the kernels find sources alone; what was imported before is put back afterwards."""
    parent_name, _, name = PACKAGE.rpartition(".")
    parent = import_module(parent_name)
    ours = import_module(PACKAGE)
    kept = {key: module for key, module in sys.modules.items() if f"{key}.".startswith(f"{PACKAGE}.")}
    finder = _SourceFinder(os.path.dirname(str(ours.__file__)))
    for key in kept:
        del sys.modules[key]
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for key in [key for key in sys.modules if f"{key}.".startswith(f"{PACKAGE}.")]:
            del sys.modules[key]
        sys.modules.update(kept)
        setattr(parent, name, ours)


class _SourceFinder:
    """Finds the kernels' sources, never what was compiled from them."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        del path, target
        if fullname == PACKAGE:
            location = os.path.join(self._directory, "__init__.py")
        elif fullname.startswith(f"{PACKAGE}."):
            location = os.path.join(self._directory, f"{fullname.rpartition('.')[2]}.py")
        else:
            return None
        return spec_from_file_location(fullname, location, loader=SourceFileLoader(fullname, location))
