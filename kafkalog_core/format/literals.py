"""Literals: bytes that are searched before anything else, and those that a regular expression cannot match without.

A regular expression is tried only on the fields that have a literal which every match contains, as ripgrep does it
(https://burntsushi.net/ripgrep/#literal-optimizations). The literals come from the expression as Python has parsed it.
What is not understood requires nothing, so that an unknown construct costs time and never a record.
"""

from __future__ import annotations

import re
from array import array
from importlib import import_module
from math import log2
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["ByteClasses", "ByteLiteral", "required_bytes", "sees_its_place"]

_COMMON: Final = b' \x00etaoinsrhldcum"fpg0wyb:,1v{}2k.3_-4/567\n89xjqzETAOINSRHLDC'
"""Bytes by how often they are in records, the most frequent first; others are rarer."""
_RANKS: Final = {byte: rank for rank, byte in enumerate(_COMMON)}
_MOST: Final = 8
"""Number of alternatives that are searched: each of them is one more pass over the bytes."""
_MOST_GROUPS: Final = 3
_LONG: Final = 8
_MANY: Final = 250
"""A set of that many bytes excludes nothing."""
_FOLDED: Final = 0x20
"""The bit in which the two cases of an ASCII letter differ."""


class ByteLiteral:
    """Bytes to search for; in either case of ASCII letters if it `folds`.

    Attributes:
        text: the bytes, in lower case if it folds.
        mask: the bits of each byte that are set before it is compared.
        first: the position of its rarest byte.
        second: the position of the next one; the same if there is only one byte.
    """

    __slots__ = ("first", "folds", "mask", "second", "text")

    def __init__(self, text: bytes, *, folds: bool = False) -> None:
        self.folds = folds
        self.text = text.lower() if folds else text
        self.mask = bytes(_FOLDED if folds and _is_letter(byte) else 0 for byte in text)
        by_rank = sorted(range(len(text)), key=lambda at: -_rank(self.text[at]))
        self.first, self.second = by_rank[0], by_rank[min(1, len(by_rank) - 1)]


class ByteClasses:
    """Adjacent bytes to search for, each of which is one of a set, such as `[A-Z][0-9]`.

    Attributes:
        table: for each byte value, the positions at which it is not allowed, as bits.
        size: the number of positions, at most 32.
    """

    __slots__ = ("size", "table")

    def __init__(self, sets: Sequence[frozenset[int]]) -> None:
        self.size = len(sets)
        self.table = array("q", [sum((byte not in each) << at for at, each in enumerate(sets)) for byte in range(256)])


def required_bytes(pattern: re.Pattern[bytes]) -> tuple[tuple[ByteLiteral | ByteClasses, ...], ...]:
    """Return groups of literals and classes: every match of a pattern has one of each group.

    None: nothing is known to be required. There are few groups, literals first: a frequent literal costs little where
    another one is rare.
    """
    parsed = _parsed(pattern)
    if parsed is None:
        return ()
    groups = _Sequence(parsed, pattern.flags).best()[:_MOST_GROUPS]
    found: list[tuple[ByteLiteral | ByteClasses, ...]] = [tuple(map(_literal, group)) for group in groups]
    found += [tuple(map(ByteClasses, group)) for group in _Sequence(parsed, pattern.flags, classes=True).best()[:1]]
    return tuple(found)


def _literal(sets: _Run) -> ByteLiteral:
    return ByteLiteral(bytes(max(each) for each in sets), folds=any(len(each) > 1 for each in sets))


def _is_letter(byte: int) -> bool:
    return 0x41 <= byte <= 0x5A or 0x61 <= byte <= 0x7A


def _rank(byte: int) -> int:
    return _RANKS.get(byte, len(_RANKS))


def sees_its_place(pattern: re.Pattern[bytes]) -> bool:
    r"""Return whether a match may depend on what is before it: `^`, `\b`, a lookbehind, or something unknown."""
    parsed = _parsed(pattern)
    return parsed is None or any(_looks_back(op, value) for op, value in _all_items(parsed))


def _parsed(pattern: re.Pattern[bytes]) -> Any:
    """Return the parsed expression; None: this release of Python has another parser."""
    try:
        return import_module("re._parser").parse(pattern.pattern, pattern.flags)
    except (ImportError, AttributeError, TypeError, ValueError, re.error):
        return None


# --- what is before a match -------------------------------------------------------------------------------------------
_PLAIN: Final = frozenset({"LITERAL", "NOT_LITERAL", "ANY", "ANY_ALL", "IN", "GROUPREF", "FAILURE"})
_AT_ENDS: Final = frozenset({"AT_END", "AT_END_LINE", "AT_END_STRING"})


def _looks_back(op: object, value: Any) -> bool:
    name = str(op)
    if name == "AT":
        return str(value) not in _AT_ENDS
    if name in {"ASSERT", "ASSERT_NOT"}:
        return bool(value[0] < 0)
    return not (name in _PLAIN or name in _NESTED)


