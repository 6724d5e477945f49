"""The name `cython` for the kernels: Cython's module, or this one where Cython is not installed.

Cython is needed at build time only. The interpreted kernels use its names as annotations and decorators, which do
nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar

try:
    import cython
except ImportError:
    cython = sys.modules[__name__]

if TYPE_CHECKING:
    from collections.abc import Callable

_F = TypeVar("_F")
compiled = False
Py_ssize_t = longlong = ulonglong = bint = uchar = int


def _same(function: _F) -> _F:
    return function


def _decorator(*_args: object, **_options: object) -> Callable[[_F], _F]:
    return _same


cfunc = inline = ccall = cclass = final = _same
returns = exceptval = boundscheck = wraparound = cdivision = initializedcheck = _decorator


def declare(_kind: object, value: Any = None) -> Any:
    """Return the value: the interpreter ignores C types."""
    return value
