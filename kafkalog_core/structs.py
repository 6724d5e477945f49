"""Classes of values: msgspec's structs, and tuples with named fields.

A struct class is there at once, where a dataclass compiles its methods at each start. A `Struct` with `frozen=True` is
a value: it has a hash, and `replace` makes another one of it. A `NamedTuple` is that of `typing`, which would compile
the type of each field at each start: a twentieth of the start of a short command.
"""

from __future__ import annotations

from collections import namedtuple
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import NODEFAULT, StructMeta, field
from msgspec.structs import asdict, astuple, replace

__all__ = ["NamedTuple", "Struct", "asdict", "astuple", "field", "replace"]


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


class _NamedTupleType(type):
    """Makes a class of tuples of the body of a class."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
        """Return a class that is a tuple and nothing else, with the annotated names as fields."""
        del bases
        fields = body["__annotations__"]
        defaults = [body[field] for field in fields if field in body]
        made = namedtuple(name, fields, defaults=defaults, module=body["__module__"])  # type: ignore[misc] # noqa: PYI024
        made.__annotations__ = fields
        for key, value in body.items():
            if key not in fields and key not in _OF_A_BODY:
                setattr(made, key, value)
        return made


_OF_A_BODY: Final = ("__annotations__", "__module__", "__classcell__")

if TYPE_CHECKING:
    from typing import NamedTuple  # noqa: TID251 -- see above

    from msgspec import Struct  # a checker takes a base of ours for a struct that is not frozen
else:
    NamedTuple = type.__new__(_NamedTupleType, "NamedTuple", (), {})

    class Struct(msgspec.Struct, metaclass=_WithSignature):
        """The base of all of them."""
