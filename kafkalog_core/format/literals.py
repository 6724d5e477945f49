"""Literals: bytes that are searched before anything else, and those that a regular expression cannot match without.

A regular expression is tried only on the fields that have a literal which every match contains, as ripgrep does it
(https://burntsushi.net/ripgrep/#literal-optimizations). The literals come from the expression as Python has parsed it.
What is not understood requires nothing, so that an unknown construct costs time and never a record.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["ByteLiteral", "required_literals", "sees_its_place"]

_COMMON: Final = b' \x00etaoinsrhldcum"fpg0wyb:,1v{}2k.3_-4/567\n89xjqzETAOINSRHLDC'
"""Bytes by how often they are in records, the most frequent first; others are rarer."""
_RANKS: Final = {byte: rank for rank, byte in enumerate(_COMMON)}
_MOST: Final = 8
"""Number of alternatives that are searched: each of them is one more pass over the bytes."""
_MOST_GROUPS: Final = 3
_LONG: Final = 8
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
        self.mask = bytes(_FOLDED if folds and chr(byte).isascii() and chr(byte).isalpha() else 0 for byte in text)
        by_rank = sorted(range(len(text)), key=lambda at: -_RANKS.get(self.text[at], len(_RANKS)))
        self.first, self.second = by_rank[0], by_rank[min(1, len(by_rank) - 1)]

    def __repr__(self) -> str:
        return f"ByteLiteral({self.text!r}, folds={self.folds})"


def required_literals(pattern: re.Pattern[bytes]) -> tuple[tuple[ByteLiteral, ...], ...]:
    """Return groups of literals: every match of a pattern has one of each group. None: nothing is known to be required.

    There are few groups: one whose literals are everywhere is no loss where another one's are rare.
    """
    parsed = _parsed(pattern)
    if parsed is None:
        return ()
    groups = _Sequence(parsed, pattern.flags).best()[:_MOST_GROUPS]
    return tuple(tuple(ByteLiteral(text, folds=folds) for text, folds in group) for group in groups)


def sees_its_place(pattern: re.Pattern[bytes]) -> bool:
    r"""Return whether a match may depend on what is before it: `^`, `\b`, a look behind, or something unknown."""
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
class _Text(NamedTuple):
    """Bytes that a match contains, in the case that is written or in either case."""

    text: bytes
    folds: bool


_Alternatives = tuple[_Text, ...]
"""A match contains one of them."""


class _Sequence:
    """The items of an expression in a row, each of which a match must pass."""

    def __init__(self, parsed: Iterable[tuple[Any, Any]], flags: int) -> None:
        self._found: list[_Alternatives] = []
        self._run = bytearray()
        self._folds = False
        self._take(parsed, flags)
        self._end()

    def best(self) -> list[_Alternatives]:
        """Return what a match must contain: those that exclude most records first."""
        return sorted(self._found, key=_worth, reverse=True)

    def _take(self, parsed: Iterable[tuple[Any, Any]], flags: int) -> None:
        for op, value in parsed:
            name = str(op)
            if name == "LITERAL":
                if flags & re.LOCALE:  # bytes above 127 may have two cases as well
                    self._end()
                else:
                    self._add(value, folds=bool(flags & re.IGNORECASE))
            elif name == "SUBPATTERN":
                _, added, removed, inner = value
                self._take(inner, (flags | added) & ~removed)
            elif name == "ATOMIC_GROUP":
                self._take(value, flags)
            elif name.endswith("_REPEAT") and name in _NESTED and value[0] > 0:
                self._take(value[2], flags)  # the first time; the text after it follows the last time
                self._end()
            else:
                self._end()
                if name == "BRANCH":
                    self._branch(value[1], flags)

    def _add(self, byte: int, *, folds: bool) -> None:
        if folds != self._folds:
            self._end()
            self._folds = folds
        self._run.append(byte)

    def _end(self) -> None:
        """End the run of adjacent bytes."""
        if self._run:
            self._found.append((_Text(bytes(self._run), self._folds),))
            self._run.clear()

    def _branch(self, branches: Iterable[Any], flags: int) -> None:
        """Add the literals of all branches, if each of them requires some."""
        each = [_Sequence(branch, flags).best() for branch in branches]
        if all(each) and sum(len(groups[0]) for groups in each) <= _MOST:
            self._found.append(tuple(text for groups in each for text in groups[0]))


def _worth(alternatives: _Alternatives) -> tuple[int, int]:
    """Return the size of the shortest alternative, up to which longer ones are no better, then how few there are."""
    return min(_LONG, *(len(text.text) for text in alternatives)), -len(alternatives)
