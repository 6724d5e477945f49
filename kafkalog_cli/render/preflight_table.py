"""The result of a preflight for people: the verdict, what stops the broker, then the partitions that are touched."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from rich.text import Text

from kafkalog_cli.render.answer import NOTHING, Answer, AnswerTable, PartitionLine, rule_lines
from kafkalog_cli.render.cells import NONE, human_bytes, time_cell
from kafkalog_cli.render.summary import INDENT, sentence_texts
from kafkalog_core.ops.preflight.sentences import counted, event_text, log_line_of, what_of, why_of
from kafkalog_core.text import duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalog_core.kafka.sim.start.disk import Effect
    from kafkalog_core.ops.preflight.partition_starts import PartitionStart
    from kafkalog_core.ops.preflight.preflight import Preflight

__all__ = ["PreflightTable"]

_SHOWN_EVENTS: Final = 20
_LEAST_MS: Final = 1000
_WORDS: Final[Mapping[Effect, str]] = {
    "stops": "stops the broker",
    "offline": "takes the log directory offline",
    "unserved": "no partition of the log directory is served",
    "stray": "renamed to -stray",
}


class PreflightTable(AnswerTable["Preflight"]):
    """The verdict, what decides about the whole disk, and a row for each partition that is touched."""

    def __init__(self, *, has_details: bool = False, explains: bool = False) -> None:
        super().__init__(has_details=has_details, explains=explains)
        self._found: Preflight | None = None

    def write(self, item: Preflight) -> None:
        """Keep the result."""
        self._found = item
        shown = {id(event.finding) for event in item.start.events}  # as an event, with its command
        self.add_findings(finding.row() for finding in item.all_findings if id(finding) not in shown)

    def answer(self) -> Answer:
        """Return the verdict, and a row for each partition that is touched."""
        found = self._found
        if found is None:
            return NOTHING
        is_silent = any(each.silent for each in found.partitions)
        return Answer(
            verdict=found.verdict,
            style="bold red" if found.is_harmed else "bold yellow" if is_silent else "bold green",
            below=tuple(_below(found)),
            commands=tuple(found.ways.of_all(found.start.events, found.touched)),
            lines=tuple(map(_line, found.touched)),
            rest=_rest(found),
        )

    def details(self) -> list[Text]:
        """Return each step of the start, where details are asked for."""
        found = self._found
        if found is None or not self.has_details:
            return []
        lines = [Text(), Text("Steps", "bold")]
        for each in found.partitions:
            for step in each.steps:
                where = "" if step.position is None else f" from byte {step.position:,} on"
                why = f": {step.why}" if step.why else ""
                text = f"{INDENT}{each.name}/{os.path.basename(step.path)}: {step.kind}{where}{why}"
                lines += sentence_texts(text, self.width)
        return lines

    def basis(self) -> list[Text]:
        """Return what is in doubt, how much recovery reads, and the release."""
        found = self._found
        if found is None:
            return []
        lines = [text for doubt in found.doubts for text in sentence_texts(f"in doubt: {doubt}", self.width, "yellow")]
        lines += sentence_texts(_recovery(found), self.width, "dim")
        return lines + rule_lines(
            found.release,
            found.guess.evidence,
            self.width,
            is_certain=found.guess.is_certain,
            explains=self.explains,
            others="; --compat shows the others",
        )


def _below(found: Preflight) -> Iterator[str]:
    events, stop = found.start.events, found.start.stop
    line = None if stop is None else log_line_of(stop, found.start)
    if line is not None:
        yield f"The broker's log then has: {line}"
    in_rows = {each.result.problem.path for each in found.touched if each.result is not None and each.result.problem}
    others = [event for event in events if event is not stop and event.path not in in_rows]
    for event in others[:_SHOWN_EVENTS]:
        yield f"{_WORDS[event.effect]}: {event_text(event, found.log_dirs)}"
    if len(others) > _SHOWN_EVENTS:
        yield f"and {counted(len(others) - _SHOWN_EVENTS, 'more file')}"


def _rest(found: Preflight) -> str:
    """Return how many partitions have no row, and what becomes of them."""
    rest = [each for each in found.partitions if not each.is_touched]
    served = [each for each in rest if not each.is_harmed]
    other = "other partition" if found.touched else "partition"
    texts = []
    if len(served) < len(rest):
        unserved = len(rest) - len(served)
        texts.append(f"{counted(unserved, other)}: nothing is lost, but not served")
    if served and not found.emptied:
        texts.append(f"{counted(len(served), other)}: nothing is lost")
    return "; ".join(texts)


def _line(start: PartitionStart) -> PartitionLine:
    records = start.lost_records
    amount = NONE
    if start.losses:
        amount = "records" if records is None else counted(records, "record")
    elif start.fate not in {"loaded", "unknown"}:
        amount = counted(start.records, "record")
    times = [loss.first_timestamp_ms for loss in start.losses], [loss.max_timestamp_ms for loss in start.losses]
    first = min((each for each in times[0] if each is not None), default=None)
    last = max((each for each in times[1] if each is not None), default=None)
    return PartitionLine(
        start.name,
        what_of(start),
        amount,
        NONE if first is None else f"{time_cell(first)} to {time_cell(last)}",
        why_of(start) or NONE,
        style="red" if start.is_harmed else "yellow" if start.silent else "",
    )


def _recovery(found: Preflight) -> str:
    """Return how much recovery reads, and about how long it takes."""
    if not found.recovery_bytes:
        return "recovery reads no log"
    text = f"recovery reads {human_bytes(found.recovery_bytes)} of logs"
    taken = found.recovery_ms
    if taken is None or not found.read_ms:
        return text
    if taken < _LEAST_MS:
        return f"{text}: less than a second"
    rate = human_bytes(found.read_bytes * 1000 // found.read_ms)
    return f"{text}: about {duration(taken // 1000 * 1000)} at {rate}/s, at which this run read the disk"
