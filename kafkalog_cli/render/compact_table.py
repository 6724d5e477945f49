"""What a forecast of compaction says in words: would the cleaner run, what would it save, what holds it back."""

from __future__ import annotations

import io
import os
import sys
from collections import Counter
from typing import TYPE_CHECKING, Final, cast

from rich.text import Text

from kafkalog_cli.render.cells import NONE, bytes_cell, human_bytes, plain, safe_text, time_cell
from kafkalog_cli.render.columns import Shown
from kafkalog_cli.render.table import VERDICT_STYLES, choose_layout, open_console
from kafkalog_cli.render.text import finding_lines, summary_sentence, verdict, wrapped_lines
from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.kafka.assumptions import forecast_note
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.assumptions import Assumption
    from kafkalog_core.ops.compact.forecast import CompactForecast

__all__ = [
    "CompactTable",
    "detail_lines",
    "headline",
    "number",
    "partition_name",
    "partition_sentence",
    "saved_bytes",
    "share",
    "table_lines",
    "wrapped",
]


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


SHOWN_SEGMENTS: Final = 40
_INDENT: Final = "    "
_DEFAULT: Final = "default"
_KEPT: Final = {
    "latest-of-key": "latest of their key",
    "past-map": "behind what the map holds",
    "tombstone": "tombstones, within delete.retention.ms",
    "control": "transaction markers",
}
_DROPPED: Final = {
    "superseded": "superseded by a later record of their key",
    "tombstone-expired": "tombstones past their time",
    "null-key": "without a key",
    "aborted": "of aborted transactions",
    "marker-expired": "transaction markers past their time",
}


def _size(title: str, name: str, rank: int = 0) -> Shown:
    return Shown(title, lambda row: human_bytes(row.get(name)), right=True, rank=rank)


def _number(title: str, name: str, rank: int = 0) -> Shown:
    return Shown(title, lambda row: f"{row[name]:,}" if isinstance(row.get(name), int) else NONE, right=True, rank=rank)


def _ratio(row: Mapping[str, object]) -> str:
    value = row.get("dirty_ratio")
    return NONE if value is None else f"{value:.3f}"


_SEGMENTS: Final = (
    Shown("segment", lambda row: plain(row.get("segment"))),
    Shown("state", lambda row: plain(row.get("state"))),
    Shown("cleaned into", lambda row: NONE if row.get("group") is None else f"{row['group']:020d}", rank=2),
    _size("log", "bytes_before"),
    _size("log after", "bytes_after"),
    _number("records", "records_before"),
    _number("records after", "records_after"),
    _number("tombstones", "tombstones_after", 1),
    Shown("next may go from", lambda row: time_cell(row.get("next_horizon_ms")), rank=3),
)
_PASSES: Final = (
    _number("clean", "pass"),
    Shown("dirty offsets", lambda row: f"{row.get('first_dirty_offset')}..{_last(row)}", right=True),
    Shown("ratio", _ratio, right=True),
    _number("ends at", "end_offset"),
    Shown("because", lambda row: "the offset map was full" if row.get("is_map_full") else "the bound was reached"),
    _number("keys", "keys"),
    _number("segments", "sources", 1),
    _number("into", "groups", 1),
    _size("log", "bytes_before"),
    _size("log after", "bytes_after"),
)
_KEYS: Final = (
    _number("#", "rank"),
    Shown("biggest keys in what is cleaned", lambda row: bytes_cell(row.get("key")), flexible=True),
    Shown("records", lambda row: _at_least(row, f"{number(row, 'records'):,}"), right=True),
    Shown("keys and values", lambda row: _at_least(row, human_bytes(row.get("bytes"))), right=True),
)
_REASONS: Final = (
    Shown("what", lambda row: str(row["what"])),
    _number("records", "records"),
    _size("keys and values", "bytes"),
    Shown("of all records", lambda row: str(row["share"]), right=True),
)


