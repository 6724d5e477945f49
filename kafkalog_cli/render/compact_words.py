"""What a forecast of compaction says in words: would the cleaner run, what would it save, what holds it back."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from kafkalog_cli.render.cells import human_bytes, plain, safe_text
from kafkalog_core.words import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["headline", "number", "partition_name", "partition_sentence", "saved_bytes", "share"]

Row = dict[str, object]

STATES: Final = {
    "cleanable": "WOULD BE CLEANED NOW",
    "not-dirty-enough": "NOT NOW",
    "nothing-cleanable": "NOTHING TO CLEAN",
    "not-compacted": "NOT COMPACTED",
    "cleaner-off": "CLEANER OFF",
    "fails": "CLEAN FAILS",
}


def headline(rows: Sequence[Row]) -> tuple[str, str]:
    """The first line, about all partitions together, and its style."""
    compacted = [row for row in rows if row["state"] != "not-compacted"]
    failing = [row for row in rows if row["state"] == "fails"]
    if not compacted:
        return f"NOT COMPACTED: {count_of(len(rows), 'partition')}: {_why_not(rows)}", "bold"
    if len(rows) == 1:
        style = "bold red" if failing else "bold green" if rows[0].get("would_run") else "bold yellow"
        return f"{STATES[str(rows[0]['state'])]}: {partition_sentence(rows[0])}", style
    running = [row for row in compacted if row.get("would_run")]
    total = f"{len(running)} of {count_of(len(compacted), 'compacted partition')} would be cleaned now"
    parts = [total + (f", which {_effect(running)}" if running else "")]
    waiting = [row for row in compacted if not row.get("would_run") and saved_bytes(row) > 0]
    if waiting:
        parts.append(f"{len(waiting)} would not yet, and {_effect(waiting)} when they are")
    if failing:
        parts.insert(0, f"in {count_of(len(failing), 'partition')} a clean fails")
    parts += _stuck(compacted)
    others = len(rows) - len(compacted)
    if others:
        parts.append(f"{count_of(others, 'partition')} not compacted")
    return "; ".join(parts), "bold red" if failing else "bold"


def _stuck(rows: Iterable[Row]) -> list[str]:
    """How many have nothing that may be cleaned, and what holds them back."""
    kinds = Counter(plain(row.get("held_back_by")) for row in rows if row["state"] == "nothing-cleanable")
    if not kinds:
        return []
    held = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
    return [f"{kinds.total()} with nothing that may be cleaned (held back by {held})"]


def partition_sentence(row: Row) -> str:
    """`orders-0: its dirty ratio ...; saves 1.2 GiB of 2.0 GiB (60 %)`."""
    text = f"{partition_name(row)}: {plain(row.get('reason'))}"
    if row["state"] == "fails" or row.get("bytes_after") is None or not row.get("passes"):
        return text
    verb = "saves" if row.get("would_run") else "a clean would save"
    saved = saved_bytes(row)
    if saved <= 0:
        return f"{text}; {'it' if row.get('would_run') else 'a clean'} would save nothing"
    return f"{text}; {verb} {_of_total(saved, number(row, 'bytes_before'))}"


def partition_name(row: Row) -> str:
    """`orders-0`, as the directory is called."""
    return safe_text(str(row["path"]).rstrip("/").rpartition("/")[2])


def saved_bytes(row: Mapping[str, object]) -> int:
    """Bytes that a clean frees; below zero where the log grows."""
    if row.get("bytes_after") is None:
        return 0
    return number(row, "bytes_before") - number(row, "bytes_after")


def number(row: Mapping[str, object], name: str) -> int:
    """A column, 0 where it is null."""
    value = row.get(name)
    return value if isinstance(value, int) else 0


def share(part: int, whole: int) -> str:
    """`12.5 %`; a part that is there never looks like none, nor one that lacks something like all."""
    if not whole:
        return "0 %"
    percent = 100 * part / whole
    if 0 < abs(percent) < 0.1:
        return "< 0.1 %"
    if 99.9 < percent < 100:
        return "> 99.9 %"
    return f"{percent:.1f} %".replace(".0 %", " %")


def _effect(rows: Iterable[Row]) -> str:
    listed = list(rows)
    saved = sum(map(saved_bytes, listed))
    total = sum(number(row, "bytes_before") for row in listed)
    if saved > 0:
        return f"saves {_of_total(saved, total)}"
    return "saves nothing" if saved == 0 else f"makes them {human_bytes(-saved)} larger"


def _of_total(saved: int, total: int) -> str:
    return f"{human_bytes(saved)} of {human_bytes(total)} ({share(saved, total)})"


def _why_not(rows: Sequence[Row]) -> str:
    reasons = dict.fromkeys(plain(row.get("reason")) for row in rows)
    return "; ".join(list(reasons)[:3])
