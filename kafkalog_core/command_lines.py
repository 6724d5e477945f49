"""Command lines for people to paste: every command that kafkalog prints is quoted here.

A path may hold spaces, quotes, newlines, control characters and bytes that are not UTF-8, which are surrogates in
Python's texts (PEP 383). A printed command is one line without control characters, and the shell reads it back to the
same bytes.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["CommandLine", "current_directory", "shell_line", "shell_path", "shell_word"]

_NAMES: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_ESCAPED: Final = frozenset("\\'!")
"""Printable characters that `$'...'` does not take as they are; `!` is history to an interactive bash."""


def shell_word(text: str) -> str:
    r"""Return a word quoted so that bash, zsh and ksh read exactly this text, byte for byte.

    Text that does not print is written as `$'a\nb\377'`.
    """
    if text.isprintable():
        return shlex.quote(text)
    return f"$'{''.join(map(_escaped, text))}'"


def shell_path(path: str) -> str:
    """Return a path as a word; one that begins with a dash must not be read as an option."""
    return shell_word(f"./{path}" if path.startswith("-") else path)


def shell_line(words: Iterable[str]) -> str:
    """Return words as a command line, see `shell_word`."""
    return " ".join(map(shell_word, words))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """A command line of kafkalog as it was typed.

    Args:
        program: kafkalog and the name of its command.
        arguments: the options and paths of the command.
        directory: absolute path of the directory that it was typed in; None: the current one.
    """

    program: str
    arguments: tuple[str, ...]
    directory: str | None = None

    def with_options(self, *options: str) -> str:
        """Return it with more options, ready to paste. `options`: quoted; those that are there already are left out."""
        typed, rest = self._parts()
        added = [option for option in options if option not in typed]
        line = " ".join([self.program, *map(shell_word, typed), *added, *map(shell_word, rest)])
        if self.directory is None or self.directory == current_directory():
            return line
        return f"cd {shell_path(self.directory)} && {line}"

    def without(self, option: str) -> str:
        """Return it without a flag, ready to paste."""
        typed, rest = self._parts()
        arguments = (*(word for word in typed if word != option), *rest)
        return replace(self, arguments=arguments).with_options()

    def _parts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what precedes the `--` that ends the options, and the rest."""
        end = self.arguments.index("--") if "--" in self.arguments else len(self.arguments)
        return self.arguments[:end], self.arguments[end:]


def current_directory() -> str | None:
    """Return the current directory; None: it has been deleted."""
    try:
        return os.getcwd()
    except OSError:
        return None


def _escaped(char: str) -> str:
    """Return a character within `$'...'`; three octal digits are read alike by every shell."""
    if char.isprintable() and char not in _ESCAPED:
        return char
    return _NAMES.get(char) or "".join(f"\\{byte:03o}" for byte in os.fsencode(char))