def detail_lines(forecast: CompactForecast, width: int, *, has_title: bool) -> list[Text]:
    """The lines of one partition; `has_title`: the sentence that says it all stands first."""
    row = forecast.partition
    lines: list[Text] = []
    if has_title:
        style = "bold red" if row["state"] == "fails" else "bold"
        lines += [Text(), *wrapped(f"{STATES[str(row['state'])]}: {partition_sentence(row)}", width, style)]
    for label, text in _facts(row):
        lines += _labelled(label, text, width)
    lines += table_lines(_REASONS, _reasons(row), width)
    if len(forecast.passes) > 1:
        lines += table_lines(_PASSES, forecast.passes, width)
    lines += table_lines(_SEGMENTS, forecast.segments[:SHOWN_SEGMENTS], width)
    if len(forecast.segments) > SHOWN_SEGMENTS:
        rest = count_of(len(forecast.segments) - SHOWN_SEGMENTS, "more segment")
        lines.append(Text(f"... and {rest}: --output ndjson has them all", "dim"))
    lines += table_lines(_KEYS, forecast.keys, width)
    return lines


def table_lines(columns: Sequence[Shown], rows: Sequence[Row], width: int) -> list[Text]:
    """A table below an empty line; nothing where there are no rows."""
    if not rows:
        return []
    cells = [[column.cell(row) for column in columns] for row in rows]
    layout = choose_layout(columns, cells, width)
    return [
        Text(),
        Text(layout.line(layout.titles), "bold underline"),
        *(Text(layout.line(texts)) for texts in cells),
    ]


def _facts(row: Row) -> list[tuple[str, str]]:
    """What stands above the tables: labels, and texts in plain words."""
    facts = [
        ("held back", plain(row["held_back_detail"]) if row.get("held_back_detail") else ""),
        ("offsets", _offsets(row)),
        ("dirty", _ratio_sentence(row)),
        ("cleans", _cleans(row)),
        ("saves", _savings(row)),
        ("keys", _keys(row)),
        ("tombstones", _tombstones(row)),
        ("retention", _retention(row)),
        ("rules", _rules(row)),
        *_settings(row),
    ]
    return [(label, text) for label, text in facts if text]


def _offsets(row: Row) -> str:
    if row.get("first_dirty_offset") is None:
        return ""
    text = f"dirty from {row['first_dirty_offset']} ({plain(row.get('first_dirty_origin'))})"
    text += f", a clean ends before {plain(row.get('first_uncleanable_offset'))}; log start {row['log_start_offset']}"
    mark = row.get("high_watermark")
    text += f", high watermark {mark}" if mark is not None else ", no high watermark on disk: the log end counts"
    stable = row.get("last_stable_offset")
    if stable is not None and stable != mark:
        text += f", last stable offset {stable}"
    return f"{text}, log end {plain(row.get('log_end_offset'))}"


def _ratio_sentence(row: Row) -> str:
    if row.get("dirty_ratio") is None:
        return ""
    cleanable, total = number(row, "cleanable_bytes"), number(row, "cleanable_bytes") + number(row, "clean_bytes")
    return (
        f"{human_bytes(cleanable)} of the {human_bytes(total)} that may be cleaned ({share(cleanable, total)}); "
        f"{human_bytes(row.get('uncleanable_bytes'))} lie behind the bound"
    )


def _cleans(row: Row) -> str:
    passes = number(row, "passes")
    if passes < 2:
        return ""
    return (
        f"{passes}, one after the other: {number(row, 'map_keys'):,} keys fit into the offset map of "
        f"{human_bytes(row.get('memory_bytes'))}; afterwards the cleaner's checkpoint is "
        f"{plain(row.get('checkpoint_offset'))}"
    )


def _savings(row: Row) -> str:
    if not row.get("passes") or row.get("bytes_after") is None:
        return ""
    saved, before = saved_bytes(row), number(row, "bytes_before")
    size = f"{human_bytes(before)} -> {human_bytes(row['bytes_after'])} ({share(saved, before)} less)"
    if saved < 0:
        size = f"{human_bytes(before)} -> {human_bytes(row['bytes_after'])} (it grows)"
    records = f"{number(row, 'records_before'):,} -> {number(row, 'records_after'):,} records in what is cleaned"
    segments = f"{number(row, 'segments_before'):,} -> {count_of(number(row, 'segments_after'), 'segment')}"
    whether = "" if row.get("would_run") else " (if it were cleaned now)"
    return f"{size}, {records}, {segments}{whether}"


