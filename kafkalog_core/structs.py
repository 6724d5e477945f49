"""Classes of values: msgspec's structs.

A struct class is there at once, where a dataclass compiles its methods at each start. A `Struct` with `frozen=True` is
a value: it has a hash, and `replace` makes another one of it.
"""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import TYPE_CHECKING

import msgspec
from msgspec import NODEFAULT, StructMeta, field
from msgspec.structs import asdict, astuple, replace

__all__ = ["Struct", "asdict", "astuple", "field", "replace"]


class _WithSignature(StructMeta):
    """Gives a signature without the types: those that a module imports for the type checker alone have no value."""

    @property
    def __signature__(self) -> Signature:
        names, defaults = self.__struct_fields__, self.__struct_defaults__
        first = len(names) - len(defaults)
        parameters = [
            Parameter(
                name,
                Parameter.POSITIONAL_OR_KEYWORD if name in self.__match_args__ else Parameter.KEYWORD_ONLY,
                default=_shown(defaults[number - first]) if number >= first else Parameter.empty,
            )
            for number, name in enumerate(names)
        ]
        return Signature(parameters)


def _shown(default: object) -> object:
    if default is NODEFAULT:
        return Parameter.empty
    factory = getattr(default, "factory", None) if type(default).__module__.startswith("msgspec") else None
    return default if factory is None else factory()


if TYPE_CHECKING:
    from msgspec import Struct  # a checker takes a base of ours for a struct that is not frozen
else:

    class Struct(msgspec.Struct, metaclass=_WithSignature):
        """The base of all of them."""
