"""Untrusted JSON: every value is checked before it is used.

`json.loads` accepts duplicate names, `Infinity`, and integers of any size, and raises errors of many kinds. Here every
error is a `FieldError` whose text is one clause that follows the name of the file.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from typing import TYPE_CHECKING, Final, NoReturn

from kafkalog_core.errors import FieldError
from kafkalog_core.format.layout import MAX_INT64

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Fields", "load_fields", "path_problem"]

_SHOWN: Final = 40
_HASH: Final = re.compile(r"[0-9a-f]{64}")


class Fields:
    """The members of one object. Each method checks and returns one member, or raises FieldError.

    Args:
        value: the object, as `json.loads` returns it.
        name: its name in messages; empty: the whole file.
    """

    def __init__(self, value: object, name: str = "") -> None:
        if not isinstance(value, dict):
            raise FieldError(f"{_where(name)}is not an object")
        self.value: dict[str, object] = value
        self._name = name

    def any(self, name: str) -> object:
        """Return a member of any type."""
        if name not in self.value:
            raise FieldError(f"has no member {self._named(name)!r}")
        return self.value[name]

    def text(self, name: str) -> str:
        """Return a text."""
        value = self.any(name)
        if not isinstance(value, str):
            self._fail(name, "a text")
        return value

    def optional_text(self, name: str) -> str | None:
        """Return a text, or `None` for null."""
        return None if self.any(name) is None else self.text(name)

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Return one of these texts."""
        value = self.text(name)
        if value not in choices:
            self._fail(name, f"one of {', '.join(choices)}")
        return value

    def integer(self, name: str, low: int = 0, high: int = MAX_INT64) -> int:
        """Return an integer between two bounds, both inclusive."""
        value = self.any(name)
        if type(value) is not int or not low <= value <= high:
            self._fail(name, f"an integer from {low} to {high}")
        return value

    def optional_integer(self, name: str) -> int | None:
        """Return an integer that is not negative, or `None` for null."""
        return None if self.any(name) is None else self.integer(name)

    def flag(self, name: str) -> bool:
        """Return a boolean."""
        value = self.any(name)
        if not isinstance(value, bool):
            self._fail(name, "true or false")
        return value

    def sha256(self, name: str) -> str:
        """Return a SHA-256 in hexadecimal."""
        value = self.text(name)
        if _HASH.fullmatch(value) is None:
            self._fail(name, "a SHA-256 in hexadecimal")
        return value

    def optional_sha256(self, name: str) -> str | None:
        """Return a SHA-256 in hexadecimal, or `None` for null."""
        return None if self.any(name) is None else self.sha256(name)

    def base64(self, name: str) -> bytes:
        """Return the bytes of a text in base64."""
        try:
            return base64.b64decode(self.text(name), validate=True)
        except (binascii.Error, ValueError):
            return self._fail(name, "base64")

    def path(self, name: str) -> str:
        """Return a text that can be the name of a file."""
        value = self.text(name)
        problem = path_problem(value)
        if problem is not None:
            raise FieldError(f"its member {self._named(name)!r} {problem}")
        return value

    def fields(self, name: str) -> Fields:
        """Return an object."""
        return Fields(self.any(name), self._named(name))

    def optional_fields(self, name: str) -> Fields | None:
        """Return an object, or `None` for null."""
        return None if self.any(name) is None else self.fields(name)

    def items(self, name: str) -> list[object]:
        """Return a list."""
        value = self.any(name)
        if not isinstance(value, list):
            self._fail(name, "a list")
        return value

    def objects(self, name: str) -> list[Fields]:
        """Return a list of objects."""
        return [Fields(item, f"{self._named(name)}[{number}]") for number, item in enumerate(self.items(name))]

    def _named(self, name: str) -> str:
        return f"{self._name}.{name}" if self._name else name

    def _fail(self, name: str, expected: str) -> NoReturn:
        shown = ascii(self.value[name])
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
        raise FieldError(f"its member {self._named(name)!r} is {shown}, not {expected}")


def load_fields(text: bytes | str) -> Fields:
    """Return the object of a JSON text. Raises FieldError for anything else."""
    try:
        value = json.loads(text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_members)
    except (ValueError, RecursionError):
        raise FieldError("is not JSON, or is damaged") from None
    return Fields(value)


def path_problem(path: str) -> str | None:
    """Return why a text cannot be the path of a file, as the end of a sentence, or `None`."""
    if not path:
        return "is empty"
    if "\0" in path:
        return "contains a NUL character"
    try:
        path.encode("utf-8", "surrogateescape")  # as Python decodes the names of files
    except UnicodeEncodeError:
        return "contains a character that no file name can have"
    return None


def _where(name: str) -> str:
    return f"its member {name!r} " if name else ""


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise FieldError("has an object that names a member twice")
    return result


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise FieldError("has a number that is too large")
    return number


def _no_constant(name: str) -> NoReturn:
    raise FieldError(f"has the number {name}, which JSON does not have")
