"""What the interpreted kernels need of the name `cython` where Cython is not installed: decorators that do nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_F = TypeVar("_F")
compiled = False
Py_ssize_t = longlong = ulonglong = bint = uchar = int


def _same(function: _F) -> _F:
    return function


def _decorator(*_args: object, **_options: object) -> Callable[[_F], _F]:
    return _same


cfunc = inline = ccall = _same
returns = exceptval = boundscheck = wraparound = cdivision = initializedcheck = _decorator


def declare(_kind: object, value: Any = None) -> Any:
    """The value itself: types mean nothing to the interpreter."""
    return value
