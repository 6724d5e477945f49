"""Another user than the owner of the files, for tests that root runs too."""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 -- the other user may not read where Python is
import importlib.readers  # noqa: F401 -- the same
import os
import resource  # noqa: F401 -- nor its libraries in C
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["IS_ROOT", "NOBODY", "as_nobody", "open_to_others"]

NOBODY: Final = 65534
IS_ROOT: Final = hasattr(os, "geteuid") and os.geteuid() == 0


@contextmanager
def open_to_others() -> Iterator[Path]:
    """A directory that another user may enter: pytest's own may not be entered by others."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Be another user than the owner of the files, where this user is root and may read everything."""
    if not IS_ROOT:
        yield
        return
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
