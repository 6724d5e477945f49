"""Both twins of the project in one process: its modules are loaded twice, and each set knows only itself.

The interpreted set is loaded from source even if there is a compiled module next to it, and is instrumented.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import nullcontext
from importlib.abc import MetaPathFinder
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import ModuleType

    from tools.fuzz.targets import Family

__all__ = ["load_families"]

_CORE: Final = "kafkalog_core"
_TARGETS: Final = "tools.fuzz.targets"


class _SourceOnly(MetaPathFinder):
    """Finds the project's modules as source alone."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != _CORE:
            return None
        for folder in sys.path if path is None else path:
            spec = FileFinder(folder or ".", (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(fullname, target)
            if spec is not None:
                return spec
        return None


def load_families(*, compiled: bool, instrument: Callable[..., AbstractContextManager[None]]) -> Mapping[str, Family]:
    """The targets by name, from modules of their own; `instrument` is `atheris.instrument_imports`."""
    for name in [name for name in sys.modules if name.startswith((_CORE, _TARGETS))]:
        del sys.modules[name]
    finder = _SourceOnly()
    if not compiled:
        sys.meta_path.insert(0, finder)
    try:
        with nullcontext() if compiled else instrument(include=[_CORE]):
            families: Mapping[str, Family] = importlib.import_module(_TARGETS).FAMILIES
    finally:
        if not compiled:
            sys.meta_path.remove(finder)
    return families