def _keys(row: Row) -> str:
    if not row.get("keys"):
        return ""
    keys, lone = number(row, "keys"), number(row, "lone_tombstone_keys")
    where = "in the dirty part" if number(row, "passes") == 1 else "in the offset map of each clean, added up"
    text = f"{keys:,} distinct {where}"
    return f"{text}; {lone:,} of them ({share(lone, keys)}) have but a tombstone there" if lone else text


def _tombstones(row: Row) -> str:
    left = number(row, "tombstones_after")
    if not left and row.get("next_horizon_ms") is None:
        return ""
    text = f"{left:,} {'stays' if left == 1 else 'stay'}"
    if row.get("next_horizon_ms") is not None:
        text += f"; the first, or a marker, may go from {time_cell(row['next_horizon_ms'])} on, in the next clean"
    return text


def _retention(row: Row) -> str:
    """What a clean is not: the other half of a policy."""
    settings = cast("Mapping[str, Mapping[str, object]]", row.get("settings") or {})
    policy = str(settings.get("cleanup.policy", {}).get("value"))
    if "delete" not in policy.split(","):
        return ""
    return "cleanup.policy has delete too: the cleaner's thread deletes whole segments, as kafkalog retain says"


def _rules(row: Row) -> str:
    evidence = "; ".join(str(row.get("release_evidence") or "").split("\n"))
    return f"Kafka {plain(row.get('release'))}" + (f": {safe_text(evidence)}" if evidence else "")


def _settings(row: Row) -> list[tuple[str, str]]:
    """A line for each place that settings come from, Kafka's defaults last."""
    settings = cast("Mapping[str, Mapping[str, object]]", row.get("settings") or {})
    places: dict[str, list[str]] = {}
    for name, each in settings.items():
        value = "unlimited" if each.get("value") == str(MAX_INT64) else plain(each.get("value"))
        places.setdefault(_inside(each.get("origin"), row), []).append(f"{name}={value}")
    ordered = sorted(places.items(), key=lambda place: place[0].startswith(_DEFAULT))
    return [
        ("settings" if number == 0 else "", f"{', '.join(told)} ({origin})")
        for number, (origin, told) in enumerate(ordered)
    ]


def _inside(origin: object, row: Row) -> str:
    """Where a value comes from; a place in the same log directory by its name there."""
    return plain(origin).replace(f"{safe_text(os.path.dirname(str(row.get('path'))))}/", "")


def _reasons(row: Row) -> list[Row]:
    rows = []
    total = number(row, "records_before")
    for verb, names, column in (("stays", _KEPT, "kept"), ("goes", _DROPPED, "dropped")):
        records = cast("Mapping[str, int]", row.get(f"{column}_records") or {})
        sizes = cast("Mapping[str, int]", row.get(f"{column}_bytes") or {})
        rows += [
            {
                "what": f"{verb}: {names.get(name, safe_text(name))}",
                "records": count,
                "bytes": sizes.get(name),
                "share": share(count, total),
            }
            for name, count in records.items()
            if count
        ]
    return cast("list[Row]", rows)


def _at_least(row: Mapping[str, object], shown: str) -> str:
    """A figure of one of the biggest keys, which is a lower bound where keys are many."""
    return shown if row.get("bytes") == row.get("most_bytes") else f">= {shown}"


def _last(row: Mapping[str, object]) -> int:
    return number(row, "first_uncleanable_offset") - 1


def _labelled(label: str, text: str, width: int) -> list[Text]:
    start = f"{_INDENT}{label + ':' if label else '':12}"
    return [Text(line) for line in wrapped_lines(text, width, first=start, indent=" " * len(start))]


def wrapped(text: str, width: int, style: str) -> list[Text]:
    """Lines of a text, all but the first indented."""
    return [Text(line, style) for line in wrapped_lines(text, width, indent=_INDENT)]


