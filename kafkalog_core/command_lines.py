"""Quoting of every command line that kafkalog prints, ready to paste.

A path may hold spaces, quotes, newlines, control characters and bytes that are not UTF-8, which are surrogates in
Python's texts (PEP 383). A printed command is one line without control characters, and the shell reads it back to the
same bytes.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Final

from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["CommandLine", "current_directory", "shell_line", "shell_path", "shell_word"]

_NAMES: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_ESCAPED: Final = frozenset("\\'!")
"""Printable characters that `$'...'` must escape; an interactive bash expands `!` from its history."""


def shell_word(text: str) -> str:
    r"""Return a word quoted so that bash, zsh and ksh read exactly this text, byte for byte.

    Text that does not print is written as `$'a\nb\377'`.
    """
    if text.isprintable():
        return shlex.quote(text)
    return f"$'{''.join(map(_escaped, text))}'"


def shell_path(path: str) -> str:
    """Return a path as a word; a path that starts with a dash gets `./`, so that it is not read as an option."""
    return shell_word(f"./{path}" if path.startswith("-") else path)


def shell_line(words: Iterable[str]) -> str:
    """Return words as a quoted command line."""
    return " ".join(map(shell_word, words))


class CommandLine(Struct, frozen=True, kw_only=True):
    """A command line of kafkalog, as the user typed it.

    Args:
        program: kafkalog and the name of its command.
        arguments: the options and paths of the command.
        directory: absolute path of the directory where it was typed; None: the current one.
    """

    program: str
    arguments: tuple[str, ...]
    directory: str | None = None

    def with_options(self, *options: str) -> str:
        """Return it with more options, which are quoted already, ready to paste; options are not repeated."""
        typed, rest = self._parts()
        added = [option for option in options if option not in typed]
        line = " ".join([self.program, *map(shell_word, typed), *added, *map(shell_word, rest)])
        if self.directory is None or self.directory == current_directory():
            return line
        return f"cd {shell_path(self.directory)} && {line}"

    def value_of(self, option: str) -> str | None:
        """Return the last value of an option, as it was typed; None: it is not given."""
        typed, _ = self._parts()
        found = None
        for word, following in zip(typed, (*typed[1:], None), strict=True):
            name, equals, given = word.partition("=")
            if name == option:
                found = given if equals else following
        return found

    def without(self, option: str, value: str | None = None) -> CommandLine:
        """Return it without an option, as often as it is given.

        Args:
            option: the option, with its dashes.
            value: the start of the values with which it is left out; None: it is a flag.
        """
        typed, rest = self._parts()
        kept: list[str] = []
        words = iter(typed)
        for word in words:
            name, equals, given = word.partition("=")
            if name != option or (value is None and equals):
                kept.append(word)
                continue
            if value is None:
                continue
            parts = [word] if equals else [word, *([following] if (following := next(words, None)) else [])]
            text = given if equals else "".join(parts[1:])
            kept += [] if text.replace(" ", "").startswith(value) else parts
        return replace(self, arguments=(*kept, *rest))

    def instead_of(self, path: str | None, others: Sequence[str]) -> str | None:
        """Return it with other paths instead of one, ready to paste; None: that one was not typed like this."""
        words = self.arguments
        if path is None or path not in words:
            return None
        at = words.index(path)
        return replace(self, arguments=(*words[:at], *others, *words[at + 1 :])).with_options()

    def _parts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the arguments before the `--` that ends the options, and the rest."""
        end = self.arguments.index("--") if "--" in self.arguments else len(self.arguments)
        return self.arguments[:end], self.arguments[end:]


def current_directory() -> str | None:
    """Return the current directory; None: it no longer exists."""
    try:
        return os.getcwd()
    except OSError:
        return None


def _escaped(char: str) -> str:
    """Return a character escaped for `$'...'`; every shell reads three octal digits in the same way."""
    if char.isprintable() and char not in _ESCAPED:
        return char
    return _NAMES.get(char) or "".join(f"\\{byte:03o}" for byte in os.fsencode(char))
