"""What kafkalog refuses: why, and each way out, as a command line that can be pasted.

A refusal is shown as one line with the reason and what can be done, then one line for each command. Where it is part of
another sentence, or of a row, it is one line with all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.command_lines import shell_word
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Refusal", "WayOut", "leave_out"]


class WayOut(NamedTuple):
    """One way out of a refusal.

    purpose: what it does, as a clause that begins with an imperative: `undo the run`.
    command: the whole command line, quoted; None: no single command does it, or only the CLI knows what was typed.
    options: quoted options that settle it, to be added to the refused command line.
    """

    purpose: str
    command: str | None = None
    options: str | None = None


class Refusal(Struct, frozen=True):
    """Why something is refused, and each way out.

    reason: what is unknown or in the way: a sentence or several, without the period at the end.
    ways: the ways out, the one that is most likely right first.
    """

    reason: str
    ways: tuple[WayOut, ...] = ()

    @property
    def headline(self) -> str:
        """The reason and what can be done, in one line; it ends with a colon if commands follow."""
        if not self.ways:
            return self.reason
        *others, last = (way.purpose for way in self.ways)
        purposes = f"{', '.join(others)}, or {last}" if others else last
        return f"{self._closed} {_capital(purposes)}{':' if self.commands else ''}"

    @property
    def commands(self) -> tuple[str, ...]:
        """The command line of each way that has one; the options alone where what was typed is unknown."""
        lines = (way.command or way.options for way in self.ways)
        return tuple(line for line in lines if line is not None)

    def __str__(self) -> str:
        if not self.ways:
            return self.reason
        lines = ((way.purpose, way.command or way.options) for way in self.ways)
        shown = [purpose if line is None else f"{purpose}: {line}" for purpose, line in lines]
        return f"{self._closed} {_capital('; or '.join(shown))}"

    def after(self, text: str) -> Refusal:
        """Return it with a text before its reason."""
        return replace(self, reason=f"{text}{self.reason}")

    def before_any_change(self) -> Refusal:
        """Return it with the clause that nothing has been changed."""
        unchanged = "; nothing has been changed"
        return replace(self, reason=f"{self.reason.removesuffix(unchanged).removesuffix('.')}{unchanged}")

    def completed(self, line_with: Callable[[str], str]) -> Refusal:
        """Return it with whole command lines: `line_with` adds options to the refused one."""
        ways = [
            way if way.options is None else WayOut(way.purpose, command=line_with(way.options)) for way in self.ways
        ]
        return replace(self, ways=tuple(ways))

    @property
    def _closed(self) -> str:
        return self.reason if self.reason.endswith((".", "?")) else f"{self.reason}."


def leave_out(topic: str | None, purpose: str = "leave the topic out") -> WayOut:
    """Return the way out that excludes a topic; None: the directory's name has none."""
    return WayOut(purpose, options=None if topic is None else f"--exclude {shell_word(topic)}")


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
