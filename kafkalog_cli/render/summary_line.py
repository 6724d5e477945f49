"""The last line of every result: what was found, how much was read, and the exit status; `clean` is verify's alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from kafkalog_cli.render.cells import counts_cell, human_bytes
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["VERDICT_STYLES", "sound_partitions", "summary_sentence", "verdict", "verdict_sentence"]

VERDICT_STYLES: Final = {"DAMAGE": "bold red", "ERRORS": "bold red", "warnings": "yellow", "clean": "green"}
_REFUSED: Final = 3
_NOT_ALL: Final = "not everything could be read"


def verdict(summary: Mapping[str, object]) -> str:
    """Return the first word of the sentence: `DAMAGE`, `ERRORS`, `warnings` or `clean`."""
    severities = cast("dict[str, int]", summary.get("severities") or {})
    if severities.get("error"):
        return "DAMAGE" if summary.get("damage_count") else "ERRORS"
    return "warnings" if severities.get("warning") else "clean"


def summary_sentence(summary: Mapping[str, object]) -> str:
    """Return the last line of a result, without a line end."""
    word = verdict(summary)  # that nothing was found is not "clean": only verify checks a log
    parts = ["nothing is finished" if _is_nothing_finished(summary) else "" if word == "clean" else word]
    if not parts[0] and not summary.get("damage_count"):
        parts = []
    elif summary.get("damage_count"):
        size_bytes = summary.get("damage_bytes")
        size = human_bytes(size_bytes) if size_bytes else "inside whole batches"
        place = f"{count_of(summary['damage_count'], 'place')}, {size}"
        without = f"bytes without a batch in {place}"
        parts[0] += f" in {place}" if parts[0] == "DAMAGE" else f", but {without}" if parts[0] else without
    elif any(_is_part(summary, name) for name in ("files", "partitions", "bytes")):
        parts[0] += " in what was read"
    if summary.get("interrupted"):
        parts.insert(0, "interrupted")
    elif summary.get("no_answer"):  # not a column: only seek sets it
        parts.insert(0, "not found")
    elif summary.get("exit_status") == _REFUSED:
        parts.insert(0, _NOT_ALL)
    if summary.get("codes"):
        parts.append(counts_cell(summary["codes"]))
    parts += [f"{_counted(summary)}; {_read(summary)}; {count_of(summary.get('rows'), 'row')} shown"]
    parts += _unchanged(summary)
    parts.append(f"exit status {summary.get('exit_status')}")
    return " | ".join(parts)


def _is_nothing_finished(summary: Mapping[str, object]) -> bool:
    """Return whether a run was interrupted before it had read a file to its end."""
    known = ("files", "partitions", "severities", "damage_count")
    return bool(summary.get("interrupted")) and not any(summary.get(name) for name in known)


def _counted(summary: Mapping[str, object]) -> str:
    """Return `90 batches (not opened: damage inside them is not detected), 319 records`."""
    parts = []
    if summary.get("batches") is not None:
        parts.append(count_of(summary["batches"], "batch") + _unopened(summary))
    if summary.get("records") is not None:
        uncounted = summary.get("uncounted_batches")
        more = f" and those in {count_of(uncounted, 'compressed message')}, which were not counted" if uncounted else ""
        parts.append(count_of(summary["records"], "record") + more)
    return ", ".join(parts)


def _unopened(summary: Mapping[str, object]) -> str:
    unopened = summary.get("unopened_batches")
    if not unopened:
        return ""
    which = "not opened" if unopened == summary.get("batches") else f"{unopened} not opened"
    return f" ({which}: damage inside them is not detected)"


def _read(summary: Mapping[str, object]) -> str:
    """Return `12.0 MiB of 400.0 MiB of log read from 3 of 10 files in 1 of 40 partitions`."""
    size_bytes = cast("int", summary.get("bytes") or 0) + cast("int", summary.get("unfinished_bytes") or 0)
    read = f"{human_bytes(size_bytes)} of "
    if _is_part(summary, "bytes"):
        read += f"{human_bytes(summary.get('bytes_total'))} of "
    if not summary.get("files") and size_bytes:
        return f"{read}log read, no file to its end"
    read += "log in " if summary.get("unchanged_bytes") else "log read from "
    read += _of_all(summary, "files", "file")
    if summary.get("partitions_total") or summary.get("partitions"):
        read += f" in {_of_all(summary, 'partitions', 'partition')}"
    return read


def _unchanged(summary: Mapping[str, object]) -> list[str]:
    """Return how much of the log an earlier run had read, if it was any."""
    size_bytes = summary.get("unchanged_bytes")
    return [f"{human_bytes(size_bytes)} of it unchanged and not read again"] if size_bytes else []


def _of_all(summary: Mapping[str, object], name: str, noun: str) -> str:
    if not _is_part(summary, name):
        return count_of(summary.get(name), noun)
    return f"{summary[name]} of {count_of(summary[f'{name}_total'], noun)}"


def _is_part(summary: Mapping[str, object], name: str) -> bool:
    """Return whether only a part of it was read."""
    read, total = summary.get(name), summary.get(f"{name}_total")
    return isinstance(read, int) and isinstance(total, int) and read < total


def verdict_sentence(summary: Mapping[str, object], states: Mapping[str, int]) -> str:
    """Return the last line of `verify`: how many partitions are damaged, what was found, how much was read.

    Args:
        summary: the `summary` row.
        states: number of partitions of each state, as in `state_of` of `ops.verify`.
    """
    parts = [_judgement(summary, states)]
    if summary.get("exit_status") == _REFUSED:
        parts.insert(0, _NOT_ALL)
    elif summary.get("exit_status") not in {0, 4}:
        parts.insert(0, "interrupted" if summary.get("interrupted") else "not finished")
        parts[1] += "" if parts[1].startswith("no ") else " so far"
    if summary.get("damage_count") and not states.get("damaged"):
        size = human_bytes(summary.get("damage_bytes"))
        parts.append(f"{size} without a batch in {count_of(summary['damage_count'], 'place')}")
    severities = cast("dict[str, int]", summary.get("severities") or {})
    found = [count_of(severities[name], name) for name in ("error", "warning") if severities.get(name)]
    if found:
        parts.append(", ".join(found))
    read = f"{human_bytes(summary.get('bytes'))} of log in {count_of(summary.get('files'), 'file')}"
    parts.append(f"{read}, {_counted(summary)}")
    parts += _unchanged(summary)
    unfinished = cast("int", summary.get("unfinished_bytes") or 0)  # not a column: only an interrupted run has it
    if unfinished:
        parts.append(f"{human_bytes(unfinished)} read of unfinished partitions")
    parts.append(f"exit status {summary.get('exit_status')}")
    return " | ".join(parts)


def _judgement(summary: Mapping[str, object], states: Mapping[str, int]) -> str:
    """Return `DAMAGED: 1 of 4 partitions` or `warnings: 3 of 4 partitions without damage, 1 not read`."""
    word, damaged, total = verdict(summary), states.get("damaged", 0), sum(states.values())
    if damaged:
        text = f"DAMAGED: {damaged} of {count_of(total, 'partition')}"
        return text + (f", {states['unread']} not read" if states.get("unread") else "")
    if word in {"DAMAGE", "ERRORS"}:
        return f"ERRORS: {sound_partitions(summary, states)}" if total else "ERRORS"
    if not total:
        is_begun = summary.get("exit_status") in {0, 4} or word != "clean"
        return word if is_begun else "no partition is finished"
    return f"{word}: {sound_partitions(summary, states)}"


def sound_partitions(summary: Mapping[str, object], states: Mapping[str, int]) -> str:
    """Return how many partitions have no error: `4 partitions without damage`, `3 of 4 partitions ..., 1 not read`.

    Bytes without a batch that are not an error, such as a preallocated tail, are not damage; their partitions are
    "without errors", not "without damage".
    """
    total, unread, damaged = sum(states.values()), states.get("unread", 0), states.get("damaged", 0)
    without = "without errors" if summary.get("damage_count") else "without damage"
    sound = total - unread - damaged
    text = f"{count_of(total, 'partition')} {without}" if sound == total else ""
    text = text or f"{sound} of {count_of(total, 'partition')} {without}"
    return f"{text}, {unread} not read" if unread else text