KEPT_FINDINGS: Final = 500
SHOWN_PARTITIONS: Final = 200
SHOWN_DETAILS: Final = 3


def _saved(row: Mapping[str, object]) -> str:
    return human_bytes(saved_bytes(row)) if row.get("passes") and row.get("bytes_after") is not None else NONE


def _records(row: Mapping[str, object]) -> str:
    if row.get("records_after") is None:
        return NONE
    return f"{number(row, 'records_before'):,} -> {number(row, 'records_after'):,}"


_COLUMNS: Final = (
    Shown("partition", lambda row: partition_name(dict(row))),
    Shown("state", lambda row: plain(row.get("state"))),
    Shown("dirty ratio", _ratio, right=True),
    Shown("log", lambda row: human_bytes(row.get("bytes_before")), right=True),
    Shown("saves", _saved, right=True),
    Shown("records", _records, right=True, rank=3),
    Shown("cleans", lambda row: plain(row.get("passes")), right=True, rank=4),
    Shown("held back by", lambda row: plain(row.get("held_back_by")), rank=1),
    Shown("behind the bound", lambda row: human_bytes(row.get("uncleanable_bytes")), right=True, rank=2),
)


class CompactTable:
    """Takes all forecasts before it shows the first line, which is about all of them."""

    def __init__(self) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        self._console = open_console()
        self._rows: list[dict[str, object]] = []
        self._assumed: list[tuple[Assumption, ...]] = []
        self._most: list[CompactForecast] = []
        self._findings: list[Finding] = []
        self._left_out = 0

    def write(self, forecast: CompactForecast) -> None:
        """Keep what is to be shown: every partition's row, and all of those that matter most."""
        self._rows.append(forecast.partition)
        self._assumed.append(forecast.assumptions)
        room = KEPT_FINDINGS - len(self._findings)
        self._findings += forecast.findings[:room]
        self._left_out += max(0, len(forecast.findings) - room)
        self._most = sorted([*self._most, forecast], key=_weight, reverse=True)[:SHOWN_DETAILS]

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show everything, the summary last."""
        width = self._console.width
        lines: list[Text] = []
        assumed = list(dict.fromkeys(one for each in self._assumed for one in each))
        if assumed:
            lines += wrapped(forecast_note(assumed), width, "bold yellow")
        if self._rows:
            sentence, style = headline(self._rows)
            lines += wrapped(sentence, width, style)
        compacted = [row for row in self._rows if row["state"] != "not-compacted"]
        if len(self._rows) > 1:
            lines += table_lines(_COLUMNS, compacted[:SHOWN_PARTITIONS], width)
            if len(compacted) > SHOWN_PARTITIONS:
                rest = count_of(len(compacted) - SHOWN_PARTITIONS, "more partition")
                lines.append(Text(f"... and {rest}: --output ndjson has them all", "dim"))
        for forecast in self._most:
            if forecast.partition["state"] != "not-compacted":
                lines += detail_lines(forecast, width, has_title=len(self._rows) > 1)
        if len(compacted) > len(self._most):
            lines += [Text(), Text("of the others: kafkalog compact on one partition shows them in full", "dim")]
        lines += self._finding_lines(width)
        lines += [Text(), Text(summary_sentence(summary), VERDICT_STYLES[verdict(summary)])]
        self._console.print(*lines, sep="\n", soft_wrap=True)

    def _finding_lines(self, width: int) -> list[Text]:
        if not self._findings:
            return []
        lines = [Text(), Text("Findings", "bold")]
        lines += finding_lines([finding.row() for finding in self._findings], width)
        if self._left_out:
            lines.append(Text(f"... and {count_of(self._left_out, 'more finding')}: --output ndjson has all of them"))
        return lines


def _weight(forecast: CompactForecast) -> tuple[bool, bool, int]:
    """What is shown in full first: what fails, then what is compacted, then what saves most."""
    row = forecast.partition
    return row["state"] == "fails", row["state"] != "not-compacted", saved_bytes(row)
