"""What kafkalog refuses: why, and each way out, as a command line that can be pasted.

A refusal is shown as one line with the reason and what can be done, then one line for each command. Where it is part of
another sentence, or of a row, it is one line with all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.command_lines import shell_word
from kafkalog_core.structs import Struct, replace
from kafkalog_core.text import count_of, first_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["Refusal", "Refused", "WayOut", "leave_out", "of_partitions", "place_of"]


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

    @property
    def steps(self) -> tuple[tuple[str, str | None], ...]:
        """The same in lines, each with the command that follows it: several ways have a line each."""
        ways = [(way.purpose, way.command or way.options) for way in self.ways]
        if len(self.commands) < 2:
            return ((self.headline, next(iter(self.commands), None)),)
        ends = [(f"{_capital(purpose)}{'.' if line is None else ':'}", line) for purpose, line in ways]
        return ((self._closed, None), *ends)

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


class Refused(NamedTuple):
    """A partition that is refused.

    path: of the directory or the file in it. name: of the directory. topic: None: the name has none. why: a clause.
    """

    path: str
    name: str
    topic: str | None
    why: str


def place_of(refused: Sequence[Refused], root: str) -> str:
    """Return the path of an error about these: that of the only one, or the directory of all of them."""
    return refused[0].path if len(refused) == 1 else root


def leave_out(topics: Iterable[str | None], purpose: str = "") -> WayOut:
    """Return the way out that excludes topics; None: the directory's name has none.

    `purpose`: what else that does, after "leave the topic out".
    """
    names = list(dict.fromkeys(topics))
    options = " ".join(f"--exclude {shell_word(name)}" for name in names if name is not None)
    text = f"leave the topic{'' if len(names) == 1 else 's'} out{purpose}"
    return WayOut(text, options=None if None in names else options)


def of_partitions(refused: Sequence[Refused], purpose: str = "") -> Refusal:
    """Return one refusal of all partitions that are refused, so that the next run does not refuse another one.

    The error has the path `place_of`, so that a single partition is named. `purpose`: as of `leave_out`.
    """
    names: dict[str, list[str]] = {}
    for each in refused:
        names.setdefault(each.why, []).append(each.name)
    listed = first_of([f"{first_of(these)}: {why}" for why, these in names.items()], joint="; ")
    reason = refused[0].why if len(refused) == 1 else f"{count_of(len(refused), 'partition')}: {listed}"
    return Refusal(reason, (leave_out((each.topic for each in refused), purpose),))


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
