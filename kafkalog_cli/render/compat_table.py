"""The starts of all releases for people: how far back and on they start, then the releases with the same result."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from rich.text import Text

from kafkalog_cli.render.answer import NOTHING, Answer, AnswerTable
from kafkalog_cli.render.cells import safe_text
from kafkalog_cli.render.summary import INDENT, sentence_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalog_core.ops.preflight.compat import Compat, Outcome, ReleaseStart

__all__ = ["CompatTable"]

_WORDS: Final[Mapping[Outcome, tuple[str, str]]] = {
    "starts": ("starts", "green"),
    "harmed": ("starts, but not everything is served", "yellow"),
    "dies": ("does not start", "red"),
    "waits": ("never serves a request", "red"),
    "unknown": ("not simulated", "yellow"),
}


class CompatTable(AnswerTable["Compat"]):
    """The verdict, and a paragraph for releases that follow each other and have the same result."""

    def __init__(self, *, has_details: bool = False, explains: bool = False) -> None:
        super().__init__(has_details=has_details, explains=explains)
        self._found: Compat | None = None

    def write(self, item: Compat) -> None:
        """Keep the result."""
        self._found = item

    def answer(self) -> Answer:
        """Return the verdict."""
        found = self._found
        if found is None:
            return NOTHING
        return Answer(verdict=found.verdict, style="bold red" if found.is_harmed else "bold green")

    def details(self) -> list[Text]:
        """Return the releases, the newest first."""
        found = self._found
        return [] if found is None else [Text(), *self._paragraphs(found)]

    def basis(self) -> list[Text]:
        """Return what the result depends on."""
        text = "each release alone, cleanly stopped or not as the files are; a cluster is upgraded node by node"
        return sentence_texts(text, self.width, "dim")

    def _paragraphs(self, found: Compat) -> Iterator[Text]:
        for _, starts in groupby(reversed(found.starts), key=_shown):
            some = list(starts)
            first, last = some[0], some[-1]
            span = str(first.release) if first is last else f"{last.release} to {first.release}"
            words, style = _WORDS[first.outcome]
            yield Text(f"{span}: {words}", f"bold {style}")
            where = _where(first, found.log_dirs)
            if first.feature is not None and first is not last:  # each has its own range of levels
                where = where.replace("the release", str(first.release))
            for text in (where, "" if first.way_out is None else f"way out: {first.way_out}"):
                if text:
                    yield from sentence_texts(f"{INDENT}{text}", self.width)


def _shown(start: ReleaseStart) -> tuple[object, ...]:
    """Return what neighbours have in common that are shown as one."""
    way_out = start.way_out if start.why and not (start.way_out or "").startswith("kafkalog") else None
    return start.outcome, start.path, start.offset, start.feature or start.why, way_out


def _where(start: ReleaseStart, log_dirs: Sequence[str]) -> str:
    """Return the file, below the one log directory, the offset, and what is wrong."""
    path = start.path or ""
    place = safe_text(path.removeprefix(f"{log_dirs[0]}/") if len(log_dirs) == 1 else path)
    if start.offset is not None:
        place += f", offset {start.offset:,}"
    return ": ".join(text for text in (place, start.why) if text)