def _all_items(parsed: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Yield the items of an expression and of all expressions within it."""
    for op, value in parsed:
        yield op, value
        for inner in _NESTED.get(str(op), lambda _: ())(value):
            yield from _all_items(inner)


_NESTED: Final[dict[str, Any]] = {
    "SUBPATTERN": lambda value: (value[-1],),
    "ATOMIC_GROUP": lambda value: (value,),
    "MAX_REPEAT": lambda value: (value[2],),
    "MIN_REPEAT": lambda value: (value[2],),
    "POSSESSIVE_REPEAT": lambda value: (value[2],),
    "BRANCH": lambda value: value[1],
    "ASSERT": lambda value: (value[1],),
    "ASSERT_NOT": lambda value: (value[1],),
    "GROUPREF_EXISTS": lambda value: [part for part in value[1:] if part is not None],
}
"""The expressions within an item, by the name of its operation in `re._constants`."""


# --- what every match contains ----------------------------------------------------------------------------------------
_Run = tuple[frozenset[int], ...]
"""Adjacent bytes of a match, each as the set of its values."""
_Alternatives = tuple[_Run, ...]
"""A match contains one of them."""

_ALL: Final = frozenset(range(256))
_CATEGORIES: Final = {
    "CATEGORY_DIGIT": frozenset(b"0123456789"),
    "CATEGORY_SPACE": frozenset(b" \t\n\r\f\v"),
    "CATEGORY_WORD": frozenset(byte for byte in range(128) if chr(byte).isalnum() or byte == 0x5F),
}
_MOST_BYTES: Final = 32
"""Length of the longest run that is searched; its start is as good."""


class _Sequence:
    """The items of an expression in a row, each of which a match must pass.

    A run is of bytes that are written, in the case that is written or in either case; with `classes` it is of sets.
    """

    def __init__(self, parsed: Iterable[tuple[Any, Any]], flags: int, *, classes: bool = False) -> None:
        self._found: list[_Alternatives] = []
        self._run: list[frozenset[int]] = []
        self._folds = False
        self._classes = classes
        self._take(parsed, flags)
        self._end()

    def best(self) -> list[_Alternatives]:
        """Return what a match must contain: those that exclude most records first."""
        return sorted(self._found, key=_worth_of_classes if self._classes else _worth, reverse=True)

    def _take(self, parsed: Iterable[tuple[Any, Any]], flags: int) -> None:
        for op, value in parsed:
            name = str(op)
            if name == "SUBPATTERN":
                _, added, removed, inner = value
                self._take(inner, (flags | added) & ~removed)
            elif name == "ATOMIC_GROUP":
                self._take(value, flags)
            elif name.endswith("_REPEAT") and name in _NESTED and value[0] > 0:
                least, most, repeated = value
                self._repeat(least, most, repeated, flags)
            elif name == "BRANCH":
                self._end()
                self._branch(value[1], flags)
            else:
                self._add(_set_of(name, value, flags), folds=bool(flags & re.IGNORECASE))

    def _repeat(self, least: int, most: int, repeated: Any, flags: int) -> None:
        """Take an expression as often as it must match at least; what comes next follows the last time."""
        for _ in range(least):
            before = len(self._run)
            self._take(repeated, flags)
            if len(self._run) <= before or len(self._run) == _MOST_BYTES:
                self._end()
                return
        if least != most:
            self._end()

    def _add(self, values: frozenset[int] | None, *, folds: bool) -> None:
        """Add a byte to the run; None: something that is not one byte."""
        is_written = values is not None and len(set(bytes(values).lower())) == 1
        if not self._classes and (not is_written or folds != self._folds):
            self._end()
            self._folds = folds
        if values is None:
            self._end()
        elif len(self._run) < _MOST_BYTES and (self._classes or is_written):
            self._run.append(values)

    def _end(self) -> None:
        """End the run of adjacent bytes; one of which every byte may be each value is none."""
        if any(len(each) < _MANY for each in self._run):
            self._found.append((tuple(self._run),))
        self._run.clear()

    def _branch(self, branches: Iterable[Any], flags: int) -> None:
        """Add the runs of all branches, if each of them requires some."""
        each = [_Sequence(branch, flags, classes=self._classes).best() for branch in branches]
        if all(each) and sum(len(groups[0]) for groups in each) <= _MOST:
            self._found.append(tuple(run for groups in each for run in groups[0]))


def _worth(alternatives: _Alternatives) -> tuple[int, int]:
    """Return the size of the shortest alternative, up to which longer ones are no better, then how few there are."""
    return min(_LONG, *map(len, alternatives)), -len(alternatives)


def _worth_of_classes(alternatives: _Alternatives) -> float:
    """Return how unlikely the likeliest alternative is, if all bytes were equally frequent: minus its logarithm."""
    return min(sum(8 - log2(max(1, len(values))) for values in run) for run in alternatives)


def _set_of(name: str, value: Any, flags: int) -> frozenset[int] | None:
    """Return the values of an item that is one byte; None: it is not, or nothing is known about it."""
    if flags & re.LOCALE:  # bytes above 127 may have two cases as well
        return None
    if name == "LITERAL":
        return _cased(frozenset({value}), flags)
    if name == "NOT_LITERAL":
        return _ALL - _cased(frozenset({value}), flags)
    if name == "ANY":
        return _ALL if flags & re.DOTALL else _ALL - {0x0A}
    return _set_in_brackets(value, flags) if name == "IN" else None


def _set_in_brackets(items: Iterable[tuple[Any, Any]], flags: int) -> frozenset[int] | None:
    values: set[int] = set()
    is_negated = False
    for op, value in items:
        name = str(op)
        if name == "NEGATE":
            is_negated = True
        elif name == "LITERAL":
            values.add(value)
        elif name == "RANGE":
            values.update(range(value[0], value[1] + 1))
        elif name == "CATEGORY" and str(value) in _CATEGORIES:
            values |= _CATEGORIES[str(value)]
        elif name == "CATEGORY" and str(value).replace("_NOT_", "_") in _CATEGORIES:
            values |= _ALL - _CATEGORIES[str(value).replace("_NOT_", "_")]
        else:
            return None
    cased = _cased(frozenset(values), flags)
    return _ALL - cased if is_negated else cased


def _cased(values: frozenset[int], flags: int) -> frozenset[int]:
    """Return the values in either case of ASCII letters, if case is ignored."""
    if not flags & re.IGNORECASE:
        return values
    return values | {value ^ _FOLDED for value in values if _is_letter(value)}
