"""The summary row as one sentence: first whether anything is wrong, then what was read, and what was not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from kafkalog_cli.render.cells import count_of, counts_cell, human_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["summary_sentence", "verdict", "verdict_sentence"]

_REFUSED: Final = 3
_NOT_ALL: Final = "not all of it could be read"


def verdict(summary: Mapping[str, object]) -> str:
    """`DAMAGE`, `ERRORS`, `warnings` or `clean`: the word that the sentence starts with."""
    severities = cast("dict[str, int]", summary.get("severities") or {})
    if severities.get("error"):
        return "DAMAGE" if summary.get("damage_count") else "ERRORS"
    return "warnings" if severities.get("warning") else "clean"


def summary_sentence(summary: Mapping[str, object]) -> str:
    """One line, without a line end."""
    parts = [verdict(summary)]
    if summary.get("damage_count"):
        size_bytes = summary.get("damage_bytes")
        size = human_bytes(size_bytes) if size_bytes else "inside of whole batches"
        place = f"{count_of(summary['damage_count'], 'place')}, {size}"
        parts[0] += f" in {place}" if parts[0] == "DAMAGE" else f", but bytes that hold no batch in {place}"
    elif any(_is_part(summary, name) for name in ("files", "partitions", "bytes")):
        parts[0] += " in what was read"
    if summary.get("interrupted"):
        parts.insert(0, "interrupted")
    elif summary.get("no_answer"):  # no column: a search says it of itself
        parts.insert(0, "not found")
    elif summary.get("exit_status") == _REFUSED:
        parts.insert(0, _NOT_ALL)
    if summary.get("codes"):
        parts.append(counts_cell(summary["codes"]))
    parts += [f"{_counted(summary)}; {_read(summary)}; {count_of(summary.get('rows'), 'row')} shown"]
    parts.append(f"exit status {summary.get('exit_status')}")
    return " | ".join(parts)


def _counted(summary: Mapping[str, object]) -> str:
    """`90 batches (not opened: damage inside of them is not noticed), 319 records`."""
    parts = []
    if summary.get("batches") is not None:
        parts.append(count_of(summary["batches"], "batch") + _unopened(summary))
    if summary.get("records") is not None:
        uncounted = summary.get("uncounted_batches")
        more = f" and those in {count_of(uncounted, 'compressed message')} that were not counted" if uncounted else ""
        parts.append(count_of(summary["records"], "record") + more)
    return ", ".join(parts)


def _unopened(summary: Mapping[str, object]) -> str:
    unopened = summary.get("unopened_batches")
    if not unopened:
        return ""
    which = "not opened" if unopened == summary.get("batches") else f"{unopened} not opened"
    return f" ({which}: what is damaged inside is not noticed)"


def _read(summary: Mapping[str, object]) -> str:
    """`12.0 MiB of 400.0 MiB of log read from 3 of 10 files in 1 of 40 partitions`."""
    read = f"{human_bytes(summary.get('bytes'))} of "
    if _is_part(summary, "bytes"):
        read += f"{human_bytes(summary.get('bytes_total'))} of "
    read += f"log read from {_of_all(summary, 'files', 'file')}"
    if summary.get("partitions_total") or summary.get("partitions"):
        read += f" in {_of_all(summary, 'partitions', 'partition')}"
    return read


def _of_all(summary: Mapping[str, object], name: str, noun: str) -> str:
    if not _is_part(summary, name):
        return count_of(summary.get(name), noun)
    return f"{summary[name]} of {count_of(summary[f'{name}_total'], noun)}"


def _is_part(summary: Mapping[str, object], name: str) -> bool:
    """Whether there was more of it than was read."""
    read, total = summary.get(name), summary.get(f"{name}_total")
    return isinstance(read, int) and isinstance(total, int) and read < total


def verdict_sentence(summary: Mapping[str, object], states: Mapping[str, int]) -> str:
    """The line of `verify`: how many partitions are damaged, what was found, how much was read."""
    damaged, total = states.get("damaged", 0), sum(states.values())
    severities = cast("dict[str, int]", summary.get("severities") or {})
    word = {"DAMAGE": "DAMAGED", "ERRORS": "DAMAGED"}.get(verdict(summary), verdict(summary))
    parts = [f"{word}: {damaged} of {count_of(total, 'partition')}" if damaged else word]
    if not damaged and total:
        parts[0] += f": {count_of(total, 'partition')} without damage"
    if summary.get("exit_status") == _REFUSED:
        parts.insert(0, _NOT_ALL)
    elif summary.get("exit_status") not in {0, 4}:
        parts.insert(0, "interrupted" if summary.get("interrupted") else "not finished")
        parts[1] += " so far"
    found = [count_of(severities[name], name) for name in ("error", "warning") if severities.get(name)]
    if found:
        parts.append(", ".join(found))
    read = f"{human_bytes(summary.get('bytes'))} of log in {count_of(summary.get('files'), 'file')}"
    parts.append(f"{read}, {count_of(summary.get('batches'), 'batch')}, {count_of(summary.get('records'), 'record')}")
    if summary.get("unchanged_bytes"):
        parts.append(f"{human_bytes(summary['unchanged_bytes'])} of it not read again")
    parts.append(f"exit status {summary.get('exit_status')}")
    return " | ".join(parts)
