"""Frozen dataclasses as lists of plain JSON values and back, checked against their annotations.

What is read may come from anywhere: whatever is not of the annotated type is a ValueError. Integers fit in 64 bits.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from kafkalog_core.findings import kinds
from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.ops import sink
from kafkalog_core.ops.verify import verdict

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["from_plain", "shape_of", "to_plain"]

_Value = TypeVar("_Value")
_HERE = "\0"
"""Stands at the start of a text for the directory that is meant, so that it may be found at another path later."""


def to_plain(value: object, directory: str) -> object:
    """JSON values for a dataclass, a tuple or a plain value; `directory` at the start of a text is left out."""
    if isinstance(value, str):
        return _HERE + value[len(directory) :] if value.startswith(f"{directory}/") else value
    if isinstance(value, tuple):
        return [to_plain(item, directory) for item in value]
    if is_dataclass(value):
        return [to_plain(getattr(value, field.name), directory) for field in fields(value)]
    return value


def from_plain(kind: type[_Value], data: object, directory: str) -> _Value:
    """The dataclass that `to_plain` made JSON values of. Raises ValueError."""
    reader: Callable[[object, str], object] = _reader(cast("Any", kind))
    return cast("_Value", reader(data, directory))


def shape_of(kind: type) -> str:
    """Names and types of all fields, of the dataclasses in them too."""
    hints = _hints(kind)
    inside = {part for hint in hints.values() for part in _parts(hint) if is_dataclass(part)}
    shapes = sorted(shape_of(cast("type", part)) for part in inside)
    return f"{kind.__name__}({', '.join(f'{name}: {hint}' for name, hint in hints.items())}){''.join(shapes)}"


def _hints(kind: type) -> dict[str, Any]:
    """Annotations as types: some modules import them for the type checker alone."""
    return get_type_hints(kind, localns={**vars(kinds), **vars(verdict), **vars(sink)})


def _parts(hint: object) -> list[object]:
    arguments = get_args(hint)
    return [part for argument in arguments for part in _parts(argument)] if arguments else [hint]


def _is_int(data: object) -> bool:
    return type(data) is int and -MAX_INT64 - 1 <= data <= MAX_INT64


_IS_PLAIN: dict[object, Callable[[object], bool]] = {
    int: _is_int,
    bool: lambda data: type(data) is bool,
    NoneType: lambda data: data is None,
}


@cache
def _reader(hint: Any) -> Callable[[object, str], object]:
    """What reads values of one annotation."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is str:
        return _read_text
    if hint in _IS_PLAIN:
        return _plain_reader(hint)
    if origin is Literal:
        return _choice_reader(arguments)
    if origin in {Union, UnionType}:
        return _optional_reader(next(part for part in arguments if part is not NoneType))
    if origin is tuple:
        return _tuple_reader(arguments)
    return _class_reader(hint)


def _read_text(data: object, directory: str) -> str:
    if not isinstance(data, str):
        raise ValueError(f"{data!r:.40} is no text")  # noqa: TRY004 -- it is what was read that is wrong
    return directory + data[len(_HERE) :] if data.startswith(_HERE) else data


def _plain_reader(hint: type) -> Callable[[object, str], object]:
    is_good = _IS_PLAIN[hint]

    def read(data: object, directory: str) -> object:
        del directory
        if not is_good(data):
            raise ValueError(f"{data!r:.40} is no {hint.__name__}")
        return data

    return read


def _choice_reader(choices: tuple[object, ...]) -> Callable[[object, str], object]:
    def read(data: object, directory: str) -> object:
        del directory
        if not isinstance(data, str) or data not in choices:
            raise ValueError(f"{data!r:.40} is none of {', '.join(map(str, choices))}")
        return data

    return read


def _optional_reader(hint: Any) -> Callable[[object, str], object]:
    read = _reader(hint)
    return lambda data, directory: None if data is None else read(data, directory)


def _tuple_reader(hints: tuple[Any, ...]) -> Callable[[object, str], object]:
    if hints[-1] is Ellipsis:
        read_item = _reader(hints[0])
        return lambda data, directory: tuple(read_item(item, directory) for item in _items(data))
    readers = [_reader(hint) for hint in hints]
    return lambda data, directory: tuple(
        read(item, directory) for read, item in zip(readers, _items(data, len(readers)), strict=True)
    )


def _class_reader(kind: Any) -> Callable[[object, str], object]:
    readers = {name: _reader(hint) for name, hint in _hints(kind).items()}

    def read(data: object, directory: str) -> object:
        items = _items(data, len(readers))
        return kind(
            **{name: reader(item, directory) for (name, reader), item in zip(readers.items(), items, strict=True)}
        )

    return read


def _items(data: object, count: int | None = None) -> list[object]:
    if not isinstance(data, list) or count not in {None, len(data)}:
        raise ValueError(f"{data!r:.40} is no list of {'values' if count is None else count}")
    return data
