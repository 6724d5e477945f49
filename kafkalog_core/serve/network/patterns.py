"""Regular expressions that clients send: of topics of a group, and of transactional ids."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import KafkalogError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PatternError", "compiled"]

_PATTERN_BYTES: Final = 1 << 20  # of memory for one regular expression


class PatternError(KafkalogError):
    """A text that is not a regular expression, or an expression that needs too much memory."""


@lru_cache(maxsize=64)
def compiled(pattern: str) -> Callable[[str], object]:
    """Return what matches a regular expression as brokers do: RE2, in time linear in the name, whatever a client sends.

    Raises PatternError, also without the library.
    """
    try:
        import re2  # noqa: PLC0415 - of the extra `serve`
    except ImportError as error:
        raise PatternError("this broker has no google-re2 (pip install '.[serve]'), so it reads no patterns") from error
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_BYTES
    try:
        fullmatch: Callable[[str], object] = re2.compile(pattern, options=options).fullmatch
    except (re2.error, UnicodeError) as error:
        raise PatternError(str(error)) from error
    return fullmatch
