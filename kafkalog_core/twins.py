"""Which form of the kernels runs: the compiled twin, or the interpreted one, its source.

The compiled twin carries a hash of the text that it was built from. If the source next to it has another hash, the
import fails: an old extension must not run in place of the code that is read and tested. The build (setup.py) reads
this file, so it imports nothing of kafkalog.
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

PACKAGE: Final = "kafkalog_core.kernels"
LOOPS: Final = "loops"  # the module of the package that is compiled
NUMBERS: Final = ("constants", "programs")  # modules of integers, which the build turns into C macros
MODULES: Final = (
    LOOPS,
    *NUMBERS,
    "batch_checks",
    "blocks",
    "clean_judge",
    "clean_write",
    "fields",
    "gather",
    "index_checks",
    "key_map",
    "lines",
    "matching",
    "newest",
    "producers",
    "rebuild",
    "record_checks",
    "records",
    "search",
    "text",
    "walk",
)
"""All modules that are compiled with it."""
NATIVE: Final = (
    "find_bytes.h",
    "find_bytes.pxd",
    "short_crc.h",
    "short_crc.pxd",
    "json_copy.h",
    "json_copy.pxd",
    "key_digests.h",
    "key_digests.pxd",
)
"""C headers, and their declarations for Cython."""
LAYOUT: Final = ("../format/layout.py", "../format/columns.py")  # the modules that `NUMBERS` computes its integers from

REQUIRE: Final = "KAFKALOG_REQUIRE_COMPILED"
_REBUILD: Final = "build it again with `python -m pip install -e .`"


def text_hash(directory: str) -> str | None:
    """Return the hash of all compiled text, as Python hashes sources for its caches; `None`: a file is missing."""
    texts = []
    for name in (*(f"{module}.py" for module in MODULES), *NATIVE, *LAYOUT):
        try:
            with open(os.path.join(directory, name), "rb", buffering=0) as source:
                texts.append(source.read())
        except FileNotFoundError:
            return None
    return source_hash(b"".join(texts)).hex()


def runs_compiled(loops: ModuleType) -> bool:
    """Return whether the imported loops are compiled.

    Raises:
        ImportError: they were compiled from another text, or they are interpreted and must not be.
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
    """Return whether `interpreted` is loading the kernels."""
    return any(isinstance(finder, _SourceFinder) for finder in sys.meta_path)


def interpreted() -> ModuleType:
    """Return the package of the kernels, loaded once more from its sources: the interpreted twin."""
    with _without_compiled():
        return import_module(PACKAGE)


@contextmanager
def _without_compiled() -> Iterator[None]:
    """Make imports of the kernels find only sources; restore the modules that were imported before at the end."""
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
    """Finds the sources of the kernels, never their compiled form."""

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
