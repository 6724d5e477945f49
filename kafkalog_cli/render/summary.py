"""The summary row as one sentence: first whether anything is wrong, then what was read."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kafkalog_cli.render.cells import count_of, counts_cell, human_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["summary_sentence", "verdict"]


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
        place = f"{count_of(summary['damage_count'], 'place')}, {human_bytes(summary.get('damage_bytes'))}"
        parts[0] += f" in {place}" if parts[0] == "DAMAGE" else f", but bytes that hold no batch in {place}"
    if summary.get("codes"):
        parts.append(counts_cell(summary["codes"]))
    read = ", ".join(
        count_of(summary[name], noun)
        for name, noun in (("batches", "batch"), ("records", "record"))
        if summary.get(name) is not None
    )
    read += f"; {human_bytes(summary.get('bytes'))} of log read from {count_of(summary.get('files'), 'file')}"
    if summary.get("partitions"):
        read += f" in {count_of(summary['partitions'], 'partition')}"
    parts.append(f"{read}; {count_of(summary.get('rows'), 'row')} shown")
    parts.append(f"exit status {summary.get('exit_status')}")
    return " | ".join(parts)
