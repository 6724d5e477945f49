"""Impacts on groups of consumers for people: how many groups are affected, then those that are, each with sentences."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from rich.text import Text

from kafkalog_cli.render.answer import Answer, AnswerTable, PartitionLine, rule_lines
from kafkalog_cli.render.cells import NONE, time_cell
from kafkalog_cli.render.summary import sentence_texts
from kafkalog_core.ops.impact.outcomes import EFFECTS
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.ops.impact.impact import Impacts
    from kafkalog_core.ops.impact.outcomes import Effect, Impact

__all__ = ["ImpactTable"]

_STYLES: Final[dict[Effect, str]] = {"reset": "bold red", "skips": "bold red", "diverges": "bold red", "stops": "red"}
_SHOWN_PROBLEMS: Final = 10
_EXPORT: Final = (
    "To put the groups where they should be once the broker runs: this command with --export csv, for "
    "kafka-consumer-groups.sh --reset-offsets --from-file."
)

_EXPIRED: Final = (
    "kafkalog groups shows when each offset expires; --set offsets.retention.minutes=N shows what another setting "
    "keeps."
)


class ImpactTable(AnswerTable["Impacts"]):
    """The groups by what happens to them; those that go on unchanged are counted, unless `shows_all`."""

    def __init__(self, *, shows_all: bool = False) -> None:
        super().__init__()
        self._shows_all = shows_all
        self._found: Impacts | None = None

    def write(self, item: Impacts) -> None:
        """Keep the result."""
        self._found = item

    def answer(self) -> Answer:
        """Return the verdict, and a row for each group and partition."""
        found = self._found
        if found is None or not found.impacts:
            # The part that cannot be read may hold commits.
            known = ", as far as their commits can be read" if found is not None and found.problems else ""
            verdict = f"NO COMMITTED OFFSETS: no group has one here, or none of those that are named{known}"
            return Answer(verdict=verdict)
        shown = [each for each in found.impacts if self._shows_all or each.effect not in {"unchanged", "unknown"}]
        warns = found.problems or found.doubts or found.expired
        rest = [each for each in found.impacts if each not in shown]
        is_changed = any(each.is_reset_needed for each in found.impacts)
        return Answer(
            verdict=_verdict(found),
            style="bold red" if is_changed else "bold yellow" if warns else "bold green",
            below=(*((_EXPORT,) if is_changed else ()), *((_EXPIRED,) if found.expired else ())),
            lines=tuple(map(_line, shown)),
            rest=_rest(rest, others=bool(shown)),
        )

    def details(self) -> list[Text]:
        """Return nothing: every row has its sentences."""
        return []

    def basis(self) -> list[Text]:
        """Return what is unknown, and the release."""
        found = self._found
        if found is None:
            return []
        lines = [text for doubt in found.doubts for text in sentence_texts(f"in doubt: {doubt}", self.width, "yellow")]
        for problem in found.problems[:_SHOWN_PROBLEMS]:
            lines += sentence_texts(f"commits may be missing: {problem}", self.width, "yellow")
        if len(found.problems) > _SHOWN_PROBLEMS:
            lines.append(Text(f"and {count_of(len(found.problems) - _SHOWN_PROBLEMS, 'more place')}", "yellow"))
        if found.expired and found.clock is not None:
            lines += sentence_texts(found.clock, self.width, "dim")
        if found.guess is not None:
            lines += rule_lines(found.guess.release, (), self.width, is_certain=found.guess.is_certain)
        return lines


def _verdict(found: Impacts) -> str:
    worst: dict[str, Effect] = {}
    for each in found.impacts:  # those that ask for a decision come first
        worst.setdefault(each.commit.group, each.effect)
    groups = Counter(worst.values())
    total = count_of(len(worst), "group")
    offsets = count_of(len(found.expired), "expired offset")
    owners = count_of(len({each.commit.group for each in found.expired}), "group")
    deleted = f"the coordinator deletes {offsets} of {owners} at its next check"
    if set(groups) <= {"unchanged"} and found.expired:
        return f"EXPIRED: the logs keep the place of {total}, but {deleted}, after {found.cause}"
    if set(groups) <= {"unchanged"}:
        known = ", as far as their commits can be read" if found.problems else ""
        return f"UNCHANGED: {total} {'reads' if len(worst) == 1 else 'read'} on as before{known}, after {found.cause}"
    parts = [_part(effect, groups[effect], found.impacts) for effect in EFFECTS if groups[effect]]
    word = "UNKNOWN" if set(groups) <= {"unchanged", "unknown"} else "IMPACT"
    text = f"{word}: of {total}, {', '.join(parts)}, after {found.cause}"
    return f"{text}; {deleted}" if found.expired else text


def _part(effect: Effect, count: int, impacts: Iterable[Impact]) -> str:
    """Return `2 read 40 records again`."""
    records = count_of(sum(each.records or 0 for each in impacts if each.effect == effect), "record")
    is_one = count == 1
    return {
        "reset": f"{count} {'has' if is_one else 'have'} lost {'its' if is_one else 'their'} place (auto.offset.reset)",
        "diverges": f"{count} {'meets' if is_one else 'meet'} another log ({records})",
        "skips": f"{count} {'misses' if is_one else 'miss'} {records} that {'it' if is_one else 'they'} had not read",
        "repeats": f"{count} {'reads' if is_one else 'read'} {records} again",
        "stops": f"{count} {'comes' if is_one else 'come'} to damage",
        "unknown": f"{count} {'is' if is_one else 'are'} unknown",
        "unchanged": f"{count} {'reads' if is_one else 'read'} on as before",
    }[effect]


def _line(each: Impact) -> PartitionLine:
    topic, partition = each.commit.place
    records = each.records
    return PartitionLine(
        f"{each.commit.group}  {topic}-{partition}",
        each.effect,
        NONE if records is None else count_of(records, "record"),
        _when(each),
        note=each.detail,
        style=_STYLES.get(each.effect, ""),
    )


def _when(each: Impact) -> str:
    if each.first_skipped_ms is None or not each.skipped_records:
        return NONE
    return f"{time_cell(each.first_skipped_ms)} to {time_cell(each.last_skipped_ms)}"


def _rest(rest: list[Impact], *, others: bool) -> str:
    """Return how many partitions of groups are not shown."""
    return "; ".join(_counted(rest, others=others))


def _counted(rest: list[Impact], *, others: bool) -> Iterator[str]:
    for kind in ("unchanged", "expired", "unknown"):
        found = [each for each in rest if (each.effect if each.effect == "unknown" else _kept(each)) == kind]
        if not found:
            continue
        names = {each.commit.group for each in found}
        which = "other " if others else ""
        yield f"{count_of(len(found), which + 'partition')} of {count_of(len(names), 'group')}: {_words(kind, found)}"


def _kept(each: Impact) -> str:
    return "expired" if each.is_expired else "unchanged"


def _words(kind: str, found: list[Impact]) -> str:
    is_one = len({each.commit.group for each in found}) == 1
    if kind == "unchanged":
        return f"the {'group reads' if is_one else 'groups read'} on as before"
    if kind == "expired":
        return f"{'its' if is_one else 'their'} {'offset has' if len(found) == 1 else 'offsets have'} expired"
    reasons = Counter(each.detail.removesuffix(".") for each in found)
    return f"unknown: {reasons.most_common(1)[0][0]}" + ("; ..." if len(reasons) > 1 else "")
